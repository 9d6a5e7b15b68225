//! `cpu-latency`: a latency request, which the kernel hands to the idle governor.

use serde::Serialize;
use wakepath_hardware::machine::MAX_LATENCY_REQUEST_US;
use wakepath_units::{Nanoseconds, cpus};

use super::key::{Fallback, Form, Key, KeyInfo, TimeUnit};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

/// A latency request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CpuLatency {
    /// The longest exit latency, in whole microseconds; `None` lifts the request.
    pub limit: Option<Nanoseconds>,
    /// What it holds for.
    pub scope: LatencyScope,
}

/// What a latency request holds for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum LatencyScope {
    /// The whole system, for as long as a process holds it (`/dev/cpu_dma_latency`).
    System,
    /// Each CPU by itself (`pm_qos_resume_latency_us`).
    EachCpu,
    /// These CPUs, ascending.
    Cpus(Vec<usize>),
}

static LIMIT: Key<Option<Nanoseconds>> = Key {
    info: KeyInfo {
        name: "limit",
        meaning: "the longest exit latency; none: no limit",
        unit: "",
        fallback: Fallback::Required,
        example: "20us",
    },
    words: &[("none", None)],
    form: Form::Time(TimeUnit::Micros, MAX_LATENCY_REQUEST_US, Some),
};
static CPUS: Key<LatencyScope> = Key {
    info: KeyInfo {
        name: "cpus",
        meaning: "the CPUs that it holds for, each by itself, without a process",
        unit: "",
        fallback: Fallback::Derived("the whole system, while a process holds it"),
        example: "0-3,8",
    },
    words: &[("all", LatencyScope::EachCpu)],
    form: Form::List("CPUs such as 0-3,8", |text| {
        let cpus = cpus::parse(text).filter(|cpus| !cpus.is_empty());
        cpus.map(LatencyScope::Cpus)
    }),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "cpu-latency",
    kind: Kind::CpuLatency,
    versioned: false,
    summary: "no idle state with a longer exit latency: what governors are told, the states stay on",
    source: "cpuidle_governor_latency_req(), drivers/cpuidle/governor.c",
    on: SIM_AND_MACHINE,
    keys: &[&LIMIT, &CPUS],
    overlaps: &[],
    build: |given| {
        Ok(Policy::CpuLatency(CpuLatency {
            limit: given.get(&LIMIT)?,
            scope: given.given(&CPUS)?.unwrap_or(LatencyScope::System),
        }))
    },
};
