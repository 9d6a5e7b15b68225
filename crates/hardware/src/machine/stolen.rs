//! CPU time that the host of a virtual machine takes (steal time).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;
use super::fault::{Fault, fail_check};

/// Largest share of a busy CPU's time that the host may take.
const MOST_SHARE: f64 = 0.9;

/// How often, and for how long, the host takes a CPU that runs. An idle CPU has nothing to take.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StolenCpuTime {
    /// How often the host takes a CPU, for each second that the CPU runs for the guest.
    #[schemars(extend("unit" = "1/s", "maximum" = 1e6))]
    pub per_s: Figure,
    /// Mean time until the CPU runs again; single times are exponentially distributed.
    #[schemars(extend("unit" = "us", "maximum" = 1e7))]
    pub mean_us: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}

impl StolenCpuTime {
    /// Share of a busy CPU's time that the host takes, 0 to 1.
    pub fn share_of_busy_time(&self) -> f64 {
        let per_running_second = self.per_s.value * self.mean_us.value / 1e6;
        per_running_second / (1.0 + per_running_second)
    }

    /// Checks that a busy CPU gets on at all.
    pub(super) fn check_share(&self) -> Result<(), Fault> {
        let share = self.share_of_busy_time();
        if share <= MOST_SHARE {
            return Ok(());
        }
        let message = format!(
            "the host would take {:.1} % of a busy CPU's time; at most {:.0} % are possible: lower per_s or mean_us",
            share * 100.0,
            MOST_SHARE * 100.0
        );
        fail_check("stolen.per_s", &message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machine;

    fn parse(per_s: &str, mean_us: &str) -> Result<Machine, String> {
        let table =
            format!("\n[stolen]\nper_s = {per_s}\nmean_us = {mean_us}\nsource = \"a test\"\n");
        let text = Machine::find("laptop").unwrap().to_toml().unwrap() + &table;
        Machine::parse(&text, "guest.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn stolen_time_comes_back_from_a_file() {
        let machine = parse("40", "{ value = 2500, assumed = \"a busy host\" }").unwrap();
        let stolen = machine.stolen.as_ref().unwrap();
        assert!((stolen.share_of_busy_time() - 0.1 / 1.1).abs() < 1e-12);
        let text = machine.to_toml().unwrap();
        assert!(text.contains("\n[stolen]\n"), "{text}");
        let again = Machine::parse(&text, "again").unwrap();
        assert_eq!(again.to_toml().unwrap(), text);
        assert_eq!(again.figures(), machine.figures());
        let keys: Vec<String> = machine.figures().into_iter().map(|f| f.key).collect();
        for key in ["stolen.per_s", "stolen.mean_us"] {
            assert!(keys.contains(&key.to_owned()), "{keys:?}");
        }
        let without = Machine::find("laptop").unwrap().to_toml().unwrap();
        assert!(!without.contains("stolen"));
    }

    #[test]
    fn impossible_stolen_time_is_refused() {
        for (per_s, mean_us, says) in [
            ("-1", "100", "stolen.per_s"),
            ("nan", "100", "stolen.per_s"),
            ("10", "-5", "stolen.mean_us"),
            ("10", "inf", "stolen.mean_us"),
            ("1000", "9100", "90.1 % of a busy CPU's time"),
        ] {
            let error = parse(per_s, mean_us).unwrap_err();
            assert!(error.contains(says), "{per_s} {mean_us}: {error}");
        }
        assert!(parse("1000", "8900").is_ok());
    }

    #[test]
    fn cpus_that_take_turns_have_no_host_beside() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../rig/laboratory/debian-6.12.toml"
        );
        let mut machine = Machine::load(std::path::Path::new(file)).unwrap();
        machine.stolen = parse("40", "100").unwrap().stolen;
        let error = machine.check().unwrap_err().to_string();
        assert!(
            error.contains("stolen") && error.contains("turns"),
            "{error}"
        );
    }
}
