//! A `trace.dat` of any length: events of a real trace, again and again.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::Context;

/// Packed trace of an Arm board, from the tests of imports.
const TRACE: &str = "../crates/trace/tests/data/arm-sched-load.trace.dat.zst";
const PAGE: usize = 4096;
/// Time between two rounds of events, in ns.
const PAUSE: u64 = 100_000_000;

/// A real trace, unpacked.
struct RealTrace {
    bytes: Vec<u8>,
    /// Offset of the table with a row for each CPU's data.
    table: usize,
    /// Offset and size of the data of each CPU, in whole pages.
    cpus: Vec<(usize, usize)>,
}

impl RealTrace {
    fn read(packed: &Path) -> anyhow::Result<Self> {
        let file = File::open(packed).with_context(|| packed.display().to_string())?;
        let bytes = zstd::decode_all(file)?;
        // Four bytes with the number of CPUs stand before the options.
        let cpu_count = bytes[find(&bytes, b"options  \0")? - 4];
        let table = find(&bytes, b"flyrecord\0")? + 10;
        let rows = (0..usize::from(cpu_count)).map(|cpu| table + 16 * cpu);
        let cpus = rows.map(|row| {
            (
                read_word(&bytes, row) as usize,
                read_word(&bytes, row + 8) as usize,
            )
        });
        Ok(Self {
            cpus: cpus.collect(),
            bytes,
            table,
        })
    }

    /// Time from the first page to the last, in ns.
    fn span(&self) -> u64 {
        let pages = self
            .cpus
            .iter()
            .flat_map(|(at, size)| (*at..at + size).step_by(PAGE));
        let times: Vec<u64> = pages.map(|page| read_word(&self.bytes, page)).collect();
        let [first, last] =
            [times.iter().min(), times.iter().max()].map(|time| time.map_or(0, |time| *time));
        last - first
    }

    /// Bytes of all pages.
    fn data_size(&self) -> u64 {
        self.cpus.iter().map(|(_, size)| *size as u64).sum()
    }
}

/// Offset of a text in the bytes of the trace.
fn find(bytes: &[u8], text: &[u8]) -> anyhow::Result<usize> {
    let found = bytes.windows(text.len()).position(|window| window == text);
    found.context("the trace has changed")
}

fn read_word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Writes a trace of about `size` bytes that repeats the events of the real trace.
pub fn write_repeated(path: &Path, size: u64) -> anyhow::Result<()> {
    let real = RealTrace::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(TRACE))?;
    let times = (size / real.data_size()).max(1);
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&real.bytes[..real.table])?;
    let start = real.cpus.iter().map(|(at, _)| *at).min().unwrap_or(0) as u64;
    let mut at = start;
    for (_, size) in &real.cpus {
        let repeated_size = *size as u64 * times;
        out.write_all(&at.to_le_bytes())?;
        out.write_all(&repeated_size.to_le_bytes())?;
        at += repeated_size;
    }
    out.seek(SeekFrom::Start(start))?;
    let shift = real.span() + PAUSE;
    for (from, size) in &real.cpus {
        for time in 0..times {
            for page in (*from..from + size).step_by(PAGE) {
                let stamp = read_word(&real.bytes, page) + time * shift;
                out.write_all(&stamp.to_le_bytes())?;
                out.write_all(&real.bytes[page + 8..page + PAGE])?;
            }
        }
    }
    out.flush()?;
    Ok(())
}
