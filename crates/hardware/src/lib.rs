//! What the hardware is: idle states, machines (modelled and recorded) and drives, with the source of
//! every figure.

pub mod drive;
pub mod idle;
pub mod kernel_policy;
pub mod machine;
pub mod processor;
pub mod recorded;

pub use idle::{IdleState, IdleStates};
pub use machine::Machine;
