//! Parts of a fleet and answers to them: an accepted text prints as the same text again, and a refusal is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fleet::{FleetPart, PartAnswer};

fuzz_target!(|text: &str| {
    match PartAnswer::parse(text) {
        Ok(answer) => {
            let printed = answer.to_text().expect("own numbers");
            let back = PartAnswer::parse(&printed).expect("own output");
            assert_eq!(back.to_text().expect("own numbers"), printed);
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1),
    }
    if let Ok(part) = FleetPart::parse(text) {
        let printed = part.to_text().expect("own numbers");
        assert_eq!(
            FleetPart::parse(&printed)
                .expect("own output")
                .to_text()
                .expect("own numbers"),
            printed
        );
    }
});
