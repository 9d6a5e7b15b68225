//! Putting the shards of a study together.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::directory::{Mode, ResultWriter};
use crate::document::Document;
use crate::error::ResultsError;
use crate::folder::ResultFolder;
use crate::layout::{
    DOCUMENT, GOVERNORS, MACHINES, RUNS, TABLES, WORKLOADS, run_index_from_file_name,
};
use crate::plan::RunPlan;
use crate::reader::ResultReader;
use crate::shard::Shard;

/// Why the shards' results cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A shard's directory cannot be read, or the merged directory cannot be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The directory for the merged results is a shard's own directory.
    #[error("{}: the directory of a shard; name another one for the merged results", .0.display())]
    OntoShard(PathBuf),
    /// No shard's directory was named.
    #[error("name the directories of all shards")]
    Nothing,
    /// A named directory holds a whole study, not a shard.
    #[error("{}: not a shard, but results of a whole study (`wakepath study run --shard 3/64` makes shards)", .0.display())]
    Whole(PathBuf),
    /// Two named directories belong to different studies.
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
        /// How many directories were named.
        there: usize,
    },
    /// A shard was interrupted: its runs are not complete.
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
    /// A shard's directory holds a run that belongs to another shard.
    #[error("{}: not a run of shard {shard}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The shard.
        shard: Shard,
    },
}

/// Merges shards into `to`, byte for byte as if the study had run in one piece. Returns the number of runs.
///
/// # Errors
/// A shard is missing, there twice, unfinished or from another study; files cannot be read or written. Then `to` is not
/// complete, and no shard is changed.
pub fn merge_shards(shard_dirs: &[PathBuf], to: &Path, mode: Mode) -> Result<usize, MergeError> {
    let target = fs::canonicalize(to).ok();
    if to.exists()
        && shard_dirs
            .iter()
            .any(|dir| fs::canonicalize(dir).ok() == target)
    {
        return Err(MergeError::OntoShard(to.to_owned()));
    }
    let ShardDirs {
        by_shard: found,
        first: one,
        document,
    } = read_shards_of_same_study(shard_dirs)?;
    check_all_shards_found(&found)?;
    let folders = found
        .iter()
        .map(|(shard, dir)| Ok((*shard, ResultFolder::open(dir)?)))
        .collect::<Result<Vec<_>, ResultsError>>()?;
    let files = read_study_file_copies(&ResultFolder::open(one)?)?;
    for ((_, dir), (_, folder)) in found.iter().zip(&folders) {
        if let Some((name, _)) = first_different_copy(&files, &read_study_file_copies(folder)?) {
            return Err(MergeError::Different {
                one: one.to_owned(),
                other: dir.to_path_buf(),
                what: name.to_owned(),
            });
        }
    }
    let runs = document.planned_runs_in_all_shards();
    let mut all = Vec::new();
    for ((shard, dir), (_, folder)) in found.iter().zip(&folders) {
        let there = require_all_runs_of_shard(*shard, dir, folder, runs)?.into_iter();
        all.extend(there.map(|index| (index, folder)));
    }
    let plan = RunPlan::new(&document);
    let writer = ResultWriter::open(to, document, &files, mode)?;
    // Each copied run waits until it is on the disk, so the copies are made by several threads.
    all.into_par_iter().try_for_each(|(index, folder)| {
        let (bytes, _) = folder.read_run_checked_by_plan(index, &plan)?;
        writer.write_run_bytes(index, &bytes)
    })?;
    writer.write_tables_and_finish()?;
    Ok(runs)
}

/// The directories of a study's shards.
struct ShardDirs<'a> {
    by_shard: BTreeMap<Shard, &'a Path>,
    /// The directory that the user named first.
    first: &'a Path,
    /// The document of the whole study.
    document: Document,
}

/// Opens all shards and reads their documents. An error if they belong to different studies.
fn read_shards_of_same_study(shard_dirs: &[PathBuf]) -> Result<ShardDirs<'_>, MergeError> {
    let mut found: BTreeMap<Shard, &Path> = BTreeMap::new();
    let mut first: Option<(&Path, Document)> = None;
    for dir in shard_dirs {
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
                if let Some(changed) = expected.first_file_with_other_sha256(&whole) {
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
    Ok(ShardDirs {
        by_shard: found,
        first: one,
        document,
    })
}

/// Checks that every shard was found: none is missing.
fn check_all_shards_found(found: &BTreeMap<Shard, &Path>) -> Result<(), MergeError> {
    let count = found.keys().next().map_or(0, |shard| shard.count());
    let there: Vec<u32> = found.keys().map(|shard| shard.number()).collect();
    let missing: Vec<u32> = (1..=count)
        .filter(|n| there.binary_search(n).is_err())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(MergeError::Missing {
        shards: list_first_shard_numbers(&missing),
        count,
        there: there.len(),
    })
}

/// Indices of a shard's runs. An error if the shard is unfinished or has another shard's run.
fn require_all_runs_of_shard(
    shard: Shard,
    dir: &Path,
    folder: &ResultFolder,
    runs: usize,
) -> Result<Vec<usize>, MergeError> {
    let mut there = Vec::new();
    for name in folder.list_finished_names_if_present(RUNS)? {
        let index = run_index_from_file_name(&name);
        match index.filter(|index| *index < runs && shard.includes_run(*index)) {
            Some(index) => there.push(index),
            None => {
                return Err(MergeError::Foreign {
                    path: dir.join(RUNS).join(name),
                    shard,
                });
            }
        }
    }
    let planned = (0..runs).filter(|index| shard.includes_run(*index)).count();
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

/// Reads the copies of study, machines, workloads and governors in a result directory, with their names.
fn read_study_file_copies(folder: &ResultFolder) -> Result<Vec<(String, Vec<u8>)>, ResultsError> {
    let mut names = folder.list_finished_names_if_present("")?;
    names.retain(|name| {
        ![DOCUMENT, RUNS, WORKLOADS, MACHINES, GOVERNORS].contains(&name.as_str())
            && !TABLES.contains(&name.as_str())
    });
    names.extend(folder.list_workload_machine_governor_copies()?);
    folder.read_named_files(names)
}

/// The first copied file that differs between two directories, or exists in one only.
fn first_different_copy<'a>(
    one: &'a [(String, Vec<u8>)],
    other: &'a [(String, Vec<u8>)],
) -> Option<&'a (String, Vec<u8>)> {
    let different = one.iter().find(|file| !other.contains(file));
    different.or_else(|| other.iter().find(|file| !one.contains(file)))
}

/// Joins shard numbers with commas for a message; after ten, how many more there are.
fn list_first_shard_numbers(all: &[u32]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = all.iter().take(SHOWN).map(u32::to_string).collect();
    match all.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
