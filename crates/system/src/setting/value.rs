//! Values of settings as texts: what is possible, and when two texts mean the same.

use std::collections::BTreeSet;

use wakepath_policies::freq::epp::Epp;
use wakepath_units::cpus;

use super::info::{SettingInfo, Values};

/// The number that stands for no latency limit of a CPU: `PM_QOS_RESUME_LATENCY_NO_CONSTRAINT`
/// (`include/linux/pm_qos.h`, Linux 6.12).
pub const NO_LATENCY_LIMIT_US: u64 = i32::MAX as u64;

/// The number that `/dev/cpu_dma_latency` returns when nobody limits anything: `PM_QOS_CPU_LATENCY_DEFAULT_VALUE`
/// (`include/linux/pm_qos.h`, Linux 6.12).
pub const NO_SYSTEM_LATENCY_LIMIT_US: u64 = 2_000_000_000;

/// The word in brackets among others, as in `[default] performance powersave`; a text without brackets as it is.
pub(crate) fn word_in_brackets(text: &str) -> &str {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word)
}

/// Formats a CPU's latency limit as its sysfs file takes it: 0 means no limit there, and no latency at all is `n/a`.
pub fn format_resume_latency(limit_us: Option<u64>) -> String {
    match limit_us {
        None => "0".to_owned(),
        Some(0) => "n/a".to_owned(),
        Some(us) => us.to_string(),
    }
}

/// Parses a CPU's latency limit from its sysfs file, in us; `None` if there is no limit.
pub fn parse_resume_limit_us(text: &str) -> Option<u64> {
    match text {
        "0" => None,
        "n/a" => Some(0),
        us => us.parse().ok(),
    }
}

impl SettingInfo {
    /// Checks a value of this setting. `read_sibling` reads a file beside the setting's own, if it is there.
    ///
    /// # Errors
    /// The possible values.
    pub(crate) fn check_value(
        &self,
        value: &str,
        read_sibling: impl Fn(&str) -> Option<String>,
    ) -> Result<(), String> {
        match self.values {
            Values::Listed(file) => check_is_word_of_file(value, file, read_sibling(file)),
            Values::ListedOrUpTo(_, most) if value.parse::<u64>().is_ok() => {
                check_number_in_range(value, 0, most)
            }
            Values::ListedOrUpTo(file, most) => {
                check_is_word_of_file(value, file, read_sibling(file))
                    .map_err(|words| format!("{words}, or a whole number up to {most}"))
            }
            Values::Bracketed => {
                let own = self.path.rsplit('/').next().unwrap_or(self.path);
                let content = read_sibling(own).map(|text| text.replace(['[', ']'], ""));
                check_is_word_of_file(value, own, content)
            }
            Values::Between(low, high) => check_number_in_range(value, low, high),
            Values::BetweenFiles(low, high) => {
                let least = read_sibling(low).and_then(|text| text.parse().ok());
                let most = read_sibling(high).and_then(|text| text.parse().ok());
                check_number_in_range(value, least.unwrap_or(0), most.unwrap_or(u64::MAX))
            }
            Values::YesNo if ["Y", "N", "0", "1"].contains(&value) => Ok(()),
            Values::YesNo => Err("Y or N".to_owned()),
            Values::ResumeLatency if value == "n/a" => Ok(()),
            Values::ResumeLatency => check_number_in_range(value, 0, NO_LATENCY_LIMIT_US - 1)
                .map_err(|range| format!("{range} (0: no limit), or n/a for no latency at all")),
            Values::Tolerance if ["auto", "any"].contains(&value) => Ok(()),
            Values::Tolerance => check_number_in_range(value, 0, NO_LATENCY_LIMIT_US - 1)
                .map_err(|range| format!("{range}, any, or auto")),
            Values::CpuList => cpus::parse_cpu_list(value)
                .filter(|cpus| !cpus.is_empty())
                .map(|_| ())
                .ok_or_else(|| "CPUs such as 0-3,8".to_owned()),
            Values::ApstTable => crate::nvme::ApstFeature::parse(value)
                .map(|_| ())
                .ok_or_else(|| "on: or off: and 512 hexadecimal digits".to_owned()),
        }
    }
}

/// Checks that a value is a whole number in a range.
///
/// # Errors
/// The range.
fn check_number_in_range(value: &str, low: u64, high: u64) -> Result<(), String> {
    let number = value.parse::<u64>();
    if number.is_ok_and(|number| (low..=high).contains(&number)) {
        return Ok(());
    }
    Err(format!("a whole number from {low} to {high}"))
}

/// Checks that a value is among the words of a file.
///
/// # Errors
/// The words.
fn check_is_word_of_file(value: &str, file: &str, content: Option<String>) -> Result<(), String> {
    let Some(content) = content else {
        return Err(format!("one of those in {file}, which cannot be read"));
    };
    let words: Vec<&str> = content.split_whitespace().collect();
    if words.contains(&value) {
        return Ok(());
    }
    Err(words.join(", "))
}

/// Whether two values of a setting mean the same, though they may be written differently.
pub fn have_same_meaning(setting: &SettingInfo, one: &str, other: &str) -> bool {
    normalize_for_comparison(setting, one) == normalize_for_comparison(setting, other)
}

/// A setting's value in a form that is equal for equal meanings.
fn normalize_for_comparison(setting: &SettingInfo, text: &str) -> String {
    let value = text.trim();
    match setting.values {
        Values::YesNo => match value {
            "1" | "y" => "Y".to_owned(),
            "0" | "n" => "N".to_owned(),
            other => other.to_owned(),
        },
        Values::ListedOrUpTo(..) => {
            let number = Epp::parse(value).and_then(Epp::number);
            number.map_or_else(|| strip_leading_zeros(value), |number| number.to_string())
        }
        Values::CpuList => {
            let listed: BTreeSet<usize> = cpus::parse_cpu_list(value)
                .unwrap_or_default()
                .into_iter()
                .collect();
            format!("{listed:?}")
        }
        _ => strip_leading_zeros(value),
    }
}

/// A number without leading zeros; other texts as they are.
fn strip_leading_zeros(value: &str) -> String {
    value
        .parse::<u64>()
        .map_or_else(|_| value.to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::setting_known_to_exist;
    use super::*;

    fn file_beside(file: &str) -> Option<String> {
        let content = match file {
            "available_governors" => "ladder menu",
            "policy" => "[default] performance powersave powersupersave",
            "cpuinfo_min_freq" => "800000",
            "cpuinfo_max_freq" => "3000000",
            _ => return None,
        };
        Some(content.to_owned())
    }

    #[test]
    fn impossible_values_say_what_is_possible() {
        for (setting, value, expected) in [
            ("idle-governor", "teo", "ladder, menu"),
            (
                "frequency-max",
                "100",
                "a whole number from 800000 to 3000000",
            ),
            ("cpu-latency", "-1", "n/a"),
            ("cpu-latency", "2147483647", "2147483646"),
            ("idle-state-off", "2", "0 to 1"),
            ("drive-latency", "some", "auto"),
            ("epp", "256", "255"),
            ("apst", "on:00", "512"),
            (
                "aspm",
                "eager",
                "default, performance, powersave, powersupersave",
            ),
            ("rq-affinity", "3", "0 to 2"),
            ("haltpoll-may-shrink", "x", "Y or N"),
        ] {
            let message = setting_known_to_exist(setting)
                .check_value(value, file_beside)
                .unwrap_err();
            assert!(message.contains(expected), "{setting}: {message}");
        }
        for (setting, value) in [
            ("idle-governor", "menu"),
            ("frequency-max", "900000"),
            ("cpu-latency", "n/a"),
            ("cpu-latency", "0"),
            ("drive-latency", "any"),
            ("epp", "0"),
            ("aspm", "default"),
            ("read-ahead", "512"),
        ] {
            setting_known_to_exist(setting)
                .check_value(value, file_beside)
                .unwrap();
        }
    }

    #[test]
    fn the_same_value_may_be_written_differently() {
        assert!(have_same_meaning(
            setting_known_to_exist("epp"),
            "128",
            "balance_performance"
        ));
        assert!(!have_same_meaning(
            setting_known_to_exist("epp"),
            "127",
            "balance_performance"
        ));
        assert!(have_same_meaning(
            setting_known_to_exist("haltpoll-may-shrink"),
            "1",
            "Y"
        ));
        assert!(have_same_meaning(
            setting_known_to_exist("frequency-max"),
            "0800000",
            "800000\n"
        ));
        assert!(!have_same_meaning(
            setting_known_to_exist("cpu-latency"),
            "0",
            "n/a"
        ));
    }
}
