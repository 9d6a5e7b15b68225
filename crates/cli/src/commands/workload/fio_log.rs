//! A block trace as a log of fio: what was traced elsewhere is measured on a drive of one's own.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use wakepath_study::plan::load_block_trace;
use wakepath_workloads::Workload;
use wakepath_workloads::block_trace::{BlockTraceOptions, WrittenLog, write_fio_log};

use crate::commands::arguments::hold_workload_warnings;
use crate::messages::warning;
use crate::new_file;
use crate::output::Screen;

/// Writes the requests to a disk of a trace as a log for `fio --read_iolog`. `disk`: its name; `None`: the busiest.
pub(super) fn write_log_of_block_trace(
    path: &Path,
    disk: Option<String>,
    output: &Path,
    force: bool,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let options = BlockTraceOptions {
        disk,
        ..BlockTraceOptions::default()
    };
    std::fs::metadata(path).with_context(|| path.display().to_string())?;
    let workload = load_block_trace(path, &options)?;
    let trace = (workload.as_ref().and_then(Workload::block_trace)).with_context(|| {
        format!(
            "{}: is no block trace and no recording: expected blktrace's files or text of blkparse, fio's iolog, an MSR \
             Cambridge trace or a recording",
            path.display()
        )
    })?;
    let mut written = WrittenLog::default();
    new_file::write_whole_file(output, force, |file| {
        let mut log = BufWriter::new(file);
        written = write_fio_log(trace.requests()?, &mut log)?;
        Ok(log.flush()?)
    })
    .with_context(|| output.display().to_string())?;
    if let Some(read) = &workload {
        hold_workload_warnings(path, read);
    }
    let WrittenLog { requests, left_out } = written;
    if left_out > 0 {
        warning!("{left_out} trims are left out: fio 3.33 does not replay them");
    }
    writeln!(
        out,
        "{}: {requests} requests over {:.3} s, up to byte {}",
        output.display(),
        trace.duration().as_secs_f64(),
        trace.totals.end_byte
    )?;
    Ok(())
}
