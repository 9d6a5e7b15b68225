//! Lists of fio option values in a study: a workload for each combination.

use crate::file::{StudyError, StudyText, WorkloadEntry, check_name_length_and_characters};

/// Most workloads that one entry may make.
const MAX_WORKLOADS: usize = 1000;

/// Name and fio options for each workload that an entry makes. Names contain list values: `reads/rate_iops=2000`. The
/// last list changes fastest.
pub(super) fn name_and_options_of_each_combination(
    entry: &WorkloadEntry,
    source: StudyText<'_>,
) -> Result<Vec<(String, toml::Table)>, StudyError> {
    let mut all = vec![(entry.name.get_ref().clone(), entry.fio_options.clone())];
    for (key, list) in &entry.fio_options {
        let toml::Value::Array(values) = list else {
            continue;
        };
        if values.is_empty() {
            let message = format!("fio_options: the list of `{key}` is empty");
            return Err(source.error_at_value(&entry.name, message));
        }
        if all.len().saturating_mul(values.len()) > MAX_WORKLOADS {
            let message =
                format!("fio_options: lists that make more than {MAX_WORKLOADS} workloads");
            return Err(source.error_at_value(&entry.name, message));
        }
        let mut more = Vec::with_capacity(all.len() * values.len());
        for (name, options) in &all {
            for value in values {
                let shown = print_option_value(value).unwrap_or_default();
                let mut options = options.clone();
                options.insert(key.clone(), value.clone());
                more.push((format!("{name}/{key}={shown}"), options));
            }
        }
        all = more;
    }
    for (name, _) in &all {
        check_name_length_and_characters(
            source,
            &toml::Spanned::new(entry.name.span(), name.clone()),
        )?;
    }
    Ok(all)
}

/// A TOML value in the syntax of a fio job file; `None` if a job file cannot have such a value.
pub(super) fn print_option_value(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(u8::from(*on).to_string()),
        _ => None,
    }
}
