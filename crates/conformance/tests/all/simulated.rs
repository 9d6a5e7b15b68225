//! What the simulator asks a governor under latency requests, and what it does with the answers, held against the
//! kernel's C: the queries of a run, as a call log, answered by both.

use anyhow::Result;
use wakepath_conformance::checks::{Check as _, GovernorCheck, GovernorSetting};
use wakepath_conformance::program::{KernelProgram, has_compiler};
use wakepath_conformance::record::{CallRecord, Case, StateRecord, encode_decision};
use wakepath_conformance::source::{KernelSource, VERSIONS, source_cache_folder};
use wakepath_conformance::subject::Subject;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::LatencyRequest;
use wakepath_policies::PolicySet;
use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_sim::observer::Observer;
use wakepath_sim::simulate_observed;
use wakepath_workloads::Workload;
use wakepath_workloads::fio;

/// The calls of each CPU's governor that it was told the outcome of, and its decisions.
#[derive(Default)]
struct CallLog {
    calls: Vec<(Vec<CallRecord>, Vec<u8>)>,
    asked: Vec<Option<(IdleQuery, IdleDecision)>>,
}

impl Observer for CallLog {
    fn idle_state_chosen(&mut self, cpu: usize, query: &IdleQuery, decision: IdleDecision) {
        let cpus = self.asked.len().max(cpu + 1);
        self.asked.resize(cpus, None);
        self.calls
            .resize(cpus, <(Vec<CallRecord>, Vec<u8>)>::default());
        self.asked[cpu] = Some((*query, decision));
    }

    fn idle_outcome_told(&mut self, cpu: usize, outcome: &IdleOutcome) {
        let Some((query, decision)) = self.asked[cpu].take() else {
            return;
        };
        let (calls, decisions) = &mut self.calls[cpu];
        decisions.push(encode_decision(decision.state, decision.stop_tick));
        calls.push(CallRecord::from((&query, outcome)));
    }
}

fn workload() -> Result<Workload> {
    let job = "[r]\nfilename=/dev/nvme0n1\ndirect=1\nrw=randread\nbs=4k\nioengine=psync\ntime_based\nruntime=300ms\n\
               thinktime=70\nthinktime_blocks=3\nnumjobs=4\n";
    Ok(fio::parse(job, "test.fio")?.into())
}

/// No CPU may take more than 20 us, the second none at all, the third 2 us.
fn machine() -> Result<Machine> {
    let mut machine = Machine::find("laptop")?;
    let of_one = |cpu, us| LatencyRequest {
        us,
        cpus: vec![cpu],
    };
    machine.latency_requests = vec![
        LatencyRequest::system_wide(20),
        of_one(1, 0),
        of_one(2, 2),
        of_one(3, 500),
    ];
    Ok(machine)
}

#[test]
fn the_kernel_decides_as_the_simulator_under_latency_requests() -> Result<()> {
    if !has_compiler() {
        eprintln!("skipped: no gcc");
        return Ok(());
    }
    let (machine, workload) = (machine()?, workload()?);
    let table = machine.declared_idle_states()?;
    let states: Vec<StateRecord> = table.iter().map(StateRecord::from).collect();
    for version in VERSIONS {
        let Ok(source) = KernelSource::obtain_source(version, &source_cache_folder()) else {
            eprintln!("skipped: no source of Linux {version}");
            continue;
        };
        for subject in Subject::GOVERNORS {
            if !source.is_compared_for(subject) {
                continue;
            }
            let setting = GovernorSetting {
                subject,
                version: source.kernel_version()?,
                tick: machine.tick_rate(),
            };
            let program =
                KernelProgram::compile_subject(subject, &source, setting.tick.hz(), None)?;
            let name = format!("{}@{}", subject.name(), source.release);
            let mut log = CallLog::default();
            let policies = PolicySet::from_names([&*name, "performance"])?;
            simulate_observed(&machine, &workload, &policies, 1, &mut log)?;
            for (cpu, (calls, simulated)) in log.calls.into_iter().enumerate() {
                let request = [20_000, 0, 2_000].get(cpu).copied().unwrap_or(20_000);
                assert!(
                    calls.iter().all(|c| c.latency_request == request),
                    "{name} CPU {cpu}"
                );
                let case = Case {
                    halt_poll: None,
                    states: states.clone(),
                    calls,
                };
                let check = GovernorCheck(setting);
                let (mut input, mut ours) = (Vec::new(), Vec::new());
                check.append_input(&case, &mut input);
                check.append_our_answers(&case, &mut ours)?;
                assert!(
                    simulated.len() > 10,
                    "{name} CPU {cpu}: {}",
                    simulated.len()
                );
                assert_eq!(ours, simulated, "{name} CPU {cpu}");
                assert_eq!(
                    program.run_over_input(&input)?,
                    simulated,
                    "{name} CPU {cpu}"
                );
            }
        }
    }
    Ok(())
}
