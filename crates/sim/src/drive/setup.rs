//! A drive model and APST settings, compiled for the drive.

use wakepath_hardware::machine::{DriveModel, DrivePower};
use wakepath_policies::apst::{self, ApstSettings};
use wakepath_units::Microwatts;

use super::buffer::{BufferSetup, FlashSetup};
use super::path::{IdlePath, RestLevel, State, Work};

/// KiB that a drive's service time, and one write to its media, hold for.
const BLOCK_KIB: f64 = 4.0;

/// A drive under one combination of policies.
#[derive(Clone, Debug)]
pub(crate) struct DriveSetup {
    pub(super) units: usize,
    /// Whether a read waits for the unit that its address belongs to.
    pub(super) by_address: bool,
    pub(super) buffer: Option<BufferSetup>,
    pub(super) power: Option<PowerSetup>,
}

/// A drive's power states, compiled.
#[derive(Clone, Debug)]
pub(crate) struct PowerSetup {
    pub(super) path: IdlePath,
    pub(super) active: Microwatts,
    pub(super) idle: Microwatts,
    /// Power while entering or leaving a non-operational state.
    pub(super) transition: Microwatts,
    /// Whether the drive's power is known. If not, it rests, and results say nothing of its states.
    pub(super) is_known: bool,
}

impl DriveSetup {
    /// Compiles a drive. Without `settings` it has no APST table and stays in the first power state, as if the kernel planned none.
    pub(crate) fn new(model: &DriveModel, settings: Option<&ApstSettings>) -> Self {
        Self {
            units: model.parallel_units.value as usize,
            by_address: model.units_if_reads_go_by_address().is_some(),
            buffer: model.buffer.as_ref().map(|b| {
                let media = b.media_us.micros_to_time().0;
                BufferSetup {
                    media,
                    full: media.saturating_mul((b.kib.value / BLOCK_KIB) as u64),
                    flash: model.flash.as_ref().map(|f| FlashSetup {
                        program: f.program_us.micros_to_time().0,
                        longest_wait: match f.suspend_us.micros_to_time().0 {
                            0 => u64::MAX,
                            suspend => suspend,
                        },
                        // A block of 4096 bytes at so many bytes per microsecond.
                        read: (BLOCK_KIB * 1024.0 * 1e3 / f.read_mb_per_s.value).round() as u64,
                    }),
                }
            }),
            power: match &model.power {
                Some(power) => Some(PowerSetup::new(power, compile_rests(model), settings)),
                None => PowerSetup::from_rests_alone(compile_rests(model)),
            },
        }
    }
}

fn compile_rests(model: &DriveModel) -> Vec<RestLevel> {
    let rests = model.rests();
    rests
        .map(|[after_ms, exit_us]| RestLevel {
            after: after_ms.millis_to_time().0,
            exit: exit_us.micros_to_time().0,
        })
        .collect()
}

impl PowerSetup {
    fn new(power: &DrivePower, rests: Vec<RestLevel>, settings: Option<&ApstSettings>) -> Self {
        let declared = &power.declared;
        let idle = power.idle_w.watts_to_power();
        let states = power
            .states
            .iter()
            .zip(&declared.states)
            .enumerate()
            .map(|(index, (real, declared))| State {
                entry: real.entry_us.micros_to_time().0,
                exit: real.exit_us.micros_to_time().0,
                power: if index == 0 {
                    idle
                } else {
                    real.power_w.watts_to_power()
                },
                non_operational: declared.non_operational,
            })
            .collect();
        let plan = settings.and_then(|s| {
            // A drive whose support for APST is unknown counts as supporting it.
            let apsta = declared.apsta.unwrap_or(true);
            apst::plan_apst_table(declared.npss, apsta, &declared.states, s).ok()
        });
        let work = power.background.as_ref().map(|b| {
            let from = b.after_ms.millis_to_time().0;
            Work {
                from,
                until: from + b.for_ms.millis_to_time().0,
                power: b.power_w.watts_to_power(),
            }
        });
        let table = plan.as_ref().filter(|p| p.enabled).map(|p| &p.table);
        let transition = power.transition_power_or_half_way();
        Self {
            path: IdlePath::new(states, table, transition, work, rests),
            transition,
            active: power.active_w.watts_to_power(),
            idle,
            is_known: true,
        }
    }

    /// A drive that rests, and of which nothing else is known; `None` if it never rests.
    fn from_rests_alone(rests: Vec<RestLevel>) -> Option<Self> {
        let unknown = Microwatts(0);
        let only_state = State {
            entry: 0,
            exit: 0,
            power: unknown,
            non_operational: false,
        };
        (!rests.is_empty()).then(|| Self {
            path: IdlePath::new(vec![only_state], None, unknown, None, rests),
            transition: unknown,
            active: unknown,
            idle: unknown,
            is_known: false,
        })
    }
}
