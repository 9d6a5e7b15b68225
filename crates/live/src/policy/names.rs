//! Policies that exist only on a real machine, in the form of all the others: `NAME[key=value,...]`.

/// How deeply a CPU may sleep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ceiling {
    /// In every state that is not off by default.
    None,
    /// In states with at most this exit latency in us.
    Latency(u64),
    /// In this state, by the driver's name for it, and shallower ones.
    State(String),
}

/// A policy that exists only on a real machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveSetting {
    /// Switches off idle states above the ceiling.
    IdleStates(Ceiling),
    /// Limits the exit latency of CPUs, in us; `None` lifts the limit.
    CpuLatency(Option<u64>),
    /// The same for all CPUs while a process holds the request.
    SystemLatency(Option<u64>),
    /// Frequency limits in kHz.
    Frequency {
        /// The lowest.
        min: Option<u64>,
        /// The highest.
        max: Option<u64>,
    },
    /// Energy-performance preference, by name or number.
    Epp(String),
    /// HWP dynamic boost.
    HwpBoost(bool),
    /// The drive's latency tolerance, as the kernel writes it.
    DriveLatency(String),
}

/// What a name means, for help and errors.
#[derive(Debug)]
pub struct NameInfo {
    /// The name.
    pub name: &'static str,
    /// An example with every key.
    pub example: &'static str,
    /// What it does.
    pub summary: &'static str,
}

const fn name(name: &'static str, example: &'static str, summary: &'static str) -> NameInfo {
    NameInfo {
        name,
        example,
        summary,
    }
}

/// All of them.
#[rustfmt::skip]
pub static NAMES: &[NameInfo] = &[
    name("idle-states", "idle-states[ceiling=20us]",
        "switches off idle states with a longer exit latency; ceiling: 20us, a state such as C1E, or none"),
    name("cpu-latency", "cpu-latency[limit=20us]",
        "a latency limit for each CPU (resume latency QoS), which stays without a process; limit: 20us or none"),
    name("system-latency", "system-latency[limit=20us]",
        "a latency limit for all CPUs (/dev/cpu_dma_latency), while a process holds it; needs --for"),
    name("frequency", "frequency[min=1200MHz,max=3000MHz]", "frequency limits, in MHz or kHz"),
    name("epp", "epp[value=balance_power]", "energy-performance preference: a name, or 0 to 255"),
    name("hwp-boost", "hwp-boost[value=on]", "HWP dynamic boost: on or off"),
    name("drive-latency", "drive-latency[tolerance=25000us]",
        "the latency that the kernel's APST table of a drive may use: 25000us, any or auto"),
];

/// Parses a policy of this kind. `None` if the name is not one of [`NAMES`].
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Option<LiveSetting>, String> {
    let (name, settings) = match text.split_once('[') {
        None => (text, ""),
        Some((name, rest)) => {
            let inner = rest.strip_suffix(']');
            (name, inner.ok_or("the closing ] is missing")?)
        }
    };
    let Some(info) = NAMES.iter().find(|n| n.name == name) else {
        return Ok(None);
    };
    let mut given = Given::parse(info, settings)?;
    let own = match name {
        "idle-states" => LiveSetting::IdleStates(ceiling(&given.need("ceiling")?)?),
        "cpu-latency" => LiveSetting::CpuLatency(latency(&given.need("limit")?)?),
        "system-latency" => LiveSetting::SystemLatency(latency(&given.need("limit")?)?),
        "frequency" => {
            let (min, max) = (given.take("min"), given.take("max"));
            if min.is_none() && max.is_none() {
                return Err(format!("min or max is missing, as in {}", info.example));
            }
            let limit = |text: Option<String>| text.map(|t| kilohertz(&t)).transpose();
            let (min, max) = (limit(min)?, limit(max)?);
            if min.zip(max).is_some_and(|(min, max)| min > max) {
                return Err("min is above max".to_owned());
            }
            LiveSetting::Frequency { min, max }
        }
        "epp" => LiveSetting::Epp(given.need("value")?),
        "hwp-boost" => LiveSetting::HwpBoost(match given.need("value")?.as_str() {
            "on" => true,
            "off" => false,
            other => return Err(format!("value={other}: expected on or off")),
        }),
        _ => {
            let value = given.need("tolerance")?;
            LiveSetting::DriveLatency(match value.as_str() {
                "any" | "auto" => value,
                time => micros(time)
                    .ok_or_else(|| format!("tolerance={time}: expected 25000us, any or auto"))?
                    .to_string(),
            })
        }
    };
    given.end()?;
    Ok(Some(own))
}

/// Keys and values that were given.
struct Given {
    info: &'static NameInfo,
    pairs: Vec<(String, String)>,
}

impl Given {
    fn parse(info: &'static NameInfo, text: &str) -> Result<Self, String> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split(',').filter(|p| !p.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("'{pair}' is not key=value, as in {}", info.example))?;
            if pairs.iter().any(|(k, _)| k == key) {
                return Err(format!("{key} is given twice"));
            }
            pairs.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self { info, pairs })
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(k, _)| k == key)?;
        Some(self.pairs.remove(at).1)
    }

    fn need(&mut self, key: &str) -> Result<String, String> {
        self.take(key)
            .ok_or_else(|| format!("{key} is missing, as in {}", self.info.example))
    }

    /// Whatever nobody took is unknown.
    fn end(self) -> Result<(), String> {
        match self.pairs.first() {
            None => Ok(()),
            Some((key, _)) => Err(format!("no setting '{key}'; write {}", self.info.example)),
        }
    }
}

fn ceiling(text: &str) -> Result<Ceiling, String> {
    match (text, micros(text)) {
        ("none", _) => Ok(Ceiling::None),
        (_, Some(us)) => Ok(Ceiling::Latency(us)),
        ("", None) => {
            Err("ceiling= is empty: expected 20us, a state such as C1E, or none".to_owned())
        }
        (state, None) => Ok(Ceiling::State(state.to_owned())),
    }
}

/// A limit in us; `none` is no limit.
fn latency(text: &str) -> Result<Option<u64>, String> {
    if text == "none" {
        return Ok(None);
    }
    micros(text)
        .map(Some)
        .ok_or_else(|| format!("limit={text}: expected a latency such as 20us, or none"))
}

fn micros(text: &str) -> Option<u64> {
    digits(text.strip_suffix("us")?)
}

fn kilohertz(text: &str) -> Result<u64, String> {
    let khz = match (text.strip_suffix("MHz"), text.strip_suffix("kHz")) {
        (Some(mhz), _) => digits(mhz).and_then(|n| n.checked_mul(1000)),
        (_, Some(khz)) => digits(khz),
        _ => None,
    };
    khz.ok_or_else(|| format!("{text}: expected a frequency such as 1200MHz"))
}

fn digits(text: &str) -> Option<u64> {
    let only = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    only.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_example_parses() {
        for info in NAMES {
            assert!(parse(info.example).unwrap().is_some(), "{}", info.example);
        }
    }

    #[test]
    fn values_are_typed() {
        let own = |text: &str| parse(text).unwrap().unwrap();
        assert_eq!(
            own("idle-states[ceiling=C1E]"),
            LiveSetting::IdleStates(Ceiling::State("C1E".into()))
        );
        assert_eq!(
            own("cpu-latency[limit=none]"),
            LiveSetting::CpuLatency(None)
        );
        assert_eq!(
            own("frequency[max=1200MHz]"),
            LiveSetting::Frequency {
                min: None,
                max: Some(1_200_000)
            }
        );
        assert_eq!(parse("menu").unwrap(), None);
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, says) in [
            ("idle-states", "ceiling is missing"),
            ("idle-states[ceiling=20us", "closing ]"),
            ("idle-states[ceiling=20us,x=1]", "no setting 'x'"),
            ("cpu-latency[limit=20]", "20us"),
            ("frequency[]", "min or max"),
            ("frequency[min=1GHz]", "1200MHz"),
            ("frequency[min=3000MHz,max=1200MHz]", "min is above max"),
            ("hwp-boost[value=yes]", "on or off"),
            ("drive-latency[tolerance=-1us]", "auto"),
            ("epp[value=1,value=2]", "twice"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(says), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(name in 0..NAMES.len(), rest in "\\PC{0,40}") {
            let _ = parse(&format!("{}{rest}", NAMES[name].name));
            let _ = parse(&format!("{}[{rest}]", NAMES[name].name));
        }
    }
}
