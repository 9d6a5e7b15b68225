//! What the jobs of a file are to the page cache.

use wakepath_hardware::Machine;
use wakepath_workloads::fio::FioJob;

use crate::block::cost::BLOCK;
use crate::page_cache::state::PageCacheSetup;
use crate::task::fio::setup::JobSetup;

/// Gives the files of jobs their numbers. Returns how many there are.
fn number_files(setups: &mut [JobSetup], jobs: &[FioJob]) -> usize {
    let mut shared: Vec<(&str, usize)> = Vec::new();
    let mut files = 0;
    for (setup, job) in setups.iter_mut().zip(jobs) {
        let Some(cache) = &mut setup.cache else {
            continue;
        };
        let Some(name) = job.shared_files_key() else {
            cache.number_file(files);
            files += setup.processes as usize;
            continue;
        };
        let known = shared.iter().find(|(other, _)| *other == name);
        if let Some((_, file)) = known {
            cache.number_file(*file);
        } else {
            cache.number_file(files);
            shared.push((name, files));
            files += 1;
        }
    }
    files
}

/// The page cache, if a job writes into it.
pub(crate) fn page_cache(
    machine: &Machine,
    setups: &mut [JobSetup],
    jobs: &[FioJob],
) -> Option<PageCacheSetup> {
    if !jobs.iter().any(FioJob::writes_to_page_cache) {
        // What is read once is never cached.
        for job in setups {
            job.cache = None;
        }
        return None;
    }
    let files = number_files(setups, jobs);
    let mut remembers = false;
    for job in setups {
        if let Some(cache) = &job.cache {
            job.settles_size = true;
            let writes_pages = !job.counts_bytes && job.block[1].is_multiple_of(BLOCK);
            remembers |= job.read_percent > 0 || !writes_pages || !cache.begins_on_pages();
        }
    }
    let reads = jobs.iter().any(|job| job.rw.reads());
    Some(PageCacheSetup::new(machine, files, reads, remembers))
}
