//! Watching block I/O with eBPF: what `bpf/block_io.bpf.c` tells, and what it costs.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, ProgramError};
use aya::util::nr_cpus;
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use rustix::time::{ClockId, clock_gettime};
use wakepath_ebpf::{LoadError, Meter, Overhead, cause, kernel_types, refusal};
use wakepath_policies::apst::gaps::{CLASSES, Gaps};
pub use wakepath_policies::psd::BurstEvent as Kind;
use wakepath_policies::psd::Grant;
use wakepath_units::causes::in_one_line;

/// The programs as clang compiled them when wakepath was built; empty when it could not.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/block_io.bpf.o"));
/// Why there are none.
static OBJECT_MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/block_io.missing"));

/// What needs the rights, in messages.
const WHAT: &str = "watching block I/O";
/// How much longer than the timeout a CPU has to be quiet where there are no timers in the kernel, so that an I/O just
/// after it does not come between.
const SLACK: Duration = Duration::from_micros(500);

/// What to watch.
#[derive(Clone, Debug)]
pub struct Watched {
    /// An I/O later than this after the one before begins a new burst.
    pub timeout: Duration,
    /// Which I/Os count.
    pub grant: Grant,
    /// Which I/O of a burst is told first.
    pub first: u32,
    /// How many I/Os of a burst are told.
    pub heard: u32,
    /// Drives whose idle gaps are counted: the block devices (major << 20 | minor) of each.
    pub drives: Vec<Vec<u32>>,
    /// The kernel's timers end bursts, where it has any for programs; else [`Watch::take`] does.
    pub kernel_timers: bool,
}

/// What happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// When, on CLOCK_MONOTONIC in ns; at the end of a burst, no earlier than its last I/O.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: usize,
    /// What.
    pub kind: Kind,
}

/// `struct wp_cpu` of `bpf/wire.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CpuState {
    total: u64,
    last_ns: u64,
    count: u32,
    told: u32,
    lost: u32,
    first: u32,
    heard: u32,
    unused: u32,
    timeout_ns: u64,
    unused2: [u64; 2],
}

/// `struct wp_drive`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DriveState {
    last_ns: u64,
    gaps: [u64; CLASSES],
    gap_us: [u64; CLASSES],
}

#[expect(unsafe_code, reason = "the loader reads these structures as bytes")]
mod pod {
    // SAFETY: both are `repr(C)` of integers only, without padding.
    unsafe impl super::Pod for super::CpuState {}
    // SAFETY: as above.
    unsafe impl super::Pod for super::DriveState {}
}

/// Programs that watch; detached when dropped.
pub struct Watch {
    _links: Vec<BtfTracePointLink>,
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    watched: Watched,
    /// Whether the kernel's timers end bursts; else since when each CPU is in one.
    timed: bool,
    bursts: BTreeMap<usize, u64>,
}

impl Watch {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// When this build has no programs, or this machine does not let them run.
    pub fn start(watched: Watched) -> Result<Self, LoadError> {
        if OBJECT.is_empty() {
            return Err(LoadError::NoPrograms(OBJECT_MISSING));
        }
        let btf = kernel_types()?;
        let unsupported = |text: String| LoadError::Unsupported(text);
        let cpus = nr_cpus().map_err(|(path, error)| unsupported(format!("{path}: {error}")))?;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let state = CpuState {
            timeout_ns: ns(watched.timeout),
            first: watched.first,
            heard: watched.heard,
            ..CpuState::default()
        };
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .map_max_entries("cpus", cpus as u32)
            .map_max_entries("timers", cpus as u32)
            .map_max_entries(
                "namespaces",
                watched.drives.iter().map(Vec::len).sum::<usize>().max(1) as u32,
            )
            .map_max_entries("drives", watched.drives.len().max(1) as u32)
            .load(OBJECT)
            .map_err(|error| refusal(WHAT, in_one_line(&error)))?;
        put_cpus(&mut ebpf, cpus, state)
            .and_then(|()| put_drives(&mut ebpf, &watched.drives))
            .map_err(|e| unsupported(in_one_line(&e)))?;
        let (mut links, timed) = attach_bursts(&mut ebpf, &btf, &watched)
            .map_err(|error| refusal(WHAT, cause(&error)))?;
        if !watched.drives.is_empty() {
            for (program, at) in [("gap_begins", COMPLETE), ("gap_ends", ISSUE)] {
                let link = attach(&mut ebpf, &btf, program, at);
                links.push(link.map_err(|error| refusal(WHAT, cause(&error)))?);
            }
        }
        // Without it, nobody learns what measuring costs.
        let _ = load(&mut ebpf, &btf, NOTHING, COMPLETE);
        let ring = ebpf
            .take_map("events")
            .ok_or_else(|| unsupported("no map `events`".to_owned()))
            .and_then(|map| RingBuf::try_from(map).map_err(|e| unsupported(in_one_line(&e))))?;
        Ok(Self {
            _links: links,
            ebpf,
            ring,
            watched,
            timed,
            bursts: BTreeMap::new(),
        })
    }

    /// Becomes readable when something happened.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Whether the kernel's timers end bursts.
    pub const fn timed(&self) -> bool {
        self.timed
    }

    /// When [`Watch::take`] has to be called even if nothing happens.
    pub fn due_ns(&self) -> Option<u64> {
        let soonest = self.bursts.values().min()?;
        (!self.timed).then(|| soonest + self.quiet_ns())
    }

    /// What happened since the last call.
    pub fn take(&mut self) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        while let Some(bytes) = self.ring.next() {
            events.extend(decode(&bytes));
        }
        if !self.timed {
            self.end_bursts(&mut events);
        }
        events
    }

    /// I/Os seen so far, by CPU, and how many events found no room.
    pub fn totals(&self) -> (Vec<u64>, u64) {
        let mut totals = Vec::new();
        let mut lost = 0;
        if let Some(states) = self.states() {
            for state in states.iter().flatten() {
                totals.push(state.total);
                lost += u64::from(state.lost);
            }
        }
        (totals, lost)
    }

    /// The idle gaps so far of the drive that a block device belongs to.
    pub fn gaps(&self, device: u32) -> Option<Gaps> {
        let drives = &self.watched.drives;
        let at = drives
            .iter()
            .position(|devices| devices.contains(&device))?;
        let map: Array<_, DriveState> = Array::try_from(self.ebpf.map("drives")?).ok()?;
        let state = map.get(&(at as u32), 0).ok()?;
        Some(Gaps {
            count: state.gaps,
            total_us: state.gap_us,
        })
    }

    /// Has the kernel measure what the programs cost, until the meter is dropped.
    pub fn meter(&mut self) -> CostMeter {
        let attached = attach_loaded(&mut self.ebpf, NOTHING).ok();
        let of = |nothing| {
            let programs = self.ebpf.programs();
            Meter::start(programs.filter(|(name, _)| (*name == NOTHING) == nothing))
        };
        CostMeter {
            programs: of(false),
            nothing: of(true),
            _attached: attached,
        }
    }

    fn states(&self) -> Option<Array<&MapData, CpuState>> {
        Array::try_from(self.ebpf.map("cpus")?).ok()
    }

    fn quiet_ns(&self) -> u64 {
        (self.watched.timeout + SLACK).as_nanos() as u64
    }

    /// Without timers in the kernel: looks when the CPUs in a burst had their last I/O.
    fn end_bursts(&mut self, events: &mut Vec<WatchEvent>) {
        for event in events.iter() {
            self.bursts.insert(event.cpu, event.time_ns);
        }
        let now = now_ns();
        let quiet = self.quiet_ns();
        let due: Vec<usize> = self
            .bursts
            .iter()
            .filter(|(_, last)| **last + quiet <= now)
            .map(|(cpu, _)| *cpu)
            .collect();
        for cpu in due {
            let last = self.states().and_then(|s| s.get(&(cpu as u32), 0).ok());
            let last = last.map_or(0, |state| state.last_ns);
            if last + quiet <= now {
                self.bursts.remove(&cpu);
                events.push(WatchEvent {
                    time_ns: last,
                    cpu,
                    kind: Kind::Quiet,
                });
            } else {
                self.bursts.insert(cpu, last);
            }
        }
    }
}

/// Measures programs as long as it lives.
pub struct CostMeter {
    programs: Meter,
    /// A program that does nothing, in the same place.
    nothing: Meter,
    _attached: Option<BtfTracePointLink>,
}

/// What was measured since the start of a [`CostMeter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The programs.
    pub programs: Overhead,
    /// A program that does nothing, in the same place: what measuring costs.
    pub nothing: Overhead,
}

impl CostMeter {
    /// What was measured; `None` where the kernel does not measure for us.
    pub fn read(&self) -> Option<Cost> {
        Some(Cost {
            programs: self.programs.read()?,
            nothing: self.nothing.read()?,
        })
    }
}

const NOTHING: &str = "nothing";
const COMPLETE: &str = "block_rq_complete";
const ISSUE: &str = "block_rq_issue";

/// Attaches the programs that see bursts, with the kernel's timers if that works.
fn attach_bursts(
    ebpf: &mut Ebpf,
    btf: &Btf,
    watched: &Watched,
) -> Result<(Vec<BtfTracePointLink>, bool), ProgramError> {
    let places = |complete, issue| {
        let mut places = Vec::new();
        if watched.grant.on_completion() {
            places.push((complete, COMPLETE));
        }
        if watched.grant.on_issue() {
            places.push((issue, ISSUE));
        }
        places
    };
    let mut all = |places: Vec<(&str, &str)>| -> Result<Vec<_>, ProgramError> {
        let links = places.into_iter();
        links
            .map(|(program, at)| attach(ebpf, btf, program, at))
            .collect()
    };
    if watched.kernel_timers
        && let Ok(links) = all(places("complete_timed", "issue_timed"))
    {
        return Ok((links, true));
    }
    Ok((all(places("complete", "issue"))?, false))
}

fn attach(
    ebpf: &mut Ebpf,
    btf: &Btf,
    program: &str,
    tracepoint: &str,
) -> Result<BtfTracePointLink, ProgramError> {
    load(ebpf, btf, program, tracepoint)?;
    attach_loaded(ebpf, program)
}

fn load(ebpf: &mut Ebpf, btf: &Btf, program: &str, tracepoint: &str) -> Result<(), ProgramError> {
    find(ebpf, program)?.load(tracepoint, btf)
}

fn attach_loaded(ebpf: &mut Ebpf, program: &str) -> Result<BtfTracePointLink, ProgramError> {
    let program = find(ebpf, program)?;
    let id = program.attach()?;
    program.take_link(id)
}

fn find<'a>(ebpf: &'a mut Ebpf, program: &str) -> Result<&'a mut BtfTracePoint, ProgramError> {
    let program = ebpf.program_mut(program);
    program.ok_or(ProgramError::NotLoaded)?.try_into()
}

/// What to do on each CPU, before anything happens there.
fn put_cpus(ebpf: &mut Ebpf, cpus: usize, state: CpuState) -> Result<(), aya::maps::MapError> {
    let Some(map) = ebpf.map_mut("cpus") else {
        return Ok(());
    };
    let mut map: Array<_, CpuState> = Array::try_from(map)?;
    (0..cpus as u32).try_for_each(|cpu| map.set(cpu, state, 0))
}

/// Which device belongs to which drive.
fn put_drives(ebpf: &mut Ebpf, drives: &[Vec<u32>]) -> Result<(), aya::maps::MapError> {
    let Some(map) = ebpf.map_mut("namespaces") else {
        return Ok(());
    };
    let mut map: HashMap<_, u32, u32> = HashMap::try_from(map)?;
    for (drive, devices) in (0..).zip(drives) {
        for device in devices {
            map.insert(device, drive, 0)?;
        }
    }
    Ok(())
}

/// A record of `struct wp_event`; `None` for one of another length or kind.
fn decode(bytes: &[u8]) -> Option<WatchEvent> {
    let (time, rest) = bytes.split_first_chunk::<8>()?;
    let (cpu, rest) = rest.split_first_chunk::<4>()?;
    let (kind, rest) = rest.split_first_chunk::<4>()?;
    let kind = match u32::from_ne_bytes(*kind) {
        1 => Kind::Io,
        2 => Kind::Quiet,
        _ => return None,
    };
    rest.is_empty().then_some(WatchEvent {
        time_ns: u64::from_ne_bytes(*time),
        cpu: u32::from_ne_bytes(*cpu) as usize,
        kind,
    })
}

/// Now, on the clock of the events.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_were_written() {
        let mut bytes = 7_u64.to_ne_bytes().to_vec();
        bytes.extend(3_u32.to_ne_bytes());
        bytes.extend(2_u32.to_ne_bytes());
        let event = WatchEvent {
            time_ns: 7,
            cpu: 3,
            kind: Kind::Quiet,
        };
        assert_eq!(decode(&bytes), Some(event));
        assert_eq!(decode(&bytes[..15]), None);
        bytes[12..].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(decode(&bytes), None);
    }
}
