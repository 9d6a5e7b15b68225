//! How fast drives are: published figures by model, and medians by class for the rest.
//!
//! The data are `data/drive_speeds.csv`, whose rows name the models that they hold for, and
//! `data/drive_speed_classes.csv`.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::DriveLibrary;
use crate::machine::{Figure, Origin};

const SPEEDS: &str = include_str!("../../data/drive_speeds.csv");
const CLASSES: &str = include_str!("../../data/drive_speed_classes.csv");

/// The first NVMe version of which most drives of the library with known speeds have PCIe 4.
const PCIE_4_FROM: &str = "1.4";

/// Speeds of a drive model. A figure is published for the model, or the median of its class and so assumed; a figure
/// that is not given is not known of the class either.
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
    seq_read_mb_s: Option<f64>,
    seq_write_mb_s: Option<f64>,
    rand_read_kiops_max: Option<f64>,
    rand_write_kiops_max: Option<f64>,
    qd1_read_us: Option<f64>,
    qd1_write_us: Option<f64>,
    flush_us: Option<f64>,
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
}

/// The traits that decide a drive's speed: market, PCIe, flash and DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpeedClass<'a> {
    class: &'a str,
    pcie_gen: &'a str,
    flash: &'a str,
    dram: &'a str,
}

/// The class with the most figures, whose medians stand in where another class has none.
const COMMONEST: SpeedClass<'static> = SpeedClass {
    class: "client",
    pcie_gen: "3",
    flash: "tlc",
    dram: "yes",
};

impl fmt::Display for SpeedClass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let market = match self.class {
            "dc" => "data-centre",
            class => class,
        };
        let memory = match self.dram {
            "yes" => ", with DRAM",
            "hmb" => ", with a host memory buffer",
            _ => "",
        };
        let flash = self.flash.to_uppercase();
        write!(
            f,
            "{market} drives, PCIe {}, {flash}{memory}",
            self.pcie_gen
        )
    }
}

impl SpeedClass<'_> {
    /// How similar another class is, as a list of common traits; more is closer. Flash counts before market, both
    /// before the generation of PCIe. Of classes that share neither, the commonest is the closest.
    fn common_traits_with(self, other: SpeedClass<'_>) -> [bool; 6] {
        let same_flash = self.flash == other.flash;
        let same_market = self.class == other.class;
        [
            self == other,
            same_flash && same_market,
            same_flash,
            same_market,
            other == COMMONEST,
            self.pcie_gen == other.pcie_gen,
        ]
    }

    fn has_same_lanes(self, other: SpeedClass<'_>) -> bool {
        self.pcie_gen.ends_with("x2") == other.pcie_gen.ends_with("x2")
    }
}

/// The files with drive speeds, read once.
struct SpeedData {
    rows: Vec<SpeedRow>,
    classes: Vec<ClassRow>,
    /// Indices of the rows for a model: the row with the fewest models first, and measured before declared.
    rows_by_model: HashMap<&'static str, Vec<usize>>,
}

fn builtin_speeds() -> &'static SpeedData {
    static DATA: OnceLock<SpeedData> = OnceLock::new();
    DATA.get_or_init(|| {
        let rows: Vec<SpeedRow> = read_rows(SPEEDS);
        let mut rows_by_model: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, names) in list_model_fields().enumerate() {
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
            classes: read_rows(CLASSES),
            rows_by_model,
        }
    })
}

/// The model lists of all rows, from the first field: model names have neither commas nor quotes.
fn list_model_fields() -> impl Iterator<Item = &'static str> {
    let lines = SPEEDS.lines().skip(1);
    lines.map(|line| line.split(',').next().unwrap_or_default())
}

fn read_rows<T: serde::de::DeserializeOwned>(text: &str) -> Vec<T> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().filter_map(Result::ok).collect()
}

impl DriveSpeeds {
    /// Speeds of a drive by its model string. A model without published speeds has the medians of the class that is
    /// most likely by its NVMe version.
    pub fn for_model(model: &str) -> Self {
        let data = builtin_speeds();
        let indices = data.rows_by_model.get(model).map_or(&[][..], Vec::as_slice);
        let rows: Vec<&SpeedRow> = indices.iter().map(|index| &data.rows[*index]).collect();
        let (class, is_known) = match rows.first() {
            Some(row) => (row.speed_class(), true),
            None => (guess_speed_class(model), false),
        };
        let find = Finder {
            rows,
            class,
            is_known,
        };
        Self {
            read_mb_per_s: find.find_rate(
                1.0,
                |row| row.seq_read_mb_s,
                |c| (c.seq_read_mb_s, c.n_seq_read_mb_s),
            ),
            write_mb_per_s: find.find_rate(
                1.0,
                |row| row.seq_write_mb_s,
                |c| (c.seq_write_mb_s, c.n_seq_write_mb_s),
            ),
            read_iops: find.find_rate(
                1e3,
                |row| row.rand_read_kiops_max,
                |c| (c.rand_read_kiops_max, c.n_rand_read_kiops_max),
            ),
            write_iops: find.find_rate(
                1e3,
                |row| row.rand_write_kiops_max,
                |c| (c.rand_write_kiops_max, c.n_rand_write_kiops_max),
            ),
            read_us: find.find_time(|row| row.qd1_read_us, |c| (c.qd1_read_us, c.n_qd1_read_us)),
            write_us: find.find_time(
                |row| row.qd1_write_us,
                |c| (c.qd1_write_us, c.n_qd1_write_us),
            ),
            flush_us: find.find_time(SpeedRow::flush_time_us, |c| (c.flush_us, c.n_flush_us)),
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

    /// Number of the figures that are published for the model.
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
    fn flush_time_us(&self) -> Option<f64> {
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

/// The class that a model without published speeds most likely belongs to.
fn guess_speed_class(model: &str) -> SpeedClass<'static> {
    let known = DriveLibrary::builtin().find_one_model(model).ok();
    let version = known.and_then(|entry| entry.most_frequent_table().nvme_version.as_deref());
    let is_new = version.is_some_and(|version| !version.starts_with('<') && version >= PCIE_4_FROM);
    SpeedClass {
        pcie_gen: if is_new { "4" } else { "3" },
        ..COMMONEST
    }
}

/// Finds the speeds of a model, or of the classes nearest to it.
struct Finder<'a> {
    rows: Vec<&'a SpeedRow>,
    class: SpeedClass<'a>,
    /// Whether the class is the model's own, rather than a likely one.
    is_known: bool,
}

/// Reads the median of a class, with the number of figures behind it.
type ClassMedian = fn(&ClassRow) -> (Option<f64>, u32);

impl Finder<'_> {
    /// Finds a rate in units of `scale`. The link bounds it, so a class with two lanes says nothing about one with
    /// four.
    fn find_rate(
        &self,
        scale: f64,
        published: fn(&SpeedRow) -> Option<f64>,
        median: ClassMedian,
    ) -> Figure {
        self.find_figure(scale, published, median, |own, other| {
            own.has_same_lanes(other)
        })
    }

    /// Finds a time in us, which hardly depends on the link.
    fn find_time(&self, published: fn(&SpeedRow) -> Option<f64>, median: ClassMedian) -> Figure {
        self.find_figure(1.0, published, median, |_, _| true)
    }

    /// Finds a figure of the model, else of its class, else of the most similar class that is `comparable` and has one.
    fn find_figure(
        &self,
        scale: f64,
        published: fn(&SpeedRow) -> Option<f64>,
        median: ClassMedian,
        comparable: fn(SpeedClass<'_>, SpeedClass<'_>) -> bool,
    ) -> Figure {
        let mut rows = self.rows.iter();
        if let Some((row, value)) = rows.find_map(|row| Some((row, published(row)?))) {
            let note = if row.note.is_empty() {
                String::new()
            } else {
                format!("; {}", row.note)
            };
            let source = format!("{}, {}{note}", row.kind, row.source);
            return Figure::with_own_source(value * scale, source);
        }
        let medians = builtin_speeds().classes.iter().filter_map(|row| {
            let (value, n) = median(row);
            Some((row.speed_class(), value?, n))
        });
        let similar = medians
            .filter(|(class, ..)| comparable(self.class, *class) || *class == COMMONEST)
            .max_by_key(|(class, _, n)| (self.class.common_traits_with(*class), *n));
        let Some((class, value, n)) = similar else {
            return Figure::default();
        };
        let likely = match (self.is_known, class == self.class) {
            (true, true) => "",
            (true, false) => "; nothing is known of the drive's own class",
            (false, _) => "; the drive's class is a guess by its NVMe version",
        };
        Figure::assumed(value * scale, format!("median of {n} {class}{likely}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_and_names_drives_of_the_library() {
        let (data, library) = (builtin_speeds(), DriveLibrary::builtin());
        assert_eq!(data.rows.len() + 1, SPEEDS.lines().count());
        assert_eq!(data.classes.len() + 1, CLASSES.lines().count());
        assert_eq!(data.rows_by_model.len(), 331);
        for model in data.rows_by_model.keys() {
            assert_eq!(&library.find_one_model(model).unwrap().name, model);
        }
        for (row, list) in data.rows.iter().zip(list_model_fields()) {
            assert_eq!(row.models, list);
            assert!(row.source.contains('.'), "{list}: {}", row.source);
        }
    }

    #[test]
    fn every_drive_of_the_library_has_every_speed_with_an_origin() {
        let library = DriveLibrary::builtin();
        let mut published = 0;
        for table in library.tables() {
            let speeds = DriveSpeeds::for_model(&table.drive.model);
            published += usize::from(speeds.count_published() > 0);
            for (what, _, figure) in speeds.named_figures_with_units() {
                let is_flush = what == "flush";
                assert!(
                    figure.value > 0.0 || is_flush,
                    "{}: {what}",
                    table.drive.model
                );
                assert!(
                    matches!(figure.origin, Origin::Source(_) | Origin::Assumed(_)),
                    "{}: {what}",
                    table.drive.model
                );
            }
        }
        assert!(published > 331, "{published}");
    }

    #[test]
    fn the_row_of_the_model_itself_goes_before_that_of_its_family() {
        let speeds = DriveSpeeds::for_model("Samsung SSD 970 EVO Plus 2TB");
        assert_eq!(speeds.flush_us.origin.origin_kind_name(), "source");
        let datasheet = DriveSpeeds::for_model("Samsung SSD 970 EVO Plus 500GB");
        assert!((datasheet.read_us.value - 52.6).abs() < 1e-9);
        let unknown = DriveSpeeds::for_model("a drive that nobody knows");
        assert_eq!(unknown.count_published(), 0);
        let Origin::Assumed(why) = &unknown.read_mb_per_s.origin else {
            panic!("{unknown:?}");
        };
        assert!(
            why.starts_with("median of 57 client drives, PCIe 3, TLC, with DRAM"),
            "{why}"
        );
    }

    #[test]
    fn protected_caches_need_no_flush() {
        let flush = DriveSpeeds::for_model("SAMSUNG MZQLB960HAJR-00007").flush_us;
        assert_eq!(flush.value.to_bits(), 0.0_f64.to_bits());
        assert_eq!(flush.origin.origin_kind_name(), "source");
    }

    #[test]
    fn a_class_without_a_figure_takes_that_of_the_same_flash() {
        let optane = DriveSpeeds::for_model("INTEL SSDPED1D480GA");
        assert!((optane.read_us.value - 8.9).abs() < 1e-9);
        assert_eq!(
            optane.read_us.origin,
            Origin::Assumed(
                "median of 1 data-centre drives, PCIe 3, XPOINT; nothing is known of the drive's own class".to_owned()
            )
        );
        let protected = DriveSpeeds::for_model("SAMSUNG MZQL23T8HCLS-00A07");
        assert_eq!(protected.flush_us.value.to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn a_drive_with_two_lanes_gives_no_rate_to_one_with_four() {
        // The only rate of sequential writes to such memory is that of a drive with two lanes: 290 MB/s.
        let optane = DriveSpeeds::for_model("INTEL SSDPED1D480GA");
        assert!((optane.write_mb_per_s.value - 2300.0).abs() < 1e-9);
    }

    #[test]
    fn medians_of_flushes_leave_out_those_timed_with_a_write() {
        for class in &builtin_speeds().classes {
            let rows = builtin_speeds().rows.iter().filter(|row| {
                row.speed_class() == class.speed_class()
                    && !row.note.contains("write + fdatasync together")
            });
            let mut flushes: Vec<f64> = rows.filter_map(SpeedRow::flush_time_us).collect();
            flushes.sort_by(f64::total_cmp);
            let n = flushes.len();
            let middle = n.checked_sub(1).map(|last| [last / 2, n / 2]);
            let median = middle.map(|[low, high]| flushes[low].midpoint(flushes[high]));
            assert_eq!(
                (class.flush_us, class.n_flush_us as usize),
                (median, n),
                "{:?}",
                class.speed_class()
            );
        }
    }
}
