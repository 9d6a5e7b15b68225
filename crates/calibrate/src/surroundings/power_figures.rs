//! Power from the processor's counters, for each idle state and for running CPUs.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, MachineIdleState, Origin, Platform, PowerScope, Scope};
use wakepath_measure::power::{CombinedPower, PowerCondition, PowerMeasurement};
use wakepath_units::Kilohertz;

use crate::figures::measured_figure;

/// Power of the packages with one idle state allowed, shallowest state first.
fn read_states<'a>(
    machine: &'a Machine,
    power: &PowerMeasurement,
) -> Vec<(&'a MachineIdleState, CombinedPower)> {
    let states = machine.idle_state.iter().filter(|state| !state.polling);
    states
        .filter_map(|state| {
            let condition = PowerCondition::State(state.name.clone());
            Some((state, power.package_power(&condition)?))
        })
        .collect()
}

/// Sets the package's power and that of idle states.
///
/// With all CPUs in the deepest state the packages draw `idle_mw` and the CPUs' own power. With any shallower state the package is
/// awake as well, and no counter tells its power from the CPUs'. So the second deepest state keeps its assumed power, and the rest
/// is the package's. Among shallower states the package drops out, and differences are the states'.
pub(super) fn set_power_at_rest(
    machine: &mut Machine,
    power: &PowerMeasurement,
) -> Result<(), String> {
    let cpus = machine.cpus() as f64;
    let captured = machine.clone();
    let states = read_states(&captured, power);
    let Some(((deepest, resting), shallower)) = states.split_last() else {
        return Err("no package was read with one idle state allowed".to_owned());
    };
    if captured.idle_state.last().map(|state| &state.name) != Some(&deepest.name) {
        return Err("no package was read in the deepest state".to_owned());
    }
    if captured
        .idle_state
        .iter()
        .any(|state| state.scope == Scope::Cluster)
    {
        return Err("some states are of whole clusters, whose power is not told apart".to_owned());
    }
    let package = machine
        .package
        .as_mut()
        .ok_or("the machine has no [package]")?;
    let own = deepest.power_mw.value * cpus;
    if resting.power.mw < own {
        return Err(format!(
            "the packages draw {:.0} mW with all CPUs in {}, which is less than the {own:.0} mW of the CPUs as captured",
            resting.power.mw, deepest.name
        ));
    }
    let [value, low, high] =
        [resting.power.mw, resting.power.low, resting.power.high].map(|mw| (mw - own).max(0.0));
    package.scope = PowerScope::Package;
    package.idle_mw = measured_figure(
        value,
        Some([low, high]),
        resting.n as u64,
        format!(
            "{} with all CPUs in {}, less {own:.0} mW of the CPUs",
            resting.sources.join(" + "),
            deepest.name
        ),
        (&power.conditions, 1),
    );
    let Some((second, awake)) = shallower.last() else {
        return Ok(());
    };
    let uncore = lowest_uncore_mw(&captured);
    let of_cpus = (second.power_mw.value - deepest.power_mw.value).max(0.0) * cpus;
    let active = (awake.power.mw - resting.power.mw - of_cpus - uncore).max(0.0);
    package.active_mw = Figure {
        value: active.round(),
        origin: Origin::Fitted(format!(
            "{:.0} mW with all CPUs in {} less {:.0} mW in {}, {of_cpus:.0} mW of the CPUs and {uncore:.0} mW of the uncore",
            awake.power.mw, second.name, resting.power.mw, deepest.name
        )),
    };
    for (state, found) in &shallower[..shallower.len() - 1] {
        let [each, low, high] = [found.power.mw, found.power.low, found.power.high]
            .map(|mw| (second.power_mw.value + (mw - awake.power.mw) / cpus).max(0.0));
        let figure = measured_figure(
            each,
            Some([low, high]),
            found.n as u64,
            format!(
                "what each of {cpus} CPUs draws more in {} than in {}, whose {} mW are as captured",
                state.name, second.name, second.power_mw.value
            ),
            (&power.conditions, 1),
        );
        let mut all = machine.idle_state.iter_mut();
        if let Some(own) = all.find(|other| other.name == state.name) {
            if own.transition_mw.is_given() && own.transition_mw.value < figure.value {
                own.transition_mw =
                    Figure::assumed(figure.value, "at least the measured power of the state");
            }
            own.power_mw = figure;
        }
    }
    Ok(())
}

/// Power of all uncores at their lowest clock, in mW.
fn lowest_uncore_mw(machine: &Machine) -> f64 {
    uncore_mw(machine, Kilohertz(0))
}

/// Power of all uncores beside CPUs at a clock, in mW: each cluster has one.
fn uncore_mw(machine: &Machine, fastest: Kilohertz) -> f64 {
    machine.uncore.as_ref().map_or(0.0, |uncore| {
        let clock = uncore.clock_within_limits(fastest);
        uncore.cluster_power_at_clock(clock).0 as f64 / 1e3 * machine.cluster.len() as f64
    })
}

/// Fits switching and constant power of running CPUs to all of them busy at several clocks, with the voltages as captured.
pub(super) fn set_active_power(
    machine: &mut Machine,
    power: &PowerMeasurement,
) -> Result<(), String> {
    let package = machine
        .package
        .as_ref()
        .filter(|package| matches!(package.idle_mw.origin, Origin::Measured(_)))
        .ok_or("the packages' own power was not measured")?;
    let constant = package.idle_mw.value + package.active_mw.value;
    let mut clusters = machine.cluster.iter();
    let first = clusters.next().ok_or("the machine has no CPUs")?;
    if clusters.any(|other| other.core != first.core) {
        return Err("cores of several kinds share the packages' power".to_owned());
    }
    let cpus = machine.cpus() as f64;
    // Clock times squared voltage, in MHz V^2, and each CPU's power in mW.
    let mut points: Vec<[f64; 2]> = Vec::new();
    // With all cores active the hardware holds no higher clock, whatever the limits allow.
    let highest_khz = first.turbo.last().map_or(u32::MAX, |limit| limit.khz);
    for opp in first.opps.iter().filter(|opp| opp.khz <= highest_khz) {
        let condition = PowerCondition::BusyAt(u64::from(opp.khz));
        let (Some(found), Some(volts)) = (power.package_power(&condition), first.volts_at(opp))
        else {
            continue;
        };
        let besides = constant + uncore_mw(machine, Kilohertz(opp.khz));
        points.push([
            f64::from(opp.khz) / 1e3 * volts * volts,
            (found.power.mw - besides) / cpus,
        ]);
    }
    let (slope, at_zero) = fit_line(&points)
        .ok_or("fewer than two clocks with a known voltage were held while all CPUs were busy")?;
    if slope <= 0.0 || at_zero < 0.0 {
        return Err(format!(
            "a line through {} clocks gives {:.0} uW/(MHz V^2) and {at_zero:.0} mW, which no CPU draws",
            points.len(),
            slope * 1e3
        ));
    }
    let origin = Origin::Fitted(format!(
        "package power with all {cpus} CPUs busy at {} clocks, with the voltages as captured",
        points.len()
    ));
    let [switching, constant_mw] = [slope * 1e3, at_zero].map(|value| Figure {
        value: (value * 10.0).round() / 10.0,
        origin: origin.clone(),
    });
    for cluster in &mut machine.cluster {
        cluster.dynamic_power_uw_per_mhz_v2 = switching.clone();
        cluster.static_mw = constant_mw.clone();
    }
    Ok(())
}

/// Slope and value at 0 of the line with the least squares; `None` below two different places.
fn fit_line(points: &[[f64; 2]]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let mean = |axis: usize| points.iter().map(|point| point[axis]).sum::<f64>() / n;
    let (x, y) = (mean(0), mean(1));
    let spread: f64 = points.iter().map(|point| (point[0] - x).powi(2)).sum();
    let both: f64 = points
        .iter()
        .map(|point| (point[0] - x) * (point[1] - y))
        .sum();
    (spread > 0.0).then(|| (both / spread, y - both / spread * x))
}

/// Sets the power of the whole machine with all CPUs in their deepest state, or at rest as it is.
pub(super) fn set_power_of_machine(
    machine: &mut Machine,
    power: &PowerMeasurement,
) -> Result<(), String> {
    let deepest = machine.idle_state.last();
    let states = deepest.map(|state| PowerCondition::State(state.name.clone()));
    let (condition, found) = states
        .into_iter()
        .chain([PowerCondition::Rest])
        .find_map(|condition| Some((condition.clone(), power.machine_power(&condition)?)))
        .ok_or("neither a platform's counter nor a discharging battery tells it")?;
    let figure = measured_figure(
        found.power.mw,
        Some([found.power.low, found.power.high]),
        found.n as u64,
        format!("{}, {}", found.sources.join(" + "), condition.describe()),
        (&power.conditions, 0),
    );
    machine.platform = Some(Platform {
        counts: found.sources.join(" + "),
        resting_mw: figure,
        lowest_mw: Figure::default(),
        highest_mw: Figure::default(),
        first_core_mw: Figure::default(),
        source: "wakepath measure power".to_owned(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use wakepath_measure::power::{PowerEstimate, PowerFigure, PowerSource};

    use super::super::Surroundings;
    use super::super::tests::conditions;
    use super::*;

    /// What a machine draws by its own model: all CPUs in a state, or busy at a clock.
    fn draw(machine: &Machine, condition: &PowerCondition) -> f64 {
        let package = machine.package.as_ref().unwrap();
        let cpus = machine.cpus() as f64;
        let awake = package.idle_mw.value + package.active_mw.value;
        match condition {
            PowerCondition::State(name) => {
                let state = machine.idle_state.iter().find(|s| s.name == *name).unwrap();
                let own = state.power_mw.value * cpus;
                if machine.idle_state.last().unwrap().name == *name {
                    package.idle_mw.value + own
                } else {
                    awake + own + lowest_uncore_mw(machine)
                }
            }
            PowerCondition::BusyAt(khz) => {
                let cluster = &machine.cluster[0];
                let opp = cluster
                    .opps
                    .iter()
                    .find(|opp| u64::from(opp.khz) == *khz)
                    .unwrap();
                let each = cluster.cpu_active_power(opp).0 as f64 / 1e3;
                awake + each * cpus + uncore_mw(machine, Kilohertz(opp.khz))
            }
            _ => 7_000.0,
        }
    }

    /// The measurement that a machine with these powers gives.
    fn measure(machine: &Machine) -> PowerMeasurement {
        let states = machine.idle_state.iter().filter(|state| !state.polling);
        let mut all: Vec<PowerCondition> = states
            .map(|state| PowerCondition::State(state.name.clone()))
            .collect();
        let opps = &machine.cluster[0].opps;
        let ends = [opps.first().unwrap().khz, opps.last().unwrap().khz];
        all.extend(ends.map(|khz| PowerCondition::BusyAt(u64::from(khz))));
        let figures = all.iter().map(|condition| PowerFigure {
            source: "package-0".to_owned(),
            source_index: 0,
            condition: condition.clone(),
            n: 6,
            power: PowerEstimate {
                mw: draw(machine, condition),
                low: draw(machine, condition) - 40.0,
                high: draw(machine, condition) + 40.0,
            },
            above_rest: None,
            each_cpu_above_deepest: None,
        });
        PowerMeasurement {
            conditions: conditions(),
            sources: vec![PowerSource::energy_counter("package-0", "none", 0)],
            figures: figures.collect(),
            complete: true,
            notes: Vec::new(),
        }
    }

    fn put(machine: &mut Machine, power: PowerMeasurement) -> Vec<String> {
        let surroundings = Surroundings {
            power: Some(power),
            ..Surroundings::default()
        };
        surroundings.put_in_place(machine)
    }

    #[test]
    fn measured_powers_of_another_machine_replace_the_assumed_ones() {
        let mut real = Machine::find("laptop").unwrap();
        let package = real.package.as_mut().unwrap();
        package.idle_mw.value = 910.0;
        package.active_mw.value = 2_300.0;
        real.cluster[0].static_mw.value *= 1.4;
        real.cluster[0].dynamic_power_uw_per_mhz_v2.value *= 1.25;
        // The second deepest state and the deepest keep their assumed power.
        let known = real.idle_state.len() - 2;
        for state in &mut real.idle_state[1..known] {
            state.power_mw.value *= 1.5;
        }
        let mut machine = Machine::find("laptop").unwrap();
        let notes = put(&mut machine, measure(&real));
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("platform.resting_mw"), "{notes:?}");
        for condition in measure(&real).figures.iter().map(|f| &f.condition) {
            let [is, should] = [&machine, &real].map(|machine| draw(machine, condition));
            assert!(
                (is / should - 1.0).abs() < 0.005,
                "{condition:?}: {is} {should}"
            );
        }
        let state = &machine.idle_state[1].power_mw;
        let Origin::Measured(from) = &state.origin else {
            panic!("{state:?}")
        };
        assert_eq!(from.n, 6);
        let (low, high) = from.interval().unwrap();
        assert!(low < state.value && state.value < high, "{state:?}");
        Machine::parse(&machine.to_toml().unwrap(), "again").unwrap();
    }

    #[test]
    fn without_counters_power_stays_assumed_and_notes_say_so() {
        let mut machine = Machine::find("laptop").unwrap();
        let before = machine.to_toml().unwrap();
        let mut sensor = measure(&machine);
        sensor.sources.clear();
        let notes = put(&mut machine, sensor);
        assert_eq!(machine.to_toml().unwrap(), before);
        assert_eq!(notes.len(), 3, "{notes:?}");
        let first = "power of package and idle states: as captured, since no package was read";
        assert!(notes[0].starts_with(first), "{notes:?}");
    }

    #[test]
    fn the_platforms_counter_tells_the_power_of_the_whole_machine() {
        let mut machine = Machine::find("laptop").unwrap();
        let mut power = measure(&machine);
        power.sources[0] = PowerSource::energy_counter("psys", "none", 0);
        put(&mut machine, power);
        let platform = machine.platform.unwrap();
        assert!((platform.resting_mw.value - 500.0).abs() < 500.0);
        assert!(matches!(platform.resting_mw.origin, Origin::Measured(_)));
        assert_eq!(platform.counts, "package-0");
    }
}
