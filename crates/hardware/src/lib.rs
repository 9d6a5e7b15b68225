//! Hardware: idle states, machines (modelled and recorded) and drives, with a source for every figure. Also decisions
//! by the hardware itself: the clock under HWP, and C1 demotion.

pub mod c1_demotion;
pub mod drive;
pub mod hwp;
pub mod identity;
pub mod idle;
pub mod kernel_policy;
pub mod machine;
pub mod nearest;
pub mod processor;
pub mod recorded;

pub use idle::{IdleState, IdleStates};
pub use machine::Machine;
