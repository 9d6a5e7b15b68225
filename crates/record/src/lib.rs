//! Records what a running machine's CPUs and drives do, with eBPF.
//!
//! [`RecordSession`] does all of it: from hooks to file; [`EventStream`] hands events out instead. Below it, [`LiveRecording::load_and_attach`] attaches the programs of
//! `bpf/record.bpf.c` to as many of the kernel's hooks as there are. [`LiveRecording::take_batch`] hands over what happened
//! since, in order of time. [`LiveRecording::detach_and_take_rest`] detaches them and says what it cost. The programs only copy:
//! [`wire`] says what.

#[cfg(target_os = "linux")]
mod cycles;
pub mod events;
pub mod facts;
#[cfg(target_os = "linux")]
mod hooks;
#[cfg(any(target_os = "linux", test))]
mod queue;
#[cfg(target_os = "linux")]
mod reached;
#[cfg(target_os = "linux")]
mod recording;
#[cfg(target_os = "linux")]
mod residency;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod stream;
pub mod wire;

#[cfg(target_os = "linux")]
pub use hooks::{GOVERNOR_INPUTS, MissingHook};
#[cfg(target_os = "linux")]
pub use reached::{ReachedCounters, ReachedTicks};
#[cfg(target_os = "linux")]
pub use recording::{BUFFER_BYTES, LiveRecording, RecordBatch, RecordedTasks};
#[cfg(target_os = "linux")]
pub use session::{RecordSession, RecordSummary, SessionError};
#[cfg(target_os = "linux")]
pub use stream::{EventStream, UNSEEN_SWITCHES};
#[cfg(target_os = "linux")]
pub use wakepath_ebpf::{LoadError as StartError, Overhead};
