//! Clusters' clocks: what cpufreq asks for, and when the hardware follows.

use wakepath_policies::freq::schedutil::Schedutil;

use crate::cpu::{Cpu, Mode};
use crate::setup::{ClusterSetup, Cycles};

/// Who decides the frequency of a cluster.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    Fixed,
    Schedutil(Box<Schedutil>),
}

/// A frequency domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    capacity: u32,
    khz: Vec<u32>,
    speed: Vec<u32>,
    /// Operating point in force.
    current: usize,
    /// Operating point asked for.
    wanted: usize,
    changing: bool,
    clock: Clock,
}
