//! A running machine: which settings decide about power and latency, what they are, how to change them
//! and how to put them back.
//!
//! - [`setting`]: every setting as data: its scope, where it is, its unit, what it may be.
//! - [`System`]: reads, writes and verifies one setting, on this machine or in a captured one.
//! - [`policy`]: what a policy set such as `menu + idle-states[ceiling=20us]` changes on this machine.
//! - [`Plan`]: what would be written, with old and new values.
//! - [`Session`]: takes the lock, keeps the journal of old values, applies and restores.
//!
//! Everything takes a root: `/` is this machine, another directory is a captured one, which has the same
//! files below it.
//!
//! ```no_run
//! use wakepath_live::{Plan, Selection, Session, System, policy};
//!
//! let system = System::live();
//! let set = "menu + idle-states[ceiling=20us]".parse()?;
//! let wanted = policy::resolve(&system, &set, &Selection::default())?;
//! let hold = Session::open(&system)?.hold(&Plan::new(&system, wanted)?)?;
//! // ... measure; when `hold` goes out of scope, everything is as it was.
//! hold.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod capture;
mod error;
mod journal;
mod key;
pub mod nvme;
mod plan;
pub mod policy;
mod root;
mod session;
pub mod setting;
pub mod status;
mod store;
mod system;
mod topology;

pub use error::LiveError;
pub use key::{At, Key};
pub use plan::{Change, Plan, Wanted};
pub use policy::Selection;
pub use root::Root;
pub use session::{Hold, Restored, Session, restore_before_exit};
pub use system::System;
pub use topology::{StateInfo, find_state, shallow_ceiling};
