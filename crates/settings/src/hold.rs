//! Settings that a process holds for a time; they are put back when the process releases the hold, or ends.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use wakepath_system::SettingKey;
use wakepath_system::journal::{ChangeReason, Entry, Layer};

use crate::entries::{journal_entries_for_plan, journal_entry_for_change};
use crate::foreign::{ForeignValue, OwnValues, read_value_if_foreign};
use crate::put_back::Restored;
use crate::session::Session;
use crate::write::{verify_by_reading_back, write_setting};
use crate::{SettingsError, SettingsPlan};

/// Held settings. Dropping the hold puts the settings back. After a kill, the next [`Session::open_and_recover`] or
/// `wakepath restore` puts them back.
#[derive(Debug)]
pub struct Hold(SharedHolding);

/// A process changing settings above a [`Hold`], under the same lock.
pub trait Tenant: Debug + Send + Sync {
    /// Ends the process, and waits for its end.
    fn stop_and_wait(&self);
}

/// The state of a hold; `None` once the settings have been put back.
type SharedHolding = Arc<Mutex<Option<Holding>>>;

/// All holds of this process that are alive, for [`put_back_all_before_exit`].
static ALIVE: Mutex<Vec<Weak<Mutex<Option<Holding>>>>> = Mutex::new(Vec::new());

/// What a [`Hold`] consists of, with all that a release needs.
#[derive(Debug)]
struct Holding {
    session: Session,
    /// Index of this hold's layer in the journal; layers above belong to a tenant.
    own_layer: usize,
    /// Files of requests, which last as long as the files are open.
    requests: Vec<File>,
    /// The values that were written to reserved settings; `None`: the settings were applied at once, and all are put
    /// back.
    own_values: Option<Vec<OwnValues>>,
    /// What was put back after tenants that failed to start.
    after_tenants: Restored,
    /// The tenant: a process that changes further settings under the same lock.
    tenant: Option<Arc<dyn Tenant>>,
}

impl Session {
    /// Applies a plan for as long as the hold lives.
    ///
    /// # Errors
    /// As [`Session::apply_plan`].
    pub fn apply_while_held(mut self, plan: &SettingsPlan) -> Result<Hold, SettingsError> {
        let current = plan.with_old_values_read_again(&self.system)?;
        let before = self.journal.clone();
        self.journal.layers.push(Layer {
            reason: ChangeReason::Held,
            settings: journal_entries_for_plan(&self.system, &current),
        });
        let requests = self.save_journal_then_write_plan(&current, before)?;
        Ok(Hold::new(self, requests, None))
    }

    /// Notes the old values of settings for repeated changes ([`Hold::write_or_put_back`]), and changes nothing yet. Foreign values stay at
    /// the end.
    ///
    /// # Errors
    /// A setting cannot be read, or the journal cannot be written.
    pub fn reserve_for_repeated_changes(
        mut self,
        plan: &SettingsPlan,
    ) -> Result<Hold, SettingsError> {
        let current = plan.with_old_values_read_again(&self.system)?;
        let changes = current.changes.iter();
        self.journal.layers.push(Layer {
            reason: ChangeReason::Reserved,
            settings: changes
                .map(|change| journal_entry_for_change(&self.system, change))
                .collect(),
        });
        self.save_journal()?;
        Ok(Hold::new(self, Vec::new(), Some(Vec::new())))
    }
}

impl Hold {
    /// Makes a hold of the settings in the topmost layer of a session's journal.
    fn new(session: Session, requests: Vec<File>, own_values: Option<Vec<OwnValues>>) -> Self {
        let holding = Holding {
            own_layer: session.journal.layers.len().saturating_sub(1),
            session,
            requests,
            own_values,
            after_tenants: Restored::default(),
            tenant: None,
        };
        let shared = Arc::new(Mutex::new(Some(holding)));
        let mut alive = lock_even_poisoned(&ALIVE);
        alive.retain(|other| other.strong_count() > 0);
        alive.push(Arc::downgrade(&shared));
        Self(shared)
    }

    /// Puts the settings back and returns the session for the next plan; `None` if
    /// [`put_back_all_before_exit`] has put them back already.
    ///
    /// # Errors
    /// [`SettingsError::NotRestored`]; the journal keeps what could not be put back.
    pub fn put_back_and_release(self) -> Result<Option<(Session, Restored)>, SettingsError> {
        take_out_holding(&self.0)
            .map(Holding::put_back_and_release)
            .transpose()
    }

    /// Lends the lock to a process started by `start`, for [`Session::open_with_lent_lock`]. The process ends before these settings are put
    /// back. `Ok(None)` if [`put_back_all_before_exit`] came first.
    ///
    /// # Errors
    /// From `start`, whose argument is an error if the lock cannot be shared.
    pub fn lend_lock_to_tenant<T: Tenant + 'static, E>(
        &self,
        start: impl FnOnce(io::Result<OwnedFd>) -> Result<Arc<T>, E>,
    ) -> Result<Option<Arc<T>>, E> {
        let mut shared = lock_even_poisoned(&self.0);
        let Some(holding) = shared.as_mut() else {
            return Ok(None);
        };
        match start(holding.session.store.clone_lock_descriptor()) {
            Ok(tenant) => {
                holding.tenant = Some(Arc::<T>::clone(&tenant));
                Ok(Some(tenant))
            }
            Err(error) => {
                holding.put_back_changes_of_failed_tenant();
                Err(error)
            }
        }
    }

    /// Changes a setting that is held, or, with `None`, puts its old value back.
    ///
    /// # Errors
    /// The setting is not held, cannot be written, or reads back differently.
    pub fn write_or_put_back(
        &self,
        key: &SettingKey,
        new_value: Option<&str>,
    ) -> Result<(), SettingsError> {
        match lock_even_poisoned(&self.0).as_mut() {
            Some(holding) => holding.write_or_put_back(key, new_value),
            None => Err(SettingsError::NotHeld(key.to_string())),
        }
    }

    /// The value that a held setting had before; `None` if it is not held.
    pub fn value_before_hold(&self, key: &SettingKey) -> Option<String> {
        let shared = lock_even_poisoned(&self.0);
        Some(
            shared
                .as_ref()?
                .session
                .journal
                .entry_in_held_layer(key)?
                .old
                .clone(),
        )
    }

    /// Notes the old values of further settings, as [`Session::reserve_for_repeated_changes`] does.
    ///
    /// # Errors
    /// As for [`Session::reserve_for_repeated_changes`]; then no further setting is held.
    pub fn reserve_further_settings(&self, plan: &SettingsPlan) -> Result<(), SettingsError> {
        match lock_even_poisoned(&self.0).as_mut() {
            Some(holding) => holding.reserve_further_settings(plan),
            None => Ok(()),
        }
    }

    /// Forgets a held setting whose drive is gone. The setting keeps its present value, even after a kill.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn forget_old_value(&self, key: &SettingKey) -> Result<(), SettingsError> {
        match lock_even_poisoned(&self.0).as_mut() {
            Some(holding) => {
                holding.session.journal.remove_from_held_layer(key);
                holding.session.save_journal()
            }
            None => Ok(()),
        }
    }

    /// Reads the foreign value of a reserved setting since [`Hold::write_or_put_back`]; `None` while the setting has our own.
    ///
    /// # Errors
    /// The setting is not held, or cannot be read.
    pub fn read_value_if_foreign(
        &self,
        key: &SettingKey,
    ) -> Result<Option<ForeignValue>, SettingsError> {
        let shared = lock_even_poisoned(&self.0);
        let held = shared.as_ref().and_then(|holding| {
            let entry = holding.session.journal.entry_in_held_layer(key)?;
            Some((
                &holding.session.system,
                entry,
                holding.own_values.as_deref()?,
            ))
        });
        let Some((system, entry, own)) = held else {
            return Err(SettingsError::NotHeld(key.to_string()));
        };
        read_value_if_foreign(system, entry, own)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(holding) = take_out_holding(&self.0) {
            // Errors of a drop have nobody to go to, and the journal keeps what is not put back.
            let _ = holding.put_back_and_release();
        }
    }
}

impl Holding {
    /// Puts everything of this hold back: settings of tenants first, then requests, then the hold's own.
    fn put_back_and_release(self) -> Result<(Session, Restored), SettingsError> {
        let Self {
            mut session,
            own_layer,
            requests,
            own_values,
            after_tenants: mut restored,
            tenant,
        } = self;
        if let Some(tenant) = tenant {
            tenant.stop_and_wait();
            if let Err(error) = session.reload_journal_after_tenant(own_layer) {
                drop(requests);
                // Only the journal on disk has what the tenant has changed.
                session.put_back_layer_without_saving(own_layer, own_values.as_deref());
                return Err(error);
            }
        }
        // What was put back after failed tenants counts as well.
        let above = session.put_back_layers_above(own_layer);
        drop(requests);
        let notes =
            own_values.map(|own| session.drop_foreign_values_from_reserved_layer(own_layer, &own));
        // The hold's own settings are put back even where the tenant's could not be.
        let own_restored = session.put_back_layer(own_layer);
        restored.add_restored(above?);
        restored.add_restored(own_restored?);
        restored.notes.extend(notes.unwrap_or_default());
        Ok((session, restored))
    }

    /// Undoes changes by a tenant that failed to start. The journal keeps the rest.
    fn put_back_changes_of_failed_tenant(&mut self) {
        let restored = self
            .session
            .reload_journal_after_tenant(self.own_layer)
            .and_then(|()| self.session.put_back_layers_above(self.own_layer));
        if let Ok(restored) = restored {
            self.after_tenants.add_restored(restored);
        }
    }

    fn reserve_further_settings(&mut self, plan: &SettingsPlan) -> Result<(), SettingsError> {
        let session = &mut self.session;
        let new: Vec<Entry> = plan
            .changes
            .iter()
            .filter(|change| session.journal.entry_in_held_layer(&change.key).is_none())
            .map(|change| journal_entry_for_change(&session.system, change))
            .collect();
        let before = session.journal.clone();
        session.journal.add_to_held_layer(new);
        let saved = session.save_journal();
        if saved.is_err() {
            session.journal = before;
        }
        saved
    }

    fn write_or_put_back(
        &mut self,
        key: &SettingKey,
        new_value: Option<&str>,
    ) -> Result<(), SettingsError> {
        let Some(entry) = self.session.journal.entry_in_held_layer(key) else {
            return Err(SettingsError::NotHeld(key.to_string()));
        };
        let old = entry.old.clone();
        let new = new_value.unwrap_or(&old);
        self.session.system.check_setting_value(key, new)?;
        if self.own_values.is_some() {
            self.session.journal_value_before_write(key, new)?;
        }
        let mut unnoted = Vec::new();
        let values = match &mut self.own_values {
            None => &mut unnoted,
            Some(own) => own_values_or_new(own, key, &old),
        };
        if !values.iter().any(|known| known == new) {
            values.push(new.to_owned());
        }
        write_setting(&self.session.system, key, new)?;
        let result = verify_by_reading_back(&self.session.system, key, new);
        match &result {
            Ok(()) => values.retain(|known| known == new),
            // Some drivers round frequencies. Any other setting that reads back differently was written by somebody
            // else.
            Err(SettingsError::ReadBack { found, .. }) if key.setting.name == "frequency-min" => {
                values.push(found.clone());
                self.session.journal_value_before_write(key, found)?;
            }
            Err(_) => {}
        }
        result
    }
}

/// The list of values that were written to a setting, begun with the old value if the setting is new.
fn own_values_or_new<'a>(
    own: &'a mut Vec<OwnValues>,
    key: &SettingKey,
    old: &str,
) -> &'a mut Vec<String> {
    let known = own.iter().position(|own| own.key == *key);
    let index = known.unwrap_or_else(|| {
        own.push(OwnValues {
            key: key.clone(),
            values: vec![old.to_owned()],
        });
        own.len() - 1
    });
    &mut own[index].values
}

/// Locks a mutex even if another thread has panicked: journal entries precede changes, so the value is usable.
fn lock_even_poisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_out_holding(shared: &SharedHolding) -> Option<Holding> {
    lock_even_poisoned(shared).take()
}

/// Puts back all holds of this process; to be called before `std::process::exit`, which drops nothing.
/// Another thread that is just releasing a hold finishes alone.
///
/// # Errors
/// The first thing that could not be put back; the rest is tried all the same.
pub fn put_back_all_before_exit() -> Result<(), SettingsError> {
    let alive = std::mem::take(&mut *lock_even_poisoned(&ALIVE));
    let holdings = alive
        .iter()
        .filter_map(Weak::upgrade)
        .filter_map(|shared| take_out_holding(&shared));
    let results: Vec<_> = holdings.map(Holding::put_back_and_release).collect();
    results
        .into_iter()
        .try_for_each(|result| result.map(|_| ()))
}
