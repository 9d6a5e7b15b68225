//! Long work: spread over cores, with a progress bar on a terminal, and Ctrl-C or another signal, which ends with what
//! is finished so far.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use wakepath_study::run::sim::SimulationProgress;
use wakepath_units::Nanoseconds;

use crate::messages::{self, tell};
use crate::until;

/// Signals that come so soon after the first signal are the same request: a program that was told to end, such as a
/// workload, is given the time.
const SAME: Duration = Duration::from_secs(1);

/// Number of the signal that cancelled the work; 0 if none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Cancels the work because of a signal. Returns whether an earlier signal had cancelled the work already.
pub(crate) fn cancel_and_tell_if_cancelled_before(signal: i32) -> bool {
    SIGNAL.store(signal, Ordering::Relaxed);
    wakepath_governors::stop_waiting_for_governors();
    CANCELLED.swap(true, Ordering::Relaxed)
}

/// Whether a signal has cancelled the work in progress.
pub(crate) fn is_cancelled() -> bool {
    CANCELLED.load(Ordering::Relaxed)
}

/// Exit code after the cancelling signal, as in shells: 128 plus its number.
pub(crate) fn exit_code_for_cancelling_signal() -> u8 {
    128 + SIGNAL.load(Ordering::Relaxed) as u8
}

/// Reports progress to a calling program, such as the Python package. `WAKEPATH_PROGRESS` names a file or pipe. Each line
/// has two numbers, `DONE TOTAL`; an unknown total is 0.
pub(crate) struct ProgressReporter {
    total: u64,
    sink: Option<Mutex<ProgressSink>>,
}

struct ProgressSink {
    file: File,
    /// When progress was last reported, and how many parts were done.
    last: Option<(Instant, u64)>,
}

impl ProgressSink {
    fn open_for_append(path: &OsStr) -> anyhow::Result<Self> {
        let file = File::options()
            .append(true)
            .open(path)
            .with_context(|| format!("WAKEPATH_PROGRESS={}", Path::new(path).display()))?;
        Ok(Self { file, last: None })
    }
}

impl ProgressReporter {
    /// Shortest time between two progress reports.
    const EVERY: Duration = Duration::from_millis(50);

    /// Opens the file that `WAKEPATH_PROGRESS` names, if any, to report `total` parts.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn from_environment(total: u64) -> anyhow::Result<Self> {
        let sink = env::var_os("WAKEPATH_PROGRESS")
            .map(|path| ProgressSink::open_for_append(&path))
            .transpose()?;
        Ok(Self {
            total,
            sink: sink.map(Mutex::new),
        })
    }

    /// Writes a line about progress, unless the last line is too recent, or told of as many parts: threads may come here in another
    /// order than they counted. Write errors are ignored: nobody may be reading.
    pub(crate) fn report_done_parts(&self, done: u64) {
        let Some(sink) = &self.sink else { return };
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        let (soon, known) = sink.last.map_or((false, false), |(last, told)| {
            (last.elapsed() < Self::EVERY, done <= told)
        });
        if !known && (!soon || done == self.total) {
            sink.last = Some((Instant::now(), done));
            _ = writeln!(sink.file, "{done} {}", self.total);
        }
    }
}

/// When a log gets another line about long work: each half minute, and after the first line with every tenth.
#[derive(Debug, Default)]
struct ProgressLineSchedule {
    last: Duration,
    done: usize,
}

impl ProgressLineSchedule {
    const EVERY: Duration = Duration::from_secs(30);
    /// Shortest time between two lines for tenths.
    const SHORTEST: Duration = Duration::from_secs(5);

    /// Whether another line is due, when `done` parts are done after a time.
    fn is_line_due_and_note_it(&mut self, after: Duration, done: usize, total: usize) -> bool {
        let since = after.saturating_sub(self.last);
        let tenth = done.saturating_sub(self.done) * 10 >= total && !self.last.is_zero();
        let due = since >= Self::EVERY || since >= Self::SHORTEST && tenth;
        if due {
            (self.last, self.done) = (after, done);
        }
        due
    }
}

/// A log line about progress, in words.
fn format_progress_line(
    after: Duration,
    done: usize,
    total: Option<usize>,
    parts_name: &str,
) -> String {
    let seconds = after.as_secs_f64();
    let Some(total) = total else {
        return format!(
            "{done} {parts_name} after {}",
            until::duration_in_words(seconds)
        );
    };
    if done > total {
        return format!(
            "{done} {parts_name} after {}, more than the expected {total}",
            until::duration_in_words(seconds)
        );
    }
    let left = if done == 0 {
        String::new()
    } else {
        let left = seconds * total.saturating_sub(done) as f64 / done as f64;
        format!(", about {} left", until::duration_in_words(left))
    };
    format!(
        "{done} of {total} {parts_name} after {}{left}",
        until::duration_in_words(seconds)
    )
}

/// Thread that writes lines about long work to a log or a file, where no terminal shows a bar. Dropping it ends the
/// thread.
pub(crate) struct ProgressLog {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLog {
    /// Interval at which the count of finished parts is looked at.
    const LOOK: Duration = Duration::from_secs(1);

    /// Starts a thread that watches `done`, out of `total` if known. `None` if there is nothing to write about, or
    /// nowhere to write.
    pub(crate) fn start_unless_terminal(
        done: Arc<AtomicUsize>,
        total: Option<usize>,
        parts_name: &str,
    ) -> Option<Self> {
        // Work with a single part has no progress to show.
        if total.is_some_and(|total| total < 2) || io::stderr().is_terminal() {
            return None;
        }
        let (end, ended) = mpsc::channel::<()>();
        let parts_name = parts_name.to_owned();
        let thread = thread::spawn(move || {
            let (started, mut schedule) = (Instant::now(), ProgressLineSchedule::default());
            while ended.recv_timeout(Self::LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
                let (after, done) = (started.elapsed(), done.load(Ordering::Relaxed));
                if schedule.is_line_due_and_note_it(after, done, total.unwrap_or(usize::MAX)) {
                    tell!("{}", format_progress_line(after, done, total, &parts_name));
                }
            }
        });
        Some(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for ProgressLog {
    fn drop(&mut self) {
        self.end.take();
        // A progress thread that cannot write has no effect on the result.
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Lines about simulations that take long: how much time is simulated, how long the rest takes, and the option that shortens it.
pub(crate) struct LongSimulationNotes {
    started: Instant,
    /// Longest simulated time of a run.
    longest: Nanoseconds,
    /// Simulated time of each run so far, in ns.
    simulated: Vec<AtomicU64>,
    /// Time from the start to the next line.
    next: Mutex<Duration>,
}

impl LongSimulationNotes {
    /// Time from the start to the first line; each later line comes after [`Self::FACTOR`] times as long as the last.
    const FIRST: Duration = Duration::from_secs(5);
    const FACTOR: u32 = 4;
    /// Rest that is worth a line.
    const LEAST_LEFT: Duration = Duration::from_secs(10);

    /// Notes on so many runs, each of which is simulated for `longest` at most.
    pub(crate) fn new(runs: usize, longest: Nanoseconds) -> Self {
        Self {
            started: Instant::now(),
            longest,
            simulated: (0..runs).map(|_| AtomicU64::new(0)).collect(),
            next: Mutex::new(Self::FIRST),
        }
    }

    /// Takes in how far a run is, and prints a line if one is due.
    pub(crate) fn note_progress(&self, run: usize, progress: SimulationProgress) {
        let time = match progress {
            SimulationProgress::Simulated(time) => time.min(self.longest),
            SimulationProgress::Ended => self.longest,
        };
        if let Some(simulated) = self.simulated.get(run) {
            simulated.store(time.0, Ordering::Relaxed);
        }
        if let Some(line) = self.line_if_due(self.started.elapsed()) {
            print_beside_bar(|| tell!("{line}"));
        }
    }

    /// The line that is due after so much real time, if any.
    fn line_if_due(&self, after: Duration) -> Option<String> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if after < *next {
            return None;
        }
        let simulated = (self.simulated.iter())
            .map(|time| time.load(Ordering::Relaxed))
            .sum::<u64>() as f64
            / 1e9;
        let runs = self.simulated.len();
        let all = self.longest.as_secs_f64() * runs as f64;
        let left_seconds = after.as_secs_f64() * (all - simulated) / simulated.max(1e-9);
        if left_seconds < Self::LEAST_LEFT.as_secs_f64() {
            return None;
        }
        *next = after * Self::FACTOR;
        let of_runs = match runs {
            1 => String::new(),
            several => format!(" of {several} runs"),
        };
        Some(format!(
            "note: {} of at most {}{of_runs} are simulated after {}, about {} left; --seconds N simulates less of each run",
            until::duration_in_words(simulated),
            until::duration_in_words(all),
            until::duration_in_words(after.as_secs_f64()),
            until::duration_in_words(left_seconds),
        ))
    }
}

/// How many cores to use.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct ThreadCount {
    /// Simulations at a time; the result does not depend on it [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: Option<u16>,
}

impl ThreadCount {
    /// One job at a time, for work that must not disturb itself.
    pub(crate) const fn single_thread() -> Self {
        Self { jobs: Some(1) }
    }

    /// Number of threads.
    pub(crate) fn count_or_all_cores(self) -> usize {
        self.jobs.map_or_else(
            || std::thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        )
    }
}

/// The progress bar of the work that runs, if any.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn lock_bar() -> MutexGuard<'static, Option<ProgressBar>> {
    BAR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `print`, which writes lines to standard error, while no progress bar is drawn there.
pub(crate) fn print_beside_bar(print: impl FnOnce()) {
    let shown = lock_bar().clone();
    match shown {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// Temporary folders that are removed when a second signal ends the program.
static LEFTOVERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Registers a temporary folder to be removed when a second signal ends the program.
pub(crate) fn remove_folder_at_second_signal(folder: &Path) {
    let mut leftovers = LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner);
    leftovers.push(folder.to_owned());
}

fn remove_registered_folders() {
    for folder in LEFTOVERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
    {
        // Failures to remove a folder are ignored: the program is ending.
        _ = std::fs::remove_dir_all(folder);
    }
}

/// Runs `work` in a rayon pool with `jobs` threads. `work` reports how many of `total` parts are done. A terminal's
/// standard error shows a bar with the `parts_name`. The first signal (Ctrl-C, SIGTERM, a closed terminal) cancels
/// the work, the second ends the program.
pub(crate) fn run_with_progress<T: Send>(
    jobs: ThreadCount,
    total: usize,
    parts_name: &str,
    work: impl FnOnce(&(dyn Fn(usize) + Sync), &AtomicBool) -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let threads = rayon::ThreadPoolBuilder::new()
        // rayon takes 0 threads as one thread per core.
        .num_threads(jobs.jobs.map_or(0, usize::from))
        .build()
        .context("--jobs")?;
    let first = OnceLock::new();
    until::handle_end_signals_in_thread(move |signal| {
        let again = first.get_or_init(Instant::now).elapsed() > SAME;
        // A terminal that closes with its shell sends SIGHUP twice within milliseconds: only the first counts.
        if cancel_and_tell_if_cancelled_before(signal) && again {
            // Settings that cannot be put back stay in the journal; `wakepath restore` says so.
            _ = wakepath_settings::put_back_all_before_exit();
            remove_registered_folders();
            std::process::exit(i32::from(exit_code_for_cancelling_signal()));
        }
    })?;
    // The progress bar is drawn only if standard error is a terminal.
    let bar = ProgressBar::new(total as u64).with_style(ProgressStyle::with_template(&format!(
        "{{bar:30}} {{pos}} of {{len}} {parts_name}, {{per_sec}}, {{eta}} left"
    ))?);
    bar.enable_steady_tick(Duration::from_millis(200));
    *lock_bar() = Some(bar.clone());
    let reporter = ProgressReporter::from_environment(total as u64)?;
    let done = Arc::new(AtomicUsize::new(0));
    let log = ProgressLog::start_unless_terminal(Arc::clone(&done), Some(total), parts_name);
    let finished = |parts| {
        let before = done.fetch_add(parts, Ordering::Relaxed);
        if before == 0 {
            // The first finished part shows that a result will come, so held messages are printed.
            bar.suspend(messages::print_held_messages);
        }
        bar.inc(parts as u64);
        reporter.report_done_parts((before + parts) as u64);
    };
    let result = threads.install(|| work(&finished, &CANCELLED));
    drop(log);
    *lock_bar() = None;
    bar.finish_and_clear();
    if is_cancelled() {
        let done = done.load(Ordering::Relaxed);
        let interrupted = format_interruption(done, total, parts_name);
        if result.is_err() {
            return result.context(interrupted);
        }
        // Nothing is finished that tables or held messages could be about.
        if done == 0 && total > 0 {
            bail!(interrupted);
        }
        tell!("{interrupted}");
    }
    result
}

/// What was finished when a signal came. A total of 0 is not known; work may go beyond a planned total.
fn format_interruption(done: usize, total: usize, parts_name: &str) -> String {
    if done > total {
        format!("interrupted; {done} {parts_name} are finished")
    } else {
        format!("interrupted; {done} of {total} {parts_name} are finished")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_names_only_a_total_that_is_known() {
        assert_eq!(
            format_interruption(309, 0, "requests"),
            "interrupted; 309 requests are finished"
        );
        assert_eq!(
            format_interruption(3, 20, "runs"),
            "interrupted; 3 of 20 runs are finished"
        );
    }

    #[test]
    fn progress_never_goes_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let sink = ProgressSink::open_for_append(file.path().as_os_str()).unwrap();
        let reporter = ProgressReporter {
            total: 4,
            sink: Some(Mutex::new(sink)),
        };
        for done in [1, 4, 2, 3] {
            reporter.report_done_parts(done);
        }
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "1 4\n4 4\n");
    }

    #[test]
    fn a_log_has_few_lines() {
        let mut schedule = ProgressLineSchedule::default();
        let mut lines = Vec::new();
        // Ten minutes' work, half finished at once.
        for second in 1..=600 {
            let done = if second > 40 { 500 + second } else { 0 };
            if schedule.is_line_due_and_note_it(Duration::from_secs(second), done as usize, 1100) {
                lines.push(second);
            }
        }
        assert_eq!(lines[..4], [30, 41, 71, 101]);
        assert!(lines.len() <= 21, "{lines:?}");
    }

    #[test]
    fn short_work_says_nothing() {
        let mut schedule = ProgressLineSchedule::default();
        assert!((1..30).all(|second| !schedule.is_line_due_and_note_it(
            Duration::from_secs(second),
            10,
            10
        )));
    }

    #[test]
    fn long_simulations_say_what_is_left_and_short_ones_nothing() {
        let after = Duration::from_secs;
        let long = LongSimulationNotes::new(2, Nanoseconds::from_secs(600));
        long.note_progress(0, SimulationProgress::Simulated(Nanoseconds::from_secs(12)));
        assert_eq!(long.line_if_due(after(4)), None);
        assert_eq!(
            long.line_if_due(after(6)).as_deref(),
            Some(
                "note: 12.0 s of at most 20 min of 2 runs are simulated after 6.0 s, about 10 min left; \
                 --seconds N simulates less of each run"
            )
        );
        assert_eq!(long.line_if_due(after(23)), None);
        long.note_progress(0, SimulationProgress::Ended);
        let second = long.line_if_due(after(24)).unwrap();
        assert!(second.contains("10 min of at most 20 min"), "{second}");
        // A run that is nearly over, and one without any progress.
        let short = LongSimulationNotes::new(1, Nanoseconds::from_secs(60));
        short.note_progress(0, SimulationProgress::Simulated(Nanoseconds::from_secs(50)));
        assert_eq!(short.line_if_due(after(6)), None);
        let stuck = LongSimulationNotes::new(1, Nanoseconds::from_secs(8_640_000));
        assert!(
            stuck
                .line_if_due(after(6))
                .unwrap()
                .contains("0.0 s of at most 2400.0 h")
        );
    }

    #[test]
    fn progress_says_what_is_left() {
        let after = Duration::from_secs(60);
        assert_eq!(
            format_progress_line(after, 0, Some(10), "runs"),
            "0 of 10 runs after 60.0 s"
        );
        assert_eq!(
            format_progress_line(after, 7, None, "events"),
            "7 events after 60.0 s"
        );
        assert_eq!(
            format_progress_line(after, 20, Some(100), "runs"),
            "20 of 100 runs after 60.0 s, about 4 min left"
        );
        assert_eq!(
            format_progress_line(after, 101, Some(100), "runs"),
            "101 runs after 60.0 s, more than the expected 100"
        );
    }
}
