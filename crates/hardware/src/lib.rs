//! What the hardware is: idle states, machines and drives, with the source of every figure.

pub mod drive;
pub mod idle;

pub use idle::{IdleState, IdleStates};
