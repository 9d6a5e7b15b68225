//! `wakepath compare` as a whole command: questions with conditions, and rankings.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;

use crate::common::{fails_with, json, wakepath};

/// A result as fio writes it, of five runs: its folder's name is its policy's.
fn fio_result(folder: &Path, policy: &str, us: f64, iops: u32) -> String {
    let path = folder.join(policy);
    fs::create_dir(&path).unwrap();
    for run in 0..5 {
        let us = (us + f64::from(run)) * 1e3;
        let text = format!(
            r#"{{"fio version":"fio-3.33","timestamp":{run},"jobs":[{{"jobname":"j","read":{{"total_ios":{iops},"runtime":1000,"iops":{iops},"bw_bytes":1000,"lat_ns":{{"min":1,"max":1000000,"mean":{us},"stddev":1,"N":{iops}}},"clat_ns":{{"mean":{us},"N":{iops},"percentile":{{"99.000000":{us}}}}}}}}}]}}"#
        );
        fs::write(path.join(format!("{run}.json")), text).unwrap();
    }
    path.display().to_string()
}

/// What `compare` prints of these results.
fn compared(results: &[String], more: &[&str]) -> String {
    let mut arguments = vec!["compare"];
    arguments.extend(results.iter().map(String::as_str));
    arguments.extend(more);
    let done = wakepath(&arguments).success();
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_question_with_a_condition_names_the_policy_that_keeps_it() {
    let temp = tempfile::tempdir().unwrap();
    let results: Vec<String> = [
        ("slow", 300.0, 1000),
        ("fast", 100.0, 900),
        ("hot", 90.0, 20),
    ]
    .map(|(name, us, iops)| fio_result(temp.path(), name, us, iops))
    .into();
    let with = |more: &[&str]| compared(&results, more);
    let text = with(&["--maximise", "iops", "--keep", "p99_us<150"]);
    assert!(text.starts_with("fast: IOPS 900"), "{text}");
    assert!(
        text.contains("surely keeps p99_us < 150") && text.contains("Next: hot"),
        "{text}"
    );
    assert!(
        text.contains("Better, but misses p99_us < 150 by 101 %: slow"),
        "{text}"
    );
    let nearest = with(&["--maximise", "iops", "--keep", "p99_us<50"]);
    assert!(
        nearest.contains("Nothing surely keeps p99_us < 50. Nearest: hot, misses p99_us < 50"),
        "{nearest}"
    );
    let open = with(&["--maximise", "iops", "--keep", "p99_us<102.5"]);
    assert!(
        open.contains("Better, but cannot tell whether it keeps p99_us < 102.5: fast"),
        "{open}"
    );
    let ranked = with(&["--maximise", "iops", "--keep", "p99_us<150", "--top", "1"]);
    assert!(ranked.contains("1 of 3 policies"), "{ranked}");
    let front = with(&["--pareto", "iops,p99_us", "--format", "csv"]);
    assert_eq!(front.matches(",true").count(), 6, "{front}");
    for (more, parts) in [
        (["--keep", "p99_us<150"], ["--minimise", "--maximise"]),
        (["--minimise", "no_such"], ["metric", "no_such"]),
        (["--workload", "no_such"], ["workload", "no_such"]),
    ] {
        let arguments = [&["compare", &results[0], &results[1]][..], &more].concat();
        fails_with(wakepath(&arguments), &parts);
    }
}

#[test]
fn many_policies_are_ranked() {
    let temp = tempfile::tempdir().unwrap();
    // The later, the faster, but for the last, which is the slowest; the first is the baseline.
    let results: Vec<String> = (0..25)
        .map(|i| {
            let us = if i == 24 { 1000 } else { 500 - 10 * i };
            fio_result(
                temp.path(),
                &format!("p{i:02}"),
                f64::from(us),
                1_000_000 / us as u32,
            )
        })
        .collect();
    let text = compared(&results, &["--top", "3", "--metric", "p99_us"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("p99 latency, us: the best of 25 policies")
            && lines[0].ends_with("; p00 is number 24"),
        "{text}"
    );
    let ranked: Vec<Vec<&str>> = lines[3..6]
        .iter()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        ranked.iter().map(|r| r[1]).collect::<Vec<_>>(),
        ["p23", "p22", "p21"]
    );
    // Each is better than the baseline on the one workload, and worse on none.
    assert!(ranked.iter().all(|r| r[3..] == ["1", "0"]), "{text}");
    assert!(lines.len() < 12, "{text}");
    assert!(
        text.contains("25 policies are too many for a table"),
        "{text}"
    );
    let page = compared(
        &results,
        &["--top", "3", "--metric", "p99_us", "--format", "markdown"],
    );
    assert!(
        page.starts_with("### p99 latency, us: the best of 25"),
        "{page}"
    );
    assert!(page.contains("\n| 1 | p23 | "), "{page}");
    assert!(page.lines().count() < 12, "{page}");
    let brief = compared(&results, &["--brief", "--top", "3", "--metric", "p99_us"]);
    assert!(brief.contains("the best of 25 policies"), "{brief}");
    assert!(brief.lines().all(|line| line.len() < 300), "{brief}");
    let front = ["--pareto", "p99_us,iops", "--format", "markdown"];
    assert!(compared(&results, &front).starts_with("| policy | p99 latency, us | "));
    // Of 20 there still is a table with a sentence each; files have all in any case.
    let few = compared(&results[..20], &["--metric", "p99_us"]);
    assert_eq!(few.matches("better by").count(), 18, "{few}");
    // The second gains less than the margin.
    assert_eq!(few.matches("cannot tell").count(), 1, "{few}");
    let csv = compared(&results, &["--metric", "p99_us", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 26);
}

#[test]
fn the_questions_of_a_study_are_answered_first() {
    let temp = tempfile::tempdir().unwrap();
    let study = temp.path().join("study.toml");
    fs::write(
        &study,
        "name = 's'\nmachine = 'rk3399'\nrepeats = 4\n\
         [[workload]]\nname = 'reads'\nfio = 'iowait-rk3399.fio'\nseconds = 0.2\n\
         [[policy]]\nname = 'menu'\nset = 'menu@6.12'\n\
         [[policy]]\nname = 'shallowest'\nset = 'shallowest'\n\
         [[question]]\nmetric = 'iops'\n\
         [[question]]\nminimise = 'mean_mw'\nkeep = ['p90_us < 100000']\n",
    )
    .unwrap();
    let dir = temp.path().join("r").display().to_string();
    let study = study.display().to_string();
    let checked = wakepath(&["study", "check", &study]).success();
    let checked = String::from_utf8(checked.get_output().stdout.clone()).unwrap();
    assert!(
        checked.contains("least mean_mw, p90_us < 100000"),
        "{checked}"
    );
    wakepath(&["study", "run", &study, "-o", &dir]).success();
    let results = [dir];
    let text = compared(&results, &[]);
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("Which policy has the lowest power and keeps p90_us < 100000?")
    );
    let answer = lines.nth(1).unwrap();
    assert!(
        answer.starts_with("menu: power ") && answer.contains("surely keeps p90_us < 100000"),
        "{text}"
    );
    // A metric that is no headline is compared because a condition needs it.
    assert!(text.contains("p90 latency, us: Amean"), "{text}");
    let found = json(&wakepath(&["compare", &results[0], "--format", "json"]));
    assert_eq!(
        found["answers"][0]["choice"]["candidates"][0]["policy"],
        "menu"
    );
    assert_eq!(found["answers"][0]["choice"]["goal"], "minimise");
    assert!(found["rows"].is_array());
    // Who asks for something else gets that.
    let iops = compared(&results, &["--metric", "iops"]);
    assert!(iops.starts_with("IOPS, 1/s"), "{iops}");
    // What a reader should know comes with rankings, too.
    let result = Path::new(&results[0]).join("result.json");
    let document = fs::read_to_string(&result).unwrap();
    let unfinished = document.replace("\"complete\": true", "\"complete\": false");
    fs::write(&result, unfinished).unwrap();
    for more in [["--minimise", "mean_mw"], ["--pareto", "mean_mw,iops"]] {
        let ranked = compared(&results, &more);
        assert!(ranked.contains("the study was interrupted"), "{ranked}");
    }
}

#[test]
fn a_prediction_stands_beside_its_measurement() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    let job =
        "[r]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nioengine=psync\nthinktime=2ms\n";
    fs::write(folder.join("j.fio"), job).unwrap();
    let study = folder.join("s.toml");
    let text = "name = \"s\"\nmachine = \"rk3399\"\nrepeats = 3\npolicy = [\"menu\", \"teo\", \"cpu-latency[limit=100ms]\"]\n\
                [[workload]]\nname = \"reads\"\nfio = \"j.fio\"\nseconds = 0.3\n";
    fs::write(&study, text).unwrap();
    let [simulated, live] = ["s-sim", "s-live"].map(|name| folder.join(name).display().to_string());
    for dir in [&simulated, &live] {
        wakepath(&["study", "run", study.to_str().unwrap(), "-o", dir]).success();
    }
    let shown = |results: &[&str]| {
        let assert = wakepath(&[&["compare"], results].concat()).success();
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    };
    // Three runs: one line says why nothing can be told, and what is equal is one column.
    let alone = shown(&[&simulated]);
    assert_eq!(alone.matches("no interval").count(), 1, "{alone}");
    assert!(
        alone.contains("4 comparisons); give `repeats` of 4 or more"),
        "{alone}"
    );
    assert!(
        alone.contains("The same numbers as menu in every run: cpu-latency[limit=100ms]."),
        "{alone}"
    );
    let document = folder.join("s-live/result.json");
    let text = fs::read_to_string(&document).unwrap();
    fs::write(
        &document,
        text.replace("\"backend\": \"sim\"", "\"backend\": \"live\""),
    )
    .unwrap();
    for results in [[simulated.as_str(), &live], [live.as_str(), &simulated]] {
        let both = shown(&results);
        assert!(both.starts_with("Prediction ("), "{both}");
        let header = both.lines().nth(2).unwrap();
        assert!(header.ends_with("predicted  measured  error %"), "{both}");
        let row = both.lines().nth(3).unwrap();
        assert!(row.starts_with("IOPS") && row.ends_with(" 0.0"), "{both}");
    }
    let narrow = shown(&[&simulated, &live, "--metric", "mean_us"]);
    assert!(narrow.contains("mean latency, us: Amean"), "{narrow}");
}
