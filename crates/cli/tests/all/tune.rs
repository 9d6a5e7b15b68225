//! `wakepath tune` as a whole command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use serde_json::Value;
use wakepath_hardware::Machine;

use crate::common::{fails_with, json, repository, wakepath};
use crate::measure::{OWN_PREDICTIONS, calibrated_machine, own_prediction_error, run_calibrated};

/// The job of the demo, 20 ms of it, over a few limits.
fn tune(hours: &str, arguments: &[&str]) -> Assert {
    let job = repository().join("workloads/iowait-rk3399.fio");
    let load = format!("{}{hours}", job.to_str().unwrap());
    let machine = ["--machine", "rk3399", "--seconds", "20ms"];
    wakepath(&[&["tune", load.as_str()], &machine[..], arguments].concat())
}

/// A search with a budget that is enough for every limit.
fn tune_limits(arguments: &[&str]) -> Assert {
    let limits = ["--over", "cpu-latency", "--budget", "1000000"];
    tune("=8h", &[&limits[..], arguments].concat())
}

fn sets(answer: &Value) -> Vec<&str> {
    let next = answer["next"].as_array().unwrap().iter();
    next.map(|finalist| finalist["set"].as_str().unwrap())
        .collect()
}

#[test]
fn json_has_the_answer_with_its_figures() {
    let answer = json(&tune_limits(&["--minimise", "p99_us", "--format", "json"]).success());
    assert_eq!(answer["machine"], "rk3399");
    assert_eq!(answer["objective"], "p99_us");
    assert_eq!(answer["budget"], 1_000_000);
    assert_eq!(answer["is_exhaustive"], true);
    let best = &answer["best"];
    assert!(
        best["set"].as_str().unwrap().starts_with("cpu-latency["),
        "{best}"
    );
    assert!(best["objective"].as_f64() < answer["in_force"]["objective"].as_f64());
    assert!(!sets(&answer).contains(&best["set"].as_str().unwrap()));
    assert_eq!(answer["contributions"].as_array().unwrap().len(), 1);
}

#[test]
fn csv_has_a_row_for_each_set() {
    let assert = tune_limits(&["--minimise", "p99_us", "--format", "csv"]).success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let header = text.lines().next().unwrap();
    assert!(
        header.starts_with("set,p99_us,low,high,better_by_percent,conditions,"),
        "{header}"
    );
    assert!(
        text.lines().any(|line| line.starts_with("unchanged,")),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.starts_with("cpu-latency[")),
        "{text}"
    );
}

#[test]
fn what_fio_makes_of_a_line_is_told_before_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.fio");
    std::fs::write(&file, "[a]\nrw=randread\ndirect=1\nsize=4*1024\n").unwrap();
    let load = format!("{}=8h", file.display());
    let failed = wakepath(&["tune", &load, "--machine", "laptop"]).failure();
    let said = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let [remark, error] = lines[..] else {
        panic!("a remark and an error: {said}");
    };
    assert!(
        remark.contains("small.fio:4: `size` `4*1024` is 4 bytes"),
        "{said}"
    );
    assert!(error.contains("a size of less than a block"), "{said}");
}

#[test]
fn the_table_ends_with_how_to_get_the_same_answer() {
    let assert = tune_limits(&["--minimise", "p99_us"]).success();
    assert
        .stdout(predicate::str::contains(
            "  sudo wakepath apply 'cpu-latency[limit=",
        ))
        .stdout(predicate::str::contains("(in force)"))
        .stdout(predicate::str::contains("unchanged").not())
        .stdout(predicate::str::contains(
            "`--budget 1000000 --seed 1` gives the same answer",
        ));
}

/// The calibrated machine of a folder, whose predictions were compared with it, and a job.
fn calibrated_machine_with_prediction_error(folder: &std::path::Path) -> [String; 2] {
    let [file, job] = calibrated_machine(folder);
    let mut machine = Machine::load(std::path::Path::new(&file)).unwrap();
    machine.prediction = Some(own_prediction_error());
    std::fs::write(&file, machine.to_toml().unwrap()).unwrap();
    [file, job]
}

#[test]
fn the_calibrated_machine_is_told_with_its_prediction_error_and_stale_figures() {
    let folder = tempfile::tempdir().unwrap();
    let [machine, job] = calibrated_machine_with_prediction_error(folder.path());
    let search = ["--over", "cpu-latency", "--seconds", "20ms", "--budget"];
    let rest = ["400000", "--no-sensitivity", "--minimise", "p99_us"];
    let tune = [&["tune", &job][..], &search, &rest].concat();
    for named in [&[][..], &["--machine", "here"]] {
        let [shown, told] = run_calibrated(&machine, &[&tune[..], named].concat());
        assert!(shown.contains("on rk3399"), "{shown}{told}");
        let lines: Vec<&str> = told.lines().collect();
        // Doctor, whose fixes are tried first, looks at the same file: nothing is told twice.
        let stale = lines.iter().filter(|line| line.contains("stale figures"));
        let [stale] = stale.collect::<Vec<_>>()[..] else {
            panic!("{told}");
        };
        assert!(
            stale.contains("(kernel 1.2.3, now ")
                && stale.contains("drive.read_service_us")
                && stale.ends_with("measures them again"),
            "{told}"
        );
        assert_eq!(told.matches(OWN_PREDICTIONS).count(), 1, "{told}");
        // Who names no machine is told which was taken.
        let chosen = lines.iter().filter(|line| line.contains("machine: here, "));
        let files: Vec<bool> = chosen.map(|line| line.contains(&machine)).collect();
        assert_eq!(files, vec![true; usize::from(named.is_empty())], "{told}");
    }
    // By its path the file may be another machine's.
    let by_path = [&tune[..], &["--machine", &machine]].concat();
    let [_, told] = run_calibrated(&machine, &by_path);
    assert!(
        told.contains(OWN_PREDICTIONS)
            && !told.contains("stale")
            && !told.contains("machine: here"),
        "{told}"
    );
    let [shown, told] = run_calibrated("", &tune);
    assert!(
        shown.is_empty() && told.contains("is not calibrated"),
        "{shown}{told}"
    );
}

/// Leases are the daemon's, so `apply` has no part in them, and the printed configuration is one that the daemon takes.
#[test]
fn leases_come_with_the_daemons_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leases.toml");
    let path = file.to_str().unwrap();
    let arguments = [
        "--minimise",
        "p99_us",
        "--over",
        "psd",
        "--budget",
        "2000000",
    ];
    tune("=8h", &arguments)
        .success()
        .stdout(predicate::str::contains("  sudo wakepath daemon\n"))
        .stdout(predicate::str::contains("  policy = [\"psd["))
        .stdout(predicate::str::contains("wakepath apply").not());
    tune("=8h", &[&arguments[..], &["--daemon-toml", path]].concat())
        .success()
        .stdout(predicate::str::contains(format!(
            "  sudo install -b -D -m 644 {path} /etc/wakepath/daemon.toml\n"
        )));
    let text = std::fs::read_to_string(&file).unwrap();
    let config = wakepath_settings::daemon_config::Config::parse("leases.toml", &text).unwrap();
    assert!(config.policy.requested_lease_settings().is_some(), "{text}");
    fails_with(
        tune("=8h", &[&arguments[..], &["--daemon-toml", path]].concat()),
        &["--daemon-toml", "the file exists; --force replaces it"],
    );
}

#[test]
fn a_number_that_no_price_can_be_is_refused_before_the_search() {
    for (option, value) in [
        ("--price", "nan"),
        ("--price", "-1"),
        ("--battery-wh", "inf"),
        ("--platform-mw", "-200"),
    ] {
        // The load is not there: the option is looked at first.
        let run = wakepath(&["tune", "no-such.fio", option, value]).code(2);
        let told = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        let refused = format!("invalid value '{value}' for '{option} <");
        assert!(
            told.contains(&refused) && told.contains("expected a number of 0 or more, such as 0.3"),
            "{told}"
        );
    }
}

#[test]
fn assumed_figures_are_varied_unless_told_otherwise() {
    let varied = json(&tune_limits(&["--format", "json"]).success());
    let figures = varied["sensitivity"]["figures"].as_array().unwrap();
    assert!(!figures.is_empty());
    assert!(
        figures
            .iter()
            .all(|figure| figure["range_source"].is_string())
    );
    let arguments = ["--format", "json", "--no-sensitivity"];
    let plain = json(&tune_limits(&arguments).success());
    assert!(plain["sensitivity"].is_null());
    assert_eq!(plain["best"], varied["best"]);
    tune_limits(&[])
        .success()
        .stdout(predicate::str::contains("assumed figure"));
}

/// Each limit of the slider has a search of its own, and assumed figures are varied for half as many requests.
#[test]
fn progress_counts_every_search_and_the_variation_of_assumed_figures() {
    let folder = tempfile::tempdir().unwrap();
    let progress = folder.path().join("progress");
    std::fs::write(&progress, "").unwrap();
    let job = repository().join("workloads/iowait-rk3399.fio");
    let machine = ["--machine", "rk3399", "--seconds", "20ms"];
    let limits = ["--over", "cpu-latency", "--budget", "500000"];
    let keep = ["--keep", "p99_us < 450", "--slider", "300,600"];
    assert_cmd::Command::cargo_bin("wakepath")
        .unwrap()
        .args(["tune", job.to_str().unwrap()])
        .args(machine.iter().chain(&limits).chain(&keep))
        .args(["-o", folder.path().join("tune.html").to_str().unwrap()])
        .env("WAKEPATH_PROGRESS", &progress)
        .env("WAKEPATH_HERE", "")
        .assert()
        .success();
    let lines = std::fs::read_to_string(&progress).unwrap();
    let last: Vec<u64> = (lines.lines().last().unwrap().split(' '))
        .map(|number| number.parse().unwrap())
        .collect();
    let [done, total] = last[..] else {
        panic!("{lines}");
    };
    assert_eq!(total, 500_000 * 3 + 250_000);
    assert!(0 < done && done <= total, "{done} of {total}");
}

/// What a page has under the heading that begins with this text.
fn part_under_heading<'a>(html: &'a str, title: &str) -> &'a str {
    let heading = format!("-title\">{title}");
    let (_, part) = html
        .split_once(&heading)
        .unwrap_or_else(|| panic!("{title}: {html}"));
    part.split_once("</section>").unwrap().0
}

/// The answers in sentences of a slider's limits, in order.
fn answers_of_limits(html: &str) -> Vec<&str> {
    let choices = html.split("<div class=\"choice\"").skip(1);
    choices
        .map(|choice| {
            let (_, sentence) = choice.split_once("<p class=\"sentence\">").unwrap();
            sentence.split_once("</p>").unwrap().0
        })
        .collect()
}

#[test]
fn a_page_has_the_answer_and_a_slider_of_limits_that_were_searched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tune.html");
    let page = ["-o", file.to_str().unwrap(), "--slider", "300,600"];
    let keep = ["--keep", "p99_us < 450"];
    tune_limits(&[&keep[..], &page].concat()).success();
    let html = std::fs::read_to_string(&file).unwrap();
    for (title, row) in [
        ("<bdi>The best sets</bdi>", "(in force)"),
        ("<bdi>Each load</bdi>", "rest"),
        ("<bdi>Conditions under ", "p99_us &lt; 450"),
        ("<bdi>Without one of its parts</bdi>", "cpu-latency["),
        ("<bdi>Would change the answer, of ", "idle_state."),
        ("Not measured", "drive.write_service_us"),
    ] {
        let table = part_under_heading(&html, title);
        let first_cell = format!("<th scope=\"row\"><bdi>{row}");
        assert!(table.contains(&first_cell), "{title}: {row}: {table}");
    }
    // A stricter limit costs more, and the loosest is kept by what is in force.
    let answers = answers_of_limits(&html);
    let is_best = |answer: &str| answer.contains("Best on rk3399: cpu-latency[limit=");
    let [strict, asked, loose] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert!(
        is_best(strict) && is_best(asked) && strict != asked,
        "{answers:?}"
    );
    assert!(loose.contains("Keep what is in force"), "{answers:?}");
    assert!(
        html.contains("default-src 'none'") && !html.contains("<script"),
        "{html}"
    );
    // Whoever gets the page sees what was asked, and can ask it again. The job has no rate, and the page says what follows.
    for part in [
        "iowait-rk3399 asks for no rate",
        "least mean_mw",
        "--over cpu-latency",
        "--budget 1000000 --seed 1",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert_eq!(html.matches("type=\"radio\"").count(), 3, "{html}");
    assert!(html.matches("<circle").count() >= 3, "{html}");
    fails_with(
        tune_limits(&[&keep[..], &page].concat()),
        &["--output", "the file exists; --force replaces it"],
    );
    fails_with(
        tune_limits(&[&page[..], &["--force"]].concat()),
        &["--slider: there is no condition to slide"],
    );
}

#[test]
fn a_condition_that_nothing_meets_shows_the_nearest_sets() {
    let keep = ["--minimise", "mean_mw", "--keep", "p99_us < 1"];
    let answer = json(&tune_limits(&[&keep[..], &["--format", "json"]].concat()).success());
    assert!(answer["best"].is_null());
    assert!(!sets(&answer).is_empty());
    tune_limits(&keep)
        .success()
        .stdout(predicate::str::contains(
            "No set keeps every condition. The nearest sets:",
        ))
        .stdout(predicate::str::contains("wakepath apply").not());
}

#[test]
fn the_day_has_hours_of_rest() {
    let price = ["--price", "0.3", "--format", "json"];
    let battery = ["--battery-wh", "50", "--platform-mw", "3000"];
    let answer = json(&tune_limits(&[&price[..], &battery].concat()).success());
    let loads = answer["in_force"]["loads"].as_array().unwrap();
    let power = |load: &Value| load["metrics"][0][1].as_f64().unwrap();
    assert_eq!(loads[1]["load"], "rest");
    let expected = (8.0 * power(&loads[0]) + 16.0 * power(&loads[1])) / 1000.0;
    let day = &answer["day"]["in_force"];
    assert!(
        (day["wh"].as_f64().unwrap() - expected).abs() < 1e-6,
        "{day}"
    );
    let year = expected * 0.365 * 0.3;
    assert!(
        (day["price_per_year"].as_f64().unwrap() - year).abs() < 1e-6,
        "{day}"
    );
    let mean_mw = expected * 1000.0 / 24.0;
    let hours = 50_000.0 / (mean_mw + 3_000.0);
    assert!(
        (day["battery_hours"].as_f64().unwrap() - hours).abs() < 1e-6,
        "{day}"
    );
}

#[test]
fn a_load_of_the_whole_day_leaves_no_rest() {
    let arguments = [
        "--over",
        "cpu-latency",
        "--budget",
        "400000",
        "--format",
        "json",
    ];
    let answer = json(&tune("", &arguments).success());
    assert_eq!(answer["in_force"]["loads"].as_array().unwrap().len(), 1);
}

/// One task that commits 400 times a second at most.
const COMMITS: &str = "kind = 'tasks'\nname = 'commits'\nseconds = 1\n[[task]]\nname = 'writer'\nsteps = '''\n\
                       run 20us\nwrite 4096 0\nwait 0\nsleep 2ms\n'''\n";

/// A server, an rt-app file and tasks, each with figures of its kind; power is the mean of the day.
#[test]
fn servers_rt_app_files_and_tasks_are_loads() {
    let folder = tempfile::tempdir().unwrap();
    let commits = folder.path().join("commits.toml");
    std::fs::write(&commits, COMMITS).unwrap();
    let workloads = repository().join("workloads");
    let loads = [
        format!("{}=8h", workloads.join("web-server.toml").display()),
        format!("{}=2h", workloads.join("ping-pong.json").display()),
        format!("{}=4h", commits.display()),
    ];
    let limits = [
        "--machine",
        "rk3399",
        "--seconds",
        "50ms",
        "--over",
        "cpu-latency",
    ];
    let question = ["--keep", "wake_p99_us(ping-pong) <= +50%"];
    let effort = ["--budget", "900000", "--no-sensitivity", "--format", "json"];
    let words: Vec<&str> = (["tune"].into_iter())
        .chain(loads.iter().map(String::as_str))
        .chain(limits)
        .chain(question)
        .chain(effort)
        .collect();
    let answer = json(&wakepath(&words).success());
    let in_force = &answer["in_force"];
    let figure = |set: &Value, load: usize, metric: &str| {
        let metrics = set["loads"][load]["metrics"].as_array().unwrap();
        let mut named = metrics.iter().filter(|pair| pair[0] == metric);
        named.next().and_then(|pair| pair[1].as_f64())
    };
    let names: Vec<&str> = (in_force["loads"].as_array().unwrap().iter())
        .map(|load| load["load"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["web-server", "ping-pong", "commits", "rest"]);
    let energy = [8.0, 2.0, 4.0, 10.0].into_iter().enumerate();
    let mean_mw = energy
        .map(|(load, hours)| hours * figure(in_force, load, "mean_mw").unwrap() / 24.0)
        .sum::<f64>();
    let objective = in_force["objective"].as_f64().unwrap();
    assert!(
        (objective / mean_mw - 1.0).abs() < 1e-6,
        "{objective} {mean_mw}"
    );
    assert!(
        figure(in_force, 1, "ops_per_s").unwrap() > 1000.0 && figure(in_force, 1, "iops").is_none()
    );
    let conditions: Vec<&Value> = (in_force["conditions"].as_array().unwrap().iter())
        .map(|condition| &condition["condition"])
        .collect();
    // Only the tasks ask for no rate.
    assert_eq!(
        conditions,
        ["wake_p99_us(ping-pong) <= +50%", "iops(commits) >= -2%"]
    );
    // Shallow idle states serve the server and the tasks sooner, and cost power under each load.
    let next = answer["next"].as_array().unwrap();
    let shallow = (next
        .iter()
        .find(|set| set["set"] == "cpu-latency[limit=1us]"))
    .unwrap();
    for load in [0, 2] {
        let mean = |set: &Value| figure(set, load, "mean_us").unwrap();
        assert!(mean(shallow) < mean(in_force), "{load}: {shallow}");
    }
    for load in 0..4 {
        let power = |set: &Value| figure(set, load, "mean_mw").unwrap();
        assert!(power(shallow) > power(in_force), "{load}: {shallow}");
    }
}

#[test]
fn hours_that_no_day_has_are_refused() {
    fails_with(
        tune("=25h", &[]),
        &["=25h: hours per day are 0 to 24, as in load.fio=8h"],
    );
}

#[test]
fn a_metric_that_there_is_not_is_refused_with_the_nearest_one() {
    fails_with(
        tune_limits(&["--minimise", "mean_mW"]),
        &["no metric `mean_mW`; did you mean `mean_mw`?"],
    );
}

#[test]
fn a_condition_with_a_unit_is_refused_with_the_metrics_unit() {
    tune_limits(&["--keep", "p99_us < 150us"])
        .code(2)
        .stderr(predicate::str::contains(
            "limits have no unit: `p99_us` is in us, as in `p99_us < 150`",
        ));
}

#[test]
fn a_condition_on_a_load_that_there_is_not_is_refused() {
    fails_with(
        tune_limits(&["--keep", "p99_us(db) < 150"]),
        &["p99_us(db) < 150: no load of this name; there are iowait-rk3399"],
    );
}

#[test]
fn what_cannot_be_searched_is_left_out_and_named() {
    fails_with(
        tune("=8h", &["--over", "wakeup-latency", "--budget", "1000000"]),
        &["nothing to choose from: wakeup-latency: cannot be simulated"],
    );
    let output = tune(
        "=8h",
        &[
            "--over",
            "teo,wakeup-latency,kernel-config,shallowest",
            "--budget",
            "1000000",
        ],
    );
    let told = String::from_utf8_lossy(&output.get_output().stderr);
    for name in [
        "wakeup-latency: cannot be simulated",
        "kernel-config: is not searched",
        "shallowest: is not searched",
    ] {
        assert!(told.contains(name), "{told}");
    }
}

#[test]
fn single_policies_are_searched_by_their_names() {
    let arguments = ["--over", "teo", "--budget", "1000000", "--format", "json"];
    let answer = json(&tune("=8h", &arguments).success());
    // What is in force, and teo.
    assert_eq!(answer["space"], 2);
}

#[test]
fn frequency_limits_are_searched() {
    let arguments = ["--over", "frequency-limits", "--minimise", "p99_us"];
    let more = [
        "--budget",
        "1000000",
        "--no-sensitivity",
        "--format",
        "json",
    ];
    let answer = json(&tune("=8h", &[&arguments[..], &more].concat()).success());
    let set = answer["best"]["set"].as_str().unwrap();
    assert!(set.starts_with("frequency[min="), "{set}");
}

#[test]
fn a_misspelt_part_is_refused_with_the_nearest_one() {
    fails_with(
        tune("=8h", &["--over", "cpu-latencies", "--budget", "1000000"]),
        &["--over cpu-latencies: no such part", "cpu-latency"],
    );
}

#[test]
fn a_budget_that_is_too_small_names_the_least_one() {
    fails_with(
        tune("=8h", &["--over", "cpu-latency", "--budget", "100"]),
        &[
            "a budget of 100 simulated requests is too small",
            "give at least",
        ],
    );
}

#[test]
fn a_price_goes_with_any_objective_and_changes_no_answer() {
    let search = ["--minimise", "p99_us", "--keep", "mean_mw <= +50%"];
    let with = |more: &[&str]| tune_limits(&[&search[..], more].concat()).success();
    let [plain, priced] = [&[][..], &["--price", "0.3"]]
        .map(|price| json(&with(&[price, &["--format", "json"]].concat())));
    assert!(plain["day"].is_null());
    assert_eq!(plain["best"]["set"], priced["best"]["set"]);
    assert_eq!(plain["best"]["objective"], priced["best"]["objective"]);
    for day in [&priced["day"]["in_force"], &priced["day"]["best"]] {
        let year = day["wh"].as_f64().unwrap() * 0.365 * 0.3;
        let price = day["price_per_year"].as_f64().unwrap();
        assert!((price / year - 1.0).abs() < 1e-9 && price > 0.0, "{day}");
    }
    with(&["--price", "0.3"]).stdout(predicate::str::contains(" kWh and "));
}
