//! A recording in progress: loaded eBPF programs and per-CPU buffers, read in order of time.

use aya::maps::{Array, ArrayOfMaps, Map, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::ProgramError;
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfError, EbpfLoader};
use rustix::time::{ClockId, clock_gettime};
use wakepath_ebpf::{
    LoadError as StartError, Meter, Overhead, error_with_causes, explain_load_failure,
    read_kernel_btf,
};
use wakepath_system::System;
use wakepath_trace::recording::{DataQuality, Recorded};
use wakepath_units::causes::in_one_line;

use crate::cycles::CycleCounters;
use crate::facts::read_interrupt_names;
use crate::hooks::{self, Attached, MissingHook};
use crate::queue::RecordQueue;
use crate::wire::{CpuBuffer, CpuBufferWords, Record, WireError};

/// The eBPF programs as clang compiled them when wakepath was built; empty when it could not.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/record.bpf.o"));
/// The reason why this build has no eBPF programs.
static OBJECT_MISSING: &str = include_str!(concat!(env!("OUT_DIR"), "/record.missing"));

/// Subject of messages about missing rights.
const SUBJECT: &str = "recording";
/// Default size of each CPU's buffer in bytes: at 200 000 records a second of 40 bytes, half a second.
pub const BUFFER_BYTES: u32 = 4 << 20;
/// Largest page size in bytes: each buffer is a multiple. Machines other than x86 may have this size.
const LARGEST_PAGE: u32 = if cfg!(target_arch = "x86_64") {
    4 << 10
} else {
    64 << 10
};
/// How long a record may take from its time stamp to its buffer: a virtual CPU can stand still for 20 ms.
const SETTLE_NS: u64 = 30_000_000;
/// How often the reading of a busy buffer is repeated. Adding a record takes far less time than reading a buffer.
const BUFFER_READS: usize = 16;

/// The records since the last batch.
#[derive(Debug, Default)]
pub struct RecordBatch {
    /// The records, in order of time.
    pub records: Vec<Record>,
    /// Time up to which all records are in this batch or an earlier one.
    pub until_ns: u64,
    /// CPUs whose buffer was full, with the number of lost records.
    pub lost: Vec<(u16, u64)>,
}

/// What a copy of a CPU's buffer gave.
enum BufferCopy {
    /// The buffer in use, by generation, with its records; every earlier delivery is readable by now.
    CpuBuffer(u64, Vec<u8>),
    /// The buffer was handed over while it was copied: its records come with the delivery.
    HandedOver,
}

/// The attached eBPF programs and their buffers.
pub struct LiveRecording {
    attached: Attached,
    ebpf: Ebpf,
    rings: Vec<RingBuf<MapData>>,
    lost_before: Vec<u64>,
    queue: RecordQueue,
    /// Time when the programs were attached, in ns.
    begun_ns: u64,
    /// Time up to which all records of each CPU were taken, in ns.
    taken_until_ns: Vec<u64>,
    meter: Meter,
    /// Read by the programs; `None` where this machine has none.
    cycles: Option<CycleCounters>,
    follows_all_tasks: bool,
}

/// Whose steps are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedTasks {
    /// Of tasks that did I/O or waited for some.
    #[default]
    WithIo,
    /// Of all tasks, with every time that a task gets a CPU: on a busy machine a multiple of the events.
    All,
}

impl LiveRecording {
    /// Loads and attaches the programs. `buffer_bytes`: room for the records of each CPU in bytes, rounded up to a power
    /// of two of whole pages.
    ///
    /// # Errors
    /// This build has no programs, or the machine refuses to run them.
    pub fn load_and_attach(buffer_bytes: u32, tasks: RecordedTasks) -> Result<Self, StartError> {
        if OBJECT.is_empty() {
            return Err(StartError::NoPrograms(OBJECT_MISSING));
        }
        let btf = read_kernel_btf()?;
        let cpus = nr_cpus()
            .map_err(|(path, error)| StartError::Unsupported(format!("{path}: {error}")))?;
        let tick_function = find_tick_function_address();
        let online = System::live().cpus();
        let cycles = CycleCounters::open(&online);
        let counts_cycles = u32::from(cycles.is_some());
        let follows_all_tasks = tasks == RecordedTasks::All;
        let mut ebpf = EbpfLoader::new()
            .override_global("tick_function", &tick_function, true)
            .override_global("counts_cycles", &counts_cycles, true)
            .override_global("follows_all_tasks", &u32::from(follows_all_tasks), true)
            .btf(Some(&btf))
            .map_max_entries("rings", cpus as u32)
            .map_max_entries("buffers", cpus as u32)
            .map_max_entries("cycles", cpus as u32)
            .map_max_entries("reference_cycles", cpus as u32)
            .load(OBJECT)
            .map_err(|error| not_loaded_error(&error))?;
        let rings = make_ring_buffers(&mut ebpf, cpus as u32, buffer_bytes)
            .map_err(|error| StartError::Unsupported(in_one_line(&error)))?;
        // Programs without counters record no clocks.
        let cycles =
            cycles.filter(|cycles| cycles.put_into_program_maps(&online, &mut ebpf).is_ok());
        let mut attached = hooks::attach_available_hooks(&mut ebpf, &btf)
            .map_err(|error| not_attached_error(&error))?;
        attached.find_ipis_among_interrupts(&read_interrupt_names(System::live().root()));
        let meter = Meter::start_measuring(ebpf.programs());
        let begun_ns = monotonic_now_ns();
        Ok(Self {
            attached,
            ebpf,
            rings,
            lost_before: vec![0; cpus],
            queue: RecordQueue::new(cpus, begun_ns),
            begun_ns,
            taken_until_ns: vec![begun_ns; cpus],
            meter,
            cycles,
            follows_all_tasks,
        })
    }

    /// Time when the recording began, in ns on the clock of the records.
    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Unusable hooks.
    pub fn missing_hooks(&self) -> &[MissingHook] {
        &self.attached.missing
    }

    /// Recorded data.
    pub fn recorded_data(&self) -> Recorded {
        let attached = self.attached.recorded_data();
        Recorded {
            clock: if self.cycles.is_some() {
                DataQuality::Exact
            } else {
                DataQuality::Missing
            },
            all_tasks: if self.follows_all_tasks {
                attached.tasks
            } else {
                DataQuality::Missing
            },
            ..attached
        }
    }

    /// Whether outcomes of idle states are recorded ([`crate::wire::RecordKind::Reflect`]).
    pub fn sees_idle_outcomes(&self) -> bool {
        self.attached.sees_idle_outcomes()
    }

    /// The programs' cost so far; `None` where the kernel does not count it.
    pub fn overhead_so_far(&self) -> Option<Overhead> {
        self.meter.read_overhead()
    }

    /// Takes the records until a moment ago. To be called at least twice a second, or buffers run full.
    ///
    /// # Errors
    /// A record is malformed.
    pub fn take_batch(&mut self) -> Result<RecordBatch, WireError> {
        self.take_records_of_all_cpus()?;
        let taken = self.taken_until_ns.iter().min().copied();
        Ok(self.take_batch_until(taken.unwrap_or_default().saturating_sub(SETTLE_NS)))
    }

    /// Detaches the programs. Returns the remaining records, and the cost where the kernel counts it.
    ///
    /// # Errors
    /// A record is malformed.
    pub fn detach_and_take_rest(mut self) -> Result<(RecordBatch, Option<Overhead>), WireError> {
        let overhead = self.meter.read_overhead();
        // The programs detach one after the other, so the last records have gaps.
        let ended_ns = monotonic_now_ns();
        self.attached.links.clear();
        self.wait_for_running_programs();
        self.take_records_of_all_cpus()?;
        self.queue.stop_waiting_for_nested();
        Ok((self.take_batch_until(ended_ns), overhead))
    }

    /// Takes the records of all CPUs so far.
    fn take_records_of_all_cpus(&mut self) -> Result<(), WireError> {
        (0..self.rings.len()).try_for_each(|cpu| self.take_records_of_cpu(cpu))
    }

    fn take_records_of_cpu(&mut self, cpu: usize) -> Result<(), WireError> {
        let now = monotonic_now_ns();
        let state = (0..BUFFER_READS).find_map(|_| self.try_copy_records(cpu));
        // Deliveries are taken that were made before the buffer was read, possibly with that same buffer.
        while let Some(bytes) = self.rings[cpu].next() {
            self.queue.take_delivered_buffer(cpu, &bytes)?;
        }
        if let Some(BufferCopy::CpuBuffer(generation, records)) = &state {
            self.queue
                .take_unfinished_buffer(cpu, *generation, records)?;
        }
        if state.is_some() {
            self.taken_until_ns[cpu] = now;
        }
        Ok(())
    }

    /// Reads a CPU's buffer while the CPU may change it; `None` while the CPU adds a record. The kernel copies a buffer word
    /// by word. So generation, length and records each take a copy of their own, and a last one tells whether the buffer
    /// is still the same.
    fn try_copy_records(&self, cpu: usize) -> Option<BufferCopy> {
        // The map of buffers exists as long as the programs.
        let map = self.ebpf.map("buffers")?;
        let buffers = Array::<_, CpuBufferWords>::try_from(map).ok()?;
        let first = copy_cpu_buffer(&buffers, cpu)?;
        let generation = first.generation();
        if !self.queue.has_new_records(cpu, &first) {
            return Some(BufferCopy::CpuBuffer(generation, Vec::new()));
        }
        let second = copy_cpu_buffer(&buffers, cpu)?;
        if second.is_being_written() {
            return None;
        }
        let records = copy_cpu_buffer(&buffers, cpu)?.data_bytes(second.data_words_in_use());
        Some(
            if copy_cpu_buffer(&buffers, cpu)?.generation() == generation {
                BufferCopy::CpuBuffer(generation, records)
            } else {
                BufferCopy::HandedOver
            },
        )
    }

    fn take_batch_until(&mut self, last_ns: u64) -> RecordBatch {
        RecordBatch {
            records: self.queue.take_records_until(last_ns),
            until_ns: last_ns,
            lost: self.take_lost_counts(),
        }
    }

    /// Waits until no program runs any more: the kernel waits for them all when a map in a map is set.
    fn wait_for_running_programs(&mut self) {
        let rings = self.ebpf.map_mut("rings").map(ArrayOfMaps::try_from);
        if let (Some(Ok(mut rings)), Some(ring)) = (rings, self.rings.first()) {
            // The ring buffer is in the map already. If setting it again fails, continuing is the best that can be
            // done.
            let _: Result<(), MapError> = rings.set(0, ring, 0);
        }
    }

    /// Takes the numbers of records lost since the last call, by CPU.
    fn take_lost_counts(&mut self) -> Vec<(u16, u64)> {
        let counts = self
            .ebpf
            .map("lost")
            .and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok())
            .and_then(|map| map.get(&0, 0).ok());
        let Some(counts) = counts else {
            return Vec::new();
        };
        let mut lost = Vec::new();
        for (cpu, (before, count)) in self.lost_before.iter_mut().zip(counts.iter()).enumerate() {
            if count > before {
                lost.push((cpu as u16, count - *before));
                *before = *count;
            }
        }
        lost
    }
}

/// Copies a CPU's buffer from the kernel.
fn copy_cpu_buffer(buffers: &Array<&MapData, CpuBufferWords>, cpu: usize) -> Option<CpuBuffer> {
    buffers.get(&(cpu as u32), 0).ok().map(CpuBuffer)
}

/// The present time in ns, on the clock of the records.
fn monotonic_now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The address of the function that the scheduler's tick runs: `tick_sched_timer` until 6.7, `tick_nohz_handler` since.
/// 0 when the kernel does not tell.
fn find_tick_function_address() -> u64 {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let address = symbols.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (address, name) = (words.next()?, words.nth(1)?);
        matches!(name, "tick_sched_timer" | "tick_nohz_handler").then_some(address)
    });
    address
        .and_then(|address| u64::from_str_radix(address, 16).ok())
        .unwrap_or(0)
}

/// Makes a ring buffer for each CPU and tells the programs.
fn make_ring_buffers(
    ebpf: &mut Ebpf,
    cpus: u32,
    bytes: u32,
) -> Result<Vec<RingBuf<MapData>>, MapError> {
    let size = bytes.clamp(LARGEST_PAGE, 1 << 30).next_power_of_two();
    let Some(map) = ebpf.map_mut("rings") else {
        return Ok(Vec::new());
    };
    let mut rings: ArrayOfMaps<_, RingBuf<MapData>> = map.try_into()?;
    let mut made = Vec::new();
    for cpu in 0..cpus {
        // BPF_MAP_TYPE_RINGBUF, which has neither keys nor values.
        let definition = aya_obj::Map::new_from_params(27, 0, 0, size, 0);
        let ring = RingBuf::try_from(Map::RingBuf(MapData::create(definition, "ring", None)?))?;
        rings.set(cpu, &ring, 0)?;
        made.push(ring);
    }
    Ok(made)
}

fn not_loaded_error(error: &EbpfError) -> StartError {
    explain_load_failure(SUBJECT, in_one_line(error))
}

fn not_attached_error(error: &ProgramError) -> StartError {
    explain_load_failure(SUBJECT, error_with_causes(error))
}
