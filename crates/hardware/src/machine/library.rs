//! Finds machines by name or file.

use std::path::{Path, PathBuf};

use wakepath_units::spelling::{LONGEST_NAME, most_similar_name};

use super::builtin::{builtin_machine_names, find_builtin_machine_text};
use super::file::{parse_machine_without_like, read_machine_or_drive_text};
use super::here::{HERE, find_calibration_file};
use super::{Machine, MachineError, like};
use crate::recorded::{self, builtin_intel_idle_tables, builtin_recorded_systems};

impl Machine {
    /// Finds a machine: a built-in or recorded one by its name, or a file if the name ends in `.toml` or holds a slash.
    /// A directory that a capture made is its `machine.toml`; [`HERE`] is the machine that `wakepath calibrate` left.
    pub fn find(name: &str) -> Result<Self, MachineError> {
        if name.contains('/') || Path::new(name).extension().is_some_and(|e| e == "toml") {
            return Self::load(Path::new(name));
        }
        if name == HERE {
            return Self::load(&find_calibration_file()?);
        }
        if name.len() > LONGEST_NAME {
            return Err(MachineError::TooLong(name.len()));
        }
        if let Some(text) = find_builtin_machine_text(name) {
            return Self::parse(text, name);
        }
        if let Some(system) = recorded::find_recorded_system(name) {
            return Self::from_recorded(system);
        }
        if builtin_intel_idle_tables()
            .iter()
            .any(|table| table.name == name)
        {
            return Err(MachineError::OnlyStates {
                name: name.to_owned(),
            });
        }
        if machine_file_in_directory(Path::new(name)).is_file() {
            return Self::load(Path::new(name));
        }
        Err(MachineError::Unknown {
            name: name.to_owned(),
            nearest: most_similar_machine_name(name).to_owned(),
            known: builtin_machine_names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Reads a machine file, or the machine file in a capture's directory.
    pub fn load(path: &Path) -> Result<Self, MachineError> {
        let in_directory = machine_file_in_directory(path);
        let file = if in_directory.is_file() {
            &in_directory
        } else {
            path
        };
        let text = read_machine_or_drive_text(file)?;
        Self::parse_with_folder_for_like(&text, &file.display().to_string(), file.parent())
    }

    /// Parses and checks a machine description; `origin` names it in errors. The machine may be `like` a built-in or
    /// recorded one.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MachineError> {
        Self::parse_with_folder_for_like(text, origin, None)
    }

    /// As [`Self::parse`]; the machine may also be `like` one in a file of `folder`.
    fn parse_with_folder_for_like(
        text: &str,
        origin: &str,
        folder: Option<&Path>,
    ) -> Result<Self, MachineError> {
        let Some(whole) = like::merge_file_with_like_chain(text, origin, folder)? else {
            return parse_machine_without_like(text, origin);
        };
        let machine: Self =
            whole
                .try_into()
                .map_err(|e: toml::de::Error| MachineError::Invalid {
                    origin: origin.to_owned(),
                    key: "machine".to_owned(),
                    message: e.to_string().trim_end().replace('\n', " "),
                })?;
        machine.check_with_origin_in_errors(origin)?;
        Ok(machine)
    }
}

/// Name of the machine whose title or name is most similar.
fn most_similar_machine_name(name: &str) -> &'static str {
    let recorded = builtin_recorded_systems().iter().map(|s| s.name.as_str());
    find_system_by_words_of_processor(name)
        .or_else(|| Some(most_similar_name(name, builtin_machine_names().chain(recorded))?.1))
        .unwrap_or_default()
}

/// Path of the machine file in a capture's directory.
fn machine_file_in_directory(directory: &Path) -> PathBuf {
    directory.join("machine.toml")
}

/// Name of the first system whose processor has every word of a title such as `Xeon 8460H`.
fn find_system_by_words_of_processor(name: &str) -> Option<&'static str> {
    let words: Vec<String> = name.split_whitespace().map(str::to_lowercase).collect();
    // `Xeon` alone identifies no processor.
    if !words.iter().any(|word| contains_digit(word)) {
        return None;
    }
    let mut systems = builtin_recorded_systems().iter();
    let found = systems.find(|system| contains_all_lower_case_words(&system.cpu_model, &words));
    found.map(|system| system.name.as_str())
}

fn contains_digit(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit())
}

/// Whether a title has every word; the words are in lower case.
fn contains_all_lower_case_words(title: &str, words: &[String]) -> bool {
    let lower_case = title.to_lowercase();
    words.iter().all(|word| lower_case.contains(word.as_str()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::builtin::BUILTIN;

    #[test]
    fn every_built_in_machine_loads_and_is_named_after_its_file() {
        for name in builtin_machine_names() {
            assert_eq!(Machine::find(name).unwrap().name, name);
        }
    }

    #[test]
    fn a_processor_s_name_leads_to_its_machine() {
        let error = Machine::find("Xeon 8460H").unwrap_err().to_string();
        assert!(error.contains("spr1"), "{error}");
    }

    #[test]
    fn rk3399_is_fitted_with_at_most_three_numbers() {
        let machine = Machine::find("rk3399").unwrap();
        let fitted = machine
            .figures()
            .into_iter()
            .filter(|f| f.figure.fitted_to().is_some());
        assert!((1..=3).contains(&fitted.count()));
    }

    #[test]
    fn nothing_is_fitted_but_what_a_published_part_needs() {
        for name in builtin_machine_names().filter(|name| *name != "rk3399") {
            let machine = Machine::find(name).unwrap();
            let fitted: Vec<_> = machine
                .figures()
                .into_iter()
                .filter(|f| f.figure.fitted_to().is_some())
                .collect();
            let allowed = match name {
                "rk3399-depth" => 4,
                "intel-tbench-80t" => 2,
                "xeon-6741p" => 1,
                _ => 0,
            };
            assert!(fitted.len() <= allowed, "{name}: {fitted:?}");
        }
    }

    #[test]
    fn every_figure_of_a_built_in_machine_says_where_it_comes_from() {
        for name in builtin_machine_names() {
            let machine = Machine::find(name).unwrap();
            for figure in machine.figures() {
                let (key, text) = (&figure.key, figure.origin_in_words());
                let none = text.len() < 5 || text.starts_with("none");
                assert!(!none, "{name}: {key}: '{text}'");
            }
        }
    }

    #[test]
    fn every_x86_machine_polls_first_and_every_machine_knows_its_power() {
        for name in builtin_machine_names() {
            let machine = Machine::find(name).unwrap();
            let arm = ["rk3399", "rk3399-depth", "apple-m1-pro", "ampere-altra"].contains(&name);
            assert_eq!(machine.idle_state[0].polling, !arm, "{name}");
            assert!(machine.idle_state[1..].iter().all(|s| !s.polling), "{name}");
            for c in &machine.cluster {
                let powers: Vec<_> = c.opps.iter().map(|o| c.cpu_active_power(o)).collect();
                assert!(powers.is_sorted() && powers[0].0 > 0, "{name} {}", c.name);
                for state in machine.idle_state.iter().filter(|s| !s.polling) {
                    assert!(
                        state.given_power_or_0() <= powers[0],
                        "{name} {}",
                        state.name
                    );
                }
            }
        }
    }

    #[test]
    fn machines_have_the_published_cpus_and_drives() {
        for (name, cpus, drives) in [
            ("rk3399", 6, 1),
            ("rk3399-depth", 6, 1),
            ("apple-m1-pro", 8, 1),
            ("xeon-e3-1240v5", 8, 1),
            ("skylake-2s-server", 104, 1),
            ("xeon-6741p", 96, 6),
            ("intel-tbench-80t", 80, 1),
            ("epyc-7502", 128, 1),
            ("laptop", 4, 1),
            ("ampere-altra", 80, 1),
        ] {
            let machine = Machine::find(name).unwrap();
            assert_eq!(
                (machine.cpus(), machine.drive.count),
                (cpus, drives),
                "{name}"
            );
        }
        let tbench = Machine::find("intel-tbench-80t").unwrap();
        let states: Vec<_> = tbench
            .idle_state
            .iter()
            .map(|s| {
                (
                    s.name.as_str(),
                    s.target_residency_us.value,
                    s.exit_latency_us.value,
                )
            })
            .collect();
        assert_eq!(
            states,
            [
                ("POLL", 0.0, 0.0),
                ("C1", 2.0, 2.0),
                ("C1E", 20.0, 10.0),
                ("C3", 100.0, 33.0),
                ("C6", 400.0, 133.0)
            ]
        );
    }

    /// A machine file before power was part of the format.
    fn without_power(text: &str) -> String {
        let optional = [
            "_mw =",
            "dynamic_power",
            "exit_spread",
            "cold_start",
            "_uv =",
        ];
        text.split_inclusive('\n')
            .filter(|line| !optional.iter().any(|key| line.contains(key)))
            .collect()
    }

    #[test]
    fn power_is_optional_and_then_nothing() {
        let machine = Machine::parse(&without_power(BUILTIN[0].1), "m.toml").unwrap();
        assert!(machine.package.is_none());
        for c in &machine.cluster {
            assert_eq!(c.cpu_active_power(&c.opps[0]).0, 0);
            assert_eq!(
                (
                    c.power_besides_cpus_when_up().0,
                    c.power_besides_cpus_when_down().0
                ),
                (0, 0)
            );
        }
        assert!(
            machine
                .idle_state
                .iter()
                .all(|s| s.given_power_or_0().0 == 0 && !s.power_mw.is_given())
        );
    }

    #[test]
    fn an_unknown_machine_suggests_the_nearest() {
        let message = Machine::find("rk3388").unwrap_err().to_string();
        assert!(message.contains("did you mean 'rk3399'"), "{message}");
    }

    #[test]
    fn a_recorded_system_is_a_machine_if_enough_of_it_was_recorded() {
        assert_eq!(Machine::find("rome0").unwrap().name, "rome0");
        let message = Machine::find("cwf0").unwrap_err().to_string();
        assert!(
            message.starts_with("cwf0 is a recorded system whose idle states"),
            "{message}"
        );
    }

    #[test]
    fn impossible_values_name_their_key() {
        let text = BUILTIN[0].1;
        for (from, to, key) in [
            ("true_exit_us = 1\n", "true_exit_us = -1\n", "true_exit_us"),
            ("true_exit_us = 1\n", "true_exit_us = nan\n", "true_exit_us"),
            ("cpus = 4", "cpus = 0", "cluster.little.cpus"),
            (
                "khz = 600000, uv = 825000 },\n  { khz = 816000, uv = 850000",
                "khz = 900000, uv = 825000 },\n  { khz = 816000, uv = 850000",
                "opps",
            ),
            (
                "completion = { cpu = 0",
                "completion = { cpu = 6",
                "io_path.completion.cpu",
            ),
            (
                "home = { cluster = \"big\"",
                "home = { cluster = \"huge\"",
                "scheduler.home.cluster",
            ),
            ("resume_share = 0.208", "resume_share = 0.4", "io_path"),
            ("schema = 1", "schema = 2", "schema"),
            (
                "power_mw = { value = 10,",
                "power_mw = { value = -1,",
                "idle_state.WFI.power_mw",
            ),
            (
                "power_mw = { value = 10,",
                "power_mw = { value = 1e10,",
                "idle_state.WFI.power_mw",
            ),
            (
                "power_mw = { value = 0,",
                "power_mw = { value = 11,",
                "idle_state.cpu-sleep.power_mw",
            ),
            (
                "static_mw = { value = 10,",
                "static_mw = { value = inf,",
                "cluster.little.static_mw",
            ),
            (
                "cluster_on_mw = { value = 56,",
                "cluster_on_mw = { value = 5,",
                "cluster.little.cluster_off_mw",
            ),
            (
                "_v2 = { value = 436,",
                "_v2 = { value = nan,",
                "cluster.big.dynamic_power_uw_per_mhz_v2",
            ),
            (
                "khz = 408000, uv = 825000",
                "khz = 408000",
                "cluster.little.dynamic_power_uw_per_mhz_v2",
            ),
            (
                "khz = 408000, uv = 825000",
                "khz = 408000, uv = 82500000",
                "cluster.little.opps",
            ),
            (
                "true_exit_us = 1\n",
                "true_exit_us = 1\nexit_spread = 11\n",
                "idle_state.WFI.exit_spread",
            ),
            (
                "true_exit_us = 1\n",
                "true_exit_us = 1\ndeeper_after_us = 300\n",
                "idle_state.WFI",
            ),
            (
                "true_exit_us = 1\n",
                "true_exit_us = 1\ndeeper_after_us = 300\ndeeper_exit_us = 0.5\n",
                "idle_state.WFI.deeper_exit_us",
            ),
            (
                "cpus = 4",
                "cpus = 4\nthreads_per_core = 3",
                "cluster.little.threads_per_core",
            ),
            (
                "cpus = 4",
                "cpus = 4\nsmt_speedup = 1.5",
                "cluster.little.smt_speedup",
            ),
            (
                "cpus = 4",
                "cpus = 4\nsmt_poll_loss = 1",
                "cluster.little.smt_poll_loss",
            ),
            (
                "cpus = 4",
                "cpus = 4\nclock_cpus = 0",
                "cluster.little.clock_cpus",
            ),
            (
                "cpus = 4",
                "cpus = 4\nclock_slot_us = 0",
                "cluster.little.clock_slot_us",
            ),
            (
                "cpus = 4",
                "cpus = 4\nbase_mhz = 9999",
                "cluster.little.base_mhz",
            ),
            (
                "cpus = 4",
                "cpus = 4\nclock_slot_us = 500\nturbo = [{ active_cores = 2, khz = 1200000 }, { active_cores = 1, khz = 1000000 }]",
                "cluster.little.turbo",
            ),
            (
                "cpus = 4",
                "cpus = 4\nturbo = [{ active_cores = 1, khz = 1200000 }]",
                "cluster.little.clock_slot_us",
            ),
            (
                "cpus = 4",
                "cpus = 4\nhwp_ramp_ms = 5\nhwp_full_at_percent = 50",
                "cluster.little.hwp_ramp_ms",
            ),
            (
                "cpus = 4",
                "cpus = 4\nbase_mhz = 1000\nclock_slot_us = 500\nhwp_ramp_ms = 5\nhwp_full_at_percent = 100",
                "cluster.little.hwp_full_at_percent",
            ),
            (
                "cpus = 4",
                "cpus = 4\nlowest_uv = 700000",
                "cluster.little.lowest_uv",
            ),
            ("name = \"big\"", "name = \"little\"", "cluster"),
            ("[drive]\n", "[drive]\ncount = 2\n", "drive.chunk_kib"),
            ("[drive]\n", "[drive]\ncount = 0\n", "drive.count"),
            (
                "[drive]\n",
                "[drive]\nrest_after_ms = 50\n",
                "drive.rest_after_ms",
            ),
            (
                "[drive]\n",
                "[drive]\ndeeper_rest = [{ after_ms = 50, exit_us = 100 }]\n",
                "drive.deeper_rest",
            ),
            (
                "[drive]\n",
                "[drive]\nrest_after_ms = 1\nrest_exit_us = 40\ndeeper_rest = [{ after_ms = 50, exit_us = 30 }]\n",
                "drive.deeper_rest",
            ),
            (
                "[drive]\n",
                "[drive]\nflash = { program_us = 450, read_mb_per_s = 100 }\n",
                "drive.flash",
            ),
            (
                "[drive]\n",
                "[drive]\ncount = 2\nchunk_kib = 0\n",
                "drive.chunk_kib",
            ),
            (
                "[drive]\n",
                "[drive]\nread_stream_mb_per_s = 0.5\n",
                "drive.read_stream_mb_per_s",
            ),
            (
                "completion = { cpu = 0",
                "completion = { queues = 0",
                "io_path.completion.queues",
            ),
            (
                "completion = { cpu = 0",
                "completion = { same_cpu_share = 1.5",
                "io_path.completion.same_cpu_share",
            ),
            (
                "completion = { cpu = 0",
                "completion = { coalesce = 8",
                "io_path.completion.coalesce_us",
            ),
            (
                "completion = { cpu = 0",
                "completion = { cpu = 0, when_empty = 0.5",
                "io_path.completion.when_empty",
            ),
            (
                "completion = { cpu = 0",
                "completion = { cpu = 0, when_empty = 1, coalesce = 8, coalesce_us = 9",
                "io_path.completion.when_empty",
            ),
            (
                "[io_path]\n",
                "[io_path]\ndoorbell_share = 0.9\n",
                "io_path.doorbell_share",
            ),
            (
                "[scheduler]\n",
                "[c1_demotion]\nto = \"WFI\"\nstates = [\"C6\"]\nwake_ups = 4\nwithin_us = 9\nundemote_us = 9\nsource = \"x\"\n[scheduler]\n",
                "c1_demotion.states",
            ),
            (
                "[scheduler]\n",
                "[c1_demotion]\nto = \"cpu-sleep\"\nstates = [\"WFI\"]\nwake_ups = 4\nwithin_us = 9\nundemote_us = 9\nsource = \"x\"\n[scheduler]\n",
                "WFI is not deeper",
            ),
            (
                "[scheduler]\n",
                "[uncore]\nmin_mhz = 900\nmax_mhz = 800\nslot_us = 500\nlowest_uv = 1\nhighest_uv = 1\ndynamic_power_uw_per_mhz_v2 = 1\nsource = \"x\"\n[scheduler]\n",
                "uncore.min_mhz",
            ),
            (
                "[scheduler]\n",
                "[uncore]\nmin_mhz = 800\nmax_mhz = 900\nslot_us = 0\nlowest_uv = 1\nhighest_uv = 1\ndynamic_power_uw_per_mhz_v2 = 1\nsource = \"x\"\n[scheduler]\n",
                "uncore.slot_us",
            ),
            (
                "[io_path]\n",
                "[power_limit]\npl1_mw = 0\npl1_window_ms = 100\nsource = \"x\"\n[io_path]\n",
                "power_limit.pl1_mw",
            ),
            (
                "[io_path]\n",
                "[power_limit]\npl1_mw = 9000\npl1_window_ms = 0.5\nsource = \"x\"\n[io_path]\n",
                "power_limit.pl1_window_ms",
            ),
            (
                "[io_path]\n",
                "[power_limit]\npl1_mw = 9000\npl1_window_ms = 100\npl2_mw = 8000\npl2_window_ms = 9\nsource = \"x\"\n[io_path]\n",
                "power_limit.pl2_mw",
            ),
            (
                "[io_path]\n",
                "[power_limit]\npl1_mw = 9000\npl1_window_ms = 100\npl2_mw = 9500\nsource = \"x\"\n[io_path]\n",
                "power_limit.pl2_window_ms",
            ),
            (
                "[io_path]\n",
                "[power_limit]\npl1_mw = 9000\npl1_window_ms = 100\nclusters = 3\nsource = \"x\"\n[io_path]\n",
                "power_limit.clusters",
            ),
            (
                "[io_path]\n",
                "[power_limit]\npl1_mw = 9000\npl1_window_ms = 100\nsource = \"x\"\n[io_path]\n",
                "power limits need it",
            ),
            (
                "[io_path]\n",
                "[package]\nidle_mw = -5\nsource = \"x\"\n[io_path]\n",
                "package.idle_mw",
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let message = Machine::parse(&text.replacen(from, to, 1), "m.toml")
                .unwrap_err()
                .to_string();
            assert!(
                message.starts_with("m.toml: ") && message.contains(key),
                "{message}"
            );
        }
    }

    #[test]
    fn an_exit_latency_above_the_target_residency_is_legal() {
        let text = BUILTIN[0]
            .1
            .replacen("exit_latency_us = 370", "exit_latency_us = 1500", 1);
        assert!(Machine::parse(&text, "m.toml").is_ok());
    }

    proptest! {
        /// Any number put in the place of any other: the file is refused with a message that names it, or every
        /// figure is in range and every power can be computed.
        #[test]
        fn a_machine_with_a_changed_number_is_refused_or_sound(
            which in 0..BUILTIN.len(),
            place in any::<prop::sample::Index>(),
            number in prop_oneof![
                Just(f64::NAN), Just(f64::INFINITY), -1e3..0.0, 0.0..10.0, 0.0..1e6, 1e8..1e15,
            ],
        ) {
            let text = BUILTIN[which].1;
            let places: Vec<_> = text.match_indices("= ").filter(|(at, _)| {
                text[at + 2..].starts_with(|c: char| c.is_ascii_digit())
            }).collect();
            let start = places[place.index(places.len())].0 + 2;
            let end = start + text[start..].find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
            let whole = number.fract() == 0.0 || !text[start..end].contains('.');
            let number = if whole && number.is_finite() {
                format!("{number:.0}")
            } else {
                format!("{number:?}").to_lowercase()
            };
            let changed = format!("{}{number}{}", &text[..start], &text[end..]);
            match Machine::parse(&changed, "m.toml") {
                Err(error) => prop_assert!(error.to_string().starts_with("m.toml:")),
                Ok(machine) => {
                    for figure in machine.figures() {
                        prop_assert!((0.0..=1e12).contains(&figure.figure.value), "{}", figure.key);
                    }
                    for c in &machine.cluster {
                        for opp in &c.opps {
                            let most = u128::from(u64::MAX / 1000);
                            prop_assert!(u128::from(c.cpu_active_power(opp).0) < most);
                        }
                    }
                    prop_assert_eq!(machine.common_declared_idle_states().unwrap().len(), machine.idle_state.len());
                }
            }
        }
    }

    #[test]
    fn a_typing_error_names_its_line() {
        let text = "schema = 1\nname = \"x\"\nhz = { value = 250 }\n";
        let message = Machine::parse(text, "m.toml").unwrap_err().to_string();
        assert!(message.starts_with("m.toml:3: "), "{message}");
    }
}
