//! How fast drives are: published figures by model, else those of the drive's controller, else medians by class.
//!
//! The data are `data/drive_speeds.csv`, whose rows name the models that they hold for, `data/controller_speeds.csv` and
//! `data/drive_speed_classes.csv`.

mod class;
mod controllers;
mod csv_rows;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use self::class::{COMMONEST, SpeedClass, agree_on_two_lanes, is_own_class};
use self::controllers::{Controller, find_controller_by_name, find_likely_controller};
use self::csv_rows::read_well_formed_csv_rows;
use super::{CatalogEntry, DriveLibrary};
use crate::machine::slow_requests::is_tail_above_mean;
use crate::machine::{Figure, Origin};

const SPEEDS: &str = include_str!("../../../data/drive_speeds.csv");
const CLASSES: &str = include_str!("../../../data/drive_speed_classes.csv");

/// The first NVMe version with which most library drives of known speeds have PCIe 4.
const PCIE_4_FROM: &str = "1.4";

/// Speeds of a drive model. A figure is published for the model, or assumed: the controller's, or the class's
/// median. A tail without a figure is not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveSpeeds {
    /// Rate of sequential reads in MB/s.
    pub read_mb_per_s: Figure,
    /// Rate of sequential writes in MB/s, as long as a cache takes them.
    pub write_mb_per_s: Figure,
    /// Rate of random reads of 4 KiB per second, at the depth that saturates the drive.
    pub read_iops: Figure,
    /// Rate of random writes of 4 KiB per second, at the depth that saturates the drive.
    pub write_iops: Figure,
    /// Time of a random read of 4 KiB at depth 1 in us, with the share of the host that measured.
    pub read_us: Figure,
    /// Time of a write of 4 KiB at depth 1 in us, with the share of the host that measured.
    pub write_us: Figure,
    /// Time of a flush in us; 0: capacitors protect the cache, so that there is nothing to flush.
    pub flush_us: Figure,
    /// 99.9th percentile of the time of a random read of 4 KiB at depth 1 in us; not given: not known.
    #[serde(skip_serializing_if = "is_not_given")]
    pub read_p999_us: Figure,
    /// 99.9th percentile of the time of a write of 4 KiB at depth 1 in us; not given: not known.
    #[serde(skip_serializing_if = "is_not_given")]
    pub write_p999_us: Figure,
}

/// A row of the file with published speeds.
#[derive(Debug, Deserialize)]
struct SpeedRow {
    /// Models of the library with these speeds, joined by `|`.
    models: String,
    class: String,
    pcie_gen: String,
    flash: String,
    dram: String,
    /// Power-loss protection of the drive: `yes`, `no` or `unknown`.
    plp: String,
    /// Name in the file of controllers; empty: not known, or not in that file.
    controller: String,
    seq_read_mb_s: Option<f64>,
    seq_write_mb_s: Option<f64>,
    rand_read_kiops_max: Option<f64>,
    rand_write_kiops_max: Option<f64>,
    qd1_read_us: Option<f64>,
    qd1_write_us: Option<f64>,
    flush_us: Option<f64>,
    qd1_read_p999_us: Option<f64>,
    qd1_write_p999_us: Option<f64>,
    kind: String,
    source: String,
    note: String,
}

/// Median speeds of a class of drives, each with the number of figures behind it.
#[derive(Debug, Deserialize)]
struct ClassRow {
    class: String,
    pcie_gen: String,
    flash: String,
    dram: String,
    seq_read_mb_s: Option<f64>,
    n_seq_read_mb_s: u32,
    seq_write_mb_s: Option<f64>,
    n_seq_write_mb_s: u32,
    rand_read_kiops_max: Option<f64>,
    n_rand_read_kiops_max: u32,
    rand_write_kiops_max: Option<f64>,
    n_rand_write_kiops_max: u32,
    qd1_read_us: Option<f64>,
    n_qd1_read_us: u32,
    qd1_write_us: Option<f64>,
    n_qd1_write_us: u32,
    flush_us: Option<f64>,
    n_flush_us: u32,
    qd1_read_p999_us: Option<f64>,
    n_qd1_read_p999_us: u32,
    qd1_write_p999_us: Option<f64>,
    n_qd1_write_p999_us: u32,
}

/// The files with drive speeds, read once.
struct SpeedData {
    rows: Vec<SpeedRow>,
    classes: Vec<ClassRow>,
    /// Indices of the rows for a model: the row with the fewest models first, and measured before declared.
    rows_by_model: HashMap<&'static str, Vec<usize>>,
}

fn builtin_speeds_and_classes() -> &'static SpeedData {
    static DATA: OnceLock<SpeedData> = OnceLock::new();
    DATA.get_or_init(|| {
        let rows: Vec<SpeedRow> = read_well_formed_csv_rows(SPEEDS);
        let mut rows_by_model: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, names) in list_model_fields_of_speed_rows().enumerate() {
            for name in names.split('|') {
                rows_by_model.entry(name).or_default().push(index);
            }
        }
        for indices in rows_by_model.values_mut() {
            indices.sort_by_key(|index| {
                let row = &rows[*index];
                (row.models.split('|').count(), row.kind != "measured")
            });
        }
        SpeedData {
            rows,
            classes: read_well_formed_csv_rows(CLASSES),
            rows_by_model,
        }
    })
}

/// Model lists in all rows, from the first field: model names have neither commas nor quotes.
fn list_model_fields_of_speed_rows() -> impl Iterator<Item = &'static str> {
    let lines = SPEEDS.lines().skip(1);
    lines.map(|line| line.split(',').next().unwrap_or_default())
}

impl DriveSpeeds {
    /// Speeds of a drive by its model string. A model without a row takes the likely controller's speeds by
    /// PCI vendor and NVMe version, else the likely class's medians by NVMe version.
    pub fn for_model(model: &str) -> Self {
        let find = SpeedFinder::new(model);
        let read_us =
            find.find_time_us(|row| row.qd1_read_us, |c| (c.qd1_read_us, c.n_qd1_read_us));
        let write_us = find.find_time_us(
            |row| row.qd1_write_us,
            |c| (c.qd1_write_us, c.n_qd1_write_us),
        );
        Self {
            read_mb_per_s: find.find_rate_over_similar_link(
                1.0,
                |row| row.seq_read_mb_s,
                |controller| controller.seq_read_mb_s,
                |c| (c.seq_read_mb_s, c.n_seq_read_mb_s),
            ),
            write_mb_per_s: find.find_rate_over_similar_link(
                1.0,
                |row| row.seq_write_mb_s,
                |controller| controller.seq_write_mb_s,
                |c| (c.seq_write_mb_s, c.n_seq_write_mb_s),
            ),
            read_iops: find.find_rate_over_similar_link(
                1e3,
                |row| row.rand_read_kiops_max,
                |controller| controller.rand_read_kiops_max,
                |c| (c.rand_read_kiops_max, c.n_rand_read_kiops_max),
            ),
            write_iops: find.find_rate_over_similar_link(
                1e3,
                |row| row.rand_write_kiops_max,
                |controller| controller.rand_write_kiops_max,
                |c| (c.rand_write_kiops_max, c.n_rand_write_kiops_max),
            ),
            flush_us: find.find_time_us(SpeedRow::flush_us_or_0_if_protected, |c| {
                (c.flush_us, c.n_flush_us)
            }),
            read_p999_us: find.find_tail_us(
                &read_us,
                |row| row.qd1_read_p999_us,
                |c| (c.qd1_read_p999_us, c.n_qd1_read_p999_us),
            ),
            write_p999_us: find.find_tail_us(
                &write_us,
                |row| row.qd1_write_p999_us,
                |c| (c.qd1_write_p999_us, c.n_qd1_write_p999_us),
            ),
            read_us,
            write_us,
        }
    }

    /// Each figure of speed with its name and unit.
    pub fn named_figures_with_units(&self) -> [(&'static str, &'static str, &Figure); 7] {
        [
            ("sequential reads", "MB/s", &self.read_mb_per_s),
            ("sequential writes", "MB/s", &self.write_mb_per_s),
            ("random reads", "IOPS", &self.read_iops),
            ("random writes", "IOPS", &self.write_iops),
            ("read at depth 1", "us", &self.read_us),
            ("write at depth 1", "us", &self.write_us),
            ("flush", "us", &self.flush_us),
        ]
    }

    /// The slow 0.1 % of both directions with their names, in us; a figure that is not given is not known.
    pub fn named_tails_in_us(&self) -> [(&'static str, &Figure); 2] {
        [
            ("read at 99.9 %", &self.read_p999_us),
            ("write at 99.9 %", &self.write_p999_us),
        ]
    }

    /// Number of published speeds for the model, without tails.
    pub fn count_published(&self) -> usize {
        let figures = self.named_figures_with_units().into_iter();
        figures
            .filter(|(.., figure)| matches!(figure.origin, Origin::Source(_)))
            .count()
    }
}

impl SpeedRow {
    fn speed_class(&self) -> SpeedClass<'_> {
        SpeedClass {
            class: &self.class,
            pcie_gen: &self.pcie_gen,
            flash: &self.flash,
            dram: &self.dram,
        }
    }

    /// Time of a flush in us. With power-loss protection there is nothing to flush, hence 0.
    fn flush_us_or_0_if_protected(&self) -> Option<f64> {
        self.flush_us.or((self.plp == "yes").then_some(0.0))
    }
}

impl ClassRow {
    fn speed_class(&self) -> SpeedClass<'_> {
        SpeedClass {
            class: &self.class,
            pcie_gen: &self.pcie_gen,
            flash: &self.flash,
            dram: &self.dram,
        }
    }
}

fn is_not_given(figure: &Figure) -> bool {
    !figure.is_given()
}

/// A model's most likely class, if nothing but the NVMe version is known.
fn guess_speed_class_by_nvme_version(version: Option<&str>) -> SpeedClass<'static> {
    let is_new = version.is_some_and(|version| !version.starts_with('<') && version >= PCIE_4_FROM);
    SpeedClass {
        pcie_gen: if is_new { "4" } else { "3" },
        ..COMMONEST
    }
}

/// The controller whose figures stand in for a model's own.
enum KnownController {
    /// The model's row names it.
    Named(&'static Controller),
    /// The controller is likely by PCI vendor and NVMe version.
    Likely(&'static Controller),
}

/// Finds the speeds of a model, of its controller, or of the classes nearest to it.
struct SpeedFinder {
    rows: Vec<&'static SpeedRow>,
    class: SpeedClass<'static>,
    controller: Option<KnownController>,
}

/// Reads the median of a class, with the number of figures behind it.
type ClassMedian = fn(&ClassRow) -> (Option<f64>, u32);

impl SpeedFinder {
    fn new(model: &str) -> Self {
        let data = builtin_speeds_and_classes();
        let indices = data.rows_by_model.get(model).map_or(&[][..], Vec::as_slice);
        let rows: Vec<&SpeedRow> = indices.iter().map(|index| &data.rows[*index]).collect();
        if let Some(first) = rows.first() {
            let mut names = rows.iter().map(|row| row.controller.as_str());
            let controller = names.find_map(find_controller_by_name);
            return Self {
                class: first.speed_class(),
                controller: controller.map(KnownController::Named),
                rows,
            };
        }
        let known = DriveLibrary::builtin().find_one_model(model).ok();
        let table = known.map(CatalogEntry::most_frequent_table);
        let likely = table.and_then(find_likely_controller);
        let version = table.and_then(|table| table.nvme_version.as_deref());
        Self {
            rows,
            class: likely.map_or_else(
                || guess_speed_class_by_nvme_version(version),
                Controller::speed_class,
            ),
            controller: likely.map(KnownController::Likely),
        }
    }

    /// Whether a row tells the model's class, rather than a guess.
    fn knows_class(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Finds a rate in units of `scale`. The link bounds it, so a class with two lanes says nothing about one with
    /// four.
    fn find_rate_over_similar_link(
        &self,
        scale: f64,
        published: fn(&SpeedRow) -> Option<f64>,
        by_controller: fn(&Controller) -> Option<f64>,
        median: ClassMedian,
    ) -> Figure {
        self.find_published(scale, published)
            .or_else(|| self.find_by_controller(scale, by_controller))
            .or_else(|| self.find_nearest_median(scale, median, agree_on_two_lanes))
            .unwrap_or_default()
    }

    /// Finds a time in us, which hardly depends on the link.
    fn find_time_us(&self, published: fn(&SpeedRow) -> Option<f64>, median: ClassMedian) -> Figure {
        self.find_published(1.0, published)
            .or_else(|| self.find_nearest_median(1.0, median, |_, _| true))
            .unwrap_or_default()
    }

    /// Finds a 99.9th percentile in us: the model's, or the median in the model's class, if a row tells the class. A
    /// percentile too far from the mean, measured elsewhere, is left out, and no other class stands in.
    fn find_tail_us(
        &self,
        mean: &Figure,
        published: fn(&SpeedRow) -> Option<f64>,
        median: ClassMedian,
    ) -> Figure {
        self.find_published(1.0, published)
            .or_else(|| {
                self.find_nearest_median(1.0, median, is_own_class)
                    .filter(|_| self.knows_class())
            })
            .filter(|tail| is_tail_above_mean(mean, tail))
            .unwrap_or_default()
    }

    /// Finds the model's published figure.
    fn find_published(
        &self,
        scale: f64,
        published: fn(&SpeedRow) -> Option<f64>,
    ) -> Option<Figure> {
        let mut rows = self.rows.iter();
        let (row, value) = rows.find_map(|row| Some((row, published(row)?)))?;
        let note = if row.note.is_empty() {
            String::new()
        } else {
            format!("; {}", row.note)
        };
        let source = format!("{}, {}{note}", row.kind, row.source);
        Some(Figure::with_own_source(value * scale, source))
    }

    /// Finds the maximum of the model's controller.
    fn find_by_controller(
        &self,
        scale: f64,
        by_controller: fn(&Controller) -> Option<f64>,
    ) -> Option<Figure> {
        let (controller, how) = match self.controller.as_ref()? {
            KnownController::Named(controller) => (controller, "the drive's controller"),
            KnownController::Likely(controller) => (
                controller,
                "the slowest that is likely by PCI vendor and NVMe version",
            ),
        };
        let value = by_controller(controller)?;
        let Controller {
            name, note, source, ..
        } = controller;
        let why = format!("from {name}, {how}: {note}, {source}");
        Some(Figure::assumed(value * scale, why))
    }

    /// Finds the median of the model's class, else of the most similar class that is `comparable` and has one.
    fn find_nearest_median(
        &self,
        scale: f64,
        median: ClassMedian,
        comparable: fn(SpeedClass<'_>, SpeedClass<'_>) -> bool,
    ) -> Option<Figure> {
        let medians = builtin_speeds_and_classes()
            .classes
            .iter()
            .filter_map(|row| {
                let (value, n) = median(row);
                Some((row.speed_class(), value?, n))
            });
        let (class, value, n) = medians
            .filter(|(class, ..)| comparable(self.class, *class))
            .max_by_key(|(class, _, n)| (self.class.rank_similarity_to(*class), *n))?;
        let likely = match (&self.controller, class == self.class) {
            (Some(KnownController::Likely(likely)), _) => {
                format!(
                    "; the class is that of {}, a likely controller",
                    likely.name
                )
            }
            _ if !self.knows_class() => {
                "; the drive's class is a guess by its NVMe version".to_owned()
            }
            (_, true) => String::new(),
            (_, false) => "; nothing is known of the drive's own class".to_owned(),
        };
        let why = format!("median of {n} {class}{likely}");
        Some(Figure::assumed(value * scale, why))
    }
}
