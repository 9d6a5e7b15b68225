//! A recorded system beside the machine that lends what was not recorded.

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
pub(super) enum Kind {
    Amd,
    Client,
    Server,
    /// Not x86, or without a machine that is near.
    Other,
}

impl Kind {
    /// The kind of the machine that lends figures.
    pub(super) fn from_lender(lender: &Lender) -> Self {
        match lender.machine {
            "epyc-7502" | "ryzen-8840u" => Self::Amd,
            "skylake-2s-server" | "xeon-6741p" | "intel-tbench-80t" => Self::Server,
            "laptop" | "hybrid-i7-1260p" | "xeon-e3-1240v5" => Self::Client,
            _ => Self::Other,
        }
    }

    pub(super) fn for_system(system: &RecordedSystem, idle: &RecordedIdle) -> Self {
        // CPUID families from 15 on are taken for AMD's: Intel's Core, Xeon and Atom up to 2025 are family 6. Intel's
        // Pentium 4 (15) and newer families 18 and 19 are not told apart.
        let written = system.family_model.split('/').next();
        let family = written.and_then(|f| f.parse().ok()).unwrap_or(6_u32);
        if family >= 15 {
            Self::Amd
        } else if count_cpus(system, idle) > MAX_CLIENT_CPUS {
            Self::Server
        } else {
            Self::Client
        }
    }

    pub(super) const fn template_machine_name(self) -> &'static str {
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
pub(super) struct Record<'a> {
    pub(super) system: &'a RecordedSystem,
    pub(super) idle: &'a RecordedIdle,
    pub(super) kind: Kind,
    /// The lending machine, whose figures are all assumed.
    pub(super) lender: &'a Machine,
}

impl Record<'_> {
    pub(super) fn known_processor(&self) -> Option<&Processor> {
        self.system.processor.as_ref()
    }

    /// Number of CPUs in the recorded system.
    pub(super) fn cpus(&self) -> usize {
        count_cpus(self.system, self.idle)
    }

    /// Whether CPUID family and model are those of Sapphire Rapids or of Emerald Rapids, with the same core generation.
    pub(super) fn is_sapphire_rapids(&self) -> bool {
        SAPPHIRE_RAPIDS.contains(&&*self.system.family_model)
    }

    /// The text of the source of plain figures.
    pub(super) fn source_of_plain_figures(&self) -> String {
        format!("recorded {}: {}", self.system.name, self.system.source)
    }
}

fn count_cpus(system: &RecordedSystem, idle: &RecordedIdle) -> usize {
    let known = system.processor.as_ref().map(Processor::cpus);
    known.unwrap_or(idle.recorded_cpus)
}

/// The system's recorded idle states; an error if there are none.
pub(super) fn require_idle_states(system: &RecordedSystem) -> Result<&RecordedIdle, MachineError> {
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
