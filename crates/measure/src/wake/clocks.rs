//! Exit latencies compared between clocks.

use crate::summary::Estimate;

/// An exit latency by state, source and clock.
#[derive(Clone, Debug)]
pub(super) struct ExitAtClock {
    /// CPU, state and source in words.
    pub(super) who: String,
    /// Clock in kHz; absent: as the governor picked.
    pub(super) khz: Option<u64>,
    pub(super) exit: Estimate,
}

impl ExitAtClock {
    fn describe(&self) -> String {
        let clock = self.khz.map_or_else(
            || "at the governor's clock".to_owned(),
            |khz| format!("at {} MHz", khz / 1000),
        );
        format!("{:.1} us {clock}", self.exit.ns / 1e3)
    }

    fn differs_from(&self, other: &Self) -> bool {
        self.exit.low > other.exit.high || other.exit.low > self.exit.high
    }
}

/// A sentence for each state and source with exits at two clocks beyond the intervals.
pub(super) fn describe_differences(exits: &[ExitAtClock]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for exit in exits {
        if told.contains(&exit.who.as_str()) {
            continue;
        }
        told.push(&exit.who);
        let same: Vec<&ExitAtClock> = exits.iter().filter(|e| e.who == exit.who).collect();
        if same.iter().any(|other| exit.differs_from(other)) {
            let all: Vec<String> = same.iter().map(|exit| exit.describe()).collect();
            sentences.push(format!("the exit from {}: {}", exit.who, all.join(", ")));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(who: &str, khz: Option<u64>, us: f64) -> ExitAtClock {
        ExitAtClock {
            who: who.to_owned(),
            khz,
            exit: Estimate {
                ns: us * 1e3,
                low: us * 1e3 - 500.0,
                high: us * 1e3 + 500.0,
            },
        }
    }

    #[test]
    fn only_exits_beyond_their_intervals_are_told() {
        let all = [
            exit("C6 by task, CPU 1", None, 55.0),
            exit("C8 by task, CPU 1", None, 90.0),
            exit("C6 by task, CPU 1", Some(800_000), 61.0),
            exit("C8 by task, CPU 1", Some(800_000), 90.9),
        ];
        assert_eq!(
            describe_differences(&all),
            [
                "the exit from C6 by task, CPU 1: 55.0 us at the governor's clock, 61.0 us at 800 MHz"
            ]
        );
        assert!(describe_differences(&[]).is_empty());
    }
}
