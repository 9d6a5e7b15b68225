//! What is measured once around drive and wake-ups, and its figures in a machine.

mod path_figures;
mod power_figures;
mod rest_figures;

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_measure::background::BackgroundMeasurement;
use wakepath_measure::path::PathMeasurement;
use wakepath_measure::power::PowerMeasurement;

/// Measurements around drive and wake-ups.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Surroundings {
    /// What wakes CPUs at rest; absent after a failure.
    pub background: Option<BackgroundMeasurement>,
    /// The CPU's work for reads; absent after a failure.
    pub path: Option<PathMeasurement>,
    /// What the machine draws; absent where no counter tells.
    pub power: Option<PowerMeasurement>,
}

impl Surroundings {
    /// Puts figures into a machine whose work per request is fitted already. Notes name each figure as captured, with the reason.
    pub fn put_in_place(&self, machine: &mut Machine) -> Vec<String> {
        let mut notes = Vec::new();
        for (what, set) in PATH_FIGURES {
            if let Some(path) = &self.path {
                set_or_note(machine, what, |changed| set(changed, path), &mut notes);
            }
        }
        if let Some(rest) = &self.background {
            set_or_note(
                machine,
                "background",
                |changed| rest_figures::replace_background(changed, rest),
                &mut notes,
            );
        }
        for (what, set) in POWER_FIGURES {
            if let Some(power) = &self.power {
                set_or_note(machine, what, |changed| set(changed, power), &mut notes);
            }
        }
        notes
    }
}

/// Sets figures from a measurement; the error says why there are none.
type SetFigures<Measured> = fn(&mut Machine, &Measured) -> Result<(), String>;

/// Figures from the path of reads, with their names for notes.
const PATH_FIGURES: [(&str, SetFigures<PathMeasurement>); 5] = [
    ("scheduler.ipi_us", path_figures::set_ipi),
    ("scheduler.tick_kcycles", path_figures::set_tick),
    ("the shares of io_path", path_figures::set_shares),
    ("cluster.clock_stall_us", path_figures::set_clock_stall),
    ("stolen", path_figures::set_stolen_time),
];

/// Figures from power, with their names for notes.
const POWER_FIGURES: [(&str, SetFigures<PowerMeasurement>); 3] = [
    (
        "power of package and idle states",
        power_figures::set_power_at_rest,
    ),
    ("power of running CPUs", power_figures::set_active_power),
    ("platform.resting_mw", power_figures::set_power_of_machine),
];

/// Changes a machine, or leaves it with a note if there is no figure or no valid machine.
fn set_or_note(
    machine: &mut Machine,
    what: &str,
    set: impl FnOnce(&mut Machine) -> Result<(), String>,
    notes: &mut Vec<String>,
) {
    let mut changed = machine.clone();
    let outcome = set(&mut changed).and_then(|()| {
        let checked = changed.check();
        checked.map_err(|error| format!("as measured they make no valid machine: {error}"))
    });
    match outcome {
        Ok(()) => *machine = changed,
        Err(why) => notes.push(format!("{what}: as captured, since {why}")),
    }
}

#[cfg(test)]
mod tests {
    use wakepath_measure::Conditions;

    use super::*;

    pub(super) fn conditions() -> Conditions {
        Conditions {
            date: "2026-11-29".to_owned(),
            kernel: "6.12.48".to_owned(),
            busy_percent: None,
            stolen_percent: None,
        }
    }

    #[test]
    fn figures_that_make_no_valid_machine_are_left_out() {
        let mut machine = Machine::find("laptop").unwrap();
        let before = machine.to_toml().unwrap();
        let mut notes = Vec::new();
        set_or_note(
            &mut machine,
            "shares",
            |changed| {
                changed.io_path.submission_share.value = 0.9;
                Ok(())
            },
            &mut notes,
        );
        assert_eq!(machine.to_toml().unwrap(), before);
        assert!(
            notes[0].starts_with("shares: as captured, since as measured they make no"),
            "{notes:?}"
        );
    }
}
