//! Check of amd-pstate's requests, over random CPUs and governors.

use anyhow::Result;
use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use wakepath_policies::freq::amd_pstate::{
    AmdGovernor, AmdMode, AmdPstate as Driver, AmdPstateSettings, PerfScale,
};
use wakepath_policies::idle::KernelVersion;
use wakepath_units::Kilohertz;

use super::check::{Check, GovernorSetting, decode_u64s};

/// First kernel whose amd-pstate driver has more than passive mode.
const FIRST_WITH_MODES: (u16, u16, u16) = (6, 3, 0);
const CASE_MAGIC: u32 = 0x6573_6163;
/// Answer of the amd-pstate check for a driver that fails to load.
const NOT_LOADED: u64 = u64::MAX;

/// Check of the amd-pstate driver; independent of the tick.
pub struct AmdPstateCheck(pub GovernorSetting);

/// Test case of amd-pstate: a CPU and how its driver is set.
#[derive(Clone, Debug)]
pub struct AmdCase {
    scale: PerfScale,
    mode: AmdMode,
    performance: bool,
    epp: u8,
    boost: bool,
    boost_supported: bool,
    /// Lowest and highest frequency that the policy allows, in kHz.
    limits: (u32, u32),
    requests: Vec<AmdRequest>,
}

/// What a governor asks amd-pstate for.
#[derive(Clone, Copy, Debug)]
struct AmdRequest {
    least: u64,
    target: u64,
    capacity: u64,
    /// Frequency asked for, in kHz; 0: the utilisation counts.
    frequency: u32,
    dynamic: bool,
}

impl AmdCase {
    fn make_driver(&self, kernel: KernelVersion) -> Driver {
        let settings = AmdPstateSettings {
            mode: self.mode,
            governor: match (self.mode, self.performance) {
                (AmdMode::Active, true) => AmdGovernor::Performance,
                (AmdMode::Active, false) => AmdGovernor::Powersave,
                _ => AmdGovernor::Schedutil,
            },
            epp: self.epp,
            boost: self.boost,
            kernel,
        };
        Driver::new(self.scale, settings, self.boost_supported)
    }
}

/// A processor's random performance levels and frequencies.
fn random_performance_scale(rng: &mut Pcg64Mcg) -> PerfScale {
    let mut levels: [u8; 4] = rng.random();
    levels.sort_unstable();
    if rng.random_ratio(1, 3) {
        // Existing processors.
        levels =
            [[70, 133, 185, 255], [27, 154, 218, 255], [16, 42, 126, 196]][rng.random_range(0..3)];
    }
    let [lowest, lowest_nonlinear, nominal, highest] = levels.map(|level| level.max(1));
    let nominal_mhz = match rng.random_range(0..20) {
        0 => 0,
        _ => rng.random_range(800..6000),
    };
    let exact = nominal_mhz * u32::from(lowest) / u32::from(nominal);
    let lowest_mhz = match rng.random_range(0..20) {
        0 => 0,
        1 => rng.random_range(0..6000),
        _ => exact,
    };
    PerfScale {
        highest,
        nominal,
        lowest_nonlinear,
        lowest,
        nominal_khz: nominal_mhz * 1000,
        lowest_khz: lowest_mhz * 1000,
        firmware_minimum: 0,
    }
}

fn random_amd_case(rng: &mut Pcg64Mcg, kernel: KernelVersion) -> AmdCase {
    let mut scale = random_performance_scale(rng);
    let mode = match kernel.release() {
        release if release < FIRST_WITH_MODES => AmdMode::Passive,
        _ => [AmdMode::Active, AmdMode::Passive, AmdMode::Guided][rng.random_range(0..3)],
    };
    if rng.random_range(0..4) == 0 {
        scale.firmware_minimum = rng.random_range(scale.lowest..=scale.highest);
    }
    let mut case = AmdCase {
        scale,
        mode,
        performance: mode == AmdMode::Active && rng.random(),
        epp: rng.random(),
        boost: rng.random(),
        boost_supported: rng.random_ratio(4, 5),
        limits: (0, 0),
        requests: Vec::new(),
    };
    let driver = case.make_driver(kernel);
    let (bottom, top) = (
        driver.lowest_policy_frequency().0,
        driver.highest_policy_frequency().0.max(1),
    );
    let range = bottom.min(top)..=top;
    let (a, b) = (rng.random_range(range.clone()), rng.random_range(range));
    case.limits = match rng.random_range(0..3) {
        0 => (a.min(b), a.max(b)),
        1 => (bottom.min(top), a),
        _ => (driver.initial_minimum_frequency().0.min(top), top),
    };
    case.requests = (0..rng.random_range(1..20))
        .map(|_| random_amd_request(rng, top))
        .collect();
    case
}

/// A random request by a governor on a CPU whose highest frequency is `top` kHz.
fn random_amd_request(rng: &mut Pcg64Mcg, top: u32) -> AmdRequest {
    let capacity = [1024, rng.random_range(1..=1024)][rng.random_range(0..2)];
    AmdRequest {
        least: [0, rng.random_range(0..=1100)][rng.random_range(0..2)],
        target: rng.random_range(0..=1100),
        capacity,
        frequency: match rng.random_range(0..3) {
            0 => rng.random_range(1..=top.saturating_add(100_000)),
            _ => 0,
        },
        dynamic: rng.random_ratio(3, 4),
    }
}

impl Check for AmdPstateCheck {
    type Input = AmdCase;
    type Answer = u64;

    fn generate_inputs(&self, rng: &mut Pcg64Mcg, _batch: u64, amount: usize) -> Vec<AmdCase> {
        let mut cases = Vec::new();
        let mut requests = 0;
        while requests < amount {
            let case = random_amd_case(rng, self.0.version);
            requests += case.requests.len();
            cases.push(case);
        }
        cases
    }

    fn append_input(&self, input: &AmdCase, out: &mut Vec<u8>) {
        let scale = input.scale;
        for word in [
            CASE_MAGIC,
            input.requests.len() as u32,
            scale.nominal_khz / 1000,
            scale.lowest_khz / 1000,
            input.limits.0,
            input.limits.1,
        ] {
            out.extend(word.to_le_bytes());
        }
        let mode = match input.mode {
            AmdMode::Passive => 2,
            AmdMode::Active => 3,
            AmdMode::Guided => 4,
        };
        out.extend([
            scale.highest,
            scale.nominal,
            scale.lowest_nonlinear,
            scale.lowest,
            scale.firmware_minimum,
            input.epp,
            mode,
            u8::from(input.performance),
            u8::from(input.boost),
            u8::from(input.boost_supported),
        ]);
        out.extend([0; 6]);
        for request in &input.requests {
            for word in [request.least, request.target, request.capacity] {
                out.extend(word.to_le_bytes());
            }
            out.extend(request.frequency.to_le_bytes());
            out.extend(u32::from(request.dynamic).to_le_bytes());
        }
    }

    fn decode_answers(&self, output: &[u8]) -> Vec<u64> {
        decode_u64s(output)
    }

    fn append_our_answers(&self, input: &AmdCase, out: &mut Vec<u64>) -> Result<()> {
        let mut driver = input.make_driver(self.0.version);
        if !driver.accepts_performance_scale() {
            out.extend(std::iter::repeat_n(NOT_LOADED, input.requests.len() + 1));
            return Ok(());
        }
        let nonlinear = driver.lowest_nonlinear_frequency();
        out.push(u64::from(driver.boosted_frequency().0) | u64::from(nonlinear.0) << 32);
        let (minimum, maximum) = input.limits;
        driver.set_policy_limits(Kilohertz(minimum), Kilohertz(maximum));
        out.extend(input.requests.iter().map(|asked| {
            let request = match (input.mode, asked.frequency) {
                (AmdMode::Active, _) => driver.request_in_active_mode(),
                (_, 0) => driver.request_for_utilisation(
                    asked.least,
                    asked.target,
                    asked.capacity,
                    asked.dynamic,
                ),
                (_, khz) => driver.request_for_frequency(Kilohertz(khz), asked.dynamic),
            };
            let epp = driver.settings().epp_in_force();
            u64::from(u32::from_le_bytes([
                request.minimum,
                request.desired,
                request.maximum,
                epp,
            ]))
        }));
        Ok(())
    }

    fn describe_difference(&self, input: &AmdCase, at: usize, kernel: &u64, ours: &u64) -> String {
        format!(
            "amd-pstate, answer {at} (0: the frequencies at the start, then the requests):\n{input:#?}\n  \
             kernel: {kernel:#x}  ours: {ours:#x}"
        )
    }
}
