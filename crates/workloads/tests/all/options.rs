//! Holds the descriptions of fio options to the parser: documented values are taken, others are refused, and defaults change
//! nothing.

#![expect(clippy::panic, reason = "a test may stop where its premises fail")]

use std::path::PathBuf;

use wakepath_workloads::fio::{
    FioJob, FioJobFile, OptionDescription, OptionSupport, OptionValues, describe_options, parse,
};

/// Parses a job with one more line.
fn parse_with(line: &str) -> Result<FioJobFile, String> {
    let text = format!("[job]\nruntime=1\n{line}\n");
    parse(&text, "job.fio").map_err(|error| error.to_string())
}

/// The job with an option; panics if the option is refused.
fn job_with(option: &str, value: &str) -> FioJob {
    let line = format!("{option}={value}");
    let file = parse_with(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    file.jobs[0].clone()
}

/// Whether a value is malformed, or accepted by fio only.
fn is_refused(option: &str, value: &str) -> bool {
    parse_with(&format!("{option}={value}")).map_or(true, |file| !file.unmodelled.is_empty())
}

/// Options that decide something else for a job by being given at all, even with their default.
const DECIDE_BY_BEING_GIVEN: [&str; 4] = [
    "thinktime_blocks",
    "scramble_buffers",
    "refill_buffers",
    "kb_base",
];

fn options_that_set_something() -> impl Iterator<Item = OptionDescription> {
    describe_options().filter(|option| option.support == OptionSupport::Full)
}

#[test]
fn documented_values_are_taken_and_others_refused() {
    for option in options_that_set_something() {
        let name = option.names[0];
        match &option.values {
            OptionValues::Flag | OptionValues::Switch => {
                let (off, on) = (job_with(name, "0"), job_with(name, "1"));
                assert_ne!(off, on, "{name}");
                assert_ne!(
                    parse_with(name).is_ok(),
                    option.values == OptionValues::Switch,
                    "{name} alone"
                );
            }
            OptionValues::Count { least, most } => {
                job_with(name, &least.max(&1).to_string());
                let is_power_of_two = name == "replay_align";
                if !is_power_of_two {
                    job_with(name, &least.to_string());
                    job_with(name, &most.to_string());
                }
                let beyond = (u64::from(*most) + 1).to_string();
                assert!(is_refused(name, &beyond), "{name}={beyond}");
                if *least > 0 {
                    let below = (least - 1).to_string();
                    assert!(is_refused(name, &below), "{name}={below}");
                }
            }
            OptionValues::Percent => {
                assert_ne!(job_with(name, "1"), job_with(name, "100"), "{name}");
                assert!(is_refused(name, "101"), "{name}");
            }
            OptionValues::Text => {
                assert!(is_refused(name, ""), "{name}");
            }
            OptionValues::Time { .. } => {
                let bare = job_with(name, "2");
                let unit = if option.values.to_string().contains("microseconds") {
                    "us"
                } else {
                    "s"
                };
                assert_eq!(bare, job_with(name, &format!("2{unit}")), "{name}");
                assert_ne!(bare, job_with(name, "2ms"), "{name}");
            }
            OptionValues::Names(names) => {
                for value in names {
                    // A strided job names its zones, too.
                    let more = if *value == "strided" {
                        "\nzonesize=1m"
                    } else {
                        ""
                    };
                    job_with(name, &format!("{value}{more}"));
                }
                assert!(is_refused(name, "neither"), "{name}");
            }
            OptionValues::InWords(words) => assert!(!words.is_empty(), "{name} has no values"),
        }
    }
}

#[test]
fn documented_defaults_change_nothing() {
    let without = job_with("description", "x");
    let mut compared = 0;
    for option in options_that_set_something() {
        let name = option.names[0];
        let default = match option.default.as_str() {
            "off" => "0",
            "on" => "1",
            default => default,
        };
        // Other defaults are words, such as "block size", or another option.
        let is_value = default.starts_with(|c: char| c.is_ascii_digit() || c == '`');
        if !is_value || default == "`size`" || DECIDE_BY_BEING_GIVEN.contains(&name) {
            continue;
        }
        let mut with = job_with(name, default.trim_matches('`'));
        with.description.clone_from(&without.description);
        assert_eq!(with, without, "{name}={default}");
        compared += 1;
    }
    assert!(compared > 60, "only {compared} defaults are values");
}

#[test]
fn every_option_is_described() {
    for option in describe_options() {
        let is_told = !option.note.is_empty() || option.names[0] == "rwmixread";
        let values_suffice = matches!(
            option.values,
            OptionValues::Names(_) | OptionValues::InWords(_)
        ) && option.support == OptionSupport::Full;
        assert!(is_told || values_suffice, "{:?}", option.names);
    }
}

#[test]
fn the_page_has_every_option() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/fio-jobs.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    for name in describe_options().flat_map(|option| option.names) {
        let quoted = format!("`{name}`");
        let named = |row: &&str| row.split('|').nth(1).unwrap().contains(&quoted);
        assert!(rows.iter().any(named), "fio-jobs.md lacks {name}");
    }
}
