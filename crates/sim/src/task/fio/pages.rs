//! How the jobs of a fio file use the page cache, compiled.

use std::collections::BTreeMap;

use wakepath_hardware::Machine;
use wakepath_workloads::fio::FioJob;

use crate::block::cost::BLOCK;
use crate::page_cache::job::CacheJob;
use crate::page_cache::journal::JournalSetup;
use crate::page_cache::pages::{PAGE, REQUEST};
use crate::page_cache::read_ahead::{Generation, ReadAheadRule};
use crate::page_cache::setup::PageCacheSetup;
use crate::task::fio::setup::JobSetup;

/// Numbers the files of all jobs that use the page cache; equal shared files get one number. Returns the number of files.
fn number_files_of_jobs(setups: &mut [JobSetup], jobs: &[FioJob]) -> usize {
    let mut shared: Vec<(&str, usize)> = Vec::new();
    let mut files = 0;
    for (setup, job) in setups.iter_mut().zip(jobs) {
        let processes = setup.processes as usize;
        let Some(cache) = setup.files_mut() else {
            continue;
        };
        let Some(name) = job.shared_files_key() else {
            cache.set_first_file_number(files);
            files += processes;
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
        if let Some(cache) = setup.files() {
            *processes.entry(cache.first_file_number()).or_default() += setup.processes;
        }
    }
    for cache in setups.iter_mut().filter_map(JobSetup::files_mut) {
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

impl JobSetup {
    /// The job's files, if it uses the page cache or syncs them on a file system with a journal.
    pub(super) fn files(&self) -> Option<&CacheJob> {
        self.cache.as_ref().or(self.direct_file.as_ref())
    }

    fn files_mut(&mut self) -> Option<&mut CacheJob> {
        self.cache.as_mut().or(self.direct_file.as_mut())
    }
}

/// Notes which jobs write to files on a file system with a journal. Returns the journal, if any do.
fn set_jobs_on_file_system(
    machine: &Machine,
    setups: &mut [JobSetup],
    jobs: &[FioJob],
) -> Option<JournalSetup> {
    let journal = JournalSetup::for_machine(machine)?;
    let mut is_used = false;
    for (setup, job) in setups.iter_mut().zip(jobs) {
        if job.goes_to_devices() || !job.rw.writes() {
            continue;
        }
        if job.is_direct() {
            let files = CacheJob::for_files_of_any_job(job, machine.drive.capacity_in_bytes());
            setup.direct_file = Some(files);
            setup.settles_size = true;
        }
        if let Some(files) = setup.files_mut() {
            files.set_journals();
            is_used = true;
        }
    }
    is_used.then_some(journal)
}

/// Compiles the page cache, if any job writes into it or depends on which pages are cached; otherwise no job uses it.
pub(crate) fn compile_page_cache(
    machine: &Machine,
    setups: &mut [JobSetup],
    jobs: &[FioJob],
) -> Option<PageCacheSetup> {
    let journals = set_jobs_on_file_system(machine, setups, jobs);
    let depends = jobs.iter().any(FioJob::reads_depend_on_cached_pages);
    if !depends && !jobs.iter().any(FioJob::writes_to_page_cache) {
        // Without writers, each page is read once and never found in the cache.
        for job in setups.iter_mut() {
            job.cache = None;
        }
        journals?;
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
    let setup = PageCacheSetup::new(machine, files, remembers);
    Some(setup.with_journal(journals))
}
