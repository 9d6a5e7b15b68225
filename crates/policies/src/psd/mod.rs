//! Power-sleep demotion prevention (PSD): after a block I/O completion a CPU may not sleep deeply
//! for a while, because the next one is probably near.
//!
//! Source: the proposed kernel patch with this name, in no released kernel. wakepath's kernel module and daemon use
//! rules of their own ([`Lease`]).

mod ceiling;
mod lease;
mod settings;

pub use ceiling::{Ceiling, LeaseCeiling, ceiling_just_above_c1};
pub use lease::{BurstEvent, HeardLease, Lease, LeaseView};
pub use settings::{Grant, LeaseRule, PsdError, PsdPolicy, PsdSettings};
