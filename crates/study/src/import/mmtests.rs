//! Log directories of MMTests: the benchmarks that print their throughput every second, tbench and dbench.
//!
//! A log directory is `work/log/NAME`, with `iter-N/BENCHMARK/logs/BENCHMARK-CLIENTS.log`, possibly compressed. MMTests'
//! tables average the throughput of every second, so this does, too.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use wakepath_compare::results::Source;
use wakepath_results::{Run, RunKey};

use super::{ImportError, MAX_BYTES, content, imported, read_bytes};

/// Deepest folder that is looked into.
const DEPTH: usize = 6;

/// A log, and the benchmark and number of clients that it is of.
pub(super) struct Log {
    path: PathBuf,
    benchmark: &'static str,
    clients: u32,
}

/// The logs below a directory, by clients and path.
pub(super) fn logs(folder: &Path) -> Result<Vec<Log>, ImportError> {
    let mut found = Vec::new();
    look(folder, DEPTH, &mut found)?;
    found.sort_by(|a, b| (a.benchmark, a.clients, &a.path).cmp(&(b.benchmark, b.clients, &b.path)));
    Ok(found)
}

fn look(folder: &Path, depth: usize, found: &mut Vec<Log>) -> Result<(), ImportError> {
    let read = |source| ImportError::Read {
        path: folder.to_owned(),
        source,
    };
    for entry in fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        let path = entry.path();
        if entry.file_type().map_err(read)?.is_dir() {
            if depth > 0 {
                look(&path, depth - 1, found)?;
            }
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let stem = name
            .strip_suffix(".gz")
            .unwrap_or(&name)
            .strip_suffix(".log");
        for benchmark in ["tbench", "dbench"] {
            let clients =
                stem.and_then(|s| s.strip_prefix(benchmark)?.strip_prefix('-')?.parse().ok());
            if let Some(clients) = clients {
                found.push(Log {
                    path: path.clone(),
                    benchmark,
                    clients,
                });
            }
        }
    }
    Ok(())
}

pub(super) fn import(name: &str, logs: &[Log]) -> Result<Source, ImportError> {
    let mut runs: Vec<Run> = Vec::new();
    for log in logs {
        let workload = format!("{} {} client(s)", log.benchmark, log.clients);
        let rates = rates(&text(&log.path)?).map_err(|e| content(&log.path, e))?;
        if rates.is_empty() {
            return Err(content(
                &log.path,
                "no line has a throughput (\"... MB/sec  execute ...\")",
            ));
        }
        // Further iterations go on counting.
        let before = runs.iter().filter(|r| r.key.workload == workload).count() as u32;
        for (repeat, rate) in (before..).zip(rates) {
            let key = RunKey {
                workload: workload.clone(),
                policy: name.to_owned(),
                repeat,
            };
            let mut run = Run::new(key, None, repeat, repeat);
            run.metrics = vec![("bandwidth_mbs".to_owned(), rate)];
            runs.push(run);
        }
    }
    let note = "samples of a second each, as MMTests averages them: not independent runs, so that intervals are \
         narrower than repeated runs would give";
    let mut source = imported(name, ("mmtests", "unknown"), &runs, vec![note.to_owned()]);
    for metric in &mut source.document.metrics {
        metric.headline |= metric.name == "bandwidth_mbs";
    }
    Ok(source)
}

fn text(path: &Path) -> Result<String, ImportError> {
    let bytes = read_bytes(path)?;
    let mut text = Vec::new();
    if path.extension().is_some_and(|e| e == "gz") {
        GzDecoder::new(&bytes[..])
            .take(MAX_BYTES)
            .read_to_end(&mut text)
            .map_err(|source| ImportError::Read {
                path: path.to_owned(),
                source,
            })?;
    } else {
        text = bytes;
    }
    String::from_utf8(text).map_err(|_| content(path, "is not UTF-8 text"))
}

/// The third word of the lines of the execution phase, in MB per second.
fn rates(text: &str) -> Result<Vec<f64>, String> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, l)| l.contains("execute"));
    let rate = |(number, line): (usize, &str)| {
        let word = line.split_whitespace().nth(2);
        let rate = word
            .and_then(|w| w.parse::<f64>().ok())
            .filter(|r| r.is_finite());
        rate.ok_or_else(|| format!("line {}: no throughput in its third column", number + 1))
    };
    lines.map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throughput_of_each_second_of_the_execution() {
        let text = "   1     1000   480.00 MB/sec  warmup   1 sec  latency 0.9 ms\n   \
                    1     2000   497.50 MB/sec  execute   1 sec  latency 0.8 ms\n   \
                    1     3000   498.25 MB/sec  execute   2 sec  latency 0.8 ms\nThroughput 498 MB/sec\n";
        assert_eq!(rates(text).unwrap(), [497.5, 498.25]);
        assert!(
            rates("1 2 x MB/sec execute")
                .unwrap_err()
                .contains("line 1")
        );
    }
}
