//! Measured figures of a calibration in a newer description of the same machine.

use super::{DriveModel, DriveRest, Figure, Machine, Origin, StolenCpuTime};

impl Machine {
    /// Takes the measured and fitted figures of an earlier calibration, which describes settings that may have changed since,
    /// into a description of the machine as it is now. Figures whose keys are stale stay. Returns the keys of those taken.
    ///
    /// The drive's figures are taken where its controller is captured again; the controller's drive becomes the first.
    pub fn take_calibrated_figures(
        &mut self,
        calibrated: &Self,
        is_stale: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut transfer = FigureTransfer {
            is_stale,
            taken: Vec::new(),
        };
        for state in &mut self.idle_state {
            let mut earlier = calibrated.idle_state.iter();
            if let Some(found) = earlier.find(|found| found.name == state.name) {
                for (name, to, from) in [
                    ("true_exit_us", &mut state.true_exit_us, &found.true_exit_us),
                    (
                        "deeper_after_us",
                        &mut state.deeper_after_us,
                        &found.deeper_after_us,
                    ),
                    (
                        "deeper_exit_us",
                        &mut state.deeper_exit_us,
                        &found.deeper_exit_us,
                    ),
                ] {
                    transfer.take(format!("idle_state.{}.{name}", state.name), to, from);
                }
            }
        }
        let (path, earlier) = (&mut self.io_path, &calibrated.io_path);
        for (name, to, from) in [
            (
                "kcycles_per_io",
                &mut path.kcycles_per_io,
                &earlier.kcycles_per_io,
            ),
            (
                "program_kcycles",
                &mut path.program_kcycles,
                &earlier.program_kcycles,
            ),
            (
                "asynchronous_kcycles",
                &mut path.asynchronous_kcycles,
                &earlier.asynchronous_kcycles,
            ),
            (
                "submission_share",
                &mut path.submission_share,
                &earlier.submission_share,
            ),
            (
                "deactivation_share",
                &mut path.deactivation_share,
                &earlier.deactivation_share,
            ),
            (
                "doorbell_share",
                &mut path.doorbell_share,
                &earlier.doorbell_share,
            ),
            (
                "interrupt_share",
                &mut path.interrupt_share,
                &earlier.interrupt_share,
            ),
            (
                "reactivation_share",
                &mut path.reactivation_share,
                &earlier.reactivation_share,
            ),
            (
                "resume_share",
                &mut path.resume_share,
                &earlier.resume_share,
            ),
            (
                "switch_share",
                &mut path.switch_share,
                &earlier.switch_share,
            ),
            (
                "completion.when_empty",
                &mut path.completion.when_empty,
                &earlier.completion.when_empty,
            ),
        ] {
            transfer.take(format!("io_path.{name}"), to, from);
        }
        transfer.take_stolen_time(&mut self.stolen, calibrated.stolen.as_ref());
        if self.make_drive_of_controller_first(calibrated.drive.device.as_deref()) {
            take_drive_figures(&mut self.drive, &calibrated.drive, &mut transfer);
        }
        transfer.taken
    }
}

/// Figures on their way from a calibration into a newer description of the machine.
struct FigureTransfer<S> {
    /// Whether a figure, by its key, is from another state of the machine.
    is_stale: S,
    /// Keys of figures that were taken.
    taken: Vec<String>,
}

impl<S: Fn(&str) -> bool> FigureTransfer<S> {
    /// Replaces a figure by the calibration's, if that one was found on the machine and is not stale.
    fn take(&mut self, key: String, to: &mut Figure, from: &Figure) {
        // Models of drives have figures that were fitted to publications, and those are the same in both machines.
        let is_found = match from.origin {
            Origin::Measured(_) => true,
            Origin::Fitted(_) => key.starts_with("io_path.") || to != from,
            _ => false,
        };
        if is_found && !(self.is_stale)(&key) {
            to.clone_from(from);
            self.taken.push(key);
        }
    }

    /// Replaces deeper rests by the calibration's, all or none.
    fn take_deeper_rests(&mut self, to: &mut Vec<DriveRest>, from: &[DriveRest]) {
        let keys = (0..from.len()).flat_map(|index| {
            ["after_ms", "exit_us"].map(|name| format!("drive.deeper_rest.{index}.{name}"))
        });
        let keys: Vec<String> = keys.collect();
        if !keys.is_empty() && !keys.iter().any(|key| (self.is_stale)(key)) {
            *to = from.to_vec();
            self.taken.extend(keys);
        }
    }

    /// Takes over how often and how long a host keeps CPUs waiting, if the calibration has measured that.
    fn take_stolen_time(&mut self, to: &mut Option<StolenCpuTime>, from: Option<&StolenCpuTime>) {
        let keys = ["stolen.per_s", "stolen.mean_us"];
        if from.is_some() && !keys.iter().any(|key| (self.is_stale)(key)) {
            *to = from.cloned();
            self.taken.extend(keys.map(str::to_owned));
        }
    }
}

fn take_drive_figures<S: Fn(&str) -> bool>(
    to: &mut DriveModel,
    from: &DriveModel,
    transfer: &mut FigureTransfer<S>,
) {
    // The measured figures are only read; a copy lends them in the same order.
    let mut earlier = from.clone();
    let pairs = to.speed_figures_mut().into_iter();
    for ((name, own), (_, measured)) in pairs.zip(earlier.speed_figures_mut()) {
        transfer.take(format!("drive.{name}"), own, measured);
    }
    to.drop_tails_that_do_not_fit();
    transfer.take_deeper_rests(&mut to.deeper_rests, &from.deeper_rests);
    let (Some(own), Some(measured)) = (&mut to.power, &from.power) else {
        return;
    };
    transfer.take(
        "drive.rest_after_ms".to_owned(),
        &mut own.rest_after_ms,
        &measured.rest_after_ms,
    );
    transfer.take(
        "drive.rest_exit_us".to_owned(),
        &mut own.rest_exit_us,
        &measured.rest_exit_us,
    );
    let states = own.states.iter_mut().zip(&measured.states);
    for (index, (state, earlier)) in states.enumerate() {
        transfer.take(
            format!("drive.PS{index}.true_exit_us"),
            &mut state.exit_us,
            &earlier.exit_us,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::Measurement;
    use super::*;

    fn measured(value: f64) -> Figure {
        let measurement = Measurement {
            n: 100,
            low: Some(value),
            high: Some(value),
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
            what: "test".to_owned(),
        };
        Figure::measured_here(value, measurement)
    }

    /// A laptop with a drive that sleeps.
    fn laptop() -> Machine {
        let mut machine = Machine::find("laptop").unwrap();
        machine.drive = DriveModel::find("sn530").unwrap();
        machine
    }

    /// The laptop with a measured drive `nvme1`, a measured deepest state and a measured sleep.
    fn calibrated() -> Machine {
        let mut machine = laptop();
        machine.drive.device = Some("nvme1".to_owned());
        machine.drive.read_service_us = measured(33.0);
        let power = machine.drive.power.as_mut().unwrap();
        power.states.last_mut().unwrap().exit_us = measured(4321.0);
        machine.idle_state.last_mut().unwrap().true_exit_us = measured(77.0);
        let fit = |value: f64| Figure {
            value,
            origin: Origin::Fitted("test".to_owned()),
        };
        machine.io_path.kcycles_per_io = fit(21.0);
        machine.io_path.completion.when_empty = fit(1.0);
        machine
            .drive
            .set_rests([[0.0, 14.0], [2.0, 50.0]].map(|[after, exit]| DriveRest {
                after_ms: fit(after),
                exit_us: fit(exit),
            }));
        machine.stolen = Some(StolenCpuTime {
            per_s: measured(40.0),
            mean_us: measured(100.0),
            source: "test".to_owned(),
        });
        machine
    }

    /// The laptop as captured, whose first drive is another one.
    fn captured() -> Machine {
        let mut machine = laptop();
        let mut other = machine.drive.clone();
        machine.drive.device = Some("nvme0".to_owned());
        other.device = Some("nvme1".to_owned());
        machine.other_drives = vec![other];
        machine.idle_state.last_mut().unwrap().disabled = true;
        machine
    }

    #[test]
    fn measured_figures_are_taken_and_settings_stay() {
        let (calibrated, mut machine) = (calibrated(), captured());
        let deepest = machine.idle_state.last().unwrap().name.clone();
        let taken = machine.take_calibrated_figures(&calibrated, |_| false);
        let sleep = format!(
            "drive.PS{}.true_exit_us",
            calibrated.drive.power.as_ref().unwrap().states.len() - 1
        );
        for key in [
            &format!("idle_state.{deepest}.true_exit_us"),
            "io_path.kcycles_per_io",
            "io_path.completion.when_empty",
            "drive.read_service_us",
            "drive.rest_exit_us",
            "drive.deeper_rest.0.exit_us",
            "stolen.mean_us",
            &sleep,
        ] {
            assert!(taken.iter().any(|taken| taken == key), "{key}: {taken:?}");
        }
        // Each key is one that the machine's own list of figures has.
        let all: Vec<String> = machine.figures().into_iter().map(|f| f.key).collect();
        for key in &taken {
            assert!(all.contains(key), "{key}: {all:?}");
        }
        let state = machine.idle_state.last().unwrap();
        assert!(state.disabled && state.true_exit_us == measured(77.0));
        assert_eq!(machine.drive.device.as_deref(), Some("nvme1"));
        assert_eq!(machine.other_drives[0].device.as_deref(), Some("nvme0"));
        machine.check().unwrap();
    }

    #[test]
    fn stale_figures_and_those_of_a_drive_that_has_gone_are_left() {
        let (calibrated, mut machine) = (calibrated(), captured());
        machine.other_drives.clear();
        let before = machine.clone();
        let taken =
            machine.take_calibrated_figures(&calibrated, |key| key.starts_with("idle_state."));
        assert!(
            taken.contains(&"io_path.kcycles_per_io".to_owned()),
            "{taken:?}"
        );
        assert_eq!(machine.drive.read_service_us, before.drive.read_service_us);
        assert_eq!(
            machine.idle_state.last().unwrap().true_exit_us,
            before.idle_state.last().unwrap().true_exit_us
        );
    }
}
