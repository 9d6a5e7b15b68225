//! Settings that are applied at every boot: `/etc/wakepath/settings.toml`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wakepath_policies::mechanism::Kind;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::capture::class::MachineClass;
use wakepath_system::{DriveIdentity, System};
use wakepath_units::spelling::toml_error_with_key;

use crate::trusted_file::{self, TrustedFileError};
use crate::{PowerSupply, SettingsError, SupplySets, config_folder};

/// Name of the file of persistent settings.
pub(crate) const FILE: &str = "settings.toml";
/// Size limit of the file of persistent settings, in bytes.
const MAX_BYTES: u64 = 1 << 16;
/// The word on the kernel's command line that switches persistent settings off.
pub const OFF_WORD: &str = "wakepath.persist=0";
/// Names of the policies that a table `[[drive]]` may have.
pub(crate) const DRIVE_POLICIES: &str = "apst, drive-latency, read-ahead or rq-affinity";

/// Policy sets that are applied at every boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentSettings {
    /// The policy sets of all but the drives below.
    pub sets: SupplySets,
    /// The CPUs that all sets are for; `None`: all CPUs.
    pub cpus: Option<Vec<usize>>,
    /// The processor that the sets were made for; on another processor they are not applied. `None`: any.
    pub processor: Option<String>,
    /// Models of the drives that the sets were made for; other drives are left out. `None`: any.
    pub drives: Option<Vec<String>>,
    /// Settings that somebody else changes are written again.
    pub enforce: bool,
    /// Policies of drives by model, instead of the policies of drives in the other sets.
    pub drive_sets: Vec<DriveModelSets>,
    /// The file that the settings were read from, for messages; `None`: they are from the command line.
    pub(crate) origin: Option<PathBuf>,
}

/// Policy sets for the drives of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveModelSets {
    /// The model, as the kernel tells it.
    pub model: String,
    /// The policy sets of these drives.
    pub sets: SupplySets,
}

/// The keys of the file of persistent settings.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PersistentFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mains: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    battery: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpus: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drives: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    enforce: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drive: Vec<DriveTable>,
}

/// The keys of a table `[[drive]]`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DriveTable {
    model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mains: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    battery: Option<String>,
}

/// Comment at the start of a new file of persistent settings.
const HEAD: &str = "\
# Settings that are applied at every boot. `wakepath apply --check` checks this file, `wakepath restore` removes it.
# policy: a policy set, as for `wakepath apply`. mains, battery: the set for that power supply instead.
# cpus: a list such as 0-3,8. processor: only where this one is found. drives: only drives of these models.
# enforce = true: what somebody else changes is written again. [[drive]]: the policies of one model of drives instead.
";

impl PersistentSettings {
    /// Persistent settings with one set, for the processor and the drives of this machine: for one power supply, or with
    /// `None` for each.
    pub fn for_this_machine(
        system: &System,
        supply: Option<PowerSupply>,
        set: PolicySet,
        cpus: Option<Vec<usize>>,
    ) -> Self {
        let mut settings = Self {
            cpus,
            processor: read_processor_name(system),
            ..Self::default()
        };
        *settings.sets.own_or_any_set_mut(supply) = Some(set);
        settings.note_machine_drives(system);
        settings
    }

    /// Persistent settings with one set, for other machines: those with this processor, and for their drives of these models.
    pub fn for_machines(
        set: PolicySet,
        processor: Option<String>,
        drives: Option<Vec<String>>,
    ) -> Self {
        Self {
            sets: SupplySets {
                any_supply: Some(set),
                ..SupplySets::default()
            },
            processor,
            drives,
            ..Self::default()
        }
    }

    /// Puts a set into the persistent settings of the file, for one power supply, or with `None` for those without a set of
    /// their own. All else of the file stays. Returns also what the user has to know before the file is written.
    ///
    /// # Errors
    /// The file has a mistake, or sets for other CPUs; or a set for any supply would not be in force, since the file has
    /// another one for the present supply.
    pub fn load_and_put_set(
        system: &System,
        supply: Option<PowerSupply>,
        set: PolicySet,
        cpus: Option<Vec<usize>>,
    ) -> Result<(Self, Vec<String>), SettingsError> {
        let mut notes = Vec::new();
        let mut settings = match (Self::load(system), supply) {
            (Ok(loaded), _) => loaded.unwrap_or_default(),
            (Err(error), None) => {
                notes.push(format!("{error}; the file is written anew"));
                Self::default()
            }
            (Err(error), Some(_)) => return Err(error),
        };
        let path = Self::file_path(system);
        let present = PowerSupply::read(system.root());
        if supply.is_none() && settings.sets.own_set_for_supply(present).is_some() {
            let message = format!(
                "has a set of its own for {present}, which this machine is on, so that a set for any power supply would \
                 not be in force; give --on {present}, or take the line `{present}` out"
            );
            return Err(persistent_file_error(&path, message));
        }
        let is_new = settings == Self::default();
        // What is left without the set that is replaced stays.
        *settings.sets.own_or_any_set_mut(supply) = None;
        let others_stay = settings.sets.present().next().is_some();
        if !is_new && settings.cpus != cpus {
            let [found, given] = [&settings.cpus, &cpus].map(|list| describe_cpus(list.as_deref()));
            if others_stay {
                let message = format!(
                    "has a set for {found}, and all sets of it are for the same CPUs; give the same, or \
                     `wakepath restore` first"
                );
                return Err(persistent_file_error(&path, message));
            }
            notes.push(format!(
                "{}: was for {found}, and is for {given} now",
                path.display()
            ));
        }
        let stay = settings.format_sets_without_versions();
        if !stay.is_empty() {
            notes.push(format!("{}: other sets of it stay: {stay}", path.display()));
        }
        *settings.sets.own_or_any_set_mut(supply) = Some(set);
        settings.cpus = cpus;
        settings.processor = read_processor_name(system);
        settings.note_machine_drives(system);
        settings.origin = None;
        Ok((settings, notes))
    }

    /// Adds this machine's drives to the models that the sets are for, if a set has policies of drives.
    fn note_machine_drives(&mut self, system: &System) {
        if !self.sets.present().any(has_drive_policies) {
            return;
        }
        for (_, model) in read_drive_models(system) {
            let has_own_set = self.drive_sets.iter().any(|own| own.model == model);
            let known = self.drives.get_or_insert_default();
            if !has_own_set && !known.contains(&model) {
                known.push(model);
            }
        }
    }

    /// The policy set for a power supply; `None`: with this supply everything stays as it is.
    pub fn set_for_supply_or_any(&self, supply: PowerSupply) -> Option<&PolicySet> {
        let found = self.sets.key_and_set_for_supply(supply);
        found.map(|(_, set)| set)
    }

    /// Path of the file of persistent settings, for messages.
    pub fn file_path(system: &System) -> PathBuf {
        system
            .root()
            .absolute_path(&format!("{}/{FILE}", config_folder::CONFIG_FOLDER))
    }

    /// Reads the file of persistent settings; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, somebody else could have written it, or it has a mistake.
    pub fn load(system: &System) -> Result<Option<Self>, SettingsError> {
        let Some(text) = Self::read_text_if_trusted(system)? else {
            return Ok(None);
        };
        Self::parse_file(&Self::file_path(system), &text).map(Some)
    }

    /// Reads the text of the file of persistent settings; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or somebody else could have written it.
    pub(crate) fn read_text_if_trusted(system: &System) -> Result<Option<String>, SettingsError> {
        let path = Self::file_path(system);
        let folder = config_folder::open_config_folder(system.root(), false)
            .map_err(|e| unreadable_file_error(&path, &e))?;
        let Some(folder) = folder else {
            return Ok(None);
        };
        let opened =
            wakepath_files::open_regular_in_folder(&folder, FILE, rustix::fs::OFlags::RDONLY);
        let file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|e| unreadable_file_error(&path, &e))?,
        };
        let about = std::fs::File::from(folder).metadata();
        let checked = about
            .map_err(TrustedFileError::Read)
            .and_then(|about| trusted_file::check_folder_owner_and_mode(&about))
            .and_then(|()| trusted_file::read_open_file_if_trusted(file, MAX_BYTES));
        checked.map(Some).map_err(|error| match error {
            TrustedFileError::Read(source) => unreadable_file_error(&path, &source),
            TrustedFileError::Unsafe(why) => persistent_file_error(
                &path,
                format!("{why}; wakepath runs as root at boot and would do what it says"),
            ),
        })
    }

    /// Reads a file that is to become the file of persistent settings. Anybody may have written it.
    ///
    /// # Errors
    /// The file cannot be read, or it has a mistake.
    pub fn load_candidate(path: &std::path::Path) -> Result<Self, SettingsError> {
        let text = wakepath_files::read_text_up_to(path, MAX_BYTES)
            .map_err(|error| unreadable_file_error(path, &error))?;
        Self::parse_file(path, &text)
    }

    fn parse_file(path: &std::path::Path, text: &str) -> Result<Self, SettingsError> {
        let settings = Self::parse(text).map_err(|message| persistent_file_error(path, message))?;
        Ok(Self {
            origin: Some(path.to_owned()),
            ..settings
        })
    }

    /// Parses the text of a file of persistent settings.
    ///
    /// # Errors
    /// The mistake, with its line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: PersistentFile = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.get(..start).unwrap_or(text).matches('\n').count() + 1;
            format!(
                "line {line}: {}",
                toml_error_with_key(error.message(), text, start)
            )
        })?;
        let drive_sets = parse_drive_tables(file.drive)?;
        let has_set = file.policy.is_some() || file.mains.is_some() || file.battery.is_some();
        // A table without a set keeps the other sets away from its drives.
        if !has_set
            && drive_sets
                .iter()
                .all(|own| own.sets.present().next().is_none())
        {
            return Err("no policy set in it: expected `policy`, `mains`, `battery` or [[drive]] with one; `wakepath restore` removes the file".to_owned());
        }
        let cpus = file.cpus.map(|list| {
            let parsed =
                wakepath_units::cpus::parse_cpu_list(&list).filter(|cpus| !cpus.is_empty());
            parsed.ok_or_else(|| format!("cpus: `{list}` is not a list such as 0-3,8"))
        });
        Ok(Self {
            sets: SupplySets::parse_texts(
                [file.policy, file.mains, file.battery],
                parse_nonempty_set,
            )?,
            cpus: cpus.transpose()?,
            processor: file.processor,
            drives: file.drives,
            enforce: file.enforce,
            drive_sets,
            origin: None,
        })
    }

    /// The policy sets as text, without versions, which are those of the running kernel. A single set for any supply is
    /// its own text.
    pub fn format_sets_without_versions(&self) -> String {
        let by_supply = self.sets.keys_and_sets().into_iter();
        let texts = by_supply.filter_map(|(key, set)| {
            let text = format_set_without_versions(set?);
            Some(match key {
                "policy" => text,
                supply => format!("on {supply} {text}"),
            })
        });
        let by_model = self.drive_sets.iter().flat_map(|own| {
            let by_supply = own.sets.keys_and_sets().into_iter();
            by_supply.filter_map(|(key, set)| {
                let text = format_set_without_versions(set?);
                Some(match key {
                    "policy" => format!("{text} for {}", own.model),
                    supply => format!("on {supply} {text} for {}", own.model),
                })
            })
        });
        texts.chain(by_model).collect::<Vec<_>>().join(", ")
    }

    /// The text of the file of persistent settings, comments included.
    pub fn to_commented_text(&self) -> String {
        format!("{HEAD}\n{}", self.to_toml_without_comments())
    }

    /// Keys and values of the file of persistent settings, without comments.
    pub(crate) fn to_toml_without_comments(&self) -> String {
        let [policy, mains, battery] = format_texts(&self.sets);
        let file = PersistentFile {
            policy,
            mains,
            battery,
            cpus: self.cpus.as_deref().map(format_cpu_list_of),
            processor: self.processor.clone(),
            drives: self.drives.clone(),
            enforce: self.enforce,
            drive: self.drive_sets.iter().map(drive_table).collect(),
        };
        // Texts can always be written as TOML.
        toml::to_string(&file).unwrap_or_default()
    }

    /// Removes the file of persistent settings. Returns whether there was one.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove_file(system: &System) -> Result<bool, SettingsError> {
        config_folder::remove_config_file(system.root(), FILE).map_err(|error| {
            persistent_file_error(
                &Self::file_path(system),
                format!("cannot be removed: {error}"),
            )
        })
    }
}

/// Whether a set has policies of drives.
pub(crate) fn has_drive_policies(set: &PolicySet) -> bool {
    set.policies().iter().any(is_drive_policy)
}

pub(crate) fn is_drive_policy(policy: &PolicySpec) -> bool {
    matches!(
        policy.kind(),
        Kind::Apst | Kind::DriveLatency | Kind::ReadAhead | Kind::RqAffinity
    )
}

/// Names and models of the machine's NVMe drives, without those whose model sysfs does not tell.
pub(crate) fn read_drive_models(system: &System) -> Vec<(String, String)> {
    let names = system.nvme_controller_names().into_iter();
    names
        .map(|name| {
            let model = DriveIdentity::read(system.root(), &name).model;
            (name, model.trim().to_owned())
        })
        .filter(|(_, model)| !model.is_empty())
        .collect()
}

fn parse_drive_tables(tables: Vec<DriveTable>) -> Result<Vec<DriveModelSets>, String> {
    let mut parsed: Vec<DriveModelSets> = Vec::new();
    for table in tables {
        let model = table.model.trim().to_owned();
        let place = format!("[[drive]] {model:?}");
        if model.is_empty() {
            return Err(
                "[[drive]]: `model` names no model, such as that of `wakepath drive list`"
                    .to_owned(),
            );
        }
        if parsed.iter().any(|known| known.model == model) {
            return Err(format!("{place}: the model has a table already"));
        }
        let texts = [table.policy, table.mains, table.battery];
        let sets = SupplySets::parse_texts(texts, |key, text| parse_drive_set(&place, key, text))?;
        parsed.push(DriveModelSets { model, sets });
    }
    Ok(parsed)
}

/// Parses a set in a table `[[drive]]`, which has policies of drives only.
fn parse_drive_set(
    place: &str,
    toml_key: &str,
    text: Option<String>,
) -> Result<Option<PolicySet>, String> {
    let set = parse_nonempty_set(toml_key, text).map_err(|e| format!("{place}: {e}"))?;
    let mut policies = set.iter().flat_map(PolicySet::policies);
    match policies.find(|policy| !is_drive_policy(policy)) {
        None => Ok(set),
        Some(other) => Err(format!(
            "{place}: {toml_key}: {} is no policy of a drive; expected {DRIVE_POLICIES}",
            format_policy_without_version(other)
        )),
    }
}

/// The texts of the keys `policy`, `mains` and `battery`.
fn format_texts(sets: &SupplySets) -> [Option<String>; 3] {
    sets.keys_and_sets()
        .map(|(_, set)| set.map(format_set_without_versions))
}

fn drive_table(sets: &DriveModelSets) -> DriveTable {
    let [policy, mains, battery] = format_texts(&sets.sets);
    DriveTable {
        model: sets.model.clone(),
        policy,
        mains,
        battery,
    }
}

fn describe_cpus(cpus: Option<&[usize]>) -> String {
    cpus.map_or_else(
        || "all CPUs".to_owned(),
        |cpus| format!("--cpus {}", format_cpu_list_of(cpus)),
    )
}

fn parse_nonempty_set(toml_key: &str, text: Option<String>) -> Result<Option<PolicySet>, String> {
    let Some(text) = text else {
        return Ok(None);
    };
    let set: PolicySet = text.parse().map_err(|e| format!("{toml_key}: {e}"))?;
    if set.is_empty() {
        return Err(format!(
            "{toml_key}: it names no policy; name one, as in {toml_key} = \"teo\""
        ));
    }
    Ok(Some(set))
}

pub(crate) fn format_cpu_list_of(cpus: &[usize]) -> String {
    let numbers: Vec<u32> = cpus.iter().map(|cpu| *cpu as u32).collect();
    wakepath_units::cpus::format_cpu_list(&numbers)
}

/// A policy set as text, without versions.
pub(crate) fn format_set_without_versions(set: &PolicySet) -> String {
    let profile = set.profile().map(ToString::to_string);
    let policies = set.policies().iter().map(format_policy_without_version);
    profile
        .into_iter()
        .chain(policies)
        .collect::<Vec<_>>()
        .join(" + ")
}

pub(crate) fn format_policy_without_version(policy: &PolicySpec) -> String {
    let name = policy.mechanism().name;
    let keys: Vec<String> = policy
        .given_keys()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if keys.is_empty() {
        return name.to_owned();
    }
    format!("{name}[{}]", keys.join(","))
}

/// Whether the kernel's command line leaves persistent settings out.
pub(crate) fn is_persistence_off_on_command_line(system: &System) -> bool {
    let command_line = system
        .root()
        .read_text_if_readable("proc/cmdline")
        .unwrap_or_default();
    command_line.split_whitespace().any(|word| word == OFF_WORD)
}

/// Name of the machine's processor; `None` where the kernel does not tell.
pub(crate) fn read_processor_name(system: &System) -> Option<String> {
    let name = MachineClass::read(system.root()).processor.name;
    (!name.is_empty()).then_some(name)
}

fn unreadable_file_error(path: &std::path::Path, error: &std::io::Error) -> SettingsError {
    persistent_file_error(path, format!("cannot be read: {error}"))
}

pub(crate) fn persistent_file_error(path: &std::path::Path, message: String) -> SettingsError {
    SettingsError::Persistent {
        path: path.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let settings = PersistentSettings {
            sets: SupplySets {
                any_supply: Some("teo + cpu-latency[limit=20us,cpus=all]".parse().unwrap()),
                mains: None,
                battery: Some("menu + epp[value=power]".parse().unwrap()),
            },
            cpus: Some(vec![0, 1, 2, 8]),
            processor: Some("A \"processor\"".to_owned()),
            drives: Some(vec!["A drive".to_owned(), "Another".to_owned()]),
            enforce: true,
            drive_sets: vec![DriveModelSets {
                model: "A third".to_owned(),
                sets: SupplySets {
                    any_supply: Some("apst + drive-latency[tolerance=25ms]".parse().unwrap()),
                    mains: None,
                    battery: Some("apst".parse().unwrap()),
                },
            }],
            origin: None,
        };
        assert_eq!(
            PersistentSettings::parse(&settings.to_commented_text()),
            Ok(settings)
        );
    }

    #[test]
    fn mistakes_have_their_line_and_a_way_out() {
        for (text, parts) in [
            ("", &["policy"][..]),
            ("\npolcy = 'teo'", &["line 2", "did you mean `policy`"]),
            ("battery = 'tea'", &["battery", "did you mean `teo`"]),
            ("policy = 'tea'", &["policy", "did you mean `teo`"]),
            ("policy = 'teo'\ncpus = 'all'", &["cpus", "0-3,8"]),
            ("policy = 3", &["line 1", "text"]),
            ("policy = ''", &["names no policy", "policy = \"teo\""]),
            ("policy = ' '", &["names no policy"]),
            ("drives = 'A'", &["line 1"]),
            (
                "policy = 'teo'\n[[drive]]\nmodel = 'A'\npolicy = 'teo'",
                &["[[drive]] \"A\": policy: teo is no policy of a drive"],
            ),
            (
                "[[drive]]\nmodel = 'A'\nmains = 'aspt'",
                &["[[drive]] \"A\": mains", "did you mean `apst`"],
            ),
            (
                "[[drive]]\nmodel = 'A'\n[[drive]]\nmodel = 'A '",
                &["\"A\": the model has a table already"],
            ),
            ("[[drive]]\nmodel = ''", &["names no model"]),
            ("[[drive]]\nmodel = 'A'", &["no policy set in it"]),
            ("[[drive]]\npolicy = 'apst'", &["line 1", "model"]),
        ] {
            let message = PersistentSettings::parse(text).unwrap_err();
            for part in parts {
                assert!(message.contains(part), "{text}: {message}");
            }
        }
    }
}
