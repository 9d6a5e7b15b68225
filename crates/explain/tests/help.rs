//! What would help: each remedy says what the requests say, and nothing where there is nothing to gain.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    reason = "a test may stop where its premises fail"
)]

use wakepath_explain::{
    Collected, Coverage, Help, LEASE_NS, MetState, NeighbourState, Notification, Remedy,
    RemoteCompletion, ReplayExits, RequestKind, TaskPlacement, TaskWake, TracedRequest,
    explain_request_kinds, most_that_exits_cost_ns,
};
use wakepath_hardware::IdleState;
use wakepath_trace::recording::{CpuIdleStates, FrequencyDomain, Metadata};
use wakepath_units::Nanoseconds;

const SHALLOW: u8 = 1;
const DEEP: u8 = 2;
const DEEP_COST: u64 = 60_000;

/// A read of 100 us that met a state; every other one met the deep one, which costs 60 us more.
fn read(number: u64) -> TracedRequest {
    let is_deep = number * number % 7 < 3;
    let (state, exit) = if is_deep {
        (DEEP, DEEP_COST)
    } else {
        (SHALLOW, 0)
    };
    let drive = 98_000 + number * 37 % 1_000;
    TracedRequest {
        device: 259 << 20,
        bytes: 4096,
        write: false,
        background: false,
        task: Some(7),
        queued: None,
        completed: (number + 1) * 1_000_000,
        latency: drive + exit + 2_000,
        out: drive + exit,
        slept: drive + exit,
        interrupt: 2_000,
        remote: None,
        cpu: 0,
        irq: Some(36),
        gap: Some(500_000),
        cpu_gap: Some(10 * LEASE_NS),
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

/// 4,000 reads, each changed in the same way, of a machine with four idle states.
fn explain_reads(change: impl Fn(u64, &mut TracedRequest)) -> (RequestKind, Metadata) {
    let requests = (0..4_000).map(|number| {
        let mut request = read(number);
        change(number, &mut request);
        request
    });
    let collected = Collected {
        requests: requests.collect(),
        coverage: Coverage::default(),
        ..Collected::default()
    };
    let state = |name: &str, exit_us: u64| IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds(exit_us * 1_000),
        target_residency: Nanoseconds(exit_us * 3_000),
        polling: name == "POLL",
        disabled: false,
    };
    let metadata = Metadata {
        frequency_domains: vec![FrequencyDomain {
            cpus: vec![0],
            khz: vec![800_000, 3_200_000],
            governor: None,
        }],
        idle_states: vec![CpuIdleStates {
            cpus: vec![0],
            states: vec![
                state("POLL", 0),
                state("C1", 2),
                state("C6", 133),
                state("C8", 300),
            ],
        }],
        ..Metadata::default()
    };
    let kind = explain_request_kinds(&collected, None, &metadata)[0]
        .kind
        .clone();
    (kind, metadata)
}

/// What would help 4,000 reads, each changed in the same way.
fn find_helpful_remedies(change: impl Fn(u64, &mut TracedRequest)) -> Vec<Help> {
    explain_reads(change).0.help
}

fn remedy(all: &[Help], remedy: Remedy) -> Option<Help> {
    all.iter().copied().find(|help| help.remedy == remedy)
}

#[test]
fn shallow_states_save_what_deep_exits_cost() {
    let all = find_helpful_remedies(|_, _| ());
    let [help] = all[..] else {
        panic!("{all:?}");
    };
    assert_eq!(help.remedy, Remedy::ShallowStates);
    let met = |number: &u64| read(*number).met == MetState::State(DEEP);
    let truth = DEEP_COST as f64 * (0..4_000).filter(met).count() as f64 / 4_000.0;
    assert!(help.low_ns < truth && truth < help.high_ns, "{help:?}");
    assert!(help.high_ns - help.low_ns < 0.05 * truth, "{help:?}");
}

#[test]
fn leases_save_exits_soon_after_a_completion_only() {
    let all = find_helpful_remedies(|number, request| {
        request.cpu_gap = Some(if number % 2 == 0 {
            LEASE_NS
        } else {
            LEASE_NS + 1
        });
    });
    let leases = remedy(&all, Remedy::Leases).unwrap();
    let shallow = remedy(&all, Remedy::ShallowStates).unwrap();
    let share = leases.high_ns / shallow.high_ns;
    assert!((0.4..0.6).contains(&share), "{share}");
}

/// The daemon gives leases from the second completion of a burst on.
#[test]
fn leases_save_nothing_in_bursts_of_two() {
    let in_bursts = |length: u64| {
        find_helpful_remedies(|number, request| {
            let burst = number / length;
            request.cpu_gap = Some(if number % length == 0 {
                20 * LEASE_NS
            } else {
                LEASE_NS / 2
            });
            request.completed += burst * 20 * LEASE_NS;
        })
    };
    let share = |all: &[Help]| {
        let leases = remedy(all, Remedy::Leases);
        let shallow = remedy(all, Remedy::ShallowStates).unwrap();
        leases.map_or(0.0, |help| help.high_ns) / shallow.high_ns
    };
    assert_eq!(share(&in_bursts(2)), 0.0);
    let of_four = share(&in_bursts(4));
    assert!((0.4..0.6).contains(&of_four), "{of_four}");
}

#[test]
fn completion_on_another_cpu_costs_at_most_its_way() {
    let all = find_helpful_remedies(|_, request| {
        request.out -= 9_000;
        request.remote = Some(RemoteCompletion {
            exit: 7_000,
            handling: 2_000,
            notification: Notification::Ipi,
        });
    });
    let help = remedy(&all, Remedy::CompleteWhereInterrupted).unwrap();
    assert_eq!((help.low_ns, help.high_ns), (0.0, 9_000.0));
}

#[test]
fn exits_of_tasks_elsewhere_can_be_saved_by_placement() {
    let woken = |notification| {
        let wake = TaskWake {
            task: Some(7),
            cpu: Some(3),
            hand_over: 500,
            hops: 0,
            through: 0,
            exit: 20_000,
            run_queue: Some(1_000),
            notification,
        };
        let all = find_helpful_remedies(|_, request| request.wake = Some(wake));
        remedy(&all, Remedy::TasksWhereCompleted)
    };
    assert_eq!(woken(Notification::Ipi).unwrap().high_ns, 20_000.0);
    assert_eq!(woken(Notification::SameCpu), None);
}

/// Placement of reads that CPU 0 completes, or hands on. Tasks run on CPUs 3 and 5, and rarely on CPU 9.
fn explain_placement(
    notification: Notification,
    remote: Option<RemoteCompletion>,
) -> TaskPlacement {
    let (kind, _) = explain_reads(|number, request| {
        request.remote = remote;
        request.wake = Some(TaskWake {
            task: Some(7),
            cpu: Some(match number % 100 {
                0 => 9,
                1..50 => 5,
                _ => 3,
            }),
            hand_over: 500,
            hops: 0,
            through: 0,
            exit: 20_000,
            run_queue: Some(1_000),
            notification,
        });
    });
    kind.placement
}

#[test]
fn cpus_of_completions_and_of_tasks_elsewhere_are_told() {
    let placement = explain_placement(Notification::Store, None);
    assert_eq!(placement.completing_cpus, [0]);
    assert_eq!(placement.task_cpus, [3, 5]);
    let same = explain_placement(Notification::SameCpu, None);
    assert_eq!(same, TaskPlacement::default());
    // The CPU that completes for an interrupted one is not known.
    let handed_on = RemoteCompletion {
        exit: 0,
        handling: 0,
        notification: Notification::Ipi,
    };
    let placement = explain_placement(Notification::Ipi, Some(handed_on));
    assert!(placement.completing_cpus.is_empty(), "{placement:?}");
    assert_eq!(placement.task_cpus, [3, 5]);
}

#[test]
fn a_low_clock_costs_at_most_what_it_makes_of_the_work() {
    let all = find_helpful_remedies(|_, request| request.khz = 800_000);
    let help = remedy(&all, Remedy::HighestFrequency).unwrap();
    assert_eq!((help.low_ns, help.high_ns), (0.0, 1_500.0));
    let at_full_speed = find_helpful_remedies(|_, request| request.khz = 3_200_000);
    assert_eq!(remedy(&at_full_speed, Remedy::HighestFrequency), None);
}

/// A switch to the task takes some us: only longer run queues mean busy CPUs.
#[test]
fn run_queues_of_busy_cpus_are_said() {
    let waited = |run_queue| {
        let wake = TaskWake {
            task: Some(7),
            cpu: Some(3),
            hand_over: 500,
            hops: 0,
            through: 0,
            exit: 0,
            run_queue: Some(run_queue),
            notification: Notification::SameCpu,
        };
        let all = find_helpful_remedies(|_, request| request.wake = Some(wake));
        remedy(&all, Remedy::FewerOtherTasks)
    };
    assert_eq!(waited(1_000_000).unwrap().high_ns, 1_000_000.0);
    assert_eq!(waited(9_000), None);
}

/// C6 costs 60 us, and 133 are declared; no request met C8.
#[test]
fn replays_have_the_exits_that_requests_tell() {
    let (kind, metadata) = explain_reads(|_, _| ());
    let exits = ReplayExits::from_kind(&kind, &metadata).unwrap();
    let ns: Vec<u64> = exits.by_state_ns.values().copied().collect();
    assert_eq!((ns[0], ns[1], ns[3]), (0, 0, 298_000));
    assert!(ns[2].abs_diff(DEEP_COST) < 600, "{ns:?}");
    assert_eq!(exits.declared, ["C8"]);
    let most = most_that_exits_cost_ns(std::slice::from_ref(&kind));
    let shallow = remedy(&kind.help, Remedy::ShallowStates).unwrap();
    assert!(
        (most - shallow.high_ns).abs() < 0.02 * most,
        "{most} {shallow:?}"
    );

    // Where the deep state goes with the gap, requests do not tell its exit.
    let (unknown, metadata) = explain_reads(|_, request| {
        request.gap = Some(if request.met == MetState::State(DEEP) {
            50_000_000
        } else {
            500_000
        });
    });
    let reason = ReplayExits::from_kind(&unknown, &metadata).unwrap_err();
    assert_eq!(reason, "requests tell no exits");
}
