//! Measured exits and late timers beside what requests tell: the zero of the drive, and contradictions.

#![allow(
    clippy::float_cmp,
    reason = "sums of whole numbers of nanoseconds are exact"
)]

use wakepath_explain::{
    Collected, CpuExits, ExitEstimate, Explanation, MetState, NeighbourState, RequestKind,
    TimerLateness, TracedRequest, assemble_explanation, compare_estimates, explain_request_kinds,
};
use wakepath_hardware::IdleState;
use wakepath_trace::recording::{CpuIdleStates, Metadata};
use wakepath_units::Nanoseconds;

const SHALLOW: u8 = 1;
const DEEP: u8 = 2;

/// A read of 98 to 99 us and an interrupt of 2 us; the deep state costs 60 us more than the shallow one.
fn read(number: u64) -> TracedRequest {
    let is_deep = number * number % 7 < 3;
    let (state, exit) = if is_deep {
        (DEEP, 60_000)
    } else {
        (SHALLOW, 0)
    };
    let out = 98_000 + number * 37 % 1_000 + exit;
    TracedRequest {
        device: 259 << 20,
        bytes: 4096,
        write: false,
        background: false,
        task: None,
        queued: None,
        completed: (number + 1) * 1_000_000,
        latency: out + 2_000,
        out,
        slept: out,
        interrupt: 2_000,
        remote: None,
        cpu: 0,
        irq: Some(36),
        gap: Some(500_000),
        cpu_gap: None,
        in_flight: 0,
        khz: 0,
        first: Some(state),
        periods: 1,
        overtaken: false,
        met: MetState::State(state),
        sibling: NeighbourState::None,
        cluster: NeighbourState::None,
        package: NeighbourState::None,
        wake: None,
    }
}

/// An exit of so many us, give or take 1.
fn exit(us: f64) -> ExitEstimate {
    ExitEstimate {
        mean_ns: us * 1e3,
        low_ns: (us - 1.0) * 1e3,
        high_ns: (us + 1.0) * 1e3,
    }
}

/// Timers that ended the deep state so many us late, give or take 1.
fn late(us: f64) -> TimerLateness {
    TimerLateness {
        state: DEEP,
        timers: 100,
        median_ns: us * 1e3,
        interval_ns: Some([(us - 1.0) * 1e3, (us + 1.0) * 1e3]),
    }
}

/// Explains 4,000 reads on a machine whose shallow state declares an exit of 2 us.
fn explain(measured: &[(u8, ExitEstimate)], timers: &[TimerLateness]) -> Explanation {
    let exits = [exits_of_cpu(0, measured)];
    explain_reads((0..4_000).map(read).collect(), &exits, timers)
}

fn exits_of_cpu(cpu: u32, measured: &[(u8, ExitEstimate)]) -> CpuExits {
    CpuExits {
        cpus: vec![cpu],
        by_state: measured.iter().copied().collect(),
    }
}

fn explain_reads(
    requests: Vec<TracedRequest>,
    exits: &[CpuExits],
    timers: &[TimerLateness],
) -> Explanation {
    let collected = Collected {
        requests,
        timers: timers.to_vec(),
        ..Collected::default()
    };
    let state = |name: &str, us: u64| IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds::from_micros(us),
        target_residency: Nanoseconds::from_micros(us),
        polling: name == "POLL",
        disabled: false,
    };
    let metadata = Metadata {
        idle_states: vec![CpuIdleStates {
            cpus: vec![0],
            states: vec![state("POLL", 0), state("C1", 2), state("C6", 100)],
        }],
        ..Metadata::default()
    };
    let mut groups = explain_request_kinds(&collected, None, &metadata);
    compare_estimates(&mut groups, exits, timers);
    assemble_explanation(&groups, &collected, &metadata)
}

fn states_in_disagreement(kind: &RequestKind) -> Vec<u8> {
    kind.disagreements.iter().map(|all| all.state).collect()
}

#[test]
fn a_measured_reference_fixes_the_zero_of_the_drive() {
    let plain = explain(&[], &[]);
    let measured = explain(&[(SHALLOW, exit(4.0)), (DEEP, exit(64.0))], &[]);
    let [plain, kind] = [&plain.kinds[0], &measured.kinds[0]];
    assert_eq!((plain.reference_exit, plain.measured.len()), (None, 0));
    assert_eq!(kind.reference_exit, Some(exit(4.0)));
    let [before, rest] = [plain, kind].map(|kind| kind.rest_ns.unwrap_or_default());
    assert_eq!(before - rest, 4_000.0);
    // The measurement's interval is in the drive's, too.
    let widths = [plain, kind].map(|kind| {
        let [low, high] = kind.rest_interval_ns().unwrap_or_default();
        high - low
    });
    assert!(
        widths[1] >= 2_000.0 && widths[1] < widths[0] + 2_000.0,
        "{widths:?}"
    );
    // Single requests have the whole exit, and the drive its time alone.
    let deep = (0..100).map(read).find(|r| r.met == MetState::State(DEEP));
    let deep = deep.map_or(0, |request| kind.estimated_exit(&request));
    assert!(deep.abs_diff(64_000) < 200, "{deep}");
    assert_eq!(states_in_disagreement(kind), [0_u8; 0]);
}

#[test]
fn requests_and_measurement_contradict_each_other_in_either_direction() {
    for (us, contradicts) in [(61.0, true), (63.5, false), (67.0, true)] {
        let measured = explain(&[(SHALLOW, exit(4.0)), (DEEP, exit(us))], &[]);
        let states = states_in_disagreement(&measured.kinds[0]);
        assert_eq!(states.contains(&DEEP), contradicts, "{us}");
    }
    // Without the reference's exit nothing can be compared.
    let measured = explain(&[(DEEP, exit(90.0))], &[]);
    assert_eq!(states_in_disagreement(&measured.kinds[0]), [0_u8; 0]);
}

#[test]
fn timers_contradict_only_from_above() {
    // By requests the exit takes 60 us more than one of at most 2 us.
    for (us, contradicts) in [(10.0, false), (62.5, false), (65.0, true)] {
        let explanation = explain(&[], &[late(us)]);
        let states = states_in_disagreement(&explanation.kinds[0]);
        assert_eq!(states.contains(&DEEP), contradicts, "{us}");
    }
    let few = TimerLateness {
        interval_ns: None,
        ..late(500.0)
    };
    assert_eq!(
        states_in_disagreement(&explain(&[], &[few]).kinds[0]),
        [0_u8; 0]
    );
}

#[test]
fn requests_on_several_kinds_of_cpus_have_the_mean_of_measured_exits() {
    // A quarter of the requests that meet each state interrupt CPU 1.
    let mut requests: Vec<TracedRequest> = (0..4_000).map(read).collect();
    let mut met = [0_u32; 3];
    for request in &mut requests {
        let MetState::State(state) = request.met else {
            continue;
        };
        let count = &mut met[usize::from(state)];
        request.cpu = u32::from(*count % 4 == 0);
        *count += 1;
    }
    let shares = met.map(|count| f64::from(count.div_ceil(4)) / f64::from(count.max(1)));
    let kinds = [
        exits_of_cpu(0, &[(SHALLOW, exit(4.0)), (DEEP, exit(64.0))]),
        exits_of_cpu(1, &[(SHALLOW, exit(8.0)), (DEEP, exit(68.0))]),
    ];
    let explanation = explain_reads(requests.clone(), &kinds, &[]);
    let measured = &explanation.kinds[0].measured;
    for (state, us) in [(SHALLOW, 4.0), (DEEP, 64.0)] {
        let mean_ns = (us + 4.0 * shares[usize::from(state)]) * 1e3;
        let found = measured[&state];
        assert!(
            (found.mean_ns - mean_ns).abs() < 1e-6,
            "{found:?} of {mean_ns}"
        );
        assert!(
            (found.high_ns - found.low_ns - 2_000.0).abs() < 1e-6,
            "{found:?}"
        );
    }
    // No measurement of one kind stands for another.
    let explanation = explain_reads(requests, &kinds[..1], &[]);
    assert!(explanation.kinds[0].measured.is_empty());
}
