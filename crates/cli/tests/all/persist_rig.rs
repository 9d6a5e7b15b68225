//! `wakepath apply --persist` in a Debian guest with systemd, a disk and the package: boots, power cuts, sleep, and what else a
//! machine goes through.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::path::Path;

use wakepath_policies::apst::{ApstSettings, plan_apst_table};
use wakepath_system::nvme::ApstFeature;

use crate::apst_drive::declared_drive;
use crate::common::systemd_guest::SystemdGuest;
use crate::common::{repository, skip};
use crate::package::package;

/// The set of most tests: Debian 12's kernel has no teo.
pub(crate) const SET: &str = "ladder + cpu-latency[limit=20us,cpus=all] + frequency[max=2400MHz] + idle-states[ceiling=20us]";
/// Prints the values of all settings of the set, in a fixed order.
pub(crate) const VALUES: &str = "cd /sys/devices/system/cpu && cat cpuidle/current_governor cpu?/power/pm_qos_resume_latency_us \
    cpufreq/policy?/scaling_governor cpufreq/policy?/scaling_min_freq cpufreq/policy?/scaling_max_freq \
    cpu?/cpuidle/state?/disable | tr '\\n' ' '";
/// The values that a boot has by itself.
pub(crate) const OWN: &str =
    "menu 0 0 schedutil schedutil 800000 800000 3200000 3200000 0 0 0 0 0 0 0 0 0 0 ";
/// The values of the set.
pub(crate) const IN_FORCE: &str =
    "ladder 20 20 schedutil schedutil 800000 800000 2400000 2400000 0 0 0 1 1 0 0 0 1 1 ";

/// Gives a guest idle states, frequencies and a battery, now and at each boot.
pub(crate) fn load_modules_at_boot(guest: &mut SystemdGuest) {
    guest.must(
        "extra=/lib/modules/$(uname -r)/extra && mkdir $extra && cp /rig/*.ko $extra && depmod",
    );
    guest.must(
        "echo wakepath_idle wakepath_cpufreq wakepath_battery | tr ' ' '\\n' >/etc/modules-load.d/rig.conf && \
         systemctl restart systemd-modules-load",
    );
    assert_values(guest, OWN);
}

/// Lets the units start and stop for as long as it takes: emulated CPUs on a busy host may need more than a minute.
fn give_units_time(guest: &mut SystemdGuest) {
    guest.must(
        "for unit in wakepath-settings wakepath; do folder=/etc/systemd/system/$unit.service.d && mkdir -p $folder && \
         printf '[Service]\\nTimeoutStartSec=10min\\nTimeoutStopSec=10min\\n' >$folder/time.conf; done && \
         printf 'WatchdogSec=10min\\n' >>$folder/time.conf && systemctl daemon-reload",
    );
}

/// Checks the values of all settings of the set; a difference is shown with what the unit has said.
fn assert_values(guest: &mut SystemdGuest, expected: &str) {
    let found = guest.must(VALUES);
    assert_eq!(
        found,
        expected,
        "{}",
        guest.said("wakepath-settings.service")
    );
}

/// A guest with the package installed, and with idle states, frequencies and a battery.
pub(crate) fn installed_guest(test: &str) -> Option<SystemdGuest> {
    installed_guest_that_boots(test, SystemdGuest::boot)
}

/// As [`installed_guest`], of a function that boots a guest with files in /rig.
fn installed_guest_that_boots(
    test: &str,
    boot: fn(&[&Path]) -> Result<SystemdGuest, String>,
) -> Option<SystemdGuest> {
    let package = match package() {
        Ok(package) => package,
        Err(reason) => {
            skip(test, &reason);
            return None;
        }
    };
    let drive = repository().join("rig/guest/apst_drive.py");
    match boot(&[&package, &drive]) {
        Ok(mut guest) => {
            guest.must("dpkg --install /rig/wakepath_*.deb");
            give_units_time(&mut guest);
            load_modules_at_boot(&mut guest);
            Some(guest)
        }
        Err(reason) => {
            skip(test, &reason);
            None
        }
    }
}

fn persist(guest: &mut SystemdGuest, set: &str) {
    guest.must(&format!("wakepath apply '{set}' --persist --yes"));
    guest.must("systemctl enable wakepath-settings.service && sync");
}

#[test]
#[ignore = "nightly: boots a guest several times"]
fn settings_come_back_at_each_boot_until_restore() {
    let test = "settings_come_back_at_each_boot_until_restore";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    persist(&mut guest, SET);
    assert_values(&mut guest, IN_FORCE);

    guest.reboot("");
    assert_values(&mut guest, IN_FORCE);
    let said = guest.said("wakepath-settings.service");
    assert!(said.contains("applied 15 persistent setting(s)"), "{said}");
    // The journal has this boot's own values.
    let journal = guest.must("cat /var/lib/wakepath/journal.json");
    let boot = guest.must("cat /proc/sys/kernel/random/boot_id");
    assert!(journal.contains(boot.trim()), "{boot}: {journal}");
    guest.must("wakepath restore --now");
    assert_values(&mut guest, OWN);

    // `--now` is for this boot only; a word on the kernel's command line, too.
    guest.reboot("wakepath.persist=0");
    assert_values(&mut guest, OWN);
    let said = guest.said("wakepath-settings.service");
    assert!(said.contains("wakepath.persist=0"), "{said}");
    guest.reboot("");
    assert_values(&mut guest, IN_FORCE);

    guest.must("wakepath restore && test ! -e /etc/wakepath/settings.toml");
    assert_values(&mut guest, OWN);
    guest.reboot("");
    assert_values(&mut guest, OWN);
    assert_eq!(guest.must("systemctl --failed --quiet"), "");
}

#[test]
#[ignore = "nightly: boots a guest several times"]
fn a_set_that_does_not_fit_is_left_out_and_says_why() {
    let test = "a_set_that_does_not_fit_is_left_out_and_says_why";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    persist(&mut guest, SET);
    guest.reboot("");
    assert_values(&mut guest, IN_FORCE);

    // After ten minutes, which the timer counts and the service ends, a power cut says nothing about the set.
    guest.must("test -e /var/lib/wakepath/boot.json");
    let timer = "wakepath-settings-kept.timer";
    guest.must(&format!("systemctl is-active {timer}"));
    let times = guest.must(&format!(
        "systemctl show --property TimersMonotonic {timer}"
    ));
    assert!(times.contains("OnBootUSec=10min"), "{times}");
    guest.must("systemctl start wakepath-settings-kept.service");
    guest.must("test ! -e /var/lib/wakepath/boot.json && sync");
    guest.cut_power();
    assert_values(&mut guest, IN_FORCE);

    // In the first ten minutes.
    guest.cut_power();
    assert_values(&mut guest, OWN);
    let said = guest.said("wakepath-settings.service");
    assert!(
        said.contains("is left out: the last boot with it ended uncleanly within ten minutes"),
        "{said}"
    );
    // An orderly boot without the set says nothing about the set.
    guest.reboot("");
    assert_values(&mut guest, OWN);

    // A mistake in the second line of the file: one line in the journal, and nothing half applied.
    guest.must(
        "printf 'policy = \"ladder\"\\ncpus = \"all\"\\n' >/etc/wakepath/settings.toml && sync",
    );
    guest.reboot("");
    assert_values(&mut guest, OWN);
    let said = guest.said("wakepath-settings.service");
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("settings.toml"))
        .collect();
    let [line] = lines[..] else {
        panic!("{said}");
    };
    assert!(
        line.contains("cpus: `all` is not a list such as 0-3,8"),
        "{line}"
    );

    // Another processor.
    persist(&mut guest, SET);
    assert_values(&mut guest, IN_FORCE);
    guest.exchange_processor("Another");
    guest.reboot("");
    assert_values(&mut guest, OWN);
    let said = guest.said("wakepath-settings.service");
    assert!(
        said.contains("made for the processor QEMU TCG CPU")
            && said.contains("this one is Another"),
        "{said}"
    );
}

#[test]
#[ignore = "nightly: boots a guest"]
fn a_kill_at_any_moment_of_persist_is_undone_by_restore() {
    let test = "a_kill_at_any_moment_of_persist_is_undone_by_restore";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    // How long it takes here, in hundredths of a second.
    let took = guest.must(&format!(
        "hundredths() {{ cut -d' ' -f1 /proc/uptime | tr -d .; }}; began=$(hundredths); \
         wakepath apply '{SET}' --persist --yes >/dev/null 2>&1 && wakepath restore >/dev/null 2>&1; \
         echo $(( ($(hundredths) - began) / 2 ))"
    ));
    let took: u64 = took.trim().parse().unwrap();
    let mut left_changed = 0;
    for part in 1..=12 {
        let wait = took * part / 12;
        guest.must(&format!(
            "wakepath apply '{SET}' --persist --yes >/dev/null 2>&1 & \
             sleep {}.{:02}; kill -9 $! 2>/dev/null; wait; true",
            wait / 100,
            wait % 100
        ));
        left_changed += u32::from(guest.must(VALUES) != OWN);
        // A whole file or none.
        guest.must("wakepath apply --check");
        guest.must("wakepath restore && test ! -e /etc/wakepath/settings.toml");
        assert_eq!(guest.must(VALUES), OWN, "killed after {wait} hundredths");
    }
    assert!(
        left_changed > 0,
        "no kill came between the first write and the end"
    );
}

#[test]
#[ignore = "nightly: boots a guest"]
fn sleep_cpus_and_the_power_supply_keep_or_switch_the_set() {
    let test = "sleep_cpus_and_the_power_supply_keep_or_switch_the_set";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    persist(&mut guest, SET);
    let plug = "/sys/module/wakepath_battery/parameters/plugged";
    for (plugged, supply) in [(0, "battery"), (1, "mains")] {
        guest.must(&format!("echo {plugged} >{plug}"));
        guest.wait_for(&format!("journalctl --boot | grep 'on {supply}'"));
        assert_values(&mut guest, IN_FORCE);
    }
    let said = guest.said("wakepath-settings-supply");
    assert!(!said.contains("wrote 1"), "{said}");
    guest.must("wakepath apply 'menu' --persist --yes --on battery");
    guest.reboot("");
    assert_values(&mut guest, IN_FORCE);
    // What is seen from here on is what the kernel keeps: nothing is written again.
    let cpu = "/sys/devices/system/cpu/cpu1/online";
    guest.must(&format!("echo 0 >{cpu} && sleep 1 && echo 1 >{cpu}"));
    guest.wait_for("journalctl --boot | grep 'Finished wakepath-settings-reset@cpu1'");
    assert_values(&mut guest, IN_FORCE);
    guest.must("echo processors >/sys/power/pm_test && systemctl start suspend.target");
    guest.wait_for("journalctl --boot | grep 'Finished wakepath-settings-resume'");
    guest.must("dmesg | grep 'PM: suspend exit'");
    assert_values(&mut guest, IN_FORCE);
    guest.must("echo 1 >/sys/class/nvme/nvme0/reset_controller");
    guest.wait_for("journalctl --boot | grep 'Finished wakepath-settings-reset@nvme0'");
    assert_values(&mut guest, IN_FORCE);
    let said = guest.said("wakepath-settings*");
    assert!(!said.contains("wrote again"), "{said}");

    guest.must(&format!("echo 0 >{plug}"));
    guest.wait_for("journalctl --boot | grep 'on battery: wrote'");
    assert_values(&mut guest, OWN);
    guest.must(&format!("echo 1 >{plug}"));
    guest.wait_for("journalctl --boot | grep 'on mains: wrote'");
    assert_values(&mut guest, IN_FORCE);
}

/// A latency tolerance below the exit latency of the drive's deepest state, and a table with another time than the kernel's.
const DRIVE_SET: &str = "drive-latency[tolerance=20ms] + apst[primary_timeout_ms=50]";
/// The tolerance of the drive of rig/guest/apst_drive.py.
const TOLERANCE: &str = "/sys/class/nvme/nvme1/power/pm_qos_latency_tolerance_us";

/// Starts the drive of rig/guest/apst_drive.py in the guest, and has the kernel connect to it.
fn connect_drive_with_apst(guest: &mut SystemdGuest) {
    guest.must(
        "modprobe nvme-tcp && \
         systemd-run --quiet --unit apst-drive python3 /rig/apst_drive.py --loopback",
    );
    guest.wait_for("journalctl --boot --unit apst-drive --output cat | grep '^ready'");
    connect_running_drive(guest);
}

/// Has the kernel connect to the drive, which is then `nvme1`, beside a drive without APST.
fn connect_running_drive(guest: &mut SystemdGuest) {
    // The emulated CPU may keep the drive waiting for longer than the 5 s after which it counts as lost by default.
    guest.must(
        "printf 'transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=nqn.2026-11.wakepath:apst,nr_io_queues=1,keep_alive_tmo=600' \
         >/dev/nvme-fabrics",
    );
    guest.wait_for("test \"$(cat /sys/class/nvme/nvme1/state)\" = live");
    guest.wait_for("test -b /dev/nvme1n1");
}

/// Resets of the drive and changes of its table that the drive itself tells of, after as many as are known.
fn changes_of_table(guest: &mut SystemdGuest, known: &mut usize) -> Vec<String> {
    guest.must("journalctl --sync");
    let said = guest.said("apst-drive.service");
    let all = said
        .lines()
        .filter(|line| *line == "reset" || line.starts_with("set "));
    let new: Vec<String> = all.skip(*known).map(str::to_owned).collect();
    *known += new.len();
    new
}

/// How the drive tells of the table that the kernel's rule gives the drive.
fn table_line(max_latency_us: u64, primary_timeout_ms: u64) -> String {
    let drive = declared_drive();
    let settings = ApstSettings {
        max_latency_us,
        primary_timeout_ms,
        ..ApstSettings::default()
    };
    let plan = plan_apst_table(drive.npss, true, &drive.states, &settings).unwrap();
    let feature = ApstFeature {
        enabled: plan.enabled,
        table: plan.table,
    };
    format!("set {feature}")
}

/// The kernel keeps the tolerance and fits the table to it anew, so that the set's table alone is written again.
#[test]
#[ignore = "nightly: boots a guest"]
fn a_reset_of_a_drive_with_apst_keeps_its_tolerance_and_loses_its_table() {
    let test = "a_reset_of_a_drive_with_apst_keeps_its_tolerance_and_loses_its_table";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    let lines = [(100_000, 100), (20_000, 100), (20_000, 50)].map(|(us, ms)| table_line(us, ms));
    let [by_kernel, for_tolerance, of_set] = lines.each_ref().map(String::as_str);
    let mut known = 0;
    let mut changes = |guest: &mut SystemdGuest| changes_of_table(guest, &mut known);
    connect_drive_with_apst(&mut guest);
    assert_eq!(changes(&mut guest), ["reset", by_kernel]);

    persist(&mut guest, DRIVE_SET);
    assert_eq!(changes(&mut guest), [for_tolerance, of_set]);
    assert_eq!(guest.must(&format!("cat {TOLERANCE}")), "20000\n");
    guest.must(
        "head -c 4096 /dev/urandom >/root/block && \
         dd if=/root/block of=/dev/nvme1n1 bs=4096 oflag=direct",
    );

    for reset in 1..=2 {
        guest.must("echo 1 >/sys/class/nvme/nvme1/reset_controller");
        guest.wait_for(&format!(
            "test $(journalctl --boot | grep -c 'Finished wakepath-settings-reset@nvme1') = {reset}"
        ));
        // Each line once: the kernel's own table, then the set's. Neither is saved in the drive.
        assert_eq!(changes(&mut guest), ["reset", for_tolerance, of_set]);
        assert_eq!(guest.must(&format!("cat {TOLERANCE}")), "20000\n");
    }
    let said = guest.said("wakepath-settings-reset@nvme1.service");
    let written: Vec<&str> = said.lines().filter(|line| line.contains("wrote")).collect();
    assert_eq!(written.len(), 2, "{said}");
    for line in written {
        assert!(
            line.ends_with("wrote again what was reset: apst:nvme1"),
            "{line}"
        );
    }
    assert!(!said.contains("somebody else"), "{said}");
    let status = guest.must("wakepath status");
    assert!(status.contains("2 of 2 in force"), "{status}");
    guest.must("dd if=/dev/nvme1n1 bs=4096 count=1 iflag=direct | cmp - /root/block");

    guest.must("wakepath restore");
    assert_eq!(guest.must(&format!("cat {TOLERANCE}")), "100000\n");
    assert_eq!(
        changes(&mut guest).last().map(String::as_str),
        Some(by_kernel)
    );
    guest.must("echo 1 >/sys/class/nvme/nvme1/reset_controller");
    assert_eq!(changes(&mut guest), ["reset", by_kernel]);

    // `auto` allows every state: it is not the kernel's own tolerance, which holds for drives that come later.
    let own_tolerance = "/sys/module/nvme_core/parameters/default_ps_max_latency_us";
    guest.must(&format!(
        "echo 20000 >{own_tolerance} && echo 20000 >{TOLERANCE} && echo auto >{TOLERANCE}"
    ));
    assert_eq!(changes(&mut guest), [for_tolerance, by_kernel]);
}

/// What a drive's own driver and the block layer give a drive that comes after the boot gives way to the set.
#[test]
#[ignore = "nightly: boots a guest"]
fn a_drive_that_comes_after_the_boot_gets_the_set() {
    let test = "a_drive_that_comes_after_the_boot_gets_the_set";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    let read_ahead = "cat /sys/block/nvme1n1/queue/read_ahead_kb";
    connect_drive_with_apst(&mut guest);
    let own_kib = guest.must(read_ahead);
    assert_ne!(own_kib, "512\n");
    persist(&mut guest, &format!("{DRIVE_SET} + read-ahead[kb=512]"));
    assert_eq!(guest.must(read_ahead), "512\n");

    // The guest's kernel knows nothing of the drive until it is connected.
    guest.reboot("");
    guest.must("test ! -e /sys/class/nvme/nvme1");
    connect_drive_with_apst(&mut guest);
    guest.wait_for("journalctl --boot | grep 'Finished wakepath-settings-reset@nvme1n1'");
    let said = guest.said("wakepath-settings*");
    assert_eq!(guest.must(read_ahead), "512\n", "{said}");
    assert_eq!(guest.must(&format!("cat {TOLERANCE}")), "20000\n", "{said}");
    let changes = changes_of_table(&mut guest, &mut 0);
    assert_eq!(changes.last(), Some(&table_line(20_000, 50)), "{said}");
    let status = guest.must("wakepath status");
    assert!(!status.contains("drifted"), "{status}");

    // The journal has the values that the drive had before the set.
    guest.must("wakepath restore");
    assert_eq!(guest.must(read_ahead), own_kib);
    assert_eq!(guest.must(&format!("cat {TOLERANCE}")), "100000\n");
}

/// A set of interrupts and disks; the kernel's own values are all CPUs, 128 KiB and 1.
const DISK_SET: &str = "irq-affinity[cpus=1] + read-ahead[kb=512] + rq-affinity[value=2]";

/// Finds the number of the interrupt with a name.
fn find_interrupt(guest: &mut SystemdGuest, name: &str) -> String {
    let number = guest.must(&format!("grep -w '{name}' /proc/interrupts | cut -d: -f1"));
    number.trim().to_owned()
}

/// The CPUs of the SATA controller's interrupt.
fn cpus_of_interrupt(guest: &mut SystemdGuest) -> String {
    let number = find_interrupt(guest, "ahci.*");
    let cpus = guest.must(&format!("cat /proc/irq/{number}/smp_affinity_list"));
    cpus.trim().to_owned()
}

/// Read-ahead and `rq_affinity` of a disk.
fn queue_of_disk(guest: &mut SystemdGuest, disk: &str) -> String {
    guest.must(&format!(
        "cd /sys/block/{disk}/queue && echo $(cat read_ahead_kb rq_affinity)"
    ))
}

/// Waits until the service after an event of a device has ended so many times in this boot.
fn wait_for_service_after_event(guest: &mut SystemdGuest, device: &str, times: usize) {
    guest.wait_for(&format!(
        "test $(journalctl --boot | grep -c 'Finished wakepath-settings-reset@{device}.service') -ge {times}"
    ));
}

/// What the services after events of a device have written in this boot, a line each.
fn written_after_events(guest: &mut SystemdGuest, device: &str) -> Vec<String> {
    guest.must("journalctl --sync");
    let said = guest.said(&format!("wakepath-settings-re{device}"));
    let lines = said
        .lines()
        .filter_map(|line| line.split_once("what was reset: "));
    lines.map(|(_, names)| names.to_owned()).collect()
}

/// A guest with a SATA disk beside its virtio and NVMe disks, after a boot with the set.
fn guest_with_kept_disks(test: &str) -> Option<SystemdGuest> {
    let mut guest = installed_guest_that_boots(test, SystemdGuest::boot_with_sata_disk)?;
    persist(&mut guest, DISK_SET);
    guest.reboot("");
    // The disk's driver may be loaded after the boot's settings were written.
    guest.wait_for("test -b /dev/sda && grep -x 512 /sys/block/sda/queue/read_ahead_kb");
    Some(guest)
}

#[test]
#[ignore = "nightly: boots a guest several times"]
fn interrupts_keep_their_cpus_unless_the_kernel_manages_them() {
    let test = "interrupts_keep_their_cpus_unless_the_kernel_manages_them";
    let Some(mut guest) = guest_with_kept_disks(test) else {
        return;
    };
    assert_eq!(cpus_of_interrupt(&mut guest), "1");
    // Queues of NVMe and of virtio: the kernel refuses, and so does a set of nothing else.
    for queue in ["nvme0q1", "virtio[0-9]*-req.0"] {
        let number = find_interrupt(&mut guest, queue);
        let number = number.lines().next().unwrap();
        guest.must(&format!("! echo 1 >/proc/irq/{number}/smp_affinity_list"));
    }
    let (status, refused) = guest.run("wakepath apply 'irq-affinity[cpus=1]' --drives nvme0 2>&1");
    assert_ne!(status, 0, "{refused}");
    let by_kernel = "the kernel manages the interrupts of NVMe queues (nvme0q1 and 1 more)";
    assert!(refused.contains(by_kernel), "{refused}");
    let said = guest.said("wakepath-settings.service");
    let stay = "the kernel manages the interrupts of drives' queues (";
    assert!(said.contains(stay), "{said}");

    let number = find_interrupt(&mut guest, "ahci.*");
    let reset = format!("irq-affinity:irq{number}");
    let online = "/sys/devices/system/cpu/cpu1/online";
    // The kernel moves the interrupt to CPU 0, and does not move it back.
    let moved = guest.must(&format!(
        "echo 0 >{online} && cat /proc/irq/{number}/smp_affinity_list && echo 1 >{online}"
    ));
    assert_ne!(moved, "1\n");
    wait_for_service_after_event(&mut guest, "cpu1", 1);
    assert_eq!(cpus_of_interrupt(&mut guest), "1");
    assert_eq!(
        written_after_events(&mut guest, "set@cpu1"),
        [reset.as_str()]
    );

    // Sleep switches CPU 1 off, too; disks keep their values.
    guest.must("echo processors >/sys/power/pm_test && systemctl start suspend.target");
    guest.wait_for("journalctl --boot | grep 'Finished wakepath-settings-resume'");
    assert_eq!(cpus_of_interrupt(&mut guest), "1");
    // The kernel may send an event of the CPU, too. Whichever of the services is first writes.
    let after_sleep = [
        written_after_events(&mut guest, "set@cpu1").split_off(1),
        written_after_events(&mut guest, "sume"),
    ];
    let lines = after_sleep.concat();
    let of_interrupt = lines.iter().filter(|line| line.contains(&reset));
    assert_eq!(of_interrupt.count(), 1, "{lines:?}");

    guest.must("echo 0 >/sys/module/wakepath_battery/parameters/plugged");
    guest.wait_for("journalctl --boot | grep 'on battery'");
    let said = guest.said("wakepath-settings-supply");
    assert!(!said.contains("wrote 1"), "{said}");
    assert_eq!(cpus_of_interrupt(&mut guest), "1");
    for disk in ["sda", "vda", "nvme0n1"] {
        assert_eq!(queue_of_disk(&mut guest, disk), "512 2\n", "{disk}");
    }

    guest.must("wakepath restore");
    assert_eq!(cpus_of_interrupt(&mut guest), "0-1");
}

/// Disks are taken out and put back: one by QEMU, one with its controller by sysfs, one through a reset of its controller.
#[test]
#[ignore = "nightly: boots a guest several times"]
fn disks_of_any_driver_get_the_set_again() {
    let test = "disks_of_any_driver_get_the_set_again";
    let Some(mut guest) = guest_with_kept_disks(test) else {
        return;
    };
    for time in 1..=2 {
        guest.must("test ! -e /sys/block/vdc");
        guest.plug_virtio_disk();
        wait_for_service_after_event(&mut guest, "vdc", time);
        assert_eq!(queue_of_disk(&mut guest, "vdc"), "512 2\n");
        let written = written_after_events(&mut guest, "set@vdc");
        assert_eq!(written.len(), time, "{written:?}");
        assert_eq!(written.last().unwrap(), "read-ahead:vdc, rq-affinity:vdc");
        if time == 1 {
            guest.unplug_virtio_disk();
        }
    }

    let known = written_after_events(&mut guest, "set@sda").len();
    let services =
        "journalctl --boot | grep -c 'Finished wakepath-settings-reset@sda.service' || true";
    let before: usize = guest.must(services).trim().parse().unwrap();
    guest.must("echo 1 >/sys/bus/pci/devices/0000:00:1f.2/remove && test ! -e /sys/block/sda");
    guest.must("echo 1 >/sys/bus/pci/rescan");
    wait_for_service_after_event(&mut guest, "sda", before + 1);
    assert_eq!(queue_of_disk(&mut guest, "sda"), "512 2\n");
    assert_eq!(cpus_of_interrupt(&mut guest), "1");
    let number = find_interrupt(&mut guest, "ahci.*");
    let written = written_after_events(&mut guest, "set@sda").split_off(known);
    let [names] = &written[..] else {
        panic!("{written:?}");
    };
    for name in [
        &format!("irq-affinity:irq{number}"),
        "read-ahead:sda",
        "rq-affinity:sda",
    ] {
        assert!(names.contains(name), "{names}");
    }

    // The driver sets the disk's limits anew, and read-ahead with them.
    let known = written_after_events(&mut guest, "set@nvme0").len();
    guest.must("echo 1 >/sys/class/nvme/nvme0/reset_controller");
    guest.wait_for(&format!(
        "test $(journalctl --boot --unit wakepath-settings-reset@nvme0 | grep -c 'what was reset') -gt {known}"
    ));
    assert_eq!(queue_of_disk(&mut guest, "nvme0n1"), "512 2\n");
    let written = written_after_events(&mut guest, "set@nvme0").split_off(known);
    assert_eq!(written, ["read-ahead:nvme0n1"]);

    let status = guest.must("wakepath status");
    assert!(!status.contains("drifted"), "{status}");
    guest.must("wakepath restore");
    for disk in ["vdc", "sda", "nvme0n1"] {
        assert_eq!(queue_of_disk(&mut guest, disk), "128 1\n", "{disk}");
    }
    assert_eq!(cpus_of_interrupt(&mut guest), "0-1");
    assert_eq!(guest.must("systemctl --failed --quiet"), "");
}

/// The unit's restrictions leave the daemon the notices of writes, and the names of processes outside.
fn assert_status_names_a_shell_that_writes(guest: &mut SystemdGuest) {
    let file = "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor";
    guest.must("systemctl start wakepath");
    // The kernel shows by inode which files the daemon watches.
    guest.wait_for(&format!(
        "inode=$(printf %x $(stat --format %i {file})); daemon=$(systemctl show --property MainPID --value wakepath); \
         grep -h \"^fanotify ino:$inode \" /proc/$daemon/fdinfo/*"
    ));
    // Some shells give their process to the last command.
    guest.must(&format!(
        "systemd-run --quiet --unit writer sh -c 'echo performance >{file}; sleep 1h; true'"
    ));
    guest.wait_for(
        "journalctl --boot --unit wakepath | grep \"frequency-governor:policy1, which is 'performance' now\"",
    );
    let process = guest.must("systemctl show --property MainPID --value writer");
    let drift = format!(
        "drifted: frequency-governor:policy1 is performance, not schedutil; sh (process {}) has written it, as the daemon saw\n",
        process.trim()
    );
    let status = guest.must("wakepath status");
    assert!(
        status.contains(&drift),
        "{status}{}",
        guest.said("wakepath.service")
    );
    guest.must(&format!(
        "systemctl stop writer wakepath && echo schedutil >{file}"
    ));
}

/// A tool that starts later: drift, which stays or is written again.
#[test]
#[ignore = "nightly: boots a guest"]
fn what_tuned_changes_later_is_drift() {
    let test = "what_tuned_changes_later_is_drift";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    let set = "schedutil + cpu-latency[limit=20us,cpus=all]";
    persist(&mut guest, set);
    guest.reboot("");
    assert_status_names_a_shell_that_writes(&mut guest);
    guest.must("systemctl start tuned && tuned-adm profile throughput-performance");
    let governor = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
    guest.wait_for(&format!("grep performance {governor}"));
    guest.wait_for("journalctl --boot | grep \"frequency-governor:policy0 is 'performance'\"");
    assert_eq!(guest.must(&format!("cat {governor}")), "performance\n");
    let status = guest.must("wakepath status");
    let drift = "drifted: frequency-governor:policy0 is performance, not schedutil; TuneD is running and writes it\n";
    assert!(status.contains(drift), "{status}");
    guest.must("echo 'enforce = true' >>/etc/wakepath/settings.toml");
    guest.wait_for(&format!("grep schedutil {governor}"));
    let process = guest.must("systemctl show --property MainPID --value tuned");
    // The service for drift may hold the lock for a moment.
    guest.wait_for(&format!(
        "wakepath apply '{set}' --persist --yes >/root/told 2>&1"
    ));
    let told = guest.must("cat /root/told");
    let rival = format!(
        "TuneD is running (process {}) and may overwrite frequency-governor, cpu-latency",
        process.trim()
    );
    assert!(told.contains(&rival), "{told}");
}

/// Puts the values of a boot back.
const PUT_BACK: &str = "cd /sys/devices/system/cpu && echo menu >cpuidle/current_governor && \
    for file in cpu?/power/pm_qos_resume_latency_us cpu?/cpuidle/state?/disable; do echo 0 >$file; done && \
    for file in cpufreq/policy?/scaling_max_freq; do echo 3200000 >$file; done && \
    for disk in vda vdb nvme0n1; do cd /sys/block/$disk/queue && echo 128 >read_ahead_kb && echo 1 >rq_affinity; done";

/// A tool, the file that it reads, the command that applies the file, and then the values of [`SET`] and of the queue of nvme0n1.
const FORMS: [(&str, &str, &str, &str, &str); 4] = [
    (
        "tuned",
        "/etc/tuned/wakepath/tuned.conf",
        "systemctl start tuned && tuned-adm profile wakepath && tuned-adm verify",
        IN_FORCE,
        "512 2\n",
    ),
    // The idle governor belongs to no device.
    (
        "udev",
        "/etc/udev/rules.d/70-wakepath-settings.rules",
        "udevadm control --reload && udevadm trigger --action=change && udevadm settle && \
         ! udevadm test --action=change /sys/devices/system/cpu/cpu1 2>&1 | grep -i 'invalid.*wakepath' && \
         udevadm test --action=change /sys/block/nvme0n1 2>&1 | grep 'wakepath.*nvme0n1/queue/read_ahead_kb.*512'",
        "menu 20 20 schedutil schedutil 800000 800000 2400000 2400000 0 0 0 1 1 0 0 0 1 1 ",
        "512 2\n",
    ),
    (
        "tmpfiles",
        "/etc/tmpfiles.d/wakepath.conf",
        "systemd-tmpfiles --create /etc/tmpfiles.d/wakepath.conf",
        IN_FORCE,
        "512 2\n",
    ),
    // TLP has options for frequencies alone.
    (
        "tlp",
        "/etc/tlp.d/50-wakepath.conf",
        "tlp start",
        "menu 0 0 schedutil schedutil 800000 800000 2400000 2400000 0 0 0 0 0 0 0 0 0 0 ",
        "128 1\n",
    ),
];

#[test]
#[ignore = "nightly: boots a guest"]
fn other_tools_apply_the_forms_that_are_printed() {
    let test = "other_tools_apply_the_forms_that_are_printed";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    let set = format!("{SET} + read-ahead[kb=512] + rq-affinity[value=2]");
    for (tool, file, apply, values, queue) in FORMS {
        guest.must(&format!(
            "mkdir -p $(dirname {file}) && wakepath apply '{set}' --as {tool} >{file}"
        ));
        assert_eq!(guest.must(VALUES), OWN, "{tool}: printing changes nothing");
        assert_eq!(queue_of_disk(&mut guest, "nvme0n1"), "128 1\n", "{tool}");
        guest.must(apply);
        assert_eq!(guest.must(VALUES), values, "{tool}");
        assert_eq!(queue_of_disk(&mut guest, "nvme0n1"), queue, "{tool}");
        if tool == "udev" {
            // Rules know disks by serial number, and a virtio disk has none.
            guest.must(&format!("grep 'left out: read-ahead:vda: ' {file}"));
            assert_eq!(queue_of_disk(&mut guest, "vda"), "128 1\n");
        }
        guest.must(&format!("rm {file}"));
        if tool == "tuned" {
            guest.must("systemctl stop tuned");
        }
        guest.must(PUT_BACK);
        assert_eq!(guest.must(VALUES), OWN, "{tool}");
    }
    guest.must(&format!(
        "wakepath apply '{set}' --as ansible >/root/wakepath.yml"
    ));
    let play =
        "cd /root && ansible-playbook --connection local --inventory localhost, wakepath.yml";
    let first = guest.must(play);
    assert!(!first.contains("changed=0"), "{first}");
    assert_eq!(guest.must(VALUES), IN_FORCE, "{first}");
    assert_eq!(queue_of_disk(&mut guest, "nvme0n1"), "512 2\n", "{first}");
    let second = guest.must(play);
    assert!(second.contains("changed=0"), "{second}");
    guest.reboot("");
    assert_eq!(guest.must(VALUES), IN_FORCE, "after a boot");
    // The drive may be found after the boot's settings were written.
    guest.wait_for("grep -x 512 /sys/block/nvme0n1/queue/read_ahead_kb");
}
