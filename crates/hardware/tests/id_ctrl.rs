//! Identify Controller dumps against the real nvme-cli: what it prints as text and as JSON for a
//! controller must read back as the controller that its binary describes.

mod nvme_cli;

use nvme_cli::NvmeCli;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use wakepath_hardware::drive::{Drive, id_ctrl};

const CONTROLLERS: usize = 200;

prop_compose! {
    /// A power state descriptor of any bits.
    fn descriptor()(
        mut bytes in prop::array::uniform32(any::<u8>()),
        typical in any::<bool>(),
        entry in 0_u32..100_000,
        exit in 0_u32..100_000,
    ) -> [u8; 32] {
        if typical {
            bytes[4..8].copy_from_slice(&entry.to_le_bytes());
            bytes[8..12].copy_from_slice(&exit.to_le_bytes());
        }
        bytes
    }
}

prop_compose! {
    /// A controller with anything in the fields that wakepath reads.
    fn controller()(
        vendors in any::<[u8; 4]>(),
        model in "[!-~][ -~]{0,39}",
        firmware in "[ -~]{0,8}",
        apsta in any::<u8>(),
        states in prop::collection::vec(descriptor(), 1..=32),
    ) -> Vec<u8> {
        let mut data = vec![0; id_ctrl::SIZE];
        data[..4].copy_from_slice(&vendors);
        data[4..24].fill(b'1');
        data[24..64].copy_from_slice(format!("{model:<40}").as_bytes());
        data[64..72].copy_from_slice(format!("{firmware:<8}").as_bytes());
        data[263] = (states.len() - 1) as u8;
        data[265] = apsta;
        for (i, state) in states.iter().enumerate() {
            data[2048 + 32 * i..2080 + 32 * i].copy_from_slice(state);
        }
        data
    }
}

#[test]
fn nvme_cli_prints_what_its_binary_says() {
    let Some(nvme) = NvmeCli::prepare("id_ctrl") else {
        return;
    };
    let mut runner = TestRunner::deterministic();
    for _ in 0..CONTROLLERS {
        let data = controller().new_tree(&mut runner).unwrap().current();
        let read = |format: &[&str]| -> Drive {
            let arguments = [&["id-ctrl", "/dev/null"], format].concat();
            let printed = nvme.output("SHIM_IDENTIFY", &data, &arguments);
            let found = id_ctrl::parse_dump("dump", &printed).unwrap_or_else(|e| {
                panic!("{format:?}: {e}\n{}", String::from_utf8_lossy(&printed))
            });
            assert_eq!(found.describe_assumptions(), None);
            found.drive
        };
        let binary = read(&["-b"]);
        assert_eq!(binary, id_ctrl::parse_dump("dump", &data).unwrap().drive);
        assert_eq!(read(&["-o", "json"]), binary);
        assert_eq!(read(&[]), binary);
        assert_eq!(read(&["-H"]), binary);
    }
}
