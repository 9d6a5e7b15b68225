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
        cache.file = files;
        let Some(name) = job.shared_files() else {
            files += setup.processes as usize;
            continue;
        };
        let known = shared.iter().find(|(other, _)| *other == name);
        if let Some((_, file)) = known {
            cache.file = *file;
        } else {
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
    if !jobs.iter().any(FioJob::buffers_writes) {
        // What is read once is never cached.
        for job in setups {
            job.cache = None;
        }
        return None;
    }
    let files = number_files(setups, jobs);
    let of = &machine.page_cache;
    // What a machine says of reads holds for writes, too, unless it says something of them.
    let page = match &machine.io_path.page_cache_kcycles {
        of_reads if of_reads.is_given() && of.is_assumed() => of_reads,
        _ => &of.page_kcycles,
    };
    let mut remembers = false;
    for job in setups {
        if let Some(cache) = &job.cache {
            job.settles_size = true;
            let whole = |bytes: u64| bytes.is_multiple_of(BLOCK);
            let pages = !job.counts_bytes
                && [job.block[1], cache.offset, cache.increment]
                    .into_iter()
                    .all(whole);
            remembers |= job.read_percent > 0 || !pages;
        }
    }
    Some(PageCacheSetup {
        pages: machine.page_cache_pages(),
        call: of.write_kcycles.kilocycles(),
        page: page.kilocycles(),
        write_back: of.write_back_kcycles.kilocycles(),
        files,
        reads: jobs.iter().any(|job| job.rw.reads()),
        remembers,
    })
}
