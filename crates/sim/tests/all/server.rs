//! Request servers: what queueing theory says of them, where the time of requests goes, and servers that cannot keep up.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, SimError, simulate};
use wakepath_workloads::server::{self, ServerFile};

/// A board with four equal CPUs, on which waking up, interrupts, I/O and ticks cost nothing.
pub(crate) fn ideal_machine() -> Machine {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/examples/board.toml"
    );
    let mut machine = Machine::load(std::path::Path::new(path)).unwrap();
    let free = || Figure::assumed(0.0, "an ideal machine");
    for state in &mut machine.idle_state {
        state.true_exit_us = free();
        state.exit_spread = free();
        state.cold_start_kcycles = free();
    }
    machine.scheduler.ipi_us = free();
    machine.scheduler.tick_kcycles = free();
    machine.scheduler.migration_kcycles = free();
    machine.scheduler.switch_kcycles = free();
    machine.io_path.kcycles_per_io = free();
    machine.drive.spread = free();
    machine.drive.read_mb_per_s = Figure::assumed(4096.0, "4 KiB each us");
    machine.drive.write_mb_per_s = Figure::assumed(4096.0, "4 KiB each us");
    machine.drive.flush_us = Figure::assumed(500.0, "a test");
    machine
}

/// A server with so many workers, its arrivals and its requests as text.
pub(crate) fn server_text(workers: u32, seconds: f64, arrivals: &str, request: &str) -> String {
    format!(
        "kind = 'server'\nname = 's'\nworkers = {workers}\nseconds = {seconds:?}\nwarm_up_s = 0.1\n\
         [arrivals]\n{arrivals}\n[request]\n{request}\n"
    )
}

pub(crate) fn try_on(machine: &Machine, text: &str, seed: u64) -> Result<Run, SimError> {
    let file = server::parse(text, "s.toml", None).unwrap();
    try_file_on(machine, file, seed)
}

fn try_file_on(machine: &Machine, file: ServerFile, seed: u64) -> Result<Run, SimError> {
    let policies = PolicySet::from_names(["menu", "performance"]).unwrap();
    simulate(machine, &file.into(), &policies, seed)
}

pub(crate) fn run_file_on(machine: &Machine, file: ServerFile) -> Run {
    try_file_on(machine, file, 1).unwrap()
}

pub(crate) fn run_on(machine: &Machine, text: &str) -> Run {
    try_on(machine, text, 1).unwrap()
}

pub(crate) fn sum_of_parts(run: &Run) -> f64 {
    let mean = run.attribution.mean;
    let parts = mean
        .titled_parts()
        .into_iter()
        .chain(mean.titled_parts_of_server());
    parts.map(|(_, us)| us).sum()
}

/// A request's service takes 100 us on the board, whose CPUs have 1.2 GHz.
const SERVICE: &str = "work_us = 100\n";

#[test]
fn a_queue_on_an_ideal_machine_waits_as_long_as_the_textbook_says() {
    let machine = ideal_machine();
    let rate = 6000.0;
    let load = rate * 100e-6;
    for (spread, wait) in [
        // Pollaczek and Khinchine: half the wait if the service is always the same.
        ("fixed", 100.0 * load / (2.0 * (1.0 - load))),
        ("exponential", 100.0 * load / (1.0 - load)),
    ] {
        let arrivals = format!("pattern = 'poisson'\nrate = {rate}");
        let request = format!("{SERVICE}spread = '{spread}'");
        let run = run_on(&machine, &server_text(1, 100.0, &arrivals, &request));
        let waited = run.attribution.mean.worker_wait;
        assert!(
            (waited / wait - 1.0).abs() < 0.03,
            "{spread}: {waited} us, not {wait}"
        );
        let latency = run.latency_us.mean;
        assert!(
            (latency - wait - 100.0).abs() < 0.03 * (wait + 100.0),
            "{spread}: {latency}"
        );
        assert!((run.iops / rate - 1.0).abs() < 0.01, "{}", run.iops);
    }
    // With arrivals at a fixed rate and less work than time, nobody waits.
    let run = run_on(
        &machine,
        &server_text(1, 1.0, "pattern = 'fixed'\nrate = 6000", SERVICE),
    );
    assert!(run.attribution.mean.worker_wait < 1e-9);
    assert!(
        (run.latency_us.max - 100.0).abs() < 0.2,
        "{}",
        run.latency_us.max
    );
}

#[test]
fn clients_that_do_not_think_keep_all_workers_busy() {
    let machine = ideal_machine();
    for (workers, clients) in [(1, 1), (1, 8), (3, 3), (3, 50), (4, 400)] {
        let arrivals = format!("pattern = 'clients'\nclients = {clients}");
        let run = run_on(&machine, &server_text(workers, 0.5, &arrivals, SERVICE));
        let most = f64::from(workers) * 10_000.0;
        assert!(
            (run.iops / most - 1.0).abs() < 0.01,
            "{workers} workers: {}",
            run.iops
        );
        // Little's law: clients = rate x latency.
        let inside = run.iops * run.latency_us.mean / 1e6;
        assert!(
            (inside / f64::from(clients) - 1.0).abs() < 0.02,
            "{inside} of {clients}"
        );
        assert_eq!(run.rates, [], "clients ask for no rate");
    }
    // One client that thinks nine times as long as it is served asks a tenth as often.
    let arrivals = "pattern = 'clients'\nclients = 1\nthink_us = 900";
    let run = run_on(&machine, &server_text(1, 1.0, arrivals, SERVICE));
    assert!((run.iops - 1000.0).abs() < 2.0, "{}", run.iops);
}

/// A client that is a thread of the server goes on where it was answered: no CPU is interrupted, and none wakes up.
#[test]
fn clients_in_the_server_s_process_ask_without_an_interrupt() {
    let mut machine = ideal_machine();
    machine.io_path.kcycles_per_io = Figure::assumed(120.0, "100 us of the board's CPUs");
    let requests_per_second = |clients: u32, key: &str| {
        let arrivals = format!("pattern = 'clients'\nclients = {clients}\n{key}");
        let text = server_text(clients, 1.0, &arrivals, SERVICE);
        let text = if key.is_empty() {
            text
        } else {
            text.replace(&format!("workers = {clients}\n"), "")
        };
        run_on(&machine, &text).iops
    };
    for clients in [1, 4] {
        let alone = requests_per_second(clients, "in_process = true");
        let most = f64::from(clients) * 10_000.0;
        assert!((alone / most - 1.0).abs() < 0.01, "{clients}: {alone}");
        assert!(requests_per_second(clients, "") < 0.8 * most);
    }
}

#[test]
fn a_server_that_cannot_keep_up_says_what_rate_it_can_do() {
    let machine = ideal_machine();
    let arrivals = "pattern = 'poisson'\nrate = 20000";
    let run = run_on(&machine, &server_text(1, 2.0, arrivals, SERVICE));
    let [rate] = &run.rates[..] else {
        panic!("one rate: {:?}", run.rates);
    };
    assert!((rate.asked / 20_000.0 - 1.0).abs() < 0.02, "{rate:?}");
    assert!((rate.done / 10_000.0 - 1.0).abs() < 0.01, "{rate:?}");
    let server = run.server.as_ref().unwrap();
    assert!(
        server.waiting_at_end > 15_000 && server.refused == 0,
        "{server:?}"
    );
    // A queue that would grow for ever ends, and the rest is refused.
    let arrivals = "pattern = 'fixed'\nrate = 1000000";
    let run = run_on(&machine, &server_text(1, 1.0, arrivals, SERVICE));
    let server = run.server.as_ref().unwrap();
    assert!(server.refused > 100_000, "{server:?}");
    assert_eq!(server.waiting_at_end, 1 << 18);
    let half = run_on(
        &machine,
        &server_text(1, 2.0, "pattern = 'poisson'\nrate = 5000", SERVICE),
    );
    assert!(half.rates[0].achieved_share() > 0.995, "{:?}", half.rates);
}

#[test]
fn a_request_in_hand_at_the_end_does_not_make_a_server_late() {
    let machine = ideal_machine();
    let share = |workers: u32, work_us: u32| {
        let text = server_text(
            workers,
            3.0,
            "pattern = 'fixed'\nrate = 10",
            &format!("work_us = {work_us}"),
        );
        let run = run_on(&machine, &text.replace("warm_up_s = 0.1", "warm_up_s = 1"));
        assert_eq!(run.server.as_ref().unwrap().arrived, 31);
        run.rates[0].achieved_share()
    };
    // The last request arrives as the run ends, and is one of 31.
    assert!((share(1, 100) - 1.0).abs() < 1e-9);
    // Two workers of 190 ms each do 10.5 requests per second.
    assert!((share(2, 190_000) - 1.0).abs() < 1e-9);
    // 150 ms for each request are 6.7 requests per second.
    let late = share(1, 150_000);
    assert!((0.6..0.8).contains(&late), "{late}");
}

#[test]
fn recorded_arrivals_come_when_they_came() {
    let machine = ideal_machine();
    let arrivals = "pattern = 'recorded'\ntimes_ns = [0, 10000000, 10010000, 50000000, 60000000]";
    let text = server_text(1, 10.0, arrivals, SERVICE).replace("warm_up_s = 0.1", "warm_up_s = 0");
    let run = run_on(&machine, &text);
    // The third waits for 90 us.
    assert_eq!(run.requests, 5);
    assert!(
        (run.latency_us.max - 190.0).abs() < 0.5,
        "{}",
        run.latency_us.max
    );
    // The run ends with the last reply, 100 us after the last arrival.
    assert!((run.seconds - 0.0601).abs() < 1e-6, "{}", run.seconds);
    assert!((run.rates[0].achieved_share() - 1.0).abs() < 1e-9);
    // A run that is cut before the last arrival ends there.
    let cut = run_on(&machine, &text.replace("seconds = 10.0", "seconds = 0.05"));
    assert_eq!((cut.requests, cut.seconds), (3, 0.05));
}

#[test]
fn the_replies_after_the_last_recorded_arrival_do_not_hide_that_a_server_is_late() {
    let machine = ideal_machine();
    let each_ms: Vec<String> = (0..100).map(|ms| (ms * 1_000_000).to_string()).collect();
    let arrivals = format!("pattern = 'recorded'\ntimes_ns = [{}]", each_ms.join(", "));
    let with = |work_us: u32| {
        let text = server_text(1, 10.0, &arrivals, &format!("work_us = {work_us}"));
        run_on(&machine, &text.replace("warm_up_s = 0.1", "warm_up_s = 0"))
    };
    let late = with(2_000);
    assert_eq!(late.requests, 100);
    assert!((late.seconds - 0.2).abs() < 1e-3, "{}", late.seconds);
    let share = late.rates[0].achieved_share();
    assert!((0.45..0.55).contains(&share), "{share}");
    // What takes too long is not waited for.
    let endless = with(1_000_000);
    assert_eq!(endless.requests, 10);
    assert!(
        (endless.seconds - 10.099).abs() < 1e-3,
        "{}",
        endless.seconds
    );
}

#[test]
fn calls_together_wait_once_and_calls_in_turn_each() {
    let mut machine = ideal_machine();
    machine.drive.parallel_units.value = 8.0;
    let arrivals = "pattern = 'fixed'\nrate = 100";
    let with = |lines: &str| {
        let request =
            format!("{SERVICE}[[request.disk]]\noperation = 'read'\nbytes = 4096\n{lines}");
        run_on(&machine, &server_text(2, 2.0, arrivals, &request))
    };
    let one = with("");
    let disk = one.latency_us.mean - 100.0;
    assert!((disk - 90.0).abs() < 2.0, "one read of 90 us: {disk}");
    let in_turn = with("calls = 4");
    assert!(
        (in_turn.latency_us.mean - 100.0 - 4.0 * disk).abs() < 4.0,
        "{}",
        in_turn.latency_us.mean
    );
    let together = with("calls = 4\ntogether = true");
    let waited = together.latency_us.mean - 100.0;
    assert!(waited < 2.5 * disk, "{waited}");
    let seldom = with("share = 0.25");
    let mean = seldom.latency_us.mean - 100.0;
    assert!((mean - disk / 4.0).abs() < 7.0, "{mean}");
    for run in [one, in_turn, together, seldom] {
        assert!((sum_of_parts(&run) - run.latency_us.mean).abs() < 0.01);
        assert!(run.reads == 0 && run.requests > 150, "{}", run.requests);
    }
    // What comes through the page cache is copied.
    machine.io_path.page_cache_kcycles = Figure::assumed(12.0, "10 us a page");
    let copied =
        format!("{SERVICE}[[request.disk]]\noperation = 'read'\nbytes = 8192\ndirect = false");
    let direct = copied.replace("false", "true");
    let [copied, direct] = [copied, direct].map(|request| {
        run_on(&machine, &server_text(2, 2.0, arrivals, &request))
            .latency_us
            .mean
    });
    assert!((copied - direct - 20.0).abs() < 1.0, "{copied} {direct}");
}

#[test]
fn an_append_only_file_is_synced_beside_the_requests() {
    let machine = ideal_machine();
    let text = server_text(1, 5.0, "pattern = 'fixed'\nrate = 1000", SERVICE);
    let with = run_on(
        &machine,
        &format!("{text}[log]\nbytes = 200\nsync_every_s = 0.5\n"),
    );
    let syncs = with.fsyncs.unwrap();
    assert!((9..=10).contains(&syncs.calls), "{syncs:?}");
    assert!(
        syncs.mean_us >= 525.0,
        "a write takes 25 us, and a flush 500: {syncs:?}"
    );
    let without = run_on(&machine, &text);
    assert!(without.fsyncs.is_none());
    assert!((with.latency_us.mean - without.latency_us.mean).abs() < 1.0);
}

#[test]
fn sparse_requests_wait_for_deep_idle_states_and_dense_ones_do_not() {
    for machine in ["rk3399", "intel-tbench-80t", "laptop"] {
        let machine = Machine::find(machine).unwrap();
        let at = |rate: f64| {
            let arrivals = format!("pattern = 'poisson'\nrate = {rate}\ninterrupt_cpus = [0]");
            run_on(&machine, &server_text(1, 3.0, &arrivals, "work_us = 20"))
        };
        let (sparse, dense) = (at(50.0), at(10_000.0));
        let exits = [&sparse, &dense].map(|run| run.attribution.mean.idle_exit);
        assert!(exits[0] > exits[1], "{exits:?}");
    }
}

#[test]
fn what_the_machine_does_not_have_is_refused() {
    let text = server_text(
        1,
        1.0,
        "pattern = 'fixed'\nrate = 10\ninterrupt_cpus = [4]",
        SERVICE,
    );
    let message = try_on(&ideal_machine(), &text, 1).unwrap_err().to_string();
    let wanted = "job 's': the simulator does not model network interrupts at CPU 4: the machine has CPUs 0 to 3";
    assert_eq!(message, wanted);
    let text = server_text(1, 1.0, "pattern = 'fixed'\nrate = 10", SERVICE);
    let call = "[[request.disk]]\noperation = 'read'\nbytes = 8192\n";
    for (more, key) in [
        (call, "read_mb_per_s"),
        ("[log]\nbytes = 1\n", "write_mb_per_s"),
    ] {
        let mut machine = ideal_machine();
        machine.drive.read_mb_per_s = Figure::default();
        machine.drive.write_mb_per_s = Figure::default();
        let message = try_on(&machine, &format!("{text}{more}"), 1)
            .unwrap_err()
            .to_string();
        assert!(message.contains(key), "{message}");
    }
    let mut machine = ideal_machine();
    machine.drive.flush_us = Figure::default();
    let message = try_on(&machine, &format!("{text}[log]\nbytes = 1\n"), 1)
        .unwrap_err()
        .to_string();
    assert!(message.contains("drive.flush_us"), "{message}");
}

/// What servers write beside their requests' disk calls.
const LOGS: [&str; 6] = [
    "",
    "[log]\nbytes = 300\nsync_every_s = 0.05\n",
    "[log]\nbytes = 300\nsync = 'each'\n",
    "[log]\nbytes = 9000\nsync = 'each'\nblock_bytes = 8192\n[log.journal]\nbytes = 8192\n",
    "[log]\nbytes = 300\nsync = 'each'\n[log.journal]\nwhen = 'new_block'\nbytes = 8192\n\
     [[background]]\nevery_s = 0.01\nwrites = 1.5\nbytes = 4096\nflushes = 2\n\
     [[background]]\nevery_s = 0.02\nwrites_per_request = 0.7\nbytes = 8192\n",
    "[[background]]\nevery_requests = 3\nwrites = 1.5\nbytes = 65536\nreads = 2.5\nread_bytes = 8192\ndepth = 2\nwork_us = 70\nflushes = 1\n\
     [[background]]\nevery_requests = 1\nwrites = 0.01\nbytes = 4096\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// In debug builds, each request's parts are checked to add up to its latency.
    #[test]
    fn any_server_adds_up_and_gives_the_same_again(
        workers in 1_u32..12,
        rate in 10.0_f64..20_000.0,
        clients in prop::option::of(1_u32..60),
        work in 1_u32..500,
        reply in 0_u32..50,
        calls in 1_u32..5,
        (together, direct, write) in any::<(bool, bool, bool)>(),
        share in 0.05_f64..1.0,
        log in 0_usize..6,
        machine in 0_usize..4,
        seed in 0_u64..1000,
    ) {
        let machine = match machine {
            0 => ideal_machine(),
            other => Machine::find(["rk3399", "intel-tbench-80t", "laptop"][other - 1]).unwrap(),
        };
        let arrivals = match clients {
            Some(clients) => format!("pattern = 'clients'\nclients = {clients}\nthink_us = {work}\nthink = 'exponential'"),
            None => format!("pattern = 'poisson'\nrate = {rate}"),
        };
        let operation = if write { "write" } else { "read" };
        let mut request = format!(
            "work_us = {work}\nreply_us = {reply}\n[[request.disk]]\noperation = '{operation}'\nbytes = 8192\ncalls = {calls}\n\
             together = {together}\ndirect = {}\nshare = {share}\n", direct || write
        );
        request += LOGS[log];
        let text = server_text(workers, 0.2, &arrivals, &request);
        // A machine of the library whose drive's rate or flush nobody knows gets those of the ideal one.
        let mut machine = machine;
        let ideal = ideal_machine().drive;
        for (figure, known) in [
            (&mut machine.drive.read_mb_per_s, ideal.read_mb_per_s),
            (&mut machine.drive.write_mb_per_s, ideal.write_mb_per_s),
            (&mut machine.drive.flush_us, ideal.flush_us),
        ] {
            if figure.value <= 0.0 {
                *figure = known;
            }
        }
        let run = match try_on(&machine, &text, seed) {
            // Sparse requests: none may come in so short a time.
            Err(SimError::NoRequest { .. }) if rate < 100.0 => return Ok(()),
            run => run.unwrap(),
        };
        prop_assert!((sum_of_parts(&run) - run.latency_us.mean).abs() < 0.01 + 1e-6 * run.latency_us.mean);
        // No CPU of these machines is faster than the one in whose time the work is given.
        let service = f64::from(work + reply);
        prop_assert!(run.latency_us.p50 >= service * 0.998, "{} < {service}", run.latency_us.p50);
        prop_assert!(run.attribution.mean.server_work >= service * 0.999 - 0.01);
        let again = try_on(&machine, &text, seed).unwrap();
        let [first, second] = [&run, &again].map(|run| serde_json::to_string(run).unwrap());
        prop_assert_eq!(first, second);
    }
}
