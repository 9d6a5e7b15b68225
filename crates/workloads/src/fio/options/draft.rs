//! A job section while its options are read.

use std::collections::BTreeMap;

use crate::fio::FioJob;
use crate::fio::error::Place;
use crate::fio::values::KbBase;

/// A job while its options are read.
#[derive(Clone, Default)]
pub(in crate::fio) struct Draft {
    pub(in crate::fio) job: FioJob,
    /// Section header.
    pub(super) header: Place,
    /// Whether a line was not understood: then an option that seems missing may be meant by this line.
    pub(super) incomplete: bool,
    /// What the suffix `k` in a size stands for in this section: 1000 or 1024.
    pub(super) kb_base: KbBase,
    /// Values given so far, by the option's first name.
    pub(super) given: BTreeMap<&'static str, GivenValue>,
}

/// Line where each option was given last, by the option's first name.
#[derive(Clone)]
pub(super) struct GivenValue {
    pub(super) place: Place,
    pub(super) value: String,
}

impl Draft {
    /// A draft for the section `name`, with the defaults that this draft holds.
    pub(in crate::fio) fn for_section(&self, name: &str, place: &Place) -> Self {
        let mut draft = self.clone();
        draft.job.line = place.line;
        draft.header = place.clone();
        // The section's name counts even if [global] has the option `name`: fio 3.33 does the same.
        name.clone_into(&mut draft.job.name);
        draft
    }

    /// Line of the job's section header.
    pub(in crate::fio) fn header_place(&self) -> &Place {
        &self.header
    }

    /// The value given for an option, by the option's first name; `None` if not given.
    pub(super) fn given_value(&self, option: &str) -> Option<&str> {
        self.given.get(option).map(|given| given.value.as_str())
    }

    /// Line where an option was given, by the option's first name, or else the line of the job's header.
    pub(in crate::fio) fn place_of_option(&self, option: &str) -> &Place {
        self.given
            .get(option)
            .map_or(&self.header, |given| &given.place)
    }
}
