//! Reads written traces again, and holds them against the figures of the run.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::{self, Write};

use proptest::prelude::*;
use prost::Message;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveModel, builtin_names};
use wakepath_policies::PolicySet;
use wakepath_sim::observer::Observer;
use wakepath_sim::{Run, simulate, simulate_observed};
use wakepath_units::Nanoseconds;
use wakepath_workloads::{Workload, fio};

use super::Timeline;
use super::proto::{EventType, Trace, TracePacket};

const HOUR: Nanoseconds = Nanoseconds::from_secs(3600);

/// A slice: track, name, how many others it is in, start and end in ns.
#[derive(Debug)]
struct Slice {
    track: String,
    name: String,
    depth: usize,
    start: u64,
    end: u64,
}

/// What a reader makes of a trace.
struct Read {
    slices: Vec<Slice>,
    /// Every change of every counter.
    counts: BTreeMap<String, Vec<(u64, f64)>>,
}

/// Reads a trace as strictly as its format allows.
fn read(bytes: &[u8]) -> Read {
    let packets: Vec<TracePacket> = Trace::decode(bytes).unwrap().packet;
    assert_eq!(packets[0].sequence_flags, Some(1), "state cleared first");
    let mut tracks = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    let mut result = Read {
        slices: Vec::new(),
        counts: BTreeMap::new(),
    };
    let mut now = 0;
    for packet in packets {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        for new in packet.interned_data.iter().flat_map(|d| &d.event_names) {
            let other = names.insert(new.iid.unwrap(), new.name.clone().unwrap());
            assert_eq!(other, None, "an interned number is used twice");
        }
        if let Some(track) = packet.track_descriptor {
            let parent = track.parent_uuid;
            assert!(parent.is_none_or(|p| tracks.contains_key(&p)));
            let name = track.name.or(track.process.and_then(|p| p.process_name));
            let other = tracks.insert(track.uuid.unwrap(), name.unwrap());
            assert_eq!(other, None, "a track is described twice");
        }
        let Some(event) = packet.track_event else {
            continue;
        };
        let time = packet.timestamp.unwrap();
        assert!(time >= now, "time goes back");
        now = time;
        let uuid = event.track_uuid.unwrap();
        let track = tracks[&uuid].clone();
        let stack = open.entry(uuid).or_default();
        match event.r#type() {
            EventType::SliceBegin => {
                stack.push((names[&event.name_iid.unwrap()].clone(), time));
            }
            EventType::SliceEnd => {
                let (name, start) = stack.pop().unwrap();
                result.slices.push(Slice {
                    track,
                    name,
                    depth: stack.len(),
                    start,
                    end: time,
                });
            }
            EventType::Counter => {
                let whole = event.counter_value.map(|v| v as f64);
                let value = whole.or(event.double_counter_value).unwrap();
                result.counts.entry(track).or_default().push((time, value));
            }
            other => panic!("unexpected event {other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "slices are left open");
    result
}

impl Read {
    /// Total length in ns of the outermost slices of a track that `wanted` picks by name.
    fn total(&self, track: &str, wanted: impl Fn(&str) -> bool) -> u64 {
        self.slices
            .iter()
            .filter(|s| s.track == track && s.depth == 0 && wanted(&s.name))
            .map(|s| s.end - s.start)
            .sum()
    }

    fn requests(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(|s| s.name == "request")
    }
}

fn combination(idle: &str, freq: &str) -> PolicySet {
    PolicySet::named([idle, freq]).unwrap()
}

fn job(lines: &str) -> Workload {
    let text = format!("[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\n{lines}");
    fio::parse(&text, "test.fio").unwrap().into()
}

/// RK3399, with a polling state in front as x86 machines have, or without.
fn machine(polling: bool) -> Machine {
    let mut machine = Machine::find("rk3399").unwrap();
    if polling {
        let mut poll = machine.idle_state[0].clone();
        poll.name = "POLL".into();
        poll.polling = true;
        poll.exit_latency_us.value = 0.0;
        poll.target_residency_us.value = 0.0;
        poll.true_exit_us.value = 0.0;
        machine.idle_state.insert(0, poll);
    }
    machine
}

fn draw(
    machine: &Machine,
    job: &Workload,
    policies: &PolicySet,
    span: Nanoseconds,
) -> (Run, Vec<u8>) {
    let mut timeline = Timeline::new(Vec::new(), machine, job, span);
    let run = simulate_observed(machine, job, policies, 1, &mut timeline).unwrap();
    (run, timeline.finish().unwrap())
}

/// Everything that a timeline of a whole run shares with the run's figures.
fn agrees(machine: &Machine, run: &Run, trace: &Read) {
    let close = |ns: u64, seconds: f64| (ns as f64 - seconds * 1e9).abs() < 2.0;
    for cpu in &run.cpus {
        let track = format!("CPU {}", cpu.cpu);
        for (state, seconds) in machine.idle_state.iter().zip(&cpu.idle_seconds) {
            let drawn = trace.total(&track, |name| name == state.name);
            assert!(close(drawn, *seconds), "{track} {}: {drawn}", state.name);
        }
        let idle = |name: &str| machine.idle_state.iter().any(|s| s.name == name);
        assert!(close(trace.total(&track, |n| !idle(n)), cpu.busy_seconds));
        assert!(close(trace.total(&track, |_| true), run.seconds));
        // The outermost slices of a track follow one another without a gap or an overlap.
        let mut outer: Vec<&Slice> = trace.slices.iter().collect();
        outer.retain(|s| s.track == track && s.depth == 0);
        assert!(outer.windows(2).all(|two| two[0].end == two[1].start));
    }
    assert_eq!(trace.requests().count() as u64, run.requests);
    let latency: u64 = trace.requests().map(|s| s.end - s.start).sum();
    let mean = latency as f64 / run.requests.max(1) as f64 / 1e3;
    assert!((mean - run.latency_us.mean).abs() < 1e-6, "{mean}");
    // The steps of a request fill it.
    let steps: u64 = trace
        .slices
        .iter()
        .filter(|s| s.track.starts_with("request slot") && s.depth == 1)
        .map(|s| s.end - s.start)
        .sum();
    assert_eq!(steps, latency);
    let at_the_drive = &trace.counts["requests at the drive"];
    assert!(at_the_drive.iter().all(|(_, value)| *value >= 0.0));
    assert!(at_the_drive.last().unwrap().1 < 0.5, "all have come back");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_timeline_of_the_whole_run_agrees_with_its_figures(
        polling in any::<bool>(),
        engine in prop::sample::select(vec!["psync", "libaio", "io_uring"]),
        rw in prop::sample::select(vec!["randread", "randwrite", "randrw"]),
        idle in prop::sample::select(vec!["menu@6.1", "teo", "ladder", "shallowest", "deepest"]),
        freq in prop::sample::select(vec!["schedutil", "performance", "powersave"]),
        depth in 1_u32..6,
        jobs in 1_u32..5,
        think in 0_u32..300,
        runtime in 1_u32..30,
    ) {
        let machine = machine(polling);
        let job = job(&format!(
            "rw={rw}\nioengine={engine}\niodepth={depth}\nnumjobs={jobs}\nthinktime={think}\n\
             thinktime_spin=20\nthinkcycles=1000\nruntime={runtime}ms\n"
        ));
        let (run, bytes) = draw(&machine, &job, &combination(idle, freq), HOUR);
        agrees(&machine, &run, &read(&bytes));
    }
}

#[test]
fn every_built_in_machine_can_be_drawn() {
    let job = job("rw=randrw\nioengine=io_uring\niodepth=4\nnumjobs=8\nruntime=5ms\n");
    for name in builtin_names() {
        let machine = Machine::find(name).unwrap();
        let policies = combination("menu", "schedutil");
        let (run, bytes) = draw(&machine, &job, &policies, HOUR);
        let trace = read(&bytes);
        assert!(trace.counts.contains_key("CPU 0 runnable"), "{name}");
        agrees(&machine, &run, &trace);
    }
}

#[test]
fn watching_changes_nothing_and_draws_the_same_every_time() {
    let (machine, job) = (machine(false), job("rw=randrw\nnumjobs=2\nruntime=50ms\n"));
    let policies = combination("teo", "schedutil");
    let (watched, bytes) = draw(&machine, &job, &policies, HOUR);
    let alone = simulate(&machine, &job, &policies, 1).unwrap();
    let text = |run| serde_json::to_string(run).unwrap();
    assert_eq!(text(&watched), text(&alone));
    assert_eq!(draw(&machine, &job, &policies, HOUR).1, bytes);
}

#[test]
fn a_timeline_ends_with_its_span_and_so_does_the_run() {
    let (machine, job) = (
        machine(false),
        job("rw=randread\nioengine=libaio\niodepth=4\nruntime=1000s\n"),
    );
    let span = Nanoseconds::from_millis(7);
    let (run, bytes) = draw(&machine, &job, &combination("menu", "schedutil"), span);
    assert!(run.seconds < 0.1);
    let trace = read(&bytes);
    assert_eq!(trace.slices.iter().map(|s| s.end).max(), Some(span.0));
    for cpu in 0..machine.cpus() {
        assert_eq!(trace.total(&format!("CPU {cpu}"), |_| true), span.0);
    }
}

#[test]
fn leaving_an_idle_state_is_part_of_the_stay() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=5ms\n"));
    let (_, bytes) = draw(&machine, &job, &combination("deepest", "performance"), HOUR);
    let trace = read(&bytes);
    let waking: Vec<_> = trace.slices.iter().filter(|s| s.name == "waking").collect();
    assert!(!waking.is_empty());
    assert!(waking.iter().all(|s| s.depth == 1));
}

#[test]
fn the_frequency_is_in_megahertz() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=5ms\n"));
    let (_, bytes) = draw(&machine, &job, &combination("menu", "performance"), HOUR);
    let trace = read(&bytes);
    for cluster in &machine.cluster {
        let drawn = &trace.counts[&format!("frequency of cluster {}", cluster.name)];
        assert_eq!(
            *drawn,
            [(0, f64::from(cluster.opps.last().unwrap().khz) / 1e3)]
        );
    }
}

#[test]
fn each_drive_has_a_track_of_power_states_once_it_tells_one() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=5ms\n"));
    let mut timeline = Timeline::new(Vec::new(), &machine, &job, HOUR);
    timeline.drive_power(Nanoseconds(0), 0, 0);
    timeline.drive_power(Nanoseconds(0), 1, 3);
    timeline.drive_power(Nanoseconds(10), 0, 0);
    timeline.drive_power(Nanoseconds(30), 0, 4);
    timeline.finished(Nanoseconds(100));
    let trace = read(&timeline.finish().unwrap());
    let of =
        |drive, name: &str| trace.total(&format!("power state of drive {drive}"), |n| n == name);
    assert_eq!((of(0, "PS0"), of(0, "PS4"), of(1, "PS3")), (30, 70, 100));
}

/// Two sleeping drives: their slices are the run's figures, and looking changes nothing.
#[test]
fn sleeping_drives_are_drawn_with_their_power_states() {
    let mut machine = Machine::find("laptop").unwrap();
    machine.drive = DriveModel::find("sn530").unwrap();
    machine.drive.count = 2;
    machine.drive.chunk_kib.value = 64.0;
    let job = job("rw=randread\nthinktime=700ms\nruntime=20s\n");
    let policies = combination("menu", "schedutil");
    let (run, trace) = draw(&machine, &job, &policies, HOUR);
    let plain = simulate(&machine, &job, &policies, 1).unwrap();
    assert_eq!(
        serde_json::to_string(&run).unwrap(),
        serde_json::to_string(&plain).unwrap()
    );
    let trace = read(&trace);
    let drive = run.drive.unwrap();
    let (mut asleep, mut entries) = (0, 0);
    for number in 0..2 {
        let track = format!("power state of drive {number}");
        let all = trace.total(&track, |_| true) as f64;
        assert!((all - run.seconds * 1e9).abs() < 2.0, "{all}");
        for state in [3, 4] {
            asleep += trace.total(&track, |name| name == format!("PS{state}"));
        }
        let of = |s: &&Slice| s.track == track && s.name != "PS0";
        entries += trace.slices.iter().filter(of).count() as u64;
    }
    let states = || drive.states[3..].iter();
    assert_eq!(entries, states().map(|s| s.entries).sum::<u64>());
    assert!(entries > 20 && drive.states[4].entries > 0, "{drive:?}");
    // A drive is drawn in its power state until it has left it.
    let seconds: f64 = states().map(|s| s.seconds).sum();
    let leaving = drive.wake_ups as f64 * drive.mean_wake_us / 1e6;
    let entering = drive.states[4].entries as f64 * 5e-3;
    let drawn = asleep as f64 / 1e9;
    assert!(
        (drawn - seconds - leaving - entering).abs() < 1e-4,
        "{drawn} {seconds} {leaving}"
    );
}

/// Takes so many bytes and no more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_run_and_is_told() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=1000s\n"));
    let mut timeline = Timeline::new(Full(5000), &machine, &job, HOUR);
    let policies = combination("menu", "schedutil");
    let run = simulate_observed(&machine, &job, &policies, 1, &mut timeline).unwrap();
    assert!(run.seconds < 1.0);
    let error = timeline.finish().err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
