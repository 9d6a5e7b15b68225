//! Jobs that a calibration runs.

use std::path::{Path, PathBuf};

use toml::{Table, Value};
use wakepath_study::file::MAX_BYTES;

use crate::error::CalibrateError;

/// Names and options: 4 KiB direct random reads without influence on any figure.
pub(crate) const JOBS: [(&str, &str); 4] = [
    ("reads", "ioengine=psync"),
    (
        "reads with pauses of 200 us",
        "ioengine=psync\nthinktime=200",
    ),
    (
        "reads with pauses of 2 ms",
        "ioengine=psync\nthinktime=2000",
    ),
    ("reads, 8 in flight", "ioengine=libaio\niodepth=8"),
];
/// How long a job of reads waits before its first request: on the machine and in the simulator a drive that rests is asleep by then.
pub(crate) const START_DELAY_SECONDS: f64 = 1.0;
/// How long a fitting job does not count: a drive that rests wakes meanwhile.
pub(crate) const FITTING_RAMP_SECONDS: f64 = 0.2;
/// Requests in flight of the last two fitting jobs.
pub(crate) const FEW: usize = 4;
pub(crate) const DEEP: usize = 32;
/// Names and options for fitting: a synchronous engine, an asynchronous one, and the latter with few in flight, and with more than a
/// CPU can serve. No job of [`JOBS`] has these depths.
pub(crate) const FITTING_JOBS: [(&str, &str); 4] = [
    ("fitting: psync", "ioengine=psync"),
    ("fitting: libaio", "ioengine=libaio\niodepth=1"),
    ("fitting: libaio, 4 in flight", "ioengine=libaio\niodepth=4"),
    (
        "fitting: libaio, 32 in flight",
        "ioengine=libaio\niodepth=32",
    ),
];
/// Fio options for file names.
const NAMES_FILES: [&str; 4] = ["filename", "directory", "filename_format", "nrfiles"];

/// A job for the machine and the simulator.
#[derive(Clone, Debug)]
pub(crate) struct CalibrationJob {
    pub(crate) name: String,
    source: JobSource,
}

/// Where a job's options are from.
#[derive(Clone, Debug)]
enum JobSource {
    /// Options beside those of a 4 KiB direct random read.
    Reads {
        options: &'static str,
        /// The option for how the job begins.
        begins: String,
    },
    /// A fio job file; without `names_files` the job leaves the choice to fio.
    File { path: PathBuf, names_files: bool },
}

impl CalibrationJob {
    /// Jobs of random reads to predict.
    pub(crate) fn reads(jobs: &[(&'static str, &'static str)]) -> Vec<Self> {
        Self::reads_that_begin(jobs, &format!("startdelay={}ms", START_DELAY_SECONDS * 1e3))
    }

    /// The jobs of random reads for fitting.
    pub(crate) fn fitting_reads() -> Vec<Self> {
        let begins = format!("ramp_time={}ms", FITTING_RAMP_SECONDS * 1e3);
        Self::reads_that_begin(&FITTING_JOBS, &begins)
    }

    fn reads_that_begin(jobs: &[(&'static str, &'static str)], begins: &str) -> Vec<Self> {
        let made = jobs.iter().map(|(name, options)| Self {
            name: (*name).to_owned(),
            source: JobSource::Reads {
                options,
                begins: begins.to_owned(),
            },
        });
        made.collect()
    }

    /// Reads a user's job file.
    pub(crate) fn read_file(path: &Path) -> Result<Self, CalibrateError> {
        let read = path.canonicalize().and_then(|absolute| {
            let text = wakepath_files::read_text_up_to(&absolute, MAX_BYTES)?;
            Ok((text, absolute))
        });
        let (text, absolute) = read.map_err(|source| CalibrateError::Folder {
            path: path.to_owned(),
            action: "reading the job",
            source,
        })?;
        Ok(Self {
            name: path.display().to_string(),
            source: JobSource::File {
                path: absolute,
                names_files: text.lines().any(names_files),
            },
        })
    }

    /// The workload of a study; `data` is a file of `mib` MiB for jobs that name none.
    pub(crate) fn workload(&self, data: &str, mib: u64, seconds: f64) -> Value {
        let mut table = Table::from_iter([
            ("name".to_owned(), Value::from(self.name.as_str())),
            ("seconds".to_owned(), Value::Float(seconds)),
        ]);
        match &self.source {
            JobSource::Reads { options, begins } => {
                let job = format!(
                    "[job]\nfilename={data}\nsize={mib}m\nrw=randread\nbs=4k\ndirect=1\n{begins}\n{options}\n"
                );
                table.insert("fio_job".to_owned(), Value::from(job));
            }
            JobSource::File { path, names_files } => {
                table.insert("fio".to_owned(), Value::from(path.display().to_string()));
                if !names_files {
                    let options = Table::from_iter([
                        ("filename".to_owned(), Value::from(data)),
                        ("size".to_owned(), Value::from(format!("{mib}m"))),
                    ]);
                    table.insert("fio_options".to_owned(), Value::Table(options));
                }
            }
        }
        Value::Table(table)
    }
}

/// Whether a line of a job file chooses files.
fn names_files(line: &str) -> bool {
    let option = line.split('=').next().unwrap_or_default().trim();
    NAMES_FILES.contains(&option)
}
