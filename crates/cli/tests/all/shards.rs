//! `study run --shard` and `results merge`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::files::contents;
use crate::common::wakepath;

/// One workload, two policies, five repeats.
const STUDY: &str = "name = 's'\nmachine = 'rk3399'\nrepeats = 5\n\
    [[workload]]\nname = 'w'\nfio = 'iowait-rk3399.fio'\nseconds = 0.02\n\
    [[policy]]\nname = 'menu'\nset = 'menu@6.12'\n\
    [[policy]]\nname = 'shallowest'\nset = 'shallowest'\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(study: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("study.toml"), study).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn run(&self, shard: &str, dir: &str) {
        let (study, dir) = (self.path("study.toml"), self.path(dir));
        wakepath(&["study", "run", &study, "--shard", shard, "-o", &dir]).success();
    }

    /// Runs all shards, into `1`, `2` and so on.
    fn run_all(&self, shard_count: u32) -> Vec<String> {
        let names: Vec<String> = (1..=shard_count).map(|n| n.to_string()).collect();
        for name in &names {
            self.run(&format!("{name}/{shard_count}"), name);
        }
        names
    }

    fn merge(&self, shards: &[&str], more: &[&str]) -> assert_cmd::assert::Assert {
        let shards = shards.iter().map(|s| self.path(s));
        let mut arguments = vec!["results".to_owned(), "merge".to_owned()];
        arguments.extend(shards);
        arguments.extend(["-o".to_owned(), self.path("merged")]);
        arguments.extend(more.iter().map(|s| (*s).to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        wakepath(&arguments)
    }

    fn refused(&self, shards: &[&str], message: &str) {
        let error = self
            .merge(shards, &[])
            .failure()
            .code(1)
            .get_output()
            .clone();
        let error = String::from_utf8(error.stderr).unwrap();
        assert!(error.contains(message), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    fn contents(&self, dir: &str) -> BTreeMap<String, Vec<u8>> {
        contents(&self.0.path().join(dir))
    }
}

#[test]
fn merged_shards_are_the_study_in_one_piece() {
    // More shards than runs: some are empty.
    for shard_count in [1, 3, 12] {
        let folder = Folder::new(STUDY);
        let study = folder.path("study.toml");
        wakepath(&["study", "run", &study, "-o", &folder.path("whole")]).success();
        let mut shards = folder.run_all(shard_count);
        shards.reverse();
        let shards: Vec<&str> = shards.iter().map(String::as_str).collect();
        folder.merge(&shards, &[]).success();
        let (whole, merged) = (folder.contents("whole"), folder.contents("merged"));
        assert!(whole.len() > 10);
        assert!(whole == merged, "{shard_count} shards");
    }
}

#[test]
fn what_is_missing_doubled_or_foreign_is_named() {
    let folder = Folder::new(STUDY);
    folder.run_all(3);
    folder.run("2/3", "again");
    folder.run("1/4", "fourth");
    folder.refused(&["1", "3"], "missing: shard 2 of 3; 2 of 3 are there");
    folder.refused(&["1", "2", "3", "again"], "both are shard 2/3");
    folder.refused(&["1", "2", "3", "fourth"], "the number of shards differs");
    folder.refused(&["1", "2", "3", "nowhere"], "no result directory");
    let study = folder.path("study.toml");
    wakepath(&["study", "run", &study, "-o", &folder.path("whole")]).success();
    folder.refused(&["whole"], "not a shard");
    fs::write(&study, STUDY.replace("0.02", "0.03")).unwrap();
    folder.run("3/3", "other");
    // The job's warm-up, which depends on its length, is in result.json.
    folder.refused(
        &["1", "2", "other"],
        "not of the same study (result.json differs)",
    );
    assert!(!Path::new(&folder.path("merged")).exists());
}

#[test]
fn an_interrupted_shard_is_named_and_goes_on() {
    let folder = Folder::new(STUDY);
    folder.run_all(2);
    let runs = folder.0.path().join("2/runs");
    let run = runs.join("000003.json");
    let content = fs::read(&run).unwrap();
    fs::remove_file(&run).unwrap();
    folder.refused(&["1", "2"], "shard 2/2 has 4 of its 5 runs");
    fs::write(runs.join("000002.json"), &content).unwrap();
    folder.refused(&["1", "2"], "not a run of shard 2/2");
    fs::remove_file(runs.join("000002.json")).unwrap();
    let (study, dir) = (folder.path("study.toml"), folder.path("2"));
    let run = |shard: &str| {
        wakepath(&[
            "study", "run", &study, "--shard", shard, "-o", &dir, "--resume",
        ])
    };
    let other = run("1/2").failure().get_output().clone();
    let other = String::from_utf8(other.stderr).unwrap();
    assert!(other.contains("--shard differs"), "{other}");
    run("2/2").success();
    folder.merge(&["1", "2"], &[]).success();
}

#[test]
fn no_shard_is_replaced_by_what_is_merged() {
    let folder = Folder::new(STUDY);
    folder.run("1/1", "merged");
    let before = folder.contents("merged");
    folder.merge(&["merged"], &["--force"]).failure().code(1);
    assert!(before == folder.contents("merged"));
}

#[test]
fn wrong_shards_are_refused() {
    let folder = Folder::new(STUDY);
    let (study, dir) = (folder.path("study.toml"), folder.path("dir"));
    for shard in ["0/3", "4/3", "x", "1/0"] {
        wakepath(&["study", "run", &study, "--shard", shard, "-o", &dir])
            .failure()
            .code(2);
    }
}
