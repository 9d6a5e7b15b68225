//! Clocks for all CPUs, held in turn.

use wakepath_settings::Hold;
use wakepath_system::setting::find_setting;
use wakepath_system::{At, SettingKey, System};

use crate::MeasureError;

/// Frequency limits on a machine with equal clocks on all CPUs.
#[derive(Clone, Debug)]
pub(super) struct MachineClocks {
    /// Minimum and maximum of each cpufreq policy.
    policies: Vec<[SettingKey; 2]>,
    /// Lowest clock of the hardware in kHz.
    lowest: u64,
    /// Clocks to hold in kHz, lowest first; at least two.
    pub(super) khz: Vec<u64>,
}

impl MachineClocks {
    /// At most so many clocks from the lowest to the highest; `None` if the CPUs' clocks differ, or cannot be limited.
    pub(super) fn find(system: &System, most: usize) -> Option<Self> {
        let mut policies = Vec::new();
        let mut common: Option<Vec<u64>> = None;
        for policy in system.active_cpufreq_policies() {
            let [min, max] = ["frequency-min", "frequency-max"].map(|name| {
                SettingKey::for_matching_scope(find_setting(name)?, At::CpufreqPolicy(policy))
            });
            let limits = [min?, max?];
            let own = read_clocks(system, &limits[0], most)?;
            if common.get_or_insert_with(|| own.clone()) != &own {
                return None;
            }
            policies.push(limits);
        }
        let khz = common.filter(|khz| khz.len() > 1)?;
        Some(Self {
            policies,
            lowest: khz[0],
            khz,
        })
    }

    /// Settings to change, each with a possible value.
    pub(super) fn settings(&self) -> impl Iterator<Item = (SettingKey, String)> {
        let keys = self.policies.iter().flatten();
        keys.map(|key| (key.clone(), self.lowest.to_string()))
    }

    /// Holds all CPUs at a clock. The minimum goes down first, and never exceeds the maximum.
    pub(super) fn hold_at(&self, hold: &Hold, khz: u64) -> Result<(), MeasureError> {
        let [lowest, wanted] = [self.lowest, khz].map(|khz| khz.to_string());
        for [min, max] in &self.policies {
            for (key, value) in [(min, &lowest), (max, &wanted), (min, &wanted)] {
                hold.write_or_put_back(key, Some(value))?;
            }
        }
        Ok(())
    }

    /// Puts the limits back, in the same order.
    pub(super) fn put_back(&self, hold: &Hold) -> Result<(), MeasureError> {
        let lowest = self.lowest.to_string();
        for [min, max] in &self.policies {
            for (key, value) in [(min, Some(lowest.as_str())), (max, None), (min, None)] {
                hold.write_or_put_back(key, value)?;
            }
        }
        Ok(())
    }
}

/// A policy's clocks in kHz, lowest first: as listed by the driver, or else steps between both ends of the range.
fn read_clocks(system: &System, limit: &SettingKey, most: usize) -> Option<Vec<u64>> {
    let root = system.root();
    let ends = ["cpuinfo_min_freq", "cpuinfo_max_freq"]
        .map(|file| root.read_number_if_readable(&limit.sibling_file_path(file)));
    let [lowest, highest] = [ends[0]?, ends[1]?];
    let list = limit.sibling_file_path("scaling_available_frequencies");
    let listed = root.read_text_if_readable(&list).unwrap_or_default();
    let mut all: Vec<u64> = listed
        .split_whitespace()
        .filter_map(|khz| khz.parse().ok())
        .filter(|khz| (lowest..=highest).contains(khz))
        .collect();
    if all.is_empty() {
        all = (0..most as u64)
            .map(|step| step_between(lowest, highest, step, most as u64))
            .collect();
    }
    all.extend([lowest, highest]);
    all.sort_unstable();
    all.dedup();
    Some(spread(&all, most))
}

/// A step between the lowest and the highest clock, in whole 100 MHz but for the ends.
fn step_between(lowest: u64, highest: u64, step: u64, steps: u64) -> u64 {
    const GRAIN: u64 = 100_000;
    let above = u128::from(highest.saturating_sub(lowest)) * u128::from(step)
        / u128::from(steps.saturating_sub(1).max(1));
    let exact = lowest.saturating_add(above as u64);
    (exact - exact % GRAIN).clamp(lowest, highest.max(lowest))
}

/// Picks at most `most` values evenly, with both ends.
fn spread(all: &[u64], most: usize) -> Vec<u64> {
    if all.len() <= most || most < 2 {
        return all.to_vec();
    }
    let picked = (0..most).map(|index| all[index * (all.len() - 1) / (most - 1)]);
    picked.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wakepath_system::Root;

    use super::*;

    /// Clocks on a machine with two policies, from given files.
    fn clocks(files: [&[(&str, &str)]; 2], most: usize) -> Option<Vec<u64>> {
        let folder = tempfile::tempdir().unwrap();
        for (policy, files) in files.iter().enumerate() {
            let place = format!("sys/devices/system/cpu/cpufreq/policy{policy}");
            fs::create_dir_all(folder.path().join(&place)).unwrap();
            for (file, text) in *files {
                fs::write(folder.path().join(&place).join(file), text).unwrap();
            }
        }
        let system = System::new(Root::at_directory(folder.path()));
        MachineClocks::find(&system, most).map(|clocks| clocks.khz)
    }

    #[test]
    fn clocks_go_from_the_lowest_to_the_highest() {
        let range: &[(&str, &str)] = &[
            ("cpuinfo_min_freq", "400000"),
            ("cpuinfo_max_freq", "4750000"),
        ];
        assert_eq!(
            clocks([range, range], 5).unwrap(),
            [400_000, 1_400_000, 2_500_000, 3_600_000, 4_750_000]
        );
        assert_eq!(clocks([range, range], 2).unwrap(), [400_000, 4_750_000]);
        let listed: &[(&str, &str)] = &[
            ("cpuinfo_min_freq", "1000000"),
            ("cpuinfo_max_freq", "3000000"),
            (
                "scaling_available_frequencies",
                "3000000 2000000 1500000 1000000 9000000 x",
            ),
        ];
        assert_eq!(
            clocks([listed, listed], 5).unwrap(),
            [1_000_000, 1_500_000, 2_000_000, 3_000_000]
        );
        assert_eq!(
            clocks([listed, listed], 3).unwrap(),
            [1_000_000, 1_500_000, 3_000_000]
        );
    }

    #[test]
    fn machines_without_common_clocks_have_none() {
        let one: &[(&str, &str)] = &[
            ("cpuinfo_min_freq", "400000"),
            ("cpuinfo_max_freq", "4700000"),
        ];
        let other: &[(&str, &str)] = &[
            ("cpuinfo_min_freq", "400000"),
            ("cpuinfo_max_freq", "3300000"),
        ];
        let fixed: &[(&str, &str)] = &[
            ("cpuinfo_min_freq", "400000"),
            ("cpuinfo_max_freq", "400000"),
        ];
        let reversed: &[(&str, &str)] = &[
            ("cpuinfo_min_freq", "4700000"),
            ("cpuinfo_max_freq", "400000"),
        ];
        assert_eq!(clocks([one, other], 5), None);
        assert_eq!(clocks([fixed, fixed], 5), None);
        assert_eq!(clocks([&[], &[]], 5), None);
        // Contradictory files must not break anything.
        let _ = clocks([reversed, reversed], 5);
    }
}
