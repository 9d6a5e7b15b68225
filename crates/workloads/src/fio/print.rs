//! Job files written out: every option of every job, so that nothing depends on a default.

use std::fmt::{self, Display, Write};

use super::{FioJob, FioJobFile, PerDirection, Size};

impl Display for FioJobFile {
    /// Writes a file that [`super::parse`] and fio read as the same jobs.
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
    /// Writes the job as a section of its own. `thinkcycles` is left out where it is 0, because
    /// older versions of fio do not know it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if can_be_a_header(&self.name) {
            writeln!(f, "[{}]", self.name)?;
        } else {
            writeln!(f, "[job]\nname={}", self.name)?;
        }
        if let Some(text) = &self.description {
            writeln!(f, "description={text}")?;
        }
        if let Some(filename) = &self.filename {
            writeln!(f, "filename={filename}")?;
        }
        writeln!(f, "rw={}", self.rw)?;
        writeln!(f, "rwmixread={}", self.rwmixread)?;
        writeln!(f, "bs={},{}", self.block_size.read, self.block_size.write)?;
        writeln!(f, "iodepth={}", self.iodepth)?;
        writeln!(f, "numjobs={}", self.numjobs)?;
        writeln!(f, "ioengine={}", self.ioengine)?;
        writeln!(f, "direct={}", u8::from(self.direct))?;
        match self.size {
            Some(Size::Bytes(bytes)) => writeln!(f, "size={bytes}")?,
            Some(Size::Percent(percent)) => writeln!(f, "size={percent}%")?,
            None => {}
        }
        if let Some(runtime) = self.runtime {
            writeln!(f, "runtime={}us", runtime.as_micros())?;
        }
        writeln!(f, "time_based={}", u8::from(self.time_based))?;
        writeln!(f, "thinktime={}us", self.thinktime.as_micros())?;
        writeln!(f, "thinktime_spin={}us", self.thinktime_spin.as_micros())?;
        writeln!(f, "thinktime_blocks={}", self.thinktime_blocks)?;
        if self.thinkcycles > 0 {
            writeln!(f, "thinkcycles={}", self.thinkcycles)?;
        }
        write_limit(f, "rate", self.rate)?;
        write_limit(f, "rate_iops", self.rate_iops)?;
        writeln!(f, "norandommap={}", u8::from(self.norandommap))?;
        writeln!(f, "group_reporting={}", u8::from(self.group_reporting))?;
        writeln!(f, "stonewall={}", u8::from(self.stonewall))
    }
}

fn write_limit(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    limit: PerDirection<Option<u64>>,
) -> fmt::Result {
    match (limit.read, limit.write) {
        (None, None) => Ok(()),
        (Some(read), Some(write)) => writeln!(f, "{name}={read},{write}"),
        (Some(read), None) => writeln!(f, "{name}={read},"),
        (None, Some(write)) => writeln!(f, "{name}=,{write}"),
    }
}

/// Whether a section header can say this name, or only the option `name`, which takes any.
fn can_be_a_header(name: &str) -> bool {
    !name.contains(['[', ']']) && !name.starts_with("global") && !name.trim().is_empty()
}
