//! What a simulated machine and its workload are at a point in time.

pub(crate) mod clocks;
pub(crate) mod completion;
pub(crate) mod cpu;
pub(crate) mod cpu_power;
pub(crate) mod drive;
pub(crate) mod fair_server;
pub(crate) mod idle_table;
pub(crate) mod page_cache;
pub(crate) mod parts;
pub(crate) mod power;
pub(crate) mod power_limit;
pub(crate) mod program;
pub(crate) mod rcu;
pub(crate) mod request;
pub(crate) mod sched;
pub(crate) mod speed;
pub(crate) mod task;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod turns;
pub(crate) mod uncore;
