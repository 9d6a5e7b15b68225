//! Groups of a file's jobs.

use wakepath_workloads::fio::FioJob;

/// Numbers of each job's groups: the group of jobs that start together, and the part of this group that fio reports together.
pub(super) fn number_groups(jobs: &[FioJob]) -> Vec<(usize, usize)> {
    let first = jobs.first().map(|job| job.line);
    let (mut group, mut report_group) = (0, 0);
    let groups = jobs.iter().map(|job| {
        if Some(job.line) != first {
            group += usize::from(job.stonewall);
            report_group += usize::from(job.stonewall || job.new_group);
        }
        (group, report_group)
    });
    groups.collect()
}
