//! Timelines are held against the figures of their runs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wakepath_hardware::machine::{DriveModel, builtin_machine_names};
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate, simulate_observed};
use wakepath_workloads::fio;

use super::*;

const HOUR: Nanoseconds = Nanoseconds::from_secs(3600);

/// A span with its names, and how many others of its track it is in.
#[derive(Debug)]
struct Slice {
    track: String,
    name: String,
    depth: usize,
    start: u64,
    end: u64,
}

struct Seen {
    slices: Vec<Slice>,
    /// Every value of every counter, from when on.
    values: BTreeMap<String, Vec<(u64, f64)>>,
}

/// Reads a timeline as strictly as its type says.
fn read(timeline: &Timeline) -> Seen {
    let mut seen = Seen {
        slices: Vec::new(),
        values: BTreeMap::new(),
    };
    let mut open: Vec<Vec<u64>> = vec![Vec::new(); timeline.tracks.len()];
    let mut now = 0;
    for span in &timeline.spans {
        assert!(span.start_ns >= now, "time goes back");
        assert!(span.end_ns >= span.start_ns, "{span:?}");
        now = span.start_ns;
        let outer = &mut open[span.track];
        while outer.last().is_some_and(|end| *end <= span.start_ns) {
            outer.pop();
        }
        let within = outer.last().is_none_or(|end| span.end_ns <= *end);
        assert!(within, "spans overlap: {span:?}");
        let track = timeline.tracks[span.track].name.clone();
        match span.what {
            SpanValue::Value(value) => {
                let values = seen.values.entry(track).or_default();
                values.push((span.start_ns, value));
            }
            SpanValue::Name(_) => seen.slices.push(Slice {
                track,
                name: timeline.describe_span(span),
                depth: outer.len(),
                start: span.start_ns,
                end: span.end_ns,
            }),
        }
        outer.push(span.end_ns);
    }
    seen
}

impl Seen {
    /// Total length in ns of the outermost slices of a track that `wanted` picks by name.
    fn total(&self, track: &str, wanted: impl Fn(&str) -> bool) -> u64 {
        let outermost = self
            .slices
            .iter()
            .filter(|s| s.track == track && s.depth == 0);
        let lengths = outermost
            .filter(|s| wanted(&s.name))
            .map(|s| s.end - s.start);
        lengths.sum()
    }

    fn requests(&self) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(|s| s.name == "request")
    }

    /// The whole name of the track of a CPU.
    fn cpu(&self, cpu: usize) -> String {
        let name = format!("CPU {cpu}");
        let with_cluster = format!("{name} (");
        let mut tracks = self.slices.iter().map(|s| &s.track);
        let found = tracks.find(|t| **t == name || t.starts_with(&with_cluster));
        found.cloned().unwrap_or(name)
    }
}

fn combination(idle: &str, freq: &str) -> PolicySet {
    PolicySet::from_names([idle, freq]).unwrap()
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

fn watch(
    machine: &Machine,
    job: &Workload,
    policies: &PolicySet,
    span: Nanoseconds,
) -> (Run, Timeline) {
    let mut observed = Observed::new(machine, job, span, |_| false);
    let run = simulate_observed(machine, job, policies, 1, &mut observed).unwrap();
    (run, observed.into_timeline())
}

/// Everything that a timeline of a whole run shares with the run's figures.
fn agrees(machine: &Machine, run: &Run, timeline: &Timeline) {
    let seen = read(timeline);
    let close = |ns: u64, seconds: f64| (ns as f64 - seconds * 1e9).abs() < 2.0;
    for cpu in &run.cpus {
        let track = seen.cpu(cpu.cpu);
        for (state, seconds) in machine.idle_state.iter().zip(&cpu.idle_seconds) {
            let drawn = seen.total(&track, |name| name == state.name);
            assert!(close(drawn, *seconds), "{track} {}: {drawn}", state.name);
        }
        let idle = |name: &str| machine.idle_state.iter().any(|s| s.name == name);
        assert!(close(seen.total(&track, |n| !idle(n)), cpu.busy_seconds));
        assert!(close(seen.total(&track, |_| true), run.seconds));
        // The outermost slices of a track follow one another without a gap or an overlap.
        let mut outer: Vec<&Slice> = seen.slices.iter().collect();
        outer.retain(|s| s.track == track && s.depth == 0);
        assert!(outer.windows(2).all(|two| two[0].end == two[1].start));
    }
    assert_eq!(seen.requests().count() as u64, run.requests);
    let latency: u64 = seen.requests().map(|s| s.end - s.start).sum();
    let mean = latency as f64 / run.requests.max(1) as f64 / 1e3;
    assert!((mean - run.latency_us.mean).abs() < 1e-6, "{mean}");
    // The steps of a request fill it.
    let steps = |s: &&Slice| s.track.starts_with("request slot") && s.depth == 1;
    let steps = seen.slices.iter().filter(steps);
    assert_eq!(steps.map(|s| s.end - s.start).sum::<u64>(), latency);
    let at_the_drive = &seen.values["requests at the drive"];
    assert!(at_the_drive.iter().all(|(_, value)| *value >= 0.0));
    assert!(at_the_drive.last().unwrap().1 < 0.5, "all have come back");
    // Without overlaps, a track is as long as its outermost slices.
    let flat: u64 = timeline
        .cut_spans_at_inner_starts()
        .iter()
        .map(|s| s.end_ns - s.start_ns)
        .sum();
    let frequencies: u64 = timeline
        .spans
        .iter()
        .filter(|s| matches!(timeline.tracks[s.track].kind, TrackKind::Frequency))
        .map(|s| s.end_ns - s.start_ns)
        .sum();
    let outermost: u64 = seen
        .slices
        .iter()
        .filter(|s| s.depth == 0)
        .map(|s| s.end - s.start)
        .sum();
    assert_eq!(flat, outermost + frequencies);
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
        let (run, timeline) = watch(&machine, &job, &combination(idle, freq), HOUR);
        agrees(&machine, &run, &timeline);
    }
}

#[test]
fn every_built_in_machine_has_a_timeline() {
    let job = job("rw=randrw\nioengine=io_uring\niodepth=4\nnumjobs=8\nruntime=5ms\n");
    for name in builtin_machine_names() {
        let machine = Machine::find(name).unwrap();
        let policies = combination("menu", "schedutil");
        let (run, timeline) = watch(&machine, &job, &policies, HOUR);
        assert!(
            read(&timeline).values.contains_key("CPU 0 runnable"),
            "{name}"
        );
        agrees(&machine, &run, &timeline);
    }
}

#[test]
fn watching_changes_nothing_and_sees_the_same_every_time() {
    let (machine, job) = (machine(false), job("rw=randrw\nnumjobs=2\nruntime=50ms\n"));
    let policies = combination("teo", "schedutil");
    let (watched, timeline) = watch(&machine, &job, &policies, HOUR);
    let alone = simulate(&machine, &job, &policies, 1).unwrap();
    let text = |run| serde_json::to_string(run).unwrap();
    assert_eq!(text(&watched), text(&alone));
    assert_eq!(watch(&machine, &job, &policies, HOUR).1, timeline);
}

#[test]
fn a_timeline_ends_with_its_span_and_so_does_the_run() {
    let (machine, job) = (
        machine(false),
        job("rw=randread\nioengine=libaio\niodepth=4\nruntime=1000s\n"),
    );
    let span = Nanoseconds::from_millis(7);
    let (run, timeline) = watch(&machine, &job, &combination("menu", "schedutil"), span);
    assert!(run.seconds < 0.1);
    let seen = read(&timeline);
    assert_eq!(seen.slices.iter().map(|s| s.end).max(), Some(span.0));
    for cpu in 0..machine.cpus() {
        assert_eq!(seen.total(&seen.cpu(cpu), |_| true), span.0);
    }
}

#[test]
fn leaving_an_idle_state_is_part_of_the_stay() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=5ms\n"));
    let (_, timeline) = watch(&machine, &job, &combination("deepest", "performance"), HOUR);
    let seen = read(&timeline);
    let exits: Vec<_> = seen
        .slices
        .iter()
        .filter(|s| s.name == "idle exit")
        .collect();
    assert!(!exits.is_empty());
    assert!(exits.iter().all(|s| s.depth == 1));
}

#[test]
fn the_frequency_is_in_megahertz() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=5ms\n"));
    let (_, timeline) = watch(&machine, &job, &combination("menu", "performance"), HOUR);
    let seen = read(&timeline);
    for cluster in &machine.cluster {
        let values = &seen.values[&format!("frequency of cluster {}", cluster.name)];
        let highest = f64::from(cluster.opps.last().unwrap().khz) / 1e3;
        assert_eq!(*values, [(0, highest)]);
    }
}

#[test]
fn each_drive_has_a_track_of_power_states_once_it_tells_one() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=5ms\n"));
    let mut observed = Observed::new(&machine, &job, HOUR, |_| false);
    observed.drive_power_state_changed(Nanoseconds(0), 0, 0);
    observed.drive_power_state_changed(Nanoseconds(0), 1, 3);
    observed.drive_power_state_changed(Nanoseconds(10), 0, 0);
    observed.drive_power_state_changed(Nanoseconds(30), 0, 4);
    observed.observation_ended(Nanoseconds(100));
    let seen = read(&observed.into_timeline());
    let time_in_state =
        |drive, name: &str| seen.total(&format!("power state of drive {drive}"), |n| n == name);
    assert_eq!(
        (
            time_in_state(0, "PS0"),
            time_in_state(0, "PS4"),
            time_in_state(1, "PS3")
        ),
        (30, 70, 100)
    );
}

/// Two sleeping drives: their slices are the run's figures, and looking changes nothing.
#[test]
fn sleeping_drives_are_shown_with_their_power_states() {
    let mut machine = Machine::find("laptop").unwrap();
    machine.drive = DriveModel::find("sn530").unwrap();
    machine.drive.count = 2;
    machine.drive.chunk_kib.value = 64.0;
    let job = job("rw=randread\nthinktime=700ms\nruntime=20s\n");
    let policies = combination("menu", "schedutil");
    let (run, timeline) = watch(&machine, &job, &policies, HOUR);
    let plain = simulate(&machine, &job, &policies, 1).unwrap();
    assert_eq!(
        serde_json::to_string(&run).unwrap(),
        serde_json::to_string(&plain).unwrap()
    );
    let seen = read(&timeline);
    let drive = run.drive.unwrap();
    let (mut asleep, mut entries) = (0, 0);
    for number in 0..2 {
        let track = format!("power state of drive {number}");
        let all = seen.total(&track, |_| true) as f64;
        assert!((all - run.seconds * 1e9).abs() < 2.0, "{all}");
        for state in [3, 4] {
            asleep += seen.total(&track, |name| name == format!("PS{state}"));
        }
        entries += seen
            .slices
            .iter()
            .filter(|s: &&Slice| s.track == track && s.name != "PS0")
            .count() as u64;
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

#[test]
fn whoever_has_seen_enough_ends_the_run() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=1000s\n"));
    let mut observed = Observed::new(&machine, &job, HOUR, |seen| seen.done.len() >= 20);
    let policies = combination("menu", "schedutil");
    let run = simulate_observed(&machine, &job, &policies, 1, &mut observed).unwrap();
    assert!(run.seconds < 1.0);
    let timeline = observed.into_timeline();
    assert!(read(&timeline).slices.iter().all(|s| s.end != OPEN));
}

#[test]
fn a_representative_stretch_is_of_the_settled_run() {
    let (machine, job) = (machine(false), job("rw=randread\nruntime=1s\n"));
    let cancelled = AtomicBool::new(false);
    let mut observed = representative::observe_representative(&machine, &job, &cancelled);
    let policies = combination("menu", "schedutil");
    let run = simulate_observed(&machine, &job, &policies, 1, &mut observed).unwrap();
    let unobserved = simulate(&machine, &job, &policies, 1).unwrap();
    assert_eq!(
        format!("{run:?}"),
        format!("{unobserved:?}"),
        "it goes on after that"
    );
    let rows = representative::make_timeline_spans(observed);
    for at in ["p50", "p99"] {
        let rows = || rows.iter().filter(|row| row.at == at);
        let (start, end) = (
            rows().map(|r| r.start_ns).min(),
            rows().map(|r| r.end_ns).max(),
        );
        let (start, end) = (start.unwrap(), end.unwrap());
        assert!(
            start > 90_000_000 && end - start < 5_000_000,
            "{start} {end}"
        );
        for says in ["idle exit", "irq: completion", "drive: read", "submission"] {
            assert!(rows().any(|row| row.name == says), "{at}: {says}");
        }
        assert!(rows().any(|row| row.track.starts_with("frequency") && row.name.ends_with(" MHz")));
        assert!(!rows().any(|row| row.track.contains("runnable") || row.name == "request"));
    }
}
