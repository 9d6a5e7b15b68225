//! amd-pstate: its modes, its limits, and the machines that run it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, SimError, machine_under_policies, policies_in_force, simulate};
use wakepath_workloads::{Workload, fio};

/// Requests with next to no CPU work in between, and the other way round.
const READS: &str = "rw=randread\nruntime=300ms\n";
const BUSY: &str = "rw=randread\nruntime=300ms\nthinkcycles=100000000\n";

fn job(lines: &str) -> Workload {
    let text = format!("[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\n{lines}");
    fio::parse(&text, "test.fio").unwrap().into()
}

fn try_run(machine: &str, lines: &str, set: &str) -> Result<Run, SimError> {
    let machine = Machine::find(machine).unwrap();
    simulate(&machine, &job(lines), &set.parse().unwrap(), 1)
}

fn mhz(machine: &str, lines: &str, freq: &str) -> f64 {
    try_run(machine, lines, &format!("menu + {freq}"))
        .unwrap()
        .mean_mhz
}

#[test]
fn machines_run_what_their_records_say() {
    for (machine, policy) in [
        ("rome0", "schedutil"),
        ("milan0", "schedutil"),
        ("genoa0", "schedutil"),
        ("turin0", "amd-pstate[governor=performance]"),
        ("ryzen-8840u", "amd-pstate[mode=active]"),
    ] {
        let machine = Machine::find(machine).unwrap();
        let ran = policies_in_force(&machine, &PolicySet::default()).unwrap();
        let policy: PolicySet = policy.parse().unwrap();
        let policy = match machine.kernel {
            Some(kernel) => policy.with_kernel_for_bare_names(kernel),
            None => policy,
        };
        assert_eq!(ran.frequency(), policy.frequency());
    }
}

#[test]
fn every_performance_is_an_operating_point() {
    let turin = Machine::find("turin0").unwrap();
    let under = |set: &str| {
        machine_under_policies(&turin, &set.parse().unwrap())
            .unwrap()
            .into_owned()
    };
    let points =
        |machine: &Machine| -> Vec<u32> { machine.cluster[0].opps.iter().map(|o| o.khz).collect() };
    // 70 to 255, as the record has them.
    let scale = points(&under("amd-pstate[mode=passive]"));
    assert_eq!(scale.len(), 186);
    assert_eq!((scale[0], scale[185]), (1_210_811, 4_410_811));
    // Other drivers keep theirs.
    assert_eq!(points(&under("schedutil")), points(&turin));
    // Below the lowest non-linear performance the voltage falls no further.
    let machine = under("amd-pstate");
    let cluster = &machine.cluster[0];
    let volts: Vec<f64> = cluster
        .opps
        .iter()
        .map(|o| cluster.volts_at(o).unwrap())
        .collect();
    assert_eq!(volts[0].to_bits(), volts[133 - 70].to_bits());
    assert!(volts[133 - 70] < volts[134 - 70] && volts[134 - 70] < volts[185]);
}

#[test]
fn each_mode_gives_a_task_the_clock_of_its_rule() {
    // schedutil's iowait boost, from the lowest non-linear performance on.
    let passive = mhz("turin0", READS, "amd-pstate@7.3[mode=passive]");
    let lazy = mhz("turin0", READS, "amd-pstate@7.3[mode=active]");
    assert!(passive > 3000.0, "{passive}");
    assert!((2250.0..2400.0).contains(&lazy), "{lazy}");
    // Guided mode of newer kernels asks for performance by its preference.
    assert!(mhz("turin0", READS, "amd-pstate@7.3[mode=guided]") > 4300.0);
    let older = mhz("turin0", READS, "amd-pstate@6.12[mode=guided]");
    assert!(
        (passive - 200.0..4300.0).contains(&older),
        "{older} {passive}"
    );
    // The performance governor of active mode begins at the nominal frequency.
    assert!(mhz("turin0", READS, "amd-pstate@7.3[governor=performance]") > 4300.0);
    let fixed = |governor: &str| {
        mhz(
            "turin0",
            READS,
            &format!("amd-pstate@7.3[mode=passive,governor={governor}]"),
        )
    };
    // The lowest non-linear frequency, rounded up twice: performance 134.
    assert!(fixed("performance") > 4400.0, "{}", fixed("performance"));
    assert!(
        (2317.0..2318.0).contains(&fixed("powersave")),
        "{}",
        fixed("powersave")
    );
}

#[test]
fn boost_ends_at_the_nominal_frequency_when_it_is_off() {
    for set in [
        "amd-pstate",
        "amd-pstate[mode=passive]",
        "amd-pstate[mode=guided]",
    ] {
        for kernel in ["6.12", "7.3"] {
            let mhz_with_boost = |boost: &str| {
                let keys = set.strip_prefix("amd-pstate").unwrap();
                let keys = keys.trim_matches(['[', ']']);
                let comma = if keys.is_empty() { "" } else { "," };
                mhz(
                    "turin0",
                    BUSY,
                    &format!("amd-pstate@{kernel}[{keys}{comma}boost={boost}]"),
                )
            };
            assert!(
                mhz_with_boost("on") > 3300.0,
                "{set} {kernel}: {}",
                mhz_with_boost("on")
            );
            assert!(
                (2500.0..3210.0).contains(&mhz_with_boost("off")),
                "{set} {kernel}: {}",
                mhz_with_boost("off")
            );
        }
    }
}

#[test]
fn the_preference_changes_light_load_and_the_epp_policy_says_the_same() {
    let mhz_with_preference =
        |epp: u32| mhz("turin0", READS, &format!("amd-pstate@6.12[epp={epp}]"));
    let all = [0, 32, 64, 96, 128].map(mhz_with_preference);
    assert!(all.windows(2).all(|w| w[0] > w[1] + 100.0), "{all:?}");
    let apart = try_run("ryzen-8840u", READS, "epp[value=power]").unwrap();
    let within = try_run("ryzen-8840u", READS, "amd-pstate[mode=active,epp=power]").unwrap();
    assert_eq!(apart.mean_mhz.to_bits(), within.mean_mhz.to_bits());
}

#[test]
fn a_firmware_that_names_no_frequency_and_a_machine_without_cppc_are_refused() {
    let error = |machine: &str| {
        try_run(machine, READS, "amd-pstate")
            .unwrap_err()
            .to_string()
    };
    assert!(
        error("rome0").contains("the driver does not load"),
        "{}",
        error("rome0")
    );
    assert!(error("laptop").contains("CPPC"), "{}", error("laptop"));
    // Milan takes requests through the firmware.
    assert!(mhz("milan0", READS, "amd-pstate[mode=passive]") > 2500.0);
}

#[test]
fn tasks_begin_on_the_preferred_cores_which_are_faster() {
    let mut machine = Machine::find("ryzen-8840u").unwrap();
    let ranking = [166, 176, 196, 171, 191, 181, 186, 168];
    machine.cluster[0].cppc.as_mut().unwrap().ranking = ranking.to_vec();
    let set = "menu + amd-pstate[mode=passive,governor=performance]";
    let busiest = |jobs: usize| {
        let lines = format!("{BUSY}numjobs={jobs}\n");
        let run = simulate(&machine, &job(&lines), &set.parse().unwrap(), 1).unwrap();
        let mut clocks: Vec<_> = run
            .clocks
            .iter()
            .map(|c| (c.first_cpu / 2, c.mean_mhz))
            .collect();
        clocks.retain(|(_, mhz)| mhz.is_finite() && *mhz > 0.0);
        let mut busy: Vec<usize> = (0..8).collect();
        busy.sort_by(|a, b| {
            let powered = |core: usize| run.cpus[2 * core].powered_seconds;
            powered(*b).total_cmp(&powered(*a))
        });
        busy.truncate(jobs);
        busy.sort_unstable();
        (busy, clocks)
    };
    let (cores, clocks) = busiest(2);
    assert_eq!(cores, [2, 4]);
    let clock_of_core = |core: usize| clocks.iter().find(|(c, _)| *c == core).unwrap().1;
    // 196 and 191 of a scale on which 126 is 3301 MHz.
    assert!((5130.0..5140.0).contains(&clock_of_core(2)), "{clocks:?}");
    assert!((5000.0..5006.0).contains(&clock_of_core(4)), "{clocks:?}");
    assert!(busiest(3).0 == [2, 4, 6]);
}

/// A task that began on the second fastest core goes to the fastest one when that is free, and not before.
#[test]
fn a_running_task_moves_to_a_preferred_core_at_a_tick() {
    let mut machine = Machine::find("ryzen-8840u").unwrap();
    let ranking = [166, 176, 196, 171, 191, 181, 186, 168];
    let text = format!(
        "[global]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\n{BUSY}[short]\nruntime=100ms\n[long]\nruntime=1s\n"
    );
    let file: Workload = fio::parse(&text, "test.fio").unwrap().into();
    let mut run = |set: &str, preferred: bool| {
        let cppc = machine.cluster[0].cppc.as_mut().unwrap();
        cppc.ranking = ranking.to_vec();
        cppc.preferred_cores = preferred;
        let run = simulate(&machine, &file, &set.parse().unwrap(), 1).unwrap();
        let seconds_on_core = |core: usize| {
            let threads = &run.cpus[2 * core..2 * core + 2];
            threads.iter().map(|c| c.powered_seconds).sum::<f64>()
        };
        [
            seconds_on_core(2),
            seconds_on_core(4),
            seconds_on_core(0),
            seconds_on_core(1),
        ]
    };
    let set = "menu + amd-pstate@7.3[mode=passive,governor=performance]";
    let [fastest, second, ..] = run(set, true);
    // The tick is every 4 ms.
    assert!(
        fastest > 0.85 && (0.05..0.13).contains(&second),
        "{fastest} {second}"
    );
    // Without preferred cores it stays where it began; 6.1 has none.
    for (set, preferred) in [
        (set, false),
        (
            "menu + amd-pstate@6.1[mode=passive,governor=performance]",
            true,
        ),
    ] {
        let [fastest, second, a, b] = run(set, preferred);
        let two = [fastest, second, a, b]
            .into_iter()
            .filter(|s| *s > 0.05)
            .count();
        let most = fastest.max(second).max(a).max(b);
        assert!(
            two == 2 && most > 0.85 && fastest < 0.05,
            "{set} {fastest} {second} {a} {b}"
        );
    }
}
