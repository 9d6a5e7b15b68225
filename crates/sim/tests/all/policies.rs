//! What policy sets mean to a simulated machine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveInForce, DriveModel, LatencyRequest, builtin_machine_names};
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::{MECHANISMS, Place};
use wakepath_sim::{
    Run, SimError, expand_profile_for_machine, machine_under_policies, policies_in_force, simulate,
};
use wakepath_workloads::{Workload, fio};

const SERVER: &str = "skylake-2s-server";

fn set(text: &str) -> PolicySet {
    text.parse().unwrap()
}

fn job() -> Workload {
    let text = "[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\nrw=randread\nthinktime=1ms\n\
                time_based\nruntime=100ms\n";
    fio::parse(text, "test.fio").unwrap().into()
}

fn run_on(machine: &Machine, policies: &str) -> Result<Run, SimError> {
    simulate(machine, &job(), &set(policies), 1)
}

/// All that a run says.
fn all(machine: &Machine, policies: &str) -> String {
    let run = run_on(machine, policies);
    assert!(run.is_ok(), "{policies}: {:?}", run.err());
    let run = run.unwrap();
    format!("{} {:?}", serde_json::to_string(&run).unwrap(), run.details)
}

#[test]
fn what_a_set_does_not_name_is_as_the_kernel_has_it() {
    let machine = Machine::find("rk3399").unwrap();
    assert_eq!(
        all(&machine, "unchanged"),
        all(&machine, "schedutil + menu")
    );
    assert_ne!(all(&machine, "unchanged"), all(&machine, "performance"));
    let mut laptop = Machine::find("laptop").unwrap();
    laptop.drive = DriveModel::find("sn530").unwrap();
    let in_force = policies_in_force(&laptop, &set("teo@6.1")).unwrap();
    assert_eq!(in_force, set("teo@6.1 + schedutil + apst"));
}

#[test]
fn a_captured_drive_without_apst_never_sleeps_unless_a_set_says_so() {
    let mut laptop = Machine::find("laptop").unwrap();
    laptop.drive = DriveModel::find("sn530").unwrap();
    laptop.drive.in_force = Some(DriveInForce {
        latency_tolerance_us: Some("auto".to_owned()),
        apst: Some(false),
        table: Vec::new(),
    });
    let in_force = |text| policies_in_force(&laptop, &set(text)).unwrap();
    let off = set("menu + schedutil + apst[max_latency_us=0]");
    assert_eq!(in_force("unchanged"), off);
    assert_eq!(in_force("apst"), set("menu + schedutil + apst"));
    // The kernel programs its table anew whenever the latency tolerance changes.
    assert_eq!(
        in_force("drive-latency[tolerance=25ms]"),
        set("menu + schedutil + apst + drive-latency[tolerance=25ms]")
    );
    assert_eq!(
        all(&laptop, "unchanged"),
        all(&laptop, "apst[max_latency_us=0]")
    );
}

#[test]
fn every_mechanism_says_rightly_whether_it_is_simulated() {
    let mut machine = Machine::find("intel-tbench-80t").unwrap();
    machine.drive = DriveModel::find("sn530").unwrap();
    // Governors of one's own have to be loaded first.
    let own = ["c", "exec"];
    for mechanism in MECHANISMS.iter().filter(|m| !own.contains(&m.name)) {
        let text = match mechanism.name {
            "epp" | "hwp-boost" => format!("{} + intel_pstate-hwp", mechanism.example_policy()),
            "idle-states" => "idle-states[ceiling=20us]".to_owned(),
            _ => mechanism.example_policy(),
        };
        let machine = match mechanism.name {
            "epp" | "hwp-boost" | "intel_pstate-hwp" | "intel_pstate" | "turbo" => {
                Machine::find(SERVER).unwrap()
            }
            "irq-affinity" => Machine::find("rk3399").unwrap(),
            "amd-pstate" => Machine::find("turin0").unwrap(),
            _ => machine.clone(),
        };
        let ran = run_on(&machine, &text);
        let expected = mechanism.on.contains(&Place::Sim);
        assert_eq!(ran.is_ok(), expected, "{text}: {:?}", ran.err());
    }
}

/// The idle states that a set switches off on the server.
fn states_switched_off(policies: &str) -> Vec<String> {
    let server = Machine::find(SERVER).unwrap();
    let machine = machine_under_policies(&server, &set(policies)).unwrap();
    let off = machine.idle_state.iter().filter(|state| state.disabled);
    off.map(|state| state.name.clone()).collect()
}

#[test]
fn idle_states_are_off_by_name_or_above_the_ceiling() {
    assert!(states_switched_off("menu").is_empty());
    assert_eq!(states_switched_off("idle-states[disable=c6]"), ["C6"]);
    let ceiling = states_switched_off("idle-states[ceiling=C1E]");
    assert!(ceiling.contains(&"C6".to_owned()), "{ceiling:?}");
    assert_eq!(ceiling, states_switched_off("idle-states[ceiling=10us]"));
}

#[test]
fn the_shallowest_state_stays_on_under_any_ceiling() {
    let states = Machine::find(SERVER).unwrap().idle_state.len();
    let off = states_switched_off("idle-states[ceiling=0us]");
    assert_eq!(off.len(), states - 1);
}

#[test]
fn no_cpu_enters_a_state_above_the_ceiling() {
    let server = Machine::find(SERVER).unwrap();
    let entries = |policies: &str| -> u64 {
        let run = run_on(&server, policies).unwrap();
        let deep = run.idle_states.iter().filter(|s| s.name.starts_with("C6"));
        deep.map(|state| state.entries).sum()
    };
    assert!(entries("menu") > 0);
    assert_eq!(entries("menu + idle-states[ceiling=C1E]"), 0);
}

#[test]
fn an_unknown_idle_state_is_refused_with_those_that_there_are() {
    let server = Machine::find(SERVER).unwrap();
    for text in ["idle-states[disable=C9]", "idle-states[ceiling=C9]"] {
        let error = run_on(&server, text).unwrap_err().to_string();
        let says = "there are POLL, C1, C1E";
        assert!(error.contains(text) && error.contains(says), "{error}");
    }
}

/// The latency requests of a set on the server.
fn latency_requests(policies: &str) -> Vec<LatencyRequest> {
    let server = Machine::find(SERVER).unwrap();
    let machine = machine_under_policies(&server, &set(policies)).unwrap();
    machine.latency_requests.clone()
}

#[test]
fn a_latency_request_is_for_all_cpus_or_those_that_it_names() {
    assert_eq!(
        latency_requests("cpu-latency[limit=20us]"),
        [LatencyRequest::system_wide(20)]
    );
    assert_eq!(
        latency_requests("cpu-latency[limit=5us,cpus=1-2]"),
        [LatencyRequest {
            us: 5,
            cpus: vec![1, 2]
        }]
    );
    // One for each cluster, since a limit may be the name of a state.
    let clusters = latency_requests("cpu-latency[limit=5us,cpus=all]");
    let limited: usize = clusters.iter().map(|request| request.cpus.len()).sum();
    assert_eq!(limited, Machine::find(SERVER).unwrap().cpus());
}

#[test]
fn a_latency_request_of_none_lifts_what_the_machine_has() {
    assert!(latency_requests("cpu-latency[limit=none]").is_empty());
    let mut server = Machine::find(SERVER).unwrap();
    server.replace_latency_request_of_cpus(&(0..server.cpus()).collect::<Vec<_>>(), Some(7));
    let lifted = machine_under_policies(&server, &set("cpu-latency[limit=none,cpus=0]")).unwrap();
    assert_eq!(lifted.smallest_latency_request(0), None);
    assert_eq!(
        lifted.smallest_latency_request(1).map(|limit| limit.0),
        Some(7_000)
    );
}

#[test]
fn a_latency_request_may_name_a_state_or_its_number() {
    let server = Machine::find(SERVER).unwrap();
    let states = server.common_declared_idle_states().unwrap();
    for (text, state) in [("state=C1E", 2), ("state=1", 1), ("state=1,limit=3us", 1)] {
        let us = states[state].exit_latency.as_micros();
        let requested = latency_requests(&format!("cpu-latency[{text}]"));
        assert_eq!(requested, [LatencyRequest::system_wide(us)], "{text}");
    }
}

#[test]
fn latency_requests_of_unknown_states_and_cpus_are_refused() {
    let server = Machine::find(SERVER).unwrap();
    for (text, says) in [
        ("cpu-latency[state=C9]", "`C9` here; there are POLL"),
        ("cpu-latency[limit=5us,cpus=0,9999]", "no CPU 9999"),
    ] {
        let error = run_on(&server, text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_latency_request_reaches_the_idle_governor() {
    let server = Machine::find(SERVER).unwrap();
    assert_ne!(
        all(&server, "menu"),
        all(&server, "menu + cpu-latency[limit=2us]")
    );
}

/// A ceiling by name means the state of this machine.
#[test]
fn a_lease_ceiling_by_name_is_the_one_by_index() {
    let server = Machine::find(SERVER).unwrap();
    let index = server
        .idle_state
        .iter()
        .position(|s| s.name == "C1E")
        .unwrap();
    let by_index = format!("psd[ceiling=state:{index}]");
    assert_eq!(all(&server, "psd[ceiling=C1E]"), all(&server, &by_index));
    assert_ne!(all(&server, "psd[ceiling=C1E]"), all(&server, "psd"));
    let error = run_on(&server, "psd[ceiling=C9]").unwrap_err().to_string();
    assert!(error.contains("psd[ceiling=C9]"), "{error}");
    assert!(error.contains("there are POLL, C1, C1E"), "{error}");
}

/// EPP and boost on their own change the policy that is there; they are the same as its keys.
#[test]
fn settings_of_their_own_are_keys_of_the_policy() {
    let server = Machine::find(SERVER).unwrap();
    for (apart, together) in [
        (
            "intel_pstate-hwp + epp[value=power]",
            "intel_pstate-hwp[epp=power]",
        ),
        (
            "hwp-boost[value=on] + intel_pstate-hwp",
            "intel_pstate-hwp[hwp_dynamic_boost=on]",
        ),
    ] {
        assert_eq!(all(&server, apart), all(&server, together), "{apart}");
    }
    let error = run_on(&server, "schedutil + epp[value=power]").unwrap_err();
    assert!(
        error.to_string().contains("add intel_pstate-hwp"),
        "{error}"
    );
    let mut laptop = Machine::find("laptop").unwrap();
    laptop.drive = DriveModel::find("sn530").unwrap();
    assert_eq!(
        all(&laptop, "drive-latency[tolerance=0us]"),
        all(&laptop, "apst[max_latency_us=0]")
    );
}

#[test]
fn the_kernel_of_every_machine_is_simulated() {
    for name in builtin_machine_names() {
        let machine = Machine::find(name).unwrap();
        let ran = policies_in_force(&machine, &PolicySet::default());
        assert!(ran.is_ok(), "{name}: {:?}", ran.err());
    }
}

/// As the kernel answers (`EBUSY`).
#[test]
fn a_preference_under_the_governor_performance_is_refused() {
    for (machine, policies, instead) in [
        (
            "turin0",
            "epp[value=balance_power]",
            "add amd-pstate[governor=powersave]",
        ),
        (
            "turin0",
            "amd-pstate[governor=performance] + epp[value=128]",
            "amd-pstate",
        ),
        ("gnr3", "epp[value=power]", "add intel_pstate-hwp"),
        (
            "spr1",
            "performance + epp[value=power]",
            "add intel_pstate-hwp",
        ),
    ] {
        let machine = Machine::find(machine).unwrap();
        let error = policies_in_force(&machine, &set(policies))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("EBUSY") && error.contains(instead),
            "{error}"
        );
    }
}

/// The same run as under the policies that the profile stands for.
#[test]
fn a_profile_is_what_it_stands_for_on_the_machine() {
    let server = Machine::find(SERVER).unwrap();
    let board = Machine::find("rk3399").unwrap();
    let hwp = Machine::find("adl0").unwrap();
    for (machine, profile, same) in [
        (
            &server,
            "menu + tuned[latency-performance]",
            "menu + performance + cpu-latency[state=1]",
        ),
        (&board, "menu + tuned[balanced]", "menu + schedutil"),
        (&board, "tuned[powersave] + ondemand", "ondemand"),
        // Nothing of it is there.
        (&board, "menu + power-profiles[power-saver]", "menu"),
        (&hwp, "tuned[powersave]", "intel_pstate-hwp[epp=power]"),
        (
            &hwp,
            "power-profiles[performance]",
            "intel_pstate-hwp[epp=0]",
        ),
        (&hwp, "tuned[throughput-performance]", "performance"),
        (
            &server,
            "tuned[powersave] + intel_pstate-hwp",
            "intel_pstate-hwp[epp=power]",
        ),
    ] {
        assert_eq!(all(machine, profile), all(machine, same), "{profile}");
    }
}

#[test]
fn what_a_profile_does_not_set_stays_as_the_machine_has_it() {
    // HWP dynamic boost is on.
    let sapphire = Machine::find("spr1").unwrap();
    let turin = Machine::find("turin0").unwrap();
    // Its kernel runs the governor performance of intel_pstate.
    let granite = Machine::find("gnr3").unwrap();
    for (machine, profile, same) in [
        (
            &sapphire,
            "tuned[balanced]",
            "epp[value=balance_performance]",
        ),
        (&sapphire, "power-profiles[power-saver]", "epp[value=power]"),
        (
            &turin,
            "tuned[balanced]",
            "amd-pstate[mode=active,governor=powersave,epp=balance_performance]",
        ),
        (
            &turin,
            "tuned[balanced-battery]",
            "amd-pstate[epp=balance_power]",
        ),
        (
            &turin,
            "power-profiles[power-saver]",
            "amd-pstate[epp=power]",
        ),
        (&turin, "tuned[throughput-performance]", "unchanged"),
        (&turin, "power-profiles[performance]", "unchanged"),
        (&turin, "epp[value=performance]", "unchanged"),
        (
            &granite,
            "tuned[balanced]",
            "intel_pstate-hwp[epp=balance_performance]",
        ),
        (&granite, "tuned[throughput-performance]", "unchanged"),
    ] {
        assert_eq!(all(machine, profile), all(machine, same), "{profile}");
    }
}

#[test]
fn parts_of_a_profile_that_do_nothing_are_noted() {
    let board = Machine::find("rk3399").unwrap();
    let notes = expand_profile_for_machine(&board, &set("tuned[balanced]"))
        .unwrap()
        .notes;
    assert!(notes[0].contains("energy_perf_bias=normal"), "{notes:?}");
    assert!(notes[1].contains("epp[value=balance_performance] does not apply"));
}

/// A board whose driver has one state, under a read every 30 ms.
#[test]
fn with_one_idle_state_newer_kernels_keep_the_first_tick() {
    let mut board = Machine::find("rk3399").unwrap();
    board.idle_state.truncate(1);
    let text = "[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\nrw=randread\nthinktime=30ms\n\
                time_based\nruntime=2s\n";
    let job: Workload = fio::parse(text, "test.fio").unwrap().into();
    let entries = |kernel: &str| -> u64 {
        let policies = set(&format!("menu@{kernel} + performance"));
        let run = simulate(&board, &job, &policies, 1).unwrap();
        let clusters = run.details.clusters.iter();
        clusters.flat_map(|c| &c.states).map(|s| s.entries).sum()
    };
    // A tick more in each idle period of more than 4 ms; without any stop, one every 4 ms.
    let [asks, keeps, stops] = ["6.12.74", "6.12.77", "7.3"].map(entries);
    assert!(asks < stops && stops < keeps, "{asks} {stops} {keeps}");
    assert_eq!(entries("6.12.78"), stops);
}

#[test]
fn what_epp_does_is_said_to_be_assumed_but_for_the_values_that_the_model_was_fitted_to() {
    let told = |machine: &str, text: &str| {
        let machine = Machine::find(machine).unwrap();
        wakepath_sim::notes_on_machine_and_policies(&machine, &set(text))
            .unwrap()
            .concat()
    };
    let skylake = "xeon-e3-1240v5";
    for epp in [0, 128] {
        assert_eq!(told(skylake, &format!("intel_pstate-hwp[epp={epp}]")), "");
    }
    let fast = told(skylake, "intel_pstate-hwp + epp[value=64]");
    assert!(
        fast.contains("EPP 64 moves the lower end") && fast.contains("assumed"),
        "{fast}"
    );
    let slow = told("ryzen-8840u", "amd-pstate[mode=active] + epp[value=power]");
    assert!(slow.contains("EPP 255 lowers the upper end"), "{slow}");
    // A recorded system's own preference, and a policy that has none.
    assert!(told("adl0", "menu").contains("EPP 102"));
    assert_eq!(told(skylake, "performance"), "");
}

/// The board's drive has one interrupt, on CPU 0 unless a set moves it.
#[test]
fn the_interrupt_of_a_drive_goes_to_the_cpu_of_the_set() {
    let text = "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\ntime_based\nruntime=100ms\ncpus_allowed=0\n";
    let load: wakepath_workloads::Workload = wakepath_workloads::fio::parse(text, "test.fio")
        .unwrap()
        .into();
    let run = |machine: &str, text: &str| {
        let machine = wakepath_hardware::Machine::find(machine).unwrap();
        let set: wakepath_policies::PolicySet = text.parse().unwrap();
        wakepath_sim::simulate(&machine, &load, &set, 1)
    };
    let p50 = |text: &str| run("rk3399", text).unwrap().latency_us.p50;
    let unchanged = p50("menu + schedutil");
    let own = p50("menu + schedutil + irq-affinity[cpus=0]");
    assert_eq!(own.to_bits(), unchanged.to_bits());
    // Another CPU wakes from its own sleep, and then wakes the CPU of the task.
    let other = p50("menu + schedutil + irq-affinity[cpus=3]");
    assert!(other > own + 1.0, "{own} {other}");
    let refuse = |machine: &str, text: &str| run(machine, text).unwrap_err().to_string();
    let managed = refuse("laptop", "menu + schedutil + irq-affinity[cpus=1]");
    assert!(managed.contains("the kernel manages"), "{managed}");
    let beyond = refuse("rk3399", "menu + schedutil + irq-affinity[cpus=6]");
    assert!(
        beyond.contains("there is no CPU 6 here; the last is 5"),
        "{beyond}"
    );
}
