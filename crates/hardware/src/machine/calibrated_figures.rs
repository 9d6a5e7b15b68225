//! Measured figures of a calibration in a newer description of the same machine.

use super::{
    Cluster, ClusterIdleState, DriveModel, DriveRest, Figure, Machine, Origin, StolenCpuTime,
};

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
        let serves_queue = calibrated
            .io_path
            .completion
            .when_empty
            .fitted_to()
            .is_some();
        let is_queue_stale = serves_queue && KEYS_OF_SERVED_QUEUE.iter().any(|key| is_stale(key));
        let mut transfer = FigureTransfer {
            is_stale,
            fits_drive: serves_queue,
            taken: Vec::new(),
        };
        for state in &mut self.idle_state {
            let mut earlier = calibrated.idle_state.iter().cloned();
            if let Some(mut found) = earlier.find(|found| found.name == state.name) {
                let table = format!("idle_state.{}", state.name);
                transfer.take_wake_figures(
                    &table,
                    state.wake_figures_mut(),
                    found.wake_figures_mut(),
                );
            }
        }
        for cluster in &mut self.cluster {
            let mut earlier = calibrated.cluster.iter();
            if let Some(found) = earlier.find(|found| found.is_same_cluster(cluster)) {
                transfer.take_wake_figures_of_cluster(cluster, found);
            }
        }
        transfer.take_stolen_time(&mut self.stolen, calibrated.stolen.as_ref());
        let has_drive = self.make_drive_of_controller_first(calibrated.drive.device.as_deref());
        if is_queue_stale || serves_queue && !has_drive {
            return transfer.taken;
        }
        // The calibration's figures are only read; a copy lends them in the same order.
        let mut earlier = calibrated.io_path.clone();
        let pairs = self.io_path.calibrated_figures_mut().into_iter();
        for ((name, own), (_, measured)) in pairs.zip(earlier.calibrated_figures_mut()) {
            transfer.take(format!("io_path.{name}"), own, measured);
        }
        if has_drive {
            take_drive_figures(&mut self.drive, &calibrated.drive, &mut transfer);
        }
        transfer.taken
    }
}

impl Cluster {
    /// Whether both are the same cluster of one machine, whatever their figures.
    fn is_same_cluster(&self, other: &Self) -> bool {
        (&self.name, &self.core, self.cpus) == (&other.name, &other.core, other.cpus)
    }
}

/// Keys by which the figures of a queue that a host serves until it is empty are known to be stale: they are fitted together.
const KEYS_OF_SERVED_QUEUE: [&str; 2] = ["io_path.completion.when_empty", "drive.read_service_us"];

/// Figures on their way from a calibration into a newer description of the machine.
struct FigureTransfer<S> {
    /// Whether a figure, by its key, is from another state of the machine.
    is_stale: S,
    /// Whether the calibration fitted the drive's figures, too.
    fits_drive: bool,
    /// Keys of figures that were taken.
    taken: Vec<String>,
}

impl<S: Fn(&str) -> bool> FigureTransfer<S> {
    /// Whether a figure was found on the machine. Models of drives have figures that were fitted to publications.
    fn is_found(&self, key: &str, figure: &Figure) -> bool {
        match figure.origin {
            Origin::Measured(_) => true,
            Origin::Fitted(_) => self.fits_drive || key.starts_with("io_path."),
            _ => false,
        }
    }

    /// Replaces a figure by the calibration's, if that one was found on the machine and is not stale.
    fn take(&mut self, key: String, to: &mut Figure, from: &Figure) {
        if self.is_found(&key, from) && !(self.is_stale)(&key) {
            to.clone_from(from);
            self.taken.push(key);
        }
    }

    /// Replaces figures of an idle state's wake-ups by the calibration's; `table`: name of the state's table.
    fn take_wake_figures(
        &mut self,
        table: &str,
        to: [(&'static str, &mut Figure); 4],
        from: [(&'static str, &mut Figure); 4],
    ) {
        for ((name, to), (_, from)) in to.into_iter().zip(from) {
            self.take(format!("{table}.{name}"), to, from);
        }
    }

    /// Replaces figures of wake-ups on a kind of core by the calibration's. States that the cluster had no table for get one.
    fn take_wake_figures_of_cluster(&mut self, cluster: &mut Cluster, calibrated: &Cluster) {
        for mut found in calibrated.idle_state.iter().cloned() {
            let table = format!("cluster.{}.idle_state.{}", cluster.name, found.name);
            let mut own = cluster.idle_state.iter_mut();
            if let Some(state) = own.find(|state| state.name == found.name) {
                self.take_wake_figures(&table, state.wake_figures_mut(), found.wake_figures_mut());
                continue;
            }
            let mut added = ClusterIdleState::without_overrides(&found.name, &found.source);
            let taken_before = self.taken.len();
            self.take_wake_figures(&table, added.wake_figures_mut(), found.wake_figures_mut());
            if self.taken.len() > taken_before {
                cluster.idle_state.push(added);
            }
        }
    }

    /// Replaces a drive's rests by the calibration's, all or none.
    fn take_rests(&mut self, to: &mut DriveModel, from: &DriveModel) {
        let keys_of_deeper = (0..from.deeper_rests.len()).map(|index| {
            ["after_ms", "exit_us"].map(|name| format!("drive.deeper_rest.{index}.{name}"))
        });
        let keys_of_first = ["rest_after_ms", "rest_exit_us"].map(|name| format!("drive.{name}"));
        let rests: Vec<(DriveRest, [String; 2])> = from
            .rests()
            .map(|[after_ms, exit_us]| DriveRest {
                after_ms: after_ms.clone(),
                exit_us: exit_us.clone(),
            })
            .zip(std::iter::once(keys_of_first).chain(keys_of_deeper))
            .collect();
        let are_fresh = rests.iter().all(|(rest, keys)| {
            self.is_found(&keys[0], &rest.after_ms)
                && self.is_found(&keys[1], &rest.exit_us)
                && !keys.iter().any(|key| (self.is_stale)(key))
        });
        if are_fresh {
            let (new, keys): (Vec<DriveRest>, Vec<[String; 2]>) = rests.into_iter().unzip();
            to.set_rests(new);
            self.taken.extend(keys.into_iter().flatten());
        }
    }

    /// Takes over how often and how long a host keeps CPUs waiting, if the calibration has measured that.
    fn take_stolen_time(&mut self, to: &mut Option<StolenCpuTime>, from: Option<&StolenCpuTime>) {
        let Some(from) = from else { return };
        let figures = [
            ("stolen.per_s", &from.per_s),
            ("stolen.mean_us", &from.mean_us),
        ];
        if figures
            .iter()
            .all(|(key, figure)| self.is_found(key, figure) && !(self.is_stale)(key))
        {
            *to = Some(from.clone());
            self.taken.extend(figures.map(|(key, _)| key.to_owned()));
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
        if !name.starts_with("rest_") {
            transfer.take(format!("drive.{name}"), own, measured);
        }
    }
    to.drop_tails_that_do_not_fit();
    transfer.take_rests(to, from);
    let (Some(own), Some(measured)) = (&mut to.power, &from.power) else {
        return;
    };
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

    fn fitted(value: f64) -> Figure {
        Figure {
            value,
            origin: Origin::Fitted("test".to_owned()),
        }
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
        machine.io_path.kcycles_per_io = fitted(21.0);
        machine.stolen = Some(StolenCpuTime {
            per_s: measured(40.0),
            mean_us: measured(100.0),
            source: "test".to_owned(),
        });
        machine
    }

    /// The same with a queue that a host serves until it is empty.
    fn calibrated_guest() -> Machine {
        let mut machine = calibrated();
        machine.io_path.completion.when_empty = fitted(1.0);
        machine.drive.read_service_us = fitted(9.0);
        let rests = [[0.0, 14.0], [2.0, 50.0]];
        machine
            .drive
            .set_rests(rests.map(|[after, exit]| DriveRest {
                after_ms: fitted(after),
                exit_us: fitted(exit),
            }));
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
            "drive.read_service_us",
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

    fn exit_from_c6(machine: &Machine, cluster: usize) -> Figure {
        let states = machine.idle_states_on_cluster(&machine.cluster[cluster]);
        let state = states.iter().find(|state| state.name == "C6");
        state.unwrap().true_exit_us.clone()
    }

    /// Efficiency cores take longer to leave a state than performance cores, and the state is in the file once.
    #[test]
    fn exits_of_a_kind_of_core_are_taken_for_its_cluster() {
        let captured = Machine::find("hybrid-i7-1260p").unwrap();
        let mut calibrated = captured.clone();
        let last = calibrated.cluster.len() - 1;
        let mut own = ClusterIdleState::without_overrides("C6", "measure wake");
        own.true_exit_us = measured(156.0);
        calibrated.cluster[last].idle_state.push(own);
        let mut now = captured.clone();
        let taken = now.take_calibrated_figures(&calibrated, |_| false);
        let key = format!(
            "cluster.{}.idle_state.C6.true_exit_us",
            captured.cluster[last].name
        );
        assert_eq!(taken, std::slice::from_ref(&key));
        assert!(now.figures().iter().any(|figure| figure.key == key));
        assert_eq!(exit_from_c6(&now, last), measured(156.0));
        assert_ne!(exit_from_c6(&now, 0), measured(156.0));
        now.check().unwrap();
        // Neither stale figures nor those of other cores are taken, and no empty table is left.
        let mut stale = captured.clone();
        let taken_stale = stale.take_calibrated_figures(&calibrated, |stale| stale == key);
        assert_eq!(taken_stale, Vec::<String>::new());
        assert!(stale.cluster[last].idle_state.is_empty());
        calibrated.cluster[last]
            .core
            .push_str(" of another processor");
        let mut other = captured;
        let taken_other = other.take_calibrated_figures(&calibrated, |_| false);
        assert_eq!(taken_other, Vec::<String>::new());
    }

    #[test]
    fn figures_that_were_fitted_together_are_taken_together() {
        let calibrated = calibrated_guest();
        for stale in ["io_path.", "drive."] {
            let mut machine = captured();
            let taken = machine.take_calibrated_figures(&calibrated, |key| key.starts_with(stale));
            for group in ["io_path.", "drive."] {
                let left = taken.iter().find(|key| key.starts_with(group));
                assert_eq!(left, None, "{stale}");
            }
            assert!(taken.contains(&"stolen.per_s".to_owned()), "{taken:?}");
        }
        // Declared power states that cannot be read now leave a drive with rests alone.
        let mut machine = captured();
        for drive in [&mut machine.drive, &mut machine.other_drives[0]] {
            drive.power = None;
        }
        let taken = machine.take_calibrated_figures(&calibrated, |_| false);
        assert_eq!(machine.drive.rests().count(), 2);
        let all: Vec<String> = machine.figures().into_iter().map(|f| f.key).collect();
        for key in [
            "io_path.completion.when_empty",
            "drive.read_service_us",
            "drive.rest_exit_us",
            "drive.deeper_rest.0.exit_us",
        ] {
            let key = key.to_owned();
            assert!(
                taken.contains(&key) && all.contains(&key),
                "{key}: {taken:?}"
            );
        }
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
