//! Places of recorded requests on the drive.
//!
//! Every file and every task without one gets an area of the drive, in order of appearance. Where the simulation settles no place
//! within the area, a place follows from the job's pattern. Requests in flight never overlap, so that each is known by its sector.

use std::collections::BTreeMap;

use wakepath_hardware::Machine;
use wakepath_sim::observer::RequestPlace;
use wakepath_workloads::Workload;

/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Sectors of an area whose workload does not say how large its files are.
const USUAL_AREA: u64 = (1 << 30) / SECTOR;
/// Areas begin at multiples of so many sectors.
const ALIGNED_TO: u64 = (1 << 20) / SECTOR;
/// Most requests in flight that a place is moved behind.
const MOST_MOVES: usize = 1 << 16;

/// Pattern of a job's requests, and their area.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    is_random: bool,
    /// Sectors of the area.
    sectors: u64,
    /// Whether places count from the drive's first sector.
    is_whole_drive: bool,
}

/// What has an area of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Task(usize),
    CachedFile(usize),
}

/// An area of the drive.
#[derive(Clone, Copy, Debug)]
struct Area {
    first: u64,
    sectors: u64,
    /// Sectors behind the last read and the last write, from the area's first on.
    next: [u64; 2],
    /// Number of random places so far.
    draws: u64,
}

/// A request without its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unplaced {
    pub(super) task: usize,
    /// Number of the task's fio job.
    pub(super) job: Option<usize>,
    pub(super) write: bool,
    /// 0 for a flush.
    pub(super) bytes: u64,
    pub(super) place: RequestPlace,
}

/// Places of a run's requests.
#[derive(Clone, Debug)]
pub(super) struct Places {
    drive_sectors: u64,
    jobs: Vec<Pattern>,
    other: Pattern,
    largest_area: u64,
    areas: BTreeMap<Owner, Area>,
    first_free: u64,
    /// Requests in flight: first sector, and the sector behind.
    taken: BTreeMap<u64, u64>,
}

impl Places {
    pub(super) fn new(machine: &Machine, workload: &Workload) -> Self {
        let capacity = machine.drive.capacity_in_bytes();
        let drive_sectors = (capacity / SECTOR).max(ALIGNED_TO);
        let jobs: Vec<Pattern> = match workload {
            Workload::Fio(file) => file
                .jobs
                .iter()
                .map(|job| Pattern {
                    is_random: job.rw.is_random(),
                    sectors: (job.process_limits(capacity).span / SECTOR).clamp(1, drive_sectors),
                    is_whole_drive: job.goes_to_devices() || job.replayed_totals().is_some(),
                })
                .collect(),
            Workload::RtApp(_) | Workload::Server(_) | Workload::Tasks(_) => Vec::new(),
        };
        let largest = jobs.iter().map(|job| job.sectors).max();
        Self {
            drive_sectors,
            largest_area: largest.unwrap_or(USUAL_AREA.min(drive_sectors)),
            other: Pattern {
                is_random: matches!(workload, Workload::Server(_)),
                sectors: USUAL_AREA.min(drive_sectors),
                is_whole_drive: matches!(workload, Workload::Tasks(_)),
            },
            jobs,
            areas: BTreeMap::new(),
            first_free: 0,
            taken: BTreeMap::new(),
        }
    }

    /// Chooses the first sector of a request that is in flight from now on.
    pub(super) fn take_place(&mut self, request: &Unplaced) -> u64 {
        let sectors = request.bytes.div_ceil(SECTOR).max(1);
        // A flush has no place. Sector 0 would be a flush of the kernel's own, which no task waits for.
        let wanted = if request.bytes == 0 {
            1
        } else {
            self.wanted_place(request, sectors)
        };
        let free = self.move_behind_requests_in_flight(wanted, sectors);
        self.taken.insert(free, free.saturating_add(sectors));
        free
    }

    /// Notes that the request at a sector has completed.
    pub(super) fn free_place(&mut self, sector: u64) {
        self.taken.remove(&sector);
    }

    fn wanted_place(&mut self, request: &Unplaced, sectors: u64) -> u64 {
        let job = request.job.and_then(|job| self.jobs.get(job));
        let pattern = *job.unwrap_or(&self.other);
        let (owner, byte) = match request.place {
            RequestPlace::InCachedFile { file, byte } => (Owner::CachedFile(file), Some(byte)),
            RequestPlace::InOwnFile(byte) => (Owner::Task(request.task), Some(byte)),
            RequestPlace::Unsettled => (Owner::Task(request.task), None),
        };
        let area = self.find_or_add_area(owner, pattern);
        let blocks = (area.sectors / sectors).max(1);
        let within = match byte {
            Some(byte) => byte / SECTOR,
            None if pattern.is_random => {
                area.draws += 1;
                mix_bits(area.draws ^ (request.task as u64) << 32) % blocks * sectors
            }
            None => {
                let next = &mut area.next[usize::from(request.write)];
                let here = if *next + sectors > area.sectors {
                    0
                } else {
                    *next
                };
                *next = here + sectors;
                here
            }
        };
        area.first.saturating_add(within)
    }

    fn find_or_add_area(&mut self, owner: Owner, pattern: Pattern) -> &mut Area {
        let sectors = match owner {
            Owner::CachedFile(_) => self.largest_area,
            Owner::Task(_) => pattern.sectors,
        };
        let first_free = &mut self.first_free;
        let drive_sectors = self.drive_sectors;
        self.areas.entry(owner).or_insert_with(|| {
            let mut first = 0;
            if !pattern.is_whole_drive {
                // On a full drive, areas lie on each other from the first sector on.
                if first_free.saturating_add(sectors) > drive_sectors {
                    *first_free = 0;
                }
                first = *first_free;
                *first_free += sectors.next_multiple_of(ALIGNED_TO);
            }
            Area {
                first,
                sectors,
                next: [0; 2],
                draws: 0,
            }
        })
    }

    /// The first free place from a wanted one on; behind the last sector, the search goes on at the first.
    fn move_behind_requests_in_flight(&self, wanted: u64, sectors: u64) -> u64 {
        let last = self.drive_sectors.saturating_sub(sectors);
        let mut place = if wanted > last { 0 } else { wanted };
        for _ in 0..MOST_MOVES {
            let before = self
                .taken
                .range(..place.saturating_add(sectors))
                .next_back();
            match before {
                Some((_, end)) if *end > place => {
                    place = if *end > last { 0 } else { *end };
                }
                _ => break,
            }
        }
        place
    }
}

/// A number that looks random, made from another one (`splitmix64`).
fn mix_bits(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wakepath_hardware::machine::DriveModel;
    use wakepath_workloads::fio;

    use super::*;

    fn places(options: &str) -> Places {
        let mut machine = Machine::find("laptop").unwrap();
        machine.replace_drive_keeping_count(DriveModel::find("sn530").unwrap());
        let text = format!("[j]\nbs=4k\ndirect=1\n{options}\n");
        Places::new(&machine, &fio::parse(&text, "j").unwrap().into())
    }

    fn request(task: usize, bytes: u64, place: RequestPlace) -> Unplaced {
        Unplaced {
            task,
            job: Some(0),
            write: false,
            bytes,
            place,
        }
    }

    fn take(places: &mut Places, task: usize) -> u64 {
        places.take_place(&request(task, 4096, RequestPlace::Unsettled))
    }

    #[test]
    fn random_requests_lie_in_the_file_and_apart_from_those_in_flight() {
        let mut places = places("rw=randread\nsize=1m");
        let taken: BTreeSet<u64> = (0..200).map(|_| take(&mut places, 5)).collect();
        assert_eq!(taken.len(), 200);
        // The file has 256 blocks. The first requests are in no order.
        let first: Vec<u64> = taken.iter().copied().collect();
        assert!(first.iter().all(|sector| sector % 8 == 0), "{first:?}");
        assert!(*taken.last().unwrap() < 2 * 2048);
        for sector in taken {
            places.free_place(sector);
        }
        let again: Vec<u64> = (0..20).map(|_| take(&mut places, 5)).collect();
        assert!(!again.is_sorted(), "{again:?}");
    }

    #[test]
    fn sequential_requests_follow_each_other_and_begin_again_at_the_end() {
        let mut places = places("rw=read\nsize=16k");
        let mut sectors = Vec::new();
        for task in [3, 3, 3, 4, 3, 3] {
            let sector = take(&mut places, task);
            places.free_place(sector);
            sectors.push(sector);
        }
        assert_eq!(sectors, [0, 8, 16, ALIGNED_TO, 24, 0]);
    }

    #[test]
    fn settled_places_stay_and_flushes_have_their_own() {
        let mut places = places("rw=randread\nfilename=/dev/nvme0n1");
        let byte = 5 << 20;
        let settled = request(0, 4096, RequestPlace::InOwnFile(byte));
        assert_eq!(places.take_place(&settled), byte / SECTOR);
        let flushes = [0, 1].map(|task| {
            let flush = request(task, 0, RequestPlace::Unsettled);
            places.take_place(&flush)
        });
        assert_eq!(flushes, [1, 2]);
        let beyond = request(0, 4096, RequestPlace::InOwnFile(u64::MAX / 2));
        assert!(places.take_place(&beyond) < places.drive_sectors);
    }
}
