//! Why results cannot be compared.

/// Why nothing can be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// No results.
    #[error("nothing to compare: there is no finished run")]
    Nothing,
    /// A name that the user gave is unknown in the results.
    #[error("no {what} is called `{name}`; there are {known}")]
    Unknown {
        /// Kind of the unknown name: policy, machine, workload or metric.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// Known names of this kind, separated by commas.
        known: String,
    },
    /// A choice among policies needs a metric that has no values.
    #[error(
        "no policy has `{metric}` on the workload `{workload}`: ask about workloads that have it"
    )]
    NoFigures {
        /// Metric name.
        metric: String,
        /// Workload name.
        workload: String,
    },
    /// Power counts different things on different machines, and is not compared.
    #[error("{0}")]
    MixedPower(String),
    /// A metric has different units in two results.
    #[error(
        "`{metric}` is in {one} in {first} and in {other} in {second}: results in different units cannot be compared"
    )]
    MixedUnits {
        /// Metric name.
        metric: String,
        /// Unit of the metric in the first source.
        one: String,
        /// First source.
        first: String,
        /// Unit of the metric in the second source.
        other: String,
        /// Second source.
        second: String,
    },
}
