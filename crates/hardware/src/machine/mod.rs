//! Machines: CPUs in clusters, idle states declared and true, operating points, the I/O path and
//! the drive, with the origin of every figure.
//!
//! A machine is a TOML file. The built-in ones are in `data/machines`.

mod assumed_range;
mod background;
mod borrowed;
mod builtin;
mod c1_demotion;
mod calibrated_figures;
mod calibrated_on;
mod cluster;
mod cluster_states;
mod cppc;
mod description;
mod drive;
mod drive_file;
mod emulator;
mod error;
mod family_figures;
mod fault;
mod figure;
mod figure_counts;
mod figures;
mod file;
mod file_system;
mod from_recorded;
mod here;
mod idle_state;
mod io_path;
mod isolation;
mod kept_drives;
mod keys;
mod kinds;
mod known_power;
mod latency;
mod library;
mod like;
mod model_number;
mod page_cache;
mod performance_scale;
mod platform;
mod power;
mod power_limit;
mod prediction;
mod rcu;
mod scheduler;
pub(crate) mod slow_requests;
mod stolen;
mod to_toml;
mod validate;

pub use assumed_range::AssumedRange;
pub use background::{Background, BackgroundTimer, Instances, Runs, WorkloadKind};
pub use builtin::builtin_machine_names;
pub use c1_demotion::C1Demotion;
pub use calibrated_on::CalibratedOn;
pub use cluster::{Cluster, Opp, TurboLimit};
pub use cppc::Cppc;
pub use description::Machine;
pub use drive::{
    DriveBackground, DriveInForce, DriveModel, DrivePower, DriveRest, Flash, Transition,
    TruePowerState, WriteBuffer,
};
pub use emulator::Emulator;
pub use error::MachineError;
pub use figure::{Figure, Measurement, Origin};
pub use figure_counts::FigureCounts;
pub use figures::MachineFigure;
pub use file_system::{FileSystem, FileSystemKind};
pub use from_recorded::Captured;
pub use here::{HERE, SYSTEM_FILE, calibration_path_to_write, find_calibration_file};
pub use idle_state::{ClusterIdleState, MachineIdleState, Scope};
pub use io_path::{Completion, IoPath};
pub use isolation::Isolation;
pub use kept_drives::{KeepDriveError, KeptDrives};
pub use keys::{MachineKey, machine_file_schema};
pub use kinds::{CoreKind, EFFICIENCY_CAPACITY, EFFICIENCY_CAPACITY_WHY};
pub use known_power::EXIT_NOT_KNOWN;
pub use latency::{LatencyRequest, MAX_LATENCY_REQUEST_US};
pub use page_cache::PageCache;
pub use platform::Platform;
pub use power::{Package, PackageSleep, PowerScope, Uncore};
pub use power_limit::PowerLimit;
pub use prediction::{MetricErrors, PredictionError, RankingAgreement};
pub use rcu::Rcu;
pub use scheduler::{Home, Scheduler};
pub use slow_requests::SLOW_REQUEST_IN;
pub use stolen::StolenCpuTime;
