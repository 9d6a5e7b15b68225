//! Jobs whose load follows what is measured, and jobs with threads beside their processes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_sim::Run;

use crate::quiet::simulate_on_quiet_machine;

fn run_sections(sections: &str) -> Run {
    let text = format!("[global]\nfilename=/dev/nvme0n1\ndirect=1\n{sections}");
    simulate_on_quiet_machine(&text, |_| {})
}

fn run(lines: &str) -> Run {
    run_sections(&format!("[j]\n{lines}\n"))
}

fn found_depth(lines: &str) -> u32 {
    let search = "rw=randread\nioengine=libaio\niodepth=64\nlatency_window=20ms\nruntime=3";
    let run = run(&format!("{search}\n{lines}"));
    assert!(run.seconds < 2.5, "{}", run.seconds);
    assert!(run.cut_jobs.is_empty());
    run.found_depths[0].depth
}

#[test]
fn a_depth_is_found_that_keeps_to_the_latency() {
    let depths = [300, 1000, 4000]
        .map(|us| found_depth(&format!("latency_target={us}us\nlatency_percentile=90")));
    assert!(
        depths[0] < depths[1] && depths[1] <= depths[2],
        "{depths:?}"
    );
    assert_eq!(found_depth("latency_target=1s"), 64);
    // A fixed depth of what was found keeps to it, and twice as much does not.
    let p90 = |depth: u32| {
        let run = run(&format!(
            "rw=randread\nioengine=libaio\niodepth={depth}\nruntime=500ms"
        ));
        run.latency_us.p90
    };
    assert!(p90(depths[0]) <= 330.0, "{}", p90(depths[0]));
    assert!(p90(2 * depths[0] + 1) > 300.0, "{}", p90(2 * depths[0] + 1));
}

#[test]
fn a_job_ends_where_not_even_one_io_keeps_to_the_latency() {
    let run = run("rw=randread\nioengine=libaio\niodepth=8\nlatency_target=1us\nruntime=2");
    let ended = run.found_depths[0];
    assert_eq!(
        (run.requests, ended.depth, ended.misses_target),
        (1, 1, true)
    );
}

#[test]
fn a_search_in_windows_that_finds_no_depth_says_so() {
    let search = "rw=randread\nioengine=libaio\niodepth=8\nlatency_window=20ms\nruntime=200ms\nlatency_percentile=90";
    let missed = run(&format!("{search}\nlatency_target=1us")).found_depths[0];
    assert_eq!((missed.depth, missed.misses_target), (1, true));
    let kept = run(&format!("{search}\nlatency_target=1s")).found_depths[0];
    assert!(!kept.misses_target);
    // No window is over.
    let short = run(&format!("{search}\nlatency_target=1us\nruntime=10ms")).found_depths[0];
    assert!(!short.misses_target);
}

#[test]
fn a_search_that_goes_on_lasts_for_the_runtime() {
    let lines = "rw=randread\nioengine=libaio\niodepth=8\nlatency_target=1s\nlatency_window=20ms\nlatency_run=1";
    let run = run(&format!("{lines}\nruntime=500ms"));
    assert!((0.49..0.51).contains(&run.seconds), "{}", run.seconds);
    assert_eq!(run.found_depths[0].depth, 8);
}

#[test]
fn a_steady_job_ends() {
    let timed = "rw=randread\nruntime=8\ntime_based\nrate_iops=500";
    let seconds = |lines: &str| run(&format!("{timed}\n{lines}")).seconds;
    let steady = seconds("ss=iops:5%\nss_dur=2");
    assert!((1.9..2.0).contains(&steady), "{steady}");
    let after_ramp = seconds("ss=bw_slope:5%\nss_dur=2\nss_ramp=1");
    assert!((3.9..4.0).contains(&after_ramp), "{after_ramp}");
    let of_group = seconds("ss=iops:5%\nss_dur=3\nnumjobs=3\ngroup_reporting");
    assert!((2.9..3.0).contains(&of_group), "{of_group}");
    assert!(seconds("ss=iops:0\nss_dur=2") > 7.9);
}

/// Jobs with weights 1 and 4, of which the second would be the slower one; returns I/Os of both.
fn flow(more: &str) -> (u64, u64) {
    let run = run_sections(&format!(
        "[global]\nruntime=500ms\ntime_based\nflow_id=3\n{more}\n[a]\nrw=randread\nflow=1\n[b]\nrw=randwrite\nflow=4\n\
         rate_iops=4000\n[other]\nrw=randread\nrate_iops=100\nflow=0\n"
    ));
    (run.reads - 50, run.writes)
}

#[test]
fn jobs_in_a_flow_keep_their_ratio() {
    for more in ["", "flow_sleep=200", "ioengine=libaio\niodepth=4"] {
        let (light, heavy) = flow(more);
        let ratio = heavy as f64 / light as f64;
        assert!(
            (3.7..4.3).contains(&ratio) && heavy > 500,
            "{more}: {light} {heavy}"
        );
    }
}

/// fio spins while a job is ahead, unless it is told to sleep.
#[test]
fn a_job_that_is_ahead_spins_or_sleeps() {
    let busy = |more: &str| {
        let run = run_sections(&format!(
            "[global]\nruntime=500ms\ntime_based\n{more}\n[a]\nrw=randread\nflow=1\n[b]\nrw=randread\nflow=1\nrate_iops=500\n"
        ));
        run.cpus.iter().map(|cpu| cpu.busy_seconds).sum::<f64>()
    };
    let (spins, sleeps) = (busy(""), busy("flow_sleep=1000"));
    assert!(spins > 0.3 && sleeps < 0.2, "{spins} {sleeps}");
}

#[test]
fn threads_that_submit_have_an_io_each_in_flight() {
    let iops = |lines: &str| run(&format!("rw=randread\nruntime=500ms\n{lines}")).iops;
    let one = iops("");
    let threads = iops("io_submit_mode=offload\niodepth=4");
    let deep = iops("ioengine=libaio\niodepth=4");
    assert!(
        threads > 2.0 * one && threads < 1.1 * deep,
        "{one} {threads} {deep}"
    );
    // Another thread costs its wake-up.
    let alone = iops("io_submit_mode=offload\niodepth=1");
    assert!(alone < one, "{alone} {one}");
}

/// Inline, a process waits for all in flight before it waits for its rate.
#[test]
fn threads_keep_a_rate_while_ios_are_in_flight() {
    let lines =
        "rw=randread\nruntime=1\nioengine=psync\niodepth=16\nrate_iops=15000\nrate_process=poisson";
    let inline = run(lines);
    let offload = run(&format!("{lines}\nio_submit_mode=offload"));
    assert!(
        offload.rates[0].achieved_share() > 0.97,
        "{:?}",
        offload.rates
    );
    assert!(inline.rates[0].achieved_share() < 0.9, "{:?}", inline.rates);
}

#[test]
fn workers_of_the_kernel_submit_one_io_in_so_many() {
    let lines = "rw=randread\nioengine=io_uring\niodepth=4\nruntime=300ms";
    let (plain, all) = (run(lines), run(&format!("{lines}\nforce_async=1")));
    let some = run(&format!("{lines}\nforce_async=7"));
    let mean = |run: &Run| run.latency_us.mean;
    assert!(mean(&plain) < mean(&some) && mean(&some) < mean(&all));
    let switches = |run: &Run| run.events as f64 / run.requests as f64;
    assert!(
        switches(&all) > switches(&some),
        "{} {}",
        switches(&all),
        switches(&some)
    );
}

#[test]
fn checking_threads_share_the_work() {
    let lines = "rw=read\nbs=64k\nsize=8m\nverify=sha3-512\nioengine=libaio\niodepth=8";
    let seconds = |threads: u32| run(&format!("{lines}\nverify_async={threads}")).seconds;
    let (process, one, three) = (seconds(0), seconds(1), seconds(3));
    assert!((0.7..1.2).contains(&(one / process)), "{process} {one}");
    assert!(three < 0.5 * one, "{one} {three}");
    for threads in [0, 2] {
        let run = run(&format!(
            "rw=randwrite\nsize=1m\nverify=md5\nverify_backlog=8\nverify_async={threads}\nioengine=io_uring\niodepth=4"
        ));
        assert_eq!((run.reads, run.writes), (256, 256), "{threads}");
    }
}
