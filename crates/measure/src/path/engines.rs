//! A read by I/O engine: CPU time as fio accounts for itself, and parts as the kernel's events tell them.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use wakepath_settings::NVME_POLL_QUEUES;
use wakepath_system::Root;

use crate::ExperimentControl;

/// How fio makes reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FioEngine {
    /// Name of the engine in fio.
    #[serde(rename = "engine")]
    pub name: &'static str,
    /// Reads in flight.
    pub depth: usize,
    /// Whether the CPU polls for completions (`hipri`).
    pub polled: bool,
}

impl FioEngine {
    const fn interrupted(name: &'static str, depth: usize) -> Self {
        Self {
            name,
            depth,
            polled: false,
        }
    }
}

/// The engines that are measured.
pub(super) const ENGINES: [FioEngine; 6] = [
    FioEngine::interrupted("psync", 1),
    FioEngine::interrupted("libaio", 1),
    FioEngine::interrupted("libaio", 8),
    FioEngine::interrupted("io_uring", 1),
    FioEngine::interrupted("io_uring", 8),
    FioEngine {
        name: "pvsync2",
        depth: 1,
        polled: true,
    },
];
/// Shortest run of fio, which accounts for its CPU time in ticks.
pub(super) const SHORTEST_RUN: Duration = Duration::from_millis(500);
/// Between two looks at whether fio has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Most characters of fio's complaint in a note.
const MOST_QUOTED: usize = 200;

/// What an I/O engine costs the CPU for each read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineCost {
    /// How fio made them.
    #[serde(flatten)]
    pub engine: FioEngine,
    /// 4 KiB direct random reads that were made.
    pub reads: u64,
    /// CPU time of fio for each read in ns, in user space and in the kernel; interrupts may be in there.
    pub cpu_ns: f64,
    /// The kernel's part of that time.
    pub kernel_ns: f64,
    /// Context switches for each read.
    pub context_switches: f64,
    /// Mean latency in ns.
    pub mean_ns: f64,
}

/// Parts of an engine's reads as the kernel's events tell them: means in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineParts {
    /// How fio made them.
    #[serde(flatten)]
    pub engine: FioEngine,
    /// What was followed.
    #[serde(flatten)]
    pub reads: FollowedReads,
}

/// Reads that were followed through the kernel. Times are means in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FollowedReads {
    /// Number of reads.
    pub reads: u64,
    /// From the bio to the issue; absent: no bio was seen.
    pub queued_ns: Option<f64>,
    /// From the issue to the interrupt, or to the completion where the driver polls.
    pub drive_ns: f64,
    /// From the interrupt to the completion, also on a second CPU.
    pub interrupt_ns: f64,
    /// Number of reads whose completion woke the task: with several in flight, others find the task awake.
    pub woke: u64,
    /// From the completion to the task's wake-up, over these reads; absent: none woke the task.
    pub hand_over_ns: Option<f64>,
    /// From the wake-up until the task ran, idle exit included, over these reads; absent: none was seen to run.
    pub resume_ns: Option<f64>,
}

/// Follows reads through the kernel while a program makes them.
pub trait ReadFollower {
    /// Begins to follow.
    ///
    /// # Errors
    /// Why reads cannot be followed.
    fn begin(&mut self) -> Result<(), String>;

    /// Takes the events so far; called some times a second.
    ///
    /// # Errors
    /// Why the events cannot be used.
    fn take_events(&mut self) -> Result<(), String>;

    /// Ends, and tells what the reads of a disk, by the kernel's name, took.
    ///
    /// # Errors
    /// No read was seen, or events are missing.
    fn end(&mut self, disk: &str) -> Result<FollowedReads, String>;
}

/// Runs of fio on a file for a time each.
pub(super) struct FioRuns<'a> {
    pub(super) root: &'a Root,
    /// The disk below the file, where known.
    pub(super) disk: Option<&'a str>,
    pub(super) file: &'a Path,
    pub(super) time: Duration,
    pub(super) control: ExperimentControl<'a>,
}

impl FioRuns<'_> {
    /// Runs fio with an engine. The error says why there is no figure; `None` after cancellation.
    pub(super) fn measure_cost(&self, engine: FioEngine) -> Result<Option<EngineCost>, String> {
        let Some(output) = self.run(engine, &mut || Ok(()))? else {
            return Ok(None);
        };
        let cost = read_cost(&output, engine);
        cost.map(Some).ok_or_else(|| "fio told no reads".to_owned())
    }

    /// Runs fio again with each engine that has figures, and has its reads of the disk followed. The second list says which engines
    /// have no parts, and why.
    pub(super) fn follow_engines(
        &self,
        disk: &str,
        engines: &[EngineCost],
        follower: &mut dyn ReadFollower,
    ) -> (Vec<EngineParts>, Vec<String>) {
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for EngineCost { engine, .. } in engines {
            if self.control.is_cancelled() {
                break;
            }
            if let Err(why) = follower.begin() {
                refused.push(format!("parts of reads by engine: {why}"));
                break;
            }
            let ran = self.run(*engine, &mut || follower.take_events());
            // What was begun ends, whatever fio did.
            let followed = follower.end(disk);
            match ran.and_then(|output| output.map(|_| followed).transpose()) {
                Ok(Some(reads)) => found.push(EngineParts {
                    engine: *engine,
                    reads,
                }),
                Ok(None) => break,
                Err(why) => refused.push(format!(
                    "parts of reads by {}, depth {}: {why}",
                    engine.name, engine.depth
                )),
            }
            self.control.finish_step();
        }
        (found, refused)
    }

    /// What fio prints after a run with an engine; `None` after cancellation. Calls `meanwhile` some times a second.
    fn run(
        &self,
        engine: FioEngine,
        meanwhile: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Option<String>, String> {
        if engine.polled && !has_poll_queues(self.root, self.disk) {
            return Err(format!(
                "the disk has no queues to poll (queue/io_poll is 0). An NVMe drive gets one by {}",
                NVME_POLL_QUEUES.advise_value("1")
            ));
        }
        let name = self
            .file
            .to_str()
            .ok_or("the path is not UTF-8, and fio takes no other")?;
        let mut command = Command::new("fio");
        command.args([
            "--output-format=json",
            "--readonly",
            "--name=engine",
            "--rw=randread",
            "--bs=4k",
            "--direct=1",
            "--time_based",
        ]);
        // A colon separates files.
        command.arg(format!("--filename={}", name.replace(':', "\\:")));
        command.arg(format!("--ioengine={}", engine.name));
        command.arg(format!("--iodepth={}", engine.depth));
        command.arg(format!(
            "--runtime={}ms",
            self.time.max(SHORTEST_RUN).as_millis()
        ));
        if engine.polled {
            command.arg("--hipri=1");
        }
        run_to_end(command, self.control, meanwhile)
    }
}

fn has_poll_queues(root: &Root, disk: Option<&str>) -> bool {
    disk.is_some_and(|disk| {
        root.read_number_if_readable(&format!("sys/block/{disk}/queue/io_poll")) == Some(1)
    })
}

/// What fio printed; `None` after cancellation, which ends fio.
fn run_to_end(
    mut command: Command,
    control: ExperimentControl<'_>,
    meanwhile: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Option<String>, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "fio is not installed".to_owned(),
        _ => format!("fio: {error}"),
    })?;
    // What fio prints for one job fits into a pipe.
    loop {
        let taken = meanwhile();
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if control.is_cancelled() || taken.is_err() => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return taken.map(|()| None);
            }
            Ok(None) => std::thread::sleep(LOOK),
            Err(error) => return Err(format!("fio: {error}")),
        }
    }
    let output = child.wait_with_output().map_err(|e| format!("fio: {e}"))?;
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().rfind(|line| !line.trim().is_empty());
    let quoted: String = line
        .unwrap_or_default()
        .trim()
        .chars()
        .take(MOST_QUOTED)
        .collect();
    Err(format!("fio failed, {}: {quoted}", output.status))
}

/// The cost from fio's JSON; `None` without reads.
fn read_cost(output: &str, engine: FioEngine) -> Option<EngineCost> {
    // Messages may come before.
    let document: Value = serde_json::from_str(output.get(output.find('{')?..)?).ok()?;
    let job = document["jobs"].get(0)?;
    let reads = job["read"]["total_ios"]
        .as_u64()
        .filter(|reads| *reads > 0)?;
    let (user, kernel) = (job["usr_cpu"].as_f64()?, job["sys_cpu"].as_f64()?);
    let ran_ns = job["job_runtime"].as_f64()? * 1e6;
    let [cpu_ns, kernel_ns] =
        [user + kernel, kernel].map(|percent| percent / 100.0 * ran_ns / reads as f64);
    Some(EngineCost {
        engine,
        reads,
        cpu_ns,
        kernel_ns,
        context_switches: job["ctx"].as_f64()? / reads as f64,
        mean_ns: job["read"]["lat_ns"]["mean"].as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_the_share_of_the_run() {
        let output = "note\n{\"jobs\": [{\"job_runtime\": 500, \"usr_cpu\": 4.0, \"sys_cpu\": 16.0, \"ctx\": 5100, \
                      \"read\": {\"total_ios\": 5000, \"lat_ns\": {\"mean\": 98000.5}}}]}\n";
        let cost = read_cost(output, FioEngine::interrupted("libaio", 8)).unwrap();
        // A fifth of 500 ms over 5,000 reads.
        assert!((cost.cpu_ns - 20_000.0).abs() < 1e-6, "{cost:?}");
        assert!((cost.kernel_ns - 16_000.0).abs() < 1e-6, "{cost:?}");
        assert!((cost.context_switches - 1.02).abs() < 1e-9);
        assert_eq!((cost.engine.depth, cost.reads), (8, 5000));
        for broken in [
            "",
            "{}",
            "{\"jobs\": []}",
            &output.replace("5000,", "0,"),
            &output.replace("\"usr_cpu\": 4.0", "\"usr_cpu\": \"much\""),
        ] {
            let psync = FioEngine::interrupted("psync", 1);
            assert_eq!(read_cost(broken, psync), None, "{broken}");
        }
    }

    #[test]
    fn polling_takes_queues_to_poll() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("sys/block/nvme0n1/queue");
        std::fs::create_dir_all(&queue).unwrap();
        let root = Root::at_directory(folder.path());
        std::fs::write(queue.join("io_poll"), "0\n").unwrap();
        assert!(!has_poll_queues(&root, Some("nvme0n1")));
        std::fs::write(queue.join("io_poll"), "1\n").unwrap();
        assert!(has_poll_queues(&root, Some("nvme0n1")));
        assert!(!has_poll_queues(&root, None));
    }
}
