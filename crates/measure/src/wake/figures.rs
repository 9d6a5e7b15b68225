//! What was measured of wake-ups, as figures of a machine file.

use std::fmt::Write as _;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{ClusterIdleState, DriveRest, Figure};

use super::{COARSE, WakeLatency, WakeMeasurement, WakeSource};

/// Source of a cluster's table that a measurement begins. The table's figures have origins of their own.
const SOURCE: &str = "wakepath measure wake";

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
    /// Whether any figure was measured.
    const fn is_known(&self) -> bool {
        self.exit.is_some() || self.entry.is_some()
    }

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

    /// Replaces an idle state's figures by the measured ones. A measured exit that does not grow in long pauses takes away
    /// figures of growth.
    fn replace(&self, figures: [(&'static str, &mut Figure); 4]) {
        let measures_exit = self.exit.is_some();
        for (key, figure) in figures {
            let mut measured = self.by_key();
            if let Some((_, own)) = measured.find(|(known, _)| *known == key) {
                figure.clone_from(own);
            } else if measures_exit && key.starts_with("deeper_") {
                *figure = Figure::default();
            }
        }
    }
}

impl WakeMeasurement {
    /// Replaces exit latencies and entries in a machine by measured ones, by state name. Where kinds of CPUs differ, they go
    /// into the tables of each kind's clusters. Returns a note for each cluster whose kind is not known.
    pub fn apply_to(&self, machine: &mut Machine) -> Vec<String> {
        if self.kinds().len() > 1 {
            return self.apply_to_clusters(machine);
        }
        for figures in self.figures_by_state() {
            let mut states = machine.idle_state.iter_mut();
            if let Some(state) = states.find(|state| state.name == figures.state) {
                figures.replace(state.wake_figures_mut());
            }
        }
        Vec::new()
    }

    /// Measured CPUs, each with the CPUs alike, in the order of the measurement.
    fn kinds(&self) -> Vec<(usize, &[usize])> {
        let mut kinds: Vec<(usize, &[usize])> = Vec::new();
        for wake in &self.wakes {
            if !kinds.iter().any(|(cpu, _)| *cpu == wake.cpu) {
                kinds.push((wake.cpu, &wake.cpus_alike));
            }
        }
        kinds
    }

    /// Puts figures of each kind of CPU into the tables of its clusters.
    fn apply_to_clusters(&self, machine: &mut Machine) -> Vec<String> {
        let kinds = self.kinds();
        let mut online: Vec<usize> = kinds
            .iter()
            .flat_map(|(_, alike)| *alike)
            .copied()
            .collect();
        online.sort_unstable();
        let cpus = machine.cpus();
        if online.len() != cpus {
            return vec![format!(
                "idle states stay as captured: wake-ups were measured of {} CPUs, and the machine has {cpus}",
                online.len()
            )];
        }
        let mut notes = Vec::new();
        let mut first = 0;
        for index in 0..machine.cluster.len() {
            let end = first + machine.cluster[index].cpus;
            let own = &online[first..end];
            first = end;
            let kind = kinds
                .iter()
                .find(|(_, alike)| own.iter().all(|cpu| alike.contains(cpu)));
            match kind {
                Some((measured, _)) => self.apply_to_cluster(machine, index, *measured),
                None => notes.push(format!(
                    "idle states of cluster {} stay as captured: its CPUs are of several kinds",
                    machine.cluster[index].name
                )),
            }
        }
        notes
    }

    /// Puts figures of a measured CPU into a cluster's tables, and leaves out states that the machine does not have.
    fn apply_to_cluster(&self, machine: &mut Machine, index: usize, cpu: usize) {
        let all = self.figures_by_state().into_iter();
        for figures in all.filter(|figures| figures.cpu == cpu && figures.is_known()) {
            let mut states = machine.idle_state.iter_mut();
            let Some(common) = states.find(|state| state.name == figures.state) else {
                continue;
            };
            if figures.exit.is_some() {
                // Growth that holds for all kinds would lengthen exits of kinds that show none.
                common.deeper_after_us = Figure::default();
                common.deeper_exit_us = Figure::default();
            }
            let tables = &mut machine.cluster[index].idle_state;
            let known = tables.iter().position(|own| own.name == figures.state);
            let at = known.unwrap_or_else(|| {
                tables.push(ClusterIdleState::without_overrides(figures.state, SOURCE));
                tables.len() - 1
            });
            figures.replace(tables[at].wake_figures_mut());
        }
    }

    /// An `[[idle_state]]` table per measured state for a machine file; `[[cluster.idle_state]]` where kinds of CPUs differ.
    /// Where the governor picked the states, only comments.
    pub fn to_toml(&self) -> String {
        if !self.forced {
            return self.describe_coarse_latencies();
        }
        let mut text = String::new();
        let (table, source) = if self.kinds().len() > 1 {
            let source = toml::Value::String(SOURCE.to_owned());
            ("cluster.idle_state", format!("source = {source}\n"))
        } else {
            ("idle_state", String::new())
        };
        let measured = self.figures_by_state();
        for figures in measured.iter().filter(|figures| figures.exit.is_some()) {
            let quoted = toml::Value::String(figures.state.to_owned());
            let _ = writeln!(text, "# CPU {}\n[[{table}]]\nname = {quoted}", figures.cpu);
            for (key, figure) in figures.by_key() {
                let value = figure.to_toml_text().unwrap_or_default();
                let _ = writeln!(text, "{key} = {value}");
            }
            text.push_str(&source);
            text.push('\n');
        }
        text
    }

    /// Latencies that belong to no state, as comments of a machine file.
    fn describe_coarse_latencies(&self) -> String {
        let mut text = format!("# {COARSE}\n");
        for wake in &self.wakes {
            if let Some(latency) = &wake.latency {
                let _ = writeln!(
                    text,
                    "# CPU {} woken by {} from any state: {:.1} us, the median of {}",
                    wake.cpu,
                    wake.source.name(),
                    latency.median.ns / 1e3,
                    latency.n
                );
            }
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
