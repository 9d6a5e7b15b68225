//! Reads the values of a dump from folders, archives and text.

use std::fs;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use wakepath_units::pasted::DecodedText;

use super::text::{MAX_FILE, MAX_FILES, Place, Values};

/// Limit on the depth of folders that are looked into.
const MAX_DEPTH: usize = 16;
/// Offset and text of the mark in a tar archive.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// Names of unsupported compressions, and how such files begin.
const OTHER_MAGIC: [(&str, &[u8]); 4] = [
    ("xz", b"\xfd7zXZ"),
    ("zstd", b"\x28\xb5\x2f\xfd"),
    ("bzip2", b"BZh"),
    ("zip", b"PK\x03\x04"),
];
impl Values {
    /// Adds the counters of a folder and the folders below.
    pub(super) fn add_counters_in_folder(&mut self, path: &Path) -> io::Result<()> {
        self.add_counters_down_to_depth(path, MAX_DEPTH, &mut { MAX_FILES })
    }

    /// Adds the counters in a folder. `files_left`: how many more entries may be looked at.
    fn add_counters_down_to_depth(
        &mut self,
        path: &Path,
        depth: usize,
        files_left: &mut usize,
    ) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            *files_left = files_left
                .checked_sub(1)
                .ok_or_else(|| io::Error::other(format!("more than {MAX_FILES} files")))?;
            // Links are not followed, since sysfs has many circles of links.
            let kind = entry.file_type()?;
            let path = entry.path();
            if kind.is_dir() && depth > 0 {
                self.add_counters_down_to_depth(&path, depth - 1, files_left)?;
            } else if kind.is_file() && is_counter_or_uptime_path(&path.to_string_lossy()) {
                self.add_sysfs_file_if_counter(
                    &path.to_string_lossy(),
                    &mut wakepath_files::open_regular_file(&path)?,
                )?;
            }
        }
        Ok(())
    }

    /// Adds the counters in a file of any form: text, archive or compressed.
    pub(super) fn add_counters_in_file(&mut self, path: &Path) -> io::Result<()> {
        self.add_possibly_compressed(BufReader::new(wakepath_files::open_regular_file(path)?))
    }

    /// Adds the counters in the content of a file, which may be compressed.
    pub(super) fn add_possibly_compressed(&mut self, content: impl Read) -> io::Result<()> {
        let (head, input) = peek_format_head(content)?;
        if head.starts_with(GZIP_MAGIC) {
            let (head, input) =
                peek_format_head(GzDecoder::new(input)).map_err(damaged_archive_error)?;
            return self.add_archive_or_lines(&head, input);
        }
        if let Some((name, _)) = OTHER_MAGIC
            .iter()
            .find(|(_, magic)| head.starts_with(magic))
        {
            return Err(io::Error::other(format!(
                "a file of {name}; unpack it, or compress it with gzip"
            )));
        }
        self.add_archive_or_lines(&head, input)
    }

    /// Adds the counters in an uncompressed archive or in lines of text, whose first bytes are `head`.
    fn add_archive_or_lines(&mut self, head: &[u8], input: impl Read) -> io::Result<()> {
        let at_magic = head.get(TAR_MAGIC.0..).unwrap_or_default();
        if at_magic.starts_with(TAR_MAGIC.1) {
            self.add_tar_archive(input).map_err(damaged_archive_error)
        } else {
            self.add_lines(BufReader::new(DecodedText::new(input)?))
        }
    }

    fn add_tar_archive(&mut self, input: impl Read) -> io::Result<()> {
        let mut archive = tar::Archive::new(input);
        for (count, entry) in archive.entries()?.enumerate() {
            if count == MAX_FILES {
                return Err(io::Error::other(format!("more than {MAX_FILES} files")));
            }
            let mut entry = entry?;
            let path = entry.path()?.to_string_lossy().into_owned();
            if entry.header().entry_type().is_file() && is_counter_or_uptime_path(&path) {
                self.add_sysfs_file_if_counter(&path, &mut entry)?;
            }
        }
        Ok(())
    }

    /// Adds a file of sysfs, if it is a counter of idle states or the uptime.
    fn add_sysfs_file_if_counter(&mut self, path: &str, content: &mut dyn Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        content.take(MAX_FILE).read_to_end(&mut bytes)?;
        // tar pads sysfs files to their declared size.
        let text = String::from_utf8_lossy(&bytes);
        if let Some(place) = Place::from_path(path) {
            place.check_cpu_and_state_limits()?;
            self.add_content(
                place,
                text.trim_matches(|c: char| c == '\0' || c.is_whitespace()),
            );
        }
        Ok(())
    }
}

/// Reads the start of an input, enough to recognize its format. Also returns the whole input, start included.
fn peek_format_head<R: Read>(mut input: R) -> io::Result<(Vec<u8>, impl Read)> {
    let mut head = Vec::new();
    let enough = TAR_MAGIC.0 + TAR_MAGIC.1.len();
    (&mut input).take(enough as u64).read_to_end(&mut head)?;
    Ok((head.clone(), io::Cursor::new(head).chain(input)))
}

/// The error for a damaged archive.
#[expect(clippy::needless_pass_by_value, reason = "as map_err() calls it")]
fn damaged_archive_error(error: io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("a damaged archive, or only a part of one: {error}"),
    )
}

fn is_counter_or_uptime_path(path: &str) -> bool {
    Place::from_path(path).is_some()
}
