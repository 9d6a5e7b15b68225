//! Why results cannot be compared.

/// Why nothing can be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// No results.
    #[error("nothing to compare: there is no finished run")]
    Nothing,
    /// A name that the results do not have.
    #[error("no {what} is called `{name}`; there are {known}")]
    Unknown {
        /// Kind of the name: policy, machine, workload or metric.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// Known names, separated by commas.
        known: String,
    },
    /// A choice needs a metric without values.
    #[error(
        "no policy has `{metric}` on the workload `{workload}`: ask about workloads that have it"
    )]
    NoFigures {
        /// Name of the metric.
        metric: String,
        /// Name of the workload.
        workload: String,
    },
    /// Power of machines that counts different things.
    #[error("{0}")]
    MixedPower(String),
    /// The same name for different things.
    #[error(
        "`{metric}` is in {one} in {first} and in {other} in {second}: results in different units cannot be compared"
    )]
    MixedUnits {
        /// Name of the metric.
        metric: String,
        /// Unit in the first source.
        one: String,
        /// Name of the first source.
        first: String,
        /// Unit in the second source.
        other: String,
        /// Name of the second source.
        second: String,
    },
}
