//! Long work: a progress bar on a terminal, and Ctrl-C, which ends with what is finished so far.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use wakepath_sim::Waiting;

/// Exit code after Ctrl-C, as a shell counts it: 128 plus the number of SIGINT.
pub(crate) const CANCELLED: u8 = 130;

static CANCELLED_BY_USER: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C was pressed while work was in progress.
pub(crate) fn cancelled() -> bool {
    CANCELLED_BY_USER.load(Ordering::Relaxed)
}

/// Does `work`, of `total` parts that are called `what`, and shows how far it is when standard
/// error is a terminal. The first Ctrl-C calls the work off, the second ends the program.
pub(crate) fn with_progress<T>(
    total: usize,
    what: &str,
    work: impl FnOnce(&Waiting<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    ctrlc::set_handler(|| {
        if CANCELLED_BY_USER.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(CANCELLED));
        }
    })?;
    // It draws nothing when standard error is no terminal.
    let bar = ProgressBar::new(total as u64).with_style(ProgressStyle::with_template(&format!(
        "{{bar:30}} {{pos}} of {{len}} {what}, {{per_sec}}, {{eta}} left"
    ))?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let done = AtomicUsize::new(0);
    let result = work(&Waiting {
        finished: &|_| {
            done.fetch_add(1, Ordering::Relaxed);
            bar.inc(1);
        },
        cancelled: &CANCELLED_BY_USER,
    });
    bar.finish_and_clear();
    let result = result?;
    if cancelled() {
        let done = done.into_inner();
        eprintln!("wakepath: interrupted; {done} of {total} {what} are finished");
    }
    Ok(result)
}
