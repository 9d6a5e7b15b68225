//! Background work from the machine at rest.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Background, Figure, Instances, Runs};
use wakepath_measure::background::BackgroundMeasurement;
use wakepath_measure::summary::reach_of_count;

use crate::figures::measured_figure;

/// A machine busier than this at rest, in per cent, did not rest.
const BUSY: f64 = 5.0;
/// Name of tasks that wake up at rest, in a machine file.
const TASKS: &str = "tasks at rest";
/// Name of device interrupts at rest, in a machine file.
const INTERRUPTS: &str = "device interrupts at rest";

/// Replaces the lender's assumed timers of programs by what wakes the CPUs at rest. Work of a stock kernel stays, and is taken off
/// the measured rates; fio's own work runs only beside fio.
pub(super) fn replace_background(
    machine: &mut Machine,
    rest: &BackgroundMeasurement,
) -> Result<(), String> {
    if let Some(busy) = rest.busy_percent.filter(|busy| *busy > BUSY) {
        return Err(format!(
            "the CPUs were {busy:.0} % busy, so no rest was seen"
        ));
    }
    let wake_ups = rest
        .task_wake_ups_per_second()
        .ok_or("the kernel tells no context switches")?;
    let usual: Vec<String> = Background::stock_kernel_work()
        .into_iter()
        .map(|work| work.name)
        .collect();
    machine
        .background
        .retain(|work| work.workload.is_some() || usual.contains(&work.name));
    let cpus = rest.cpus.len().max(1) as f64;
    let modelled: f64 = machine
        .background
        .iter()
        .filter(|work| work.workload.is_none())
        .map(|work| match work.instances {
            Instances::PerCpu => 1e3 / work.every_ms.value * cpus,
            Instances::PerMachine => 1e3 / work.every_ms.value,
        })
        .sum();
    let tasks = every_ms(
        rest,
        wake_ups - modelled,
        "half of the context switches at rest, less this program's and those of the kernel's usual work",
    );
    let interrupts = every_ms(
        rest,
        rest.device_interrupts_per_second(),
        "interrupts of devices at rest",
    );
    let added = [
        (
            TASKS,
            tasks,
            Runs::Task,
            5.0,
            "as a timer that wakes a short kernel thread",
        ),
        (
            INTERRUPTS,
            interrupts,
            Runs::Interrupt,
            3.0,
            "a handler, as on other machines",
        ),
    ];
    for (name, every, runs, kcycles, why) in added {
        machine.background.extend(every.map(|every_ms| Background {
            name: name.to_owned(),
            every_ms,
            periodic: false,
            kcycles: Figure::assumed(kcycles, why),
            callbacks: false,
            runs,
            workload: None,
            instances: Instances::PerCpu,
            timer: None,
        }));
    }
    Ok(())
}

/// Mean time between arrivals on a CPU. `None`: there are too few to tell them from none. The interval is of a Poisson process.
fn every_ms(rest: &BackgroundMeasurement, per_second: f64, what: &str) -> Option<Figure> {
    let count = per_second * rest.seconds;
    let reach = reach_of_count(count);
    if count - reach <= 0.0 {
        return None;
    }
    let cpu_ms = rest.seconds * 1e3 * rest.cpus.len().max(1) as f64;
    Some(measured_figure(
        cpu_ms / count,
        Some([cpu_ms / (count + reach), cpu_ms / (count - reach)]),
        count.round() as u64,
        format!(
            "{what}, on {} CPUs for {:.0} s",
            rest.cpus.len(),
            rest.seconds
        ),
        (&rest.conditions, 1),
    ))
}

#[cfg(test)]
mod tests {
    use wakepath_hardware::machine::{Origin, WorkloadKind};
    use wakepath_measure::background::{CauseKind, CauseRate};

    use super::super::Surroundings;
    use super::super::tests::conditions;
    use super::*;

    /// Four CPUs that were watched for 60 s, with so many switches per second in all.
    fn rest(switches: f64, interrupts: f64) -> BackgroundMeasurement {
        let cause = |name: &str, per_second: f64| CauseRate {
            kind: CauseKind::Interrupt,
            name: name.to_owned(),
            per_second,
            by_cpu: vec![per_second / 4.0; 4],
        };
        BackgroundMeasurement {
            conditions: conditions(),
            seconds: 60.0,
            cpus: vec![0, 1, 2, 3],
            context_switches: Some(switches),
            own_switches: Some(22.0),
            busy_percent: Some(0.4),
            causes: vec![
                cause("LOC Local timer interrupts", 400.0),
                cause("eth0 (interrupt 31)", interrupts),
            ],
            notes: Vec::new(),
        }
    }

    /// A laptop with the usual work, work of fio, and assumed timers of programs.
    fn captured() -> Machine {
        let mut machine = Machine::find("laptop").unwrap();
        let assumed = Background {
            name: "timers of programs".to_owned(),
            every_ms: Figure::assumed(40.0, "a session"),
            runs: Runs::Interrupt,
            ..Background::stock_kernel_work().remove(0)
        };
        let of_fio = Background {
            name: "fio's main process".to_owned(),
            workload: Some(WorkloadKind::Fio),
            ..assumed.clone()
        };
        machine.background = Background::stock_kernel_work();
        machine.background.extend([assumed, of_fio]);
        machine
    }

    fn put(machine: &mut Machine, rest: BackgroundMeasurement) -> Vec<String> {
        let surroundings = Surroundings {
            background: Some(rest),
            ..Surroundings::default()
        };
        surroundings.put_in_place(machine)
    }

    fn names(machine: &Machine) -> Vec<&str> {
        let all = machine.background.iter();
        all.map(|work| work.name.as_str()).collect()
    }

    #[test]
    fn what_wakes_the_machine_at_rest_replaces_assumed_timers_and_does_not_count_twice() {
        let mut machine = captured();
        assert_eq!(put(&mut machine, rest(64.0, 8.0)), [""; 0]);
        assert_eq!(
            names(&machine),
            [
                "soft-lockup watchdog",
                "fio's main process",
                TASKS,
                INTERRUPTS
            ]
        );
        // (64 - 22) / 2 wake-ups, less one of the watchdog on all four CPUs together: 5 on each CPU.
        let tasks = &machine.background[2].every_ms;
        assert!((tasks.value - 200.0).abs() < 0.1, "{tasks:?}");
        let Origin::Measured(from) = &tasks.origin else {
            panic!("{tasks:?}")
        };
        assert_eq!(from.n, 1200);
        let (low, high) = from.interval().unwrap();
        assert!(low < 200.0 && high > 200.0 && high - low < 25.0, "{from:?}");
        assert!((machine.background[3].every_ms.value - 500.0).abs() < 0.1);
        // Another round on the same machine changes nothing.
        let once = machine.to_toml().unwrap();
        put(&mut machine, rest(64.0, 8.0));
        assert_eq!(machine.to_toml().unwrap(), once);
    }

    #[test]
    fn a_machine_that_rests_has_the_usual_work_alone() {
        let mut machine = captured();
        put(&mut machine, rest(24.0, 0.0));
        assert_eq!(
            names(&machine),
            ["soft-lockup watchdog", "fio's main process"]
        );
    }

    #[test]
    fn a_busy_machine_tells_no_background() {
        let mut machine = captured();
        let busy = BackgroundMeasurement {
            busy_percent: Some(30.0),
            ..rest(9_000.0, 8.0)
        };
        let notes = put(&mut machine, busy);
        assert!(notes[0].contains("30 % busy"), "{notes:?}");
        assert!(names(&machine).contains(&"timers of programs"));
    }
}
