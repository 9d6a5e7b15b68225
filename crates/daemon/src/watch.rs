//! Watches block I/O with eBPF: bursts of I/O as events, and the programs' cost (`bpf/block_io.bpf.c`).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, ProgramError};
use aya::util::nr_cpus;
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use rustix::time::{ClockId, clock_gettime};
use wakepath_ebpf::{
    LoadError, Meter, Overhead, error_with_causes, explain_load_failure, read_kernel_btf,
};
use wakepath_policies::apst::gaps::{CLASSES, DriveIdleGaps};
pub use wakepath_policies::psd::BurstEvent;
use wakepath_policies::psd::LeaseTrigger;
use wakepath_units::causes::in_one_line;

/// The eBPF programs as clang compiled them when wakepath was built; empty when it could not.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/block_io.bpf.o"));
/// The reason why this build has no eBPF programs.
static OBJECT_MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/block_io.missing"));

/// Name in messages of the work that needs rights.
const WORK: &str = "watching block I/O";
/// Time beyond the timeout that a CPU has to be quiet where the kernel has no timers for programs: an I/O just after
/// the timeout belongs to the burst.
const SLACK: Duration = Duration::from_micros(500);

/// Which I/Os are watched, and what is told about them.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Longest gap between two I/Os of a burst; a later I/O begins a new burst.
    pub timeout: Duration,
    /// Which kinds of I/Os count for bursts.
    pub grant: LeaseTrigger,
    /// Number of the first I/O in a burst that is told.
    pub first: u32,
    /// How many I/Os of a burst are told.
    pub told: u32,
    /// Drives whose idle gaps are counted: the block devices (major << 20 | minor) of each.
    pub drives: Vec<Vec<u32>>,
    /// Whether timers of the kernel may end bursts, where it has any for programs; else [`Watch::take_events`] ends
    /// them.
    pub kernel_timers: bool,
}

/// An event of a burst on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// Time on CLOCK_MONOTONIC in ns; for the end of a burst, no earlier than its last I/O.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: usize,
    /// The event.
    pub kind: BurstEvent,
}

/// The state of a CPU in the programs' map: `struct wp_cpu` of `bpf/wire.h`.
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

/// The attached programs that watch block I/O; dropping it detaches them.
pub struct Watch {
    _links: Vec<BtfTracePointLink>,
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
    options: WatchOptions,
    /// Whether timers of the kernel end bursts.
    timed: bool,
    /// Where the kernel has no such timers: the last known I/O of each CPU in a burst.
    bursts: BTreeMap<usize, u64>,
}

impl Watch {
    /// Loads and attaches the eBPF programs.
    ///
    /// # Errors
    /// This build has no programs, or this machine does not let them run.
    pub fn load_and_attach(options: WatchOptions) -> Result<Self, LoadError> {
        if OBJECT.is_empty() {
            return Err(LoadError::NoPrograms(OBJECT_MISSING));
        }
        let btf = read_kernel_btf()?;
        let mut ebpf = load_programs_and_fill_maps(&btf, &options)?;
        let (mut links, timed) =
            attach_burst_programs_with_timers_if_possible(&mut ebpf, &btf, &options)
                .map_err(|error| explain_load_failure(WORK, error_with_causes(&error)))?;
        if !options.drives.is_empty() {
            for (program, at) in [("gap_begins", COMPLETE), ("gap_ends", ISSUE)] {
                let link = load_and_attach(&mut ebpf, &btf, program, at);
                links.push(
                    link.map_err(|error| explain_load_failure(WORK, error_with_causes(&error)))?,
                );
            }
        }
        // Without the empty program the cost of measuring stays unknown.
        let _ = load_program(&mut ebpf, &btf, NOTHING, COMPLETE);
        let map = ebpf
            .take_map("events")
            .ok_or_else(|| LoadError::Unsupported("no map `events`".to_owned()))?;
        let ring = RingBuf::try_from(map).map_err(|error| unsupported_error(&error))?;
        Ok(Self {
            _links: links,
            ebpf,
            ring,
            options,
            timed,
            bursts: BTreeMap::new(),
        })
    }

    /// Descriptor that becomes readable when the programs have written events.
    pub fn event_descriptor(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Whether timers of the kernel end bursts.
    pub const fn ends_bursts_by_kernel_timers(&self) -> bool {
        self.timed
    }

    /// When [`Watch::take_events`] has to be called even if nothing happens.
    pub fn next_call_due_ns(&self) -> Option<u64> {
        let soonest = self.bursts.values().min()?;
        (!self.timed).then(|| soonest + self.burst_timeout_with_slack_ns())
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        while let Some(bytes) = self.ring.next() {
            events.extend(decode_watch_event(&bytes));
        }
        if !self.timed {
            self.end_overdue_bursts(&mut events);
        }
        events
    }

    /// Number of I/Os so far by CPU, and number of events lost because the buffer was full.
    pub fn io_counts_by_cpu_and_lost_events(&self) -> (Vec<u64>, u64) {
        let mut totals = Vec::new();
        let mut lost = 0;
        if let Some(states) = self.open_cpu_map() {
            for state in states.iter().flatten() {
                totals.push(state.total);
                lost += u64::from(state.lost);
            }
        }
        (totals, lost)
    }

    /// The idle gaps so far of the drive that a block device belongs to; `None` if they are not counted.
    pub fn idle_gaps_of_drive_with_device(&self, device_number: u32) -> Option<DriveIdleGaps> {
        let drives = &self.options.drives;
        let at = drives
            .iter()
            .position(|devices| devices.contains(&device_number))?;
        let map: Array<_, DriveState> = Array::try_from(self.ebpf.map("drives")?).ok()?;
        let state = map.get(&(at as u32), 0).ok()?;
        Some(DriveIdleGaps {
            count: state.gaps,
            total_us: state.gap_us,
        })
    }

    /// Starts measuring the programs' run time, until the returned meter is dropped.
    pub fn start_cost_meter(&mut self) -> CostMeter {
        let attached = attach_loaded_program(&mut self.ebpf, NOTHING).ok();
        let programs = self.ebpf.programs();
        let empty = self.ebpf.programs();
        CostMeter {
            programs: Meter::start_measuring(programs.filter(|(name, _)| *name != NOTHING)),
            nothing: Meter::start_measuring(empty.filter(|(name, _)| *name == NOTHING)),
            _attached: attached,
        }
    }

    fn open_cpu_map(&self) -> Option<Array<&MapData, CpuState>> {
        Array::try_from(self.ebpf.map("cpus")?).ok()
    }

    fn burst_timeout_with_slack_ns(&self) -> u64 {
        (self.options.timeout + SLACK).as_nanos() as u64
    }

    /// Ends bursts where the kernel has no timers for programs, by the last I/O of each CPU.
    fn end_overdue_bursts(&mut self, events: &mut Vec<WatchEvent>) {
        for event in events.iter() {
            self.bursts.insert(event.cpu, event.time_ns);
        }
        let now = monotonic_now_ns();
        let quiet = self.burst_timeout_with_slack_ns();
        let due: Vec<usize> = self
            .bursts
            .iter()
            .filter(|(_, last)| **last + quiet <= now)
            .map(|(cpu, _)| *cpu)
            .collect();
        for cpu in due {
            let state = self
                .open_cpu_map()
                .and_then(|s| s.get(&(cpu as u32), 0).ok());
            let last = state.map_or(0, |state| state.last_ns);
            if last + quiet <= now {
                self.bursts.remove(&cpu);
                events.push(WatchEvent {
                    time_ns: last,
                    cpu,
                    kind: BurstEvent::Quiet,
                });
            } else {
                self.bursts.insert(cpu, last);
            }
        }
    }
}

/// Lets the kernel measure the programs' run time until it is dropped.
pub struct CostMeter {
    programs: Meter,
    /// Measures an empty program, attached at the same place as the others.
    nothing: Meter,
    _attached: Option<BtfTracePointLink>,
}

/// Cost of the programs since the start of a [`CostMeter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The programs.
    pub programs: Overhead,
    /// Run time of an empty program, attached at the same place: the cost of measuring.
    pub nothing: Overhead,
}

impl CostMeter {
    /// The programs' cost so far; `None` where the kernel does not measure.
    pub fn read_cost(&self) -> Option<Cost> {
        Some(Cost {
            programs: self.programs.read_overhead()?,
            nothing: self.nothing.read_overhead()?,
        })
    }
}

const NOTHING: &str = "nothing";
const COMPLETE: &str = "block_rq_complete";
const ISSUE: &str = "block_rq_issue";

/// Loads the eBPF programs, and fills their maps.
fn load_programs_and_fill_maps(btf: &Btf, options: &WatchOptions) -> Result<Ebpf, LoadError> {
    let cpus =
        nr_cpus().map_err(|(path, error)| LoadError::Unsupported(format!("{path}: {error}")))?;
    let devices: usize = options.drives.iter().map(Vec::len).sum();
    let mut ebpf = EbpfLoader::new()
        .btf(Some(btf))
        .map_max_entries("cpus", cpus as u32)
        .map_max_entries("timers", cpus as u32)
        .map_max_entries("namespaces", devices.max(1) as u32)
        .map_max_entries("drives", options.drives.len().max(1) as u32)
        .load(OBJECT)
        .map_err(|error| explain_load_failure(WORK, in_one_line(&error)))?;
    let state = CpuState {
        timeout_ns: u64::try_from(options.timeout.as_nanos()).unwrap_or(u64::MAX),
        first: options.first,
        heard: options.told,
        ..CpuState::default()
    };
    fill_cpu_map(&mut ebpf, cpus, state)
        .and_then(|()| fill_map_of_drive_by_device(&mut ebpf, &options.drives))
        .map_err(|error| unsupported_error(&error))?;
    Ok(ebpf)
}

fn unsupported_error(error: &aya::maps::MapError) -> LoadError {
    LoadError::Unsupported(in_one_line(error))
}

/// Attaches the programs that see bursts. Returns whether the kernel's timers end bursts.
fn attach_burst_programs_with_timers_if_possible(
    ebpf: &mut Ebpf,
    btf: &Btf,
    options: &WatchOptions,
) -> Result<(Vec<BtfTracePointLink>, bool), ProgramError> {
    if options.kernel_timers
        && let Ok(links) = attach_granted_completion_and_issue(
            ebpf,
            btf,
            options.grant,
            ("complete_timed", "issue_timed"),
        )
    {
        return Ok((links, true));
    }
    let links =
        attach_granted_completion_and_issue(ebpf, btf, options.grant, ("complete", "issue"))?;
    Ok((links, false))
}

/// Attaches one program to completions and one to issues, as far as these count for bursts.
fn attach_granted_completion_and_issue(
    ebpf: &mut Ebpf,
    btf: &Btf,
    grant: LeaseTrigger,
    (complete, issue): (&str, &str),
) -> Result<Vec<BtfTracePointLink>, ProgramError> {
    let mut links = Vec::new();
    if grant.is_completion_a_trigger() {
        links.push(load_and_attach(ebpf, btf, complete, COMPLETE)?);
    }
    if grant.is_issue_a_trigger() {
        links.push(load_and_attach(ebpf, btf, issue, ISSUE)?);
    }
    Ok(links)
}

fn load_and_attach(
    ebpf: &mut Ebpf,
    btf: &Btf,
    program: &str,
    tracepoint: &str,
) -> Result<BtfTracePointLink, ProgramError> {
    load_program(ebpf, btf, program, tracepoint)?;
    attach_loaded_program(ebpf, program)
}

fn load_program(
    ebpf: &mut Ebpf,
    btf: &Btf,
    program: &str,
    tracepoint: &str,
) -> Result<(), ProgramError> {
    find_program(ebpf, program)?.load(tracepoint, btf)
}

fn attach_loaded_program(
    ebpf: &mut Ebpf,
    program: &str,
) -> Result<BtfTracePointLink, ProgramError> {
    let loaded = find_program(ebpf, program)?;
    let id = loaded.attach()?;
    loaded.take_link(id)
}

fn find_program<'a>(
    ebpf: &'a mut Ebpf,
    program: &str,
) -> Result<&'a mut BtfTracePoint, ProgramError> {
    ebpf.program_mut(program)
        .ok_or(ProgramError::NotLoaded)?
        .try_into()
}

/// Fills the map of CPUs with the same state for each, before any burst begins.
fn fill_cpu_map(ebpf: &mut Ebpf, cpus: usize, state: CpuState) -> Result<(), aya::maps::MapError> {
    let Some(map) = ebpf.map_mut("cpus") else {
        return Ok(());
    };
    let mut states: Array<_, CpuState> = Array::try_from(map)?;
    (0..cpus as u32).try_for_each(|cpu| states.set(cpu, state, 0))
}

/// Fills the map that has the drive of each block device.
fn fill_map_of_drive_by_device(
    ebpf: &mut Ebpf,
    drives: &[Vec<u32>],
) -> Result<(), aya::maps::MapError> {
    let Some(map) = ebpf.map_mut("namespaces") else {
        return Ok(());
    };
    let mut drive_by_device: HashMap<_, u32, u32> = HashMap::try_from(map)?;
    for (drive, devices) in (0..).zip(drives) {
        for device in devices {
            drive_by_device.insert(device, drive, 0)?;
        }
    }
    Ok(())
}

/// Decodes a `struct wp_event`; `None` for a wrong length or kind.
fn decode_watch_event(bytes: &[u8]) -> Option<WatchEvent> {
    let (time, rest) = bytes.split_first_chunk::<8>()?;
    let (cpu, rest) = rest.split_first_chunk::<4>()?;
    let (kind, rest) = rest.split_first_chunk::<4>()?;
    let event = match u32::from_ne_bytes(*kind) {
        1 => BurstEvent::Io,
        2 => BurstEvent::Quiet,
        _ => return None,
    };
    rest.is_empty().then_some(WatchEvent {
        time_ns: u64::from_ne_bytes(*time),
        cpu: u32::from_ne_bytes(*cpu) as usize,
        kind: event,
    })
}

/// The present time in ns, on the clock of the programs' events.
pub(crate) fn monotonic_now_ns() -> u64 {
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
            kind: BurstEvent::Quiet,
        };
        assert_eq!(decode_watch_event(&bytes), Some(event));
        assert_eq!(decode_watch_event(&bytes[..15]), None);
        bytes[12..].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(decode_watch_event(&bytes), None);
    }
}
