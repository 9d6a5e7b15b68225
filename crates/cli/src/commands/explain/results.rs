//! `explain -o`: what requests did, as a result directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use wakepath_explain::{
    KindGroup, MeanTimes, MetClass, RequestKind, RequestTimes, TracedLatencies, TracedRequest,
};
use wakepath_results::directory::{DOCUMENT, MACHINE};
use wakepath_results::document::{CpuKind, SCHEMA, VERSION};
use wakepath_results::{
    AttributionAt, Design, Document, LatencyCount, LatencyPart, METRICS, MachineInfo, Mode,
    PolicyInfo, RequestSubset, ResultReader, ResultWriter, RunKey, RunOrigin, RunRecord, StudyInfo,
    WorkloadInfo,
};
use wakepath_trace::recording::Metadata;
use wakepath_units::printable::escape_for_one_line;

use super::moments::{self, Moment};
use super::wording::{count_kinds_with_sentences, name_of_kind, name_of_remaining_time};

/// Most time blocks, which are the repeats.
const MOST_BLOCKS: usize = 10;
/// Requests per time block on average, at least, of the kind with most requests. This number sets how many blocks there are.
const BLOCK_REQUESTS: usize = 200;
/// Fewest requests for a class of requests to be a workload.
const FEWEST: usize = 100;
/// Name for the machine, and for the policies in force.
const RECORDED: &str = "as recorded";
/// Name for the source of what was watched live.
pub(super) const THIS_MACHINE: &str = "this machine";
/// Names in results for the parts of [`RequestTimes`].
const PARTS: [&str; 5] = [
    "submission",
    "drive",
    "interrupt delivery",
    "idle exit",
    "waiting to run",
];

/// Where results go.
pub(super) struct ResultTarget<'a> {
    /// The directory.
    pub(super) dir: &'a Path,
    /// Whether results in the directory are replaced.
    pub(super) force: bool,
}

/// Refuses a place that cannot be a result directory, or that holds results unless `force` replaces them, before any work is
/// done.
pub(super) fn check_directory(target: &ResultTarget<'_>) -> anyhow::Result<()> {
    let ResultTarget { dir, force } = *target;
    ensure!(
        dir.is_dir() || !dir.exists(),
        "--output {}: no directory; results are a directory of files, and --page writes a single page",
        dir.display()
    );
    ensure!(
        force || !dir.join(DOCUMENT).exists(),
        "--output {}: results are there already; --force replaces them",
        dir.display()
    );
    Ok(())
}

/// A class of requests that is a workload in the results.
struct Workload<'a> {
    info: WorkloadInfo,
    kind: &'a RequestKind,
    requests: Vec<&'a TracedRequest>,
    /// Moments for the timelines of the first run.
    moments: Vec<&'a Moment>,
}

/// The largest kinds of requests, which are in the results: the same kinds that have sentences.
pub(super) fn keep_large_kinds<'a, 'r>(groups: &'a [KindGroup<'r>]) -> &'a [KindGroup<'r>] {
    let kinds: Vec<RequestKind> = groups.iter().map(|group| group.kind.clone()).collect();
    let count = count_kinds_with_sentences(&kinds);
    groups.get(..count).unwrap_or(groups)
}

/// What requests did, as results.
pub(super) struct TracedResults {
    document: Document,
    /// The recorded machine, as results keep it.
    machine: String,
    runs: Vec<RunRecord>,
}

impl TracedResults {
    /// Makes results. `moments` are those of [`moments::find_moments`] for the same groups; `source` names the recording.
    pub(super) fn new(
        groups: &[KindGroup<'_>],
        moments: &[Moment],
        metadata: &Metadata,
        source: &str,
    ) -> anyhow::Result<Self> {
        let source = &printable(source);
        let large = keep_large_kinds(groups);
        let blocks = TimeBlocks::for_recording(groups, metadata);
        let workloads = list_workloads(large, moments, source);
        let mut notes = describe_parts(large);
        if groups.len() > large.len() {
            let left_out = groups.len() - large.len();
            notes.push(format!(
                "{left_out} kinds of requests with little of the time are left out"
            ));
        }
        let mut runs = Vec::new();
        for block in 0..blocks.count {
            for workload in &workloads {
                runs.push(make_block_run(workload, &blocks, block, runs.len()));
            }
        }
        Ok(Self {
            document: make_document(&workloads, &blocks, metadata, source, notes),
            machine: toml::to_string(metadata).context("the machine's description")?,
            runs,
        })
    }

    /// Writes a result directory.
    pub(super) fn write_directory(&self, target: &ResultTarget<'_>) -> anyhow::Result<()> {
        let files = [(MACHINE.to_owned(), self.machine.clone().into_bytes())];
        let mode = if target.force {
            Mode::Replace
        } else {
            Mode::New
        };
        let document = self.document.clone();
        let writer = ResultWriter::open(PathBuf::from(target.dir), document, &files, mode)?;
        for (index, run) in self.runs.iter().enumerate() {
            writer.write_run(index, run)?;
        }
        Ok(writer.write_tables_and_finish()?)
    }

    /// The results as read from a directory, named by their recording.
    pub(super) fn into_reader(self, source: &Path) -> ResultReader {
        let document = Document {
            complete: true,
            ..self.document
        };
        ResultReader::for_imported_runs(source, document, self.runs)
    }
}

/// Time blocks: the recording cut into equal parts.
struct TimeBlocks {
    begin: u64,
    length: u64,
    count: usize,
}

impl TimeBlocks {
    fn for_recording(groups: &[KindGroup<'_>], metadata: &Metadata) -> Self {
        let requests = || groups.iter().flat_map(|group| &group.requests);
        let first = requests().map(|r| moments::request_begin(r)).min();
        let last = requests().map(|r| moments::request_end(r)).max();
        let seen = [first.unwrap_or(0), last.unwrap_or(0)];
        let [from, to] = metadata.span_ns.unwrap_or(seen);
        let (begin, end) = (from.min(seen[0]), to.max(seen[1]));
        let largest = groups.iter().map(|group| group.requests.len()).max();
        let count = (largest.unwrap_or(0) / BLOCK_REQUESTS).clamp(1, MOST_BLOCKS);
        Self {
            begin,
            length: ((end - begin) / count as u64).max(1),
            count,
        }
    }

    /// Index of the time block in which a request completed.
    fn block_of_completion(&self, request: &TracedRequest) -> usize {
        let since = request.completed.saturating_sub(self.begin);
        usize::try_from(since / self.length).map_or(0, |block| block.min(self.count - 1))
    }
}

/// Workloads for the results: each kind, followed by its requests by what their interrupts found.
fn list_workloads<'a>(
    groups: &'a [KindGroup<'_>],
    moments: &'a [Moment],
    source: &str,
) -> Vec<Workload<'a>> {
    let mut workloads = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        let info = WorkloadInfo {
            name: name_of_kind(&group.kind),
            kind: "recording".to_owned(),
            source: source.to_owned(),
            ..WorkloadInfo::default()
        };
        let mut classes: BTreeMap<MetClass, Vec<&TracedRequest>> = BTreeMap::new();
        for request in &group.requests {
            if let Some(class) = MetClass::from_request(request) {
                classes.entry(class).or_default().push(request);
            }
        }
        classes.retain(|_, requests| requests.len() >= FEWEST);
        let subsets = classes.into_iter().map(|(class, requests)| {
            let requests_in_words = match class {
                MetClass::Awake => "CPU awake".to_owned(),
                MetClass::State(state) => {
                    format!("{} met", printable(&group.kind.state_name(state)))
                }
            };
            Workload {
                info: WorkloadInfo {
                    name: format!("{}, {requests_in_words}", info.name),
                    subset: Some(RequestSubset {
                        workload: info.name.clone(),
                        requests: requests_in_words,
                    }),
                    ..info.clone()
                },
                kind: &group.kind,
                requests,
                moments: Vec::new(),
            }
        });
        let subsets: Vec<Workload<'_>> = subsets.collect();
        workloads.push(Workload {
            info,
            kind: &group.kind,
            requests: group.requests.clone(),
            moments: moments
                .iter()
                .filter(|moment| moment.group == place)
                .collect(),
        });
        workloads.extend(subsets);
    }
    workloads
}

/// Notes on what each latency part means in these results.
fn describe_parts(groups: &[KindGroup<'_>]) -> Vec<String> {
    let mut notes = vec![
        "a run is a block of time of the recording; latency counts from the bio, or else the issue, until the task ran \
         again, or else to completion"
            .to_owned(),
        "idle exit: what the state costs that the interrupt found, estimated, and the measured exits of the CPUs that \
         complete and that run the task"
            .to_owned(),
    ];
    notes.extend(groups.iter().map(|group| {
        let kind = &group.kind;
        let name = name_of_remaining_time(kind);
        let others = [
            (kind.late_exits, ", and exits from states chosen later"),
            (kind.begun_exits, ", and exits that something else began"),
        ]
        .into_iter()
        .filter(|(exits, _)| exits.is_some_and(|exits| exits.mean_ns > 0.0))
        .map(|(_, words)| words)
        .collect::<String>();
        printable(&format!(
            "{}: the part drive is {name}{others}",
            name_of_kind(kind)
        ))
    }));
    notes
}

fn make_document(
    workloads: &[Workload<'_>],
    blocks: &TimeBlocks,
    metadata: &Metadata,
    source: &str,
    notes: Vec<String>,
) -> Document {
    let mut tools = BTreeMap::from([("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    if let Some(kernel) = &metadata.kernel {
        tools.insert("Linux".to_owned(), printable(kernel));
    }
    Document {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        complete: false,
        shard: None,
        study: StudyInfo {
            name: "explain".to_owned(),
            title: format!("Where the time of requests goes: {source}"),
        },
        backend: RunOrigin::Traced,
        tools,
        machines: vec![describe_machine(metadata)],
        workloads: workloads.iter().map(|w| w.info.clone()).collect(),
        policies: vec![describe_policy(metadata)],
        sha256: BTreeMap::new(),
        baseline: RECORDED.to_owned(),
        repeats: blocks.count as u32,
        design: Design::Unpaired,
        seeds: Vec::new(),
        questions: Vec::new(),
        metrics: METRICS.to_vec(),
        level: 0.95,
        margin_percent: 2.0,
        notes,
    }
}

/// A stranger's text as results and pages may show it.
fn printable(text: &str) -> String {
    escape_for_one_line(text).into_owned()
}

fn describe_machine(metadata: &Metadata) -> MachineInfo {
    let processor = metadata.processor.as_deref().map(printable);
    let kernel = metadata.kernel.as_deref().map(printable);
    let groups = &metadata.idle_states;
    let drives: Vec<String> = metadata
        .devices
        .iter()
        .map(|d| printable(&d.name))
        .collect();
    let mut states: Vec<String> = Vec::new();
    for state in groups.iter().flat_map(|group| &group.states) {
        let name = printable(&state.name);
        if !states.contains(&name) {
            states.push(name);
        }
    }
    MachineInfo {
        name: RECORDED.to_owned(),
        source: MACHINE.to_owned(),
        title: format!(
            "{}, Linux {}",
            processor.as_deref().unwrap_or("a recorded machine"),
            kernel.as_deref().unwrap_or("of an unknown release")
        ),
        cpu_kinds: vec![CpuKind {
            name: "cpu".to_owned(),
            cpus: metadata.cpus,
        }],
        idle_states: states,
        drive: drives.join(", "),
        ..MachineInfo::default()
    }
}

fn describe_policy(metadata: &Metadata) -> PolicyInfo {
    let mut settings = BTreeMap::new();
    if let Some(governor) = &metadata.idle_governor {
        settings.insert("idle".to_owned(), printable(governor));
    }
    let domains = metadata.frequency_domains.iter();
    let mut governors: Vec<&str> = domains.filter_map(|d| d.governor.as_deref()).collect();
    governors.dedup();
    if !governors.is_empty() {
        settings.insert("freq".to_owned(), printable(&governors.join(", ")));
    }
    PolicyInfo {
        name: RECORDED.to_owned(),
        settings,
        notes: Vec::new(),
    }
}

fn make_block_run(
    workload: &Workload<'_>,
    blocks: &TimeBlocks,
    block: usize,
    index: usize,
) -> RunRecord {
    let key = RunKey {
        machine: RECORDED.to_owned(),
        workload: workload.info.name.clone(),
        policy: RECORDED.to_owned(),
        repeat: block as u32,
    };
    let mut run = RunRecord::new(key, None, block as u32, index as u32);
    run.duration_ns = blocks.length;
    let requests = workload.requests.iter();
    let inside: Vec<&&TracedRequest> = requests
        .filter(|r| blocks.block_of_completion(r) == block)
        .collect();
    let times = inside
        .iter()
        .map(|r| RequestTimes::from_request(workload.kind, r));
    let summary = TracedLatencies::new(times);
    if block == 0 {
        let spans = workload.moments.iter();
        run.timeline = spans
            .flat_map(|moment| moment.timeline_spans(blocks.begin))
            .collect();
    }
    if inside.is_empty() {
        return run;
    }
    let seconds = blocks.length as f64 / 1e9;
    if workload.info.subset.is_none() {
        let bytes: u64 = inside.iter().map(|r| u64::from(r.bytes)).sum();
        add_rates(
            &mut run,
            workload.kind.write,
            inside.len() as f64 / seconds,
            bytes as f64 / seconds,
        );
    }
    add_latencies(&mut run, workload.kind.write, &summary);
    run.latency = summary
        .histogram()
        .into_iter()
        .map(|range| LatencyCount {
            low_ns: range.low,
            high_ns: range.high,
            count: range.requests,
        })
        .collect();
    run.attribution = attribute_latencies(&summary);
    run
}

fn add_rates(run: &mut RunRecord, write: bool, iops: f64, bytes_per_s: f64) {
    let name = if write { "write_mbs" } else { "read_mbs" };
    for (metric, value) in [
        ("iops", iops),
        ("bandwidth_mbs", bytes_per_s / 1e6),
        (name, bytes_per_s / 1e6),
    ] {
        run.metrics.push((metric.to_owned(), value));
    }
}

fn add_latencies(run: &mut RunRecord, write: bool, summary: &TracedLatencies) {
    let mean = summary.mean_ns() / 1e3;
    let name = if write {
        "write_mean_us"
    } else {
        "read_mean_us"
    };
    run.metrics.push(("mean_us".to_owned(), mean));
    run.metrics.push((name.to_owned(), mean));
    for (metric, share) in [
        ("p50_us", 0.5),
        ("p90_us", 0.9),
        ("p99_us", 0.99),
        ("p999_us", 0.999),
        ("max_us", 1.0),
    ] {
        if let Some(latency) = summary.quantile_ns(share) {
            run.metrics.push((metric.to_owned(), latency as f64 / 1e3));
        }
    }
}

fn attribute_latencies(summary: &TracedLatencies) -> Vec<LatencyPart> {
    let shares = [0.5, 0.9, 0.99, 0.999];
    let quantiles = shares
        .into_iter()
        .map(|share| summary.mean_times_near_quantile(share));
    let all = std::iter::once(Some(summary.mean_times())).chain(quantiles);
    let rows = AttributionAt::ALL.into_iter().zip(all);
    rows.filter_map(|(at, times)| Some((at, times?)))
        .flat_map(|(at, times)| latency_parts_at(at, times))
        .collect()
}

fn latency_parts_at(at: AttributionAt, times: MeanTimes) -> impl Iterator<Item = LatencyPart> {
    let parts = PARTS.into_iter().zip(times);
    parts.map(move |(part, ns)| LatencyPart {
        at: at.name().to_owned(),
        part: part.to_owned(),
        ns,
    })
}
