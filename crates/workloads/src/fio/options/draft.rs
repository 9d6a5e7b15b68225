//! A job whose options are still being read.

use std::collections::BTreeMap;

use crate::fio::FioJob;
use crate::fio::error::Place;
use crate::fio::values::KbBase;

/// A job whose options are still being read.
#[derive(Clone, Default)]
pub(in crate::fio) struct Draft {
    pub(in crate::fio) job: FioJob,
    /// Section header.
    pub(super) header: Place,
    /// A line was not understood, and may contain what seems missing.
    pub(super) incomplete: bool,
    /// What the suffix `k` of a size stands for in this section: 1000 or 1024.
    pub(super) kb_base: KbBase,
    /// Options given so far, by first name.
    pub(super) given: BTreeMap<&'static str, GivenValue>,
}

/// Where an option was given last.
#[derive(Clone)]
pub(super) struct GivenValue {
    pub(super) place: Place,
    pub(super) value: String,
}

impl Draft {
    /// Starts a job for the section `name` with these defaults.
    pub(in crate::fio) fn for_job(&self, name: &str, place: &Place) -> Self {
        let mut draft = self.clone();
        draft.job.line = place.line;
        draft.header = place.clone();
        // Also where [global] has a name option: fio 3.33 prefers the section's name then.
        name.clone_into(&mut draft.job.name);
        draft
    }

    /// Line of the section header.
    pub(in crate::fio) fn header(&self) -> &Place {
        &self.header
    }

    /// Value given for an option, by first name.
    pub(super) fn value_of(&self, option: &str) -> Option<&str> {
        self.given.get(option).map(|given| given.value.as_str())
    }

    /// Where an option was given, by its first name, or else the job's header.
    pub(in crate::fio) fn place_of(&self, option: &str) -> &Place {
        self.given
            .get(option)
            .map_or(&self.header, |given| &given.place)
    }
}
