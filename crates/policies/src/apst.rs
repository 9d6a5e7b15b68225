//! APST: which NVMe power states the drive enters on its own, and after how long.
//!
//! The kernel programs a table of 32 entries, one per power state: the state to go to and the idle
//! time before it. [`plan_apst_table`] computes this table as `nvme_configure_apst()` does
//! (`drivers/nvme/host/core.c`, the same in 6.1.192 and 6.12.117) and tells for every state why it
//! is used or not. [`ApstTable`] encodes, decodes and checks the 256 bytes of the feature;
//! [`printed`] reads them from what tools print.
//!
//! Times keep the units of the kernel's module parameters and of the drive's descriptors: timeouts
//! in milliseconds, latencies in microseconds.

pub mod gaps;
pub mod in_force;
pub mod printed;

use std::fmt;

use serde::Serialize;
use wakepath_hardware::drive::{MAX_POWER_STATES, PowerState};

/// Size of an APST table in bytes, as the drive expects.
pub const TABLE_BYTES: usize = MAX_POWER_STATES * 8;

/// The longest idle time that an entry can hold, in milliseconds: 24 bits, 4 h 39 min.
pub const MAX_TIMEOUT_MS: u64 = (1 << 24) - 1;

/// Kernel rule that picks the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApstRule {
    /// At most two states, by two latency tolerances (since 5.14). Gives way to the legacy rule
    /// if the primary timeout or the primary tolerance is 0.
    #[default]
    Current,
    /// Every state within the budget, after 50 times its total latency.
    Legacy,
}

/// Settings of the kernel's administrator and quirk tables for a drive's autonomous power state
/// transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ApstSettings {
    /// Rule that picks a drive's states; the kernel itself has no switch for it.
    pub rule: ApstRule,
    /// Idle time before a primary state in ms (`apst_primary_timeout_ms`).
    pub primary_timeout_ms: u64,
    /// Highest total latency of a primary state in us (`apst_primary_latency_tol_us`).
    pub primary_tolerance_us: u64,
    /// Idle time before a secondary state in ms (`apst_secondary_timeout_ms`); 0: no such state.
    pub secondary_timeout_ms: u64,
    /// Highest total latency of a secondary state in us (`apst_secondary_latency_tol_us`).
    pub secondary_tolerance_us: u64,
    /// The drive's latency budget in us, which its exit latency alone must meet
    /// (`default_ps_max_latency_us`, `pm_qos_latency_tolerance_us`); 0 switches APST off.
    pub max_latency_us: u64,
    /// Whether autonomous transitions are wanted at all (`apst_enabled` of the controller).
    pub enabled: bool,
    /// Drive faults with a workaround in the kernel.
    pub quirks: ApstQuirks,
}

impl Default for ApstSettings {
    /// Default APST settings: the kernel's own.
    fn default() -> Self {
        Self {
            rule: ApstRule::Current,
            primary_timeout_ms: 100,
            primary_tolerance_us: 15_000,
            secondary_timeout_ms: 2_000,
            secondary_tolerance_us: 100_000,
            max_latency_us: 100_000,
            enabled: true,
            quirks: ApstQuirks::default(),
        }
    }
}

impl ApstSettings {
    /// Rule in force under these APST settings: the legacy rule where the primary timeout or
    /// tolerance is 0.
    pub const fn rule_or_legacy_fallback(&self) -> ApstRule {
        match self.rule {
            ApstRule::Current if self.primary_timeout_ms != 0 && self.primary_tolerance_us != 0 => {
                ApstRule::Current
            }
            _ => ApstRule::Legacy,
        }
    }
}

/// The quirks that change an APST table (`drivers/nvme/host/nvme.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApstQuirks {
    /// Never enter the last state (`NVME_QUIRK_NO_DEEPEST_PS`).
    pub no_deepest: bool,
    /// Never use APST (`NVME_QUIRK_NO_APST`).
    pub no_apst: bool,
}

/// Why the kernel programs no APST table and leaves the drive's feature as the drive came up with
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoApstTable {
    /// The drive has no autonomous power state transitions.
    #[error("the drive does not support APST (APSTA is 0): the kernel programs no table")]
    Unsupported,
    /// The drive claims more power states than can exist.
    #[error("NPSS is {0}, but 31 is the last possible power state: the kernel programs no table")]
    TooManyStates(u8),
}

/// What the kernel programs into a drive's APST feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApstPlan {
    /// Enable bit of the APST feature (`APSTE`).
    pub enabled: bool,
    /// The table.
    pub table: ApstTable,
    /// What was decided on each power state, in order: `states[i]` on state `i`.
    pub states: Vec<ApstStateChoice>,
}

/// The decision about a power state, with the underlying figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApstStateChoice {
    /// Index of the power state.
    pub state: u8,
    /// Exit latency of the power state, in us.
    pub exit_latency_us: u64,
    /// Entry latency plus exit latency of the power state, in us.
    pub total_latency_us: u64,
    /// The decision.
    pub verdict: ApstVerdict,
}

/// Why the kernel's rule uses a drive's power state in the APST table, or leaves it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApstVerdict {
    /// The state was chosen as the primary one; the drive enters it after this idle time in ms.
    Primary(u64),
    /// The state was chosen as the secondary one; the drive enters it after this idle time in ms.
    Secondary(u64),
    /// The state was chosen by the legacy rule; the drive enters it after this idle time in ms.
    Legacy(u64),
    /// The state was not considered, because APST is off.
    Off,
    /// The state was not considered: it is the drive's last one, which a quirk forbids.
    QuirkedOff,
    /// The drive works in this state, so no idle transition leads to it.
    Operational,
    /// The state's exit latency exceeds the drive's latency budget.
    OverBudget,
    /// The state is within the primary latency tolerance, but a deeper one is the primary state
    /// already.
    PrimaryTaken,
    /// The state is within the secondary latency tolerance, but a deeper one was chosen already.
    DeeperTaken,
    /// The state's total latency exceeds both tolerances.
    OverTolerance,
    /// The state's total latency is above the primary tolerance, and the secondary timeout is 0.
    SecondaryOff,
}

impl ApstVerdict {
    /// Idle time in ms after which the drive enters the power state; `None` if the state was not
    /// chosen.
    pub const fn timeout_ms(self) -> Option<u64> {
        match self {
            Self::Primary(ms) | Self::Secondary(ms) | Self::Legacy(ms) => Some(ms),
            _ => None,
        }
    }
}

/// Plans the APST table of an NVMe drive as the kernel does.
///
/// `npss` and `apsta` are the drive's fields, `states` its power states from 0 on. States that are
/// missing below `npss` count as all-zero descriptors, which are operational.
///
/// The result is the kernel's for every input. That includes timeouts above [`MAX_TIMEOUT_MS`]
/// under the current rule: the kernel shifts them into place in 64 bits, so they spill into the
/// entry's reserved bits; [`ApstTable::find_problems`] finds that.
///
/// # Errors
/// [`NoApstTable`] if the kernel leaves the drive's feature alone, unlike a plan that switches the feature off.
pub fn plan_apst_table(
    npss: u8,
    apsta: bool,
    states: &[PowerState],
    settings: &ApstSettings,
) -> Result<ApstPlan, NoApstTable> {
    if !apsta {
        return Err(NoApstTable::Unsupported);
    }
    if usize::from(npss) >= MAX_POWER_STATES {
        return Err(NoApstTable::TooManyStates(npss));
    }
    let enabled = settings.enabled && !settings.quirks.no_apst && settings.max_latency_us != 0;
    let mut chooser = ApstStateChooser {
        settings,
        npss,
        last: None,
    };
    let mut table = ApstTable::default();
    let mut target = 0;
    let mut choices = Vec::with_capacity(usize::from(npss) + 1);
    // States are judged from the deepest up: the entry of a state leads to the state chosen among
    // those deeper than it.
    for state in (0..=npss).rev() {
        let descriptor = states.get(usize::from(state)).copied().unwrap_or_default();
        let verdict = if enabled {
            table.0[usize::from(state)] = target;
            chooser.judge_next_state_from_deepest(state, &descriptor)
        } else {
            ApstVerdict::Off
        };
        if let Some(ms) = verdict.timeout_ms() {
            target = u64::from(state) << 3 | ms << 8;
        }
        choices.push(ApstStateChoice {
            state,
            exit_latency_us: u64::from(descriptor.exit_latency_us),
            total_latency_us: descriptor.entry_and_exit_latency_us(),
            verdict,
        });
    }
    choices.reverse();
    Ok(ApstPlan {
        enabled,
        table,
        states: choices,
    })
}

/// Role in which a power state was chosen for the APST table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Primary,
    Secondary,
}

struct ApstStateChooser<'a> {
    settings: &'a ApstSettings,
    npss: u8,
    /// Role of the power state chosen last, among the states deeper than the one being judged.
    last: Option<Kind>,
}

impl ApstStateChooser<'_> {
    fn judge_next_state_from_deepest(&mut self, state: u8, descriptor: &PowerState) -> ApstVerdict {
        let s = self.settings;
        let total = descriptor.entry_and_exit_latency_us();
        if state == self.npss && s.quirks.no_deepest {
            ApstVerdict::QuirkedOff
        } else if !descriptor.non_operational {
            ApstVerdict::Operational
        } else if u64::from(descriptor.exit_latency_us) > s.max_latency_us {
            ApstVerdict::OverBudget
        } else if s.rule_or_legacy_fallback() == ApstRule::Legacy {
            // At most 2 % of the time in transitions: idle for 50 times the latency. That is us/20
            // in ms, rounded up.
            ApstVerdict::Legacy(total.div_ceil(20).min(MAX_TIMEOUT_MS))
        } else if total <= s.primary_tolerance_us {
            if self.last == Some(Kind::Primary) {
                return ApstVerdict::PrimaryTaken;
            }
            self.last = Some(Kind::Primary);
            ApstVerdict::Primary(s.primary_timeout_ms)
        } else if s.secondary_timeout_ms == 0 {
            ApstVerdict::SecondaryOff
        } else if total > s.secondary_tolerance_us {
            ApstVerdict::OverTolerance
        } else if self.last.is_some() {
            ApstVerdict::DeeperTaken
        } else {
            self.last = Some(Kind::Secondary);
            ApstVerdict::Secondary(s.secondary_timeout_ms)
        }
    }
}

impl ApstPlan {
    /// Chosen power states, each with its idle time in ms, shallowest first.
    pub fn chosen_states_with_timeouts_ms(&self) -> impl Iterator<Item = (u8, u64)> {
        self.states
            .iter()
            .filter_map(|c| Some((c.state, c.verdict.timeout_ms()?)))
    }
}

impl ApstStateChoice {
    /// Why a power state is used or not, in words with the latencies and limits that decided.
    pub fn explain(&self, settings: &ApstSettings) -> String {
        let total = self.total_latency_us;
        let (primary, secondary) = (
            settings.primary_tolerance_us,
            settings.secondary_tolerance_us,
        );
        let budget = format!(
            "exit latency {} us within budget {} us; ",
            self.exit_latency_us, settings.max_latency_us
        );
        match self.verdict {
            ApstVerdict::Off if settings.quirks.no_apst => "APST is quirked off".into(),
            ApstVerdict::Off if !settings.enabled => "APST is switched off".into(),
            ApstVerdict::Off => "APST is off: the latency budget is 0".into(),
            ApstVerdict::QuirkedOff => "skipped: the deepest state is quirked off".into(),
            ApstVerdict::Operational => "operational: not a target".into(),
            ApstVerdict::OverBudget => format!(
                "skipped: exit latency {} us > budget {} us",
                self.exit_latency_us, settings.max_latency_us
            ),
            ApstVerdict::Primary(ms) => {
                format!(
                    "{budget}total {total} us <= primary tolerance {primary} us -> after {ms} ms"
                )
            }
            ApstVerdict::Secondary(ms) => format!(
                "{budget}total {total} us > primary tolerance {primary} us, <= secondary \
                 tolerance {secondary} us -> after {ms} ms"
            ),
            // A drive takes an idle time of 0 as "no transition from this state".
            ApstVerdict::Legacy(0) => format!(
                "{budget}legacy rule: 50 x total 0 us -> 0 ms, which a drive takes as no transition"
            ),
            ApstVerdict::Legacy(ms) => {
                let capped = total.div_ceil(20) > MAX_TIMEOUT_MS;
                let limit = if capped {
                    ", the most an entry holds"
                } else {
                    ""
                };
                format!("{budget}legacy rule: 50 x total {total} us -> after {ms} ms{limit}")
            }
            ApstVerdict::PrimaryTaken => format!(
                "skipped: total {total} us <= primary tolerance {primary} us, but a deeper state is \
                 the primary one"
            ),
            ApstVerdict::DeeperTaken => format!(
                "skipped: total {total} us > primary tolerance {primary} us, <= secondary \
                 tolerance {secondary} us, but a deeper state was chosen"
            ),
            ApstVerdict::OverTolerance => format!(
                "skipped: total {total} us > primary tolerance {primary} us and > secondary \
                 tolerance {secondary} us"
            ),
            ApstVerdict::SecondaryOff => format!(
                "skipped: total {total} us > primary tolerance {primary} us, and the secondary \
                 timeout is 0"
            ),
        }
    }
}

/// Data of the APST feature: one 64-bit entry per power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApstTable(pub [u64; MAX_POWER_STATES]);

impl Default for ApstTable {
    /// No transitions.
    fn default() -> Self {
        Self([0; MAX_POWER_STATES])
    }
}

/// A decoded APST table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApstEntry {
    /// The power state that the entry is for, 0 to 31.
    pub state: u8,
    /// The power state to go to (`ITPS`), 0 to 31.
    pub target: u8,
    /// Idle time before the transition in ms (`ITPT`), 24 bits; 0: no transition from this state.
    pub timeout_ms: u32,
    /// Bits that are set among an entry's reserved ones (2:0 and 63:32), in their places.
    pub reserved: u64,
}

/// A fault in an APST table that a drive may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApstProblem {
    /// Reserved bits of an entry, 2:0 or 63:32, are set.
    #[error("entry {state}: reserved bits are set ({bits:#018x})")]
    ReservedBits {
        /// The entry.
        state: u8,
        /// The reserved bits that are set, in place.
        bits: u64,
    },
    /// The entry leads to a power state that the drive does not have.
    #[error("entry {state}: target PS{target} is beyond the drive's last state PS{npss}")]
    TargetBeyondNpss {
        /// The entry.
        state: u8,
        /// Target power state.
        target: u8,
        /// The drive's last state.
        npss: u8,
    },
    /// The entry is for a power state that the drive does not have.
    #[error("entry {state}: is set, but the drive's last state is PS{npss}")]
    EntryBeyondNpss {
        /// The entry.
        state: u8,
        /// The drive's last state.
        npss: u8,
    },
    /// The entry leads to the same power state or to a shallower one.
    #[error("entry {state}: target PS{target} is not deeper than PS{state}")]
    NotDeeper {
        /// The entry.
        state: u8,
        /// Target power state.
        target: u8,
    },
}

/// Data is not as long as the 256 bytes of an APST table; holds the length found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes, expected the {TABLE_BYTES} of an APST table")]
pub struct WrongSize(pub usize);

impl ApstTable {
    /// Encodes the table as the 256 bytes of the APST feature: 32 little-endian 64-bit entries.
    pub fn to_bytes(self) -> [u8; TABLE_BYTES] {
        let mut bytes = [0; TABLE_BYTES];
        for (chunk, entry) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&entry.to_le_bytes());
        }
        bytes
    }

    /// Decodes the 256 bytes of the APST feature. Any content is accepted; see
    /// [`Self::find_problems`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WrongSize> {
        if bytes.len() != TABLE_BYTES {
            return Err(WrongSize(bytes.len()));
        }
        let mut table = Self::default();
        for (entry, chunk) in table.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *entry = chunk
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte));
        }
        Ok(table)
    }

    /// The 32 entries.
    pub fn entries(&self) -> impl Iterator<Item = ApstEntry> {
        (0_u8..).zip(self.0).map(|(state, raw)| ApstEntry {
            state,
            target: (raw >> 3 & 0x1f) as u8,
            timeout_ms: (raw >> 8 & MAX_TIMEOUT_MS) as u32,
            reserved: raw & !0xffff_fff8,
        })
    }

    /// Lists what a drive may refuse in this APST table. `npss` is the drive's last power state, if
    /// known.
    pub fn find_problems(&self, npss: Option<u8>) -> Vec<ApstProblem> {
        let mut problems = Vec::new();
        for entry in self.entries() {
            let ApstEntry {
                state,
                target,
                reserved,
                ..
            } = entry;
            if reserved != 0 {
                problems.push(ApstProblem::ReservedBits {
                    state,
                    bits: reserved,
                });
            }
            if self.0[usize::from(state)] & !reserved == 0 {
                continue;
            }
            match npss {
                Some(npss) if state > npss => {
                    problems.push(ApstProblem::EntryBeyondNpss { state, npss });
                }
                Some(npss) if target > npss => {
                    problems.push(ApstProblem::TargetBeyondNpss {
                        state,
                        target,
                        npss,
                    });
                }
                _ if target <= state => problems.push(ApstProblem::NotDeeper { state, target }),
                _ => {}
            }
        }
        problems
    }
}

impl fmt::Display for ApstTable {
    /// Writes the table's bytes in hexadecimal, 16 to a line, as `xxd -r -p` reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.to_bytes().iter().enumerate() {
            let end = if i % 16 == 15 { "\n" } else { "" };
            write!(f, "{byte:02x}{end}")?;
        }
        Ok(())
    }
}
