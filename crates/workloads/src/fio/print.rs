//! Printing job files: every option of every job, so that nothing depends on a default.

use std::fmt::{self, Display, Write};

use super::{FioJob, FioJobFile, options};

impl Display for FioJobFile {
    /// Prints a job file that [`super::parse`] and fio read as the same jobs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, job) in self.jobs.iter().enumerate() {
            if i > 0 {
                f.write_char('\n')?;
            }
            job.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for FioJob {
    /// Prints the job as a complete section.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if fits_in_section_header(&self.name) {
            writeln!(f, "[{}]", self.name)?;
        } else {
            writeln!(f, "[job]\nname={}", self.name)?;
        }
        for (option, value) in options::print_options(self) {
            writeln!(f, "{option}={value}")?;
        }
        Ok(())
    }
}

/// Whether a section header can hold this name; other names need the option `name`.
fn fits_in_section_header(name: &str) -> bool {
    !name.contains(['[', ']']) && !name.starts_with("global") && !name.trim().is_empty()
}
