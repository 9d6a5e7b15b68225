//! Long work: with the interpreter's lock released, on a pool of threads, told of by a progress bar, ended by Ctrl-C.

use std::num::NonZero;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use wakepath_study::run::RunControl;

use crate::errors;

/// How often Python looks for signals and draws its bar.
const LOOK: Duration = Duration::from_millis(50);

/// The last call's pool.
static POOL: Mutex<Option<Pool>> = Mutex::new(None);

/// Threads with their process: a fork has no threads.
struct Pool {
    process: u32,
    threads: Arc<ThreadPool>,
}

/// A pool with so many threads; one per core if `jobs` is `None`.
fn thread_pool(jobs: Option<NonZero<u16>>) -> PyResult<Arc<ThreadPool>> {
    let wanted = match jobs {
        Some(jobs) => usize::from(jobs.get()),
        None => available_parallelism().map_or(1, usize::from),
    };
    let process = process::id();
    let mut last = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = last.take() {
        if pool.process != process {
            // The threads belong to the parent process: nobody can be joined.
            std::mem::forget(pool);
        } else if pool.threads.current_num_threads() == wanted {
            let threads = Arc::clone(&pool.threads);
            *last = Some(pool);
            return Ok(threads);
        }
    }
    let built = ThreadPoolBuilder::new().num_threads(wanted).build();
    let threads = Arc::new(built.map_err(errors::python_error)?);
    *last = Some(Pool {
        process,
        threads: Arc::clone(&threads),
    });
    Ok(threads)
}

/// Does `work` on `jobs` threads. Meanwhile the calling thread releases the interpreter's lock most of the time, lets
/// signals reach Python, and calls `progress` with the number of finished parts. An exception calls the work off.
///
/// # Errors
/// An exception raised meanwhile, such as `KeyboardInterrupt`; else the work's error.
pub(crate) fn run_interruptibly<T: Send, E: Send>(
    py: Python<'_>,
    jobs: Option<NonZero<u16>>,
    progress: Option<Py<PyAny>>,
    to_python: impl FnOnce(E) -> PyErr,
    work: impl FnOnce(&RunControl<'_>) -> Result<T, E> + Send,
) -> PyResult<T> {
    let pool = thread_pool(jobs)?;
    let cancelled = AtomicBool::new(false);
    let done = AtomicUsize::new(0);
    let look = || {
        let seen = Python::try_attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &progress {
                progress.call1(py, (done.load(Ordering::Relaxed),))?;
            }
            Ok(())
        });
        // None: the interpreter is shutting down, and nobody waits for the result.
        seen.unwrap_or_else(|| Err(errors::Error::new_err("the interpreter is shutting down")))
    };
    let (result, raised) = py.detach(|| {
        let mut result = None;
        let mut raised = None;
        pool.in_place_scope(|scope| {
            let (finished, control) = mpsc::channel::<()>();
            scope.spawn(|_| {
                result = Some(work(&RunControl {
                    finished: &|parts| _ = done.fetch_add(parts, Ordering::Relaxed),
                    cancelled: &cancelled,
                }));
                drop(finished);
            });
            while control.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(error) = look()
                {
                    cancelled.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
        });
        if raised.is_none() {
            raised = look().err();
        }
        (result, raised)
    });
    match (raised, result) {
        (Some(raised), _) => Err(raised),
        (None, Some(result)) => result.map_err(to_python),
        (None, None) => Err(errors::Error::new_err("the work was not done")),
    }
}
