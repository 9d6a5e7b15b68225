//! Counters of CPU cycles, which the eBPF programs read where a CPU begins to run and where it completes a request.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::Ebpf;
use aya::maps::Map;
use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// The counters of every CPU: cycles, and reference cycles. Dropping closes the counters.
pub(crate) struct CycleCounters(Vec<[Counter; 2]>);

impl CycleCounters {
    /// Opens both counters on each CPU given; `None` if any CPU has none: most virtual machines, and machines whose
    /// counters are all in use.
    pub(crate) fn open(cpus: &[usize]) -> Option<Self> {
        let counters = cpus.iter().map(|cpu| {
            let cycles = open_pinned_cycle_counter(Hardware::CPU_CYCLES, *cpu)?;
            Some([
                cycles,
                open_pinned_cycle_counter(Hardware::REF_CPU_CYCLES, *cpu)?,
            ])
        });
        counters.collect::<Option<Vec<_>>>().map(Self)
    }

    /// Puts the counters into the programs' maps, by CPU.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn put_into_program_maps(&self, cpus: &[usize], ebpf: &mut Ebpf) -> io::Result<()> {
        for (place, name) in ["cycles", "reference_cycles"].into_iter().enumerate() {
            let Some(Map::PerfEventArray(map)) = ebpf.map(name) else {
                return Err(io::Error::other(format!("no map {name}")));
            };
            for (cpu, counters) in cpus.iter().zip(&self.0) {
                set_perf_event_in_map(map.fd().as_fd(), *cpu as u32, counters[place].as_raw_fd())?;
            }
        }
        Ok(())
    }
}

fn open_pinned_cycle_counter(event: Hardware, cpu: usize) -> Option<Counter> {
    let mut counter = Builder::new(event)
        .any_pid()
        .one_cpu(cpu)
        .include_kernel()
        .include_hv()
        // A counter that takes turns with others does not count all the time.
        .pinned(true)
        .build()
        .ok()?;
    counter.enable().ok()?;
    // A pinned counter that found no room reads as the end of a file.
    counter.read().ok()?;
    Some(counter)
}

/// `union bpf_attr` of BPF_MAP_UPDATE_ELEM (`include/uapi/linux/bpf.h`).
#[repr(C)]
struct UpdateElement {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;

/// Sets an element in a map of perf events. For such maps aya knows only events opened by aya.
#[expect(unsafe_code, reason = "the system call takes addresses")]
fn set_perf_event_in_map(map: BorrowedFd<'_>, cpu: u32, event_descriptor: i32) -> io::Result<()> {
    let attributes = UpdateElement {
        map: map.as_raw_fd().cast_unsigned(),
        unused: 0,
        key: (&raw const cpu).expose_provenance() as u64,
        value: (&raw const event_descriptor).expose_provenance() as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads `attributes`, and four bytes each of `cpu` and `event_descriptor`, during the call
    // only. All of these values live until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_UPDATE_ELEM,
            &raw const attributes,
            size_of::<UpdateElement>(),
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
