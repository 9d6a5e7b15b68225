//! Contradictions between a drive's declared power states.

use wakepath_units::Microwatts;

use super::{Drive, PowerState, watts};

impl Drive {
    /// Finds contradictions in the declared power states, each told in a sentence that names the states; empty for a
    /// sound table.
    ///
    /// The NVMe Base Specification orders power states by maximum power, the highest first. Active and
    /// idle power are averages, so that neither can be above the maximum of its state.
    pub fn find_contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        let states = self.states.iter().enumerate();
        let known: Vec<(usize, &PowerState, Microwatts)> = states
            .filter_map(|(i, s)| Some((i, s, s.max_power?)))
            .collect();
        for pair in known.windows(2) {
            let [(above, _, more), (below, _, less)] = pair else {
                continue;
            };
            if less > more {
                found.push(format!(
                    "PS{below} declares {} at most, more than the {} of PS{above}",
                    watts::format_watts(*less),
                    watts::format_watts(*more)
                ));
            }
        }
        for (i, state, max) in &known {
            for (what, power) in [("active", state.active_power), ("idle", state.idle_power)] {
                if let Some(power) = power.filter(|p| p > max) {
                    found.push(format!(
                        "PS{i} declares {} {what}, more than its maximum of {}",
                        watts::format_watts(power),
                        watts::format_watts(*max)
                    ));
                }
            }
        }
        let idle_at_work = known.iter().find(|(_, state, _)| {
            !state.non_operational && state.active_power == Some(Microwatts(0))
        });
        if let Some((i, ..)) = idle_at_work {
            found.push(format!("PS{i} declares 0 W active"));
        }
        let mut working = known.iter().filter(|(_, s, _)| !s.non_operational);
        if let (Some((first, _, most)), Some((last, _, least))) =
            (working.next(), working.next_back())
            && least >= most
        {
            found.push(format!(
                "PS{last} declares {} at most, as much as PS{first}, although it is to draw less",
                watts::format_watts(*least)
            ));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveLibrary;

    fn contradictions(name: &str) -> Vec<String> {
        let model = DriveLibrary::builtin().find_one_model(name).unwrap();
        model.most_frequent_table().drive.find_contradictions()
    }

    #[test]
    fn each_kind_names_the_states() {
        assert_eq!(contradictions("WDC PC SN530 SDBPNPZ-256G-1006"), [""; 0]);
        let model = DriveLibrary::builtin()
            .find_one_model("KCM61RUL960G")
            .unwrap();
        let mut drive = model.most_frequent_table().drive.clone();
        assert_eq!(drive.find_contradictions(), [""; 0]);
        drive.states[6].max_power = Some(Microwatts(10_000_000));
        drive.states[5].idle_power = Some(Microwatts(9_950_000));
        assert_eq!(
            drive.find_contradictions(),
            [
                "PS6 declares 10 W at most, more than the 9.9 W of PS5",
                "PS5 declares 9.95 W idle, more than its maximum of 9.9 W",
            ]
        );
    }

    #[test]
    fn the_library_has_them() {
        assert_eq!(
            contradictions("Samsung SSD 990 PRO 1TB"),
            ["PS2 declares 9.39 W at most, as much as PS0, although it is to draw less"]
        );
        assert!(contradictions("MTFDHBK256TDP")[0].contains("PS0 declares 300 W active"));
        assert!(contradictions("CT1000P3SSD8").contains(&"PS0 declares 0 W active".to_owned()));
        let tables = DriveLibrary::builtin().tables();
        let with = tables.filter(|t| !t.drive.find_contradictions().is_empty());
        assert_eq!(with.count(), 61);
    }
}
