//! Machine descriptions and drive models: an accepted file answers all questions without panicking.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::DriveModel;

fuzz_target!(|text: &str| {
    if let Ok(machine) = Machine::parse(text, "fuzz.toml") {
        let _ = machine.tick_rate();
        let _ = machine.common_declared_idle_states();
        let _ = machine.cpus();
        let _ = machine.figures();
    }
    let _ = DriveModel::parse(text, "fuzz.toml");
});
