//! Small traces with idle events of one CPU, made by hand in either byte order.

/// The event's number, and the CPU that is idle.
const CPU_IDLE: u64 = 77;
const CPU: u64 = 3;
/// Of perf: `PERF_SAMPLE_TID`, `_TIME`, `_CPU` and `_RAW`.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10;
const PERF_TYPE_TRACEPOINT: u64 = 2;
const PERF_LOST: u64 = 2;
const PERF_SAMPLE: u64 = 9;
const PERF_HEADER: u64 = 104;
const PERF_ATTRIBUTE: u64 = 112;

/// Puts numbers and texts into bytes.
#[derive(Clone, Copy)]
struct Bytes {
    big_endian: bool,
}

impl Bytes {
    fn number(self, value: u64, size: usize) -> Vec<u8> {
        if self.big_endian {
            value.to_be_bytes()[8 - size..].to_vec()
        } else {
            value.to_le_bytes()[..size].to_vec()
        }
    }

    fn numbers(self, values: &[(u64, usize)]) -> Vec<u8> {
        let bytes = values
            .iter()
            .map(|(value, size)| self.number(*value, *size));
        bytes.collect::<Vec<_>>().concat()
    }

    fn block(self, name: &str, text: &str) -> Vec<u8> {
        let mut bytes = name.as_bytes().to_vec();
        bytes.extend(self.number(text.len() as u64, 8));
        bytes.extend(text.as_bytes());
        bytes
    }

    /// The event itself, as the kernel's trace has it.
    fn cpu_idle(self, state: u32) -> Vec<u8> {
        self.numbers(&[(CPU_IDLE, 2), (0, 2), (0, 4), (state.into(), 4), (CPU, 4)])
    }

    /// What trace.dat and perf.data begin their description of events with.
    fn description(self) -> Vec<u8> {
        let mut file = b"\x17\x08\x44tracing6\0".to_vec();
        file.extend([u8::from(self.big_endian), 8]);
        file.extend(self.number(4096, 4));
        file.extend(self.block(
            "header_page\0",
            "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n",
        ));
        file.extend(self.block("header_event\0", ""));
        file.extend(self.number(0, 4));
        file.extend(self.number(1, 4));
        file.extend(b"power\0");
        file.extend(self.number(1, 4));
        file.extend(self.block(
            "",
            "name: cpu_idle\nID: 77\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:u32 cpu_id;\toffset:12;\tsize:4;\tsigned:0;\n",
        ));
        // Symbols, printk formats, command lines.
        file.extend(self.numbers(&[(0, 4), (0, 4), (0, 8)]));
        file
    }
}

/// A trace.dat of version 6.
pub(crate) struct TraceDat {
    bytes: Bytes,
    page: Vec<u8>,
    /// Beside the number of bytes used in the page.
    pub(crate) commit_flags: u64,
}

impl TraceDat {
    pub(crate) fn new(big_endian: bool) -> Self {
        Self {
            bytes: Bytes { big_endian },
            page: Vec::new(),
            commit_flags: 0,
        }
    }

    /// `cpu_idle`, `delta` ns after the event before.
    pub(crate) fn idle(&mut self, delta: u64, state: u32) {
        let bytes = self.bytes;
        let word = |kind: u64, delta: u64| {
            if bytes.big_endian {
                kind << 27 | delta
            } else {
                delta << 5 | kind
            }
        };
        if delta >> 27 != 0 {
            self.page
                .extend(bytes.number(word(30, delta & 0x7ff_ffff), 4));
            self.page.extend(bytes.number(delta >> 27, 4));
        }
        let rest = if delta >> 27 == 0 { delta } else { 0 };
        self.page.extend(bytes.number(word(4, rest), 4));
        self.page.extend(bytes.cpu_idle(state));
    }

    /// The clock is at `time`, ahead or back.
    pub(crate) fn clock(&mut self, time: u64) {
        assert!(!self.bytes.big_endian);
        let words = [((time & 0x7ff_ffff) << 5 | 31, 4), (time >> 27, 4)];
        self.page.extend(self.bytes.numbers(&words));
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        let bytes = self.bytes;
        let mut file = bytes.description();
        file.extend(bytes.number(1, 4));
        file.extend(b"options  \0");
        file.extend(bytes.number(0, 2));
        file.extend(b"flyrecord\0");
        let at = (file.len() as u64 + 16).next_multiple_of(4096);
        file.extend(bytes.numbers(&[(at, 8), (4096, 8)]));
        file.resize(at as usize, 0);
        let used = self.page.len() as u64 | self.commit_flags;
        file.extend(bytes.numbers(&[(1_000_000, 8), (used, 8)]));
        file.extend(&self.page);
        if self.commit_flags != 0 {
            file.extend(bytes.number(17, 8));
        }
        file.resize(at as usize + 4096, 0);
        file
    }
}

/// A perf.data.
pub(crate) struct PerfData {
    bytes: Bytes,
    records: Vec<u8>,
}

impl PerfData {
    pub(crate) fn new(big_endian: bool) -> Self {
        Self {
            bytes: Bytes { big_endian },
            records: Vec::new(),
        }
    }

    fn record(&mut self, kind: u64, content: &[u8]) {
        let size = 8 + content.len() as u64;
        let header = self.bytes.numbers(&[(kind, 4), (0, 2), (size, 2)]);
        self.records.extend(header);
        self.records.extend(content);
    }

    /// Who was interrupted, when and where.
    fn place(&self, time: u64) -> Vec<u8> {
        self.bytes
            .numbers(&[(0, 4), (0, 4), (time, 8), (CPU, 4), (0, 4)])
    }

    /// `cpu_idle` at `time`.
    pub(crate) fn idle(&mut self, time: u64, state: u32) {
        let raw = self.bytes.cpu_idle(state);
        let mut content = self.place(time);
        content.extend(self.bytes.number(raw.len() as u64 + 4, 4));
        content.extend(raw);
        content.extend([0; 4]);
        self.record(PERF_SAMPLE, &content);
    }

    /// A file that was mapped, with a build ID of an impossible length.
    pub(crate) fn mapped_with_a_long_build_id(&mut self) {
        let mut content = vec![0; 32];
        content.extend([200; 24]);
        content.extend([0; 16]);
        content.extend(self.place(200));
        let size = 8 + content.len() as u64;
        // PERF_RECORD_MMAP2 with PERF_RECORD_MISC_MMAP_BUILD_ID
        let header = self.bytes.numbers(&[(10, 4), (1 << 14, 2), (size, 2)]);
        self.records.extend(header);
        self.records.extend(content);
    }

    /// So many events found no room.
    pub(crate) fn lost(&mut self, time: u64, count: u64) {
        let mut content = self.bytes.numbers(&[(0, 8), (count, 8)]);
        content.extend(self.place(time));
        self.record(PERF_LOST, &content);
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        let bytes = self.bytes;
        let number = |value: u64| (value, 8);
        let start = PERF_HEADER + PERF_ATTRIBUTE + 16;
        let end = start + self.records.len() as u64;
        let magic = if bytes.big_endian {
            b"2ELIFREP"
        } else {
            b"PERFILE2"
        };
        let mut file = magic.to_vec();
        file.extend(
            bytes.numbers(
                &[
                    PERF_HEADER,
                    PERF_ATTRIBUTE + 16,
                    PERF_HEADER,
                    PERF_ATTRIBUTE + 16,
                    start,
                    self.records.len() as u64,
                    0,
                    0,
                    // HEADER_TRACING_DATA
                    1 << 1,
                    0,
                    0,
                    0,
                ]
                .map(number),
            ),
        );
        file.extend(bytes.numbers(&[
            (PERF_TYPE_TRACEPOINT, 4),
            (PERF_ATTRIBUTE, 4),
            (CPU_IDLE, 8),
            (1, 8),
            (SAMPLE_TYPE, 8),
            (0, 8),
            (sample_id_all(bytes.big_endian), 8),
        ]));
        // The rest of the attribute is off, and there are no ids.
        file.resize(start as usize, 0);
        file.extend(&self.records);
        let description = bytes.description();
        file.extend(bytes.numbers(&[number(end + 16), number(description.len() as u64)]));
        file.extend(description);
        file
    }
}

/// The flag by which all records have a time. Bits of C are counted from the other end in big-endian machines.
fn sample_id_all(big_endian: bool) -> u64 {
    if big_endian { 1 << (63 - 18) } else { 1 << 18 }
}
