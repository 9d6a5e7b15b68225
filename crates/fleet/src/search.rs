//! What a fleet's classes are searched for, as values that another process can read.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wakepath_results::{Goal, LoadCondition};
use wakepath_tune::{Budget, DailyLoad, LoadArgument, SearchObjective, SearchRequest};
use wakepath_units::{Nanoseconds, printable};
use wakepath_workloads::Workload;

use crate::FleetError;

/// Loads, objective, conditions and budget of a fleet's search, as values that another process can read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetSearch {
    /// Longest time that each fio job, or an rt-app file, is simulated for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Nanoseconds>,
    /// The metric to make small.
    pub minimise: String,
    /// Conditions on each set, such as `p99_us < 150`.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// Mechanisms to change, as for `tune --over`; empty: the usual.
    #[serde(default)]
    pub over: Vec<String>,
    /// Requests to simulate for each class, and for each machine that the class's set is tried on.
    pub budget: u64,
    /// The number from which all seeds follow.
    pub seed: u64,
    /// The loads.
    pub loads: Vec<FleetLoad>,
}

/// The options of a survey as people give them, for the command that makes it again.
#[derive(Clone, Debug)]
pub struct SurveyOptions {
    /// Labels, each with its pattern, as in `rack1/*=web`.
    pub labels: Vec<String>,
    /// Patterns of the surveyed machines' names; empty: all machines.
    pub only: Vec<String>,
    /// A class with fewer machines joins the nearest class.
    pub fewest: usize,
    /// Machines of a class that are examined as doctor does.
    pub examined: usize,
}

impl SurveyOptions {
    /// [`Self::fewest`] unless somebody gives another number.
    pub const DEFAULT_FEWEST: u16 = 3;
    /// [`Self::examined`] unless somebody gives another number.
    pub const DEFAULT_EXAMINED: u16 = 5;

    /// The command that surveys and searches the fleet in a folder again, quoted for a shell.
    pub fn to_command(&self, folder: &Path, search: Option<&FleetSearch>) -> String {
        let mut words = vec!["wakepath".to_owned(), "fleet".to_owned()];
        words.push(folder.display().to_string());
        let mut push_option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        for label in &self.labels {
            push_option("--label", label.clone());
        }
        for pattern in &self.only {
            push_option("--only", pattern.clone());
        }
        if self.fewest != usize::from(Self::DEFAULT_FEWEST) {
            push_option("--fewest", self.fewest.to_string());
        }
        if self.examined != usize::from(Self::DEFAULT_EXAMINED) {
            push_option("--examine", self.examined.to_string());
        }
        if let Some(search) = search {
            for load in &search.loads {
                push_option("--load", format!("{}={}h", load.path.display(), load.hours));
            }
            push_option("--minimise", search.minimise.clone());
            for condition in search.conditions_in_usual_form() {
                push_option("--keep", condition);
            }
            if !search.over.is_empty() {
                push_option("--over", search.over.join(","));
            }
            if let Some(time) = search.at_most {
                push_option("--seconds", format!("{}us", time.0 as f64 / 1e3));
            }
            push_option("--budget", search.budget.to_string());
            push_option("--seed", search.seed.to_string());
        }
        let quoted = words.iter().map(|word| printable::quote_shell_word(word));
        quoted.collect::<Vec<_>>().join(" ")
    }
}

/// A load of a fleet's search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetLoad {
    /// The file's absolute path.
    pub path: PathBuf,
    /// Name of the load in conditions and tables.
    pub name: String,
    /// Hours per day.
    pub hours: f64,
}

impl FleetLoad {
    /// Parses loads as people write them, such as `db.fio=6h`.
    ///
    /// # Errors
    /// Hours that no day has.
    pub fn parse_all(texts: &[String]) -> Result<Vec<Self>, FleetError> {
        let parsed = texts.iter().map(|text| LoadArgument::parse(text));
        let arguments = parsed.collect::<Result<Vec<LoadArgument>, _>>()?;
        let hours = LoadArgument::share_hours_of_day(&arguments);
        let loads = arguments
            .into_iter()
            .zip(hours)
            .map(|(argument, hours)| Self {
                name: argument.name(),
                path: std::path::absolute(&argument.path).unwrap_or(argument.path),
                hours,
            });
        Ok(loads.collect())
    }

    /// Reads the load's file.
    ///
    /// # Errors
    /// The file cannot be read, or is no workload.
    pub fn read_workload(&self) -> Result<Workload, FleetError> {
        Ok(Workload::load(&self.path)?)
    }

    /// Reads the load for a search that simulates each job for at most `at_most`.
    fn read_for(&self, at_most: Option<Nanoseconds>) -> Result<DailyLoad, FleetError> {
        let workload = self.read_workload()?;
        Ok(DailyLoad {
            name: self.name.clone(),
            workload: Some(workload.with_time_limit_and_fio_warm_up(at_most, None)),
            hours: self.hours,
        })
    }
}

impl FleetSearch {
    /// The conditions as results write them. An unreadable condition stays as it is.
    pub(crate) fn conditions_in_usual_form(&self) -> Vec<String> {
        let texts = self.conditions.iter().map(|text| {
            text.parse::<LoadCondition>()
                .map_or_else(|_| text.clone(), |condition| condition.to_string())
        });
        texts.collect()
    }

    /// Reads the loads, and makes the request for a search.
    ///
    /// # Errors
    /// A load, a metric or a condition cannot be read.
    pub fn make_request(&self) -> Result<SearchRequest, FleetError> {
        let loads = self.loads.iter().map(|load| load.read_for(self.at_most));
        let conditions = self
            .conditions
            .iter()
            .map(|text| text.parse::<LoadCondition>());
        Ok(SearchRequest {
            loads: loads.collect::<Result<_, FleetError>>()?,
            objective: SearchObjective::new(&self.minimise, Goal::Minimise)?,
            conditions: conditions.collect::<Result<_, _>>()?,
            budget: Budget(self.budget),
            seed: self.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_every_option_quoted_for_a_shell() {
        let search = FleetSearch {
            at_most: Some(Nanoseconds::from_millis(50)),
            minimise: "mean_mw".to_owned(),
            conditions: vec!["p99_us < 150".to_owned()],
            over: vec!["idle".to_owned(), "psd".to_owned()],
            budget: 300_000,
            seed: 7,
            loads: vec![FleetLoad {
                path: PathBuf::from("/l/it's.fio"),
                name: "it's".to_owned(),
                hours: 7.5,
            }],
        };
        let options = SurveyOptions {
            labels: vec!["rack1/*=web".to_owned()],
            only: vec!["rack*".to_owned()],
            fewest: 2,
            examined: 5,
        };
        assert_eq!(
            options.to_command(Path::new("my captures"), Some(&search)),
            r"wakepath fleet 'my captures' --label 'rack1/*=web' --only 'rack*' --fewest 2 --load '/l/it'\''s.fio=7.5h' --minimise mean_mw --keep 'p99_us < 150' --over 'idle,psd' --seconds 50000us --budget 300000 --seed 7"
        );
        assert_eq!(
            SurveyOptions {
                labels: Vec::new(),
                only: Vec::new(),
                fewest: 3,
                ..options
            }
            .to_command(Path::new("captures"), None),
            "wakepath fleet captures"
        );
    }
}
