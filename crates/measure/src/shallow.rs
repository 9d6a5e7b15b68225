//! CPUs kept from sleeping while something else is measured.

use std::io;

use rustix::process::geteuid;
use wakepath_settings::{Hold, Session, SettingsError, SettingsPlan, WantedSetting};
use wakepath_system::setting::find_setting;
use wakepath_system::{At, SettingKey, System, SystemError};

use crate::MeasureError;

/// The system's latency limit at 0: CPUs sleep no deeper than their first state, usually the polling state.
#[derive(Debug)]
pub struct ShallowHold {
    hold: Option<Hold>,
    /// Why CPUs may sleep all the same.
    refusal: Option<String>,
}

impl ShallowHold {
    /// Takes wakepath's lock and holds CPUs shallow. Without root, CPUs stay as they are.
    ///
    /// # Errors
    /// Another wakepath is changing settings, such as a second measurement, or the journal is damaged.
    pub fn take(system: &System) -> Result<Self, MeasureError> {
        if system.root().is_live() && !geteuid().is_root() {
            return Ok(Self {
                hold: None,
                refusal: Some("holding CPUs shallow needs root".to_owned()),
            });
        }
        match hold_system_latency(system, 0) {
            Ok(hold) => Ok(Self {
                hold: Some(hold),
                refusal: None,
            }),
            Err(error) if has_nothing_to_hold(&error) => Ok(Self {
                hold: None,
                refusal: Some(error.to_string()),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets CPUs take their shallowest state that sleeps, for long pauses: polling in these would only heat the machine.
    /// Without such a state, or without a hold, everything stays as it is.
    ///
    /// # Errors
    /// The latency limit cannot be changed; then CPUs may sleep as before the hold.
    pub(crate) fn allow_shallowest_sleep(&mut self, system: &System) -> Result<(), MeasureError> {
        let Some(limit_us) = shortest_exit_latency_us(system) else {
            return Ok(());
        };
        let released = self
            .hold
            .take()
            .map_or(Ok(None), Hold::put_back_and_release)?;
        if let Some((session, _)) = released {
            let plan = plan_system_latency(system, limit_us)?;
            self.hold = Some(session.apply_while_held(&plan)?);
        }
        Ok(())
    }

    /// Sets one more setting until the release, while CPUs may take the shallowest sleeping state.
    ///
    /// # Errors
    /// Something cannot be set; then nothing is held any more.
    pub(crate) fn hold_also(
        &mut self,
        system: &System,
        key: SettingKey,
        value: String,
    ) -> Result<(), MeasureError> {
        let held = self.hold.take();
        let limit_us = shortest_exit_latency_us(system).filter(|_| held.is_some());
        let released = held.map_or(Ok(None), Hold::put_back_and_release)?;
        let session = match released {
            Some((session, _)) => session,
            None => Session::open_and_recover(system)?,
        };
        let mut wanted = limit_us.map_or_else(WantedSetting::default, want_system_latency);
        wanted.values.push((key, value));
        let plan = SettingsPlan::from_wanted(system, wanted)?;
        self.hold = Some(session.apply_while_held(&plan)?);
        Ok(())
    }

    /// Why CPUs may sleep; `None`: they are held shallow.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Ends the hold, so that CPUs may sleep again.
    ///
    /// # Errors
    /// Something could not be put back; the journal keeps it.
    pub fn release(self) -> Result<(), MeasureError> {
        if let Some(hold) = self.hold {
            hold.put_back_and_release()?;
        }
        Ok(())
    }
}

/// Takes wakepath's lock and journals the present values of settings, each with a possible new value, for changes to and fro.
///
/// # Errors
/// Another wakepath is changing settings, or a setting cannot be read.
pub(crate) fn reserve_for_repeated_changes(
    system: &System,
    values: Vec<(SettingKey, String)>,
) -> Result<Hold, MeasureError> {
    // The lock first: an earlier plan could be out of date.
    let session = Session::open_and_recover(system)?;
    let wanted = WantedSetting {
        values,
        notes: Vec::new(),
    };
    let plan = SettingsPlan::from_wanted(system, wanted)?;
    Ok(session.reserve_for_repeated_changes(&plan)?)
}

fn hold_system_latency(system: &System, limit_us: u64) -> Result<Hold, SettingsError> {
    // The lock first: an earlier plan could be out of date.
    let session = Session::open_and_recover(system)?;
    session.apply_while_held(&plan_system_latency(system, limit_us)?)
}

fn plan_system_latency(system: &System, limit_us: u64) -> Result<SettingsPlan, SettingsError> {
    SettingsPlan::from_wanted(system, want_system_latency(limit_us))
}

fn want_system_latency(limit_us: u64) -> WantedSetting {
    let setting = find_setting("system-latency");
    let key = setting.and_then(|setting| SettingKey::for_matching_scope(setting, At::System));
    WantedSetting {
        values: key
            .into_iter()
            .map(|key| (key, limit_us.to_string()))
            .collect(),
        notes: Vec::new(),
    }
}

/// Declared exit latency of the shallowest states that sleep, in us: the longest over all CPUs, so that each has one. `None`:
/// some CPU only polls.
fn shortest_exit_latency_us(system: &System) -> Option<u64> {
    let of_each_cpu = system.cpus().into_iter().filter_map(|cpu| {
        let states = system.read_idle_states(cpu);
        let sleeping = states.iter().filter(|state| !state.polling);
        sleeping.map(|state| state.latency_us).min()
    });
    of_each_cpu.max()
}

/// Whether a machine has nothing to hold CPUs with, as in a container.
fn has_nothing_to_hold(error: &SettingsError) -> bool {
    let SettingsError::System(SystemError::Read { source, .. } | SystemError::Write { source, .. }) =
        error
    else {
        return false;
    };
    matches!(
        source.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotFound
            | io::ErrorKind::ReadOnlyFilesystem
    )
}
