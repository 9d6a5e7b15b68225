//! Every policy there is, as data: parsing, error messages and documentation are made from it.

/// What a policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The idle state of a CPU.
    Idle,
    /// The frequency of a CPU.
    Frequency,
    /// How deeply a CPU may sleep after I/O.
    Psd,
    /// When a drive goes to sleep by itself.
    Apst,
    /// How long the polling idle state polls.
    Poll,
}

impl Kind {
    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Frequency => "frequency",
            Self::Psd => "PSD",
            Self::Apst => "APST",
            Self::Poll => "polling",
        }
    }
}

/// A policy.
#[derive(Debug, PartialEq, Eq)]
pub struct PolicyInfo {
    /// Its name, without version and settings.
    pub name: &'static str,
    /// What it decides.
    pub kind: Kind,
    /// Its versions, oldest first. Empty if it has only one. The bare name means the newest.
    pub versions: &'static [&'static str],
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its settings.
    pub keys: &'static [KeyInfo],
}

/// A setting of a policy.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// The unit of a plain number; empty if there is none.
    pub unit: &'static str,
    /// What it may be set to.
    pub values: Values,
    /// Its value where none is given.
    pub default: Default,
}

/// What holds where a setting is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// This value.
    Value(&'static str),
    /// Something that depends on the machine, in words.
    Derived(&'static str),
}

/// What a setting may be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number from 0 to this one.
    UpTo(u64),
    /// One of these words, which stand for numbers, or a whole number from 0 to the given one.
    NamedUpTo(&'static [(&'static str, u64)], u64),
    /// Whole milliseconds with their unit, `3ms`.
    Milliseconds,
    /// `shallowest`, `state:N` or whole microseconds with their unit, `20us`.
    Ceiling,
}

const SWITCH: Values = Values::OneOf(&["on", "off"]);

/// The energy-performance preferences that have names (`epp_values`,
/// `drivers/cpufreq/intel_pstate.c`, Linux 6.12).
const EPP: Values = Values::NamedUpTo(
    &[
        ("performance", 0x00),
        ("balance_performance", 0x80),
        ("balance_power", 0xC0),
        ("power", 0xFF),
    ],
    255,
);

const U32: Values = Values::UpTo(u32::MAX as u64);
const U64: Values = Values::UpTo(u64::MAX);

const fn key(
    name: &'static str,
    values: Values,
    default: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> KeyInfo {
    KeyInfo {
        name,
        meaning,
        unit,
        values,
        default: Default::Value(default),
    }
}

const fn policy(
    name: &'static str,
    kind: Kind,
    versions: &'static [&'static str],
    summary: &'static str,
    keys: &'static [KeyInfo],
) -> PolicyInfo {
    PolicyInfo {
        name,
        kind,
        versions,
        summary,
        keys,
    }
}

const KERNELS: &[&str] = &["6.1", "6.12"];
const IOWAIT_BOOST: KeyInfo = key(
    "iowait_boost",
    SWITCH,
    "on",
    "",
    "whether wake-ups from I/O wait raise the frequency",
);

/// All policies.
#[rustfmt::skip]
pub static POLICIES: &[PolicyInfo] = &[
    policy("menu", Kind::Idle, KERNELS,
        "the next timer, corrected by experience, unless wake-ups show a pattern", &[]),
    policy("teo", Kind::Idle, KERNELS,
        "the next timer, unless most wake-ups came before it", &[]),
    policy("ladder", Kind::Idle, KERNELS,
        "one state deeper after four long stays, one back after a short one", &[]),
    policy("haltpoll", Kind::Idle, KERNELS,
        "polls before halting, for guests", &[
        key("guest_halt_poll_ns", U32, "200000", "ns", "the longest time to poll"),
        key("guest_halt_poll_shrink", U32, "2", "",
            "what the time to poll is divided by after a long halt; 0 sets it to zero"),
        key("guest_halt_poll_grow", U32, "2", "",
            "what the time to poll is multiplied with after a short halt"),
        key("guest_halt_poll_grow_start", U32, "50000", "ns",
            "the shortest time to poll to grow from"),
        key("guest_halt_poll_allow_shrink", SWITCH, "on", "",
            "whether the time to poll may shrink"),
    ]),
    policy("shallowest", Kind::Idle, &[], "always the shallowest enabled state", &[]),
    policy("deepest", Kind::Idle, &[],
        "always the deepest enabled state within the latency request", &[]),
    policy("oracle", Kind::Idle, &[], "knows how long the CPU will stay idle", &[
        key("goal", Values::OneOf(&["energy", "latency"]), "energy", "", "what it minimises"),
    ]),
    policy("schedutil", Kind::Frequency, &[], "the scheduler's utilisation signals", &[
        IOWAIT_BOOST,
        key("iowait_boost_step", Values::OneOf(&["double", "linear"]), "double", "",
            "how the boost grows: doubling, as in the kernel, or by 128 of 1024"),
        key("iowait_boost_cap", Values::UpTo(1024), "1024", "of 1024", "the highest boost"),
        KeyInfo {
            name: "rate_limit_us",
            meaning: "the shortest time between two changes of frequency",
            unit: "us",
            values: U32,
            default: Default::Derived("from the transition latency"),
        },
    ]),
    policy("performance", Kind::Frequency, &[], "always the highest frequency", &[]),
    policy("powersave", Kind::Frequency, &[], "always the lowest frequency", &[]),
    policy("ondemand", Kind::Frequency, &[], "the share of busy time, sampled", &[]),
    policy("intel_pstate", Kind::Frequency, &[],
        "intel_pstate in active mode without HWP, powersave algorithm", &[IOWAIT_BOOST]),
    policy("intel_pstate-hwp", Kind::Frequency, &[],
        "intel_pstate in active mode with HWP, powersave algorithm", &[
        key("hwp_dynamic_boost", SWITCH, "off", "",
            "whether wake-ups from I/O wait raise the minimum performance"),
        key("epp", EPP, "balance_performance", "",
            "energy-performance preference, 0 (performance) to 255 (power)"),
    ]),
    policy("psd", Kind::Psd, &[], "no deep sleep for a while after an I/O completion", &[
        key("timeout", Values::Milliseconds, "3ms", "", "how long the lease lasts; 0ms: off"),
        key("ceiling", Values::Ceiling, "shallowest", "", "how deeply a CPU with a lease may sleep"),
        key("grant", Values::OneOf(&["completion", "issue", "both"]), "completion", "",
            "what gives a CPU a lease"),
    ]),
    policy("apst", Kind::Apst, &[], "the kernel's NVMe power state transition table", &[
        key("rule", Values::OneOf(&["current", "legacy"]), "current", "",
            "by tolerances, or by 50 times the transition latency"),
        key("primary_timeout_ms", U64, "100", "ms", "idle time before a quick state"),
        key("secondary_timeout_ms", U64, "2000", "ms", "idle time before a slow state"),
        key("primary_tolerance_us", U64, "15000", "us", "how slow a quick state may be"),
        key("secondary_tolerance_us", U64, "100000", "us", "how slow a slow state may be"),
        key("max_latency_us", U64, "100000", "us", "the latency budget; 0 switches APST off"),
        key("no_deepest", SWITCH, "off", "", "never use the deepest state"),
    ]),
    policy("poll", Kind::Poll, &[], "how long the polling idle state polls", &[
        KeyInfo {
            name: "request_us",
            meaning: "an explicit limit, clamped to between 10 us and a sixteenth of a tick",
            unit: "us",
            values: U64,
            default: Default::Derived("from the idle states"),
        },
        key("rule", Values::OneOf(&["current", "first"]), "current", "",
            "the residency of the first state of 10 us or more, or of the first at all (before 5.11)"),
    ]),
];

impl Values {
    /// Whether `text` is one of them.
    pub fn allow(&self, text: &str) -> bool {
        let within = |max| whole_number(text).is_some_and(|n| n <= max);
        match *self {
            Self::OneOf(words) => words.contains(&text),
            Self::UpTo(max) => within(max),
            Self::NamedUpTo(words, max) => {
                words.iter().any(|(word, _)| *word == text) || within(max)
            }
            Self::Milliseconds => milliseconds(text).is_some(),
            Self::Ceiling => {
                text == "shallowest" || state_index(text).is_some() || microseconds(text).is_some()
            }
        }
    }

    /// What is allowed, in words.
    pub fn describe(&self) -> String {
        match *self {
            Self::OneOf(words) => words.join(" or "),
            Self::UpTo(max) => format!("a whole number from 0 to {max}"),
            Self::NamedUpTo(words, max) => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                format!("{} or a whole number from 0 to {max}", words.join(", "))
            }
            Self::Milliseconds => {
                format!("whole milliseconds such as 3ms, from 0ms to {}ms", u32::MAX)
            }
            Self::Ceiling => {
                "shallowest, a state such as state:1, or a latency such as 20us".to_owned()
            }
        }
    }
}

/// A number of decimal digits only; `u64::from_str` would also take a plus sign.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

pub(super) fn milliseconds(text: &str) -> Option<u32> {
    let number = whole_number(text.strip_suffix("ms")?)?;
    u32::try_from(number).ok()
}

pub(super) fn microseconds(text: &str) -> Option<u64> {
    whole_number(text.strip_suffix("us")?)
}

pub(super) fn state_index(text: &str) -> Option<usize> {
    let index = usize::try_from(whole_number(text.strip_prefix("state:")?)?).ok()?;
    (index < wakepath_hardware::idle::MAX_STATES).then_some(index)
}
