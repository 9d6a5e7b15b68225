//! Changes settings so that they can always be put back.
//!
//! Order of an apply: lock, journal to disk, write, read back. Order of a restore: lock, write the oldest
//! values, read back, remove the journal. A crash at any point leaves either no change or a complete
//! journal, and a restore can be repeated.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use wakepath_system::journal::{ChangeReason, Entry, Journal, Layer, read_boot_id};
use wakepath_system::setting::{Access, have_same_meaning};
use wakepath_system::{SettingKey, System};

use crate::entries::journal_entries_for_plan;
use crate::foreign::{
    OwnValues, foreign_value_to_keep, note_that_foreign_value_stays,
    possible_values_by_dead_processes,
};
use crate::lend::LockBorrower;
use crate::put_back::{FailedRestore, Restored, put_back_entries};
use crate::store::LockedJournalDirectory;
use crate::write::{verify_by_reading_back, write_setting};
use crate::{Change, SettingsError, SettingsPlan, journal};

/// Number of values of a reserved setting that the journal keeps, beside the first.
const MOST_WRITTEN: usize = 4;
/// How long an event of the machine waits for the lock: several events come at once, as when all CPUs are switched on again.
pub(crate) const EVENT_LOCK_PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which a lender looks whether it is to wait any longer.
const LENDER_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The right to change settings of a machine: the lock, with the journal of old values.
#[derive(Debug)]
pub struct Session {
    pub(crate) system: System,
    pub(crate) store: LockedJournalDirectory,
    pub(crate) journal: Journal,
    recovered: Restored,
}

impl Session {
    /// Takes the lock. Settings of dead processes are put back first.
    ///
    /// # Errors
    /// Another process has the lock, the directory of the journal is not safe, or the journal is damaged.
    pub fn open_and_recover(system: &System) -> Result<Self, SettingsError> {
        Self::open_locked(system)?.recover()
    }

    /// Puts the settings of dead processes back.
    fn recover(mut self) -> Result<Self, SettingsError> {
        if self.drop_reset_settings_of_earlier_boot() {
            self.save_journal()?;
        }
        self.put_back_settings_of_dead_processes()?;
        Ok(self)
    }

    /// Takes the lock, or borrows it from a daemon, and reads the journal, without putting anything back.
    fn open_locked_or_borrowed(system: &System) -> Result<Self, SettingsError> {
        match Self::open_locked(system) {
            Err(locked @ SettingsError::Locked { .. }) => {
                match LockedJournalDirectory::open_with_daemon_lock(system.root())? {
                    Some(store) => Self::load_journal_of_directory(system, store),
                    None => Err(locked),
                }
            }
            opened => opened,
        }
    }

    /// Lends the lock of this session, which has nothing in force, and waits for its return. `None`: `keeps_waiting`, which is
    /// asked each second, does not wait any longer; the borrower then has the lock for itself.
    ///
    /// # Errors
    /// The journal cannot be read after the borrower, or what it left of dead processes cannot be put back.
    pub fn lend_lock_to_borrower(
        self,
        borrower: &LockBorrower,
        mut keeps_waiting: impl FnMut() -> bool,
    ) -> Result<Option<Self>, SettingsError> {
        // A borrower that has gone meanwhile does not need the lock.
        let is_sent = borrower.send_lock(self.store.lock_descriptor()).is_ok();
        while is_sent && !borrower.wait_for_end(LENDER_INTERVAL) {
            if !keeps_waiting() {
                return Ok(None);
            }
        }
        let journal = journal::load_journal(&self.store, self.system.root())?;
        Self { journal, ..self }.recover().map(Some)
    }

    /// Takes the lock as [`Session::open_and_recover`] does, borrows it from a daemon, or waits for a while if another wakepath
    /// has it.
    ///
    /// # Errors
    /// Another process keeps the lock, the directory of the journal is not safe, or the journal is damaged.
    pub(crate) fn open_when_unlocked_and_recover(
        system: &System,
        patience: Duration,
    ) -> Result<Self, SettingsError> {
        let began = Instant::now();
        loop {
            match Self::open_locked_or_borrowed(system).and_then(Self::recover) {
                Err(SettingsError::Locked { .. }) if began.elapsed() < patience => {
                    thread::sleep(LOCK_PAUSE);
                }
                opened => return opened,
            }
        }
    }

    /// Takes the lock to put everything back with [`Session::restore_all`]. Unlike [`Session::open_and_recover`], a setting that cannot be
    /// put back is no error yet.
    ///
    /// # Errors
    /// Another process has the lock, the directory of the journal is not safe, or the journal is damaged.
    pub fn open_for_restore(system: &System) -> Result<Self, SettingsError> {
        let mut session = Self::open_locked(system)?;
        session.drop_reset_settings_of_earlier_boot();
        Ok(session)
    }

    /// Takes the lock at boot. Old values of earlier boots are forgotten: the restart has reset all settings. Settings of
    /// processes that died in this boot are put back first.
    ///
    /// # Errors
    /// Another process has the lock, the directory of the journal is not safe, or the journal is damaged.
    pub(crate) fn open_at_boot_and_recover(system: &System) -> Result<Self, SettingsError> {
        let mut session = Self::open_locked_or_borrowed(system)?;
        let now = read_boot_id(system.root());
        if session.journal.boot != now {
            session.journal.layers.clear();
            session.journal.boot = now;
            session.save_journal()?;
        }
        // Only in the same boot can a killed process have left changed settings.
        session.put_back_settings_of_dead_processes()?;
        Ok(session)
    }

    /// Works under a lock lent with [`Hold::lend_lock_to_tenant`](crate::Hold::lend_lock_to_tenant) by another process, whose settings stay unchanged.
    ///
    /// # Errors
    /// The file is not this machine's lock, or the journal is damaged.
    pub fn open_with_lent_lock(system: &System, lock: OwnedFd) -> Result<Self, SettingsError> {
        Self::load_journal_of_directory(
            system,
            LockedJournalDirectory::open_with_lent_lock(system.root(), lock)?,
        )
    }

    /// Takes the lock and reads the journal, without putting anything back.
    fn open_locked(system: &System) -> Result<Self, SettingsError> {
        Self::load_journal_of_directory(system, LockedJournalDirectory::open_locked(system.root())?)
    }

    fn load_journal_of_directory(
        system: &System,
        store: LockedJournalDirectory,
    ) -> Result<Self, SettingsError> {
        let journal = journal::load_journal(&store, system.root())?;
        Ok(Self {
            system: system.clone(),
            store,
            journal,
            recovered: Restored::default(),
        })
    }

    /// Writes the session's journal to disk.
    pub(crate) fn save_journal(&self) -> Result<(), SettingsError> {
        journal::save_journal_or_remove_if_empty(&self.journal, &self.store)
    }

    /// Puts back the settings of dead processes, layer by layer from the top. A setting that is away for the moment waits
    /// in the journal: an offline CPU keeps nobody from changing settings.
    fn put_back_settings_of_dead_processes(&mut self) -> Result<(), SettingsError> {
        for index in (0..self.journal.layers.len()).rev() {
            match self.journal.layers[index].reason {
                ChangeReason::Applied => break,
                ChangeReason::Held => {}
                ChangeReason::Reserved => {
                    let own = possible_values_by_dead_processes(&self.journal);
                    let notes = self.drop_foreign_values_from_reserved_layer(index, &own);
                    self.recovered.notes.extend(notes);
                }
            }
            let restored = self.put_back_layer(index)?;
            self.recovered.add_restored(restored);
        }
        Ok(())
    }

    /// What was put back when the session was opened, because the process that had changed it had died.
    pub const fn restored_at_opening(&self) -> &Restored {
        &self.recovered
    }

    /// Applies a plan until [`Session::restore_all`].
    ///
    /// # Errors
    /// A setting could not be written or reads back differently; then all of this plan is put back.
    pub fn apply_plan(&mut self, plan: &SettingsPlan) -> Result<(), SettingsError> {
        plan.check_outlives_process()?;
        // The plan is made again under the lock: old values may have changed since.
        let current = plan.with_old_values_read_again(&self.system)?;
        let before = self.journal.clone();
        let layer = self.journal.applied_layer_or_new();
        for entry in journal_entries_for_plan(&self.system, &current) {
            layer.add_keeping_old_value(entry);
        }
        self.save_journal_then_write_plan(&current, before)
            .map(|_| ())
    }

    /// Writes the journal to disk, then the settings of a plan, then compares. Returns the open files of requests.
    /// After an error everything is put back, and the journal is `before` again.
    pub(crate) fn save_journal_then_write_plan(
        &mut self,
        plan: &SettingsPlan,
        before: Journal,
    ) -> Result<Vec<File>, SettingsError> {
        if let Err(error) = self.save_journal() {
            self.journal = before;
            return Err(error);
        }
        let mut requests = Vec::new();
        let Err(error) = self.write_and_verify_all(plan, &mut requests) else {
            return Ok(requests);
        };
        drop(requests);
        let entries = journal_entries_for_plan(&self.system, plan);
        // If the journal cannot be written either, its file still has the old values.
        if put_back_entries(&self.system, &entries, &mut Restored::default()).is_empty() {
            self.journal = before;
            self.save_journal()?;
            self.store.mark_unused_for_removal();
        }
        Err(error)
    }

    /// Writes the values of a plan, then reads all values back: one setting can change another.
    fn write_and_verify_all(
        &self,
        plan: &SettingsPlan,
        requests: &mut Vec<File>,
    ) -> Result<(), SettingsError> {
        for change in &plan.changes {
            self.write_change_if_needed(change, requests)?;
        }
        let new_values = plan
            .changes
            .iter()
            .filter_map(|change| Some((&change.key, change.new.as_ref()?)));
        for (key, value) in new_values {
            verify_by_reading_back(&self.system, key, value)?;
        }
        Ok(())
    }

    fn write_change_if_needed(
        &self,
        change: &Change,
        requests: &mut Vec<File>,
    ) -> Result<(), SettingsError> {
        let Some(new) = &change.new else {
            return Ok(());
        };
        let present = self.system.read_setting(&change.key)?;
        let is_request = change.key.setting.mechanism == Access::Held;
        if have_same_meaning(change.key.setting, &present, new) && !is_request {
            return Ok(());
        }
        requests.extend(write_setting(&self.system, &change.key, new)?);
        verify_by_reading_back(&self.system, &change.key, new)
    }

    /// Puts every setting back to its value before the first apply.
    ///
    /// # Errors
    /// [`SettingsError::NotRestored`] with every setting that could not be; the journal keeps them.
    pub fn restore_all(&mut self) -> Result<Restored, SettingsError> {
        let mut restored = std::mem::take(&mut self.recovered);
        let own = possible_values_by_dead_processes(&self.journal);
        for index in 0..self.journal.layers.len() {
            let notes = self.drop_foreign_values_from_reserved_layer(index, &own);
            restored.notes.extend(notes);
        }
        let oldest = self.journal.entries_with_oldest_values();
        let failed = put_back_entries(&self.system, &oldest, &mut restored);
        self.keep_only_failed_in_journal(oldest, &failed);
        let saved = self.save_journal();
        FailedRestore::into_single_error(failed)?;
        saved.map(|()| restored)
    }

    /// Leaves only settings in the journal that could not be put back. A setting reserved by a dead process stays
    /// reserved: when the setting is back, somebody else may have written it.
    fn keep_only_failed_in_journal(&mut self, oldest: Vec<Entry>, failed: &[FailedRestore]) {
        let (mut applied, mut waiting) = (Vec::new(), Vec::new());
        for entry in oldest {
            match failed.iter().find(|failure| failure.key == entry.key) {
                Some(failure)
                    if failure.is_setting_absent_now()
                        && self.is_only_in_reserved_layers(&entry.key) =>
                {
                    waiting.push(entry);
                }
                Some(_) => applied.push(entry),
                None => {}
            }
        }
        let layers = [
            (ChangeReason::Applied, applied),
            (ChangeReason::Reserved, waiting),
        ];
        self.journal.layers = layers
            .into_iter()
            .filter(|(_, settings)| !settings.is_empty())
            .map(|(reason, settings)| Layer { reason, settings })
            .collect();
    }

    /// Whether a setting is in no layer of the journal but reserved ones.
    fn is_only_in_reserved_layers(&self, key: &SettingKey) -> bool {
        let mut layers = self.journal.layers.iter();
        layers.all(|layer| {
            layer.reason == ChangeReason::Reserved
                || layer.settings.iter().all(|entry| entry.key != *key)
        })
    }

    /// Puts the settings of a layer back. A setting that cannot be put back stays in the layer; an empty layer is
    /// removed.
    pub(crate) fn put_back_layer(&mut self, layer_index: usize) -> Result<Restored, SettingsError> {
        let mut restored = Restored::default();
        let Some(layer) = self.journal.layers.get_mut(layer_index) else {
            return Ok(restored);
        };
        let all_failed = put_back_entries(&self.system, &layer.settings, &mut restored);
        layer
            .settings
            .retain(|entry| all_failed.iter().any(|failure| failure.key == entry.key));
        if layer.settings.is_empty() {
            self.journal.layers.remove(layer_index);
        }
        let saved = self.save_journal();
        let (away, failed): (Vec<FailedRestore>, Vec<FailedRestore>) = all_failed
            .into_iter()
            .partition(FailedRestore::is_setting_absent_now);
        FailedRestore::into_single_error(failed)?;
        saved?;
        let messages = away.iter().map(|failure| failure.error.to_string());
        restored.away = messages.collect();
        Ok(restored)
    }

    /// Reads the journal again after a tenant. `own_layer` is the place of this session's layer.
    ///
    /// # Errors
    /// The journal cannot be read; then the session's stays as before.
    pub(crate) fn reload_journal_after_tenant(
        &mut self,
        own_layer: usize,
    ) -> Result<(), SettingsError> {
        let on_disk = journal::load_journal(&self.store, self.system.root())?;
        let mut layers = std::mem::replace(&mut self.journal, on_disk).layers;
        layers.truncate(own_layer + 1);
        // A journal without settings is no file, so a tenant begins with an empty journal.
        if layers.iter().all(|layer| layer.settings.is_empty()) {
            self.journal.layers.splice(0..0, layers);
        }
        Ok(())
    }

    /// Puts back a tenant's layers above `own_layer`. After a failure the other layers are tried, too.
    ///
    /// # Errors
    /// The first setting that cannot be put back; the journal keeps it.
    pub(crate) fn put_back_layers_above(
        &mut self,
        own_layer: usize,
    ) -> Result<Restored, SettingsError> {
        let mut restored = Restored::default();
        let mut first_error = Ok(());
        for index in (own_layer + 1..self.journal.layers.len()).rev() {
            let own = possible_values_by_dead_processes(&self.journal);
            restored
                .notes
                .extend(self.drop_foreign_values_from_reserved_layer(index, &own));
            match self.put_back_layer(index) {
                Ok(layer) => restored.add_restored(layer),
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        // Where this session's own layer has the same setting, its older value counts.
        let from_own = self.journal.layers.get_mut(own_layer..);
        if let Some((held, above)) = from_own.and_then(<[_]>::split_first_mut)
            && held.reason == ChangeReason::Held
        {
            for layer in above {
                layer
                    .settings
                    .retain(|entry| held.settings.iter().all(|h| h.key != entry.key));
            }
        }
        first_error.map(|()| restored)
    }

    /// Puts the settings of a layer back without saving the journal. `own`: our own values, if foreign values may stay.
    pub(crate) fn put_back_layer_without_saving(&self, layer: usize, own: Option<&[OwnValues]>) {
        let layers = self.journal.layers.iter().skip(layer).take(1);
        let ours = layers.flat_map(|layer| &layer.settings).filter(|entry| {
            own.is_none_or(|own| foreign_value_to_keep(&self.system, entry, own).is_none())
        });
        let entries: Vec<Entry> = ours.cloned().collect();
        // A journal that cannot be saved has to be repaired by somebody, and the next restore tries all of it again.
        _ = put_back_entries(&self.system, &entries, &mut Restored::default());
    }

    /// Removes settings with foreign values from a reserved layer, so that these values stay. Returns notes.
    pub(crate) fn drop_foreign_values_from_reserved_layer(
        &mut self,
        layer: usize,
        own: &[OwnValues],
    ) -> Vec<String> {
        let layers = self.journal.layers.iter();
        let applied: Vec<SettingKey> = layers
            .filter(|layer| layer.reason == ChangeReason::Applied)
            .flat_map(|layer| &layer.settings)
            .map(|entry| entry.key.clone())
            .collect();
        let system = &self.system;
        let layer = self.journal.layers.get_mut(layer);
        let Some(reserved) = layer.filter(|layer| layer.reason == ChangeReason::Reserved) else {
            return Vec::new();
        };
        let mut notes = Vec::new();
        reserved.settings.retain(|entry| {
            let Some(found) = foreign_value_to_keep(system, entry, own) else {
                return true;
            };
            // A setting that is also in the applied layer is written anyway when that layer is restored.
            if !applied.contains(&entry.key) {
                notes.push(note_that_foreign_value_stays(entry, &found));
            }
            false
        });
        if !notes.is_empty() {
            // The journal is saved even if our own settings cannot be put back: the next restore must not touch foreign
            // values. An error comes again when the layer goes.
            let _ = self.save_journal();
        }
        notes
    }

    /// Notes a new value of a reserved setting before the write, unless the journal knows the value: after a kill, only the
    /// journal tells our own values.
    pub(crate) fn journal_value_before_write(
        &mut self,
        key: &SettingKey,
        value: &str,
    ) -> Result<(), SettingsError> {
        let Some(entry) = self.journal.entry_in_held_layer_mut(key) else {
            return Ok(());
        };
        let first = [&entry.old].into_iter().chain(&entry.new);
        if first.chain(&entry.written).any(|known| known == value) {
            return Ok(());
        }
        // The setting keeps the last noted value until the new value is written.
        if entry.written.len() == MOST_WRITTEN {
            entry.written.remove(0);
        }
        entry.written.push(value.to_owned());
        self.save_journal()
    }

    /// Removes settings from the journal of an earlier boot: the restart has reset them, and new values are not ours.
    /// Only settings with a value of ours stay. Returns whether the journal has changed.
    fn drop_reset_settings_of_earlier_boot(&mut self) -> bool {
        let now = read_boot_id(self.system.root());
        if self.journal.boot == now || self.journal.layers.is_empty() {
            return false;
        }
        let mut forgotten = 0;
        for layer in &mut self.journal.layers {
            let before = layer.settings.len();
            layer
                .settings
                .retain(|entry| still_has_written_value(&self.system, entry));
            forgotten += before - layer.settings.len();
        }
        self.journal.boot = now;
        self.recovered.notes.push(format!(
            "the machine was restarted since the last apply, which has reset {forgotten} setting(s) by itself"
        ));
        true
    }
}

/// Whether a setting has a value that wakepath wrote.
fn still_has_written_value(system: &System, entry: &Entry) -> bool {
    let Ok(found) = system.read_setting(&entry.key) else {
        return false;
    };
    let mut written = entry.new.iter().chain(&entry.written);
    written.any(|written| have_same_meaning(entry.key.setting, written, &found))
}
