//! Finds drives, and reads the files of drive models.

use std::io;
use std::path::Path;

use serde::Deserialize;
use toml::Table;
use wakepath_files::{Links, Tree};

use super::drive::{Flash, assume_half_way_power, capacity_by_name};
use super::error::toml_syntax_error_with_line;
use super::file::{MAX_FILE, read_file_bytes, read_machine_or_drive_text};
use super::kept_drives::KeptDrives;
use super::validate::check_drive_ranges_and_fit;
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
    /// A library drive by full name, whose power states the drive has.
    library: Option<String>,
    /// A file in the same folder with what a tool printed about the drive's power states, in place of `library`. Without
    /// either the drive never sleeps.
    dump: Option<String>,
    /// Default source for the table's figures.
    source: String,
    read_service_us: Option<Figure>,
    write_service_us: Option<Figure>,
    read_p999_us: Option<Figure>,
    write_p999_us: Option<Figure>,
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

/// A file with the `[drive]` of a machine file alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveTableFile {
    schema: u32,
    drive: DriveModel,
}

/// The first built-in drive model that passes a test of name and text.
fn first_builtin_drive_model_where(
    is_wanted: impl Fn(&str, &str) -> bool,
) -> Option<(&'static str, &'static str)> {
    let mut models = BUILTIN.into_iter();
    models.find(|(known, text)| is_wanted(known, text))
}

impl DriveModel {
    /// Finds a drive: a `.toml` file ([`DriveModel::load`]); a built-in model by name; another file with a tool's output
    /// ([`id_ctrl`]); a drive that the user keeps ([`KeptDrives`]); or a library drive by any name accepted by
    /// [`DriveLibrary::find_one_model`].
    ///
    /// # Errors
    /// The file cannot be read or describes no drive, or the library has no such drive.
    pub fn find(name: &str) -> Result<Self, MachineError> {
        let path = Path::new(name);
        if is_drive_toml_path(path) {
            return Self::load(path);
        }
        let short = name.trim();
        if let Some((known, text)) =
            first_builtin_drive_model_where(|known, _| known.eq_ignore_ascii_case(short))
        {
            return Self::parse(text, known);
        }
        if path.is_file() {
            return Self::from_file_of_tool_output(path);
        }
        if let Some(kept) = Self::find_kept(short)? {
            return Ok(kept);
        }
        let found = match DriveLibrary::builtin().find_one_model(name) {
            Ok(found) => found,
            Err(error) => return Err(Self::missing_file_error(name).unwrap_or(error.into())),
        };
        let line = format!("library = \"{}\"", found.name);
        let model = match first_builtin_drive_model_where(|_, text| text.lines().any(|l| l == line))
        {
            Some((known, text)) => Self::parse(text, known)?,
            None => Self::from_declared_drive(&found.most_frequent_table().drive),
        };
        Ok(Self {
            note: found.note_if_name_was_partial(name),
            ..model
        })
    }

    /// The drive that the user keeps under a name; `None` if there is none.
    ///
    /// # Errors
    /// The drive's file cannot be read or describes no drive.
    pub fn find_kept(name: &str) -> Result<Option<Self>, MachineError> {
        KeptDrives::in_user_folder().map_or(Ok(None), |kept| kept.find(name))
    }

    /// Reads a drive from a `.toml` file: a drive model, the `[drive]` of a machine file, or a whole machine file, whose
    /// drive is taken.
    ///
    /// # Errors
    /// The file cannot be read, or has no drive.
    pub fn load(path: &Path) -> Result<Self, MachineError> {
        let text = read_machine_or_drive_text(path)?;
        // A syntax error is left to the reader of drive models, which tells the line.
        let table = text.parse::<Table>().unwrap_or_default();
        if ["cluster", "like"]
            .iter()
            .any(|key| table.contains_key(*key))
        {
            return Ok(Self {
                device: None,
                in_force: None,
                ..Machine::load(path)?.drive
            });
        }
        Self::parse_with_folder_for_dump(&text, &path.display().to_string(), path.parent())
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
    fn from_file_of_tool_output(path: &Path) -> Result<Self, MachineError> {
        Self::from_tool_output(&path.display().to_string(), &read_file_bytes(path)?)
    }

    /// The model of a drive by the output of a tool; `file` names the output in errors and notes.
    ///
    /// # Errors
    /// The output describes no drive ([`id_ctrl::parse_drive_dump`]).
    pub fn from_tool_output(file: &str, output: &[u8]) -> Result<Self, MachineError> {
        let found = id_ctrl::parse_drive_dump(file, output)?;
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
    pub fn full_library_name_for_short_name(short: &str) -> Option<&'static str> {
        let (_, text) =
            first_builtin_drive_model_where(|known, _| known.eq_ignore_ascii_case(short.trim()))?;
        text.lines()
            .find_map(|line| line.strip_prefix("library = \"")?.strip_suffix('"'))
    }

    /// Parses and checks a drive model, or the `[drive]` of a machine file; `origin` names the text in errors.
    ///
    /// # Errors
    /// The text is no drive model, a value cannot be, or the library has no such drive.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MachineError> {
        Self::parse_with_folder_for_dump(text, origin, None)
    }

    /// As [`Self::parse`]; the model's `dump` is in `folder`.
    fn parse_with_folder_for_dump(
        text: &str,
        origin: &str,
        folder: Option<&Path>,
    ) -> Result<Self, MachineError> {
        let table = text.parse::<Table>().unwrap_or_default();
        let model = if table.contains_key("drive") {
            let file: DriveTableFile =
                toml::from_str(text).map_err(|e| toml_syntax_error_with_line(text, origin, &e))?;
            require_schema_1(file.schema, origin)?;
            file.drive
        } else {
            let file: ModelFile =
                toml::from_str(text).map_err(|e| toml_syntax_error_with_line(text, origin, &e))?;
            require_schema_1(file.schema, origin)?;
            file.to_drive_model(origin, folder)?
        };
        check_drive_ranges_and_fit(&model)
            .map_err(|(key, message)| MachineError::invalid_value_error(origin, &key, message))?;
        Ok(model)
    }
}

fn require_schema_1(schema: u32, origin: &str) -> Result<(), MachineError> {
    if schema == 1 {
        return Ok(());
    }
    let message = "this version reads schema 1";
    Err(MachineError::invalid_value_error(origin, "schema", message))
}

/// Whether a drive's name is the path of a TOML file.
fn is_drive_toml_path(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml")
}

/// Reads the dump that a drive model names: a file in the model's own folder.
fn read_dump_beside_model(name: &str, folder: Option<&Path>) -> Result<Vec<u8>, String> {
    let is_file_name = Path::new(name).file_name().is_some_and(|own| own == name);
    let Some(folder) = folder.filter(|_| is_file_name) else {
        return Err("expected the name of a file in the same folder".to_owned());
    };
    Tree::open_folder(folder, Links::Refused)
        .and_then(|tree| tree.read_file_up_to(Path::new(name), MAX_FILE))
        .map_err(|e| format!("{name}: {e}"))
}

impl ModelFile {
    /// The drive that the file describes; `folder` has the dump that the file may name.
    fn to_drive_model(
        &self,
        origin: &str,
        folder: Option<&Path>,
    ) -> Result<DriveModel, MachineError> {
        let mut model = self.model_with_power_states(origin, folder)?;
        model.name.clone_from(&self.name);
        model.source.clone_from(&self.source);
        model.buffer = self.buffer.clone().or(model.buffer);
        model.flash.clone_from(&self.flash);
        if !model.capacity_gb.is_given() {
            model.capacity_gb = capacity_by_name(&self.name);
        }
        self.override_speeds_and_size(&mut model);
        self.override_powers_and_state_times(&mut model)
            .map_err(|(key, message)| MachineError::invalid_value_error(origin, key, message))?;
        Ok(model)
    }

    /// The drive with the power states of the library or of a dump and the speeds of that model, before the file's own
    /// figures.
    fn model_with_power_states(
        &self,
        origin: &str,
        folder: Option<&Path>,
    ) -> Result<DriveModel, MachineError> {
        match (&self.library, &self.dump) {
            (Some(library), None) => {
                let found = DriveLibrary::builtin().find_one_model(library)?;
                let table = found.most_frequent_table();
                Ok(DriveModel::from_declared_drive(&table.drive))
            }
            (None, Some(dump)) => {
                let output = read_dump_beside_model(dump, folder)
                    .map_err(|why| MachineError::invalid_value_error(origin, "dump", why))?;
                DriveModel::from_tool_output(dump, &output)
            }
            (None, None) => Ok(DriveModel::typical_client_drive_without_power_states()),
            (Some(_), Some(_)) => Err(MachineError::invalid_value_error(
                origin,
                "dump",
                "the power states are those of `library` or of `dump`, not both",
            )),
        }
    }

    /// Overrides a drive's speeds and size with those of the model file.
    fn override_speeds_and_size(&self, model: &mut DriveModel) {
        replace_figure_if_given(&mut model.read_service_us, self.read_service_us.as_ref());
        replace_figure_if_given(&mut model.write_service_us, self.write_service_us.as_ref());
        model.drop_tails_that_do_not_fit();
        for (figure, given) in [
            (&mut model.read_p999_us, &self.read_p999_us),
            (&mut model.write_p999_us, &self.write_p999_us),
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
            replace_figure_if_given(figure, given.as_ref());
        }
    }

    /// Overrides a drive's powers, and the true times of its power states, with those of the model file. An error has the
    /// key at fault, and the reason.
    fn override_powers_and_state_times(
        &self,
        model: &mut DriveModel,
    ) -> Result<(), (&'static str, String)> {
        let Some(power) = &mut model.power else {
            return match self.first_key_of_power() {
                Some(key) => Err((
                    key,
                    "needs the power states of `library` or `dump`".to_owned(),
                )),
                None => Ok(()),
            };
        };
        replace_figure_if_given(&mut power.active_w, self.active_w.as_ref());
        replace_figure_if_given(&mut power.idle_w, self.idle_w.as_ref());
        power.transition_w = assume_half_way_power(&power.idle_w, &power.active_w);
        replace_figure_if_given(&mut power.transition_w, self.transition_w.as_ref());
        replace_figure_if_given(&mut power.rest_after_ms, self.rest_after_ms.as_ref());
        replace_figure_if_given(&mut power.rest_exit_us, self.rest_exit_us.as_ref());
        power.background.clone_from(&self.background);
        for given in &self.state {
            let last = power.states.len().saturating_sub(1);
            let Some(state) = power.states.get_mut(given.ps) else {
                return Err(("state.ps", format!("{} is above {last}", given.ps)));
            };
            replace_figure_if_given(&mut state.entry_us, given.true_entry_us.as_ref());
            replace_figure_if_given(&mut state.exit_us, given.true_exit_us.as_ref());
            replace_figure_if_given(&mut state.power_w, given.power_w.as_ref());
        }
        Ok(())
    }
}

impl ModelFile {
    /// The first key of the file that belongs to the drive's power states.
    fn first_key_of_power(&self) -> Option<&'static str> {
        let given = [
            ("active_w", self.active_w.is_some()),
            ("idle_w", self.idle_w.is_some()),
            ("transition_w", self.transition_w.is_some()),
            ("rest_after_ms", self.rest_after_ms.is_some()),
            ("rest_exit_us", self.rest_exit_us.is_some()),
            ("background", self.background.is_some()),
            ("state", !self.state.is_empty()),
        ];
        given
            .into_iter()
            .find_map(|(key, is_given)| is_given.then_some(key))
    }
}

fn replace_figure_if_given(figure: &mut Figure, given: Option<&Figure>) {
    if let Some(given) = given {
        figure.clone_from(given);
    }
}

impl Machine {
    /// Finds a captured drive by the kernel's controller name, or any drive known to [`DriveModel::find`].
    ///
    /// # Errors
    /// As [`DriveModel::find`].
    pub fn find_own_or_known_drive(
        &self,
        device_or_name: &str,
    ) -> Result<DriveModel, MachineError> {
        let mut own = std::iter::once(&self.drive).chain(&self.other_drives);
        match own.find(|drive| drive.device.as_deref() == Some(device_or_name)) {
            Some(drive) => Ok(drive.clone()),
            None => DriveModel::find(device_or_name),
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
    fn a_built_in_model_is_as_fast_as_its_drive_of_the_library() {
        let mut media_us = Vec::new();
        for (name, _) in BUILTIN {
            let mut model = DriveModel::find(name).unwrap();
            let library = DriveModel::full_library_name_for_short_name(name).unwrap();
            let table = DriveLibrary::builtin().find_one_model(library).unwrap();
            let mut expected = DriveModel::from_declared_drive(&table.most_frequent_table().drive);
            let speeds = expected.speed_figures_mut();
            // The last two are the waits of a resting drive, which models fit.
            for ((key, figure), (_, expected)) in
                model.speed_figures_mut().into_iter().zip(speeds).take(11)
            {
                assert_eq!(figure, expected, "{name}: {key}");
            }
            let [media, expected_media] =
                [&model, &expected].map(|drive| drive.buffer.as_ref().map(|b| b.media_us.clone()));
            assert_eq!(media, expected_media, "{name}");
            media_us.extend(media.map(|media| media.value));
        }
        // 950 MB/s declared for the SN530, 1,600 MB/s for the 760p.
        assert_eq!(media_us[..2], [4.312, 2.56]);
    }

    #[test]
    fn every_drive_of_the_library_has_a_valid_model() {
        for table in DriveLibrary::builtin().tables() {
            let model = DriveModel::from_declared_drive(&table.drive);
            check_drive_ranges_and_fit(&model).unwrap();
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

    #[test]
    fn a_drive_has_the_size_that_it_declares_or_else_the_one_in_its_name() {
        let by_name = Figure::assumed(256.060_514_304, "from its name");
        for (name, figure) in [
            ("sn530", by_name.clone()),
            ("760p", by_name),
            ("SAMSUNG MZVLB1T0HALR-00000", Figure::default()),
        ] {
            assert_eq!(
                DriveModel::find(name).unwrap().capacity_gb,
                figure,
                "{name}"
            );
        }
        let printed = format!("mn        : A 256GB DRIVE\ntnvmcap   : 500107862016\n{STATES}");
        let declared = DriveModel::from_tool_output("dump", printed.as_bytes()).unwrap();
        assert_eq!(declared.capacity_in_bytes(), 500_107_862_016);
        let unknown = format!("{STATES}tnvmcap : 0\n");
        let model = DriveModel::from_tool_output("dump", unknown.as_bytes()).unwrap();
        assert!(!model.capacity_gb.is_given());
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
            prop_assert!(check_drive_ranges_and_fit(&model).is_ok());
            assert_drawing_less_the_deeper(&model.power.unwrap());
        }
    }

    /// A drive model file with only what must be there.
    const SHORTEST: &str = "schema = 1\nname = \"mine\"\nsource = \"my bench\"\n";
    /// What smartctl prints about power states.
    const STATES: &str = "Model Number: A DRIVE\n\
        Supported Power States\n\
        St Op     Max   Active     Idle   RL RT WL WT  Ent_Lat  Ex_Lat\n \
        0 +     5.00W       -        -    0  0  0  0        0       0\n \
        1 -   0.0050W       -        -    1  1  1  1     3000    9000\n";

    #[test]
    fn a_model_needs_no_drive_of_the_library() {
        let text = format!("{SHORTEST}read_service_us = 61.5\n");
        let model = DriveModel::parse(&text, "d.toml").unwrap();
        assert!(model.power.is_none());
        assert_eq!(model.read_service_us, Figure::covered_by_table_source(61.5));
        assert_eq!(
            (model.name.as_str(), model.source.as_str()),
            ("mine", "my bench")
        );
        assert!(matches!(
            model.write_service_us.origin,
            crate::machine::Origin::Assumed(_)
        ));
        let error = DriveModel::parse(&format!("{SHORTEST}idle_w = 1\n"), "d.toml").unwrap_err();
        assert_eq!(
            error.to_string(),
            "d.toml: idle_w: needs the power states of `library` or `dump`"
        );
    }

    #[test]
    fn a_model_takes_its_power_states_from_a_dump_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(folder.path().join("smart.txt"), STATES).unwrap();
        let load = |dump: &str| {
            let more = "[[state]]\nps = 1\ntrue_exit_us = 7000\n";
            std::fs::write(&path, format!("{SHORTEST}{dump}\n{more}")).unwrap();
            DriveModel::find(path.to_str().unwrap()).map_err(|e| e.to_string())
        };
        let model = load("dump = \"smart.txt\"").unwrap();
        assert_eq!(model.name, "mine");
        let power = model.power.unwrap();
        assert_eq!(power.declared.states[1].exit_latency_us, 9000);
        assert_eq!(
            power.states[1].exit_us,
            Figure::covered_by_table_source(7000.0)
        );
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
        for (dump, part) in [
            (
                "dump = \"../smart.txt\"",
                "dump: expected the name of a file in the same folder",
            ),
            (
                "dump = \"/etc/hostname\"",
                "dump: expected the name of a file in the same folder",
            ),
            ("dump = \"link\"", "dump: link: "),
            ("dump = \"none.txt\"", "dump: none.txt: "),
            (
                "library = \"WDC PC SN530 SDBPNPZ-256G-1006\"\ndump = \"smart.txt\"",
                "not both",
            ),
        ] {
            let error = load(dump).unwrap_err();
            assert!(
                error.contains("mine.toml: dump: ") && error.contains(part),
                "{error}"
            );
        }
    }

    #[test]
    fn the_drive_of_a_machine_file_is_a_drive() {
        let folder = tempfile::tempdir().unwrap();
        let mut machine = Machine::find("laptop").unwrap();
        machine.replace_drive_keeping_count(DriveModel::find("sn530").unwrap());
        machine.drive.device = Some("nvme0".to_owned());
        let path = folder.path().join("machine.toml");
        std::fs::write(&path, machine.to_toml().unwrap()).unwrap();
        let drive = DriveModel::load(&path).unwrap();
        assert_eq!(drive.device, None);
        assert_eq!(
            drive.to_toml().unwrap(),
            DriveModel::find("sn530").unwrap().to_toml().unwrap()
        );
        let alone = folder.path().join("drive.toml");
        std::fs::write(&alone, drive.to_toml().unwrap()).unwrap();
        let again = DriveModel::load(&alone).unwrap();
        assert_eq!(again.to_toml().unwrap(), drive.to_toml().unwrap());
        std::fs::write(&alone, "schema = 2\n[drive]\n").unwrap();
        let error = DriveModel::load(&alone).unwrap_err().to_string();
        assert!(error.contains("drive.toml"), "{error}");
        let text = drive
            .to_toml()
            .unwrap()
            .replace("spread = ", "spread = -1 #");
        let error = DriveModel::parse(&text, "d.toml").unwrap_err().to_string();
        assert!(error.starts_with("d.toml: drive.spread: "), "{error}");
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
            ("read_p999_us = 50\n", "drive.read_p999_us"),
            ("write_p999_us = 12501\n", "drive.write_p999_us"),
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
