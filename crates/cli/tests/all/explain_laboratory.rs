//! `wakepath explain` in the laboratory (docs/background/laboratory.md), whose drive writes down what each request took.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wakepath_trace::recording::{
    Event, EventKind, Interrupt, Overwrite, Reader, RecordingError, Writer,
};
use wakepath_units::Nanoseconds;

use crate::common::laboratory::{laboratory_command, said_unless_skipped};
use crate::common::{json, repository, wakepath};

/// Exit latencies in `rig/laboratory/debian-6.12.toml`, in ns, by the index of the idle state: POLL, C1, C1E, C6, C8.
const EXITS_NS: [f64; 5] = [0.0, 2_000.0, 10_000.0, 133_000.0, 300_000.0];
/// The longest of these.
const LONGEST_EXIT_NS: u64 = 300_000;
/// CPU that plays the drive, behind those of the machine.
const DRIVE_CPU: u32 = 2;

/// A drive later than this by its own record, or an exit longer than the longest state's by this, waited for the emulator.
const STALL_NS: u64 = 300_000;
/// How long before and after such a time requests are left out.
const AROUND_STALL_NS: u64 = 10_000_000;

/// How far the cost of an exit may be off: a share of its true value, or ns if that is more.
const EXIT_SHARE: f64 = 0.05;
const EXIT_NS: f64 = 1_000.0;
/// How far the drive's time may be off, as a share.
const DRIVE_SHARE: f64 = 0.02;
/// How far a part of the mean may be off, as a share of the mean.
const PART_SHARE: f64 = 0.05;

/// A job: its name, and the lines of fio that make it.
type Job = (&'static str, &'static str);

/// Depth 1 to 32, at random times, so that equal gaps meet several states.
static JOBS: [Job; 8] = [
    (
        "poisson-300",
        "rw=randread\nioengine=psync\nrate_iops=300\nruntime=8s",
    ),
    (
        "poisson-600",
        "rw=randread\nioengine=psync\nrate_iops=600\nruntime=4s",
    ),
    (
        "poisson-1000",
        "rw=randread\nioengine=psync\nrate_iops=1000\nruntime=3s",
    ),
    (
        "writes-600",
        "rw=randwrite\nioengine=psync\nrate_iops=600\nruntime=4s",
    ),
    (
        "depth-2",
        "rw=randread\nioengine=libaio\niodepth=2\nrate_iops=1000\nruntime=3s",
    ),
    (
        "depth-4",
        "rw=randread\nioengine=libaio\niodepth=4\nrate_iops=1500\nruntime=2s",
    ),
    (
        "depth-8",
        "rw=randread\nioengine=libaio\niodepth=8\nrate_iops=2500\nruntime=2s",
    ),
    (
        "depth-32",
        "rw=randread\nioengine=libaio\niodepth=32\nrate_iops=4000\nruntime=1s",
    ),
];

/// Policies under which states vary; the last one holds CPUs shallow for 3 ms after each completion.
static POLICIES: [&str; 3] = [
    "menu",
    "ladder",
    "menu + psd[timeout=3ms,ceiling=20us,rule=module]",
];

/// A guest: which CPU its drive interrupts, and what runs.
struct Cells {
    name: &'static str,
    /// Keys of the machine's `io_path.completion`.
    completion: &'static str,
    /// Keys of the machine's drive.
    drive: &'static str,
    policies: &'static [&'static str],
    jobs: &'static [Job],
}

/// A spread of service times so small that some thousand requests show an exit to 1 us.
const NARROW: &str = "spread = 0.1";
/// One read in 500 takes milliseconds.
const WIDE: &str = "spread = 0.5\nread_p999_us = 2000";

/// A study of a guest's jobs under its policies, on a machine with such a drive.
fn write_study(folder: &Path, cells: &Cells) -> PathBuf {
    let machine = fs::read_to_string(repository().join("rig/laboratory/debian-6.12.toml")).unwrap();
    let machine = machine
        .replace("\nspread = 0\n", &format!("\n{}\n", cells.drive))
        .replace(
            "completion = {",
            &format!("completion = {{ {}", cells.completion),
        );
    fs::write(folder.join("debian-6.12.toml"), machine).unwrap();
    let policies = cells.policies.join("', '");
    let mut study = format!(
        "name = 'explain'\nmachine = 'debian-6.12.toml'\nrepeats = 1\nwarm_up_s = 0\npolicy = ['{policies}']\n"
    );
    for (name, lines) in cells.jobs {
        write!(
            study,
            "[[workload]]\nname = '{name}'\nfio_job = '''\n[job]\nfilename=/dev/drive0\nsize=1g\ndirect=1\nbs=4k\n\
             rate_process=poisson\ntime_based\n{lines}\n'''\n"
        )
        .unwrap();
    }
    let path = folder.join("study.toml");
    fs::write(&path, study).unwrap();
    path
}

/// Runs the study with recordings; `None` where the laboratory lacks something.
fn run(test: &str, cells: &Cells) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("explain-{}", cells.name));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let study = write_study(&folder, cells);
    let out = folder.join("out");
    let options = ["--record", "--device-interrupts", "--timeout", "3000"];
    let done = laboratory_command(study.to_str().unwrap(), &out, &options)
        .output()
        .unwrap();
    let said = said_unless_skipped(test, &done)?;
    assert!(done.status.success(), "{said}");
    Some(out)
}

/// A request as the laboratory's drive wrote it down. Times in ns of the recording's clock.
struct NotedRequest {
    sector: u64,
    /// CPU that the drive interrupted.
    cpu: u32,
    /// When the drive got the request.
    submitted: u64,
    /// When the drive was to raise the interrupt.
    end: u64,
    /// When the drive raised the interrupt.
    raised: u64,
}

fn read_noted_requests(path: &Path) -> Vec<NotedRequest> {
    let text = fs::read_to_string(path).unwrap();
    let requests = text.lines().map(|line| {
        let numbers: Vec<u64> = line
            .split(' ')
            .map(|number| {
                number
                    .parse()
                    .unwrap_or_else(|_| panic!("{}: {line}", path.display()))
            })
            .collect();
        let [_drive, sector, cpu, submitted, end, raised] = numbers[..] else {
            panic!("{}: {line}", path.display());
        };
        NotedRequest {
            sector,
            cpu: u32::try_from(cpu).unwrap(),
            submitted,
            end,
            raised,
        }
    });
    requests.collect()
}

/// What a recording says of all CPUs but the drive's, in the order of time.
#[derive(Default)]
struct Seen {
    /// By sector: when requests were issued.
    issues: BTreeMap<u64, Vec<u64>>,
    /// By sector: when requests completed.
    completions: BTreeMap<u64, Vec<u64>>,
    /// By CPU: idle periods from entry to exit, with the state.
    idle: BTreeMap<u32, Vec<(u64, u64, u8)>>,
    /// By CPU: when handlers of devices began.
    handlers: BTreeMap<u32, Vec<u64>>,
}

impl Seen {
    fn add_event(&mut self, event: &Event) {
        let time = event.time.0;
        match event.kind {
            EventKind::BlockIssue(block) => self.issues.entry(block.sector).or_default().push(time),
            EventKind::BlockComplete(block) => {
                self.completions.entry(block.sector).or_default().push(time);
            }
            EventKind::Idle(idle) if idle.duration.0 > 0 => {
                let entry = time - idle.duration.0;
                let periods = self.idle.entry(event.cpu).or_default();
                periods.push((entry, time, idle.state));
            }
            EventKind::Interrupt(Interrupt::Device { .. }) => {
                self.handlers.entry(event.cpu).or_default().push(time);
            }
            _ => {}
        }
    }

    /// The idle period that an interrupt found: its end, and the state.
    fn idle_period_around(&self, cpu: u32, time: u64) -> Option<(u64, u8)> {
        let periods = self.idle.get(&cpu)?;
        let next = periods.partition_point(|(_, exit, _)| *exit < time);
        let (entry, exit, state) = periods.get(next)?;
        (*entry < time).then_some((*exit, *state))
    }

    /// What a request took; `None` where its events are not in the recording.
    fn true_parts(&self, noted: &NotedRequest) -> Option<TrueParts> {
        let issues = self.issues.get(&noted.sector)?;
        let issued = issues.iter().rfind(|time| **time <= noted.submitted)?;
        let completions = self.completions.get(&noted.sector)?;
        let completed = completions.iter().find(|time| **time > noted.raised)?;
        let period = self.idle_period_around(noted.cpu, noted.raised);
        let handlers = self.handlers.get(&noted.cpu)?;
        let handler = handlers.get(handlers.partition_point(|time| *time < noted.raised))?;
        let seen = period.map_or(*handler, |(exit, _)| exit.min(*handler));
        // A handler that ran already completes without an event of its own.
        let seen = seen.min(*completed);
        Some(TrueParts {
            issued: *issued,
            end: noted.end,
            drive: noted.raised - issued,
            exit: seen - noted.raised,
            latency: completed - issued,
            met: period.map(|(_, state)| state),
        })
    }
}

/// The true parts of a request in ns.
struct TrueParts {
    /// Time of the event of its issue.
    issued: u64,
    /// When the drive was to raise its interrupt.
    end: u64,
    /// From the event of its issue until the drive raised its interrupt.
    drive: u64,
    /// From there to the interrupted CPU's first event.
    exit: u64,
    /// From the event of its issue to that of its completion.
    latency: u64,
    /// Index of the idle state that the interrupt found; `None` if the CPU ran.
    met: Option<u8>,
}

/// The true parts of a cell's requests.
struct Truth(Vec<TrueParts>);

impl Truth {
    /// Mean over the requests in ns.
    fn mean_ns(&self, value: impl Fn(&TrueParts) -> f64) -> f64 {
        self.0.iter().map(value).sum::<f64>() / self.0.len() as f64
    }

    /// Mean of what an answer with this reference and these costs calls "drive and" its reference, in ns: what the drive took, the
    /// exits from states without a cost, and of others at most what the reference takes.
    fn mean_rest_ns(&self, reference: u8, costs: &BTreeMap<u8, f64>) -> f64 {
        let of_reference = self.median_exit_ns(reference);
        self.mean_ns(|parts| {
            let exit = parts.exit as f64;
            let compared = parts
                .met
                .is_some_and(|state| state == reference || costs.contains_key(&state));
            parts.drive as f64
                + if compared {
                    exit.min(of_reference)
                } else {
                    exit
                }
        })
    }

    /// Median time from the drive's interrupt to the first event of CPUs that it found in this state: the exit, and what
    /// else passes before anything can be traced. In the median, because something else may have begun to wake the CPU.
    fn median_exit_ns(&self, state: u8) -> f64 {
        let met = self.0.iter().filter(|parts| parts.met == Some(state));
        let mut exits: Vec<u64> = met.map(|parts| parts.exit).collect();
        exits.sort_unstable();
        assert!(!exits.is_empty(), "no interrupt found state {state}");
        exits[exits.len() / 2] as f64
    }
}

impl TrueParts {
    fn raised(&self) -> u64 {
        self.issued + self.drive
    }

    /// Whether the request was under way at some time of a stretch.
    fn overlaps(&self, [from, to]: [u64; 2]) -> bool {
        self.issued <= to && from <= self.issued + self.latency
    }

    /// The time around a request for which a CPU waited for its turn; `None` for others.
    ///
    /// All CPUs of the guest share one clock. At times one of them works for 25 ms at a stretch, and others get their turn at its
    /// ticks. The drive then is late, as it writes down itself, or the interrupt waits for its CPU. No drive and no exit takes that
    /// time, and no event shows it, as in a virtual machine whose host has more to do.
    fn stall(&self) -> Option<[u64; 2]> {
        let late = self.raised().saturating_sub(self.end) > STALL_NS;
        (late || self.exit > LONGEST_EXIT_NS + STALL_NS).then(|| {
            let seen = self.raised() + self.exit;
            [
                self.end.saturating_sub(AROUND_STALL_NS),
                seen + AROUND_STALL_NS,
            ]
        })
    }
}

/// Stretches of time, in order and apart from each other.
fn merge_stretches(mut stretches: Vec<[u64; 2]>) -> Vec<[u64; 2]> {
    stretches.sort_unstable();
    let mut merged: Vec<[u64; 2]> = Vec::new();
    for [from, to] in stretches {
        match merged.last_mut() {
            Some(last) if from <= last[1] => last[1] = last[1].max(to),
            _ => merged.push([from, to]),
        }
    }
    merged
}

/// Events of all CPUs but the one that plays the drive.
fn for_each_seen_event(
    reader: &mut Reader,
    mut take: impl FnMut(Event) -> Result<(), RecordingError>,
) {
    reader
        .for_each_event(|event| match event.cpu {
            DRIVE_CPU => Ok(()),
            _ => take(event),
        })
        .unwrap();
}

/// A recording without what the CPU that plays the drive did, and without stalls, whose events are lost there. Beside it the truth
/// about its requests.
fn read_cell(recording: &Path, noted: &Path) -> (PathBuf, Truth) {
    let mut seen = Seen::default();
    for_each_seen_event(&mut Reader::open(recording).unwrap(), |event| {
        seen.add_event(&event);
        Ok(())
    });
    let noted = read_noted_requests(noted);
    let mut parts: Vec<TrueParts> = noted
        .iter()
        .filter_map(|request| seen.true_parts(request))
        .collect();
    // Hardly any event is missing.
    assert!(parts.len() * 1000 >= noted.len() * 999, "{}", parts.len());
    let stalls = merge_stretches(parts.iter().filter_map(TrueParts::stall).collect());
    parts.retain(|request| !stalls.iter().any(|stall| request.overlaps(*stall)));
    println!(
        "{}: {} of {} requests, {} stalls",
        recording.display(),
        parts.len(),
        noted.len(),
        stalls.len()
    );
    assert!(
        parts.len() * 10 >= noted.len() * 8,
        "{} requests",
        parts.len()
    );
    let path = recording.with_extension("seen.parquet");
    write_without_stalls(recording, &path, &stalls);
    (path, Truth(parts))
}

/// Copies a recording; each stall is a place at which each CPU's events are lost.
fn write_without_stalls(recording: &Path, path: &Path, stalls: &[[u64; 2]]) {
    let mut reader = Reader::open(recording).unwrap();
    let mut writer = Writer::create(path, Overwrite::Yes, reader.metadata().clone()).unwrap();
    let mut ends: BTreeMap<u32, std::slice::Iter<'_, [u64; 2]>> = BTreeMap::new();
    for_each_seen_event(&mut reader, |event| {
        let time = event.time.0;
        let ahead = ends.entry(event.cpu).or_insert_with(|| stalls.iter());
        while let Some([_, to]) = ahead.as_slice().first().filter(|[_, to]| *to < time) {
            ahead.next();
            let kind = EventKind::Lost { count: 1 };
            let time = Nanoseconds(*to);
            writer.add_event(&Event {
                time,
                kind,
                ..event
            })?;
        }
        if ahead
            .as_slice()
            .first()
            .is_some_and(|[from, _]| *from <= time)
        {
            return Ok(());
        }
        writer.add_event(&event)
    });
    writer.finish_and_count_events().unwrap();
}

/// How a cell's answer compares with the truth.
#[derive(Default)]
struct Judged {
    /// Figures that are as near to the truth as wanted.
    near: usize,
    /// Figures that are further away, by less than their own interval or bound says.
    doubtful: usize,
    /// What contradicts the truth.
    wrong: Vec<String>,
}

impl Judged {
    /// Compares a figure with the truth. `below` and `above`: how much less or more the truth may be by the answer's own words.
    fn judge_figure(
        &mut self,
        what: &str,
        found: f64,
        truth: f64,
        [wanted, below, above]: [f64; 3],
    ) {
        let off = truth - found;
        let text = format!(
            "{what}: {found:.0} of {truth:.0} ns; {wanted:.0} wanted, -{below:.0} to {above:.0} said"
        );
        println!("{text}");
        if off.abs() <= wanted {
            self.near += 1;
        } else if (-below - wanted..=above + wanted).contains(&off) {
            self.doubtful += 1;
        } else {
            self.wrong.push(text);
        }
    }
}

/// Compares a cell's exits, drive and parts of the mean with the truth; `None` where the answer has no cost.
fn judge(name: &str, kind: &Value, truth: &Truth) -> Option<Judged> {
    let number = |value: &Value| value.as_f64().unwrap();
    let split = &kind["split"];
    let reference = u8::try_from(split["reference"].as_u64()?).unwrap();
    let mut judged = Judged::default();
    let requests = number(&kind["requests"]);
    let apart =
        ["awake", "leaving", "behind", "unknown"].map(|class| number(&kind[class]) / requests);
    println!("{name}: awake, leaving, behind, unknown: {apart:.3?}");
    // In ns as means over all requests: exits with a cost, and half of their intervals.
    let (mut charged, mut doubt) = (0.0, 0.0);
    let mut costs = BTreeMap::new();
    for state in split["states"].as_array().unwrap() {
        let index = u8::try_from(state["state"].as_u64().unwrap()).unwrap();
        let met = number(&state["met"]) / requests;
        let cost = &state["cost"];
        let Some(found) = cost["mean_ns"].as_f64() else {
            println!("{name}: state {index}, share {met:.3}: {}", state["reason"]);
            continue;
        };
        costs.insert(index, found);
        let real = EXITS_NS[usize::from(index)] - EXITS_NS[usize::from(reference)];
        let half = (number(&cost["high_ns"]) - number(&cost["low_ns"])) / 2.0;
        charged += found * met;
        doubt += half * met;
        let wanted = (EXIT_SHARE * real).max(EXIT_NS);
        judged.judge_figure(
            &format!("{name}: state {index}"),
            found,
            real,
            [wanted, half, half],
        );
    }
    let begun = &kind["begun_exits"];
    let (mean_begun, most_begun) = (number(&begun["mean_ns"]), number(&begun["highest_ns"]));
    let (fewer, more) = (mean_begun + doubt, most_begun - mean_begun + doubt);
    let rest = truth.mean_rest_ns(reference, &costs);
    let drive = truth.mean_ns(|parts| parts.drive as f64);
    judged.judge_figure(
        &format!("{name}: drive of {drive:.0} ns and state {reference}"),
        number(&kind["rest_ns"]),
        rest,
        [DRIVE_SHARE * drive, more, fewer],
    );
    let out = truth.mean_ns(|parts| (parts.drive + parts.exit) as f64);
    let latency = truth.mean_ns(|parts| parts.latency as f64);
    judged.judge_figure(
        &format!("{name}: exits in the mean"),
        charged + mean_begun,
        out - rest,
        [PART_SHARE * latency, fewer, more],
    );
    // Where one CPU does all, this takes 2 to 4 us: the share of the mean alone would prove little.
    let beyond = (PART_SHARE * latency - EXIT_NS).max(0.0);
    let behind = ["interrupt_ns", "remote_exit_ns", "remote_ns"];
    judged.judge_figure(
        &format!("{name}: interrupt and other CPU"),
        behind.map(|part| number(&kind["parts"][part])).iter().sum(),
        latency - out,
        [EXIT_NS, beyond, beyond],
    );
    Some(judged)
}

/// The guest's states have to take what they were told to, or the comparison is worth nothing: with the reference taken off, the
/// time from the drive's interrupt to the CPU's first event is the exit.
fn check_premises(truth: &Truth) {
    let c1e = truth.median_exit_ns(2) - EXITS_NS[2];
    let c6 = truth.median_exit_ns(3) - EXITS_NS[3];
    assert!((c1e - c6).abs() < EXIT_NS / 2.0, "C1E {c1e}, C6 {c6} ns");
}

/// The cells of a guest, explained.
#[derive(Default)]
struct ExplainedCells {
    /// Job and policy of cells with figures that are all as near as wanted.
    near: Vec<String>,
    /// Each cell's share of requests that another CPU completed.
    remote_shares: Vec<f64>,
}

impl ExplainedCells {
    /// Whether a cell whose job or policy has one of these words is as near as wanted.
    fn has_near(&self, words: &[&str]) -> bool {
        let mut near = self.near.iter();
        near.any(|cell| words.iter().any(|word| cell.contains(word)))
    }
}

/// Job and policy of each run, by its number, as the guest wrote them down.
fn read_names(out: &Path) -> BTreeMap<String, String> {
    let log = fs::read_to_string(out.join("guest-1/log.txt")).unwrap();
    let runs = log.lines().filter_map(|line| line.strip_prefix("run "));
    runs.filter_map(|run| run.split_once(": "))
        .map(|(number, name)| (number.to_owned(), name.to_owned()))
        .collect()
}

/// Explains every recording: nothing contradicts the truth, and in so many cells at least each figure is as near as wanted.
fn check_cells(out: &Path, fewest: usize) -> ExplainedCells {
    let (mut cells, mut wrong) = (ExplainedCells::default(), Vec::new());
    let names = read_names(out);
    let mut recordings: Vec<PathBuf> = fs::read_dir(out.join("recordings"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().contains(".seen."))
        .collect();
    recordings.sort();
    let mut all = Vec::new();
    for recording in recordings {
        let number = recording.file_stem().unwrap().to_str().unwrap().to_owned();
        let noted = out.join(format!("guest-1/runs/{number}.requests"));
        let (seen, truth) = read_cell(&recording, &noted);
        let answer =
            json(&wakepath(&["explain", seen.to_str().unwrap(), "--format", "json"]).success());
        let kind = &answer["kinds"][0];
        let remote = kind["remote"].as_f64().unwrap();
        let share = remote / kind["requests"].as_f64().unwrap();
        cells.remote_shares.push(share);
        let name = &names[&number];
        match judge(name, kind, &truth) {
            None => println!("{name}: no cost"),
            Some(judged) => {
                if judged.doubtful == 0 && judged.wrong.is_empty() {
                    cells.near.push(name.clone());
                }
                wrong.extend(judged.wrong);
            }
        }
        all.extend(truth.0);
    }
    check_premises(&Truth(all));
    let near = &cells.near;
    println!(
        "{} cells as near to the truth as wanted: {near:?}",
        near.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(near.len() >= fewest, "{near:?}");
    cells
}

#[test]
#[ignore = "nightly: a laboratory guest with recordings"]
fn exits_are_found_where_each_cpu_is_interrupted() {
    let test = "exits_are_found_where_each_cpu_is_interrupted";
    let cells = Cells {
        name: "own",
        completion: "",
        drive: NARROW,
        policies: &POLICIES,
        jobs: &JOBS,
    };
    if let Some(out) = run(test, &cells) {
        // Of 24 cells 19 had a cost, and 16 were as near, beside 15 to 29 programs on a host of two CPUs.
        let cells = check_cells(&out, 12);
        for words in [&["depth-8", "depth-32"][..], &["psd"]] {
            assert!(cells.has_near(words), "none of {words:?}: {:?}", cells.near);
        }
    }
}

#[test]
#[ignore = "nightly: a laboratory guest with recordings"]
fn exits_are_found_where_one_cpu_takes_all_interrupts() {
    let test = "exits_are_found_where_one_cpu_takes_all_interrupts";
    let cells = Cells {
        name: "shared",
        completion: "queues = 1, cpu = 1, ",
        drive: NARROW,
        policies: &POLICIES,
        jobs: &JOBS[2..6],
    };
    if let Some(out) = run(test, &cells) {
        // Of 12 cells 11 were as near, and 7 on a host with a load of 10: others were off by up to 2.2 % where 2 % are wanted.
        let cells = check_cells(&out, 6);
        assert!(cells.has_near(&["psd"]), "{:?}", cells.near);
        let remote_shares = cells.remote_shares;
        // The scheduler may move a job to the interrupted CPU: the shares were 0.15 to 0.92, and in 10 cells above 0.2.
        println!("completed by another CPU: {remote_shares:.3?}");
        let mean = remote_shares.iter().sum::<f64>() / remote_shares.len() as f64;
        let many = remote_shares.iter().filter(|share| **share > 0.2).count();
        assert!(
            mean > 0.2 && many >= 8 && remote_shares.iter().all(|share| *share > 0.05),
            "completed by another CPU: {remote_shares:?}"
        );
    }
}

/// Long requests let the governor choose again, and deep states go with them.
#[test]
#[ignore = "nightly: a laboratory guest with recordings"]
fn exits_are_found_on_a_drive_with_slow_requests() {
    let test = "exits_are_found_on_a_drive_with_slow_requests";
    let cells = Cells {
        name: "wide",
        completion: "",
        drive: WIDE,
        policies: &POLICIES[..2],
        jobs: &JOBS[1..3],
    };
    if let Some(out) = run(test, &cells) {
        // Of 4 cells 2 were as near, and none beyond its interval: a few slow requests decide a mean.
        check_cells(&out, 1);
    }
}
