//! `wakepath explain` in virtual machines whose NVMe drive interrupts in the ways that kernels know (docs/background/laboratory.md).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::common::rig::{Guest, Shared, guest};
use crate::common::wakepath;

/// Every way of a request through the kernel, one cell after the other.
const WAYS: &str = "rig/guest/explain.sh";
/// A cell with a queue for each CPU, and one with a queue for all.
const ONCE: &str = "rig/guest/explain-once.sh";
/// Reads through the device mapper, and commits of a journal.
const STACKED_DEVICES: &str = "rig/guest/explain-stacked.sh";

static OWN_HANDLERS: Shared = Shared::new();
static THREADS: Shared = Shared::new();
static REAL_TIME: Shared = Shared::new();
static ISOLATED: Shared = Shared::new();
static HALTPOLL: Shared = Shared::new();
static NO_DRIVER: Shared = Shared::new();
static ARM64: Shared = Shared::new();
static STACKED: Shared = Shared::new();

/// The guest of a test, with these options of `rig/rig.py` and this script of cells.
fn run(
    test: &str,
    shared: &'static Shared,
    options: &[&str],
    script: &str,
) -> Option<&'static Guest> {
    let mut arguments = vec!["x86", "--shared-vector", "--timeout", "900"];
    arguments.extend(["--program", env!("CARGO_BIN_EXE_wakepath")]);
    arguments.extend_from_slice(options);
    arguments.extend(["rig/guest/explain-load.sh", script]);
    guest(test, shared, test, &arguments)
}

/// The largest kind of requests of a cell, whose parts add up.
fn largest_kind(guest: &Guest, cell: &str) -> Value {
    check_parts(&guest.json(&format!("{cell}.json")), cell)
}

/// Checks that parts add up to the nanosecond, and returns the largest kind of requests.
fn check_parts(answer: &Value, cell: &str) -> Value {
    assert!(
        answer["coverage"]["requests"].as_u64().unwrap() > 100,
        "{cell}"
    );
    for kind in answer["kinds"].as_array().unwrap() {
        let part = |name: &str| kind["parts"][name].as_f64().unwrap();
        let parts = ["out_ns", "interrupt_ns", "remote_exit_ns", "remote_ns"];
        let sum: f64 = parts.into_iter().map(part).sum();
        assert!((sum - part("latency_ns")).abs() < 1.0, "{cell}: {kind}");
    }
    let kind = answer["kinds"][0].clone();
    assert!(kind["requests"].as_u64().unwrap() > 100, "{cell}: {kind}");
    println!("{cell}: {}", kind["parts"]);
    kind
}

/// Checks that the parts of tasks' waits add up to the nanosecond. Some reads end before their task sleeps.
fn check_wait(kind: &Value, cell: &str) {
    let wait = |part: &str| kind["wait"][part].as_f64().unwrap();
    assert!(wait("requests") > 50.0, "{cell}: {kind}");
    let before = ["queued_ns", "latency_ns", "hand_over_ns"];
    let behind = ["through_ns", "task_exit_ns", "run_queue_ns"];
    let sum: f64 = before.into_iter().chain(behind).map(wait).sum();
    assert!((sum - wait("wait_ns")).abs() < 1.0, "{cell}: {kind}");
}

/// Share of a kind's requests with a count such as `remote`.
fn share(kind: &Value, count: &str) -> f64 {
    kind[count].as_f64().unwrap() / kind["requests"].as_f64().unwrap()
}

/// Requests by interrupt and CPU, as explained; without a name where no interrupt is known.
fn requests_by_interrupt(guest: &Guest, cell: &str) -> BTreeMap<(String, usize), u64> {
    count_by_interrupt(&guest.json(&format!("{cell}.json")))
}

fn count_by_interrupt(answer: &Value) -> BTreeMap<(String, usize), u64> {
    let rows = answer["interrupts"].as_array().unwrap();
    let counts = rows.iter().map(|row| {
        let name = row["name"].as_str().unwrap().to_owned();
        let cpu = row["cpu"].as_u64().unwrap() as usize;
        ((name, cpu), row["requests"].as_u64().unwrap())
    });
    counts.collect()
}

/// Requests whose interrupt is known, as a share of all.
fn share_with_interrupt(guest: &Guest, cell: &str) -> f64 {
    let requests = requests_by_interrupt(guest, cell);
    let all: u64 = requests.values().sum();
    let known = requests.iter().filter(|((name, _), _)| !name.is_empty());
    known.map(|(_, count)| count).sum::<u64>() as f64 / all as f64
}

/// The kernel's own counts of the drives' interrupts, by name and CPU, of two CPUs.
fn kernel_counts(text: &str) -> BTreeMap<(String, usize), u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // `3-edge` on x86, `16385 Edge` on arm64.
        let is_trigger = |word: &&str| word.ends_with("-edge") || *word == "Edge";
        let Some(trigger) = words.iter().position(is_trigger) else {
            continue;
        };
        let name = words[trigger + 1..].concat();
        for cpu in [0, 1] {
            counts.insert((name.clone(), cpu), words[1 + cpu].parse().unwrap());
        }
    }
    counts
}

/// How often an interrupt came to a CPU. A trace names a shared interrupt by one of its handlers.
fn count_of_interrupt(
    counts: &BTreeMap<(String, usize), u64>,
    (name, cpu): &(String, usize),
) -> u64 {
    let mut found = counts.iter().filter(|((names, on), _)| {
        on == cpu && (names == name || names.split(',').any(|one| one == name))
    });
    *found.next().unwrap().1
}

/// Checks that each interrupt that explains requests is one that the kernel counted on this CPU meanwhile. An interrupt completes
/// at most the two requests in flight.
fn check_interrupts(guest: &Guest, cell: &str) {
    check_interrupts_of_requests(guest, cell, &requests_by_interrupt(guest, cell));
}

fn check_interrupts_of_requests(
    guest: &Guest,
    cell: &str,
    requests: &BTreeMap<(String, usize), u64>,
) {
    let [before, after] =
        ["before", "after"].map(|end| kernel_counts(&guest.text(&format!("{cell}.{end}"))));
    for (place, requests) in requests {
        if !place.0.is_empty() {
            let counted = count_of_interrupt(&after, place) - count_of_interrupt(&before, place);
            assert!(
                *requests <= 2 * counted,
                "{cell}: {requests} of {place:?}, {counted} counted"
            );
        }
    }
}

/// The names of the idle states that CPUs asked for.
fn requested_states(guest: &Guest, cell: &str) -> Vec<String> {
    let answer = guest.json(&format!("{cell}.json"));
    let states = answer["residency"]["requested"].as_array().unwrap();
    let all = states
        .iter()
        .map(|state| state["entries"].as_u64().unwrap());
    assert!(all.sum::<u64>() > 100, "{cell}: {states:?}");
    let names = states.iter().map(|state| state["state"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

fn check_cells(guest: &Guest, threads: bool) {
    let notes = guest.path("notes.txt");
    let notes = std::fs::read_to_string(notes).unwrap_or_default();
    println!("the guest could not: {notes:?}");

    // A queue for each CPU: nobody else completes, and the load is known by its cgroup.
    let kind = largest_kind(guest, "own-queues");
    assert!(share(&kind, "remote") < 0.02, "{kind}");
    let answer = guest.json("own-queues.json");
    let cgroups = answer["cgroups"].as_array().unwrap();
    assert_eq!(cgroups[0]["name"], "/load", "{cgroups:?}");
    let states = requested_states(guest, "own-queues");
    assert_eq!(states, ["POLL", "C1", "C1E", "C6", "C8"]);
    check_interrupts(guest, "own-queues");
    // However long a thread waits, its requests have its interrupt. Of other handlers, those of a busy host take longer than 50 us.
    let known = share_with_interrupt(guest, "own-queues");
    assert!(known > 0.3, "{known} have an interrupt");

    // One queue: whether another CPU completes is what rq_affinity says.
    let elsewhere = guest.text("interrupted-cpu.txt").trim() == "1";
    let affinities = [0, 1, 2].map(|affinity| {
        let kind = largest_kind(guest, &format!("rq-affinity-{affinity}"));
        share(&kind, "remote")
    });
    println!("completed by another CPU: {affinities:?}, interrupts elsewhere: {elsewhere}");
    assert!(affinities[0] < 0.02, "{affinities:?}");
    // Without interrupts of a CPU that does not read, nobody hands completions over.
    assert!(elsewhere || notes.contains("cannot be moved"), "{notes}");
    // On a busy host handlers may take longer than 50 us, and no longer count as the sender's. Of 1000 requests 645 were handed over.
    assert!(
        !elsewhere || threads || affinities[2] > 0.2,
        "{affinities:?}"
    );

    check_completions_near_submitter(guest, affinities[1], elsewhere, threads);

    largest_kind(guest, "cpu-offline");
    check_absence_of_cpu(guest);

    // A polled queue has no interrupt. Linux 6.12 polls for io_uring.
    assert!(!notes.contains("polled:"), "{notes}");
    let kind = largest_kind(guest, "polled");
    let known = share_with_interrupt(guest, "polled");
    assert!(known < 0.1, "{known} have an interrupt");
    assert!(share(&kind, "awake") > 0.9, "{kind}");

    largest_kind(guest, "threaded");
    check_interrupts(guest, "threaded");
    let known = share_with_interrupt(guest, "threaded");
    assert!(known > 0.3, "{known} have the interrupt of their thread");
}

/// With `rq_affinity` 1, the interrupted CPU completes itself if it shares its last cache with the CPU that reads, and else hands
/// completions over.
/// `handed_over`: share of requests that another CPU completed.
fn check_completions_near_submitter(
    guest: &Guest,
    handed_over: f64,
    elsewhere: bool,
    threads: bool,
) {
    let flags = guest.text("domains.txt");
    assert!(
        flags.contains("SD_"),
        "no domains of the scheduler: {flags}"
    );
    println!("rq_affinity 1: {handed_over} completed by another CPU, {flags}");
    if flags.contains("SD_SHARE_LLC") {
        assert!(handed_over < 0.02, "{handed_over}");
    } else {
        // As with `rq_affinity` 2.
        assert!(!elsewhere || threads || handed_over > 0.2, "{handed_over}");
    }
}

/// The other CPU was away while the load read, and came back.
fn check_absence_of_cpu(guest: &Guest) {
    let notes = guest.text("cpu-offline.notes");
    let [meanwhile, reads, afterwards] = notes.lines().collect::<Vec<_>>()[..] else {
        panic!("{notes}");
    };
    assert_eq!([meanwhile, afterwards], ["0", "0-1"], "{notes}");
    let reads: u64 = reads.parse().unwrap();
    assert!(reads >= 200, "{reads} reads without CPU 1");
}

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn the_ways_of_interrupts_are_explained() {
    let test = "the_ways_of_interrupts_are_explained";
    if let Some(guest) = run(test, &OWN_HANDLERS, &["--kernel", "6.12"], WAYS) {
        check_cells(guest, false);
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn the_ways_of_threaded_interrupts_are_explained() {
    let test = "the_ways_of_threaded_interrupts_are_explained";
    let options = ["--kernel", "6.12", "--append=threadirqs"];
    if let Some(guest) = run(test, &THREADS, &options, WAYS) {
        check_cells(guest, true);
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1 with PREEMPT_RT"]
fn requests_of_a_real_time_kernel_have_the_interrupts_of_their_threads() {
    let test = "requests_of_a_real_time_kernel_have_the_interrupts_of_their_threads";
    let Some(guest) = run(test, &REAL_TIME, &["--kernel", "6.1-rt"], ONCE) else {
        return;
    };
    let version = guest.text("version.txt");
    assert!(version.contains("PREEMPT_RT"), "{version}");
    for cell in ["own-queues", "one-queue"] {
        largest_kind(guest, cell);
        check_interrupts(guest, cell);
        let known = share_with_interrupt(guest, cell);
        assert!(
            known > 0.5,
            "{cell}: {known} have the interrupt of their thread"
        );
        // Linux 6.1 does not let IPIs be watched.
        let said = guest.text(&format!("{cell}.txt"));
        assert!(
            said.contains("no IPIs: completions that one CPU hands to another count as one"),
            "{said}"
        );
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn a_cpu_without_ticks_is_woken_by_the_cpu_that_takes_its_interrupt() {
    let test = "a_cpu_without_ticks_is_woken_by_the_cpu_that_takes_its_interrupt";
    // A drive's only vector is not managed. Without `irqaffinity`, the kernel gives it to either CPU.
    let isolated = "--append=nohz_full=1 isolcpus=nohz,domain,managed_irq,1 irqaffinity=0";
    let options = ["--kernel", "6.12", isolated];
    let Some(guest) = run(test, &ISOLATED, &options, ONCE) else {
        return;
    };
    // The load is on CPU 1. A managed vector for this CPU alone stays there, and the only vector of the other drive is on CPU 0.
    for (cell, cpu) in [("own-queues", 1), ("one-queue", 0)] {
        let kind = largest_kind(guest, cell);
        check_interrupts(guest, cell);
        let requests = requests_by_interrupt(guest, cell);
        let all: u64 = requests.values().sum();
        let there = requests.iter().filter(|((_, on), _)| *on == cpu);
        let there: u64 = there.map(|(_, count)| count).sum();
        assert!(there * 50 > all * 49, "{cell}: {requests:?}");
        let exit = kind["parts"]["task_exit_ns"].as_f64().unwrap();
        assert!(cpu == 1 || exit > 0.0, "the task's CPU had no exit: {kind}");
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn the_driver_of_virtual_machines_is_explained_as_a_halt_of_the_host() {
    let test = "the_driver_of_virtual_machines_is_explained_as_a_halt_of_the_host";
    let options = ["--kernel", "6.12", "--idle-driver", "haltpoll"];
    let Some(guest) = run(test, &HALTPOLL, &options, ONCE) else {
        return;
    };
    assert!(guest.text("idle.txt").starts_with("haltpoll\n"));
    let kind = largest_kind(guest, "own-queues");
    assert_eq!(kind["state_names"], json!({"0": "POLL", "1": "haltpoll"}));
    assert_eq!(kind["polling"], json!([0]));
    let states = requested_states(guest, "own-queues");
    assert_eq!(states, ["POLL", "haltpoll"]);
    let said = guest.text("own-queues.txt");
    let halt = said.matches("a halt that the host answers").count();
    assert_eq!(halt, 1, "{said}");
    check_interrupts(guest, "own-queues");
}

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn without_an_idle_driver_a_halt_has_no_name() {
    let test = "without_an_idle_driver_a_halt_has_no_name";
    let options = ["--kernel", "6.12", "--idle-driver", "none"];
    let Some(guest) = run(test, &NO_DRIVER, &options, ONCE) else {
        return;
    };
    assert!(guest.text("idle.txt").starts_with("none\n"));
    let kind = largest_kind(guest, "own-queues");
    assert_eq!(kind["state_names"], json!({}), "{kind}");
    let met = kind["split"]["states"].as_array().unwrap();
    assert!(met.iter().all(|state| state["state"] == 1), "{met:?}");
    let answer = guest.json("own-queues.json");
    assert_eq!(answer["residency"], Value::Null);
    let said = guest.text("own-queues.txt");
    assert!(said.contains("no idle states by name"), "{said}");
    assert!(said.contains("which calls its halt state 1"), "{said}");
    check_interrupts(guest, "own-queues");
}

/// Imports a trace of the arm64 guest, and explains the recording: as JSON, and what standard error says of it.
fn explain_trace(guest: &Guest, cell: &str) -> (Value, String) {
    let recording = guest.arg(&format!("{cell}.parquet"));
    let trace = guest.arg(&format!("{cell}.dat"));
    wakepath(&["import", &trace, "-o", &recording]).success();
    let explained = wakepath(&["explain", &recording, "--format", "json"]).success();
    let output = explained.get_output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (serde_json::from_slice(&output.stdout).unwrap(), said)
}

/// Indices of the idle states that interrupts of requests, or timers, ended.
fn ended_states(answer: &Value) -> BTreeSet<u64> {
    let kinds = answer["kinds"].as_array().unwrap().iter();
    let met = kinds.flat_map(|kind| kind["split"]["states"].as_array().unwrap());
    let states = met.chain(answer["timers"].as_array().unwrap());
    states
        .map(|state| state["state"].as_u64().unwrap())
        .collect()
}

/// On arm64 timers and IPIs are traced like interrupts of devices, and no idle state polls. Drives interrupt a CPU that reads, and one
/// that does not.
#[test]
#[ignore = "nightly: a guest of another architecture"]
fn the_way_of_reads_is_explained_from_a_trace_of_arm64() {
    let test = "the_way_of_reads_is_explained_from_a_trace_of_arm64";
    let mut arguments = vec!["arm64", "--shared-vector", "--timeout", "900"];
    arguments.extend(["rig/guest/explain-load.sh", "rig/guest/explain-arm64.sh"]);
    let Some(guest) = guest(test, &ARM64, test, &arguments) else {
        return;
    };
    assert_eq!(guest.text("states.txt"), "WFI\ncpu-sleep\ncluster-sleep\n");
    let mut states = BTreeSet::new();
    for (cell, cpu, least_known) in [("own-queues", 0, 0.5), ("other-cpu", 1, 0.2)] {
        let (answer, said) = explain_trace(guest, cell);
        let kind = check_parts(&answer, cell);
        // WFI is a halt, though its index is that of x86's POLL.
        assert_eq!(kind["polling"], json!([]), "{cell}");
        check_wait(&kind, cell);
        let requests = count_by_interrupt(&answer);
        println!("{cell}: {requests:?}, {}", kind["split"]["states"]);
        let all: u64 = requests.values().sum();
        let mut known = 0;
        for ((name, on), count) in &requests {
            assert!(name.is_empty() || name.starts_with("nvme"), "{requests:?}");
            assert_eq!(*on, cpu, "{cell}: {requests:?}");
            known += if name.is_empty() { 0 } else { *count };
        }
        // On a busy host, handlers take longer than 50 us.
        assert!(
            known as f64 > least_known * all as f64,
            "{cell}: {requests:?}"
        );
        check_interrupts_of_requests(guest, cell, &requests);
        states.extend(ended_states(&answer));
        for missing in [
            "no IPIs: completions that one CPU hands to another count as one",
            "no cycles of CPUs (perf events) and no frequency changes: the clock is not known",
            "no idle states by name",
            "no residency counters of cores and packages",
            "no cgroups: the submitters' cgroups are not known",
        ] {
            assert!(said.contains(missing), "{cell}: {said}");
        }
    }
    assert_eq!(states, BTreeSet::from([0, 1, 2]));
}

/// How many requests threads of this name passed on to whom waited.
fn requests_passed_on(answer: &Value, thread: &str) -> u64 {
    let hops = answer["hops"].as_array().unwrap().iter();
    let named = hops.filter(|hop| hop["name"].as_str().unwrap().starts_with(thread));
    named.map(|hop| hop["requests"].as_u64().unwrap()).sum()
}

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn mapped_drives_and_journals_are_followed_to_the_task_that_waits() {
    let test = "mapped_drives_and_journals_are_followed_to_the_task_that_waits";
    let mut options = vec![
        "--kernel",
        "6.12",
        "--program",
        "dmsetup",
        "--program",
        "mke2fs",
    ];
    for module in ["dm_crypt", "crypto_null", "crc32c_generic", "ext4"] {
        options.extend(["--load", module]);
    }
    let Some(guest) = run(test, &STACKED, &options, STACKED_DEVICES) else {
        return;
    };

    // All 1000 reads of the mapping are known by their bio, and belong to the program that reads it.
    for cell in ["linear", "crypt"] {
        let kind = largest_kind(guest, cell);
        check_wait(&kind, cell);
        assert!(share(&kind, "queued") > 0.95, "{cell}: {kind}");
        assert!(kind["device"].as_str().unwrap().starts_with("nvme"));
        let answer = guest.json(&format!("{cell}.json"));
        assert_eq!(answer["processes"][0]["name"], "fio", "{cell}");
    }
    let linear = guest.json("linear.json");
    assert_eq!(
        requests_passed_on(&linear, "kworker"),
        0,
        "{}",
        linear["hops"]
    );
    // Of 1000 decrypted reads 134 to 270 came to fio through a worker that slept. Where a worker is at work already, nobody wakes it.
    let crypt = guest.json("crypt.json");
    let passed_on = requests_passed_on(&crypt, "kworker");
    assert!(passed_on >= 20, "{}", crypt["hops"]);
    let through = crypt["kinds"][0]["wait"]["through_ns"].as_f64().unwrap();
    assert!(through > 0.0, "{}", crypt["kinds"][0]);

    // The journal's thread writes each commit, and fio waits for it.
    let commits = guest.json("commits.json");
    check_parts(&commits, "commits");
    let submitter = commits["processes"][0]["name"].as_str().unwrap();
    assert!(submitter.starts_with("jbd2/"), "{}", commits["processes"]);
    assert!(
        requests_passed_on(&commits, "jbd2/") >= 20,
        "{}",
        commits["hops"]
    );
}
