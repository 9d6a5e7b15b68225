//! A recorded system beside the machine that lends what was not recorded.

use crate::machine::family_figures::{FamilyFigure, FamilyFigureKey, find_family_figure};
use crate::machine::{Figure, Machine, MachineError};
use crate::nearest::Lender;
use crate::processor::Processor;
use crate::recorded::{RecordedIdle, RecordedSystem};

/// A system with more CPUs than this is a server.
const MAX_CLIENT_CPUS: usize = 24;

/// CPUID family and model for Sapphire Rapids and for Emerald Rapids, with the same core generation.
pub(super) const SAPPHIRE_RAPIDS: [&str; 2] = ["6/143", "6/207"];

/// The kind of a recorded system, which decides where missing figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SystemKind {
    Amd,
    Client,
    Server,
    /// Not x86, or without a machine that is near.
    Other,
}

impl SystemKind {
    /// The kind of the machine that lends figures.
    pub(super) fn from_lender(lender: &Lender) -> Self {
        match lender.machine {
            "epyc-7502" | "ryzen-8840u" => Self::Amd,
            "skylake-2s-server" | "xeon-6741p" | "intel-tbench-80t" => Self::Server,
            "laptop" | "hybrid-i7-1260p" | "xeon-e3-1240v5" => Self::Client,
            _ => Self::Other,
        }
    }

    pub(super) fn guess_by_family_and_cpus(system: &RecordedSystem, idle: &RecordedIdle) -> Self {
        // CPUID families from 15 on are taken for AMD's: Intel's Core, Xeon and Atom up to 2025 are family 6. Intel's
        // Pentium 4 (15) and newer families 18 and 19 are not told apart.
        let written = system.family_model.split('/').next();
        let family = written.and_then(|f| f.parse().ok()).unwrap_or(6_u32);
        if family >= 15 {
            Self::Amd
        } else if known_or_recorded_cpu_count(system, idle) > MAX_CLIENT_CPUS {
            Self::Server
        } else {
            Self::Client
        }
    }

    pub(super) const fn default_lender_name(self) -> &'static str {
        match self {
            Self::Amd => "epyc-7502",
            Self::Client => "laptop",
            Self::Server => "skylake-2s-server",
            Self::Other => "rk3399",
        }
    }
}

/// What a capture knows about a machine beyond a record.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// The machine that lends missing figures.
    pub lender: &'a Lender,
    /// Arm's cores by CPU; empty elsewhere.
    pub cores: &'a [String],
    /// Processors.
    pub sockets: usize,
}

/// A recorded system, with the machine that lends unrecorded figures.
pub(super) struct RecordAndLender<'a> {
    pub(super) system: &'a RecordedSystem,
    pub(super) idle: &'a RecordedIdle,
    pub(super) kind: SystemKind,
    /// The lending machine, whose figures are all assumed.
    pub(super) lender: &'a Machine,
}

impl RecordAndLender<'_> {
    pub(super) fn known_processor(&self) -> Option<&Processor> {
        self.system.processor.as_ref()
    }

    /// Number of CPUs in the recorded system.
    pub(super) fn cpus(&self) -> usize {
        known_or_recorded_cpu_count(self.system, self.idle)
    }

    /// What is published of the processor's family; `None` if nothing is. `state`: name of an idle state, or empty.
    pub(super) fn find_family_figure(
        &self,
        key: FamilyFigureKey,
        state: &str,
    ) -> Option<FamilyFigure> {
        let system = self.system;
        find_family_figure(&system.family_model, &system.cpu_model, key, state)
    }

    /// The text of the source of plain figures.
    pub(super) fn source_of_plain_figures(&self) -> String {
        format!("recorded {}: {}", self.system.name, self.system.source)
    }
}

fn known_or_recorded_cpu_count(system: &RecordedSystem, idle: &RecordedIdle) -> usize {
    let known = system.processor.as_ref().map(Processor::cpus);
    known.unwrap_or(idle.recorded_cpus)
}

/// The system's recorded idle states; an error if there are none.
pub(super) fn require_recorded_idle(
    system: &RecordedSystem,
) -> Result<&RecordedIdle, MachineError> {
    let idle = system.idle.as_ref();
    idle.ok_or_else(|| missing_record_error(system, "idle states"))
}

/// The error for a recorded system that lacks some data.
pub(super) fn missing_record_error(system: &RecordedSystem, missing: &'static str) -> MachineError {
    MachineError::OnlyRecorded {
        name: system.name.clone(),
        missing,
    }
}

/// The figure if `applies`, or else a figure that is not given.
pub(super) fn figure_if_applicable(applies: bool, figure: &Figure) -> Figure {
    if applies {
        figure.clone()
    } else {
        Figure::default()
    }
}
