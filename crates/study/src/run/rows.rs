//! Making result rows from a simulated run.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Cluster, MachineIdleState, Opp};
use wakepath_results::{
    AttributionAt, FrequencyResidency, Idle, LatencyCount, LatencyPart, RunRecord,
};
use wakepath_sim::details::{ClusterDetails, FitDetails};
use wakepath_sim::{LONGEST_UNTIMED, RateRun};

use super::drive_io::metrics_of_drives;

/// Fills a record with the results of a simulated run.
pub fn fill_simulated_run(run: &mut RunRecord, machine: &Machine, simulated: &wakepath_sim::Run) {
    run.duration_ns = (simulated.seconds * 1e9).round() as u64;
    run.metrics = list_run_metrics(simulated);
    run.latency = simulated
        .details
        .latency
        .iter()
        .map(|bucket| LatencyCount {
            low_ns: bucket.low,
            high_ns: bucket.high,
            count: bucket.requests,
        })
        .collect();
    if simulated.requests > 0 {
        run.attribution = make_attribution_rows(simulated);
    }
    let has_power = simulated.energy.is_some();
    for (cluster, details) in machine.cluster.iter().zip(&simulated.details.clusters) {
        run.idle
            .extend(make_idle_rows(machine, cluster, details, has_power));
        let busy = Idle::for_busy_time(&cluster.name, details.busy, has_power);
        run.idle.push(busy);
        let powered = details.powered.iter();
        run.frequency
            .extend(powered.map(|(khz, time_ns)| FrequencyResidency {
                cpu_kind: cluster.name.clone(),
                khz: u64::from(*khz),
                time_ns: *time_ns,
            }));
    }
}

fn list_run_metrics(run: &wakepath_sim::Run) -> Vec<(String, f64)> {
    let mut all: Vec<(&str, f64)> = Vec::new();
    if run.requests > 0 {
        add_request_rates_and_latencies(run, &mut all);
    }
    if let Some(reached) = run
        .rates
        .iter()
        .map(RateRun::achieved_share)
        .min_by(f64::total_cmp)
    {
        all.push(("rate_reached", reached * 100.0));
    }
    if !run.cut_jobs.is_empty() {
        all.push(("cut_after_s", LONGEST_UNTIMED.as_secs_f64()));
    }
    if let Some(threads) = &run.threads {
        if threads.time_capped {
            all.push(("cut_after_s", run.seconds));
        }
        all.push(("ops_per_s", threads.operations_per_second));
        if let Some(task) = threads.tasks.first().filter(|t| t.wake_ups > 0) {
            all.extend([
                ("wake_mean_us", task.wake_us.mean),
                ("wake_p99_us", task.wake_us.p99),
            ]);
        }
    }
    all.push(("mean_mhz", run.mean_mhz));
    if run.seconds > 0.0 {
        add_cpu_and_clock_metrics(run, &mut all);
    }
    let boosts: Vec<u64> = run
        .clocks
        .iter()
        .filter_map(|clock| Some(clock.hwp_boost.as_ref()?.raises))
        .collect();
    if !boosts.is_empty() {
        all.push(("boosts", boosts.iter().sum::<u64>() as f64));
    }
    all.extend(run.drift.map(|drift| ("drift_percent", drift.percent)));
    if let Some(energy) = &run.energy {
        let cpus_mj: f64 = energy.cpus_mj.iter().sum();
        all.extend([
            ("mean_mw", energy.mean_mw),
            ("cpus_mw", cpus_mj / run.seconds),
        ]);
        all.extend(energy.per_io_uj.map(|uj| ("per_io_uj", uj)));
    }
    if let Some(drive) = &run.drive {
        all.extend(metrics_of_drives(drive, run.seconds));
        if let Some(waits) = &drive.wake_us {
            all.extend([
                ("drive_wake_mean_us", drive.mean_wake_us),
                ("drive_wake_p50_us", waits.p50),
                ("drive_wake_p99_us", waits.p99),
                ("drive_wake_max_us", waits.max),
            ]);
        }
    }
    all.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Adds rates and latencies, if the run has requests.
fn add_request_rates_and_latencies(run: &wakepath_sim::Run, all: &mut Vec<(&str, f64)>) {
    let latency = &run.latency_us;
    let [total_mbs, read_mbs, write_mbs] = [
        run.read_bytes + run.written_bytes,
        run.read_bytes,
        run.written_bytes,
    ]
    .map(|bytes| bytes as f64 / run.seconds / 1e6);
    all.push(("iops", run.iops));
    if run.server.is_none() {
        all.push(("bandwidth_mbs", total_mbs));
    }
    all.push(("mean_us", latency.mean));
    if run.reads > 0 {
        all.extend([("read_mbs", read_mbs), ("read_mean_us", latency.read_mean)]);
    }
    if run.writes > 0 {
        all.extend([
            ("write_mbs", write_mbs),
            ("write_mean_us", latency.write_mean),
        ]);
    }
    all.extend([
        ("p50_us", latency.p50),
        ("p90_us", latency.p90),
        ("p99_us", latency.p99),
        ("p999_us", latency.p999),
        ("max_us", latency.max),
    ]);
    if let Some(fsyncs) = &run.fsyncs {
        all.extend([
            ("commits_per_s", fsyncs.per_second),
            ("sync_mean_us", fsyncs.mean_us),
            ("sync_p99_us", fsyncs.p99_us),
        ]);
    }
}

/// Adds what CPUs and clocks did, per second.
fn add_cpu_and_clock_metrics(run: &wakepath_sim::Run, all: &mut Vec<(&str, f64)>) {
    let sums = [
        ("tickless_per_s", sum_counts(&run.cpus, |cpu| cpu.tickless)),
        ("ticks_per_s", sum_counts(&run.cpus, |cpu| cpu.idle_ticks)),
        ("wake_ups_per_s", sum_counts(&run.cpus, |cpu| cpu.wake_ups)),
        (
            "usage_per_s",
            sum_counts(&run.idle_states, |state| state.entries),
        ),
        (
            "above_per_s",
            sum_counts(&run.idle_states, |state| state.above),
        ),
        (
            "below_per_s",
            sum_counts(&run.idle_states, |state| state.below),
        ),
    ];
    all.extend(sums.map(|(name, count)| (name, count as f64 / run.seconds)));
    let set: f64 = run.clocks.iter().map(|clock| clock.set_mhz).sum();
    let changes = sum_counts(&run.clocks, |clock| clock.changes);
    all.extend([
        ("set_mhz", set / run.clocks.len().max(1) as f64),
        ("frequency_changes_per_s", changes as f64 / run.seconds),
    ]);
}

fn sum_counts<T>(items: &[T], count: fn(&T) -> u64) -> u64 {
    items.iter().map(count).sum()
}

fn make_attribution_rows(run: &wakepath_sim::Run) -> Vec<LatencyPart> {
    let parts = &run.attribution;
    let all = [&parts.mean, &parts.p50, &parts.p90, &parts.p99, &parts.p999];
    let rows = AttributionAt::ALL
        .into_iter()
        .zip(all)
        .flat_map(|(at, parts)| {
            let of_server = run.server.is_some().then(|| parts.titled_parts_of_server());
            let titled = (parts.titled_parts().into_iter()).chain(of_server.into_iter().flatten());
            titled.map(move |(part, us)| LatencyPart {
                at: at.name().to_owned(),
                part: part.to_owned(),
                ns: us * 1e3,
            })
        });
    rows.collect()
}

/// The rows for a cluster's idle states, with wasted energy if the machine has power figures.
fn make_idle_rows(
    machine: &Machine,
    cluster: &Cluster,
    details: &ClusterDetails,
    has_power: bool,
) -> Vec<Idle> {
    let table = machine.idle_states_on_cluster(cluster);
    let costs = Costs::new(machine, cluster, &table, details);
    let mut rows = Vec::with_capacity(table.len());
    for (index, (state, sums)) in table.iter().zip(&details.states).enumerate() {
        let mut row = Idle {
            cpu_kind: cluster.name.clone(),
            state: state.name.clone(),
            time_ns: sums.time,
            entries: sums.entries,
            too_deep: 0,
            too_shallow: 0,
            above: Some(sums.above),
            below: Some(sums.below),
            added_latency_ns: None,
            wasted_energy_uj: None,
        };
        let (mut added, mut wasted) = (0, 0.0);
        for fit in details.fits.iter().filter(|s| s.entered == index) {
            if fit.fitting < index {
                row.too_deep += fit.periods;
                added += costs.added_latency_ns(fit);
            } else if fit.fitting > index {
                row.too_shallow += fit.periods;
            }
            wasted += costs.wasted_energy_uj(fit);
        }
        row.added_latency_ns = Some(added);
        row.wasted_energy_uj = has_power.then_some(wasted);
        rows.push(row);
    }
    rows
}

/// What a wrong idle state costs a CPU in a cluster.
struct Costs<'a> {
    states: &'a [MachineIdleState],
    /// Cycles of the biggest core per ns, at the cluster's full speed.
    cycles_per_ns: f64,
    /// Mean power while running, in uW, over the frequencies that the run used.
    running_uw: f64,
    /// Mean power in each idle state, in uW.
    idle_uw: Vec<f64>,
}

/// Mean of a power in uW over the frequencies that the run used, weighted by time.
fn mean_over_used_frequencies(
    cluster: &Cluster,
    details: &ClusterDetails,
    power: impl Fn(&Opp) -> u64,
) -> f64 {
    let mut sum = 0.0;
    let mut all = 0;
    for (khz, time) in &details.powered {
        all += time;
        if let Some(opp) = cluster.opps.iter().find(|opp| opp.khz == *khz) {
            sum += power(opp) as f64 * *time as f64;
        }
    }
    sum / all.max(1) as f64
}

impl<'a> Costs<'a> {
    fn new(
        machine: &Machine,
        cluster: &Cluster,
        states: &'a [MachineIdleState],
        details: &ClusterDetails,
    ) -> Self {
        let biggest = machine.cluster.iter().max_by_key(|c| c.capacity);
        let full_khz = biggest.map_or(1, |c| c.max_frequency().0);
        Self {
            states,
            cycles_per_ns: f64::from(full_khz) * f64::from(cluster.capacity) / 1024.0 / 1e6,
            running_uw: mean_over_used_frequencies(cluster, details, |opp| {
                cluster.cpu_active_power(opp).0
            }),
            idle_uw: states
                .iter()
                .map(|state| {
                    mean_over_used_frequencies(cluster, details, |opp| {
                        cluster.cpu_idle_power(state, opp).0
                    })
                })
                .collect(),
        }
    }

    /// Wake-up time from an idle state in ns, including cache refills.
    fn wake_up_ns(&self, state: usize) -> f64 {
        let exit = self.states[state].true_exit_us.micros_to_time().0 as f64;
        exit + self.cache_refill_ns(state)
    }

    fn cache_refill_ns(&self, state: usize) -> f64 {
        self.states[state].cold_start_kcycles.kilocycles_to_cycles() as f64
            / self.cycles_per_ns.max(1e-9)
    }

    /// How much longer the idle periods took to end than in the fitting state, in ns.
    fn added_latency_ns(&self, fit: &FitDetails) -> u64 {
        let count = fit.periods as f64;
        let took = fit.wake as f64 + count * self.cache_refill_ns(fit.entered);
        (took - count * self.wake_up_ns(fit.fitting))
            .max(0.0)
            .round() as u64
    }

    /// How much more the idle periods drew than in the fitting state, in uJ.
    fn wasted_energy_uj(&self, fit: &FitDetails) -> f64 {
        if fit.entered == fit.fitting {
            return 0.0;
        }
        let (count, idle) = (fit.periods as f64, fit.idle as f64);
        let drew = idle * self.idle_uw[fit.entered]
            + (fit.wake as f64 + count * self.cache_refill_ns(fit.entered)) * self.running_uw;
        let fitting = idle * self.idle_uw[fit.fitting]
            + count * self.wake_up_ns(fit.fitting) * self.running_uw;
        // A product of uW and ns is in fJ.
        ((drew - fitting) / 1e9).max(0.0)
    }
}
