//! Policies by name: `NAME@VERSION[key=value,...]`, and sets joined by ` + `.
//!
//! One grammar names every policy everywhere: on the command line, in study files, in results. A
//! name without version means that of [`version::BARE`], and prints with it. Keys print in the order in which
//! they were given, so that a printed name parses to the same policy and prints unchanged.
//!
//! ```
//! use wakepath_policies::spec::{PolicySet, PolicySpec};
//!
//! let menu: PolicySpec = "menu".parse()?;
//! assert_eq!(menu.to_string(), "menu@6.12");
//!
//! let set: PolicySet = "menu@6.1 + cpu-latency[limit=20us]".parse()?;
//! assert_eq!(set.to_string(), "menu@6.1 + cpu-latency[limit=20us]");
//! assert!(set.idle().is_some());
//! # Ok::<(), wakepath_policies::spec::SpecError>(())
//! ```

mod error;
mod policy;
mod set;
pub mod version;

pub use error::SpecError;
pub use policy::PolicySpec;
pub use set::PolicySet;

#[cfg(test)]
mod tests;
