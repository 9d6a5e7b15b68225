//! Every form, and what is wrong with damaged ones.

use wakepath_units::Microwatts;

use super::*;
use crate::drive::Drive;
use proptest::prelude::*;

/// A dump of an SN530-like drive.
fn binary() -> Vec<u8> {
    let mut data = vec![0; SIZE];
    data[..4].copy_from_slice(&[0xb7, 0x15, 0x28, 0x10]);
    data[24..64].fill(b' ');
    data[24..32].copy_from_slice(b"PC SN530");
    data[64..72].copy_from_slice(b"HPS2    ");
    data[263] = 1;
    data[265] = 1;
    data[280..288].copy_from_slice(&CAPACITY_BYTES.to_le_bytes());
    data[2048..2050].copy_from_slice(&350_u16.to_le_bytes());
    let ps1 = &mut data[2080..2112];
    ps1[..2].copy_from_slice(&250_u16.to_le_bytes());
    ps1[3] = 3;
    ps1[4..8].copy_from_slice(&3900_u32.to_le_bytes());
    ps1[8..12].copy_from_slice(&4_000_000_000_u32.to_le_bytes());
    ps1[12..16].copy_from_slice(&[1, 2, 3, 4]);
    ps1[16..18].copy_from_slice(&5_u16.to_le_bytes());
    ps1[18] = 0x40;
    ps1[20..22].copy_from_slice(&160_u16.to_le_bytes());
    ps1[22] = 0x82;
    data
}

const TEXT: &str = "\
NVME Identify Controller:
vid       : 0x15b7
ssvid     : 0x1028
sn        : 123
mn        : PC SN530                                \n\
fr        : HPS2    \n\
npss      : 1
apsta     : 0x1
tnvmcap   : 256060514304
  [0:0] : 0x1\tAutonomous Power State Transitions Supported
subnqn    : nqn.2014-08.org.example:uuid:ps 0
ps      0 : mp:3.50W operational enlat:0 exlat:0 rrt:0 rrl:0
        rwt:0 rwl:0 idle_power:- active_power:-
        active_power_workload:-
ps      1 : mp:0.0250W non-operational enlat:3900 exlat:-294967296 rrt:1 rrl:2
        rwt:3 rwl:4 idle_power:0.0005W active_power:1.60W
        active_power_workload:80K 128KiB SW
";

const JSON: &str = r#"{"vid":5559,"ssvid":4136,"mn":"PC SN530   ","fr":"HPS2    ","npss":1,
"apsta":1,"tnvmcap":"256060514304","psds":[
{"max_power":350,"flags":0,"entry_lat":0,"exit_lat":0,"read_tput":0,"read_lat":0,"write_tput":0,
 "write_lat":0,"idle_power":0,"idle_scale":0,"active_power":0,"active_power_work":0,
 "active_scale":0},
{"max_power":250,"flags":3,"entry_lat":3900,"exit_lat":-294967296,"read_tput":1,"read_lat":2,
 "write_tput":3,"write_lat":4,"idle_power":5,"idle_scale":1,"active_power":160,
 "active_power_work":2,"active_scale":2}]}"#;

/// The drive's capacity in all three forms, `TNVMCAP`.
const CAPACITY_BYTES: u64 = 256_060_514_304;

/// The capacity with another line in the text.
fn capacity_with_line(line: &str) -> Option<u64> {
    read(&TEXT.replace("tnvmcap   : 256060514304", line)).capacity_bytes
}

#[test]
fn a_capacity_is_read_in_each_form_and_no_other_text_is_an_error() {
    for line in [
        "tnvmcap : 256060514304",
        "Total NVM Capacity:    256,060,514,304 [256 GB]",
    ] {
        assert_eq!(capacity_with_line(line), Some(CAPACITY_BYTES), "{line}");
    }
    for line in [
        "tnvmcap : 0",
        "tnvmcap : 256 GB",
        "tnvmcap : -1",
        "tnvmcap : 1e99",
        "",
    ] {
        assert_eq!(capacity_with_line(line), None, "{line}");
    }
    for (value, bytes) in [
        ("256060514304", Some(CAPACITY_BYTES)),
        ("256060514304.0", Some(CAPACITY_BYTES)),
        ("-1", None),
        ("1e300", None),
        ("null", None),
        ("[]", None),
    ] {
        let json = JSON.replace("\"256060514304\"", value);
        assert_eq!(read(&json).capacity_bytes, bytes, "{value}");
    }
    let mut beyond = binary();
    beyond[295] = 1;
    assert_eq!(
        parse_drive_dump("dump", &beyond)
            .unwrap()
            .drive
            .capacity_bytes,
        None
    );
}

fn read(text: &str) -> Drive {
    parse_drive_dump("dump", text.as_bytes()).unwrap().drive
}

fn error(data: impl AsRef<[u8]>) -> String {
    parse_drive_dump("dump", data.as_ref())
        .unwrap_err()
        .to_string()
}

#[test]
fn the_three_forms_say_the_same() {
    let drive = parse_drive_dump("dump", &binary()).unwrap().drive;
    assert_eq!(drive.model, "PC SN530");
    assert_eq!(drive.firmware, "HPS2");
    assert_eq!(drive.capacity_bytes, Some(CAPACITY_BYTES));
    assert_eq!(drive.vendor_id, Some(0x15b7));
    assert_eq!(drive.apsta, Some(true));
    assert_eq!(drive.states[0].max_power, Some(Microwatts(3_500_000)));
    let ps1 = &drive.states[1];
    assert!(ps1.non_operational);
    assert_eq!(ps1.max_power, Some(Microwatts(25_000)));
    assert_eq!(ps1.exit_latency_us, 4_000_000_000);
    assert_eq!(ps1.idle_power, Some(Microwatts(500)));
    assert_eq!(ps1.active_power, Some(Microwatts(1_600_000)));
    assert_eq!(read(TEXT), drive);
    assert_eq!(read(JSON), drive);
}

#[test]
fn a_missing_apsta_is_unknown() {
    let text = TEXT.replace("apsta     : 0x1\n", "");
    assert_eq!(read(&text).apsta, None);
    let json = JSON.replace("\"apsta\":1,", "");
    assert_eq!(read(&json).apsta, None);
}

#[test]
fn useless_binaries_are_named() {
    assert!(
        error("").starts_with("dump: the file is empty, expected the output of `nvme id-ctrl`")
    );
    assert_eq!(
        error(&binary()[..512]),
        "dump: 512 bytes, expected the 4096 of `nvme id-ctrl -b`"
    );
    assert_eq!(
        error([0; SIZE]),
        "dump: not an Identify Controller dump: vendor id and model are empty"
    );
    let mut many = binary();
    many[263] = 40;
    assert_eq!(
        error(many),
        "dump: npss is 40, but 31 is the last possible power state"
    );
}

#[test]
fn useless_text_is_named_with_its_line() {
    let with = |from, to| error(TEXT.replacen(from, to, 1));
    assert_eq!(
        with("npss      : 1", "npss      : 40"),
        "dump:7: npss is 40, but 31 is the last possible power state"
    );
    assert_eq!(
        with("npss      : 1", "npss      : 4"),
        "dump: npss 4 means 5 power states, but 2 are listed"
    );
    let ps = TEXT.find("ps      0 : mp").unwrap();
    assert_eq!(
        error(&TEXT[..ps]),
        "dump: npss 1 means 2 power states, but 0 are listed"
    );
    assert_eq!(
        with("exlat:0", "exlat:fast"),
        "dump:12: ps 0 exlat is \"fast\", expected microseconds from 0 to 4294967295"
    );
    assert!(with("mp:3.50W", "mp:NaNW").starts_with("dump:12: ps 0 mp is \"NaNW\""));
    assert!(with("enlat:3900 ", "").contains("ps 1 enlat is missing"));
    assert!(
        with("ps      1", "ps      7")
            .starts_with("dump:15: power state 7 follows where 1 is expected")
    );
    let foreign = error("hello\n");
    assert!(
        foreign.contains("expected the output of `nvme id-ctrl`")
            && foreign.contains("`smartctl -a`"),
        "{foreign}"
    );
}

#[test]
fn useless_json_is_named_with_its_place() {
    let with = |from, to| error(JSON.replacen(from, to, 1));
    assert!(error("{\n\"vid\": }").starts_with("dump:2: column 8: not valid JSON: "));
    assert!(error("[]").contains("no power states of an NVMe drive in it"));
    assert!(error("{}").contains("no power states of an NVMe drive in it"));
    assert!(with("\"npss\":1", "\"npss\":40").contains("npss is 40"));
    assert!(with("\"npss\":1", "\"npss\":-1").contains("npss is -1"));
    assert!(with("\"npss\":1", "\"npss\":2").contains("but 2 are listed"));
    assert!(with("psds", "psd").contains("an NVMe drive without its power states"));
    assert!(with("\"entry_lat\":3900", "\"entry_lat\":\"x\"").contains("psds[1].entry_lat"));
    assert!(with("\"entry_lat\":3900,", "").contains("psds[1].entry_lat is missing"));
    assert!(with("\"flags\":3", "\"flags\":1e300").contains("psds[1].flags"));
}

proptest! {
    #[test]
    fn no_input_panics(data in prop::collection::vec(any::<u8>(), 0..5000)) {
        let _ = parse_drive_dump("dump", &data);
    }

    #[test]
    fn no_damaged_text_panics(at in 0..TEXT.len(), with in "\\PC{0,4}", json in any::<bool>()) {
        let original = if json { JSON } else { TEXT };
        let at = at.min(original.len());
        let text = format!("{}{with}{}", &original[..at], &original[at..]);
        let _ = parse_drive_dump("dump", text.as_bytes());
        let _ = parse_drive_dump("dump", &original.as_bytes()[..at]);
    }

    #[test]
    fn every_structure_with_a_model_is_read(mut data in prop::collection::vec(any::<u8>(), SIZE)) {
        data[0] = 1;
        data[100] = 0;
        data[263] %= 32;
        let drive = parse_drive_dump("dump", &data).unwrap().drive;
        prop_assert_eq!(drive.states.len(), usize::from(data[263]) + 1);
    }
}

/// What planning needs of a drive.
fn planned(drive: &Drive) -> Vec<(bool, Option<Microwatts>, u32, u32)> {
    let states = drive.states.iter();
    states
        .map(|s| {
            let latencies = (s.entry_latency_us, s.exit_latency_us);
            (s.non_operational, s.max_power, latencies.0, latencies.1)
        })
        .collect()
}

#[test]
fn json_of_every_nvme_cli_says_the_same() {
    let drive = read(JSON);
    let newer = JSON
        .replace(
            "\"flags\":0",
            "\"max_power_scale\":0,\"non-operational_state\":0",
        )
        .replace(
            "\"flags\":3",
            "\"max_power_scale\":1,\"non-operational_state\":1",
        );
    // Whole bytes of the descriptor, as up to 1.16.
    let older = JSON
        .replace("\"idle_scale\":1", "\"idle_scale\":64")
        .replace(
            "\"active_power_work\":2,\n \"active_scale\":2",
            "\"active_work_scale\":130",
        );
    let texts = JSON
        .replace("\"npss\":1", "\"npss\":\"1\"")
        .replace("\"vid\":5559", "\"vid\":\"0x15b7\"")
        .replace("\"flags\":3", "\"flags\":\"0x3\"")
        .replace("3900", "\"3900\"");
    let shown = format!("```json\n$ nvme id-ctrl /dev/nvme0 -o json\n{JSON}\n```\nThanks\n");
    let quoted = shown
        .lines()
        .map(|line| format!("> {line}\n"))
        .collect::<Vec<String>>()
        .concat();
    for text in [
        &newer,
        &older,
        &texts,
        &shown,
        &quoted,
        &format!("[{JSON}]"),
    ] {
        assert_ne!(text, JSON);
        assert_eq!(read(text), drive, "{text}");
    }
    let message = error(newer.replace("\"non-operational_state\":1,", ""));
    assert!(
        message.contains("psds[1].non-operational_state is missing"),
        "{message}"
    );
}

const LINES: &str = "\
ps    0 : mp:3.00W operational enlat:0 exlat:0 rrt:0 rrl:0
          rwt:0 rwl:0 idle_power:- active_power:-
ps    1 : mp:0.1000W non-operational enlat:1000 exlat:1000 rrt:1 rrl:1
          rwt:1 rwl:1 idle_power:- active_power:0.5000W
";

#[test]
fn lines_of_power_states_are_read_however_they_were_pasted() {
    let found = parse_drive_dump("dump", LINES.as_bytes()).unwrap();
    assert!(found.unnamed && found.npss_assumed && found.drive.apsta.is_none());
    assert_eq!(found.drive.model, "drive of dump");
    let assumed = found.describe_assumptions().unwrap();
    assert!(
        assumed.contains("name") && assumed.contains("2 power states"),
        "{assumed}"
    );
    let edited = |line: fn(&str) -> String| LINES.lines().map(line).collect::<String>();
    for text in [
        edited(|line| format!("> {line}\n")),
        edited(|line| format!(">> > \u{a0}{line}\r\n")),
        edited(|line| format!("    {}\n", line.trim())),
        edited(|line| format!("{}\n\n", line.trim())),
        edited(|line| format!("{line}\n[...]\n")),
        LINES.replace(" enlat", "\nenlat"),
        LINES.replace(" non-operational", "\n> non-operational"),
        LINES.replace("ps    0", "Here they are:\n\nps 0"),
        LINES.repeat(2),
        LINES.replace(':', ": "),
        LINES.replace(':', " : ").replace("W ", " W "),
        edited(|line| format!("node7: {line}\n")),
        edited(|line| format!("node7:{line}\n")).replace("node7:ps", "node7: ps"),
        format!("node7 | CHANGED | rc=0 >>\n{LINES}"),
        "node7:\n".to_owned() + &edited(|line| format!("    {line}\n")),
    ] {
        assert_eq!(read(&text).states, found.drive.states, "{text}");
    }
    for mark in ["\u{feff}", ""] {
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            let units = mark.encode_utf16().chain(LINES.encode_utf16());
            let wide: Vec<u8> = units.flat_map(order).collect();
            assert_eq!(parse_drive_dump("dump", &wide).unwrap(), found);
        }
    }
    let both = edited(|line| format!("a: {line}\n")) + &edited(|line| format!("b: {line}\n"));
    let error = parse_drive_dump("dump", both.as_bytes())
        .unwrap_err()
        .to_string();
    assert!(error.contains("machines (`a` and `b`)"), "{error}");
    let named = format!("mn        : EXAMPLE SSD\n[...]\n{LINES}");
    let found = parse_drive_dump("dump", named.as_bytes()).unwrap();
    assert_eq!(found.drive.model, "EXAMPLE SSD");
    let assumed = found.describe_assumptions().unwrap();
    assert!(assumed.starts_with("npss is not in it"), "{assumed}");
    assert_eq!(
        parse_drive_dump("dump", TEXT.as_bytes())
            .unwrap()
            .describe_assumptions(),
        None
    );
}

#[test]
fn powers_whose_hundredths_an_old_tool_lost_are_unknown() {
    let old = LINES
        .replace(
            "idle_power:- active_power:-",
            "idle_power:0.02W active_power:3.02W",
        )
        .replace(
            "idle_power:- active_power:0.5000W",
            "idle_power:- active_power:0.0200W",
        );
    let found = parse_drive_dump("dump", old.as_bytes()).unwrap();
    let first = &found.drive.states[0];
    assert_eq!((first.idle_power, first.active_power), (None, None));
    assert!(
        found
            .describe_assumptions()
            .unwrap()
            .contains("nvme-cli up to 1.11")
    );
    // By chance alone.
    for other in [old.replace("3.02W", "3.50W"), old.replace("0.02W", "-")] {
        let found = parse_drive_dump("dump", other.as_bytes()).unwrap();
        assert!(!found.coarse_powers && found.drive.states[0].active_power.is_some());
    }
}

#[test]
fn states_that_cannot_be_of_one_drive_are_refused() {
    let other = format!("{LINES}{}", LINES.replace("exlat:1000", "exlat:9"));
    assert!(error(other).contains("power state 1 is there a second time"));
    let cut = LINES.replace("ps    0", "ps    2");
    assert!(error(&cut).contains("power state 2 follows where 0 is expected"));
    let asleep_only = LINES
        .lines()
        .skip(2)
        .map(|l| format!("{l}\n"))
        .collect::<Vec<String>>()
        .concat();
    assert!(error(asleep_only).contains("power state 1 follows where 0"));
    assert!(error("mn : X\nfr : 1\n").contains("without its power states"));
    assert!(error("npss : 4\n").contains("5 power states, but 0 are listed"));
}

const SMARTCTL: &str = "\
Model Number:                       EXAMPLE SSD
Firmware Version:                   1
PCI Vendor/Subsystem ID:            0x1987

Supported Power States
St Op     Max   Active     Idle   RL RT WL WT  Ent_Lat  Ex_Lat
 0 +     5.00W    4.50W  0.6300W    0  1  2  3        0       0
 1 -   0.0500W       -        -    4  5  6  7     5000   10000

Supported LBA Sizes (NSID 0x1)
Id Fmt  Data  Metadt  Rel_Perf
 0 +     512       0         2
 1 -    4096       0         1
";

#[test]
fn smartctl_is_read_as_text_and_as_json() {
    let drive = read(SMARTCTL);
    assert_eq!(
        (drive.model.as_str(), drive.vendor_id),
        ("EXAMPLE SSD", Some(0x1987))
    );
    let (first, last) = (&drive.states[0], &drive.states[1]);
    assert_eq!(drive.states.len(), 2);
    assert_eq!(first.active_power, Some(Microwatts(4_500_000)));
    assert_eq!(first.idle_power, Some(Microwatts(630_000)));
    assert_eq!(
        (first.read_latency_rank, first.read_throughput_rank),
        (0, 1)
    );
    assert_eq!(
        (first.write_latency_rank, first.write_throughput_rank),
        (2, 3)
    );
    assert!(last.non_operational && last.exit_latency_us == 10_000);
    let rows = SMARTCTL
        .lines()
        .skip(6)
        .take(2)
        .map(|l| format!("> {l}\n"))
        .collect::<Vec<String>>()
        .concat();
    assert_eq!(read(&rows).states, drive.states);
    let npss_is_assumed = |text: &str| {
        parse_drive_dump("dump", text.as_bytes())
            .unwrap()
            .npss_assumed
    };
    assert!(npss_is_assumed(&rows) && !npss_is_assumed(SMARTCTL));
    let json = r#"{"model_name":"EXAMPLE SSD","nvme_pci_vendor":{"id":6535,"subsystem_id":6535},
        "nvme_power_states":[
        {"non_operational_state":false,"relative_read_latency":0,"relative_read_throughput":1,
         "relative_write_latency":2,"relative_write_throughput":3,
         "entry_latency_us":0,"exit_latency_us":0,
         "max_power":{"value":500,"scale":2,"units_per_watt":100},
         "active_power":{"value":450,"scale":2},"idle_power":{"value":6300,"units_per_watt":10000}},
        {"non_operational_state":true,"entry_latency_us":5000,"exit_latency_us":10000,
         "max_power":{"value":500,"scale":1,"units_per_watt":10000}}]}"#;
    let of_json = read(json);
    assert_eq!(planned(&of_json), planned(&drive));
    assert_eq!(of_json.states[0], drive.states[0]);
    let message = error(json.replace("\"exit_latency_us\":10000,", ""));
    assert!(
        message.contains("nvme_power_states[1].exit_latency_us is missing"),
        "{message}"
    );
    assert!(
        error(SMARTCTL.replace("  10000", "")).contains("dump:8: state 1 is a row of 10 columns")
    );
    let info = SMARTCTL
        .lines()
        .take(3)
        .map(|l| format!("{l}\n"))
        .collect::<Vec<String>>()
        .concat();
    assert!(error(info).contains("without its power states"));
}

proptest! {
    #[test]
    fn no_damaged_smartctl_panics(at in 0..SMARTCTL.len(), with in "\\PC{0,4}") {
        let text = format!("{}{with}{}", &SMARTCTL[..at], &SMARTCTL[at..]);
        let _ = parse_drive_dump("dump", text.as_bytes());
    }
}

#[test]
fn a_drive_of_another_bus_is_called_so() {
    let sata = "Device Model:     Samsung SSD 870 EVO 1TB\nFirmware Version: SVT02B6Q\n\
        SATA Version is:  SATA 3.3, 6.0 Gb/s (current: 6.0 Gb/s)\n";
    let sas = "> Vendor: SEAGATE\n> Transport protocol:   SAS (SPL-4)\n";
    let json = |bus: &str| {
        format!(
            "{{\n  \"device\": {{\n    \"protocol\": \"{bus}\"\n  }},\n  \"model_name\": \"X\"\n}}\n"
        )
    };
    for (text, bus) in [
        (sata.to_owned(), "SATA"),
        (sas.to_owned(), "SAS"),
        (json("ATA"), "SATA"),
        (json("SCSI"), "SAS"),
    ] {
        let problem = parse_drive_dump("dump", text.as_bytes())
            .unwrap_err()
            .problem;
        assert_eq!(problem, IdCtrlProblem::OtherBus(bus), "{text}");
    }
    assert!(parse_drive_dump("dump", format!("{sata}{TEXT}").as_bytes()).is_ok());
}

#[test]
fn the_table_of_nvmecontrol_is_read() {
    let text = "\nPower States Supported: 2\n\n\
         \u{20}#   Max pwr  Enter Lat  Exit Lat RT RL WT WL Idle Pwr  Act Pwr Workload\n\
         --  --------  --------- --------- -- -- -- -- -------- -------- --\n\
         \u{20}0:  8.5000W    0.000ms   0.000ms  0  0  0  0  0.6300W  5.0000W 2\n\
         \u{20}1:  0.0500W*   2.210ms  11.500ms  1  2  3  4  0.0000W  0.0000W 0\n";
    let found = parse_drive_dump("dump", text.as_bytes()).unwrap();
    assert!(found.unnamed && !found.npss_assumed && found.drive.npss == 1);
    let [first, second] = &found.drive.states[..] else {
        panic!("{found:?}");
    };
    assert_eq!(first.max_power, Some(Microwatts(8_500_000)));
    assert_eq!(first.idle_power, Some(Microwatts(630_000)));
    assert!(!first.non_operational && second.non_operational);
    let latencies = (second.entry_latency_us, second.exit_latency_us);
    assert_eq!((latencies, second.write_latency_rank), ((2210, 11_500), 4));
    assert_eq!(second.idle_power, None);
    let wrong = text.replace("2.210ms", "2.21ms");
    let error = parse_drive_dump("dump", wrong.as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("dump:7: state 1 Enter Lat is \"2.21ms\""),
        "{error}"
    );
}

#[test]
fn tabs_and_decimal_commas_are_read() {
    let found = parse_drive_dump("dump", TEXT.as_bytes()).unwrap();
    let tabs = TEXT.replace(" : ", "\t:\t");
    assert_eq!(parse_drive_dump("dump", tabs.as_bytes()).unwrap(), found);
    let commas: String = LINES.split_inclusive([' ', '\n']).map(comma).collect();
    let read = parse_drive_dump("dump", commas.as_bytes()).unwrap();
    let expected = parse_drive_dump("dump", LINES.as_bytes()).unwrap();
    assert_eq!(read.drive.states, expected.drive.states);
}

/// A power as some locales print it.
fn comma(word: &str) -> String {
    if word.trim_end().ends_with('W') {
        word.replace('.', ",")
    } else {
        word.to_owned()
    }
}
