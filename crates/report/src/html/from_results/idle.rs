//! Idle states and frequencies by CPU kind.

use std::collections::BTreeMap;

use wakepath_results::rows::BUSY;
use wakepath_results::{MachineInfo, ResultsError};

use super::super::view::{Frequency, PageIdle, PageState, View};
use super::place::{PlacedResult, rows_with_known_cells};

/// Workload, CPU kind by the machine's order and by name, policy.
type Key = (usize, usize, String, usize);

#[derive(Clone, Copy)]
struct Sums {
    time: u64,
    entries: u64,
    too_deep: u64,
    too_shallow: u64,
    /// None once a row has no number.
    added: Option<u64>,
    wasted: Option<f64>,
}

impl Sums {
    const NOTHING: Self = Self {
        time: 0,
        entries: 0,
        too_deep: 0,
        too_shallow: 0,
        added: Some(0),
        wasted: Some(0.0),
    };
}

pub(super) fn add_idle(view: &mut View, places: &[PlacedResult<'_>]) -> Result<(), ResultsError> {
    for place in places {
        add_idle_states(view, place)?;
        add_frequencies(view, place)?;
    }
    Ok(())
}

/// The machine with a name in a place's rows.
fn find_machine<'a>(place: &PlacedResult<'a>, name: &str) -> Option<&'a MachineInfo> {
    let machines = &place.reader.document().machines;
    machines.iter().find(|m| m.name == name)
}

fn position_of_cpu_kind(machine: Option<&MachineInfo>, kind: &str) -> usize {
    let kinds = machine.map_or(&[][..], |m| &m.cpu_kinds);
    kinds
        .iter()
        .position(|k| k.name == kind)
        .unwrap_or(kinds.len())
}

/// Busy first, then the machine's states in order, then unknown states.
fn position_of_idle_state(machine: Option<&MachineInfo>, state: &str) -> usize {
    if state == BUSY {
        return 0;
    }
    let states = machine.map_or(&[][..], |m| &m.idle_states);
    let position = states.iter().position(|known| known == state);
    1 + position.unwrap_or(states.len())
}

fn add_idle_states(view: &mut View, place: &PlacedResult<'_>) -> Result<(), ResultsError> {
    let mut cpus_of: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    let mut all: BTreeMap<Key, BTreeMap<(usize, String), Sums>> = BTreeMap::new();
    let table = ("idle.parquet", "idle-state residency");
    let rows = rows_with_known_cells(view, place, table, place.reader.read_idle_rows(), |row| {
        [&row.machine, &row.workload, &row.policy]
    })?;
    for ((workload, policy), row) in rows {
        let machine = find_machine(place, &row.machine);
        let kind = position_of_cpu_kind(machine, &row.cpu_kind);
        let cpus = machine.and_then(|m| m.cpu_kinds.get(kind));
        cpus_of.insert((workload, kind), cpus.map_or(1, |k| k.cpus.max(1)));
        let key = (workload, kind, row.cpu_kind, policy);
        let sums = all
            .entry(key)
            .or_default()
            .entry((position_of_idle_state(machine, &row.state), row.state))
            .or_insert(Sums::NOTHING);
        sums.time = sums.time.saturating_add(row.time_ns);
        sums.entries = sums.entries.saturating_add(row.entries);
        sums.too_deep = sums.too_deep.saturating_add(row.too_deep);
        sums.too_shallow = sums.too_shallow.saturating_add(row.too_shallow);
        let added = sums.added.zip(row.added_latency_ns);
        sums.added = added.map(|(a, b)| a.saturating_add(b));
        sums.wasted = sums.wasted.zip(row.wasted_energy_uj).map(|(a, b)| a + b);
    }
    for ((workload, rank, cpu_kind, policy), states) in all {
        let times = states.values().map(|s| s.time);
        let time = times.fold(0, u64::saturating_add);
        if time == 0 {
            continue;
        }
        // Each CPU spends every second in some state.
        let cpus = cpus_of.get(&(workload, rank)).copied().unwrap_or(1);
        let seconds = time as f64 / 1e9 / f64::from(cpus);
        let states = states.into_iter().map(|((_, name), sums)| PageState {
            busy: name == BUSY,
            name,
            share: sums.time as f64 / time as f64,
            entries: sums.entries as f64 / seconds,
            too_deep: sums.too_deep as f64 / seconds,
            too_shallow: sums.too_shallow as f64 / seconds,
            added_us: sums.added.map_or(f64::NAN, |ns| ns as f64 / 1e3 / seconds),
            wasted_mw: sums.wasted.map_or(f64::NAN, |uj| uj / 1e3 / seconds),
        });
        view.workloads[workload].idle.push(PageIdle {
            cpu_kind,
            policy,
            states: states.collect(),
        });
    }
    Ok(())
}

fn add_frequencies(view: &mut View, place: &PlacedResult<'_>) -> Result<(), ResultsError> {
    let mut all: BTreeMap<Key, BTreeMap<u64, u64>> = BTreeMap::new();
    let table = ("frequency.parquet", "frequency histogram");
    let rows = rows_with_known_cells(
        view,
        place,
        table,
        place.reader.read_frequency_rows(),
        |row| [&row.machine, &row.workload, &row.policy],
    )?;
    for ((workload, policy), row) in rows {
        let kind = position_of_cpu_kind(find_machine(place, &row.machine), &row.cpu_kind);
        let key = (workload, kind, row.cpu_kind, policy);
        let time = all.entry(key).or_default().entry(row.khz).or_default();
        *time = time.saturating_add(row.time_ns);
    }
    for ((workload, _, cpu_kind, policy), times) in all {
        let time = times.values().copied().fold(0, u64::saturating_add);
        let shares = times
            .into_iter()
            .map(|(khz, ns)| (khz, ns as f64 / time.max(1) as f64));
        view.workloads[workload].frequency.push(Frequency {
            cpu_kind,
            policy,
            shares: shares.collect(),
        });
    }
    Ok(())
}
