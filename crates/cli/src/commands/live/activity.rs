//! What CPUs and drives do, as cells for tables and for the live view.

use std::time::Instant;

use wakepath_system::System;
use wakepath_system::status::{CpuStatus, DriveStatus, StateStatus, Status, StatusSample};

/// Consecutive spans.
pub(super) struct StatusSpans<'a> {
    system: &'a System,
    ask_drives: bool,
    last: StatusSample,
    at: Instant,
}

impl<'a> StatusSpans<'a> {
    pub(super) fn new(system: &'a System, ask_drives: bool) -> Self {
        Self {
            system,
            ask_drives,
            last: StatusSample::take_now(system),
            at: Instant::now(),
        }
    }

    /// Reads the machine: counters are changes since the last call.
    pub(super) fn status_since_last_call(&mut self) -> Status {
        let (sample, at) = (StatusSample::take_now(self.system), Instant::now());
        let seconds = (at - self.at).as_secs_f64();
        let status = Status::activity_between(
            self.system,
            &self.last,
            &sample,
            Some(seconds),
            self.ask_drives,
        );
        (self.last, self.at) = (sample, at);
        status
    }

    /// ` --root DIR` of the machine for commands in messages; empty for the running machine.
    pub(super) fn root_option(&self) -> String {
        self.system.root().command_line_option()
    }
}

pub(super) const CPU_HEADER: [&str; 9] = [
    "cpu",
    "limit us",
    "MHz",
    "state",
    "off",
    "time %",
    "entries/s",
    "too deep/s",
    "too shallow/s",
];

pub(super) const DRIVE_HEADER: [&str; 9] = [
    "drive",
    "reads/s",
    "MB/s",
    "us per read",
    "writes/s",
    "MB/s",
    "tolerance us",
    "APST",
    "state",
];

/// A line about the machine as a whole. `option` is the machine's ` --root DIR` for commands.
pub(super) fn describe_machine_in_line(status: &Status, option: &str) -> String {
    use wakepath_system::setting::NO_SYSTEM_LATENCY_LIMIT_US;
    let latency = match status.system_latency_us {
        None => "not readable".to_owned(),
        Some(us) if us >= NO_SYSTEM_LATENCY_LIMIT_US => "none".to_owned(),
        Some(us) => format!("{us} us"),
    };
    let applied = match (status.holder, status.applied) {
        (Some(0), _) => "; a running wakepath may have changed settings".to_owned(),
        (Some(process), _) => format!("; process {process}, a wakepath, may have changed settings"),
        (None, Some(true)) => {
            format!("; changed by wakepath, `wakepath restore{option}` puts it back")
        }
        (None, Some(false)) => String::new(),
        (None, None) => "; what wakepath has changed only root can see".to_owned(),
    };
    let span = status
        .seconds
        .map_or_else(|| "unknown time".to_owned(), |s| format!("{s:.1} s"));
    format!(
        "{span}; idle governor {}; system-wide latency limit {latency}{applied}",
        status.governor
    )
}

/// A CPU's latency limit for people.
pub(super) fn format_latency_limit_and_lease(cpu: &CpuStatus) -> String {
    let limit = match cpu.latency_limit.as_deref() {
        None => "",
        Some("0") => "none",
        Some("n/a") => "0",
        Some(us) => us,
    };
    let lease = if cpu.lease == Some(true) {
        " lease"
    } else {
        ""
    };
    format!("{limit}{lease}")
}

pub(super) fn format_mhz_or_empty(cpu: &CpuStatus) -> String {
    cpu.khz
        .map_or_else(String::new, |khz| (khz / 1000).to_string())
}

/// Rows for a CPU: one per idle state, or a single row if no states are known.
pub(super) fn rows_per_idle_state(cpu: &CpuStatus) -> Vec<[String; 9]> {
    if cpu.states.is_empty() {
        return vec![row_for_cpu_and_state(cpu, None)];
    }
    let states = cpu.states.iter();
    states
        .map(|state| row_for_cpu_and_state(cpu, Some(state)))
        .collect()
}

fn row_for_cpu_and_state(cpu: &CpuStatus, state: Option<&StateStatus>) -> [String; 9] {
    let name = state.map(|s| s.name.clone());
    let is_off = state.is_some_and(|s| s.disabled);
    let [share, entries, too_deep, too_shallow] = [
        state.and_then(|s| Some(100.0 * s.share?)),
        state.and_then(|s| s.entries_per_s),
        state.and_then(|s| s.too_deep_per_s),
        state.and_then(|s| s.too_shallow_per_s),
    ]
    .map(format_tenths_or_empty);
    [
        cpu.cpu.to_string(),
        format_latency_limit_and_lease(cpu),
        format_mhz_or_empty(cpu),
        name.unwrap_or_default(),
        if is_off { "off" } else { "" }.to_owned(),
        share,
        entries,
        too_deep,
        too_shallow,
    ]
}

pub(super) fn format_tenths_or_empty(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.1}"))
}

pub(super) fn drive_status_row(drive: &DriveStatus) -> [String; 9] {
    [
        drive.name.clone(),
        format_tenths_or_empty(drive.reads_per_s),
        format_tenths_or_empty(drive.read_mb_per_s),
        drive
            .read_us
            .map_or_else(String::new, |us| format!("{us:.0}")),
        format_tenths_or_empty(drive.writes_per_s),
        format_tenths_or_empty(drive.write_mb_per_s),
        drive.latency_tolerance.clone().unwrap_or_default(),
        drive
            .apst
            .map_or_else(String::new, |on| if on { "on" } else { "off" }.to_owned()),
        drive
            .power_state
            .map_or_else(String::new, |ps| format!("PS{ps}")),
    ]
}
