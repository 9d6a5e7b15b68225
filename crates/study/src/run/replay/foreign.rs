//! Checks whether a recording comes from another machine than the machine whose figures it gets.

use std::collections::BTreeSet;

use wakepath_hardware::Machine;
use wakepath_trace::recording::Metadata;

/// Processor makers, each with words in its product names.
const MAKERS: [(&str, &[&str]); 3] = [
    (
        "Intel",
        &[
            "intel", "xeon", "skylake", "haswell", "celeron", "pentium", "atom",
        ],
    ),
    ("AMD", &["amd", "epyc", "ryzen", "zen", "threadripper"]),
    (
        "Arm",
        &[
            "arm", "cortex", "neoverse", "rockchip", "apple", "ampere", "icestorm", "qualcomm",
        ],
    ),
];

/// Evidence that a recording was made on another machine than `machine`; `None` without any.
pub fn evidence_for_other_machine(recorded: &Metadata, machine: &Machine) -> Option<String> {
    let cores: Vec<&str> = machine.cluster.iter().map(|c| c.core.as_str()).collect();
    let title = format!("{} {}", machine.title, cores.join(" "));
    evidence_by_processor_name(recorded, &title)
        .map(|what| format!("{what} ({})", machine.title))
        .or_else(|| evidence_by_cpu_count(recorded, machine.cpus()))
        .or_else(|| evidence_by_idle_states(recorded, machine))
}

/// A trace from a machine with fewer CPUs may leave most of them out by chance.
const MANY_CPUS: usize = 8;

/// Why a recording may be from another machine although nothing proves it: most CPUs of `machine` have nothing in the
/// recording.
pub fn doubt_by_few_recorded_cpus(recorded: &Metadata, machine: &Machine) -> Option<String> {
    let (theirs, ours) = (recorded.cpus as usize, machine.cpus());
    let is_doubtful = ours >= MANY_CPUS && (1..=ours / 4).contains(&theirs);
    let name = &machine.name;
    (is_doubtful && evidence_for_other_machine(recorded, machine).is_none()).then(|| {
        format!(
            "it has events of {theirs} CPUs and {name} has {ours}, so it may be of another machine, and the figures of {name} \
             then mean nothing"
        )
    })
}

fn evidence_by_processor_name(recorded: &Metadata, title: &str) -> Option<String> {
    let processor = recorded.processor.as_deref();
    let of_architecture = match recorded.architecture.as_deref() {
        Some("aarch64" | "arm" | "armv7l") => Some("Arm"),
        _ => None,
    };
    let theirs = processor.and_then(find_processor_maker).or(of_architecture);
    if let (Some(theirs), Some(ours)) = (theirs, find_processor_maker(title))
        && theirs != ours
    {
        return Some(format!("a processor of {theirs} against one of {ours}"));
    }
    let is_x86 = recorded.architecture.as_deref() == Some("x86_64");
    if is_x86 && find_processor_maker(title) == Some("Arm") {
        return Some("architecture x86_64 against Arm".to_owned());
    }
    let processor = processor?;
    let (theirs, ours) = (
        model_numbers_in_name(processor),
        model_numbers_in_name(title),
    );
    let differ = !theirs.is_empty() && !ours.is_empty() && theirs.is_disjoint(&ours);
    differ.then(|| format!("processor {processor} against another model"))
}

fn find_processor_maker(text: &str) -> Option<&'static str> {
    let words: BTreeSet<String> = words_in_processor_name(text).collect();
    let made = MAKERS
        .iter()
        .find(|(_, names)| names.iter().any(|name| words.contains(*name)));
    made.map(|(maker, _)| *maker)
}

fn words_in_processor_name(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_lowercase)
}

/// Words in a processor's name that number its model: `7502`, `8840u`, `6741p`. Clocks and short counts are none.
fn model_numbers_in_name(text: &str) -> BTreeSet<String> {
    words_in_processor_name(text)
        .filter(|word: &String| {
            let digits = word.bytes().filter(u8::is_ascii_digit).count();
            digits >= 3 && word.len() >= 4 && !word.ends_with("hz")
        })
        .collect()
}

fn evidence_by_cpu_count(recorded: &Metadata, cpus: usize) -> Option<String> {
    let theirs = recorded.cpus as usize;
    // Other tools' traces cover only the traced CPUs; recordings by `wakepath record` cover all.
    let is_exact = recorded.processor.is_some();
    let differ = theirs > cpus || (is_exact && theirs > 0 && theirs != cpus);
    differ.then(|| format!("{theirs} CPUs against {cpus}"))
}

fn evidence_by_idle_states(recorded: &Metadata, machine: &Machine) -> Option<String> {
    let theirs: BTreeSet<String> = recorded
        .idle_states
        .iter()
        .flat_map(|group| &group.states)
        .filter(|s| !s.polling)
        .map(|s| state_name_without_suffix(&s.name))
        .collect();
    let ours: BTreeSet<String> = machine
        .idle_state
        .iter()
        .filter(|s| !s.polling)
        .map(|s| state_name_without_suffix(&s.name))
        .collect();
    let differ = !theirs.is_empty() && !ours.is_empty() && theirs.is_disjoint(&ours);
    differ.then(|| {
        let [theirs, ours] = [theirs, ours].map(|names| Vec::from_iter(names).join(", "));
        format!("idle states {theirs} against {ours}")
    })
}

/// An idle state's name without the suffix that a driver adds: `C1` for `C1-SKL` and `C1_ACPI`.
fn state_name_without_suffix(name: &str) -> String {
    let end = name.find(['-', '_']).unwrap_or(name.len());
    name[..end].to_uppercase()
}

#[cfg(test)]
mod tests {
    use wakepath_hardware::IdleState;
    use wakepath_trace::recording::CpuIdleStates;
    use wakepath_units::Nanoseconds;

    use super::*;

    fn recorded(processor: Option<&str>, cpus: u32, states: &[&str]) -> Metadata {
        let states = states.iter().map(|name| IdleState {
            name: (*name).to_owned(),
            exit_latency: Nanoseconds::ZERO,
            target_residency: Nanoseconds::ZERO,
            polling: *name == "POLL",
            disabled: false,
        });
        Metadata {
            processor: processor.map(str::to_owned),
            cpus,
            idle_states: vec![CpuIdleStates {
                cpus: Vec::new(),
                states: states.collect(),
            }],
            ..Metadata::default()
        }
    }

    #[test]
    fn only_what_is_evident_shows_another_machine() {
        let machine = |name: &str| Machine::find(name).unwrap();
        let epyc = "AMD EPYC 7502 32-Core Processor";
        let other =
            |recorded: &Metadata, name: &str| evidence_for_other_machine(recorded, &machine(name));
        let own = recorded(Some(epyc), 128, &["POLL", "C1_ACPI", "C2"]);
        assert_eq!(other(&own, "epyc-7502"), None);
        for (recorded, name, what) in [
            (&own, "laptop", "processor of AMD against one of Intel"),
            (
                &recorded(Some("AMD EPYC 7302 16-Core Processor"), 128, &[]),
                "epyc-7502",
                "EPYC 7302",
            ),
            (
                &recorded(Some(epyc), 64, &[]),
                "epyc-7502",
                "64 CPUs against 128",
            ),
            (
                &recorded(None, 129, &[]),
                "epyc-7502",
                "129 CPUs against 128",
            ),
            (
                &recorded(None, 2, &["poll", "haltpoll idle"]),
                "epyc-7502",
                "HALTPOLL IDLE",
            ),
        ] {
            let found = other(recorded, name).unwrap();
            assert!(found.contains(what), "{found}");
        }
        // A trace of another tool may lack CPUs and names.
        assert_eq!(other(&recorded(None, 3, &[]), "epyc-7502"), None);
        let doubt = |cpus, name: &str| {
            doubt_by_few_recorded_cpus(&recorded(None, cpus, &[]), &machine(name))
        };
        assert!(
            doubt(6, "epyc-7502")
                .unwrap()
                .contains("6 CPUs and epyc-7502 has 128")
        );
        assert_eq!(doubt(33, "epyc-7502"), None);
        assert_eq!(doubt(1, "laptop"), None);
        assert_eq!(other(&recorded(None, 1, &[]), "laptop"), None);
        let laptop = "Intel(R) Core(TM) i7-7500U CPU @ 2.70GHz";
        assert_eq!(
            other(&recorded(Some(laptop), 4, &["POLL", "C1", "C10"]), "laptop"),
            None
        );
        let arm = Metadata {
            architecture: Some("aarch64".to_owned()),
            ..recorded(None, 4, &[])
        };
        assert!(other(&arm, "laptop").is_some());
        assert_eq!(other(&arm, "rk3399"), None);
    }
}
