//! Every idle governor over a state table and a call log: no panic, and no state outside the table. A line `--` divides
//! the input into table and log.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_policies::idle::{
    Governor, HaltpollParameters, IdleGovernor, IdlePolicy, KernelVersion, OracleGoal,
};
use wakepath_policies::input::{CallReader, read_states};
use wakepath_units::TickRate;

const POLICIES: [IdlePolicy; 12] = [
    IdlePolicy::Menu(KernelVersion::V6_1),
    IdlePolicy::Menu(KernelVersion::V6_12),
    IdlePolicy::Teo(KernelVersion::V6_1),
    IdlePolicy::Teo(KernelVersion::V6_12),
    IdlePolicy::Menu(KernelVersion::V7_3),
    IdlePolicy::Teo(KernelVersion::V7_3),
    IdlePolicy::Ladder(KernelVersion::V6_12),
    IdlePolicy::Haltpoll(
        KernelVersion::V6_12,
        HaltpollParameters {
            guest_halt_poll_ns: 200_000,
            guest_halt_poll_shrink: 2,
            guest_halt_poll_grow: 2,
            guest_halt_poll_grow_start: 50_000,
            guest_halt_poll_allow_shrink: true,
        },
    ),
    IdlePolicy::Shallowest,
    IdlePolicy::Deepest,
    IdlePolicy::Oracle(OracleGoal::Energy),
    IdlePolicy::Oracle(OracleGoal::Latency),
];

fuzz_target!(|text: &str| {
    let Some((table, log)) = text.split_once("--\n") else {
        return;
    };
    let Ok(states) = read_states(table.as_bytes(), "states") else {
        return;
    };
    let calls: Vec<_> = CallReader::new(log.as_bytes(), "calls")
        .map_while(Result::ok)
        .collect();
    for policy in &POLICIES {
        // haltpoll and ladder rely on a state after the polling state, as every driver of the kernel has.
        let takes_two = matches!(policy, IdlePolicy::Haltpoll(..) | IdlePolicy::Ladder(_));
        if takes_two && states.len() < 2 {
            continue;
        }
        let mut governor = Governor::new(policy, &states, TickRate::HZ_250);
        for call in &calls {
            let decision = governor.select(&call.query);
            assert!(decision.state < states.len(), "{policy:?}: {decision:?}");
            if call.outcome.residency > 0 {
                governor.reflect(decision.state, &call.outcome);
            }
        }
    }
});
