//! The role of Ansible in `packaging/ansible`, on machines that are directories.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::{repository, skip};

const HOSTS: [&str; 2] = ["web-01", "web-02"];
const SETTINGS: &str = "etc/wakepath/settings.toml";

/// Two captured machines as hosts, and a playbook that gives them the role.
struct Fleet {
    machines: Vec<TempDir>,
    folder: TempDir,
    program: PathBuf,
}

impl Fleet {
    /// `None` where Ansible is not installed.
    fn set_up() -> Option<Self> {
        let program = repository().join(".cache/python/bin/ansible-playbook");
        if !program.is_file() {
            return None;
        }
        let machines: Vec<TempDir> = HOSTS.iter().map(|_| copy_of_laptop()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut inventory = String::new();
        for (host, machine) in HOSTS.iter().zip(&machines) {
            let root = machine.path().display();
            writeln!(inventory, "{host} wakepath_root={root}").unwrap();
        }
        write!(
            inventory,
            "[all:vars]\nansible_connection=local\nansible_python_interpreter={}\nwakepath_program={}\n",
            program.with_file_name("python").display(),
            env!("CARGO_BIN_EXE_wakepath")
        )
        .unwrap();
        fs::write(folder.path().join("inventory"), inventory).unwrap();
        fs::write(
            folder.path().join("site.yml"),
            "- hosts: all\n  gather_facts: false\n  roles: [wakepath]\n",
        )
        .unwrap();
        Some(Self {
            machines,
            folder,
            program,
        })
    }

    fn write_settings(&self, text: &str) {
        fs::write(self.folder.path().join("settings.toml"), text).unwrap();
    }

    fn play(&self, variables: &[&str]) -> Play {
        let folder = self.folder.path();
        let mut command = Command::new(&self.program);
        command
            .arg("--inventory")
            .arg(folder.join("inventory"))
            .arg(folder.join("site.yml"));
        for variable in variables {
            command.args(["--extra-vars", variable]);
        }
        let settings = folder.join("settings.toml");
        let output = command
            .arg("--extra-vars")
            .arg(format!("wakepath_settings={}", settings.display()))
            .env("ANSIBLE_ROLES_PATH", repository().join("packaging/ansible"))
            .env("ANSIBLE_HOME", folder.join("home"))
            .env("ANSIBLE_LOCAL_TEMP", folder.join("local"))
            .env("ANSIBLE_REMOTE_TEMP", folder.join("remote"))
            .env("ANSIBLE_NOCOLOR", "1")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(folder)
            .output()
            .unwrap();
        Play::from(&output)
    }

    fn root(&self, host: usize) -> &Path {
        self.machines[host].path()
    }
}

/// What a play printed, and its counts of each host.
struct Play {
    text: String,
    succeeded: bool,
}

impl From<&Output> for Play {
    fn from(output: &Output) -> Self {
        let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        Self {
            text: texts.concat(),
            succeeded: output.status.success(),
        }
    }
}

impl Play {
    /// The number behind `NAME=` in the last lines, for each host.
    fn counts(&self, name: &str) -> Vec<u32> {
        let recap = self.text.rsplit_once("PLAY RECAP").unwrap().1;
        let key = format!("{name}=");
        HOSTS
            .iter()
            .map(|host| {
                let line = recap.lines().find(|line| line.starts_with(host)).unwrap();
                let count = line
                    .split_whitespace()
                    .find_map(|word| word.strip_prefix(&key));
                count.unwrap().parse().unwrap()
            })
            .collect()
    }
}

fn governor(root: &Path) -> String {
    let path = root.join("sys/devices/system/cpu/cpuidle/current_governor");
    fs::read_to_string(path).unwrap().trim().to_owned()
}

#[test]
#[ignore = "nightly: a playbook takes seconds for each task"]
fn the_role_keeps_settings_and_a_second_run_changes_nothing() {
    let test = "the_role_keeps_settings_and_a_second_run_changes_nothing";
    let Some(fleet) = Fleet::set_up() else {
        return skip(test, "scripts/setup-python.sh installs Ansible");
    };
    let before: Vec<_> = fleet
        .machines
        .iter()
        .map(|machine| content(machine.path()))
        .collect();
    fleet.write_settings("policy = \"teo\"\n");

    let first = fleet.play(&[]);
    assert!(first.succeeded, "{}", first.text);
    assert!(
        first.counts("changed").iter().all(|&count| count > 0),
        "{}",
        first.text
    );
    for host in 0..HOSTS.len() {
        assert_eq!(governor(fleet.root(host)), "teo");
    }

    let second = fleet.play(&[]);
    assert!(second.succeeded, "{}", second.text);
    assert_eq!(second.counts("changed"), [0, 0], "{}", second.text);

    let absent = fleet.play(&["wakepath_state=absent"]);
    assert!(absent.succeeded, "{}", absent.text);
    for (host, before) in before.iter().enumerate() {
        assert!(!fleet.root(host).join(SETTINGS).exists());
        let left = different(&content(fleet.root(host)), before);
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
#[ignore = "nightly: a playbook takes seconds for each task"]
fn a_wrong_settings_file_leaves_the_one_before() {
    let test = "a_wrong_settings_file_leaves_the_one_before";
    let Some(fleet) = Fleet::set_up() else {
        return skip(test, "scripts/setup-python.sh installs Ansible");
    };
    fleet.write_settings("policy = \"teo\"\n");
    assert!(fleet.play(&[]).succeeded);

    fleet.write_settings("policy = \"teo\"\nenforce = \"perhaps\"\n");
    let wrong = fleet.play(&[]);
    assert!(!wrong.succeeded);
    assert_eq!(wrong.counts("failed"), [1, 1], "{}", wrong.text);
    assert!(wrong.text.contains("line 2"), "{}", wrong.text);
    for host in 0..HOSTS.len() {
        let kept = fs::read_to_string(fleet.root(host).join(SETTINGS)).unwrap();
        assert_eq!(kept, "policy = \"teo\"\n");
        assert_eq!(governor(fleet.root(host)), "teo");
    }
}
