//! Block traces as workloads: which requests come, and when.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveModel, Figure};
use wakepath_policies::PolicySet;
use wakepath_sim::observer::{Observer, RequestStep};
use wakepath_sim::{Run, simulate, simulate_observed};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;
use wakepath_workloads::block_trace::{BlockTrace, BlockTraceOptions};
use wakepath_workloads::fio::{self, FioJobFile};

fn trace_with(text: &str, options: &BlockTraceOptions) -> Workload {
    let trace = BlockTrace::from_text(text.as_bytes(), "t.log", options).unwrap();
    FioJobFile::for_block_trace(trace).into()
}

fn trace(text: &str) -> Workload {
    trace_with(text, &BlockTraceOptions::default())
}

fn dependent(text: &str) -> Workload {
    let options = BlockTraceOptions {
        is_dependent: true,
        ..BlockTraceOptions::default()
    };
    trace_with(text, &options)
}

/// A log of fio with 4 KiB reads at these times in us.
fn reads_at(times: impl IntoIterator<Item = u64>) -> String {
    let mut text = "fio version 3 iolog\n".to_owned();
    for (number, time) in times.into_iter().enumerate() {
        let _ = writeln!(text, "{time} f read {} 4096", number * 4096);
    }
    text
}

fn on(machine: &str, workload: &Workload, policy: &str) -> Run {
    let machine = Machine::find(machine).unwrap();
    let set: PolicySet = policy.parse().unwrap();
    simulate(&machine, workload, &set, 1).unwrap()
}

/// Times in ns when requests begin.
#[derive(Default)]
pub(crate) struct Begins(pub(crate) Vec<u64>);

impl Observer for Begins {
    fn request_step_reached(&mut self, now: Nanoseconds, step: RequestStep) {
        if matches!(step, RequestStep::Begun { .. }) {
            self.0.push(now.0);
        }
    }
}

#[test]
fn requests_begin_at_the_times_of_the_trace() {
    let times: Vec<u64> = (0..200).map(|i| i * 3_000 + i * i % 700).collect();
    let machine = Machine::find("rk3399").unwrap();
    let mut begins = Begins::default();
    let (workload, set) = (trace(&reads_at(times.clone())), PolicySet::default());
    let run = simulate_observed(&machine, &workload, &set, 1, &mut begins).unwrap();
    assert_eq!(
        (run.requests, run.reads, run.read_bytes),
        (200, 200, 200 * 4096)
    );
    assert_eq!(begins.0.len(), times.len());
    for (begin, time) in begins.0.iter().zip(&times) {
        // The process has to wake up from an idle state first.
        let late = *begin as f64 / 1e3 - *time as f64;
        assert!((0.0..1500.0).contains(&late), "{late} us after {time}");
    }
    let replay = run.replays[0];
    assert!(
        replay.most_late_s < 1.5e-3 && run.rates[0].achieved_share() > 0.99,
        "{replay:?}"
    );
    assert!(run.drift.is_none() && run.cut_jobs.is_empty());
}

#[test]
fn every_kind_of_request_is_made() {
    let text = "fio version 3 iolog\n0 f read 0 4096\n900 f write 4096 8192\n1800 f trim 0 65536\n2700 f sync 0 0\n\
                3600 f write 0 512\n";
    let mut machine = Machine::find("rk3399").unwrap();
    machine.drive.flush_us = Figure::assumed(400.0, "test");
    let run = |machine: &Machine| simulate(machine, &trace(text), &PolicySet::default(), 1);
    let done = run(&machine).unwrap();
    assert_eq!((done.reads, done.writes), (1, 3));
    assert_eq!((done.read_bytes, done.written_bytes), (4096, 8704));
    // The flush is no call of fsync.
    assert!(done.fsyncs.is_none());
    machine.drive.flush_us = Figure::default();
    let refused = run(&machine).unwrap_err().to_string();
    assert!(
        refused.contains("a flush of the trace on a drive"),
        "{refused}"
    );
    // Without a volatile cache the kernel sends no flush.
    machine.drive.flush_us = Figure::assumed(0.0, "test");
    assert_eq!(run(&machine).unwrap().requests, 4);
}

#[test]
fn a_steady_trace_is_as_a_job_with_that_rate() {
    let job = "[j]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nioengine=libaio\niodepth=1\nrate_iops=500\n\
               number_ios=1500\nsize=1g\n";
    let job: Workload = fio::parse(job, "j").unwrap().into();
    let trace = trace(&reads_at((0..1500).map(|i| i * 2_000)));
    // While a request is in flight, the replay has a timer for the next one, and the job has none: governors see it.
    for (policy, most) in [
        ("menu", 0.15),
        ("teo", 0.15),
        ("cpu-latency[limit=1us]", 0.02),
    ] {
        let [job, trace] = [&job, &trace].map(|workload| on("rk3399", workload, policy));
        let [job_mean, trace_mean] = [&job, &trace].map(|run| run.latency_us.mean);
        let apart = trace_mean / job_mean - 1.0;
        assert!(apart.abs() < most, "{policy}: {job_mean} and {trace_mean}");
        assert!((trace.seconds / job.seconds - 1.0).abs() < 0.01);
    }
}

#[test]
fn gaps_let_the_drive_sleep() {
    let mut machine = Machine::find("laptop").unwrap();
    machine.drive = DriveModel::find("sn530").unwrap();
    let wake_ups = |gap_ms: u64| {
        let text = reads_at((0..6).map(|i| i * gap_ms * 1000));
        let run = simulate(&machine, &trace(&text), &"apst".parse().unwrap(), 1).unwrap();
        (run.drive.unwrap().wake_ups, run.seconds)
    };
    let (long, seconds) = wake_ups(9_000);
    assert_eq!(long, 5);
    assert!((seconds - 45.0).abs() < 0.1, "{seconds}");
    assert_eq!(wake_ups(20).0, 0);
}

#[test]
fn a_trace_that_the_drive_cannot_keep_up_with_is_late() {
    let run = on("rk3399", &trace(&reads_at(0..20_000)), "menu");
    assert_eq!(run.requests, 20_000);
    let replay = run.replays[0];
    assert!(replay.last_late_s > 0.02, "{replay:?}");
    assert!((replay.asked_per_s - 1e6).abs() < 1e3, "{replay:?}");
    assert!(replay.done_per_s < 0.7 * replay.asked_per_s, "{replay:?}");
    let share = run.rates[0].achieved_share();
    assert!((share - replay.done_per_s / replay.asked_per_s).abs() < 1e-9);
}

#[test]
fn a_time_limit_ends_the_replay_without_a_word_and_the_default_says_so() {
    let text = reads_at((0..100).map(|i| i * 1_000_000));
    let whole = on("rk3399", &trace(&text), "menu");
    assert_eq!((whole.requests, whole.cut_jobs.len()), (60, 1));
    assert!((whole.seconds - 60.0).abs() < 1e-3, "{}", whole.seconds);
    let limit = Some(Nanoseconds::from_millis(4_500));
    let limited = trace(&text).with_time_limit_and_fio_warm_up(limit, None);
    let cut = on("rk3399", &limited, "menu");
    assert_eq!((cut.requests, cut.cut_jobs.len()), (5, 0));
}

#[test]
fn a_dependent_trace_keeps_think_times_on_a_faster_drive() {
    // Requests took 5 ms each, and their program thought for 1 ms.
    let mut text = String::new();
    for number in 0..300_u64 {
        let _ = writeln!(
            text,
            "{},a,0,Read,{},4096,50000",
            number * 60_000,
            number * 4096
        );
    }
    let open = on("rk3399", &trace(&text), "menu");
    let closed = on("rk3399", &dependent(&text), "menu");
    assert_eq!((open.requests, closed.requests), (300, 300));
    assert!((open.seconds - 1.794).abs() < 0.01, "{}", open.seconds);
    let wanted = 300.0 * closed.latency_us.mean / 1e6 + 299.0 * 1e-3;
    assert!(
        closed.seconds >= wanted - 1e-4,
        "{} {wanted}",
        closed.seconds
    );
    assert!(closed.seconds < 1.2 * wanted, "{} {wanted}", closed.seconds);
    assert!(closed.replays.is_empty() && closed.rates.is_empty());
    // Two threads at once stay two at once.
    let mut pairs = String::new();
    for number in 0..100_u64 {
        for at in [number * 60_000, number * 60_000 + 10] {
            let _ = writeln!(pairs, "{at},a,0,Read,0,4096,50000");
        }
    }
    let closed = on("rk3399", &dependent(&pairs), "menu");
    assert_eq!(closed.requests, 200);
    assert!(closed.seconds < 0.2, "{}", closed.seconds);
}

#[test]
fn a_request_beyond_the_drive_is_refused_with_its_line() {
    let mut machine = Machine::find("rk3399").unwrap();
    machine.drive.capacity_gb = Figure::assumed(1.0, "test");
    let text = "0,a,0,Read,0,4096,1\n1,a,0,Read,999999999,4096,1\n";
    let refused = simulate(&machine, &trace(text), &PolicySet::default(), 1).unwrap_err();
    let wanted = format!(
        "t.log:2: the request ends at byte 1000004095, and {} has 1000000000 (assumed: test); take a larger drive (--drive, or \
         drive.capacity_gb in the machine's file)",
        machine.drive.name
    );
    assert_eq!(refused.to_string(), wanted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever the trace, each request is made once, and equal seeds give equal runs.
    #[test]
    fn each_request_is_made_once(
        rows in prop::collection::vec((0_u64..40_000, any::<bool>(), 1_u64..64, 1_u64..90_000), 1..80),
        is_dependent in any::<bool>(),
        seed in any::<u64>(),
        machine in prop::sample::select(vec!["rk3399", "laptop", "skylake-2s-server"]),
    ) {
        let mut text = String::new();
        for (time, writes, sectors, takes) in &rows {
            let kind = if *writes { "Write" } else { "Read" };
            let _ = writeln!(text, "{time},a,0,{kind},{},{},{takes}", time * 512, sectors * 512);
        }
        let workload = if is_dependent { dependent(&text) } else { trace(&text) };
        let machine = Machine::find(machine).unwrap();
        let run = |seed| simulate(&machine, &workload, &PolicySet::default(), seed).unwrap();
        let first = run(seed);
        let writes = rows.iter().filter(|(_, writes, ..)| *writes).count() as u64;
        prop_assert_eq!((first.requests, first.writes), (rows.len() as u64, writes));
        let bytes: u64 = rows.iter().map(|(_, _, sectors, _)| sectors * 512).sum();
        prop_assert_eq!(first.read_bytes + first.written_bytes, bytes);
        let again = serde_json::to_string(&run(seed)).unwrap();
        prop_assert_eq!(serde_json::to_string(&first).unwrap(), again);
    }
}
