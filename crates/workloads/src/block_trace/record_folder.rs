//! Files for a blktrace trace, `DEVICE.blktrace.CPU`: a device's for all CPUs, or all in a folder.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::error::BlockTraceError;
use super::format::{BEGIN_BYTES, BlockTraceFormat};
use super::merged_records::{MergedRecords, choose_action_by_records};
use super::record_file::RecordFile;
use super::trace_file::open_file;

/// Bytes to read from a file at a time; a file per CPU is open.
const READ_BYTES: usize = 1 << 16;

/// blktrace's files for a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordFolder {
    /// The user's folder or file.
    pub(super) path: PathBuf,
    files: Vec<PathBuf>,
}

impl RecordFolder {
    /// All CPUs' files beside a file.
    ///
    /// # Errors
    /// The file's folder cannot be read.
    pub(super) fn beside_file(path: &Path) -> Result<Self, BlockTraceError> {
        let files = match (path.parent(), split_file_name(path)) {
            (Some(parent), Some((device, _))) => {
                let folder = if parent.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    parent
                };
                list_files(folder, Some(&device))?
            }
            _ => vec![path.to_owned()],
        };
        let path = path.to_owned();
        Ok(Self { path, files })
    }

    /// All blktrace files in a folder; `None`: no file.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn in_folder(path: &Path) -> Result<Option<Self>, BlockTraceError> {
        let files = list_files(path, None)?;
        let path = path.to_owned();
        Ok((!files.is_empty()).then_some(Self { path, files }))
    }

    /// The format: whether dispatched or queued requests count.
    ///
    /// # Errors
    /// A file cannot be read or is damaged at the begin; no request is found.
    pub(super) fn choose_format(&self, origin: &str) -> Result<BlockTraceFormat, BlockTraceError> {
        let files = self.files.iter().map(|path| open_record_file(path));
        choose_action_by_records(files, BEGIN_BYTES, origin).map(BlockTraceFormat::for_records)
    }

    /// Begins to read all files, merged by time.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub(super) fn open(
        &self,
        format: BlockTraceFormat,
    ) -> Result<MergedRecords<BufReader<File>>, BlockTraceError> {
        let opened: Result<Vec<_>, _> =
            (self.files.iter().map(|path| open_record_file(path))).collect();
        Ok(MergedRecords::new(opened?, format.request_action()))
    }
}

fn open_record_file(path: &Path) -> Result<RecordFile<BufReader<File>>, BlockTraceError> {
    let name = path.display().to_string();
    let reader = BufReader::with_capacity(READ_BYTES, open_file(path, &name)?);
    Ok(RecordFile::new(name, reader))
}

/// Whether a file has a blktrace name.
pub(super) fn has_record_file_name(path: &Path) -> bool {
    split_file_name(path).is_some()
}

/// Device and CPU in a file's name; `None`: the name is no `DEVICE.blktrace.CPU`.
fn split_file_name(path: &Path) -> Option<(String, u32)> {
    let (rest, cpu) = path.file_name()?.to_str()?.rsplit_once('.')?;
    let device = rest.strip_suffix(".blktrace")?;
    let digits = !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
    let number = cpu.parse().ok().filter(|_| digits)?;
    Some((device.to_owned(), number))
}

/// blktrace files in a folder, by device and CPU.
fn list_files(folder: &Path, device: Option<&str>) -> Result<Vec<PathBuf>, BlockTraceError> {
    let origin = folder.display().to_string();
    let explain = |e| BlockTraceError::for_whole_trace(&origin, format!("cannot read: {e}"));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(explain)? {
        let path = entry.map_err(explain)?.path();
        if let Some(name) = split_file_name(&path)
            && device.is_none_or(|wanted| wanted == name.0)
        {
            files.push((name, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}
