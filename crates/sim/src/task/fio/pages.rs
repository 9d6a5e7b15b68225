//! How the jobs of a fio file use the page cache, compiled.

use std::collections::BTreeMap;

use wakepath_hardware::Machine;
use wakepath_workloads::fio::FioJob;

use crate::block::cost::BLOCK;
use crate::page_cache::pages::{PAGE, REQUEST};
use crate::page_cache::read_ahead::{Generation, ReadAheadRule};
use crate::page_cache::state::PageCacheSetup;
use crate::task::fio::setup::JobSetup;

/// Numbers the files of all jobs that use the page cache; equal shared files get one number. Returns the number of files.
fn number_files_of_jobs(setups: &mut [JobSetup], jobs: &[FioJob]) -> usize {
    let mut shared: Vec<(&str, usize)> = Vec::new();
    let mut files = 0;
    for (setup, job) in setups.iter_mut().zip(jobs) {
        let Some(cache) = &mut setup.cache else {
            continue;
        };
        let Some(name) = job.shared_files_key() else {
            cache.set_first_file_number(files);
            files += setup.processes as usize;
            continue;
        };
        let known = shared.iter().find(|(other, _)| *other == name);
        if let Some((_, file)) = known {
            cache.set_first_file_number(*file);
        } else {
            cache.set_first_file_number(files);
            shared.push((name, files));
            files += 1;
        }
    }
    files
}

/// Notes which jobs have files that several processes use.
fn set_sharers_of_files(setups: &mut [JobSetup], jobs: &[FioJob]) {
    let mut processes: BTreeMap<usize, u32> = BTreeMap::new();
    let pairs = setups.iter().zip(jobs);
    for (setup, _) in pairs.filter(|(_, job)| job.shared_files_key().is_some()) {
        if let Some(cache) = &setup.cache {
            *processes.entry(cache.first_file_number()).or_default() += setup.processes;
        }
    }
    for cache in setups.iter_mut().filter_map(|setup| setup.cache.as_mut()) {
        let sharing = processes.get(&cache.first_file_number());
        cache.set_has_sharers(sharing.is_some_and(|count| *count > 1));
    }
}

/// Sets how the files of jobs are read ahead that depend on which pages are cached.
fn set_read_ahead_of_jobs(machine: &Machine, setups: &mut [JobSetup], jobs: &[FioJob]) {
    let generation = Generation::for_kernel(machine.kernel);
    let window = machine.drive.read_ahead_bytes() / PAGE;
    for (setup, job) in setups.iter_mut().zip(jobs) {
        if job.reads_depend_on_cached_pages()
            && let Some(cache) = &mut setup.cache
        {
            let hint = job.read_hint();
            cache.set_read_ahead(ReadAheadRule::new(generation, window, REQUEST, hint));
        }
    }
}

/// Compiles the page cache, if any job writes into it or depends on which pages are cached; otherwise no job uses it.
pub(crate) fn compile_page_cache(
    machine: &Machine,
    setups: &mut [JobSetup],
    jobs: &[FioJob],
) -> Option<PageCacheSetup> {
    let depends = jobs.iter().any(FioJob::reads_depend_on_cached_pages);
    if !depends && !jobs.iter().any(FioJob::writes_to_page_cache) {
        // Without writers, each page is read once and never found in the cache.
        for job in setups {
            job.cache = None;
        }
        return None;
    }
    let files = number_files_of_jobs(setups, jobs);
    set_sharers_of_files(setups, jobs);
    set_read_ahead_of_jobs(machine, setups, jobs);
    let mut remembers = false;
    for job in setups {
        if let Some(cache) = &job.cache {
            job.settles_size = true;
            let writes_pages = !job.counts_bytes && job.block[1].is_multiple_of(BLOCK);
            remembers |= cache.looks_at_pages()
                || job.read_percent > 0
                || job.read_back.is_some()
                || !writes_pages
                || !cache.all_processes_begin_on_pages();
        }
    }
    let reads_by =
        |job: &FioJob| job.rw.reads() || job.reads_back() || job.mapping_advice().is_some();
    let reads = jobs.iter().any(reads_by);
    Some(PageCacheSetup::new(machine, files, reads, remembers))
}
