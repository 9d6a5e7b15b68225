//! Putting the shards of a study together.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::directory::{Mode, ResultWriter};
use crate::document::Document;
use crate::error::ResultsError;
use crate::folder::ResultFolder;
use crate::layout::{DOCUMENT, GOVERNORS, MACHINES, RUNS, TABLES, WORKLOADS, run_index};
use crate::plan::RunPlan;
use crate::reader::ResultReader;
use crate::shard::Shard;

/// Why results cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A directory cannot be read, or the merged one cannot be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The merged results would replace a shard.
    #[error("{}: the directory of a shard; name another one for the merged results", .0.display())]
    OntoShard(PathBuf),
    /// No directory was named.
    #[error("name the directories of all shards")]
    Nothing,
    /// A directory holds a whole study.
    #[error("{}: not a shard, but results of a whole study (`wakepath study run --shard 3/64` makes shards)", .0.display())]
    Whole(PathBuf),
    /// Two directories belong to different studies.
    #[error("{} and {}: not of the same study ({what} differs)", one.display(), other.display())]
    Different {
        /// A directory.
        one: PathBuf,
        /// The other directory.
        other: PathBuf,
        /// The difference.
        what: String,
    },
    /// A doubled shard.
    #[error("{} and {}: both are shard {shard}", one.display(), other.display())]
    Doubled {
        /// The shard.
        shard: Shard,
        /// A directory.
        one: PathBuf,
        /// The other directory.
        other: PathBuf,
    },
    /// Shards are missing.
    #[error("missing: shard {shards} of {count}; {there} of {count} are there")]
    Missing {
        /// Missing numbers.
        shards: String,
        /// Number of shards.
        count: u32,
        /// How many were named.
        there: usize,
    },
    /// A shard was interrupted.
    #[error("{}: shard {shard} has {there} of its {planned} runs; finish it with `wakepath study run --shard {shard} --resume`", dir.display())]
    Unfinished {
        /// The directory.
        dir: PathBuf,
        /// The shard.
        shard: Shard,
        /// Finished runs.
        there: usize,
        /// Planned runs.
        planned: usize,
    },
    /// A shard with another shard's run.
    #[error("{}: not a run of shard {shard}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The shard.
        shard: Shard,
    },
}

/// Puts shards together in `to`, byte for byte as if the study had run in one piece.
///
/// # Errors
/// A shard is missing, there twice, unfinished or of another study; files cannot be read or written. Then `to` is
/// not complete, and no shard is changed.
pub fn merge(shards: &[PathBuf], to: &Path, mode: Mode) -> Result<usize, MergeError> {
    let target = fs::canonicalize(to).ok();
    if to.exists()
        && shards
            .iter()
            .any(|dir| fs::canonicalize(dir).ok() == target)
    {
        return Err(MergeError::OntoShard(to.to_owned()));
    }
    let (found, one, document) = read_shards(shards)?;
    check_complete(&found)?;
    let folders = found
        .iter()
        .map(|(shard, dir)| Ok((*shard, ResultFolder::open(dir)?)))
        .collect::<Result<Vec<_>, ResultsError>>()?;
    let files = copied_files(&ResultFolder::open(one)?)?;
    for ((_, dir), (_, folder)) in found.iter().zip(&folders) {
        if let Some((name, _)) = different_copy(&files, &copied_files(folder)?) {
            return Err(MergeError::Different {
                one: one.to_owned(),
                other: dir.to_path_buf(),
                what: name.to_owned(),
            });
        }
    }
    let runs = document.runs();
    let mut all = Vec::new();
    for ((shard, dir), (_, folder)) in found.iter().zip(&folders) {
        let there = runs_of(*shard, dir, folder, runs)?.into_iter();
        all.extend(there.map(|index| (index, folder)));
    }
    let plan = RunPlan::new(&document);
    let writer = ResultWriter::open(to, document, &files, mode)?;
    // Each copy waits for the disk.
    all.into_par_iter().try_for_each(|(index, folder)| {
        let (bytes, _) = folder.run(index, &plan)?;
        writer.copy_run(index, &bytes)
    })?;
    writer.finish()?;
    Ok(runs)
}

/// The shards by number, with the first directory and the document of the whole study.
type ShardDirs<'a> = (BTreeMap<Shard, &'a Path>, &'a Path, Document);

/// Reads the documents of all shards, which have to belong to the same study.
fn read_shards(shards: &[PathBuf]) -> Result<ShardDirs<'_>, MergeError> {
    let mut found: BTreeMap<Shard, &Path> = BTreeMap::new();
    let mut first: Option<(&Path, Document)> = None;
    for dir in shards {
        let document = ResultReader::open(dir)?.document().clone();
        let Some(shard) = document.shard else {
            return Err(MergeError::Whole(dir.clone()));
        };
        let whole = Document {
            shard: None,
            complete: false,
            ..document
        };
        match &first {
            None => first = Some((dir, whole)),
            Some((one, expected)) => {
                let different = |what: &str| MergeError::Different {
                    one: one.to_path_buf(),
                    other: dir.clone(),
                    what: what.to_owned(),
                };
                if let Some(changed) = expected.changed_file(&whole) {
                    return Err(different(&format!("the content of {}", changed.path)));
                }
                if *expected != whole {
                    return Err(different(DOCUMENT));
                }
                let count = found.keys().next().map(|shard| shard.count());
                if count.is_some_and(|count| count != shard.count()) {
                    return Err(different("the number of shards"));
                }
            }
        }
        if let Some(one) = found.insert(shard, dir) {
            return Err(MergeError::Doubled {
                shard,
                one: one.to_owned(),
                other: dir.clone(),
            });
        }
    }
    let (one, document) = first.ok_or(MergeError::Nothing)?;
    Ok((found, one, document))
}

/// Checks that no shard is missing.
fn check_complete(found: &BTreeMap<Shard, &Path>) -> Result<(), MergeError> {
    let count = found.keys().next().map_or(0, |shard| shard.count());
    let there: Vec<u32> = found.keys().map(|shard| shard.number()).collect();
    let missing: Vec<u32> = (1..=count)
        .filter(|n| there.binary_search(n).is_err())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(MergeError::Missing {
        shards: shard_numbers(&missing),
        count,
        there: there.len(),
    })
}

/// Run indices in a shard, if the shard is finished.
fn runs_of(
    shard: Shard,
    dir: &Path,
    folder: &ResultFolder,
    runs: usize,
) -> Result<Vec<usize>, MergeError> {
    let mut there = Vec::new();
    for name in folder.names(RUNS)? {
        let index = run_index(&name);
        match index.filter(|index| *index < runs && shard.has(*index)) {
            Some(index) => there.push(index),
            None => {
                return Err(MergeError::Foreign {
                    path: dir.join(RUNS).join(name),
                    shard,
                });
            }
        }
    }
    let planned = (0..runs).filter(|index| shard.has(*index)).count();
    if there.len() != planned {
        return Err(MergeError::Unfinished {
            dir: dir.to_owned(),
            shard,
            there: there.len(),
            planned,
        });
    }
    Ok(there)
}

/// The study, machine, workload and governor files in a result directory, by name.
fn copied_files(folder: &ResultFolder) -> Result<Vec<(String, Vec<u8>)>, ResultsError> {
    let mut names = folder.names("")?;
    names.retain(|name| {
        ![DOCUMENT, RUNS, WORKLOADS, MACHINES, GOVERNORS].contains(&name.as_str())
            && !TABLES.contains(&name.as_str())
    });
    names.extend(folder.copies()?);
    folder.read_all(names)
}

/// The first file that differs or is missing on one side.
fn different_copy<'a>(
    one: &'a [(String, Vec<u8>)],
    other: &'a [(String, Vec<u8>)],
) -> Option<&'a (String, Vec<u8>)> {
    let different = one.iter().find(|file| !other.contains(file));
    different.or_else(|| other.iter().find(|file| !one.contains(file)))
}

/// Numbers in words, at most ten.
fn shard_numbers(all: &[u32]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = all.iter().take(SHOWN).map(u32::to_string).collect();
    match all.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
