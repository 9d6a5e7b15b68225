//! Findings about the path of an I/O: polling time before sleep, and the completing CPU.

use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::poll;
use wakepath_system::System;

use crate::case::Case;
use crate::counters;
use crate::finding::Finding;
use crate::model::READS;

/// Default for `guest_halt_poll_ns` (`drivers/cpuidle/governors/haltpoll.c`, Linux 6.12).
const HALTPOLL_DEFAULT: &str = "haltpoll[guest_halt_poll_ns=200000]";

/// Finds a polling limit that does not fit the gaps of the load.
pub(crate) fn find_wrong_polling_limit(case: &mut Case<'_>) -> Option<Finding> {
    if matches!(case.model.now.idle(), Some(IdlePolicy::Haltpoll(..))) {
        return find_haltpoll_without_polling(case);
    }
    let states = case.model.machine.common_declared_idle_states().ok()?;
    // Without a polling state the CPUs never poll.
    states.first().filter(|s| s.polling)?;
    let limit = poll::polling_limit(&states, case.model.machine.tick_rate(), None);
    let (disk, gap_us) = counters::busiest_drive_and_its_mean_read_us(case.system)?;
    let limit_us = limit.0 as f64 / 1e3;
    if gap_us <= limit_us {
        return None;
    }
    let finding = Finding::new(
        "polling-limit",
        format!("idle CPUs poll for at most {limit_us:.0} us, which is shorter than a read takes"),
    )
    .with_evidence(format!(
        "polling limit {limit_us:.0} us, from the idle states and HZ {}; reads of {disk} took {gap_us:.0} us on average",
        case.model.machine.tick_rate().hz()
    ));
    // What polling through a whole read would gain, as far as the kernel can be told to.
    let poll = format!("poll[request_us={}]", gap_us.ceil());
    let policies = case.model.now.with_policy(poll.parse().ok()?).ok()?;
    let what = format!("a limit of {:.0} us", gap_us.ceil());
    let simulated =
        case.model
            .simulate_cost_compared_to(&case.model.machine, &policies, READS, &what);
    let difference = case.result_or_note_without_cost("polling-limit", simulated)?;
    let shallow = super::idle::policy_set_that_leaves_shallow_states(case)
        .filter(|_| difference.us_per_io > 0.0)
        .map_or_else(String::new, |set| {
            let command = case.command_line_to_apply(&set);
            format!("; a latency limit keeps the sleep after it shallow: {command}")
        });
    let finding = finding.with_fix(format!("stock kernels have no setting for it{shallow}"));
    Some(Finding {
        // No user can change this limit, so that changeable findings rank higher.
        weight: 0.0,
        ..finding.with_costs(&difference)
    })
}

/// Finds a guest that uses haltpoll, and does not poll.
fn find_haltpoll_without_polling(case: &mut Case<'_>) -> Option<Finding> {
    let path = "sys/module/haltpoll/parameters/guest_halt_poll_ns";
    let ns = case.system.root().read_number_if_readable(path)?;
    if ns > 0 {
        return None;
    }
    let set = HALTPOLL_DEFAULT.parse().ok()?;
    let priced = case.price_policy_set("haltpoll-off", set, READS, HALTPOLL_DEFAULT)?;
    Some(
        Finding::new(
            "haltpoll-off",
            "the idle governor is haltpoll, but it polls for 0 ns: every wait goes to the host",
        )
        .with_evidence(format!("/{path} is 0"))
        .fixed_by_priced_set(case, priced),
    )
}

/// Finds completions that run on other CPUs than the submitting ones.
pub(crate) fn find_remote_completions(case: &mut Case<'_>) -> Option<Finding> {
    let disk = case.system.drive_block_devices().into_iter().next()?;
    let cpus = case.system.cpus();
    let queues = read_queue_cpus(case.system, &disk);
    if queues.is_empty() || cpus.len() < 2 {
        return None;
    }
    let shared: usize = queues.iter().map(|q| q.len().saturating_sub(1)).sum();
    if shared == 0 {
        return None;
    }
    let elsewhere = shared as f64 / cpus.len() as f64;
    let mut local = case.model.machine.clone();
    local.io_path.completion.queues = None;
    let simulated = case.model.simulate_cost_compared_to(
        &local,
        &case.model.now,
        READS,
        "a queue for each CPU",
    );
    let difference = case.result_or_note_without_cost("completions-elsewhere", simulated)?;
    let to_submitter = "rq-affinity[value=2]".parse().ok()?;
    let path = format!("sys/block/{disk}/queue/rq_affinity");
    let setting = case.system.root().read_text_if_readable(&path);
    let affinity = setting.unwrap_or_else(|| "unknown".to_owned());
    Some(
        Finding::new(
            "completions-elsewhere",
            format!(
                "{disk} interrupts another CPU than the one that asked for {:.0} % of the CPUs. A CPU that sleeps deeply \
                 because it has nothing to do has to take the interrupt",
                100.0 * elsewhere
            ),
        )
        .with_evidence(format!(
            "{} hardware queue(s) for {} CPUs; rq_affinity {affinity}",
            queues.len(),
            cpus.len()
        ))
        .with_fix(if affinity == "2" {
            "the drive, or the host of this virtual machine, gives no more queues".to_owned()
        } else {
            case.command_line_to_apply(&to_submitter)
        })
        .with_costs(&difference),
    )
}

/// Reads the CPUs of each hardware queue.
fn read_queue_cpus(system: &System, disk: &str) -> Vec<Vec<usize>> {
    let directory = format!("sys/block/{disk}/mq");
    let numbers = system.root().list_entry_numbers(&directory, "");
    let lists = numbers.into_iter().filter_map(|queue| {
        let path = format!("{directory}/{queue}/cpu_list");
        let text = system.root().read_text_if_readable(&path)?;
        // The kernel's list of a queue's CPUs has a space after each comma.
        wakepath_units::cpus::parse_cpu_list(&text.replace(' ', ""))
    });
    lists.collect()
}
