//! Commands of the README and of the demo.

use super::*;

/// The lines of the README's block of commands that holds this.
fn readme_commands(mark: &str) -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let mut blocks = readme
        .split("```sh\n")
        .skip(1)
        .map(|b| b.split("```").next().unwrap());
    let block = blocks.find(|b| b.contains(mark)).unwrap();
    block.lines().map(str::to_owned).collect()
}

#[test]
fn the_readme_alone_leads_to_a_report() {
    let _machine = common::lock_machine();
    let temp = tempfile::tempdir().unwrap();
    let commands = readme_commands("study new");
    assert!(
        commands.iter().any(|c| c.starts_with("wakepath study run")),
        "{commands:?}"
    );
    typed(temp.path(), &commands);
    let page = fs::read_to_string(temp.path().join("report.html")).unwrap();
    assert!(page.contains("What is gained in requests per second?"));
    assert!(page.contains("better than all idle states by"));
    // The same on this machine.
    let qos = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
    if fs::OpenOptions::new().write(true).open(qos).is_err() {
        skip(
            "the_readme_alone_leads_to_a_report",
            "no right to change settings",
        );
        return;
    }
    if is_missing("fio") {
        return;
    }
    let commands = readme_commands("--on live");
    typed(temp.path(), &commands);
    let page = fs::read_to_string(temp.path().join("measured.html")).unwrap();
    assert!(page.contains("What is gained in requests per second?") && page.contains("measured"));
}

#[test]
fn the_demo_has_one_table_and_the_sentence_of_its_report() {
    let temp = tempfile::tempdir().unwrap();
    let study = common::repository().join("docs/examples/one-job.toml");
    let dir = temp.path().join("results").display().to_string();
    let page = temp.path().join("page.html").display().to_string();
    wakepath(&["study", "run", study.to_str().unwrap(), "-o", &dir]).success();
    let brief = wakepath(&["compare", &dir, "--brief"]).success();
    let brief = String::from_utf8(brief.get_output().stdout.clone()).unwrap();
    let [heading, "", _, _, "", answer] = brief.lines().collect::<Vec<_>>()[..] else {
        panic!("{brief}")
    };
    assert!(heading.starts_with("p99 latency"), "{brief}");
    let question = "Which setting answers 99 % of the reads fastest? ";
    let sentence = answer.strip_prefix(question).unwrap();
    assert!(
        sentence.contains(": better than menu (default) by "),
        "{sentence}"
    );
    wakepath(&["report", &dir, "-o", &page]).success();
    assert!(fs::read_to_string(page).unwrap().contains(sentence));
    fails_with(
        wakepath(&["compare", &dir, "--brief", "--format", "csv"]),
        &["--brief", "table and markdown"],
    );
}
