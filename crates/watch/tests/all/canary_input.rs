//! Reading what machines measured.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use wakepath_watch::canary::{BucketUnit, CanaryMetric, FleetSeries, SeriesCollector, UnixHour};

/// Collects files with these names and contents.
fn collect(metric: &str, files: &[(&str, &str)]) -> Result<FleetSeries, String> {
    let folder = tempfile::tempdir().unwrap();
    let metric = CanaryMetric::from_name(metric, None).unwrap();
    let mut collector = SeriesCollector::new(metric, "instance", BucketUnit::Seconds, None);
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
    }
    let (name, _) = files.first().unwrap();
    let read = collector
        .add_file(&folder.path().join(name))
        .map(|()| collector.finish());
    let within = |error: wakepath_watch::canary::CanaryError| {
        wakepath_units::causes::with_causes(&error)
            .replace(&folder.path().display().to_string(), "F")
    };
    read.map_err(within)?.map_err(within)
}

/// An answer of Prometheus with these series: labels and values.
fn answer(series: &[(&str, &str)]) -> String {
    let series: Vec<String> = series
        .iter()
        .map(|(labels, values)| format!(r#"{{"metric":{{{labels}}},"values":[{values}]}}"#))
        .collect();
    format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{}]}}}}"#,
        series.join(",")
    )
}

#[test]
fn buckets_of_prometheus_become_a_percentile() {
    let bucket = |le: &str| {
        format!(r#""__name__":"latency_seconds_bucket","instance":"a:9100","le":"{le}""#)
    };
    // 990 of 1000 requests in an hour take at most 100 us.
    let text = answer(&[
        (&bucket("0.0001"), r#"[0,"0"],[1800,"990"],[3599,"1980"]"#),
        (&bucket("0.0002"), r#"[0,"0"],[1800,"1000"],[3599,"2000"]"#),
        (&bucket("+Inf"), r#"[0,"0"],[1800,"1000"],[3599,"2000"]"#),
    ]);
    let series = collect("p99_us", &[("a.json", &text)]).unwrap();
    let machine = &series.machines["a:9100"];
    let mut both_days = machine.clone();
    both_days.add_requests(UnixHour(24), 100_000, 200_000, 5000.0);
    let change = both_days
        .measure_change(
            &CanaryMetric::from_name("p99_us", None).unwrap(),
            UnixHour(0)..UnixHour(24),
            UnixHour(24)..UnixHour(48),
        )
        .unwrap();
    assert!((change.before - 100.0).abs() < 1e-6, "{change:?}");
    assert!((change.after - 199.0).abs() < 1e-6, "{change:?}");
}

/// The 99th percentile in us of a machine's first two days. Its counters have a sample each hour; `without_value` names the bucket
/// and the hours of samples without one.
fn p99_of_hourly_counters(without_value: &str, hours: &[u64]) -> (f64, Vec<String>) {
    let bounds = [
        ("0.0001", 900),
        ("0.0003", 985),
        ("0.0005", 995),
        ("0.001", 999),
        ("+Inf", 1000),
    ];
    let series: Vec<(String, String)> = bounds
        .iter()
        .map(|(le, requests)| {
            let labels = format!(r#""__name__":"latency_bucket","instance":"m4","le":"{le}""#);
            let samples: Vec<String> = (0..72)
                .map(|hour| {
                    // Each third hour is twice as busy.
                    let value = (requests * (hour + hour / 3)).to_string();
                    let is_lost = *le == without_value && hours.contains(&hour);
                    let shown = if is_lost { "NaN" } else { &*value };
                    format!(r#"[{},"{shown}"]"#, 3600 * hour)
                })
                .collect();
            (labels, samples.join(","))
        })
        .collect();
    let borrowed: Vec<(&str, &str)> = series
        .iter()
        .map(|(labels, samples)| (&**labels, &**samples))
        .collect();
    let fleet = collect("p99_us", &[("a.json", &answer(&borrowed))]).unwrap();
    let change = fleet.machines["m4"].measure_change(
        &CanaryMetric::from_name("p99_us", None).unwrap(),
        UnixHour(0)..UnixHour(48),
        UnixHour(48)..UnixHour(72),
    );
    (change.unwrap().before, fleet.notes)
}

#[test]
fn a_bucket_without_a_value_shifts_no_percentile() {
    let (whole, no_notes) = p99_of_hourly_counters("", &[]);
    assert!(no_notes.is_empty(), "{no_notes:?}");
    for bucket in ["0.0001", "0.0003", "0.0005", "0.001", "+Inf"] {
        for hours in [&[30][..], &[0], &[30, 31, 32, 33]] {
            let (p99, notes) = p99_of_hourly_counters(bucket, hours);
            assert!(
                (p99 / whole - 1.0).abs() < 1e-9,
                "le={bucket}: {p99} us instead of {whole} us"
            );
            let left_out = format!(
                "left out: times in {} hour{} of 1 machine, such as m4 in the hour of 1970-01-",
                hours.len(),
                if hours.len() == 1 { "" } else { "s" }
            );
            assert!(
                notes.iter().any(|note| note.starts_with(&left_out)),
                "{notes:?}"
            );
        }
    }
}

#[test]
fn percentiles_are_never_averaged() {
    let way_out = "percentiles of different hours cannot be averaged. Give the histogram instead";
    let quantile = answer(&[(r#""instance":"a","quantile":"0.99""#, r#"[0,"1"]"#)]);
    let computed = answer(&[(r#""instance":"a""#, r#"[0,"1"]"#)]);
    for (name, content) in [
        ("a.json", quantile.as_str()),
        ("a.json", &computed),
        ("a.csv", "time,machine,p99_us\n0,a,1\n"),
        ("a.csv", "time,machine,value\n0,a,1\n"),
    ] {
        let message = collect("p99_us", &[(name, content)]).unwrap_err();
        assert!(message.contains(way_out), "{content}: {message}");
    }
    let message = collect("mean_mw", &[("a.csv", "time,machine,p99_us\n0,a,1\n")]).unwrap_err();
    assert!(message.contains(way_out), "{message}");
}

#[test]
fn tables_have_samples_or_requests() {
    let text = "machine,time,mean_mw\na,2026-01-01T00:30:00Z,100\na,2026-01-01T00:45:00Z,200\nb,1767225600,1\n";
    let series = collect("mean_mw", &[("a.csv", text)]).unwrap();
    let names: Vec<&String> = series.machines.keys().collect();
    assert_eq!(names, ["a", "b"]);
    let span = series.first_and_last_hour().unwrap();
    assert_eq!(span.0, UnixHour::containing_second(1_767_225_600));
    assert_eq!(span.0, span.1);
    let text = "time,machine,low_us,high_us,count\n0,a,0,100,5\n0,a,100,200,5\n0,a,100,200,5\n";
    let series = collect("p50_us", &[("a.csv", text)]).unwrap();
    assert_eq!(
        series.notes,
        ["1 samples were given more than once; each counts once"]
    );
}

#[test]
fn a_table_lists_results_of_fio() {
    let mut fio = r#"{"fio version":"fio-3.33","jobs":[{"jobname":"a","read":{"io_bytes":4096000,"runtime":1000,"total_ios":1000,
        "clat_ns":{"mean":100.0,"N":1000,"percentile":{"99.000000":100},"bins":{"BINS"}}}}]}"#
        .to_owned();
    let list = "time,machine,file\n0,a,runs/a.json\n";
    let without = fio.replace(r#"{"BINS"}"#, "{}");
    let message = collect("p99_us", &[("a.csv", list), ("runs/a.json", &without)]).unwrap_err();
    assert!(
        message.ends_with(
            "line 2: `runs/a.json` has no histogram of latencies; fio writes one with --output-format=json+"
        ),
        "{message}"
    );
    fio = fio.replace(r#""BINS""#, r#""100000":1000"#);
    let series = collect("p99_us", &[("a.csv", list), ("runs/a.json", &fio)]).unwrap();
    assert_eq!(series.machines.len(), 1);
    let series = collect("iops", &[("a.csv", list), ("runs/a.json", &fio)]).unwrap();
    assert_eq!(series.machines.len(), 1);
}

#[test]
fn bad_input_is_told_with_its_place() {
    for (name, content, expected) in [
        (
            "a.json",
            "",
            "F/a.json: is empty; expected Prometheus' JSON or CSV",
        ),
        (
            "a.json",
            "{",
            "F/a.json: no answer of Prometheus to query_range: EOF while parsing",
        ),
        (
            "a.json",
            r#"{"status":"error","error":"too \u001b many points"}"#,
            "F/a.json: Prometheus has answered: too \\u{1b} many points",
        ),
        (
            "a.json",
            r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
            "F/a.json: has a vector, and series are needed: ask query_range, not query",
        ),
        (
            "a.json",
            &answer(&[(r#""host":"a""#, r#"[0,"1"]"#)]),
            "F/a.json: a series has no label `instance` that names its machine; its labels: host; give --label",
        ),
        (
            "a.json",
            &answer(&[(r#""instance":"a","le":"-3""#, r#"[0,"1"]"#)]),
            "F/a.json: le=\"-3\" is no bound of a bucket",
        ),
        (
            "a.json",
            &answer(&[(r#""instance":"a""#, r#"[1e300,"1"]"#)]),
            "is no time in seconds since 1970",
        ),
        (
            "a.json",
            &answer(&[]),
            "no machine has any value; is the machine's label right (--label)?",
        ),
        (
            "a.csv",
            "time,host\n",
            "F/a.csv: expected a header with time, machine, and mean_mw",
        ),
        (
            "a.csv",
            "time,machine,mean_mw\nnoon,a,1\n",
            "F/a.csv: line 2: `noon` is no time; give seconds since 1970",
        ),
        (
            "a.csv",
            "time,machine,mean_mw\n0,a,x\n",
            "F/a.csv: line 2: `x` is no number",
        ),
        (
            "a.csv",
            "time,machine,mean_mw\n0,,1\n",
            "F/a.csv: line 2: has no machine",
        ),
        (
            "a.csv",
            "time,machine,file\n0,a,../../etc/passwd\n",
            "F/a.csv: line 2: `../../etc/passwd` is not below the table's own folder",
        ),
        (
            "a.csv",
            "time,machine,mean_mw\n0,a,1\n4000000000,a,1\n",
            "from 1970-01-01T00:00:00Z to 2096-10-02T07:00:00Z; are all times in seconds since 1970?",
        ),
        (
            "a.csv",
            "time,machine,low_us,high_us,count\n0,a,5,1,3\n",
            "F/a.csv: line 2: expected low_us up to high_us, and a count of 0 or more",
        ),
    ] {
        let message = collect("mean_mw", &[(name, content)]).unwrap_err();
        assert!(message.contains(expected), "{content}: {message}");
    }
}

#[test]
fn two_values_of_one_time_are_refused() {
    let bucket = r#""__name__":"latency_seconds_bucket","instance":"a","le":"0.1""#;
    let json = answer(&[(bucket, r#"[60,"5"],[60,"6"]"#)]);
    let gauge = "time,machine,mean_mw\n60,a,5\n60,a,6\n";
    for (metric, name, text) in [("p99_us", "a.json", &*json), ("mean_mw", "a.csv", gauge)] {
        assert_eq!(
            collect(metric, &[(name, text)]).unwrap_err(),
            "a has two different values at 1970-01-01T00:01:00Z, and nobody knows which is right: leave one file or line out"
        );
    }
}

#[test]
fn numbers_that_are_none_are_counted() {
    let text = answer(&[(r#""instance":"a""#, r#"[0,"1"],[60,"NaN"],[120,"+Inf"]"#)]);
    let series = collect("mean_mw", &[("a.json", &text)]).unwrap();
    assert_eq!(
        series.notes,
        ["2 samples are empty, no numbers, or negative counts, and were left out"]
    );
}

#[test]
fn a_gap_in_a_table_is_left_out_and_counted() {
    let gaps = "2 samples are empty, no numbers, or negative counts, and were left out";
    let whole = collect("mean_mw", &[("a.csv", "time,machine,mean_mw\n0,a,1\n")]).unwrap();
    let text = "time,machine,mean_mw\n0,a,1\n60,a,\n120,a,NaN\n";
    let series = collect("mean_mw", &[("a.csv", text)]).unwrap();
    assert_eq!(series.machines, whole.machines);
    assert_eq!(series.notes, [gaps]);

    let head = "time,machine,low_us,high_us,count\n0,a,0,100,5\n0,a,100,200,5\n";
    let whole = collect("p99_us", &[("a.csv", head)]).unwrap();
    let text = format!(
        "{head}60,a,0,100,5\n60,a,100,200,\n60,a,200,300,5\n120,a,0,100,nan\n120,a,100,200,5\n"
    );
    let series = collect("p99_us", &[("a.csv", &text)]).unwrap();
    assert_eq!(series.machines, whole.machines);
    let left_out = "3 counts of requests were left out, because another bucket of their machine and time has none";
    assert_eq!(series.notes, [left_out, gaps]);

    // A value in another row of the same bucket fills the gap.
    let text = "time,machine,low_us,high_us,count\n0,a,0,100,5\n0,a,100,200,\n0,a,100,200,5\n";
    let series = collect("p99_us", &[("a.csv", text)]).unwrap();
    assert_eq!(series.machines, whole.machines);

    let message = collect("p99_us", &[("a.csv", "time,machine,file\n0,a,\n")]).unwrap_err();
    assert_eq!(
        message,
        "no machine has any value; is the machine's label right (--label)?"
    );
}

#[test]
fn a_file_that_is_no_regular_file_is_refused() {
    let metric = CanaryMetric::from_name("mean_mw", None).unwrap();
    let mut collector = SeriesCollector::new(metric, "instance", BucketUnit::Seconds, None);
    for path in ["/dev/zero", "/proc/self", "/nothing"] {
        assert!(collector.add_file(&PathBuf::from(path)).is_err(), "{path}");
    }
}

#[test]
fn a_machine_s_table_may_be_long() {
    let mut text = "time,machine,mean_mw\n".to_owned();
    for minute in 0..20_000 {
        writeln!(text, "{},a,100", minute * 60).unwrap();
    }
    let series = collect("mean_mw", &[("a.csv", &text)]).unwrap();
    let (first, last) = series.first_and_last_hour().unwrap();
    assert_eq!((first, last), (UnixHour(0), UnixHour(333)));
}

proptest! {
    #[test]
    fn no_text_panics(
        head in prop::sample::select(vec![
            "", "{", "time,machine,mean_mw\n", "time,machine,low_us,high_us,count\n", "time,machine,file\n",
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[",
        ]),
        cells in prop::collection::vec("[-0-9eE.:TZ/a-c+\"{}\\[\\]]{0,12}", 0..12),
    ) {
        let text = format!("{head}{}\n", cells.join(","));
        for metric in ["mean_mw", "mean_us", "p99_us"] {
            let _ = collect(metric, &[("a.csv", &text)]);
        }
    }
}
