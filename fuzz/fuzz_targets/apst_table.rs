//! APST tables: any 256 bytes are decoded and encode to the same bytes; text is a table or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_policies::apst::ApstTable;
use wakepath_policies::apst::printed::PrintedTable;

fuzz_target!(|data: &[u8]| {
    match ApstTable::from_bytes(data) {
        Ok(table) => {
            assert_eq!(table.to_bytes().as_slice(), data);
            assert_eq!(table.entries().count(), 32);
            let _ = table.find_problems(data.first().copied());
            let _ = table.find_problems(None);
        }
        Err(_) => assert_ne!(data.len(), 256),
    }
    if let Ok(printed) = PrintedTable::parse(data) {
        assert!(printed.missing < 32);
    }
});
