//! Results of other tools beside those of studies.

use super::*;

#[test]
fn results_of_other_tools_can_be_compared() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = temp.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let hyperfine = |times: &str| {
        format!(
            "{{\"results\": [{{\"command\": \"make\", \"times\": {times}, \"exit_codes\": [0,0,0,0]}}]}}"
        )
    };
    let before = file("before.json", &hyperfine("[2.0, 2.02, 1.98, 2.01]"));
    let after = file("after.json", &hyperfine("[1.0, 1.02, 0.98, 1.01]"));
    let compared = json(&wakepath(&["compare", &before, &after, "--format", "json"]));
    let row = &compared["rows"][1];
    assert_eq!(
        (&row["workload"], &row["policy"]),
        (&"make".into(), &"after".into())
    );
    assert!(
        (row["gain"]["percent"].as_f64().unwrap() - 50.0).abs() < 1.0,
        "{row}"
    );
    let log = |rate: f64| {
        (1..=6).fold(String::new(), |text, second| {
            let rate = rate + f64::from(second % 3) / 10.0;
            format!("{text}   1   {second}000   {rate:.2} MB/sec  execute   {second} sec   latency 0.900 ms\n")
        })
    };
    file("vanilla/iter-0/tbench4/logs/tbench-1.log", &log(497.8));
    file("polling/iter-0/tbench4/logs/tbench-1.log", &log(543.1));
    let [vanilla, polling] =
        ["vanilla", "polling"].map(|n| temp.path().join(n).display().to_string());
    let compared = json(&wakepath(&[
        "compare", &vanilla, &polling, "--format", "json",
    ]));
    let row = &compared["rows"][1];
    assert_eq!(row["workload"], "tbench 1 client(s)");
    assert!(
        (row["gain"]["percent"].as_f64().unwrap() - 9.1).abs() < 0.1,
        "{row}"
    );
    assert!(
        compared["notes"][0]
            .as_str()
            .unwrap()
            .contains("not independent")
    );
    // Impossible files.
    let failed = file(
        "failed.json",
        &hyperfine("[1.0]").replace("[0,0,0,0]", "[1]"),
    );
    fails_with(
        wakepath(&["compare", &failed]),
        &["failed.json", "'make' failed with 1"],
    );
    let other = file("other.json", "{}");
    fails_with(
        wakepath(&["compare", &other]),
        &["other.json", "neither fio's JSON"],
    );
    file("others/iter-0/ebizzy/logs/ebizzy-1-1.log", "1 records/s\n");
    let others = temp.path().join("others").display().to_string();
    fails_with(
        wakepath(&["compare", &others]),
        &["MMTests logs of ebizzy, which are not read", "hackbench"],
    );
    // What is cut off is an error, what is whole is read.
    file("damaged/iter-0/tbench4/logs/tbench-1.log.xz", "");
    let damaged = temp.path().join("damaged").display().to_string();
    fails_with(wakepath(&["compare", &damaged]), &["tbench-1.log.xz"]);
    for program in ["xz", "gzip"] {
        let log = temp.path().join("vanilla/iter-0/tbench4/logs/tbench-1.log");
        let bare = fs::read(&log).unwrap();
        assert!(Command::new(program).arg(&log).status().unwrap().success());
        assert!(!log.exists());
        let packed = wakepath(&["compare", &vanilla, &polling, "--format", "json"]);
        assert_eq!(&json(&packed)["rows"][1], row, "{program}");
        fs::remove_dir_all(log.parent().unwrap()).unwrap();
        fs::create_dir(log.parent().unwrap()).unwrap();
        fs::write(&log, bare).unwrap();
    }
    let missing = temp.path().join("nothing").display().to_string();
    fails_with(
        wakepath(&["compare", &missing]),
        &["nothing: no such result"],
    );
}

/// A page of these results.
fn page_of(folder: &Path, results: &[&str]) -> String {
    let page = folder.join("page.html").display().to_string();
    let arguments = [&["report"], results, &["--force", "-o", &page]].concat();
    wakepath(&arguments).success();
    fs::read_to_string(page).unwrap()
}

#[test]
fn what_differs_besides_policies_is_said() {
    let temp = tempfile::tempdir().unwrap();
    let run = |name: &str, study: &str| {
        let study = written(temp.path(), study);
        let dir = temp.path().join(name).display().to_string();
        wakepath(&["study", "run", &study, "-o", &dir]).success();
        dir
    };
    let board = run("board", SHORT);
    let same = run("same", &SHORT.replace("name = 's'", "name = 't'"));
    let server = run("server", &SHORT.replace("rk3399'", "epyc-7502'"));
    let job = run(
        "job",
        &SHORT.replace(
            "seconds = 0.02",
            "seconds = 0.02\nfio_options = { bs = '64k' }",
        ),
    );
    let drive = run(
        "drive",
        &SHORT.replace("repeats", "drive = 'sn530'\nrepeats"),
    );
    let other = run(
        "other",
        &SHORT
            .replace("name = 'w'", "name = 'v'")
            .replace("rk3399'", "epyc-7502'"),
    );
    // A file of one's own with the name of a built-in machine.
    let text = fs::read_to_string(Path::new(&board).join("machine.toml")).unwrap();
    fs::write(
        temp.path().join("own.toml"),
        text.replacen("title = \"", "title = \"My ", 1),
    )
    .unwrap();
    let own = run("own", &SHORT.replace("'rk3399'", "'own.toml'"));
    let machines = "the machines differ (rk3399 in board, epyc-7502 in server): what differs need not be the policies' doing";
    let workloads = "workload `w` is one thing in board and another in job: what";
    let drives = "the drives differ (";
    let models = "machine `rk3399` is one thing in board and another in own: what";
    let all = [machines, workloads, drives, models];
    for (results, wanted) in [
        (vec![&board, &same], vec![]),
        (vec![&board, &other], vec![]),
        (vec![&board, &server], vec![machines]),
        (vec![&board, &job], vec![workloads]),
        (vec![&board, &drive], vec![drives]),
        (vec![&board, &own], vec![models]),
        (
            vec![&board, &server, &job],
            vec![
                "(rk3399 in board, job, epyc-7502 in server)",
                "one thing in board, server and another in job",
            ],
        ),
    ] {
        let results: Vec<&str> = results.into_iter().map(String::as_str).collect();
        let table = wakepath(&[&["compare"], &results[..]].concat()).success();
        let table = String::from_utf8(table.get_output().stdout.clone()).unwrap();
        let compared = json(&wakepath(
            &[&["compare", "--format", "json"], &results[..]].concat(),
        ));
        let notes = compared["notes"].as_array().unwrap();
        assert_eq!(notes.len(), wanted.len(), "{notes:?}");
        let page = page_of(temp.path(), &results).replace("&#x27;", "'");
        for part in &wanted {
            assert!(table.contains(part), "{part} is not in {table}");
            assert!(
                notes.iter().any(|n| n.as_str().unwrap().contains(part)),
                "{notes:?}"
            );
        }
        for part in all {
            assert_eq!(
                wanted.contains(&part),
                table.contains(part),
                "{part}: {table}"
            );
        }
        assert_eq!(
            page.matches("need not be the policies' doing").count(),
            wanted.len()
        );
    }
}

#[test]
fn results_of_other_tools_make_a_page_with_what_they_allow() {
    if is_missing("fio") || is_missing("hyperfine") || is_missing("dbench") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let run = |command: &str| {
        let done = Command::new("sh")
            .args(["-ec", command])
            .current_dir(temp.path())
            .output();
        let done = done.unwrap();
        assert!(
            done.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let at = |name: &str| temp.path().join(name).display().to_string();
    let fio = "fio --name=reads --rw=randread --size=1m --bs=4k --runtime=100ms --time_based --filename=data";
    run(&format!("{fio} --output-format=json+ --output=before.json"));
    run(&format!("{fio} --output-format=json+ --output=after.json"));
    let page = page_of(temp.path(), &[&at("before.json"), &at("after.json")]);
    for wanted in [
        "id=\"w0-distribution\"",
        "id=\"w0-percentiles\"",
        "1 run(s): no interval",
        "fio-3",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    // What the files say of themselves is not said twice.
    assert!(!page.contains("before (before)"));
    // The same job in terse output: the same numbers, in whole us.
    run(&format!(
        "{fio} --output-format=json,terse --output=both.txt"
    ));
    run("grep '^3;' both.txt > terse.txt; sed '/^3;/d' both.txt > both.json");
    let both = json(&wakepath(&[
        "compare",
        &at("both.json"),
        &at("terse.txt"),
        "--metric",
        "all",
        "--format",
        "json",
    ]));
    let rows = both["rows"].as_array().unwrap();
    let value = |policy: &str, metric: &str| {
        let found = rows
            .iter()
            .find(|r| r["policy"] == policy && r["metric"] == metric);
        found.unwrap()["mean"].as_f64().unwrap()
    };
    for metric in [
        "iops",
        "bandwidth_mbs",
        "mean_us",
        "p50_us",
        "p99_us",
        "max_us",
    ] {
        let [json, terse] = ["both", "terse"].map(|policy| value(policy, metric));
        let tolerance = (json * 0.01).max(1.0);
        assert!(
            (json - terse).abs() <= tolerance,
            "{metric}: {json} {terse}"
        );
    }
    run("hyperfine --runs 5 --export-json commands.json 'sleep 0.01' 'sleep 0.2' >/dev/null 2>&1");
    let page = page_of(temp.path(), &[&at("commands.json")]);
    assert!(page.contains("sleep 0.2") && page.contains("worse by"));
    // dbench itself says what its last second came to.
    run(
        "mkdir -p logs/iter-0/dbench4/logs data.d && cp /usr/share/dbench/client.txt . && \
         dbench -t 5 -c client.txt -D data.d 1 > logs/iter-0/dbench4/logs/dbench-1.log 2>&1",
    );
    let text =
        fs::read_to_string(temp.path().join("logs/iter-0/dbench4/logs/dbench-1.log")).unwrap();
    let printed = text
        .lines()
        .rev()
        .find_map(|l| l.strip_prefix("Throughput "));
    let printed: f64 = printed.unwrap().split(' ').next().unwrap().parse().unwrap();
    let csv = wakepath(&["compare", &at("logs"), "--format", "csv"]).success();
    let csv = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
    assert!(
        csv.contains("bandwidth_mbs,MB/s,dbench 1 client(s),logs"),
        "{csv}"
    );
    let page = page_of(temp.path(), &[&at("logs")]);
    assert!(page.contains("not independent runs") && page.contains("dbench 1 client(s)"));
    assert!(printed > 0.0);
}
