//! Single models of the simulator beside what real kernels have measured: stored runs of the laboratory, simulated anew.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::laboratory::laboratory_command;
use crate::common::{repository, wakepath};
use serde_json::Value;
use tempfile::TempDir;

/// A cell: machine, workload and policy.
type Cell = [String; 3];

/// The mean of a metric in each cell, over its repeats.
fn means_by_cell(folder: &Path, metric: &str) -> BTreeMap<Cell, f64> {
    let mut values: BTreeMap<Cell, Vec<f64>> = BTreeMap::new();
    for file in fs::read_dir(folder.join("runs")).unwrap() {
        let run: Value = serde_json::from_slice(&fs::read(file.unwrap().path()).unwrap()).unwrap();
        let metrics = run["metrics"].as_array().unwrap();
        let Some(mean) = metrics.iter().find(|m| m[0] == metric) else {
            continue;
        };
        let key = &run["key"];
        let cell = ["machine", "workload", "policy"].map(|name| key[name].as_str().unwrap().into());
        values
            .entry(cell)
            .or_default()
            .push(mean[1].as_f64().unwrap());
    }
    let means = values
        .into_iter()
        .map(|(cell, all)| (cell, all.iter().sum::<f64>() / all.len() as f64));
    means.collect()
}

/// Simulates a study of the laboratory. Returns each of its cells with the stored measurement of a metric, and by how many per cent
/// the simulated one is off.
fn simulate_stored_cells(name: &str, metric: &str, cells: usize) -> Vec<(Cell, f64, f64)> {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let measured = format!("rig/laboratory/measured/{name}.jsonl");
    let study = format!("rig/laboratory/{name}.toml");
    let done = laboratory_command(&study, &out, &["--measured", &measured])
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let (mut simulated, real) = (
        means_by_cell(&out.join("sim"), metric),
        means_by_cell(&out.join("lab"), metric),
    );
    // fio reports no times of fdatasync, so that a cell may lack them on one side.
    simulated.retain(|cell, _| real.contains_key(cell));
    assert_eq!((simulated.len(), real.len()), (cells, cells));
    let compared = real.into_iter().map(|(cell, real)| {
        let off = 100.0 * (simulated[&cell] / real - 1.0);
        println!(
            "{}: {metric} really {real:.2}, off by {off:.1} %",
            cell.join(", ")
        );
        (cell, real, off)
    });
    compared.collect()
}

/// Checks that a metric of each cell of a study is within so many per cent of the stored measurement.
fn check_stored_cells(name: &str, metric: &str, cells: usize, percent: f64) {
    let mut compared = simulate_stored_cells(name, metric, cells);
    compared.retain(|(_, _, off)| off.abs() > percent);
    assert!(compared.is_empty(), "{compared:?}");
}

#[test]
fn buffered_reads_take_as_long_as_those_of_a_real_kernel() {
    // Farthest off is a read of 4 KiB that is cached, by 3.3 %. Two cells are fitted.
    check_stored_cells("read-ahead-6.12", "mean_us", 18, 4.0);
}

#[test]
fn jobs_under_menu_take_as_long_as_with_a_real_kernel() {
    // Two runs of 800 ms each. Nothing is fitted. Farthest off of the cells without a limit of their own are four buffered reads of a ring,
    // by 6.9 %.
    let mut compared = simulate_stored_cells("menu-6.12", "mean_us", 42);
    compared.retain(|([_, workload, _], _, off)| {
        let limit = match workload.as_str() {
            // Ticks meet reads by chance: see `waits_that_ticks_cut_take_as_long_over_drives_of_nearly_the_same_speed`.
            "buffered-random" => 25.0,
            "mmap-random-read" | "mmap-random-write" | "mmap-random-write-fsync" => 10.0,
            // Not traced: pages are written back meanwhile.
            "mmap-write" => 16.0,
            _ => 8.0,
        };
        off.abs() > limit
    });
    assert!(compared.is_empty(), "{compared:?}");
}

/// Where a tick cuts a wait decides whether `menu` sees a pattern afterwards. With reads of 0.1 us more or less, later ticks come at
/// other places. The guest's reads are less even than simulated ones, so that ticks come at all places. Its mean is near to the mean over
/// drives of nearly the same speed.
#[test]
fn waits_that_ticks_cut_take_as_long_over_drives_of_nearly_the_same_speed() {
    let folder = TempDir::new().unwrap();
    let laboratory = repository().join("rig/laboratory");
    for machine in ["debian-6.12.toml", "debian-6.12-link-2000.toml"] {
        fs::copy(laboratory.join(machine), folder.path().join(machine)).unwrap();
    }
    let tenths_of_us = (790..=810).step_by(2);
    let drives: Vec<String> = tenths_of_us
        .map(|tenths| write_machine_with_read_time(folder.path(), tenths))
        .collect();
    let jobs = ["buffered-random", "mmap-random-read", "mmap-random-write"];
    let workloads = jobs.map(|job| {
        let file = laboratory.join(format!("jobs/{job}.fio"));
        format!(
            "[[workload]]\nname = {job:?}\nfio = {file:?}\nfio_options = {{ runtime = \"800ms\" }}\n"
        )
    });
    let study = folder.path().join("study.toml");
    let text = format!(
        r#"name = "ticks"
title = "Ticks that cut waits"
machine = {drives:?}
repeats = 1
warm_up_s = 0
policy = ["menu"]

{}"#,
        workloads.concat()
    );
    fs::write(&study, text).unwrap();
    let out = folder.path().join("out");
    let paths = [&study, &out].map(|path| path.to_str().unwrap());
    wakepath(&["study", "run", paths[0], "-o", paths[1]]).success();
    let means = means_by_cell(&out, "mean_us");
    assert_eq!(means.len(), 33);

    let stored = simulate_stored_cells("menu-6.12", "mean_us", 42);
    for job in jobs {
        let (_, real, _) = stored
            .iter()
            .find(|([machine, workload, _], ..)| {
                machine == "debian-6.12-link-2000" && workload == job
            })
            .unwrap();
        let all: Vec<f64> = means
            .iter()
            .filter(|([_, workload, _], _)| workload == job)
            .map(|(_, mean)| *mean)
            .collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(0.0, f64::max);
        println!("{job}: really {real:.1}, simulated {mean:.1} ({low:.1} to {high:.1})");
        assert!((low..high).contains(real), "{job}: {real}, {all:?}");
        assert!((mean / real - 1.0).abs() < 0.05, "{job}: {real}, {all:?}");
    }
}

/// Writes a machine of the laboratory whose drive takes so many tenths of a microsecond for a read. Returns the file's name.
fn write_machine_with_read_time(folder: &Path, tenths: u32) -> String {
    let file = format!("drive-{tenths}.toml");
    let service = f64::from(tenths) / 10.0;
    let text = format!(
        r#"like = "debian-6.12-link-2000.toml"
name = "drive-{tenths}"
title = "A read takes {service} us"

[drive]
read_service_us = {service}
source = "near to rig/drive"
"#
    );
    fs::write(folder.join(&file), text).unwrap();
    file
}

#[test]
fn buffered_reads_of_older_and_newer_kernels_take_as_long_as_theirs() {
    // With 6.1 nothing is fitted, and a reader of two places is farthest off, by 4.4 %. With 7.3 one cell is fitted: pages of large folios.
    check_stored_cells("read-ahead-6.1", "mean_us", 9, 5.0);
    check_stored_cells("read-ahead-7.3", "mean_us", 9, 6.0);
}

#[test]
fn polled_reads_take_as_long_as_those_of_a_real_kernel() {
    // Nothing is fitted. Three runs of 200 ms each. Farthest off is a single polled read, by 1.6 %.
    check_stored_cells("polling-6.12", "mean_us", 5, 3.0);
    check_stored_cells("polling-6.12", "iops", 5, 3.0);
}

#[test]
fn mapped_files_are_read_and_written_as_by_a_real_kernel() {
    // Two cells of 6.12 are fitted. Farthest off are sequential writes of 7.3, whose large folios are mapped as a whole, by 5.6 %.
    check_stored_cells("mapped-6.12", "mean_us", 9, 4.0);
    check_stored_cells("mapped-6.1", "mean_us", 9, 5.0);
    check_stored_cells("mapped-7.3", "mean_us", 9, 7.0);
}

#[test]
fn buffered_reads_of_deep_rings_take_as_long_as_those_of_a_real_kernel() {
    // Nothing is fitted. Farthest off are two processes, by 6.2 %.
    for kernel in ["6.1", "6.12", "7.3"] {
        check_stored_cells(&format!("ring-{kernel}"), "mean_us", 6, 8.0);
    }
}

#[test]
fn reads_submitted_by_a_polling_thread_take_as_long_as_those_of_a_real_kernel() {
    let mut compared = simulate_stored_cells("polling-thread-6.12", "mean_us", 4);
    compared.retain(|(_, _, off)| off.abs() > 8.0);
    assert!(compared.is_empty(), "{compared:?}");
}

#[test]
fn jobs_with_threads_and_jobs_that_steer_themselves_do_as_much_as_with_a_real_kernel() {
    // Nothing is fitted: threads that wake each other pay for switches and system calls.
    check_stored_cells("threads-6.12", "mean_us", 6, 8.0);
    check_stored_cells("threads-6.12", "iops", 6, 8.0);
}

#[test]
fn jobs_that_end_when_steady_do_as_much_as_with_a_real_kernel() {
    // Nothing is fitted. Farthest off are single reads under menu, by 4.7 %.
    check_stored_cells("steady-6.12", "mean_us", 4, 8.0);
    check_stored_cells("steady-6.12", "iops", 4, 8.0);
}

#[test]
fn replayed_logs_take_as_long_as_with_a_real_kernel() {
    // Nothing is fitted.
    for metric in ["mean_us", "iops"] {
        let mut compared = simulate_stored_cells("replays-6.12", metric, 6);
        compared.retain(|([_, workload, policy], _, off)| {
            let limit = match (metric, workload.as_str(), policy.as_str()) {
                // A run of 60 ms, in which menu learns.
                ("mean_us", "replay-no-stall", "menu") => 10.0,
                _ => 8.0,
            };
            off.abs() > limit
        });
        assert!(compared.is_empty(), "{metric}: {compared:?}");
    }
}

#[test]
fn jobs_read_back_what_they_wrote_as_fast_as_with_a_real_kernel() {
    // Nothing is fitted. Farthest off are buffered writes and reads, by 2.7 %, and their rate, by 3.7 %.
    check_stored_cells("checking-6.12", "mean_us", 4, 4.0);
    check_stored_cells("checking-6.12", "iops", 4, 5.0);
}

#[test]
fn requests_to_servers_take_as_long_as_with_a_real_kernel() {
    // Nothing is fitted. Farthest off are Poisson arrivals at one worker, by 1.8 %: either side draws its own.
    check_stored_cells("servers-6.12", "mean_us", 5, 8.0);
    check_stored_cells("servers-6.12", "p90_us", 5, 8.0);
}

#[test]
fn buffered_writes_take_as_long_as_those_of_a_real_kernel() {
    // Two figures are fitted with only C1 on. Farthest off are writes without a sync, by 6.4 %, and their rate, by 7.0 %.
    check_stored_cells("buffered-6.12", "mean_us", 6, 8.0);
    check_stored_cells("buffered-6.12", "iops", 6, 8.0);
}

#[test]
fn clients_commit_as_often_as_those_of_a_real_kernel() {
    let compared = simulate_stored_cells("commits-6.12", "iops", 8);
    for ([_, workload, policy], _, off) in &compared {
        assert!(off.abs() <= 4.0, "{workload}, {policy}: {off}");
    }
    // Without deep states clients commit more often, in the guest and in the simulation.
    let mut gains = BTreeMap::<&str, [[f64; 2]; 2]>::new();
    for ([_, workload, policy], real, off) in &compared {
        let rates = gains.entry(workload.as_str()).or_default();
        rates[usize::from(policy != "menu")] = [*real, real * (1.0 + off / 100.0)];
    }
    for (workload, [with_deep_states, shallow]) in gains {
        let is_faster = shallow.iter().zip(with_deep_states).all(|(s, d)| *s > d);
        assert!(is_faster, "{workload}: {with_deep_states:?}, {shallow:?}");
    }
}

#[test]
fn writes_of_clients_take_as_long_as_those_of_a_real_kernel() {
    let mut compared = simulate_stored_cells("commits-6.12", "mean_us", 8);
    // Nothing is fitted. One client pays for new pages; of four, three find each page cached. Sixteen wait for pages that another one
    // syncs again; with only C1 on their longest waits are too short.
    compared.retain(|([_, workload, policy], _, off)| {
        let limit = if workload == "commits-16" && policy != "menu" {
            9.0
        } else {
            8.0
        };
        off.abs() > limit
    });
    assert!(compared.is_empty(), "{compared:?}");
}

#[test]
fn syncs_on_ext4_take_as_long_as_with_a_real_kernel() {
    // The work of a commit and of a write is fitted to one process with only C1 on. Three rounds each, as on XFS.
    for (metric, cells) in [("sync_mean_us", 6), ("iops", 10), ("mean_us", 10)] {
        let mut compared = simulate_stored_cells("ext4-6.12", metric, cells);
        compared.retain(|([_, workload, policy], _, off)| {
            let limit = match (metric, workload.as_str(), policy.as_str()) {
                // The rounds of the guest differ by 5 %, and those of the simulation by 4.
                ("sync_mean_us" | "iops", "journal-fsync-1", "menu") => 12.0,
                // Writes wait for the block of the inodes twice as often as in the guest, as long each time.
                ("mean_us", "journal-fsync-4", "menu") => 60.0,
                _ => 8.0,
            };
            off.abs() > limit
        });
        assert!(compared.is_empty(), "{metric}: {compared:?}");
    }
}

#[test]
fn syncs_on_xfs_take_as_long_as_with_a_real_kernel() {
    // Nothing is fitted. Three rounds each, since the states that menu chooses for one process differ between rounds, in the guest, too.
    check_stored_cells("xfs-6.12", "sync_mean_us", 6, 8.0);
    check_stored_cells("xfs-6.12", "iops", 10, 8.0);
    // The writes themselves; direct ones under menu wake from a deeper state more often than in the guest.
    let mut compared = simulate_stored_cells("xfs-6.12", "mean_us", 10);
    compared.retain(|([_, workload, policy], _, off)| {
        let is_direct = workload == "journal-direct-1" && policy == "menu";
        off.abs() > if is_direct { 15.0 } else { 8.0 }
    });
    assert!(compared.is_empty(), "{compared:?}");
}
