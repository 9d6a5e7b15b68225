//! Tests of published speeds, of medians by class, and of what likely controllers give.

use std::fmt::Write as _;

use super::controllers::builtin_controllers;
use super::*;

#[test]
fn every_row_is_read_and_names_drives_of_the_library() {
    let (data, library) = (builtin_speeds_and_classes(), DriveLibrary::builtin());
    assert_eq!(data.rows.len() + 1, SPEEDS.lines().count());
    assert_eq!(data.classes.len() + 1, CLASSES.lines().count());
    assert_eq!(data.rows_by_model.len(), 526);
    for model in data.rows_by_model.keys() {
        assert_eq!(&library.find_one_model(model).unwrap().name, model);
    }
    for (row, list) in data.rows.iter().zip(list_model_fields_of_speed_rows()) {
        assert_eq!(row.models, list);
        assert!(row.source.contains('.'), "{list}: {}", row.source);
        let has_controller = find_controller_by_name(&row.controller).is_some();
        assert_eq!(has_controller, !row.controller.is_empty(), "{list}");
    }
}

#[test]
fn every_drive_of_the_library_has_every_speed_with_an_origin() {
    let library = DriveLibrary::builtin();
    let mut with_own_figures = std::collections::BTreeSet::new();
    for table in library.tables() {
        let speeds = DriveSpeeds::for_model(&table.drive.model);
        if speeds.count_published() > 0 {
            with_own_figures.insert(&table.drive.model);
        }
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
    assert_eq!(with_own_figures.len(), 412);
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
        why.starts_with("median of 63 client drives, PCIe 3, TLC, with DRAM"),
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
            "median of 3 data-centre drives, PCIe 3, XPOINT; nothing is known of the drive's own class".to_owned()
        )
    );
    let protected = DriveSpeeds::for_model("SAMSUNG MZQL23T8HCLS-00A07");
    assert_eq!(protected.flush_us.value.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn a_drive_with_two_lanes_gives_no_rate_to_one_with_four() {
    // Of such memory a two-lane drive writes 290 MB/s, and a data-centre drive with four lanes 1050.
    let optane = DriveSpeeds::for_model("INTEL SSDPED1D480GA");
    assert!((optane.write_mb_per_s.value - 1050.0).abs() < 1e-9);
}

/// A column of the rows, with the class median of that column as the file has it.
type ClassColumn = (
    &'static str,
    fn(&SpeedRow) -> Option<f64>,
    fn(&ClassRow) -> (Option<f64>, u32),
);

fn class_columns() -> [ClassColumn; 9] {
    [
        (
            "seq_read_mb_s",
            |row| row.seq_read_mb_s,
            |c| (c.seq_read_mb_s, c.n_seq_read_mb_s),
        ),
        (
            "seq_write_mb_s",
            |row| row.seq_write_mb_s,
            |c| (c.seq_write_mb_s, c.n_seq_write_mb_s),
        ),
        (
            "rand_read_kiops_max",
            |row| row.rand_read_kiops_max,
            |c| (c.rand_read_kiops_max, c.n_rand_read_kiops_max),
        ),
        (
            "rand_write_kiops_max",
            |row| row.rand_write_kiops_max,
            |c| (c.rand_write_kiops_max, c.n_rand_write_kiops_max),
        ),
        (
            "qd1_read_us",
            |row| row.qd1_read_us,
            |c| (c.qd1_read_us, c.n_qd1_read_us),
        ),
        (
            "qd1_write_us",
            |row| row.qd1_write_us,
            |c| (c.qd1_write_us, c.n_qd1_write_us),
        ),
        ("flush_us", flush_us_unless_timed_with_a_write, |c| {
            (c.flush_us, c.n_flush_us)
        }),
        (
            "qd1_read_p999_us",
            |row| row.qd1_read_p999_us,
            |c| (c.qd1_read_p999_us, c.n_qd1_read_p999_us),
        ),
        (
            "qd1_write_p999_us",
            |row| row.qd1_write_p999_us,
            |c| (c.qd1_write_p999_us, c.n_qd1_write_p999_us),
        ),
    ]
}

fn flush_us_unless_timed_with_a_write(row: &SpeedRow) -> Option<f64> {
    row.flush_us_or_0_if_protected()
        .filter(|_| !row.note.contains("together"))
}

/// The median, rounded to a tenth, and the number of values behind it.
fn median_and_count(mut values: Vec<f64>) -> (Option<f64>, u32) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let middle = n.checked_sub(1).map(|last| [last / 2, n / 2]);
    let median = middle.map(|[low, high]| values[low].midpoint(values[high]));
    (
        median.map(|value| (value * 10.0).round() / 10.0),
        u32::try_from(n).unwrap(),
    )
}

fn class_traits(row: &SpeedRow) -> [&str; 4] {
    [&row.class, &row.pcie_gen, &row.flash, &row.dram]
}

/// The file of classes as it follows from the rows.
fn class_file_from_rows() -> String {
    let rows = &builtin_speeds_and_classes().rows;
    let classes: std::collections::BTreeSet<_> = rows.iter().map(class_traits).collect();
    let columns = class_columns();
    let names = columns.map(|(name, ..)| format!("{name},n_{name}"));
    let mut text = format!("class,pcie_gen,flash,dram,{}\n", names.join(","));
    for class in classes {
        let own = rows.iter().filter(|row| class_traits(row) == class);
        let medians = columns
            .map(|(_, published, _)| median_and_count(own.clone().filter_map(published).collect()));
        if medians.iter().all(|(median, _)| median.is_none()) {
            continue;
        }
        let cells = medians.map(|(median, n)| {
            format!("{},{n}", median.map_or_else(String::new, |m| m.to_string()))
        });
        let _ = writeln!(text, "{},{}", class.join(","), cells.join(","));
    }
    text
}

#[test]
fn class_medians_follow_from_the_rows() {
    let expected = class_file_from_rows();
    if std::env::var_os("WAKEPATH_UPDATE_DATA").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/drive_speed_classes.csv");
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert_eq!(
        CLASSES, expected,
        "WAKEPATH_UPDATE_DATA=1 cargo test -p wakepath-hardware class_medians writes the file anew"
    );
    for class in &builtin_speeds_and_classes().classes {
        let own = builtin_speeds_and_classes().rows.iter();
        let own = own.filter(|row| row.speed_class() == class.speed_class());
        for (name, published, in_file) in class_columns() {
            let computed = median_and_count(own.clone().filter_map(published).collect());
            assert_eq!(in_file(class), computed, "{name} {:?}", class.speed_class());
        }
    }
}

fn assumed_because(figure: &Figure) -> &str {
    match &figure.origin {
        Origin::Assumed(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_controller_has_a_source_and_a_rate() {
    let all = builtin_controllers();
    assert_eq!(all.len(), 12);
    for controller in all {
        assert!(controller.source.contains('.'), "{controller:?}");
        assert!(controller.seq_read_mb_s > Some(0.0), "{controller:?}");
        assert!(controller.pci_vendor.starts_with("0x"), "{controller:?}");
        assert!(["yes", "hmb", "no"].contains(&controller.dram.as_str()));
    }
}

#[test]
fn a_drive_without_figures_takes_those_of_its_slowest_likely_controller() {
    let speeds = DriveSpeeds::for_model("Fanxiang S501 128GB");
    assert!((speeds.read_mb_per_s.value - 2500.0).abs() < 1e-9);
    let why = assumed_because(&speeds.read_mb_per_s);
    assert!(
        why.starts_with("from Silicon Motion SM2263XT, the slowest that is likely by PCI vendor"),
        "{why}"
    );
    // Nothing is published of that controller's writes; the class is that of drives without DRAM.
    let why = assumed_because(&speeds.write_mb_per_s);
    assert!(
        why.contains(
            "PCIe 3, TLC, with a host memory buffer; the class is that of Silicon Motion SM2263XT"
        ),
        "{why}"
    );
    assert_eq!(speeds.count_published(), 0);
}

#[test]
fn generations_of_controllers_go_by_what_each_maker_s_drives_report() {
    // Maxio's MAP1202 and Realtek's controllers report NVMe 1.4 and have PCIe 3; from Phison, 1.4 is PCIe 4.
    for (model, mb_per_s) in [
        ("512GB SSD", 2200.0),
        ("SPCC M.2 PCIe SSD", 2150.0),
        ("PCIe SSD", 5000.0),
        ("Sabrent", 2100.0),
    ] {
        let reads = DriveSpeeds::for_model(model).read_mb_per_s;
        assert!((reads.value - mb_per_s).abs() < 1e-9, "{model}: {reads:?}");
        assert_eq!(reads.origin.origin_kind_name(), "assumed", "{model}");
    }
}

#[test]
fn a_row_that_names_a_controller_takes_its_figures() {
    let reads = DriveSpeeds::for_model("TS128GMTE110S").read_mb_per_s;
    let why = assumed_because(&reads);
    assert!(
        why.starts_with("from Silicon Motion SM2263XT, the drive's controller: maximum"),
        "{why}"
    );
}

#[test]
fn an_oem_drive_has_the_figures_of_the_retail_drive_with_its_controller() {
    let sn530 = DriveSpeeds::for_model("WDC PC SN530 SDBPNPZ-256G-1006");
    let retail = DriveSpeeds::for_model("WDC WDS250G2B0C-00PXH0");
    assert!((sn530.read_mb_per_s.value - 2400.0).abs() < 1e-9);
    assert_eq!(sn530.count_published(), retail.count_published());
    let Origin::Source(source) = &sn530.read_mb_per_s.origin else {
        panic!("{:?}", sn530.read_mb_per_s);
    };
    assert!(source.contains("15b7:5009"), "{source}");
}

#[test]
fn tails_are_the_model_s_or_its_known_class_s_or_unknown() {
    let own = DriveSpeeds::for_model("SAMSUNG MZVLB256HBHQ-00000");
    assert!((own.read_p999_us.value - 157.0).abs() < 1e-9);
    assert_eq!(own.read_p999_us.origin.origin_kind_name(), "source");
    let of_class = DriveSpeeds::for_model("Samsung SSD 970 EVO 1TB");
    let why = assumed_because(&of_class.read_p999_us);
    assert!(why.starts_with("median of 2 client drives"), "{why}");
    // No drive with a host memory buffer has a published percentile, and a guessed class lends none.
    for model in [
        "WDC PC SN530 SDBPNPZ-256G-1006",
        "a drive that nobody knows",
    ] {
        let unknown = DriveSpeeds::for_model(model);
        assert!(!unknown.read_p999_us.is_given(), "{model}");
        assert!(!unknown.write_p999_us.is_given(), "{model}");
    }
}

#[test]
fn every_tail_of_the_library_fits_its_mean() {
    for table in DriveLibrary::builtin().tables() {
        let speeds = DriveSpeeds::for_model(&table.drive.model);
        for (tail, mean) in [
            (&speeds.read_p999_us, &speeds.read_us),
            (&speeds.write_p999_us, &speeds.write_us),
        ] {
            let fits = !tail.is_given() || is_tail_above_mean(mean, tail);
            assert!(fits, "{}: {mean:?} {tail:?}", table.drive.model);
        }
    }
}
