//! Changing settings so that they can always be put back.
//!
//! Order of an apply: lock, journal to disk, write, read back. Order of a restore: lock, write the oldest
//! values, read back, remove the journal. A crash at any point leaves either nothing changed or a
//! journal that says all that was, and a restore can be repeated.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use wakepath_system::journal::{Entry, Journal, Layer, Why, boot};
use wakepath_system::setting::{Access, same};
use wakepath_system::{At, SettingKey, System};

use crate::plan::in_order;
use crate::store::Store;
use crate::write::{left_of, verify, write};
use crate::{Change, SettingsError, SettingsPlan, journal};

/// So many of the values that a reserved setting was given are noted, beside the first.
const MOST_WRITTEN: usize = 4;

/// The right to change settings of a machine: the lock, and the journal.
#[derive(Debug)]
pub struct Session {
    system: System,
    store: Store,
    journal: Journal,
    recovered: Restored,
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Settings that had another value and now have the old one.
    pub written: Vec<Change>,
    /// How many had it already.
    pub unchanged: usize,
    /// What the user should know.
    pub notes: Vec<String>,
    /// What a process held, and could not be put back, since it is not there for the moment; the journal keeps it.
    pub away: Vec<String>,
}

impl Restored {
    /// Adds what another restore did.
    fn add(&mut self, other: Self) {
        self.written.extend(other.written);
        self.unchanged += other.unchanged;
        self.notes.extend(other.notes);
        self.away.extend(other.away);
    }
}

impl Session {
    /// Takes the lock. What a process held that died is put back first.
    ///
    /// # Errors
    /// Another process has the lock, the directory of the journal is not safe, or the journal is damaged.
    pub fn open(system: &System) -> Result<Self, SettingsError> {
        let mut session = Self::locked(system)?;
        if session.forget_other_boot() {
            journal::save(&session.journal, &session.store)?;
        }
        session.recover()?;
        Ok(session)
    }

    /// Takes the lock to put everything back with [`Session::restore`]. Unlike after [`Session::open`], one setting that
    /// cannot be put back keeps no other from it.
    ///
    /// # Errors
    /// Another process has the lock, the directory of the journal is not safe, or the journal is damaged.
    pub fn for_restore(system: &System) -> Result<Self, SettingsError> {
        let mut session = Self::locked(system)?;
        session.forget_other_boot();
        Ok(session)
    }

    /// Works under a lock lent with [`Hold::lend`] by another process, whose settings stay unchanged.
    ///
    /// # Errors
    /// The file is not this machine's lock, or the journal is damaged.
    pub fn lent(system: &System, lock: OwnedFd) -> Result<Self, SettingsError> {
        Self::with_store(system, Store::lent(system.root(), lock)?)
    }

    /// With the lock and the journal.
    fn locked(system: &System) -> Result<Self, SettingsError> {
        Self::with_store(system, Store::open(system.root())?)
    }

    fn with_store(system: &System, store: Store) -> Result<Self, SettingsError> {
        let journal = journal::load(&store, system.root())?;
        Ok(Self {
            system: system.clone(),
            store,
            journal,
            recovered: Restored::default(),
        })
    }

    /// Puts back what processes held that have died, layer by layer from the top. What is away for the moment waits in the
    /// journal: a CPU that is offline keeps nobody from changing settings.
    fn recover(&mut self) -> Result<(), SettingsError> {
        for index in (0..self.journal.layers.len()).rev() {
            match self.journal.layers[index].why {
                Why::Applied => break,
                Why::Held => {}
                Why::Reserved => {
                    let left = self.left_by_the_dead();
                    let notes = self.leave_foreign(index, &left);
                    self.recovered.notes.extend(notes);
                }
            }
            let restored = self.restore_layer(index)?;
            self.recovered.add(restored);
        }
        Ok(())
    }

    /// Reads the journal again after a tenant. `own` is the place of this session's layer.
    ///
    /// # Errors
    /// The journal cannot be read; then the session's stays as before.
    fn reload(&mut self, own: usize) -> Result<(), SettingsError> {
        let on_disk = journal::load(&self.store, self.system.root())?;
        let mut layers = std::mem::replace(&mut self.journal, on_disk).layers;
        layers.truncate(own + 1);
        // A journal without settings is no file, so a tenant begins with an empty journal.
        if layers.iter().all(|layer| layer.settings.is_empty()) {
            self.journal.layers.splice(0..0, layers);
        }
        Ok(())
    }

    /// Puts back layers that a tenant left above `own`. One that cannot be put back keeps no other from it.
    ///
    /// # Errors
    /// The first setting that cannot be put back; the journal keeps it.
    fn restore_above(&mut self, own: usize) -> Result<Restored, SettingsError> {
        let mut restored = Restored::default();
        let mut first_error = Ok(());
        for index in (own + 1..self.journal.layers.len()).rev() {
            let left = self.left_by_the_dead();
            restored.notes.extend(self.leave_foreign(index, &left));
            match self.restore_layer(index) {
                Ok(layer) => restored.add(layer),
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        // The older value of a setting held below is the one to put back, and that layer keeps it.
        if let Some((held, above)) = self
            .journal
            .layers
            .get_mut(own..)
            .and_then(<[_]>::split_first_mut)
            && held.why == Why::Held
        {
            for layer in above {
                layer
                    .settings
                    .retain(|entry| held.settings.iter().all(|h| h.key != entry.key));
            }
        }
        first_error.map(|()| restored)
    }

    /// Puts a layer back, and leaves the journal on disk as it is.
    fn put_back_unsaved(&self, layer: usize, left: Option<&[Left]>) {
        let settings = self.journal.layers.get(layer).map(|l| &l.settings);
        let ours = settings.into_iter().flatten().filter(|entry| {
            left.is_none_or(|left| foreign_value(&self.system, entry, left).is_none())
        });
        let ours: Vec<Entry> = ours.cloned().collect();
        // Somebody repairs the journal, and a restore tries all of it again.
        _ = self.put_back(&ours, &mut Restored::default());
    }

    /// How a process that died has left what it had reserved, by the journal.
    fn left_by_the_dead(&self) -> Vec<Left> {
        let reserved = self
            .journal
            .layers
            .iter()
            .filter(|layer| layer.why == Why::Reserved);
        let entries = reserved.flat_map(|layer| &layer.settings);
        entries
            .map(|entry| Left {
                key: entry.key.clone(),
                values: [&entry.old]
                    .into_iter()
                    .chain(&entry.new)
                    .chain(&entry.written)
                    .cloned()
                    .collect(),
            })
            .collect()
    }

    /// What was put back because the process that had changed it died.
    pub const fn recovered(&self) -> &Restored {
        &self.recovered
    }

    /// Applies a plan until [`Session::restore`].
    ///
    /// # Errors
    /// A setting could not be written or reads back differently; then all of this plan is put back.
    pub fn apply(&mut self, plan: &SettingsPlan) -> Result<(), SettingsError> {
        plan.check_stays()?;
        // Under the lock; what the plan was made from may have changed since.
        let plan = plan.again(&self.system)?;
        let before = self.journal.clone();
        let layer = self.journal.applied();
        journalled(&self.system, &plan).for_each(|entry| layer.add(entry));
        self.execute(&plan, before).map(|_| ())
    }

    /// Applies a plan for as long as the hold lives.
    ///
    /// # Errors
    /// As [`Session::apply`].
    pub fn hold(mut self, plan: &SettingsPlan) -> Result<Hold, SettingsError> {
        let plan = plan.again(&self.system)?;
        let before = self.journal.clone();
        self.journal.layers.push(Layer {
            why: Why::Held,
            settings: journalled(&self.system, &plan).collect(),
        });
        let requests = self.execute(&plan, before)?;
        Ok(Hold::new(Holding {
            own: self.top_layer(),
            session: self,
            requests,
            left: None,
            lent: Restored::default(),
            tenant: None,
        }))
    }

    /// Notes the old values of what a process is going to change again and again ([`Hold::set`]), and changes nothing yet.
    /// What somebody else changes meanwhile is not put back.
    ///
    /// # Errors
    /// A setting cannot be read, or the journal cannot be written.
    pub fn reserve(mut self, plan: &SettingsPlan) -> Result<Hold, SettingsError> {
        let plan = plan.again(&self.system)?;
        self.journal.layers.push(Layer {
            why: Why::Reserved,
            settings: plan
                .changes
                .iter()
                .map(|change| entry(&self.system, change))
                .collect(),
        });
        journal::save(&self.journal, &self.store)?;
        Ok(Hold::new(Holding {
            own: self.top_layer(),
            session: self,
            requests: Vec::new(),
            left: Some(Vec::new()),
            lent: Restored::default(),
            tenant: None,
        }))
    }

    /// Place of the topmost layer in the journal.
    fn top_layer(&self) -> usize {
        self.journal.layers.len().saturating_sub(1)
    }

    /// Journal to disk, then the writes, then the comparison. After an error everything of the plan is
    /// put back and the journal is the one of `before`.
    fn execute(
        &mut self,
        plan: &SettingsPlan,
        before: Journal,
    ) -> Result<Vec<File>, SettingsError> {
        if let Err(e) = journal::save(&self.journal, &self.store) {
            self.journal = before;
            return Err(e);
        }
        let mut requests = Vec::new();
        let written = plan
            .changes
            .iter()
            .try_for_each(|change| self.write(change, &mut requests))
            // Once more: one setting can have changed another.
            .and_then(|()| plan.changes.iter().try_for_each(|c| self.is_in_force(c)));
        let Err(error) = written else {
            return Ok(requests);
        };
        drop(requests);
        let undo: Vec<Entry> = journalled(&self.system, plan).collect();
        let mut restored = Restored::default();
        // If that fails, too, the journal still says what was.
        if self.put_back(&undo, &mut restored).is_empty() {
            self.journal = before;
            journal::save(&self.journal, &self.store)?;
            self.store.was_for_nothing();
        }
        Err(error)
    }

    fn write(&self, change: &Change, requests: &mut Vec<File>) -> Result<(), SettingsError> {
        let Some(new) = &change.new else {
            return Ok(());
        };
        let now = self.system.read(&change.key)?;
        if same(change.key.setting, &now, new) && change.key.setting.mechanism != Access::Held {
            return Ok(());
        }
        requests.extend(write(&self.system, &change.key, new)?);
        verify(&self.system, &change.key, new)
    }

    fn is_in_force(&self, change: &Change) -> Result<(), SettingsError> {
        match &change.new {
            Some(new) => verify(&self.system, &change.key, new),
            None => Ok(()),
        }
    }

    /// Puts everything back to what it was before the first apply.
    ///
    /// # Errors
    /// [`SettingsError::NotRestored`] with every setting that could not be; the journal keeps them.
    pub fn restore(&mut self) -> Result<Restored, SettingsError> {
        let mut restored = std::mem::take(&mut self.recovered);
        let left = self.left_by_the_dead();
        for index in 0..self.journal.layers.len() {
            let notes = self.leave_foreign(index, &left);
            restored.notes.extend(notes);
        }
        let oldest = self.journal.oldest();
        let failed = self.put_back(&oldest, &mut restored);
        self.keep_failed(oldest, &failed);
        let saved = journal::save(&self.journal, &self.store);
        not_restored(failed)?;
        saved.map(|()| restored)
    }

    /// Leaves only what could not be put back in the journal. What a process had reserved that died stays so: when it is back,
    /// it may be somebody else's.
    fn keep_failed(&mut self, oldest: Vec<Entry>, failed: &[Failed]) {
        let reserved = |key: &SettingKey| {
            let mut layers = self.journal.layers.iter();
            layers.all(|layer| {
                layer.why == Why::Reserved || layer.settings.iter().all(|entry| entry.key != *key)
            })
        };
        let (mut applied, mut waiting) = (Vec::new(), Vec::new());
        for entry in oldest {
            match failed.iter().find(|(key, _)| *key == entry.key) {
                Some((key, error)) if is_away(error) && reserved(key) => waiting.push(entry),
                Some(_) => applied.push(entry),
                None => {}
            }
        }
        let layers = [(Why::Applied, applied), (Why::Reserved, waiting)];
        let layers = layers.map(|(why, settings)| Layer { why, settings });
        self.journal.layers = layers
            .into_iter()
            .filter(|l| !l.settings.is_empty())
            .collect();
    }

    /// Puts a layer back. What cannot be put back stays in it; else the layer goes.
    fn restore_layer(&mut self, index: usize) -> Result<Restored, SettingsError> {
        let mut restored = Restored::default();
        let Some(layer) = self.journal.layers.get(index) else {
            return Ok(restored);
        };
        let failed = self.put_back(&layer.settings, &mut restored);
        let layer = &mut self.journal.layers[index];
        layer
            .settings
            .retain(|entry| failed.iter().any(|(key, _)| *key == entry.key));
        if layer.settings.is_empty() {
            self.journal.layers.remove(index);
        }
        let saved = journal::save(&self.journal, &self.store);
        let (away, failed): (Vec<Failed>, Vec<Failed>) =
            failed.into_iter().partition(|(_, error)| is_away(error));
        not_restored(failed)?;
        saved?;
        restored.away = away.iter().map(|(_, error)| error.to_string()).collect();
        Ok(restored)
    }

    /// Takes what somebody else has changed since we left it out of a layer that was reserved, so that it stays as it is; a
    /// note for each.
    fn leave_foreign(&mut self, layer: usize, left: &[Left]) -> Vec<String> {
        let applied = self.journal.layers.iter().filter(|l| l.why == Why::Applied);
        let applied: Vec<SettingKey> = applied
            .flat_map(|layer| &layer.settings)
            .map(|entry| entry.key.clone())
            .collect();
        let system = &self.system;
        let reserved = self.journal.layers.get_mut(layer);
        let Some(reserved) = reserved.filter(|layer| layer.why == Why::Reserved) else {
            return Vec::new();
        };
        let mut notes = Vec::new();
        reserved.settings.retain(|entry| {
            let Some(found) = foreign_value(system, entry, left) else {
                return true;
            };
            // Otherwise a restore of what was applied writes it all the same.
            if !applied.contains(&entry.key) {
                notes.push(foreign_note(entry, &found));
            }
            false
        });
        if !notes.is_empty() {
            // If the settings that are ours cannot be put back, the next restore must not touch these either. An error
            // comes again when the layer goes.
            let _ = journal::save(&self.journal, &self.store);
        }
        notes
    }

    /// Tries each; returns those that could not be put back.
    fn put_back(&self, entries: &[Entry], restored: &mut Restored) -> Vec<Failed> {
        let live = self.system.root().is_live();
        let mut changes: Vec<Change> = entries
            .iter()
            // The kernel has taken these back when the process ended.
            .filter(|e| !(live && e.key.setting.mechanism == Access::Held))
            .map(|e| Change {
                key: e.key.clone(),
                // What cannot be read is written anyway.
                old: self.system.read(&e.key).unwrap_or_default(),
                new: Some(e.old.clone()),
            })
            .collect();
        in_order(&mut changes, |c| c.new.as_deref());
        let noted = |key: &SettingKey| {
            let entry = entries.iter().find(|entry| entry.key == *key)?;
            entry.drive.as_ref()
        };
        let mut failed = Vec::new();
        for mut change in changes {
            let key = change.key.clone();
            if !self.system.root().exists(&key.path()) && !self.captured_drive(&change) {
                let away = SettingsError::Away {
                    key: key.to_string(),
                    path: self.system.root().path(&key.path()),
                    old: change.new.unwrap_or_default(),
                };
                failed.push((key, away));
                continue;
            }
            if let (Some(now), Some(noted)) = (identity(&self.system, &key.at), noted(&key))
                && now != *noted
            {
                restored.notes.push(format!(
                    "{key} is of another drive now ({now}, after {noted}); nothing to put back"
                ));
                continue;
            }
            let old = change.new.clone().unwrap_or_default();
            // Read again: one setting can have changed another meanwhile.
            change.old = self.system.read(&key).unwrap_or_default();
            if same(key.setting, &change.old, &old) {
                restored.unchanged += 1;
                continue;
            }
            let result = write(&self.system, &key, &old);
            let result = result.map_err(SettingsError::from);
            match result.and_then(|_| verify(&self.system, &key, &old)) {
                Ok(()) => restored.written.push(change),
                Err(e) => failed.push((key, e)),
            }
        }
        failed
    }

    /// A captured drive has no device, only its answers.
    fn captured_drive(&self, change: &Change) -> bool {
        matches!(change.key.setting.mechanism, Access::NvmeFeature(_))
            && !self.system.root().is_live()
    }

    /// Notes what a reserved setting is going to have, if the journal does not say so: after a kill, nobody else knows
    /// what was ours.
    fn note_written(&mut self, key: &SettingKey, value: &str) -> Result<(), SettingsError> {
        let Some(entry) = self.journal.held_mut(key) else {
            return Ok(());
        };
        let known = [&entry.old].into_iter().chain(&entry.new);
        if known.chain(&entry.written).any(|known| known == value) {
            return Ok(());
        }
        // Until the new one is written, the one before is there.
        if entry.written.len() == MOST_WRITTEN {
            entry.written.remove(0);
        }
        entry.written.push(value.to_owned());
        journal::save(&self.journal, &self.store)
    }

    /// A journal of an earlier boot: the settings of the kernel are gone with it, and what the present
    /// boot has set is not ours. Only what still has the value that was written is put back.
    /// Returns whether the journal has changed.
    fn forget_other_boot(&mut self) -> bool {
        let now = boot(self.system.root());
        if self.journal.boot == now || self.journal.layers.is_empty() {
            return false;
        }
        let mut forgotten = 0;
        for layer in &mut self.journal.layers {
            let before = layer.settings.len();
            layer.settings.retain(|entry| {
                let Ok(found) = self.system.read(&entry.key) else {
                    return false;
                };
                let mut written = entry.new.iter().chain(&entry.written);
                written.any(|written| same(entry.key.setting, written, &found))
            });
            forgotten += before - layer.settings.len();
        }
        self.journal.boot = now;
        self.recovered.notes.push(format!(
            "the machine was restarted since the last apply, which has reset {forgotten} setting(s) by itself"
        ));
        true
    }
}

/// What could not be put back, and why.
type Failed = (SettingKey, SettingsError);

/// Whether a setting is only away for the moment.
const fn is_away(error: &SettingsError) -> bool {
    matches!(error, SettingsError::Away { .. })
}

fn not_restored(failed: Vec<Failed>) -> Result<(), SettingsError> {
    if failed.is_empty() {
        return Ok(());
    }
    let errors = failed.into_iter().map(|(_, error)| error).collect();
    Err(SettingsError::NotRestored(errors))
}

/// What the journal has to know of a plan.
fn journalled<'a>(system: &'a System, plan: &'a SettingsPlan) -> impl Iterator<Item = Entry> + 'a {
    let along = |change: &Change| {
        plan.differing().any(|cause| {
            cause.key.at == change.key.at
                && cause.key.setting.changes.contains(&change.key.setting.name)
        })
    };
    plan.changes
        .iter()
        .filter(move |c| c.differs() || along(c))
        .map(|change| entry(system, change))
}

fn entry(system: &System, change: &Change) -> Entry {
    Entry {
        key: change.key.clone(),
        old: change.old.clone(),
        new: change.new.clone(),
        written: Vec::new(),
        drive: identity(system, &change.key.at),
    }
}

/// Model and serial number of a drive from sysfs, which does not wake it. `None` if sysfs has neither, or it is no drive.
fn identity(system: &System, of: &At) -> Option<String> {
    let At::Drive(name) = of else { return None };
    let file = |file: &str| {
        let path = format!("sys/class/nvme/{name}/{file}");
        system.root().optional(&path).unwrap_or_default()
    };
    let model = file("model");
    (!model.is_empty()).then(|| format!("{model} {}", file("serial")))
}

/// What is held, and has to be put back.
#[derive(Debug)]
struct Holding {
    session: Session,
    /// Place of this hold's layer in the journal; those above are a tenant's.
    own: usize,
    /// Requests that last as long as these files are open.
    requests: Vec<File>,
    /// What was reserved and has been set, as we left it; `None`: all was set at once, and all is put back.
    left: Option<Vec<Left>>,
    /// What was put back after tenants that failed to start.
    lent: Restored,
    /// Process that changes further settings under the same lock.
    tenant: Option<Arc<dyn Tenant>>,
}

/// A process changing settings above a [`Hold`], under the same lock.
pub trait Tenant: Debug + Send + Sync {
    /// Ends the process, and waits for its end.
    fn leave(&self);
}

/// How we left a setting.
#[derive(Debug)]
struct Left {
    key: SettingKey,
    /// What was written. After a write that failed also what was there before: it can be either.
    values: Vec<String>,
}

impl Holding {
    fn release(self) -> Result<(Session, Restored), SettingsError> {
        let Self {
            mut session,
            own,
            requests,
            left,
            lent: mut restored,
            tenant,
        } = self;
        if let Some(tenant) = tenant {
            tenant.leave();
            if let Err(error) = session.reload(own) {
                drop(requests);
                // Only the journal on disk knows what the tenant has changed.
                session.put_back_unsaved(own, left.as_deref());
                return Err(error);
            }
        }
        // Also after a tenant that failed to start.
        let above = session.restore_above(own);
        drop(requests);
        let notes = left.map(|left| session.leave_foreign(own, &left));
        // Even where the tenant's settings could not be put back.
        let own_restored = session.restore_layer(own);
        restored.add(above?);
        restored.add(own_restored?);
        restored.notes.extend(notes.unwrap_or_default());
        Ok((session, restored))
    }

    fn set(&mut self, key: &SettingKey, value: Option<&str>) -> Result<(), SettingsError> {
        let Some(entry) = self.session.journal.held(key) else {
            return Err(SettingsError::NotHeld(key.to_string()));
        };
        let value = value.unwrap_or(&entry.old).to_owned();
        self.session.system.check(key, &value)?;
        if self.left.is_some() {
            self.session.note_written(key, &value)?;
        }
        let value = value.as_str();
        let Some(entry) = self.session.journal.held(key) else {
            return Err(SettingsError::NotHeld(key.to_string()));
        };
        let system = &self.session.system;
        let mut unnoted = Vec::new();
        let values = match &mut self.left {
            None => &mut unnoted,
            Some(left) => {
                let at = left.iter().position(|left| left.key == *key);
                let at = at.unwrap_or_else(|| {
                    left.push(Left {
                        key: key.clone(),
                        values: vec![entry.old.clone()],
                    });
                    left.len() - 1
                });
                &mut left[at].values
            }
        };
        if !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
        write(system, key, value)?;
        let result = verify(system, key, value);
        match &result {
            Ok(()) => values.retain(|known| known == value),
            // Some drivers round frequencies; of all else it is somebody else's.
            Err(SettingsError::ReadBack { found, .. }) if key.setting.name == "frequency-min" => {
                let found = found.clone();
                values.push(found.clone());
                self.session.note_written(key, &found)?;
            }
            Err(_) => {}
        }
        result
    }
}

/// What somebody else has set a setting to since we left it: what it should be, and what it is.
fn foreign(
    system: &System,
    entry: &Entry,
    left: &[Left],
) -> Result<Option<(String, String)>, SettingsError> {
    let found = system.read(&entry.key)?;
    let left = left.iter().find(|left| left.key == entry.key);
    let values = left.map_or(std::slice::from_ref(&entry.old), |left| &left.values);
    let ours = values
        .iter()
        .any(|value| left_of(system, &entry.key, value, &found));
    let expected = values.first().unwrap_or(&entry.old);
    Ok((!ours).then(|| (expected.clone(), found)))
}

/// What somebody else has set a reserved setting to, if that is to stay.
fn foreign_value(system: &System, entry: &Entry, left: &[Left]) -> Option<String> {
    // What cannot be read is written anyway.
    let (_, found) = foreign(system, entry, left).ok()??;
    // Without a new value the kernel has changed it, along with another.
    (entry.new.is_some() && !same(entry.key.setting, &entry.old, &found)).then_some(found)
}

fn foreign_note(entry: &Entry, found: &str) -> String {
    let found = match entry.key.setting.mechanism {
        Access::NvmeFeature(_) => "has another table".to_owned(),
        Access::Text | Access::Held => format!("is '{found}'"),
    };
    format!(
        "{} {found}: somebody else has set it, so it stays",
        entry.key
    )
}

type Slot = Arc<Mutex<Option<Holding>>>;

/// Guards that are alive, for [`restore_before_exit`].
static ALIVE: Mutex<Vec<Weak<Mutex<Option<Holding>>>>> = Mutex::new(Vec::new());

/// Settings that are held; they are put back when it is dropped. After a kill, the next
/// [`Session::open`] or `wakepath restore` does it.
#[derive(Debug)]
pub struct Hold(Slot);

impl Hold {
    fn new(holding: Holding) -> Self {
        let slot = Arc::new(Mutex::new(Some(holding)));
        let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
        alive.retain(|other| other.strong_count() > 0);
        alive.push(Arc::downgrade(&slot));
        Self(slot)
    }

    /// Puts the settings back and returns the session for the next plan; `None` if
    /// [`restore_before_exit`] has put them back already.
    ///
    /// # Errors
    /// [`SettingsError::NotRestored`]; the journal keeps what could not be put back.
    pub fn release(self) -> Result<Option<(Session, Restored)>, SettingsError> {
        take(&self.0).map(Holding::release).transpose()
    }
}

impl Hold {
    /// Lends the lock to a process started by `start`, for [`Session::lent`]. The process ends before these settings are put
    /// back. `Ok(None)` if [`restore_before_exit`] came first.
    ///
    /// # Errors
    /// From `start`, whose argument is an error if the lock cannot be shared.
    pub fn lend<T: Tenant + 'static, E>(
        &self,
        start: impl FnOnce(io::Result<OwnedFd>) -> Result<Arc<T>, E>,
    ) -> Result<Option<Arc<T>>, E> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(holding) = slot.as_mut() else {
            return Ok(None);
        };
        match start(holding.session.store.lend()) {
            Ok(tenant) => {
                holding.tenant = Some(Arc::<T>::clone(&tenant));
                Ok(Some(tenant))
            }
            Err(error) => {
                let (session, own) = (&mut holding.session, holding.own);
                // The journal keeps what cannot be put back.
                if let Ok(restored) = session
                    .reload(own)
                    .and_then(|()| session.restore_above(own))
                {
                    holding.lent.add(restored);
                }
                Err(error)
            }
        }
    }

    /// Changes a setting that is held, or, with `None`, puts its old value back.
    ///
    /// # Errors
    /// It is not held, cannot be written, or reads back differently.
    pub fn set(&self, key: &SettingKey, value: Option<&str>) -> Result<(), SettingsError> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.as_mut() {
            Some(holding) => holding.set(key, value),
            None => Err(SettingsError::NotHeld(key.to_string())),
        }
    }

    /// What a setting that is held was before; `None` if it is not held.
    pub fn before(&self, key: &SettingKey) -> Option<String> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holding = slot.as_ref()?;
        Some(holding.session.journal.held(key)?.old.clone())
    }

    /// Notes the old values of further settings, as [`Session::reserve`] does.
    ///
    /// # Errors
    /// As there; then none of them is held.
    pub fn add(&self, plan: &SettingsPlan) -> Result<(), SettingsError> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = slot.as_mut().map(|holding| &mut holding.session) else {
            return Ok(());
        };
        let new = plan.changes.iter();
        let new = new.filter(|change| session.journal.held(&change.key).is_none());
        let new: Vec<Entry> = new.map(|change| entry(&session.system, change)).collect();
        let before = session.journal.clone();
        session.journal.hold(new);
        let saved = journal::save(&session.journal, &session.store);
        if saved.is_err() {
            session.journal = before;
        }
        saved
    }

    /// Forgets a setting that is held, so that it stays as it is, after a kill, too: what it belonged to is gone.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn forget(&self, key: &SettingKey) -> Result<(), SettingsError> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_mut().map_or(Ok(()), |holding| {
            let session = &mut holding.session;
            session.journal.forget_held(key);
            journal::save(&session.journal, &session.store)
        })
    }

    /// What somebody else has set a setting that was reserved to since [`Hold::set`]: what it should be, and what it is.
    ///
    /// # Errors
    /// It is not held, or cannot be read.
    pub fn foreign(&self, key: &SettingKey) -> Result<Option<(String, String)>, SettingsError> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = slot.as_ref().and_then(|holding| {
            let entry = holding.session.journal.held(key)?;
            Some((&holding.session.system, entry, holding.left.as_deref()?))
        });
        let Some((system, entry, left)) = held else {
            return Err(SettingsError::NotHeld(key.to_string()));
        };
        foreign(system, entry, left)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(holding) = take(&self.0) {
            // There is no one to tell, and the journal keeps what is left to do.
            let _ = holding.release();
        }
    }
}

fn take(slot: &Slot) -> Option<Holding> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Puts back what this process holds; to be called before `std::process::exit`, which drops nothing.
/// A hold that is just being released on another thread is left to it.
///
/// # Errors
/// The first thing that could not be put back; the rest is tried all the same.
pub fn restore_before_exit() -> Result<(), SettingsError> {
    let alive = std::mem::take(&mut *ALIVE.lock().unwrap_or_else(PoisonError::into_inner));
    let slots = alive.iter().filter_map(Weak::upgrade);
    let results: Vec<_> = slots
        .filter_map(|slot| take(&slot))
        .map(Holding::release)
        .collect();
    results.into_iter().try_for_each(|r| r.map(|_| ()))
}
