//! Parsing a study file, and checking what needs no other file.

use toml::Spanned;

use super::error::StudyError;
use super::policy::{PolicyEntry, PolicyItem};
use super::study::{MetricEntry, StudyFile, WorkloadEntry};
use super::text::{StudyText, check_name_length_and_characters};

/// Most repeats that a study may have.
const MAX_REPEATS: u32 = 100_000;

impl StudyFile {
    /// Parses a study file and checks what needs no other file.
    ///
    /// # Errors
    /// The text is no TOML, keys are unknown, values out of range, or names used twice or unknown.
    pub fn parse(source: StudyText<'_>) -> Result<Self, StudyError> {
        let text = source.text.unwrap_or_default();
        let study: Self = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            let message = wakepath_units::spelling::toml_error_with_key(e.message(), text, at);
            source.error_at_byte(at, message)
        })?;
        study.check_without_other_files(source)?;
        Ok(study)
    }

    /// Checks what needs no other file.
    ///
    /// # Errors
    /// As [`StudyFile::parse`].
    pub(crate) fn check_without_other_files(
        &self,
        source: StudyText<'_>,
    ) -> Result<(), StudyError> {
        check_name_length_and_characters(source, &self.name)?;
        if self.name.get_ref().contains('/') {
            let message = "the name of a study has no `/`: it becomes that of a directory";
            return Err(source.error_at_value(&self.name, message));
        }
        self.check_ranges_of_study_numbers(source)?;
        if self.workload.is_empty() {
            return Err(
                source.error_at_value(&self.name, "no [[workload]]: there is nothing to run")
            );
        }
        self.check_workload_entries_and_names(source)?;
        for item in &self.policy {
            if let PolicyItem::Table(PolicyEntry {
                name: Some(name), ..
            }) = item.get_ref()
            {
                check_name_length_and_characters(source, name)?;
            }
        }
        self.check_published_and_expect_entries(source)
    }

    fn check_ranges_of_study_numbers(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        require_number_in_range(source, &self.level, "level", 0.5, 0.999)?;
        require_number_in_range(source, &self.margin_percent, "margin_percent", 0.0, 1000.0)?;
        require_number_in_range(source, &self.settle_s, "settle_s", 0.0, 3600.0)?;
        if let Some(warm_up) = &self.warm_up_s {
            require_number_in_range(source, warm_up, "warm_up_s", 0.0, 1e6)?;
        }
        if !(1..=MAX_REPEATS).contains(self.repeats.get_ref()) {
            let message = format!("`repeats` may be 1 to {MAX_REPEATS}");
            return Err(source.error_at_value(&self.repeats, message));
        }
        Ok(())
    }

    fn check_workload_entries_and_names(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        let mut names: Vec<&str> = Vec::new();
        for workload in &self.workload {
            let name = workload.name.get_ref();
            check_name_length_and_characters(source, &workload.name)?;
            if names.contains(&name.as_str()) {
                let message = format!("a second workload is called `{name}`");
                return Err(source.error_at_value(&workload.name, message));
            }
            names.push(name);
            workload.check(source)?;
        }
        Ok(())
    }

    /// Checks the `[[published]]` and `[[expect]]` entries, each by itself and both against each other.
    fn check_published_and_expect_entries(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        let mut names: Vec<&str> = Vec::new();
        for entry in &self.published {
            check_name_length_and_characters(source, &entry.name)?;
            let name = entry.name.get_ref();
            if names.contains(&name.as_str()) {
                let message = format!("a second [[published]] is called `{name}`");
                return Err(source.error_at_value(&entry.name, message));
            }
            names.push(name);
            for row in &entry.row {
                row.get_ref().check(row, source)?;
            }
        }
        match (self.published.first(), self.expect.first()) {
            (Some(entry), None) => {
                let message = "no [[expect]]: what has to hold of the published values?";
                return Err(source.error_at_value(&entry.name, message));
            }
            (None, Some(entry)) => {
                let message = "an [[expect]] needs a [[published]] that it is about";
                return Err(source.error_at_value(&entry.text, message));
            }
            (Some(entry), _) if self.source.is_none() => {
                let message = "no `source`: where were these values published?";
                return Err(source.error_at_value(&entry.name, message));
            }
            _ => {}
        }
        self.expect.iter().try_for_each(|entry| entry.check(source))
    }
}

fn require_number_in_range(
    source: StudyText<'_>,
    value: &Spanned<f64>,
    key: &str,
    low: f64,
    high: f64,
) -> Result<(), StudyError> {
    let number = *value.get_ref();
    if (low..=high).contains(&number) {
        return Ok(());
    }
    let message = format!("`{key}` is {number}, and may be {low} to {high}");
    Err(source.error_at_value(value, message))
}

impl WorkloadEntry {
    fn check(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        self.check_one_kind_is_given(source)?;
        self.refuse_rt_app_keys_without_rt_app(source)?;
        self.refuse_clients_without_server(source)?;
        self.check_warm_up_fits_kind_and_range(source)?;
        self.check_keys_of_trace(source)?;
        self.refuse_recording_keys_without_recording(source)?;
        self.check_command_and_its_metrics(source)?;
        self.check_seconds_fit_kind_and_range(source)?;
        self.metric
            .iter()
            .try_for_each(|metric| metric.check(source))
    }

    fn has_fio_job(&self) -> bool {
        self.fio.is_some() || self.fio_job.is_some()
    }

    fn check_one_kind_is_given(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        let name = self.name.get_ref();
        let kinds = [
            self.fio.is_some(),
            self.fio_job.is_some(),
            self.rt_app.is_some(),
            self.trace.is_some(),
            self.server.is_some(),
            self.tasks.is_some(),
            self.command.is_some(),
            self.recording.is_some(),
        ];
        if kinds.iter().filter(|given| **given).count() != 1 {
            let message = format!(
                "workload `{name}` needs one of `fio`, `fio_job`, `rt_app`, `trace`, `server`, `tasks`, `command` and `recording`"
            );
            return Err(source.error_at_value(&self.name, message));
        }
        if !self.fio_options.is_empty() && !self.has_fio_job() {
            let message = format!("workload `{name}`: `fio_options` are for fio jobs");
            return Err(source.error_at_value(&self.name, message));
        }
        Ok(())
    }

    fn refuse_rt_app_keys_without_rt_app(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        for (key, number) in [("copies", &self.copies), ("instances", &self.instances)] {
            if let Some(number) = number.as_ref().filter(|_| self.rt_app.is_none()) {
                let message = format!("`{key}` are for rt-app files; a fio job has numjobs");
                return Err(source.error_at_value(number, message));
            }
        }
        if let (Some(version), None) = (&self.rt_app_version, &self.rt_app) {
            return Err(source.error_at_value(version, "`rt_app_version` is for rt-app files"));
        }
        Ok(())
    }

    fn refuse_clients_without_server(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        match (&self.clients, &self.server) {
            (Some(clients), None) => {
                let message =
                    "`clients` is for servers; a fio job has numjobs, an rt-app file `instances`";
                Err(source.error_at_value(clients, message))
            }
            _ => Ok(()),
        }
    }

    fn check_warm_up_fits_kind_and_range(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        let Some(warm_up) = &self.warm_up_s else {
            return Ok(());
        };
        if self.rt_app.is_none() && self.server.is_none() && !self.has_fio_job() {
            let message = "`warm_up_s` is for fio jobs, rt-app files and servers";
            return Err(source.error_at_value(warm_up, message));
        }
        if !(0.0..=1e6).contains(warm_up.get_ref()) {
            return Err(source.error_at_value(warm_up, "`warm_up_s` may be 0 to 1000000"));
        }
        Ok(())
    }

    fn check_keys_of_trace(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        if let Some(from) = &self.from_s
            && !(0.0..=1e9).contains(from.get_ref())
        {
            return Err(source.error_at_value(from, "`from_s` may be 0 to 1000000000"));
        }
        let keys = [
            self.disk.as_ref().map(Spanned::span),
            self.from_s.as_ref().map(Spanned::span),
            self.dependent.as_ref().map(Spanned::span),
        ];
        if self.trace.is_none()
            && let Some(at) = keys.into_iter().flatten().next()
        {
            let message = "`disk`, `from_s` and `dependent` are for block traces";
            return Err(source.error_at_value(&Spanned::new(at, ()), message));
        }
        Ok(())
    }

    fn refuse_recording_keys_without_recording(
        &self,
        source: StudyText<'_>,
    ) -> Result<(), StudyError> {
        if self.recording.is_some() {
            return Ok(());
        }
        let keys = [
            self.states.as_ref().map(Spanned::span),
            self.hz.as_ref().map(Spanned::span),
            self.ran.as_ref().map(Spanned::span),
        ];
        if let Some(at) = keys.into_iter().flatten().next() {
            let message = "`states`, `hz` and `ran` are for recordings";
            return Err(source.error_at_value(&Spanned::new(at, ()), message));
        }
        Ok(())
    }

    fn check_command_and_its_metrics(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        match (&self.command, self.metric.first()) {
            (None, Some(metric)) => {
                let message = "only a command's output is searched for metrics; fio's are known";
                Err(source.error_at_value(&metric.name, message))
            }
            (Some(command), _) if command.get_ref().is_empty() => {
                Err(source.error_at_value(command, "the command has no words"))
            }
            _ => Ok(()),
        }
    }

    fn check_seconds_fit_kind_and_range(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        let Some(seconds) = &self.seconds else {
            return Ok(());
        };
        if self.command.is_some() {
            return Err(source.error_at_value(seconds, "a command ends when it ends"));
        }
        if self.recording.is_some() {
            return Err(source.error_at_value(seconds, "a recording is replayed to its end"));
        }
        if !(1e-3..=1e7).contains(seconds.get_ref()) {
            return Err(source.error_at_value(seconds, "`seconds` may be 0.001 to 10000000"));
        }
        Ok(())
    }
}

impl MetricEntry {
    fn check(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        check_name_length_and_characters(source, &self.name)?;
        if self.pattern.is_some() == self.json.is_some() {
            let message = format!(
                "metric `{}` needs either a `pattern` or a `json` pointer",
                self.name.get_ref()
            );
            return Err(source.error_at_value(&self.name, message));
        }
        Ok(())
    }
}
