//! The role of Ansible in `packaging/ansible`, on machines that are directories, and on two guests by SSH.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::systemd_guest::SystemdGuest;
use crate::common::{repository, skip};
use crate::package::package;
use crate::persist_rig::{IN_FORCE, OWN, SET, VALUES, load_modules_at_boot};

const HOSTS: [&str; 2] = ["web-01", "web-02"];
const SETTINGS: &str = "etc/wakepath/settings.toml";
const EPP: &str = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";

/// Two hosts, and a playbook that gives them the role.
struct Fleet {
    /// Captured machines, where the hosts are directories.
    machines: Vec<TempDir>,
    folder: TempDir,
    program: PathBuf,
}

impl Fleet {
    /// Hosts that are directories. `None` where Ansible is not installed.
    fn set_up() -> Option<Self> {
        let program = installed_ansible()?;
        let machines: Vec<TempDir> = HOSTS.iter().map(|_| copy_of_laptop()).collect();
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
        let fleet = Self {
            machines,
            folder: tempfile::tempdir().unwrap(),
            program,
        };
        fleet.write_playbook(&inventory);
        Some(fleet)
    }

    /// Hosts that are guests, whose SSH is at these ports and lets this key in.
    fn over_ssh(program: PathBuf, folder: TempDir, ports: [u16; 2], key: &Path) -> Self {
        let mut inventory = String::new();
        for (host, port) in HOSTS.iter().zip(ports) {
            writeln!(
                inventory,
                "{host} ansible_host=127.0.0.1 ansible_port={port}"
            )
            .unwrap();
        }
        write!(
            inventory,
            "[all:vars]\nansible_user=root\nansible_python_interpreter=/usr/bin/python3\n\
             ansible_ssh_private_key_file={}\n\
             ansible_ssh_common_args='-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null'\n",
            key.display()
        )
        .unwrap();
        let fleet = Self {
            machines: Vec::new(),
            folder,
            program,
        };
        fleet.write_playbook(&inventory);
        fleet
    }

    fn write_playbook(&self, inventory: &str) {
        fs::write(self.folder.path().join("inventory"), inventory).unwrap();
        fs::write(
            self.folder.path().join("site.yml"),
            "- hosts: all\n  gather_facts: false\n  roles: [wakepath]\n",
        )
        .unwrap();
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
            // An emulated CPU takes long for a key exchange.
            .env("ANSIBLE_TIMEOUT", "120")
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

fn installed_ansible() -> Option<PathBuf> {
    let program = repository().join(".cache/python/bin/ansible-playbook");
    program.is_file().then_some(program)
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

    // A file with less in it puts back what is no longer there.
    fleet.write_settings("policy = \"teo + epp[value=power]\"\n");
    assert!(fleet.play(&[]).succeeded);
    for host in 0..HOSTS.len() {
        assert_eq!(content(fleet.root(host))[EPP], b"power\n");
    }
    fleet.write_settings("policy = \"teo\"\n");
    let less = fleet.play(&[]);
    assert!(less.succeeded, "{}", less.text);
    for (host, before) in before.iter().enumerate() {
        assert_eq!(content(fleet.root(host))[EPP], before[EPP]);
        assert_eq!(governor(fleet.root(host)), "teo");
    }

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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Has a guest let this public key in by SSH.
fn start_ssh(guest: &mut SystemdGuest, public_key: &str) {
    let network = "[Match]\nName=en* eth*\n[Network]\nAddress=10.0.2.15/24\n";
    guest.must(&format!(
        "printf '%s' '{network}' >/etc/systemd/network/rig.network && modprobe virtio_net && \
         systemctl start systemd-networkd && install -d -m 700 /root/.ssh && \
         echo '{public_key}' >/root/.ssh/authorized_keys && systemctl start ssh"
    ));
}

#[test]
#[ignore = "nightly: boots two guests"]
fn one_run_sets_two_guests() {
    let test = "one_run_sets_two_guests";
    let Some(program) = installed_ansible() else {
        return skip(test, "scripts/setup-python.sh installs Ansible");
    };
    let package = match package() {
        Ok(package) => package,
        Err(reason) => return skip(test, &reason),
    };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let mut make_key = Command::new("ssh-keygen");
    make_key.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
    if !make_key.arg(&key).status().is_ok_and(|made| made.success()) {
        return skip(test, "no ssh-keygen (Debian package openssh-client)");
    }
    let public_key = fs::read_to_string(key.with_extension("pub")).unwrap();
    let ports = [free_port(), free_port()];
    let mut guests = match SystemdGuest::boot_two_with_ssh(&[], ports) {
        Ok(guests) => guests,
        Err(reason) => return skip(test, &reason),
    };
    for guest in &mut guests {
        load_modules_at_boot(guest);
        start_ssh(guest, public_key.trim());
    }
    let fleet = Fleet::over_ssh(program, folder, ports, &key);
    fleet.write_settings(&format!("policy = \"{SET}\"\n"));
    let variable = format!("wakepath_package={}", package.display());

    let first = fleet.play(&[&variable]);
    assert!(first.succeeded, "{}", first.text);
    let second = fleet.play(&[&variable]);
    assert_eq!(second.counts("changed"), [0, 0], "{}", second.text);
    for guest in &mut guests {
        assert_eq!(guest.must(VALUES), IN_FORCE);
    }

    guests[0].reboot("");
    assert_eq!(guests[0].must(VALUES), IN_FORCE, "after a boot");
    start_ssh(&mut guests[0], public_key.trim());

    let absent = fleet.play(&["wakepath_state=absent"]);
    assert!(absent.succeeded, "{}", absent.text);
    for guest in &mut guests {
        assert_eq!(guest.must(VALUES), OWN);
    }
}
