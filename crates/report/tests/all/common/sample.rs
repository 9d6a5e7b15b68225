//! A report to test with: every part, of as many policies and workloads as wanted, from a formula.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of it, and may stop where its premises fail"
)]

use wakepath_report::html::view::{
    Curve, Focus, Frequency, Limit, LoadSeries, PageAnswer, PageGain, PageIdle, PageMetric,
    PageParts, PagePolicy, PageRow, PageSource, PageSpan, PageSpread, PageState, PageTimeline,
    PageWorkload, Percentiles, Tile, TileEntry, Tone, Tradeoff, View,
};

const PARTS: [&str; 9] = [
    "submission",
    "queueing",
    "drive wake-up",
    "drive service",
    "interrupt delivery",
    "idle exit",
    "frequency shortfall",
    "waiting to run",
    "completion",
];

fn spread(mean: f64) -> PageSpread {
    PageSpread {
        mean,
        low: mean * 0.97,
        high: mean * 1.04,
    }
}

/// A report of `policies` x `workloads`; `name` gives the names.
pub(crate) fn view(
    policies: usize,
    workloads: usize,
    name: impl Fn(&str, usize) -> String,
) -> View {
    let metric = |name: &str, title: &str, unit: &str, higher| PageMetric {
        name: name.into(),
        title: title.into(),
        unit: unit.into(),
        factor: 1.0,
        meaning: format!("what {title} means"),
        higher_is_better: Some(higher),
    };
    let metrics = vec![
        metric("iops", "IOPS", "1/s", true),
        metric("mean_us", "mean latency", "us", false),
        metric("p99_us", "p99 latency", "us", false),
        metric("mean_mw", "power", "mW", false),
    ];
    let mut rows = Vec::new();
    for workload in 0..workloads {
        for metric in 0..metrics.len() {
            for policy in 0..policies {
                rows.push(row(workload, metric, policy));
            }
        }
    }
    View {
        title: name("study", 0),
        facts: vec![
            "simulated".into(),
            "a board with two clusters".into(),
            format!("{workloads} workloads, {policies} policies, 10 runs each"),
        ],
        cautions: vec!["One caution.".into()],
        answers: vec![
            PageAnswer {
                question: "Which idle governor has the best p99?".into(),
                sentence: format!(
                    "{} on all workloads: better by 12 to 30 %.",
                    name("policy", 1)
                ),
                details: (0..workloads)
                    .map(|w| format!("{}: better by 12 to 30 %", name("workload", w)))
                    .collect(),
                tile: Some(sample_tile(&name)),
                policies: vec![1],
                tone: Tone::Better,
            },
            PageAnswer {
                question: "Is it worth its power?".into(),
                sentence: "Cannot tell: about 12 more runs needed.".into(),
                details: vec![],
                tile: None,
                policies: vec![],
                tone: Tone::Open,
            },
        ],
        policies: (0..policies)
            .map(|p| PagePolicy {
                name: name("policy", p),
                settings: vec![
                    ("idle".into(), name("policy", p)),
                    ("freq".into(), "schedutil".into()),
                ],
                baseline: p == 0,
                is_subset: false,
                notes: vec![],
            })
            .collect(),
        metrics,
        rows,
        assumes_power: false,
        assumed_figures: 77,
        focus: (policies > 1).then(|| Focus {
            metric: 3,
            limits: vec![Limit {
                metric: 2,
                value: 300.0,
                is_upper: true,
            }],
            winner: Some(1),
        }),
        load_series: vec![LoadSeries {
            name: name("series", 0),
            unit: "I/Os".into(),
            points: (0..workloads)
                .map(|w| (1000.0 * (w + 1) as f64, w))
                .collect(),
        }],
        workloads: (0..workloads)
            .map(|w| workload(w, policies, name("workload", w)))
            .collect(),
        sources: vec![PageSource {
            title: name("study", 1),
            facts: vec![("kernel".into(), "6.12".into())],
            files: vec![("study.toml".into(), format!("# {}\n", name("file", 0)))],
        }],
        commands: vec!["wakepath study run study.toml -o results".into()],
        results: vec!["results".into()],
        left_out: None,
        made_by: "wakepath 0.1.0".into(),
    }
}

fn entry(label: &str, value: &str, note: &str) -> TileEntry {
    TileEntry {
        label: label.into(),
        value: value.into(),
        note: note.into(),
    }
}

fn sample_tile(name: &impl Fn(&str, usize) -> String) -> Tile {
    Tile {
        headline: name("policy", 1),
        settings: "freq schedutil, idle teo@6.12".into(),
        entries: vec![
            entry(
                "p99 latency",
                "212 us",
                "limit at most 300 us, kept by 29 %; worst on reads",
            ),
            entry(
                "power",
                "434 W",
                "mean of 3 workloads; −12.1 % against menu; from assumed figures",
            ),
            entry("next best", &name("policy", 0), "power +1.2 %"),
            entry(
                "assumed",
                "77 figures",
                "of the machine's description; and one thing about this policy",
            ),
        ],
    }
}

fn row(workload: usize, metric: usize, policy: usize) -> PageRow {
    let gain = (policy as f64 - 1.0) * 7.0 + workload as f64 + metric as f64 * 0.7;
    let certain = gain.abs() > 4.0;
    PageRow {
        workload,
        metric,
        policy,
        mean: 100.0 * (1.0 + gain / 100.0) * 10_f64.powi(metric as i32),
        decimals: Some(0),
        deviation_percent: Some(1.5),
        runs: 10,
        gain: (policy > 0).then_some(PageGain {
            percent: gain,
            interval: Some([gain - 3.0, gain + 2.0]),
            effect: Some(gain / 2.0),
            significant: certain,
        }),
        verdict: if policy > 0 {
            format!("by {gain:.1} %")
        } else {
            String::new()
        },
        tone: match (policy, certain) {
            (0, _) => Tone::Open,
            (_, true) if gain > 0.0 => Tone::Better,
            (_, true) => Tone::Worse,
            _ => Tone::Same,
        },
        warnings: vec![],
    }
}

fn workload(index: usize, policies: usize, name: String) -> PageWorkload {
    let scale = |policy: usize| 80.0 + 25.0 * policy as f64 + 10.0 * index as f64;
    let kinds = [("little", 4.0), ("big", 2.0)];
    PageWorkload {
        name,
        about: "fio, sample.fio".into(),
        latency_of: "latency".into(),
        curves: (0..policies).map(|p| curve(p, scale(p))).collect(),
        percentiles: (0..policies)
            .map(|policy| Percentiles {
                policy,
                values: [("p50", 0.9), ("p90", 1.4), ("p99", 2.5), ("p99.9", 5.0)]
                    .map(|(name, factor)| (name.to_owned(), spread(scale(policy) * factor)))
                    .into(),
            })
            .collect(),
        parts: (0..policies)
            .flat_map(|policy| {
                [("mean", 1.0), ("p50", 0.9), ("p99", 2.5)].map(|(at, factor)| PageParts {
                    policy,
                    at: at.into(),
                    parts: PARTS
                        .iter()
                        .enumerate()
                        .map(|(i, part)| {
                            (
                                (*part).to_owned(),
                                factor
                                    * scale(policy)
                                    * [0.05, 0.01, 0.0, 0.6, 0.02, 0.2, 0.05, 0.02, 0.05][i],
                            )
                        })
                        .collect(),
                })
            })
            .collect(),
        tradeoff: (0..policies)
            .flat_map(|policy| {
                [(1, 1.0), (2, 2.5)].map(|(latency_metric, factor)| Tradeoff {
                    policy,
                    latency_metric,
                    power_metric: 3,
                    latency: spread(scale(policy) * factor),
                    power: spread(
                        900.0 - 120.0 * (policy as f64 + 0.1).sqrt()
                            + if policy == 2 { 100.0 } else { 0.0 },
                    ),
                    front: policy != 2,
                })
            })
            .collect(),
        idle: kinds
            .iter()
            .flat_map(|(kind, cpus)| (0..policies).map(move |policy| idle(kind, *cpus, policy)))
            .collect(),
        frequency: kinds
            .iter()
            .flat_map(|(kind, cpus)| {
                (0..policies).map(move |policy| Frequency {
                    cpu_kind: (*kind).into(),
                    policy,
                    shares: (0..6)
                        .map(|i| {
                            (
                                408_000 + i * 200_000,
                                [0.3, 0.1, 0.05, 0.05, 0.1, 0.4]
                                    [((i as usize) + policy + *cpus as usize) % 6],
                            )
                        })
                        .collect(),
                })
            })
            .collect(),
        timelines: (0..policies)
            .flat_map(|policy| ["p50", "p99"].map(|at| timeline(policy, at)))
            .collect(),
    }
}

fn curve(policy: usize, scale: f64) -> Curve {
    // Log-normal with a second bump of late requests.
    let mut points = Vec::new();
    let mut sum = 0.0;
    let weights: Vec<f64> = (0..260)
        .map(|i| {
            let x = f64::from(i) * 0.02 - 1.0;
            (-(x / 0.25).powi(2)).exp() + 0.02 * (-((x - 1.6) / 0.5).powi(2)).exp()
        })
        .collect();
    let all: f64 = weights.iter().sum();
    for (i, weight) in weights.iter().enumerate() {
        sum += weight;
        points.push((scale * (i as f64 * 0.02 - 1.0).exp(), (sum / all).min(1.0)));
    }
    if let Some(last) = points.last_mut() {
        last.1 = 1.0;
    }
    Curve {
        policy,
        requests: 3_000_000,
        points,
    }
}

fn idle(kind: &str, cpus: f64, policy: usize) -> PageIdle {
    let deep = 0.1 + 0.6 / (policy as f64 + cpus / 4.0);
    let state = |name: &str, busy, share: f64| PageState {
        name: name.into(),
        busy,
        share,
        entries: if busy { 0.0 } else { 3000.0 * share },
        too_deep: if busy { 0.0 } else { 900.0 * share * deep },
        too_shallow: if busy { 0.0 } else { 200.0 * share * cpus },
        added_us: if busy { 0.0 } else { 40_000.0 * share * deep },
        wasted_mw: if busy { 0.0 } else { 12.0 * share },
    };
    PageIdle {
        cpu_kind: kind.into(),
        policy,
        states: vec![
            state("(busy)", true, 0.2),
            state("WFI", false, 0.8 - deep),
            state("cpu-sleep", false, deep * 0.3),
            state("cluster-sleep", false, deep * 0.7),
        ],
    }
}

fn timeline(policy: usize, at: &str) -> PageTimeline {
    let tracks = ["CPU 0", "CPU 4", "drive", "request"];
    let mut spans = Vec::new();
    let mut span = |track, name: &str, start_us: u64, length_us: u64| {
        spans.push(PageSpan {
            track,
            name: name.into(),
            owner: String::new(),
            start_ns: 5_000_000 + start_us * 1000,
            length_ns: length_us * 1000,
        });
    };
    for i in 0..12 {
        let start = i * (150 + 20 * policy as u64 + 9 * u64::from(at == "p99"));
        span(0, "task", start, 14);
        span(
            0,
            if i % 3 == 0 { "cpu-sleep" } else { "WFI" },
            start + 14,
            110,
        );
        span(1, "cluster-sleep", start, 140);
        span(2, "read", start + 10, 90);
        span(3, "drive service", start + 10, 90);
        span(3, "idle exit", start + 100, 24);
    }
    PageTimeline {
        policy,
        at: at.into(),
        tracks: tracks.map(str::to_owned).into(),
        spans,
    }
}

/// The JSON that the scripts draw.
pub(crate) fn data(page: &str) -> serde_json::Value {
    let from = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let to = from + page[from..].find("</script>").unwrap();
    serde_json::from_str(&page[from..to]).unwrap()
}
