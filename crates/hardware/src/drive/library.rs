//! The built-in library of NVMe drives: 969 models with 1171 power-state tables.
//!
//! The tables are data (`data/nvme_power_states.csv`, one row per power state), read once on first
//! use. A model whose firmware revisions declare different tables has several [`DriveTable`]s.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::Deserialize;
use wakepath_units::Microwatts;
use wakepath_units::spelling::LONGEST_NAME;

use super::name_words::{
    has_requested_words_in_sequence, may_continue_as_other_product,
    mean_likeness_of_requested_words, normalize_for_comparison,
};
use super::{Drive, MAX_POWER_STATES, PowerState, watts};

const BUILTIN_TABLES: &str = include_str!("../../data/nvme_power_states.csv");
const BUILTIN_FACTS: &str = include_str!("../../data/drive_facts.toml");

/// Number of names that an error lists before it only counts the others.
const LISTED: usize = 8;

/// Drives by model string, each with its power-state tables.
#[derive(Clone, Debug, Default)]
pub struct DriveLibrary {
    models: Vec<CatalogEntry>,
}

/// A drive model with every power-state table reported for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The model string, as the drive reports it.
    pub name: String,
    /// The name on the box, where it is known: `Intel 760p 256GB` for `INTEL SSDPEKKW256G8`.
    pub label: Option<String>,
    /// The model's power-state tables, the one seen most often first; never empty.
    pub tables: Vec<DriveTable>,
}

/// A power-state table that was reported for a drive model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveTable {
    /// The drive as described by this table.
    pub drive: Drive,
    /// Firmware revisions that were reported with this table.
    pub firmwares: Vec<String>,
    /// Number of drives that were reported with this table.
    pub samples: u32,
    /// Number of drives of the model that were seen at all.
    pub samples_of_model: u32,
    /// NVMe version that the drive reports, `<1.2` if it is too old to; `None` if not known.
    pub nvme_version: Option<String>,
    /// Warning composite temperatures in degrees Celsius; several if the samples differ.
    pub warning_temperatures_c: Vec<u16>,
    /// Critical composite temperatures in degrees Celsius; several if the samples differ.
    pub critical_temperatures_c: Vec<u16>,
    /// What shows that the drive supports APST, if anything does.
    pub apsta_source: Option<String>,
}

/// Why drive data cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct LibraryError {
    /// Name of the file with drive data.
    pub file: &'static str,
    /// Number of the line, from 1; 0 if the parser did not tell.
    pub line: u64,
    /// What is wrong in the row.
    pub what: String,
}

/// Why a name does not lead to exactly one drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The name is empty.
    #[error("an empty drive name; `wakepath drive list` prints them all")]
    Empty,
    /// The name is longer than any drive's.
    #[error(
        "a drive name of {0} bytes; names have at most {LONGEST_NAME}, and `wakepath drive list` prints them all"
    )]
    TooLong(usize),
    /// No model name contains the requested name.
    #[error("no drive has \"{name}\" in its model name{}", name_nearest_or_list_command(.nearest))]
    Unknown {
        /// The requested name.
        name: String,
        /// The nearest names of drives, best first.
        nearest: Vec<String>,
    },
    /// Several model names contain the requested name.
    #[error("\"{name}\" matches {} drives: {}", .candidates.len() + .more, join_names_and_count_of_more(.candidates, *.more))]
    Ambiguous {
        /// The requested name.
        name: String,
        /// The first names that match.
        candidates: Vec<String>,
        /// Number of further names that match.
        more: usize,
    },
    /// No model has exactly this name, but longer names contain these words.
    #[error(
        "no drive is called \"{name}\"; names with it: {}. They may be other products; give a whole name",
        join_names_and_count_of_more(.candidates, *.more)
    )]
    Contained {
        /// The requested name.
        name: String,
        /// The first names that match.
        candidates: Vec<String>,
        /// Number of further names that match.
        more: usize,
    },
    /// The drive model is known, but not with this firmware.
    #[error("no table of {model} with firmware \"{firmware}\"; known: {}", join_names_and_count_of_more(.known, *.more))]
    UnknownFirmware {
        /// The model.
        model: String,
        /// The firmware revision that was asked for.
        firmware: String,
        /// The first firmware revisions that are known.
        known: Vec<String>,
        /// Number of further firmware revisions.
        more: usize,
    },
}

fn name_nearest_or_list_command(nearest: &[String]) -> String {
    if nearest.is_empty() {
        "; `wakepath drive list` prints them all".to_owned()
    } else {
        format!("; nearest: {}", nearest.join(", "))
    }
}

fn join_names_and_count_of_more(names: &[String], more: usize) -> String {
    let names = names.join(", ");
    if more == 0 {
        names
    } else {
        format!("{names} and {more} more")
    }
}

impl DriveLibrary {
    /// The built-in drive library.
    #[expect(
        clippy::expect_used,
        reason = "the data is part of the build and tested"
    )]
    pub fn builtin() -> &'static Self {
        static LIBRARY: OnceLock<DriveLibrary> = OnceLock::new();
        LIBRARY.get_or_init(|| {
            Self::parse(BUILTIN_TABLES, BUILTIN_FACTS)
                .expect("the built-in drive data is well-formed")
        })
    }

    /// Reads drive data: a CSV with one row per power state and a TOML with further facts, both as
    /// described in `data/README.md`.
    ///
    /// # Errors
    /// The first row that has a field missing or malformed, belongs to no table, or is out of
    /// order; and facts on a model that has no table.
    pub fn parse(tables_csv: &str, facts_toml: &str) -> Result<Self, LibraryError> {
        let mut models = parse_power_states_csv(tables_csv)?;
        add_labels_and_apst_support(&mut models, facts_toml)?;
        for model in &mut models {
            // The sort is stable: of two tables seen equally often, the first in the file wins.
            model.tables.sort_by_key(|t| std::cmp::Reverse(t.samples));
        }
        Ok(Self { models })
    }

    /// Every power-state table of every model.
    pub fn tables(&self) -> impl Iterator<Item = &DriveTable> {
        self.models.iter().flat_map(|m| &m.tables)
    }

    fn list_models_where(&self, wanted: impl Fn(&CatalogEntry) -> bool) -> Vec<&CatalogEntry> {
        self.models.iter().filter(|model| wanted(model)).collect()
    }

    /// Models with `part` in the model string, or else in the label. Case and the width of gaps are ignored.
    pub fn models_with_text_in_name_or_label(&self, part: &str) -> Vec<&CatalogEntry> {
        let part = normalize_for_comparison(part);
        let by_name: Vec<_> = self
            .models
            .iter()
            .filter(|m| normalize_for_comparison(&m.name).contains(&part))
            .collect();
        if !by_name.is_empty() {
            return by_name;
        }
        self.models
            .iter()
            .filter(|m| {
                m.label
                    .as_ref()
                    .is_some_and(|l| normalize_for_comparison(l).contains(&part))
            })
            .collect()
    }

    /// The one model meant by `name`: an exact name or label, else the only model with all the words in a row. A
    /// following word that may make another product rules a model out. Several matches are ambiguous even if their
    /// tables are equal: a name must keep its meaning when the library grows. A part of a label is not enough,
    /// because some models have none. [`CatalogEntry::note_if_name_was_partial`] tells users about the choice.
    ///
    /// # Errors
    /// [`LookupError`] with the drives that may be meant.
    pub fn find_one_model(&self, name: &str) -> Result<&CatalogEntry, LookupError> {
        if name.len() > LONGEST_NAME {
            return Err(LookupError::TooLong(name.len()));
        }
        let folded = normalize_for_comparison(name);
        if folded.is_empty() {
            return Err(LookupError::Empty);
        }
        if let Some(model) = self.models.iter().find(|m| m.name == name.trim()) {
            return Ok(model);
        }
        let same_name = self.list_models_where(|m| normalize_for_comparison(&m.name) == folded);
        let same_label = self.list_models_where(|m| {
            m.label
                .as_ref()
                .is_some_and(|l| normalize_for_comparison(l) == folded)
        });
        let in_words = self.list_models_where(|m| {
            has_requested_words_in_sequence(&normalize_for_comparison(&m.name), &folded)
        });
        for found in [&same_name, &same_label] {
            if let [only] = found[..] {
                return Ok(only);
            }
        }
        if let [only] = in_words[..]
            && !may_continue_as_other_product(&normalize_for_comparison(&only.name), &folded)
        {
            return Ok(only);
        }
        let name = name.to_owned();
        if in_words.len() > 1 {
            let (candidates, more) = first_names_and_count_of_more(&in_words);
            return Err(LookupError::Ambiguous {
                name,
                candidates,
                more,
            });
        }
        let contained =
            self.list_models_where(|m| normalize_for_comparison(&m.name).contains(&folded));
        if contained.is_empty() {
            let nearest = self.find_up_to_three_nearest_names(&folded);
            return Err(LookupError::Unknown { name, nearest });
        }
        let (candidates, more) = first_names_and_count_of_more(&contained);
        Err(LookupError::Contained {
            name,
            candidates,
            more,
        })
    }

    /// Names of drives with `folded_name` in the label, or else the most similar names, best first; random matches are
    /// left out.
    fn find_up_to_three_nearest_names(&self, folded_name: &str) -> Vec<String> {
        let mut scored: Vec<(f64, &CatalogEntry)> = self
            .models
            .iter()
            .map(|m| {
                let of_label = m.label.as_deref().map_or(0.0, |label| {
                    let label = normalize_for_comparison(label);
                    if label.contains(folded_name) {
                        return f64::INFINITY;
                    }
                    mean_likeness_of_requested_words(folded_name, &label)
                });
                (
                    mean_likeness_of_requested_words(
                        folded_name,
                        &normalize_for_comparison(&m.name),
                    )
                    .max(of_label),
                    m,
                )
            })
            .filter(|(score, _)| *score >= 0.6)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.name.cmp(&b.1.name)));
        scored
            .into_iter()
            .take(3)
            .map(|(_, m)| match &m.label {
                Some(label) => format!("{} ({label})", m.name),
                None => m.name.clone(),
            })
            .collect()
    }
}

impl CatalogEntry {
    /// A note that this model was chosen, if `name` is only a part of the model's name.
    pub fn note_if_name_was_partial(&self, name: &str) -> Option<String> {
        let asked = normalize_for_comparison(name);
        let mut called = std::iter::once(&self.name).chain(&self.label);
        let same = called.any(|own| normalize_for_comparison(own) == asked);
        (!same).then(|| format!("the drive \"{}\" is taken to be {}", name.trim(), self.name))
    }

    /// The model's power-state table that was seen most often.
    pub fn most_frequent_table(&self) -> &DriveTable {
        &self.tables[0]
    }

    /// The model's power-state tables seen with this firmware revision, the most frequent first. Mostly one; a few
    /// models hide different hardware behind one revision.
    pub fn tables_with_firmware(&self, firmware: &str) -> Result<Vec<&DriveTable>, LookupError> {
        let wanted = firmware.trim();
        let hits: Vec<_> = self
            .tables
            .iter()
            .filter(|t| t.firmwares.iter().any(|f| f.eq_ignore_ascii_case(wanted)))
            .collect();
        if !hits.is_empty() {
            return Ok(hits);
        }
        let mut known: Vec<String> = self
            .tables
            .iter()
            .flat_map(|t| t.firmwares.clone())
            .collect();
        known.sort();
        known.dedup();
        let more = known.len().saturating_sub(LISTED);
        known.truncate(LISTED);
        Err(LookupError::UnknownFirmware {
            model: self.name.clone(),
            firmware: firmware.to_owned(),
            known,
            more,
        })
    }
}

/// The first names of some models, and the number of further models.
fn first_names_and_count_of_more(models: &[&CatalogEntry]) -> (Vec<String>, usize) {
    let names = models.iter().map(|m| m.name.clone()).take(LISTED).collect();
    (names, models.len().saturating_sub(LISTED))
}

/// A row of the CSV file with power states.
#[derive(Deserialize)]
struct PowerStateRow<'a> {
    model: &'a str,
    samples_with_this_table: u32,
    samples_of_model: u32,
    firmware: &'a str,
    pci_vendor: &'a str,
    pci_subsys_vendor: &'a str,
    nvme_version: &'a str,
    #[serde(rename = "wctemp_C")]
    warning_temperatures: &'a str,
    #[serde(rename = "cctemp_C")]
    critical_temperatures: &'a str,
    npss: u8,
    ps: u8,
    op: &'a str,
    #[serde(rename = "max_power_W")]
    max_power: &'a str,
    #[serde(rename = "active_power_W")]
    active_power: &'a str,
    #[serde(rename = "idle_power_W")]
    idle_power: &'a str,
    rrl: u8,
    rrt: u8,
    rwl: u8,
    rwt: u8,
    enlat_us: u32,
    exlat_us: u32,
    src_repo: &'a str,
    src_commit: &'a str,
    src_path_first_sample: &'a str,
}

impl PowerStateRow<'_> {
    fn to_power_state(&self) -> Result<PowerState, String> {
        Ok(PowerState {
            // A power of 0 W is how smartctl prints "not reported".
            max_power: parse_optional_watts("max_power_W", self.max_power)?
                .filter(|p| *p != Microwatts(0)),
            non_operational: match self.op {
                "op" => false,
                "nonop" => true,
                other => return Err(format!("op is \"{other}\", expected op or nonop")),
            },
            entry_latency_us: self.enlat_us,
            exit_latency_us: self.exlat_us,
            read_throughput_rank: self.rrt,
            read_latency_rank: self.rrl,
            write_throughput_rank: self.rwt,
            write_latency_rank: self.rwl,
            idle_power: parse_optional_watts("idle_power_W", self.idle_power)?,
            active_power: parse_optional_watts("active_power_W", self.active_power)?,
        })
    }

    fn to_drive_table_without_states(&self) -> Result<DriveTable, String> {
        if usize::from(self.npss) >= MAX_POWER_STATES {
            return Err(format!("npss is {}, at most 31 is possible", self.npss));
        }
        Ok(DriveTable {
            drive: Drive {
                model: self.model.to_owned(),
                firmware: self.firmware.to_owned(),
                vendor_id: parse_optional_vendor("pci_vendor", self.pci_vendor)?,
                subsystem_vendor_id: parse_optional_vendor(
                    "pci_subsys_vendor",
                    self.pci_subsys_vendor,
                )?,
                npss: self.npss,
                states: Vec::with_capacity(usize::from(self.npss) + 1),
                apsta: None,
                capacity_bytes: None,
                source: self.first_sample_location(),
            },
            firmwares: split_at_bars_without_empty(self.firmware)
                .map(str::to_owned)
                .collect(),
            samples: self.samples_with_this_table,
            samples_of_model: self.samples_of_model,
            nvme_version: Some(self.nvme_version.to_owned()).filter(|v| !v.is_empty()),
            warning_temperatures_c: parse_degrees_between_bars(
                "wctemp_C",
                self.warning_temperatures,
            )?,
            critical_temperatures_c: parse_degrees_between_bars(
                "cctemp_C",
                self.critical_temperatures,
            )?,
            apsta_source: None,
        })
    }

    /// Location of the drive's first sample: `repository@commit:path`.
    fn first_sample_location(&self) -> String {
        format!(
            "{}@{}:{}",
            self.src_repo, self.src_commit, self.src_path_first_sample
        )
    }

    /// Whether the row is a further state of `table`.
    fn is_further_state_of(&self, table: &DriveTable) -> bool {
        let drive = &table.drive;
        drive.states.len() <= usize::from(drive.npss)
            && drive.model == self.model
            && drive.firmware == self.firmware
            && drive.source == self.first_sample_location()
    }
}

fn split_at_bars_without_empty(text: &str) -> impl Iterator<Item = &str> {
    text.split('|').filter(|part| !part.is_empty())
}

fn parse_optional_watts(column: &str, text: &str) -> Result<Option<Microwatts>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    watts::parse_watts(text)
        .map(Some)
        .ok_or_else(|| format!("{column} is \"{text}\", expected watts such as 0.0500"))
}

fn parse_optional_vendor(column: &str, text: &str) -> Result<Option<u16>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.strip_prefix("0x")
        .and_then(|hex| u16::from_str_radix(hex, 16).ok())
        .map(Some)
        .ok_or_else(|| format!("{column} is \"{text}\", expected a PCI id such as 0x144d"))
}

fn parse_degrees_between_bars(column: &str, text: &str) -> Result<Vec<u16>, String> {
    split_at_bars_without_empty(text)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("{column} is \"{text}\", expected degrees separated by |"))
}

fn parse_power_states_csv(csv_text: &str) -> Result<Vec<CatalogEntry>, LibraryError> {
    let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
    let headers = reader
        .headers()
        .map_err(|e| power_states_file_error_from_csv(&e))?
        .clone();
    let mut catalog = Catalog::default();
    let mut open: Option<DriveTable> = None;
    let mut line = 1;

    let mut record = csv::StringRecord::new();
    while reader
        .read_record(&mut record)
        .map_err(|e| power_states_file_error_from_csv(&e))?
    {
        line = record.position().map_or(0, csv::Position::line);
        let row: PowerStateRow = record
            .deserialize(Some(&headers))
            .map_err(|e| power_states_file_error_from_csv(&e))?;
        if !open
            .as_ref()
            .is_some_and(|table| row.is_further_state_of(table))
        {
            if let Some(complete) = open.take() {
                catalog
                    .check_and_add_complete_table(complete)
                    .map_err(|what| power_states_file_error(line, what))?;
            }
            open = Some(
                row.to_drive_table_without_states()
                    .map_err(|what| power_states_file_error(line, what))?,
            );
        }
        if let Some(table) = &mut open {
            let states = &mut table.drive.states;
            if usize::from(row.ps) != states.len() {
                let what = format!("power state {} where {} belongs", row.ps, states.len());
                return Err(power_states_file_error(line, what));
            }
            states.push(
                row.to_power_state()
                    .map_err(|what| power_states_file_error(line, what))?,
            );
        }
    }
    if let Some(last) = open {
        catalog
            .check_and_add_complete_table(last)
            .map_err(|what| power_states_file_error(line, what))?;
    }
    Ok(catalog.models)
}

/// An error in the file of power-state tables.
fn power_states_file_error(line: u64, what: String) -> LibraryError {
    LibraryError {
        file: "nvme_power_states.csv",
        line,
        what,
    }
}

fn power_states_file_error_from_csv(e: &csv::Error) -> LibraryError {
    power_states_file_error(e.position().map_or(0, csv::Position::line), e.to_string())
}

/// The drive models read so far.
#[derive(Default)]
struct Catalog {
    models: Vec<CatalogEntry>,
    /// Index into `models` by model name.
    index: HashMap<String, usize>,
}

impl Catalog {
    /// Adds a complete power-state table to its model. The error says which states are missing.
    fn check_and_add_complete_table(&mut self, table: DriveTable) -> Result<(), String> {
        let drive = &table.drive;
        if drive.states.len() != usize::from(drive.npss) + 1 {
            return Err(format!(
                "{} has {} power states, its npss {} means {}",
                drive.model,
                drive.states.len(),
                drive.npss,
                u32::from(drive.npss) + 1
            ));
        }
        let slot = *self.index.entry(drive.model.clone()).or_insert_with(|| {
            self.models.push(CatalogEntry {
                name: drive.model.clone(),
                label: None,
                tables: Vec::new(),
            });
            self.models.len() - 1
        });
        self.models[slot].tables.push(table);
        Ok(())
    }
}

/// `drive_facts.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    #[serde(default)]
    label: Vec<Label>,
    #[serde(default)]
    apsta: Vec<ApstSupport>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Label {
    model: String,
    label: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApstSupport {
    models: Vec<String>,
    #[serde(rename = "apsta")]
    supported: bool,
    source: String,
}

/// An error in the file of facts about drives.
fn facts_file_error(line: u64, what: String) -> LibraryError {
    LibraryError {
        file: "drive_facts.toml",
        line,
        what,
    }
}

fn add_labels_and_apst_support(
    models: &mut [CatalogEntry],
    facts_toml: &str,
) -> Result<(), LibraryError> {
    let facts: Facts = toml::from_str(facts_toml).map_err(|e| {
        let line = e.span().map_or(0, |s| {
            facts_toml[..s.start].matches('\n').count() as u64 + 1
        });
        facts_file_error(line, e.message().to_owned())
    })?;
    let index: HashMap<String, usize> = models
        .iter()
        .enumerate()
        .map(|(i, m)| (m.name.clone(), i))
        .collect();
    let slot = |name: &str| {
        index
            .get(name)
            .copied()
            .ok_or_else(|| facts_file_error(0, format!("no table of a drive named \"{name}\"")))
    };
    for fact in facts.label {
        models[slot(&fact.model)?].label = Some(fact.label);
    }
    for fact in facts.apsta {
        for name in &fact.models {
            for table in &mut models[slot(name)?].tables {
                table.drive.apsta = Some(fact.supported);
                table.apsta_source = Some(fact.source.clone());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_969_models_with_1171_tables() {
        let library = DriveLibrary::builtin();
        assert_eq!(library.models.len(), 969);
        assert_eq!(library.tables().count(), 1171);
        for table in library.tables() {
            assert_eq!(table.drive.states.len(), usize::from(table.drive.npss) + 1);
            assert!(table.samples <= table.samples_of_model);
        }
        for model in &library.models {
            assert!(
                model
                    .tables
                    .iter()
                    .all(|t| t.samples <= model.most_frequent_table().samples)
            );
        }
    }

    #[test]
    fn words_of_a_name_that_no_other_drive_has_find_it() {
        fn name(part: &str) -> Result<&'static str, LookupError> {
            let found = DriveLibrary::builtin().find_one_model(part);
            found.map(|m| m.name.as_str())
        }
        let library = DriveLibrary::builtin();
        assert_eq!(
            name("sdbpnpz-256g-1006"),
            Ok("WDC PC SN530 SDBPNPZ-256G-1006")
        );
        let taken = library.find_one_model("sdbpnpz-256g-1006").unwrap();
        assert_eq!(
            taken.note_if_name_was_partial("sdbpnpz-256g-1006").unwrap(),
            "the drive \"sdbpnpz-256g-1006\" is taken to be WDC PC SN530 SDBPNPZ-256G-1006"
        );
        assert_eq!(
            taken.note_if_name_was_partial("wdc pc sn530  sdbpnpz-256g-1006 "),
            None
        );
        // Gaps may have any width.
        assert_eq!(name("THNSF5256GPUK"), Ok("THNSF5256GPUK TOSHIBA"));
        assert_eq!(name("wd_black sn750 2tb"), Ok("WD_BLACK  SN750 2TB"));
        // A full name beats longer names that contain the same words.
        assert!(library.models_with_text_in_name_or_label("Sabrent").len() > 1);
        assert_eq!(name("Sabrent"), Ok("Sabrent"));
        // The name on the box, but only the whole of it: other capacities may have none.
        assert_eq!(name("Intel 760p 256GB"), Ok("INTEL SSDPEKKW256G8"));
        let error = name("sn550").unwrap_err().to_string();
        assert!(
            error.contains("WDC WDS500G2B0C-00PXH0 (WD Blue SN550"),
            "{error}"
        );
    }

    #[test]
    fn every_model_is_found_by_its_own_name() {
        let library = DriveLibrary::builtin();
        for model in &library.models {
            assert_eq!(
                library.find_one_model(&model.name).map(|m| &m.name),
                Ok(&model.name)
            );
        }
    }

    #[test]
    fn what_is_not_one_drive_is_explained() {
        fn error(name: &str) -> String {
            let found = DriveLibrary::builtin().find_one_model(name);
            found.unwrap_err().to_string()
        }
        let library = DriveLibrary::builtin();
        assert!(
            error("SN530").starts_with("\"SN530\" matches "),
            "{}",
            error("SN530")
        );
        assert!(error("SN530").ends_with(" more"), "{}", error("SN530"));
        let plus = error("990 EVO");
        assert!(plus.contains("Samsung SSD 990 EVO Plus 4TB"), "{plus}");
        assert!(plus.starts_with("no drive is called \"990 EVO\""), "{plus}");
        let part = error("SDBPNPZ-256");
        assert!(part.contains("SDBPNPZ-256G-1006"), "{part}");
        assert!(error("Samsun SSD 971 EVO 500GB").contains("Samsung SSD 970 EVO 500GB"));
        assert!(error("qqqqqqqqqqqqqq").contains("wakepath drive list"));
        assert_eq!(library.find_one_model("  "), Err(LookupError::Empty));
    }

    #[test]
    fn firmware_selects_the_table() {
        let model = DriveLibrary::builtin().find_one_model("PCIe SSD").unwrap();
        assert!(model.tables.len() > 10);
        let tables = model.tables_with_firmware("ehfm32.1").unwrap();
        assert_eq!(tables[0].firmwares, ["EHFM32.1"]);
        let error = model.tables_with_firmware("NOPE").unwrap_err().to_string();
        assert!(error.contains("ECFM12.5"), "{error}");
    }

    #[test]
    fn unknown_apst_support_stays_unknown() {
        let library = DriveLibrary::builtin();
        assert_eq!(
            library
                .find_one_model("sdbpnpz-256g-1006")
                .unwrap()
                .most_frequent_table()
                .drive
                .apsta,
            None
        );
        let known = library
            .find_one_model("Samsung SSD 970 EVO 500GB")
            .unwrap()
            .most_frequent_table();
        assert_eq!(known.drive.apsta, Some(true));
        assert!(known.apsta_source.is_some());
    }

    const HEADER: &str = "model,samples_with_this_table,samples_of_model,firmware,pci_vendor,\
        pci_subsys_vendor,nvme_version,wctemp_C,cctemp_C,npss,ps,op,max_power_W,active_power_W,\
        idle_power_W,rrl,rrt,rwl,rwt,enlat_us,exlat_us,src_repo,src_commit,src_path_first_sample,\
        smartctl_version\n";

    fn row(npss: &str, ps: &str, op: &str, watts: &str) -> String {
        format!("M,1,1,F,0x144d,,1.3,80,85,{npss},{ps},{op},{watts},,,0,0,0,0,0,0,r,c,p,s\n")
    }

    #[test]
    fn malformed_data_is_an_error_with_its_line() {
        let first = row("1", "0", "op", "5.00");
        let cases = [
            (first.clone(), "has 1 power states"),
            (
                first.clone() + &row("1", "2", "nonop", "0.1"),
                "power state 2 where 1 belongs",
            ),
            (
                first.clone() + &row("1", "1", "maybe", "0.1"),
                "op is \"maybe\"",
            ),
            (
                first.clone() + &row("1", "1", "nonop", "NaN"),
                "max_power_W is \"NaN\"",
            ),
            (row("40", "0", "op", "5.00"), "npss is 40"),
            (row("x", "0", "op", "5.00"), "invalid digit"),
            ("M,1\n".to_owned(), "fields"),
        ];
        for (rows, what) in cases {
            let error = DriveLibrary::parse(&(HEADER.to_owned() + &rows), "").unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.line >= 2, "{error}");
        }
        let good = HEADER.to_owned() + &first + &row("1", "1", "nonop", "0.0050");
        assert!(DriveLibrary::parse(&good, "").is_ok());
        let fact = "[[apsta]]\nmodels = [\"X\"]\napsta = true\nsource = \"s\"\n";
        assert!(DriveLibrary::parse(&good, fact).is_err());
        assert_eq!(
            DriveLibrary::parse(&good, "a\nb = 1\n").unwrap_err().line,
            1
        );
    }
}
