//! Blocks of time: their sums are the whole.

use super::*;

/// A package that draws most of what there is.
pub(super) const PACKAGE: PackageFigures = PackageFigures {
    idle: Microwatts(1_000_000),
    awake: Microwatts(10_000_000),
    sleep: PackageSleep {
        hysteresis: Nanoseconds(10 * US),
        entry: Nanoseconds(20 * US),
        exit: Nanoseconds(40 * US),
    },
    waiting: Microwatts(2_000_000),
    cpus: 2,
};

/// Two CPUs that are idle for these lengths, each after so much work, with I/O and ticks in between.
fn events_of(lengths: &[(u32, u64, u64, u8)]) -> Vec<Event> {
    let mut now = [MS, MS];
    let mut events = Vec::new();
    for (cpu, work, length, what) in lengths {
        let time = &mut now[*cpu as usize];
        *time += work + length;
        let of_cpu = |event: Event| Event { cpu: *cpu, ..event };
        events.push(of_cpu(idle(*time, *length, what % 3, Before::Task)));
        let after = *time + US;
        match what {
            0..4 => events.push(of_cpu(on(after, EventKind::BlockComplete(READ)))),
            4..6 => events.push(of_cpu(on(after, EventKind::Timer(TimerKind::Tick)))),
            _ => events.push(of_cpu(on(after, EventKind::BlockIssue(READ)))),
        }
        *time = after;
    }
    events.sort_by_key(|event| event.time);
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocks_add_up_to_the_whole(
        lengths in prop::collection::vec((0_u32..2, 1_u64..MS, 1_u64..20 * MS, 0_u8..9), 1..120),
        blocks in 2_usize..30,
    ) {
        let events = events_of(&lengths);
        let mut setup = setup(&KERNELS);
        setup.states = States::from_machine(&Machine::find("skylake-2s-server").unwrap()).unwrap();
        setup.package = Some(PACKAGE);
        setup.psd = Some(PsdPolicy::default());
        setup.recorded_governor = Some(RecordedGovernor {
            name: "menu".to_owned(),
            policy: KERNELS[0].clone(),
            parameters_known: true,
        });
        let whole = run(&events, &setup).unwrap();
        setup.blocks = blocks;
        let mut divided = run(&events, &setup).unwrap();
        let parts = std::mem::take(&mut divided.blocks);
        prop_assert_eq!(parts.len(), blocks);
        // Dividing changes nothing of the whole.
        let undivided = Report { blocks: Vec::new(), ..whole };
        prop_assert_eq!(format!("{divided:?}"), format!("{undivided:?}"));

        let sum = |what: &dyn Fn(&BlockReport) -> u64| parts.iter().map(what).sum::<u64>();
        prop_assert_eq!(sum(&|b| b.duration_ns), undivided.duration_ns.max(1));
        prop_assert_eq!(sum(&|b| b.spans), undivided.spans);
        prop_assert_eq!(sum(&|b| b.io_wake_ups), undivided.io_wake_ups);
        prop_assert_eq!(sum(&|b| b.io_completions), undivided.io_completions);
        prop_assert!(sum(&|b| b.policies[1].leased_spans.unwrap()) <= undivided.spans);
        let (_, agreement) = undivided.agreement.as_ref().unwrap();
        prop_assert_eq!(sum(&|b| b.agreement.periods), agreement.periods);
        prop_assert_eq!(sum(&|b| b.agreement.same_state), agreement.same_state);

        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1e-9);
        for (policy, of_whole) in undivided.policies.iter().enumerate() {
            let each = |what: &dyn Fn(&StateReport) -> u64| {
                let states = parts.iter().flat_map(|b| b.policies[policy].groups.iter().flatten());
                states.map(what).sum::<u64>()
            };
            for what in [
                (|s| s.time_ns) as fn(&StateReport) -> u64,
                |s| s.count,
                |s| s.too_deep,
                |s| s.too_shallow,
                |s| s.slower,
                |s| s.added_latency_ns,
                |s| s.slower_io,
                |s| s.added_io_latency_ns,
            ] {
                prop_assert_eq!(each(&what), super::sum(of_whole, what), "{}", &of_whole.policy);
            }
            let packages = || parts.iter().map(|b| b.policies[policy].package.unwrap());
            let package = of_whole.package.unwrap();
            prop_assert_eq!(packages().map(|p| p.asleep_ns).sum::<u64>(), package.asleep_ns);
            prop_assert_eq!(packages().map(|p| p.count).sum::<u64>(), package.count);
            prop_assert_eq!(packages().map(|p| p.added_latency_ns).sum::<u64>(), package.added_latency_ns);
            prop_assert!(close(packages().map(|p| p.energy_j).sum(), package.energy_j));
            let states = || parts.iter().flat_map(|b| b.policies[policy].groups.iter().flatten());
            let energy: f64 = of_whole.states.iter().filter_map(|s| s.energy_j).sum();
            prop_assert!(close(states().filter_map(|s| s.energy_j).sum(), energy));
        }
    }
}

#[test]
fn an_idle_span_counts_for_the_block_in_which_it_began() {
    // From 0 to 100 ms: blocks of 10 ms.
    let mut events = vec![on(0, EventKind::Timer(TimerKind::Tick))];
    for i in 0..10 {
        let start = i * 10 * MS + 5 * MS;
        // From here on each idle span reaches into the next block.
        let length = if i < 5 { MS } else { 7 * MS };
        events.push(idle(start + length, length, 2, Before::Task));
        if i == 3 {
            events.push(on(start + length + US, EventKind::BlockComplete(READ)));
        }
    }
    events.retain(|event| event.time.0 < 100 * MS);
    events.push(on(100 * MS, EventKind::Timer(TimerKind::Tick)));
    let mut setup = setup(&[IdlePolicy::Deepest]);
    setup.blocks = 10;
    let report = run(&events, &setup).unwrap();
    let spans: Vec<u64> = report.blocks.iter().map(|b| b.spans).collect();
    assert_eq!(spans, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(report.blocks[3].io_completions, 1);
    assert_eq!(report.blocks[3].io_wake_ups, 1);
    let time = |block: usize| report.blocks[block].policies[1].groups[0][2].time_ns;
    assert_eq!((time(0), time(8)), (MS, 7 * MS));
}

#[test]
fn the_sleep_of_the_package_is_divided_where_a_block_ends() {
    // Idle from 10 to 90 ms, in four blocks of 25 ms.
    let events = [
        on(0, EventKind::Timer(TimerKind::Tick)),
        idle(90 * MS, 80 * MS, 2, Before::Task),
        on(100 * MS, EventKind::Timer(TimerKind::Tick)),
    ];
    let mut setup = setup(&[IdlePolicy::Deepest]);
    setup.package = Some(PackageFigures { cpus: 1, ..PACKAGE });
    setup.blocks = 4;
    let report = run(&events, &setup).unwrap();
    let asleep: Vec<u64> = report
        .blocks
        .iter()
        .map(|b| b.policies[1].package.unwrap().asleep_ns)
        .collect();
    assert_eq!(asleep, [15 * MS - 30 * US, 25 * MS, 25 * MS, 15 * MS]);
    assert_eq!(asleep.iter().sum::<u64>(), 80 * MS - 30 * US);
}

#[test]
fn impossible_numbers_of_blocks_are_refused() {
    let events = [idle(2 * MS, MS, 2, Before::Task)];
    for blocks in [0, MAX_BLOCKS + 1] {
        let mut setup = setup(&[]);
        setup.blocks = blocks;
        let error = run(&events, &setup).unwrap_err().to_string();
        assert!(error.contains("1 to 1000"), "{error}");
    }
    // One moment has everything in its first block.
    let mut setup = setup(&[]);
    setup.blocks = 4;
    let report = run(&events, &setup).unwrap();
    let spans: Vec<u64> = report.blocks.iter().map(|b| b.spans).collect();
    assert_eq!(spans, [1, 0, 0, 0]);
}

#[test]
fn a_replay_can_be_stopped() {
    let recorded = recording(&[idle(2 * MS, MS, 2, Before::Task)]);
    let mut reader = Reader::open(&recorded.path).unwrap();
    let stopped = replay_recording(&mut reader, &setup(&[]), None, &mut |_| false);
    assert!(matches!(stopped, Err(ReplayError::Stopped)));
}
