//! What a fleet's classes are searched for, as values that another process can read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wakepath_results::{Goal, LoadCondition};
use wakepath_tune::{Budget, DailyLoad, LoadArgument, SearchObjective, SearchRequest};
use wakepath_units::Nanoseconds;
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
