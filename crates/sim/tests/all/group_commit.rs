//! Logs that requests wait for, and background writers: how many writes and flushes requests share, and how long they wait.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_sim::Run;

use crate::server::{ideal_machine, run_on, server_text, sum_of_parts, try_on};

/// Times of a write and of a flush in us, on the machine of these tests.
const WRITE_US: f64 = 100.0;
const FLUSH_US: f64 = 1000.0;

fn machine_with_flush(flush_us: f64) -> Machine {
    let mut machine = ideal_machine();
    machine.drive.write_service_us = Figure::assumed(WRITE_US, "a test");
    machine.drive.flush_us = Figure::assumed(flush_us, "a test");
    machine.drive.parallel_units = Figure::assumed(64.0, "a test");
    machine
}

/// So many clients without think time, each request with so much work, and a log.
fn run_clients(clients: u32, work_us: u32, log: &str) -> Run {
    let arrivals = format!("pattern = 'clients'\nclients = {clients}");
    let request = format!("work_us = {work_us}\n{log}");
    let text = server_text(clients, 5.0, &arrivals, &request);
    run_on(&machine_with_flush(FLUSH_US), &text)
}

const EACH: &str = "[log]\nbytes = 100\nsync = 'each'\n";

#[track_caller]
fn assert_close(value: f64, wanted: f64, share: f64) {
    assert!(
        (value / wanted - 1.0).abs() <= share,
        "{value}, not {wanted}"
    );
}

#[test]
fn one_client_writes_and_flushes_for_each_request() {
    let run = run_clients(1, 50, EACH);
    let calls = run.server.as_ref().unwrap().disk_per_reply;
    assert_close(run.latency_us.mean, 50.0 + WRITE_US + FLUSH_US, 0.01);
    assert_close(calls.writes, 1.0, 0.002);
    assert_close(calls.flushes, 1.0, 0.002);
    // A page, and another one whenever a request ends in the next page.
    assert_close(calls.written_bytes, 4096.0 + 100.0, 0.01);
    assert_eq!(run.fsyncs.unwrap().calls, run.requests);
    assert!((sum_of_parts(&run) - run.latency_us.mean).abs() < 0.01);
}

/// After a sync, the first request to come back syncs alone, and all others share the next sync.
#[test]
fn many_clients_need_two_flushes_for_all_of_them() {
    for clients in [2, 4, 16, 64] {
        let run = run_clients(clients, 10, EACH);
        let calls = run.server.as_ref().unwrap().disk_per_reply;
        assert_close(calls.flushes, 2.0 / f64::from(clients), 0.05);
        assert_close(calls.writes, calls.flushes, 0.01);
        let syncs_per_second = run.iops * calls.flushes;
        assert_close(syncs_per_second, 1e6 / (WRITE_US + FLUSH_US), 0.12);
        assert!((sum_of_parts(&run) - run.latency_us.mean).abs() < 0.01);
        // Nobody waits for more than the rest of a sync, a whole one, and the request's own part.
        let most = 2.3 * (WRITE_US + FLUSH_US) + 10.0 * f64::from(clients);
        assert!(run.latency_us.max < most, "{}", run.latency_us.max);
        assert!(run.attribution.mean.worker_wait > 0.2 * FLUSH_US);
    }
}

#[test]
fn without_group_commit_each_request_has_a_sync_of_its_own() {
    for clients in [1, 2, 8] {
        let run = run_clients(clients, 10, &format!("{EACH}group_commit = false\n"));
        let calls = run.server.as_ref().unwrap().disk_per_reply;
        assert_close(calls.flushes, 1.0, 0.005);
        assert_close(calls.writes, 1.0, 0.005);
        // One client works between two syncs; of several, others sync meanwhile.
        let idle_us = if clients == 1 { 10.0 } else { 0.0 };
        assert_close(run.iops, 1e6 / (WRITE_US + FLUSH_US + idle_us), 0.005);
        assert!((sum_of_parts(&run) - run.latency_us.mean).abs() < 0.01);
    }
}

#[test]
fn work_of_a_sync_is_done_once_for_all_that_share_it() {
    let log = format!("{EACH}work_us = 400\n");
    let one = run_clients(1, 50, &log);
    assert_close(
        one.latency_us.mean,
        50.0 + 400.0 + WRITE_US + FLUSH_US,
        0.01,
    );
    let many = run_clients(16, 10, &log);
    let calls = many.server.as_ref().unwrap().disk_per_reply;
    let syncs_per_second = many.iops * calls.flushes;
    assert_close(syncs_per_second, 1e6 / (400.0 + WRITE_US + FLUSH_US), 0.12);
    for run in [one, many] {
        assert!((sum_of_parts(&run) - run.latency_us.mean).abs() < 0.01);
    }
}

#[test]
fn work_that_takes_longer_than_a_sync_shares_none() {
    // Both clients begin at once. After the first sync one of them is behind by a sync, and stays so.
    let run = run_clients(2, 40_000, EACH);
    let calls = run.server.as_ref().unwrap().disk_per_reply;
    assert_close(calls.flushes, 1.0, 0.01);
    assert_close(run.latency_us.mean, 40_000.0 + WRITE_US + FLUSH_US, 0.002);
}

#[test]
fn the_journal_of_the_file_system_writes_and_flushes_too() {
    let journal = "[log.journal]\nbytes = 12288\ncommit_bytes = 4096\n";
    let each = run_clients(1, 50, &format!("{EACH}{journal}"));
    let calls = each.server.as_ref().unwrap().disk_per_reply;
    assert_close(calls.writes, 3.0, 0.002);
    assert_close(calls.flushes, 2.0, 0.002);
    assert_close(calls.written_bytes, 4196.0 + 16384.0, 0.005);
    assert_close(
        each.latency_us.mean,
        50.0 + 3.0 * WRITE_US + 2.0 * FLUSH_US,
        0.01,
    );
    // An allocated file needs the journal for new blocks only: one in 4096 / 100 requests.
    let new_blocks = run_clients(1, 50, &format!("{EACH}{journal}when = 'new_block'\n"));
    let calls = new_blocks.server.as_ref().unwrap().disk_per_reply;
    assert_close(calls.writes, 1.0 + 2.0 * 100.0 / 4096.0, 0.01);
    assert_close(calls.flushes, 1.0 + 100.0 / 4096.0, 0.01);
}

#[test]
fn a_drive_without_a_volatile_cache_gets_no_flush() {
    let text = server_text(
        1,
        1.0,
        "pattern = 'clients'\nclients = 1",
        &format!("work_us = 50\n{EACH}"),
    );
    let run = run_on(&machine_with_flush(0.0), &text);
    let calls = run.server.as_ref().unwrap().disk_per_reply;
    assert!(calls.flushes < 1e-9, "{calls:?}");
    assert_close(run.latency_us.mean, 50.0 + WRITE_US, 0.02);
}

#[test]
fn a_background_writer_writes_what_its_figures_say() {
    let run = |rate: f64, writer: &str| {
        let arrivals = format!("pattern = 'fixed'\nrate = {rate:?}");
        let text = server_text(
            4,
            20.0,
            &arrivals,
            &format!("work_us = 50\n[[background]]\n{writer}"),
        );
        run_on(&machine_with_flush(FLUSH_US), &text)
    };
    let with = run(
        1000.0,
        "every_s = 0.05\nwrites_per_request = 0.3\nbytes = 8192\n",
    );
    let calls = with.server.as_ref().unwrap().disk_per_reply;
    assert_close(calls.writes, 0.3, 0.01);
    assert_close(calls.written_bytes, 0.3 * 8192.0, 0.01);
    assert!(calls.flushes + calls.reads < 1e-9, "{calls:?}");
    assert!(with.fsyncs.is_none());
    // 100 ms of rest after a round of 2 writes side by side and 2 flushes.
    let rounds = run(
        1000.0,
        "every_s = 0.1\nwrites = 2\nbytes = 4096\nflushes = 2\n",
    );
    let calls = rounds.server.as_ref().unwrap().disk_per_reply;
    let round_s = 0.1 + (WRITE_US + 2.0 * FLUSH_US) / 1e6;
    assert_close(calls.flushes * 1000.0, 2.0 / round_s, 0.02);
    assert_close(calls.writes * 1000.0, 2.0 / round_s, 0.02);
    // Rounds without a reply are left out: a request each second makes a round each second.
    let seldom = run(
        1.0,
        "every_s = 0.1\nwrites = 2\nbytes = 4096\nflushes = 2\n",
    );
    let calls = seldom.server.as_ref().unwrap().disk_per_reply;
    assert_close(calls.writes, 2.0, 0.06);
    let requests = [with, rounds].map(|run| run.latency_us.mean);
    assert!(
        requests.iter().all(|us| (49.9..51.0).contains(us)),
        "{requests:?}"
    );
}

/// A server that gets 1,000 requests a second, with a background writer.
fn run_with_background(writer: &str) -> Run {
    let request = format!("work_us = 50\n[[background]]\n{writer}");
    let text = server_text(4, 20.0, "pattern = 'fixed'\nrate = 1000", &request);
    run_on(&machine_with_flush(FLUSH_US), &text)
}

#[test]
fn a_background_writer_merges_after_so_many_replies() {
    let run = run_with_background(
        "every_requests = 250\nreads = 3.5\nread_bytes = 65536\nwrites = 7\nbytes = 131072\ndepth = 1\nwork_us = 200\nflushes = 2\n",
    );
    let calls = run.server.as_ref().unwrap().disk_per_reply;
    assert_close(calls.reads, 3.5 / 250.0, 0.02);
    assert_close(calls.read_bytes, 3.5 * 65536.0 / 250.0, 0.02);
    assert_close(calls.writes, 7.0 / 250.0, 0.02);
    assert_close(calls.written_bytes, 7.0 * 131_072.0 / 250.0, 0.02);
    assert_close(calls.flushes, 2.0 / 250.0, 0.02);
    assert!(
        run.fsyncs.is_none(),
        "nobody waits for a background writer's flush"
    );
}

/// A late round begins right after the last, and with a depth of one each call waits for the call before.
#[test]
fn a_background_writer_that_cannot_keep_up_writes_one_call_after_the_other() {
    let run = run_with_background(
        "every_requests = 10\nwrites = 7\nbytes = 4096\ndepth = 1\nwork_us = 2000\n",
    );
    let calls = run.server.as_ref().unwrap().disk_per_reply;
    assert_close(calls.writes * 1000.0, 1e6 / (2000.0 + WRITE_US), 0.03);
    let deeper = run_with_background(
        "every_requests = 10\nwrites = 7\nbytes = 4096\ndepth = 32\nwork_us = 1000\n",
    );
    let calls = deeper.server.as_ref().unwrap().disk_per_reply;
    assert_close(calls.writes, 0.7, 0.02);
}

#[test]
fn a_drive_whose_read_rate_is_not_known_is_refused_for_large_background_reads() {
    let mut machine = machine_with_flush(FLUSH_US);
    machine.drive.read_mb_per_s = Figure::assumed(0.0, "a test");
    let refusal = try_on(&machine, &text_with_background_reads(8192), 1)
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("give drive.read_mb_per_s"), "{refusal}");
    assert!(try_on(&machine, &text_with_background_reads(4096), 1).is_ok());
}

/// A server whose background writer only reads, so many bytes at once.
fn text_with_background_reads(bytes: u32) -> String {
    let request = format!(
        "work_us = 50\n[[background]]\nevery_requests = 10\nwrites = 0\nbytes = 4096\nreads = 1\nread_bytes = {bytes}\n"
    );
    server_text(1, 0.5, "pattern = 'fixed'\nrate = 100", &request)
}
