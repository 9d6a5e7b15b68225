//! Finds drives, and reads the files of drive models.

use std::io;
use std::path::Path;

use serde::Deserialize;

use super::drive::{Flash, half_way_power};
use super::error::description_error;
use super::file::{read_description, read_file_bytes};
use super::validate::check_drive;
use super::{DriveBackground, DriveModel, Figure, Machine, MachineError, WriteBuffer};
use crate::drive::{DriveLibrary, id_ctrl};

/// The drive models that come with wakepath: names and file texts.
pub(super) const BUILTIN: [(&str, &str); 5] = [
    ("sn530", include_str!("../../data/drive_models/sn530.toml")),
    ("760p", include_str!("../../data/drive_models/760p.toml")),
    ("pm991", include_str!("../../data/drive_models/pm991.toml")),
    ("bc511", include_str!("../../data/drive_models/bc511.toml")),
    (
        "kbg40zns",
        include_str!("../../data/drive_models/kbg40zns.toml"),
    ),
];

/// A drive model file: what is not given is as for every drive.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    schema: u32,
    name: String,
    /// A library drive by full name.
    library: String,
    /// Default source for the table's figures.
    source: String,
    read_service_us: Option<Figure>,
    write_service_us: Option<Figure>,
    flush_us: Option<Figure>,
    read_mb_per_s: Option<Figure>,
    write_mb_per_s: Option<Figure>,
    read_stream_mb_per_s: Option<Figure>,
    write_stream_mb_per_s: Option<Figure>,
    spread: Option<Figure>,
    parallel_units: Option<Figure>,
    reads_by_address: Option<Figure>,
    capacity_gb: Option<Figure>,
    buffer: Option<WriteBuffer>,
    flash: Option<Flash>,
    active_w: Option<Figure>,
    idle_w: Option<Figure>,
    transition_w: Option<Figure>,
    rest_after_ms: Option<Figure>,
    rest_exit_us: Option<Figure>,
    background: Option<DriveBackground>,
    #[serde(default)]
    state: Vec<StateFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    ps: usize,
    true_entry_us: Option<Figure>,
    true_exit_us: Option<Figure>,
    power_w: Option<Figure>,
}

/// The first built-in drive model that passes a test of name and text.
fn first_builtin_model(
    is_wanted: impl Fn(&str, &str) -> bool,
) -> Option<(&'static str, &'static str)> {
    let mut models = BUILTIN.into_iter();
    models.find(|(known, text)| is_wanted(known, text))
}

impl DriveModel {
    /// Finds a drive: a built-in model by name; a `.toml` file with a model; another file with a tool's output
    /// ([`id_ctrl`]); or a library drive by any name accepted by [`DriveLibrary::find_one_model`].
    ///
    /// # Errors
    /// The file cannot be read or describes no drive, or the library has no such drive.
    pub fn find(name: &str) -> Result<Self, MachineError> {
        let path = Path::new(name);
        if path.extension().is_some_and(|e| e == "toml") {
            let text = read_description(path)?;
            return Self::parse(&text, name);
        }
        let short = name.trim();
        if let Some((known, text)) =
            first_builtin_model(|known, _| known.eq_ignore_ascii_case(short))
        {
            return Self::parse(text, known);
        }
        if path.is_file() {
            return Self::from_printed_file(path);
        }
        let found = match DriveLibrary::builtin().find_one_model(name) {
            Ok(found) => found,
            Err(error) => return Err(Self::missing_file_error(name).unwrap_or(error.into())),
        };
        let line = format!("library = \"{}\"", found.name);
        let model = match first_builtin_model(|_, text| text.lines().any(|l| l == line)) {
            Some((known, text)) => Self::parse(text, known)?,
            None => Self::from_declared_drive(&found.most_frequent_table().drive),
        };
        Ok(Self {
            note: found.note_if_name_was_partial(name),
            ..model
        })
    }

    /// The error for a name that looks like a missing file; `None` for other names.
    pub fn missing_file_error(name: &str) -> Option<MachineError> {
        let path = Path::new(name);
        let endings = ["txt", "json", "bin", "log", "out", "dump"];
        let ending = path.extension().and_then(|e| e.to_str());
        if path.components().count() < 2 && !ending.is_some_and(|e| endings.contains(&e)) {
            return None;
        }
        let source = match path.metadata() {
            Err(error) => error,
            Ok(_) => io::Error::new(
                io::ErrorKind::InvalidInput,
                "expected a drive's name, or a regular file with the output of nvme id-ctrl or smartctl",
            ),
        };
        Some(MachineError::Read {
            path: path.to_owned(),
            source,
        })
    }

    /// The model of a drive by the output of a tool in a file.
    fn from_printed_file(path: &Path) -> Result<Self, MachineError> {
        let file = path.display().to_string();
        let found = id_ctrl::parse_dump(&file, &read_file_bytes(path)?)?;
        let apst = match found.drive.apsta {
            None => Some("support of APST is not known, and is assumed".to_owned()),
            Some(_) => None,
        };
        let assumed: Vec<String> = found
            .describe_assumptions()
            .into_iter()
            .chain(apst)
            .collect();
        Ok(Self {
            note: (!assumed.is_empty()).then(|| format!("{file}: {}", assumed.join("; "))),
            ..Self::from_declared_drive(&found.drive)
        })
    }

    /// The library drive meant by a short name such as `sn530`, also accepted by [`DriveModel::find`].
    pub fn library_drive_named(short: &str) -> Option<&'static str> {
        let (_, text) = first_builtin_model(|known, _| known.eq_ignore_ascii_case(short.trim()))?;
        text.lines()
            .find_map(|line| line.strip_prefix("library = \"")?.strip_suffix('"'))
    }

    /// Parses and checks a drive model; `origin` names it in errors.
    ///
    /// # Errors
    /// It is no drive model, a value cannot be, or the library has no such drive.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MachineError> {
        let file: ModelFile =
            toml::from_str(text).map_err(|e| description_error(text, origin, &e))?;
        if file.schema != 1 {
            return Err(MachineError::invalid_value(
                origin,
                "schema",
                "this version reads schema 1",
            ));
        }
        let found = DriveLibrary::builtin().find_one_model(&file.library)?;
        let mut model = Self::as_typical_client_drive(&found.most_frequent_table().drive);
        model.name.clone_from(&file.name);
        model.source.clone_from(&file.source);
        model.buffer = file.buffer.clone().or(model.buffer);
        model.flash.clone_from(&file.flash);
        file.override_speeds(&mut model);
        file.override_powers(&mut model)
            .map_err(|message| MachineError::invalid_value(origin, "state.ps", message))?;
        check_drive(&model)
            .map_err(|(key, message)| MachineError::invalid_value(origin, &key, message))?;
        Ok(model)
    }
}

impl ModelFile {
    /// Overrides a drive's speeds and size with those of the model file.
    fn override_speeds(&self, model: &mut DriveModel) {
        for (figure, given) in [
            (&mut model.read_service_us, &self.read_service_us),
            (&mut model.write_service_us, &self.write_service_us),
            (&mut model.flush_us, &self.flush_us),
            (&mut model.read_mb_per_s, &self.read_mb_per_s),
            (&mut model.write_mb_per_s, &self.write_mb_per_s),
            (&mut model.read_stream_mb_per_s, &self.read_stream_mb_per_s),
            (
                &mut model.write_stream_mb_per_s,
                &self.write_stream_mb_per_s,
            ),
            (&mut model.spread, &self.spread),
            (&mut model.parallel_units, &self.parallel_units),
            (&mut model.reads_by_address, &self.reads_by_address),
            (&mut model.capacity_gb, &self.capacity_gb),
        ] {
            override_figure(figure, given.as_ref());
        }
    }

    /// Overrides a drive's powers, and the true times of its power states, with those of the model file.
    fn override_powers(&self, model: &mut DriveModel) -> Result<(), String> {
        let Some(power) = &mut model.power else {
            return Ok(());
        };
        override_figure(&mut power.active_w, self.active_w.as_ref());
        override_figure(&mut power.idle_w, self.idle_w.as_ref());
        power.transition_w = half_way_power(&power.idle_w, &power.active_w);
        override_figure(&mut power.transition_w, self.transition_w.as_ref());
        override_figure(&mut power.rest_after_ms, self.rest_after_ms.as_ref());
        override_figure(&mut power.rest_exit_us, self.rest_exit_us.as_ref());
        power.background.clone_from(&self.background);
        for given in &self.state {
            let last = power.states.len().saturating_sub(1);
            let Some(state) = power.states.get_mut(given.ps) else {
                return Err(format!("{} is above {last}", given.ps));
            };
            override_figure(&mut state.entry_us, given.true_entry_us.as_ref());
            override_figure(&mut state.exit_us, given.true_exit_us.as_ref());
            override_figure(&mut state.power_w, given.power_w.as_ref());
        }
        Ok(())
    }
}

fn override_figure(figure: &mut Figure, given: Option<&Figure>) {
    if let Some(given) = given {
        figure.clone_from(given);
    }
}

impl Machine {
    /// Finds a captured drive by the kernel's controller name, or any drive known to [`DriveModel::find`].
    ///
    /// # Errors
    /// As [`DriveModel::find`].
    pub fn find_drive(&self, name: &str) -> Result<DriveModel, MachineError> {
        let mut own = std::iter::once(&self.drive).chain(&self.other_drives);
        match own.find(|drive| drive.device.as_deref() == Some(name)) {
            Some(drive) => Ok(drive.clone()),
            None => DriveModel::find(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakepath_units::Microwatts;

    use super::*;
    use crate::drive::{Drive, PowerState};
    use crate::machine::DrivePower;

    #[test]
    fn every_built_in_model_loads_and_its_drive_leads_to_it() {
        for (name, _) in BUILTIN {
            let model = DriveModel::find(name).unwrap();
            let power = model.power.as_ref().unwrap();
            assert_eq!(
                DriveModel::find(&power.declared.model).unwrap().name,
                model.name
            );
        }
    }

    #[test]
    fn every_drive_of_the_library_has_a_valid_model() {
        for table in DriveLibrary::builtin().tables() {
            let model = DriveModel::from_declared_drive(&table.drive);
            check_drive(&model).unwrap();
            let power = model.power.unwrap();
            for (state, declared) in power.states.iter().zip(&table.drive.states) {
                assert!((state.exit_us.value - f64::from(declared.exit_latency_us)).abs() < 1e-9);
            }
            assert_eq!(power.states.len(), table.drive.states.len());
            assert_drawing_less_the_deeper(&power);
        }
    }

    fn assert_drawing_less_the_deeper(power: &DrivePower) {
        let (active, idle) = (power.active_w.value, power.idle_w.value);
        assert!(active >= idle, "{power:?}");
        for (state, declared) in power.states.iter().zip(&power.declared.states) {
            assert!(
                !declared.non_operational || state.power_w.value <= idle,
                "{power:?}"
            );
        }
    }

    #[test]
    fn an_awake_drive_draws_what_its_states_allow() {
        fn waits(name: &str) -> (Microwatts, Microwatts) {
            let power = DriveModel::find(name).unwrap().power.unwrap();
            (
                power.active_w.watts_to_power(),
                power.idle_w.watts_to_power(),
            )
        }
        const fn watts(watts: u64) -> Microwatts {
            Microwatts(watts * 1_000_000)
        }
        // PS6 declares 5 W asleep, more than a fifth of PS5's 9.9 W.
        assert_eq!(waits("KCM61RUL960G"), (watts(25), watts(5)));
        // All operational states declare 9.39 W.
        let (_, idle) = waits("Samsung SSD 990 PRO 1TB");
        assert_eq!(idle, Microwatts(901_440));
        // Declares to draw 0 W at work.
        assert_eq!(waits("CT1000P3SSD8").0, watts(3));
        // Declares 300 W at work, and 6 W at most.
        assert_eq!(waits("MTFDHBK256TDP").0, watts(3));
    }

    proptest! {
        #[test]
        fn no_identify_data_makes_a_sleeping_drive_draw_more(
            states in prop::collection::vec(
                (any::<bool>(), prop::option::of(0_u64..700_000_000), prop::option::of(0_u64..700_000_000),
                 prop::option::of(0_u64..700_000_000)),
                1..=32,
            ),
        ) {
            let powers = |(non_operational, max, idle, active): (bool, Option<u64>, Option<u64>, Option<u64>)| PowerState {
                non_operational,
                max_power: max.map(Microwatts),
                idle_power: idle.map(Microwatts),
                active_power: active.map(Microwatts),
                ..PowerState::default()
            };
            let drive = Drive {
                npss: (states.len() - 1) as u8,
                states: states.into_iter().map(powers).collect(),
                ..DriveLibrary::builtin().tables().next().unwrap().drive.clone()
            };
            let model = DriveModel::from_declared_drive(&drive);
            prop_assert!(check_drive(&model).is_ok());
            assert_drawing_less_the_deeper(&model.power.unwrap());
        }
    }

    #[test]
    fn impossible_values_name_their_key() {
        let text = BUILTIN[0].1;
        for (more, key) in [
            ("active_w = -1\n", "drive.active_w"),
            ("idle_w = nan\n", "drive.idle_w"),
            ("idle_w = 2000\n", "drive.idle_w"),
            ("parallel_units = 0\n", "drive.parallel_units"),
            ("parallel_units = 1.5\n", "drive.parallel_units"),
            ("reads_by_address = 2\n", "drive.reads_by_address"),
            ("read_service_us = 0\n", "drive"),
            ("buffer = { kib = 3, media_us = 1 }\n", "drive.buffer.kib"),
            (
                "flash = { program_us = 0, read_mb_per_s = 100 }\n",
                "drive.flash.program_us",
            ),
            (
                "flash = { program_us = 450, read_mb_per_s = 0 }\n",
                "drive.flash.read_mb_per_s",
            ),
            (
                "flash = { program_us = 450, read_mb_per_s = 100, suspend_us = -1 }\n",
                "drive.flash.suspend_us",
            ),
            ("[[state]]\nps = 5\n", "state.ps"),
            ("[[state]]\nps = 3\npower_w = -0.1\n", "drive.PS3.power_w"),
            ("[[state]]\nps = 4\npower_w = 0.5\n", "drive.PS4.power_w"),
            ("idle_w = 0.02\n", "drive.PS3.power_w"),
        ] {
            let head = "schema = 1\nname = \"x\"\nlibrary = \"WDC PC SN530 SDBPNPZ-256G-1006\"\nsource = \"test\"\n";
            let message = DriveModel::parse(&format!("{head}{more}"), "d.toml")
                .unwrap_err()
                .to_string();
            assert!(
                message.starts_with("d.toml: ") && message.contains(key),
                "{message}"
            );
        }
        let message = DriveModel::parse(&format!("{text}nonsense = 1\n"), "d.toml")
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("d.toml:"), "{message}");
        assert!(DriveModel::find("no such drive at all").is_err());
    }
}
