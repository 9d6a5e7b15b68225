//! `wakepath explain` in virtual machines whose NVMe drive interrupts in the ways that kernels know (docs/background/laboratory.md).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use serde_json::Value;

use crate::common::rig::{Guest, Shared, guest};

static OWN_HANDLERS: Shared = Shared::new();
static THREADS: Shared = Shared::new();

fn run(test: &str, shared: &'static Shared, parameters: &str) -> Option<&'static Guest> {
    let mut arguments = vec!["x86", "--kernel", "6.12", "--shared-vector", "--program"];
    arguments.push(env!("CARGO_BIN_EXE_wakepath"));
    arguments.push("rig/guest/explain.sh");
    let append = format!("--append={parameters}");
    arguments.push(&append);
    guest(test, shared, &format!("explain{parameters}"), &arguments)
}

/// The largest kind of requests of a cell, whose parts add up.
fn largest_kind(guest: &Guest, cell: &str) -> Value {
    let answer = guest.json(&format!("{cell}.json"));
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

/// Share of a kind's requests with a count such as `remote`.
fn share(kind: &Value, count: &str) -> f64 {
    kind[count].as_f64().unwrap() / kind["requests"].as_f64().unwrap()
}

/// Requests by the name of their interrupt, and of all.
fn requests_by_interrupt(answer: &Value, names: impl Fn(&str) -> bool) -> (u64, u64) {
    let interrupts = answer["interrupts"].as_array().unwrap();
    let count = |row: &Value| row["requests"].as_u64().unwrap();
    let named = interrupts
        .iter()
        .filter(|row| names(row["name"].as_str().unwrap()));
    (named.map(count).sum(), interrupts.iter().map(count).sum())
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
    let states = answer["residency"]["requested"].as_array().unwrap();
    let names: Vec<_> = states
        .iter()
        .map(|s| s["state"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["POLL", "C1", "C1E", "C6", "C8"]);
    assert!(
        states
            .iter()
            .any(|state| state["entries"].as_u64() > Some(100))
    );

    // One queue: whether another CPU completes is what rq_affinity says.
    let elsewhere = guest.text("interrupted-cpu.txt").trim() == "1";
    let affinities = [0, 1, 2].map(|affinity| {
        let kind = largest_kind(guest, &format!("rq-affinity-{affinity}"));
        share(&kind, "remote")
    });
    println!("completed by another CPU: {affinities:?}, interrupts elsewhere: {elsewhere}");
    assert!(affinities[0] < 0.02, "{affinities:?}");
    // On a busy host, some handlers take longer than 50 us, and no longer count as the sender's.
    assert!(
        !elsewhere || threads || affinities[2] > 0.5,
        "{affinities:?}"
    );

    largest_kind(guest, "cpu-offline");

    // A polled queue has no interrupt.
    if !notes.contains("polled:") {
        let kind = largest_kind(guest, "polled");
        let answer = guest.json("polled.json");
        let (without, all) = requests_by_interrupt(&answer, str::is_empty);
        assert!(without * 10 > all * 9, "{answer}");
        assert!(share(&kind, "awake") > 0.9, "{kind}");
    }

    largest_kind(guest, "threaded");

    if !notes.contains("no-cpuidle:") {
        let kind = largest_kind(guest, "no-cpuidle");
        assert_eq!(kind["state_names"], serde_json::json!({}), "{kind}");
        let said = guest.text("no-cpuidle.txt");
        assert!(said.contains("no idle states by name"), "{said}");
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn the_ways_of_interrupts_are_explained() {
    let test = "the_ways_of_interrupts_are_explained";
    if let Some(guest) = run(test, &OWN_HANDLERS, "") {
        check_cells(guest, false);
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn the_ways_of_threaded_interrupts_are_explained() {
    let test = "the_ways_of_threaded_interrupts_are_explained";
    if let Some(guest) = run(test, &THREADS, "threadirqs") {
        check_cells(guest, true);
    }
}
