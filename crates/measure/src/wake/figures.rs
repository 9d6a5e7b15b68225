//! What was measured of wake-ups, as figures of a machine file.

use std::fmt::Write as _;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveRest, Figure, MachineIdleState};

use super::{WakeLatency, WakeMeasurement, WakeSource};

/// Measured figures of an idle state of a CPU.
struct StateFigures<'a> {
    cpu: usize,
    state: &'a str,
    exit: Option<Figure>,
    /// From when on the state is deeper, and the exit then.
    deeper: Option<[Figure; 2]>,
    entry: Option<Figure>,
}

impl StateFigures<'_> {
    /// The figures by their keys in a machine file.
    fn by_key(&self) -> impl Iterator<Item = (&'static str, &Figure)> {
        let [after, exit] = self.deeper.as_ref().map_or([None, None], |[after, exit]| {
            [
                Some(("deeper_after_us", after)),
                Some(("deeper_exit_us", exit)),
            ]
        });
        let own = self.exit.as_ref().map(|figure| ("true_exit_us", figure));
        let entry = self.entry.as_ref().map(|figure| ("true_entry_us", figure));
        [own, after, exit, entry].into_iter().flatten()
    }

    fn apply_to(self, state: &mut MachineIdleState) {
        if let Some(exit) = self.exit {
            state.true_exit_us = exit;
            [state.deeper_after_us, state.deeper_exit_us] = self.deeper.unwrap_or_default();
        }
        if let Some(entry) = self.entry {
            state.true_entry_us = entry;
        }
    }
}

impl WakeMeasurement {
    /// Replaces exit latencies in a machine by measured ones, by state name. Kinds of CPUs share names of states, so several
    /// kinds leave the machine as before; a note says so.
    pub fn apply_to(&self, machine: &mut Machine) {
        let mut cpus = self.wakes.iter().map(|wake| wake.cpu);
        let first = cpus.next();
        if cpus.any(|cpu| Some(cpu) != first) {
            return;
        }
        for figures in self.figures_by_state() {
            let mut states = machine.idle_state.iter_mut();
            if let Some(state) = states.find(|state| state.name == figures.state) {
                figures.apply_to(state);
            }
        }
    }

    /// An `[[idle_state]]` table per measured state for a machine file.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let measured = self.figures_by_state();
        for figures in measured.iter().filter(|figures| figures.exit.is_some()) {
            let quoted = toml::Value::String(figures.state.to_owned());
            let _ = writeln!(
                text,
                "# CPU {}\n[[idle_state]]\nname = {quoted}",
                figures.cpu
            );
            for (key, figure) in figures.by_key() {
                let value = figure.to_toml_text().unwrap_or_default();
                let _ = writeln!(text, "{key} = {value}");
            }
            text.push('\n');
        }
        text
    }

    /// Rests of the drive as reads by the first measured CPU showed them, the shallowest first.
    pub fn drive_rests(&self) -> Vec<DriveRest> {
        let first = self.wakes.first().map(|wake| wake.cpu);
        let own = self
            .slower_reads
            .iter()
            .filter(|slower| Some(slower.cpu) == first);
        own.map(|slower| {
            let after = "pause from which on reads take longer, whatever the CPU does";
            let exit = format!(
                "median read by CPU {} after such pauses less one after the shortest, without what wake-ups by a task take longer",
                slower.cpu
            );
            DriveRest {
                after_ms: slower.after.figure_ms(slower.n, after, &self.conditions),
                exit_us: slower.growth.figure_us(slower.n, &exit, &self.conditions),
            }
        })
        .collect()
    }

    /// Figures of each measured state, in the order of the measurement. Exits are those of wake-ups by the drive where
    /// these were measured, because an I/O pays for these, else by a task.
    fn figures_by_state(&self) -> Vec<StateFigures<'_>> {
        let mut all: Vec<StateFigures<'_>> = Vec::new();
        for (wake, state) in self.wakes.iter().filter_map(WakeLatency::with_state_name) {
            let is_listed =
                |figures: &StateFigures<'_>| (figures.cpu, figures.state) == (wake.cpu, state);
            if !all.iter().any(is_listed) {
                all.push(self.figures_of_state(wake.cpu, state));
            }
        }
        all
    }

    fn figures_of_state<'a>(&'a self, cpu: usize, state: &'a str) -> StateFigures<'a> {
        let sound = [WakeSource::Drive, WakeSource::Task]
            .into_iter()
            .find_map(|source| {
                let mut wakes = self.wakes.iter();
                wakes.find(|wake| {
                    (wake.cpu, wake.state.as_deref(), wake.source) == (cpu, Some(state), source)
                        && wake.exit.is_some()
                        && wake.problem.is_none()
                })
            });
        StateFigures {
            cpu,
            state,
            exit: sound.and_then(|wake| self.exit_figure(wake)),
            deeper: sound.and_then(|wake| self.deeper_figures(wake)),
            entry: self.entry_figure(cpu, state),
        }
    }

    /// The exit latency of a state as a figure: before it is deeper, where it becomes so.
    fn exit_figure(&self, wake: &WakeLatency) -> Option<Figure> {
        let (exit, when) = match &wake.deeper {
            Some(deeper) => (
                deeper.exit_before,
                format!(", after pauses below {}", deeper.after),
            ),
            None => (wake.exit?, String::new()),
        };
        let what = format!("{}{when}", self.describe_exit(wake));
        let figure = exit.at_least_zero();
        Some(figure.figure_us(wake.sample_count(), &what, &self.conditions))
    }

    fn deeper_figures(&self, wake: &WakeLatency) -> Option<[Figure; 2]> {
        let deeper = wake.deeper.as_ref()?;
        let exit = format!(
            "{}, after pauses from {} on",
            self.describe_exit(wake),
            deeper.after
        );
        let after = format!(
            "pause from which on wake-ups from {} take longer, CPU {}",
            wake.state.as_deref().unwrap_or_default(),
            wake.cpu
        );
        let n = wake.sample_count();
        let before = deeper.exit_before.at_least_zero();
        Some([
            deeper
                .after_estimate()
                .figure_us(n, &after, &self.conditions),
            deeper
                .exit
                .at_least(before.ns)
                .figure_us(n, &exit, &self.conditions),
        ])
    }

    /// How an exit was measured.
    fn describe_exit(&self, wake: &WakeLatency) -> String {
        let reference = wake.relative_to.as_deref().unwrap_or_default();
        let held = self.held_khz.first();
        let clock = held.map_or_else(String::new, |khz| format!(" at {} MHz", khz / 1000));
        let what = match wake.source {
            WakeSource::Drive => "median read from the drive",
            WakeSource::Task => "median wake-up by a task",
            WakeSource::Timer => "median wake-up by a timer",
        };
        format!(
            "{what} less that from {reference}, CPU {}{clock}, {}",
            wake.cpu,
            wake.describe_verification()
        )
    }

    /// Cost of a state's entry as a figure.
    fn entry_figure(&self, cpu: usize, state: &str) -> Option<Figure> {
        let mut known = self.entries.iter();
        let entry = known
            .find(|cost| (cost.cpu, cost.state.as_str()) == (cpu, state))?
            .entry?;
        let what = format!(
            "end of the entry less its begin, by wake-ups within it, CPU {cpu}; a CPU so woken {}",
            entry.woken_within.describe()
        );
        Some(entry.cost.figure_us(entry.n, &what, &self.conditions))
    }
}

impl WakeLatency {
    fn with_state_name(&self) -> Option<(&Self, &str)> {
        Some((self, self.state.as_deref()?))
    }

    /// Number of samples that count, at least 1 for a figure.
    fn sample_count(&self) -> u64 {
        self.latency.as_ref().map_or(1, |latency| latency.n.max(1))
    }
}
