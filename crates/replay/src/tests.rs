use std::path::PathBuf;

use proptest::prelude::*;
use wakepath_hardware::machine::PackageSleep;
use wakepath_hardware::{IdleState, IdleStates, Machine};
use wakepath_policies::idle::{Governor, IdlePolicy, KernelVersion, OracleGoal};
use wakepath_policies::input::CallReader;
use wakepath_policies::psd::PsdPolicy;
use wakepath_trace::recording::{
    Before, Block, Event, EventKind, IdleInputs, IdlePeriod, Metadata, Overwrite, Reader,
    TimerKind, Writer,
};
use wakepath_units::{Microwatts, Nanoseconds, TickRate};

use super::*;
use crate::package::{PackageFigures, PackageReport};

mod blocks;
mod busy_periods;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn states() -> IdleStates {
    let state = |name: &str, exit: u64, residency: u64, polling: bool| IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds(exit),
        target_residency: Nanoseconds(residency),
        polling,
        disabled: false,
    };
    IdleStates::new(vec![
        state("POLL", 0, 0, true),
        state("C1", 2 * US, 2 * US, false),
        state("C6", 100 * US, 400 * US, false),
    ])
    .unwrap()
}

fn setup(policies: &[IdlePolicy]) -> Setup {
    Setup {
        states: vec![GroupIdleStates::from_declared(Vec::new(), states())],
        package: None,
        tick: TickRate::HZ_250,
        policies: policies
            .iter()
            .map(|p| (format!("{p:?}"), p.clone()))
            .collect(),
        psd: None,
        latency: None,
        recorded_governor: None,
        blocks: 1,
    }
}

/// An event on CPU 0.
fn on(time: u64, kind: EventKind) -> Event {
    Event {
        time: Nanoseconds(time),
        cpu: 0,
        kind,
    }
}

fn idle(end: u64, duration: u64, state: u8, before: Before) -> Event {
    let inputs = IdleInputs {
        sleep_length: Some(100 * MS as i64),
        delta_tick: Some(4 * MS as i64),
        tick_stopped: Some(false),
        latency_request: Some(i64::MAX / 2),
        iowaiters: Some(0),
        ..IdleInputs::default()
    };
    on(
        end,
        EventKind::Idle(IdlePeriod {
            state,
            duration: Nanoseconds(duration),
            inputs,
            before,
            stop_tick: None,
            got_tick: None,
            poll_limit_hit: None,
        }),
    )
}

struct Recorded {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn recording(events: &[Event]) -> Recorded {
    recording_with(events, None)
}

fn recording_with(events: &[Event], idle_driver: Option<&str>) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    let metadata = Metadata {
        idle_driver: idle_driver.map(ToOwned::to_owned),
        ..Metadata::default()
    };
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    for event in events {
        writer.add_event(event).unwrap();
    }
    writer.finish_and_count_events().unwrap();
    Recorded {
        _folder: folder,
        path,
    }
}

fn run(events: &[Event], setup: &Setup) -> Result<Report, ReplayError> {
    let recorded = recording(events);
    let mut reader = Reader::open(&recorded.path).unwrap();
    replay_recording(&mut reader, setup, None, &mut |_| true)
}

fn sum(policy: &PolicyReport, what: impl Fn(&StateReport) -> u64) -> u64 {
    policy.states.iter().map(what).sum()
}

const READ: Block = Block {
    device: 0,
    sector: 8,
    bytes: 4096,
    write: false,
};

#[test]
fn a_tick_does_not_end_an_idle_span() {
    // 3 ms up to a tick, 2 ms more, and then an I/O completion.
    let events = [
        idle(13 * MS, 3 * MS, 2, Before::Task),
        on(13 * MS + US, EventKind::Timer(TimerKind::Tick)),
        idle(15 * MS + 2 * US, 2 * MS, 2, Before::IdleLoop),
        on(15 * MS + 5 * US, EventKind::BlockComplete(READ)),
    ];
    let report = run(
        &events,
        &setup(&[IdlePolicy::Deepest, IdlePolicy::Shallowest]),
    )
    .unwrap();
    assert_eq!(
        (report.periods, report.spans, report.io_wake_ups),
        (2, 1, 1)
    );
    // `deepest` stops the tick and sleeps through.
    let deepest = &report.policies[1];
    assert_eq!(deepest.selections, 1);
    assert_eq!(deepest.tick_stops, Some(1));
    assert_eq!(deepest.states[2].time_ns, 5 * MS + 2 * US);
    assert_eq!(sum(deepest, |s| s.added_latency_ns), 0);
    // `shallowest` polls, up to 250 us each time.
    let shallowest = &report.policies[2];
    assert_eq!(shallowest.states[0].time_ns, 5 * MS + 2 * US);
    assert!(shallowest.poll_limit_hits.unwrap() >= 20);
    assert_eq!(shallowest.tick_stops, Some(0));
}

#[test]
fn a_wake_up_that_the_oracle_had_sooner_is_added_latency() {
    let block = Block {
        device: 259 << 20,
        sector: 8,
        bytes: 4096,
        write: false,
    };
    // 50 us are worth C1 only.
    let events = [
        on(MS, EventKind::BlockIssue(block)),
        idle(MS + 60 * US, 50 * US, 2, Before::Task),
        on(MS + 61 * US, EventKind::BlockComplete(block)),
        on(3 * MS, EventKind::BlockIssue(block)),
    ];
    let report = run(
        &events,
        &setup(&[IdlePolicy::Deepest, IdlePolicy::Shallowest]),
    )
    .unwrap();
    for policy in [&report.policies[0], &report.policies[1]] {
        let c6 = &policy.states[2];
        assert_eq!((c6.too_deep, c6.slower, c6.slower_io), (1, 1, 1));
        assert_eq!(c6.added_latency_ns, 98 * US);
        assert_eq!(c6.added_io_latency_ns, 98 * US);
        assert_eq!(c6.io_exit_ns, 100 * US);
    }
    assert_eq!(sum(&report.policies[2], |s| s.slower), 0);
    let drive = &report.drives[0];
    assert_eq!((drive.name.as_str(), drive.issued), ("259:0", 2));
    assert_eq!((drive.completions, drive.same_cpu), (1, 1));
    // From the completion to the next request.
    assert_eq!(drive.gaps.iter().map(|g| g.count).sum::<u64>(), 1);
    assert_eq!(drive.gaps[0].from_us, 1_000);
}

#[test]
fn exits_of_completions_differ_also_where_the_oracle_is_as_slow() {
    let events = [
        on(MS, EventKind::BlockIssue(READ)),
        idle(7 * MS, 6 * MS, 2, Before::Task),
        on(7 * MS + US, EventKind::BlockComplete(READ)),
    ];
    let report = run(
        &events,
        &setup(&[IdlePolicy::Deepest, IdlePolicy::Shallowest]),
    )
    .unwrap();
    let sums: Vec<_> = report
        .policies
        .iter()
        .map(PolicyReport::total_sums)
        .collect();
    // 6 ms are worth C6, so nobody is slower than the oracle.
    assert!(sums.iter().all(|sums| sums.added_io_latency_ns == 0));
    let exits: Vec<u64> = sums.iter().map(|sums| sums.io_exit_ns).collect();
    assert_eq!(exits, [100 * US, 100 * US, 0]);
}

#[test]
fn psd_holds_a_cpu_up_after_a_completion() {
    let block = Block {
        device: 1,
        sector: 8,
        bytes: 512,
        write: true,
    };
    let events = [
        on(8 * MS, EventKind::BlockComplete(block)),
        idle(10 * MS, MS, 2, Before::Task),
        idle(900 * MS, MS, 2, Before::Task),
    ];
    let mut with = setup(&[IdlePolicy::Deepest]);
    with.psd = Some(PsdPolicy::default());
    let report = run(&events, &with).unwrap();
    let deepest = &report.policies[1];
    assert_eq!(deepest.states[0].time_ns, MS);
    assert_eq!(deepest.states[2].time_ns, MS);
}

#[test]
fn governors_keep_a_latency_limit_on_its_cpus() {
    let events = [
        idle(10 * MS, MS, 2, Before::Task),
        idle(20 * MS, MS, 2, Before::Task),
    ];
    let plain = setup(&[IdlePolicy::Deepest]);
    let without = run(&events, &plain).unwrap();
    let time = |report: &Report, policy: usize| -> Vec<u64> {
        let states = &report.policies[policy].states;
        states.iter().map(|s| s.time_ns).collect()
    };
    assert_eq!(time(&without, 1), [0, 0, 2 * MS]);
    for (limit, cpus, expected) in [
        (2 * US, vec![], [0, 2 * MS, 0]),
        (100 * US, vec![], [0, 0, 2 * MS]),
        (99 * US, vec![0], [0, 2 * MS, 0]),
        (0, vec![1], [0, 0, 2 * MS]),
    ] {
        let limits = vec![Nanoseconds(limit)];
        let limited = Setup {
            latency: Some(LatencyLimits { limits, cpus }),
            ..plain.clone()
        };
        let report = run(&events, &limited).unwrap();
        assert_eq!(time(&report, 1), expected, "{limit}");
        // What the CPUs did has not changed, nor what it is judged by.
        let recorded = |report: &Report| format!("{:?}", report.policies[0]);
        assert_eq!(recorded(&report), recorded(&without));
    }
}

#[test]
fn a_completion_does_not_hold_up_the_idle_span_that_it_ends() {
    // Far from each other, with interrupts on in the idle state: the period comes behind the completion that ended it.
    let mut events = Vec::new();
    for i in 1..=10 {
        let end = i * 100 * MS;
        events.push(on(end - 5 * US, EventKind::BlockComplete(READ)));
        events.push(idle(end, 50 * MS, 2, Before::Task));
    }
    let mut with = setup(&[IdlePolicy::Deepest]);
    with.psd = Some(PsdPolicy::default());
    let report = run(&events, &with).unwrap();
    assert_eq!(report.io_wake_ups, 10);
    let deepest = &report.policies[1];
    assert_eq!(deepest.states[0].time_ns, 0);
    assert_eq!(deepest.states[2].time_ns, 500 * MS);
}

#[test]
fn a_drive_whose_completion_was_missed_is_idle_again() {
    let at = |time: u64, sector: u64, kind: fn(Block) -> EventKind| {
        on(time * MS, kind(Block { sector, ..READ }))
    };
    let mut events = vec![idle(MS, 1, 1, Before::Task)];
    // Of 100 requests, one every second, no completion is there of the first half.
    for i in 1..=100 {
        events.push(at(i * 1000, i, EventKind::BlockIssue));
        if i > 50 {
            events.push(at(i * 1000 + 1, i, EventKind::BlockComplete));
        }
    }
    let report = run(&events, &setup(&[])).unwrap();
    let drive = &report.drives[0];
    assert_eq!(
        (drive.issued, drive.completions, drive.missed),
        (100, 50, 50)
    );
    // Those that were given up last had been issued 30 s before the requests that have one.
    let gaps = drive.gaps.iter().map(|g| g.count).sum::<u64>();
    assert!((1..=20).contains(&gaps), "{gaps}");
    assert!(!drive.is_uncertain());
}

/// Periods whose states a governor chose.
fn chosen_by(policy: &IdlePolicy, lengths: &[u64]) -> Vec<Event> {
    use wakepath_policies::idle::{IdleGovernor, IdleOutcome, IdleQuery};
    let mut governor = Governor::new(policy, &states(), TickRate::HZ_250);
    let mut now = 0;
    let mut events = Vec::new();
    for (i, &length) in lengths.iter().enumerate() {
        now += 10 * US;
        let sleep = (length + i as u64 % 7 * 1000 * US) as i64;
        let query = IdleQuery {
            sleep_length: sleep,
            delta_tick: sleep.min(4 * MS as i64),
            tick_stopped: false,
            after_tick: false,
            latency_request: i64::MAX / 2,
            nr_iowait: 0,
            clock: now,
            true_idle: length,
            package_saving: 0,
        };
        let decision = governor.select(&query);
        let start = now;
        now += length;
        governor.reflect(
            decision.state,
            &IdleOutcome {
                clock: now,
                residency: length,
                got_tick: false,
                poll_limit_hit: false,
            },
        );
        let inputs = IdleInputs {
            sleep_length: Some(query.sleep_length),
            delta_tick: Some(query.delta_tick),
            tick_stopped: Some(false),
            latency_request: Some(query.latency_request),
            iowaiters: Some(0),
            select_lead: Some((start - query.clock) as u32),
            ..IdleInputs::default()
        };
        let period = IdlePeriod {
            state: decision.state as u8,
            duration: Nanoseconds(length),
            inputs,
            before: Before::Task,
            stop_tick: Some(decision.stop_tick),
            got_tick: Some(false),
            poll_limit_hit: Some(false),
        };
        events.push(on(now, EventKind::Idle(period)));
    }
    events
}

const KERNELS: [IdlePolicy; 4] = [
    IdlePolicy::Menu(KernelVersion::V6_1),
    IdlePolicy::Menu(KernelVersion::V6_12),
    IdlePolicy::Teo(KernelVersion::V6_1),
    IdlePolicy::Teo(KernelVersion::V6_12),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_governor_answers_as_it_did(lengths in prop::collection::vec(1_u64..20 * MS, 1..200)) {
        for policy in KERNELS {
            let events = chosen_by(&policy, &lengths);
            let mut setup = setup(std::slice::from_ref(&policy));
            setup.recorded_governor = Some(RecordedGovernor {
                name: "it".to_owned(),
                policy,
                parameters_known: true,
            });
            let report = run(&events, &setup).unwrap();
            let (_, agreement) = report.agreement.unwrap();
            prop_assert_eq!(agreement.periods, lengths.len() as u64);
            prop_assert_eq!(agreement.same_state, agreement.periods);
            prop_assert_eq!(agreement.same_tick, agreement.tick_known);
        }
    }

    #[test]
    fn time_adds_up_and_the_oracle_wastes_least(
        lengths in prop::collection::vec(1_u64..40 * MS, 1..60),
    ) {
        let events = chosen_by(&KERNELS[0], &lengths);
        let machine = Machine::find("skylake-2s-server").unwrap();
        let mut policies = KERNELS.to_vec();
        policies.extend([IdlePolicy::Deepest, IdlePolicy::Oracle(OracleGoal::Energy)]);
        let mut setup = setup(&policies);
        setup.states = GroupIdleStates::from_machine(&machine).unwrap();
        for group in &mut setup.states {
            group.cpus.clear();
        }
        let known = setup.states[0].power.is_some();
        prop_assert!(known);
        // The states chosen then are those of another table, but exist in this one.
        let report = run(&events, &setup).unwrap();
        let whole: u64 = lengths.iter().sum();
        let wasted = |p: &PolicyReport| p.states.iter().map(|s| s.wasted_j.unwrap()).sum::<f64>();
        for policy in &report.policies {
            prop_assert_eq!(sum(policy, |s| s.time_ns), whole, "{}", &policy.policy);
            // Doubles hold femtojoules to some digits.
            prop_assert!(wasted(policy) >= -1e-9, "{}", &policy.policy);
        }
        prop_assert_eq!(sum(&report.policies[6], |s| s.slower), 0);
    }
}

#[test]
fn the_package_sleeps_while_all_cpus_are_in_their_deepest_state() {
    let span = |cpu: u32, start: u64, end: u64, state: u8| Event {
        cpu,
        ..idle(end * US, (end - start) * US, state, Before::Task)
    };
    let events = [
        span(1, 200, 600, 1),
        span(0, 0, 1000, 2),
        span(1, 700, 2000, 2),
        span(0, 1100, 2000, 2),
        on(2010 * US, EventKind::BlockComplete(READ)),
    ];
    let mut setup = setup(&[
        IdlePolicy::Deepest,
        IdlePolicy::Shallowest,
        IdlePolicy::Oracle(OracleGoal::Energy),
    ]);
    setup.package = Some(PackageFigures {
        cpus: 3,
        ..blocks::PACKAGE
    });
    let report = run(&events, &setup).unwrap();
    let packages: Vec<PackageReport> = report
        .policies
        .iter()
        .map(|policy| policy.package.unwrap())
        .collect();
    let [recorded, deepest, shallowest, oracle] = packages[..] else {
        panic!("{packages:?}");
    };
    // All CPUs are idle from 0 to 600, 700 to 1000 and 1100 to 2000 us, less the 30 us of falling asleep.
    assert_eq!((deepest.asleep_ns, deepest.count), (1710 * US, 3));
    assert_eq!(deepest, oracle);
    // CPU 1 was in C1 until the end of the first of them.
    assert_eq!((recorded.asleep_ns, recorded.count), (1140 * US, 2));
    assert_eq!((shallowest.asleep_ns, shallowest.slower), (0, 0));
    // 570 us at 10 W more, and one CPU fewer that waits for 40 us at 2 W.
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(close(recorded.wasted_j, 5.7e-3 - 80e-6), "{recorded:?}");
    // 2 ms at 1 W, what it is awake of that at 10 W, and three CPUs that wait.
    assert!(
        close(deepest.energy_j, 2e-3 + 2.9e-3 + 240e-6),
        "{deepest:?}"
    );
    assert_eq!(report.warnings[0].name, "silent-cpu");
    assert_eq!(report.warnings[0].count, 1);

    // By its latency requests no CPU may sleep so deeply: whoever does it all the same makes each wake-up slower.
    let mut events = events.to_vec();
    for event in &mut events {
        if let EventKind::Idle(period) = &mut event.kind {
            period.inputs.latency_request = Some(0);
        }
    }
    let report = run(&events, &setup).unwrap();
    let recorded = report.policies[0].package.unwrap();
    assert_eq!((recorded.slower, recorded.added_latency_ns), (2, 80 * US));
    assert_eq!(
        (recorded.slower_io, recorded.added_io_latency_ns),
        (1, 40 * US)
    );
    assert!(recorded.wasted_j < 0.0);
}

#[test]
fn a_tick_that_wakes_a_cpu_keeps_the_package_up_for_a_while() {
    let mut first = idle(13 * MS, 3 * MS, 2, Before::Task);
    if let EventKind::Idle(period) = &mut first.kind {
        period.got_tick = Some(true);
    }
    let events = [first, idle(15 * MS, 2 * MS, 2, Before::IdleLoop)];
    let mut setup = setup(&[IdlePolicy::Deepest]);
    setup.package = Some(PackageFigures {
        idle: Microwatts(0),
        awake: Microwatts(10_000_000),
        sleep: PackageSleep {
            hysteresis: Nanoseconds(0),
            entry: Nanoseconds(20 * US),
            exit: Nanoseconds(40 * US),
        },
        waiting: Microwatts(0),
        cpus: 1,
    });
    let report = run(&events, &setup).unwrap();
    let asleep = |policy: usize| report.policies[policy].package.unwrap().asleep_ns;
    assert_eq!(asleep(0), 5 * MS - 20 * US - 60 * US);
    // `deepest` stops the tick.
    assert_eq!(asleep(1), 5 * MS - 20 * US);
}

#[test]
fn windows_of_a_long_recording_are_added_up_on_the_way() {
    // CPU 1 is idle all the time, until the end; CPU 2 is idle for the last time early on.
    let spans = 60_000_u64;
    let mut events = vec![Event {
        cpu: 2,
        ..idle(300 * US, 200 * US, 2, Before::Task)
    }];
    for i in 0..spans {
        let state = if i % 4 == 0 { 1 } else { 2 };
        events.push(idle((i + 1) * 100 * US, 60 * US, state, Before::Task));
        if i % 1000 == 999 {
            let end = (i + 1) * 100 * US;
            events.push(Event {
                cpu: 1,
                ..idle(end, 99_990 * US, 2, Before::Task)
            });
        }
    }
    let mut setup = setup(&[IdlePolicy::Deepest]);
    setup.package = Some(PackageFigures {
        idle: Microwatts(0),
        awake: Microwatts(1),
        sleep: PackageSleep::default(),
        waiting: Microwatts(0),
        cpus: 3,
    });
    let report = run(&events, &setup).unwrap();
    let asleep = |policy: usize| report.policies[policy].package.unwrap().asleep_ns;
    // Until its first idle span, 30 us after CPU 1's, CPU 0 counts as asleep.
    assert_eq!(asleep(1), 30 * US + spans * 60 * US);
    assert_eq!(asleep(0), spans * 3 / 4 * 60 * US);
}

#[test]
fn the_call_log_is_what_was_asked() {
    let lengths: Vec<u64> = (1..300).map(|i| i * 37 * US % (9 * MS) + 1).collect();
    let events = chosen_by(&KERNELS[1], &lengths);
    let recorded = recording(&events);
    let mut reader = Reader::open(&recorded.path).unwrap();
    let mut log = Vec::new();
    replay_recording(&mut reader, &setup(&[]), Some((0, &mut log)), &mut |_| true).unwrap();
    let calls: Vec<_> = CallReader::new(&log[..], "log")
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(calls.len(), events.len());
    let mut governor = Governor::new(&KERNELS[1], &states(), TickRate::HZ_250);
    let mut chosen = Vec::new();
    governor.replay_logged_calls(calls.iter().map(|c| (&c.query, &c.outcome)), |decision| {
        chosen.push(decision.state as u8);
    });
    let recorded: Vec<u8> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Idle(period) => Some(period.state),
            _ => None,
        })
        .collect();
    assert_eq!(chosen, recorded);
}

#[test]
fn what_is_missing_is_said() {
    let mut event = idle(10 * MS, MS, 1, Before::Unknown);
    if let EventKind::Idle(period) = &mut event.kind {
        period.inputs = IdleInputs::default();
    }
    let report = run(&[event], &setup(&KERNELS)).unwrap();
    assert_eq!(report.approximate.len(), 2);
    assert!(report.approximate.values().all(|count| *count == 1));
}

#[test]
fn recordings_that_do_not_fit_are_refused() {
    let error = run(&[idle(10 * MS, MS, 7, Before::Task)], &setup(&KERNELS)).unwrap_err();
    assert!(
        error.to_string().contains("idle state 7 at 10000000 ns"),
        "{error}"
    );
    let error = run(&[], &setup(&KERNELS)).unwrap_err();
    assert!(error.to_string().contains("no idle periods"), "{error}");
    let error = GroupIdleStates::from_recording(&Metadata::default()).unwrap_err();
    assert!(error.to_string().contains("--machine"), "{error}");
    let virtual_machine = Metadata {
        idle_governor: Some("menu".to_owned()),
        ..Metadata::default()
    };
    let error = GroupIdleStates::from_recording(&virtual_machine).unwrap_err();
    assert!(error.to_string().contains("no idle driver"), "{error}");
}

#[test]
fn a_clock_that_jumps_is_named_and_does_not_hang() {
    let far = idle(i64::MAX as u64, i64::MAX as u64 - 10, 1, Before::Task);
    let back = idle(10 * MS, MS, 1, Before::Task);
    let gone = on(11 * MS, EventKind::Hotplug { online: false });
    let report = run(&[far, back, gone], &setup(&KERNELS)).unwrap();
    let names: Vec<&str> = report.warnings.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["long-idle-period", "clock-jump"]);
    assert_eq!(report.spans, 1);
}

#[test]
fn what_a_governor_knows_of_a_cpu_that_was_offline_depends_on_the_driver() {
    // Regular idle spans of 50 us, of which menu learns although the next timer is far, before and after the CPU is away.
    let spans =
        |from: u64| (1..=100).map(move |i| idle(from + i * 100 * US, 50 * US, 1, Before::Task));
    let mut events: Vec<Event> = spans(0).collect();
    let away = 20 * MS;
    events.push(on(away, EventKind::Hotplug { online: false }));
    events.push(on(away + 50 * MS, EventKind::Hotplug { online: true }));
    events.extend(spans(away + 51 * MS));
    let deep_periods = |driver: Option<&str>| {
        let recorded = recording_with(&events, driver);
        let mut reader = Reader::open(&recorded.path).unwrap();
        let setup = setup(&[IdlePolicy::Menu(KernelVersion::V6_1)]);
        let report = replay_recording(&mut reader, &setup, None, &mut |_| true).unwrap();
        assert_eq!(report.spans, 200);
        report.policies[1].states[2].count
    };
    let goes_on = deep_periods(Some("intel_idle"));
    // One that knows nothing believes the timer at first.
    assert!(goes_on > 0);
    assert!(deep_periods(Some("acpi_idle")) > goes_on);
    assert!(deep_periods(None) > goes_on);
}

/// A state that halts with interrupts on is left after they were handled.
#[test]
fn interrupts_inside_an_idle_period_are_what_ended_it() {
    let events = [
        // A tick, and 90 us of exit latency after it.
        on(13 * MS - 90 * US, EventKind::Timer(TimerKind::Tick)),
        idle(13 * MS, 3 * MS, 2, Before::Task),
        // The same with a completion.
        on(15 * MS - 90 * US, EventKind::BlockComplete(READ)),
        idle(15 * MS, 2 * MS - 10 * US, 2, Before::Task),
        // One long before the end is not what ended the idle period.
        on(20 * MS, EventKind::BlockComplete(READ)),
        idle(25 * MS, 6 * MS, 2, Before::Task),
    ];
    let report = run(&events, &setup(&[IdlePolicy::Deepest])).unwrap();
    assert_eq!(
        (report.periods, report.spans, report.io_wake_ups),
        (3, 3, 1)
    );
    let mut continued = events[..2].to_vec();
    continued.push(idle(14 * MS, MS - 10 * US, 2, Before::IdleLoop));
    let report = run(&continued, &setup(&[IdlePolicy::Deepest])).unwrap();
    assert_eq!((report.periods, report.spans), (2, 1));
}

/// A driver with one state.
fn one_state() -> IdleStates {
    let only = IdleState {
        polling: false,
        ..states()[0].clone()
    };
    IdleStates::new(vec![only]).unwrap()
}

#[test]
fn a_kernel_with_one_idle_state_stops_the_tick_after_it_ended_an_idle_period() {
    let kernels = ["6.12.74", "6.12.77", "7.3"];
    let policies = kernels.map(|kernel| IdlePolicy::Menu(kernel.parse().unwrap()));
    let mut setup = setup(&policies);
    setup.states = vec![GroupIdleStates::from_declared(Vec::new(), one_state())];
    let report = run(&[idle(21 * MS, 20 * MS, 0, Before::Task)], &setup).unwrap();
    let counts = report.policies.iter().skip(1);
    let counts: Vec<_> = counts.map(|p| (p.selections, p.tick_stops)).collect();
    // menu stops the tick at once; with one state it goes on, or stops when it has come once.
    assert_eq!(counts, [(1, Some(1)), (5, Some(0)), (2, Some(1))]);
}

#[test]
fn a_kernel_that_asks_no_governor_has_no_call_log() {
    let lengths = |kernel: &str| {
        let mut setup = setup(&[]);
        setup.states = vec![GroupIdleStates::from_declared(Vec::new(), one_state())];
        setup.recorded_governor = Some(RecordedGovernor {
            name: "menu".to_owned(),
            policy: IdlePolicy::Menu(kernel.parse().unwrap()),
            parameters_known: true,
        });
        let events: Vec<Event> = (1..10)
            .map(|i| idle(i * MS, 500 * US, 0, Before::Task))
            .collect();
        let recorded = recording(&events);
        let mut reader = Reader::open(&recorded.path).unwrap();
        let mut log = Vec::new();
        replay_recording(&mut reader, &setup, Some((0, &mut log)), &mut |_| true).unwrap();
        String::from_utf8(log).unwrap().lines().count()
    };
    assert_eq!([lengths("6.12.74"), lengths("6.12.78")], [9, 0]);
}
