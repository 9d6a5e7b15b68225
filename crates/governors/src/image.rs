//! A compiled governor: checked before linking, then laid out for `c/launcher.c`.
//!
//! The launcher maps an image and runs nothing of it before it is confined. So nothing here has to be trusted; what is
//! refused would never run, or not as in a kernel.

use std::os::fd::OwnedFd;

use object::elf::{PF_W, PF_X, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_TLS, SHF_TLS, STT_GNU_IFUNC};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, SectionFlags};

use crate::process;

/// Base address of a governor's image: below the launcher's memory, within reach of code compiled
/// for small addresses.
pub(crate) const BASE: u64 = 0x1000_0000;
/// Most memory that a governor's image may take, in bytes.
const LARGEST: u64 = 64 << 20;
/// Constants `IMAGE_MAGIC`, `SEGMENT_WRITE` and `SEGMENT_EXECUTE` from `c/launcher.h`.
const MAGIC: u32 = 0x6761_6d69;
const WRITE: u64 = 2;
const EXECUTE: u64 = 1;
/// Most segments that `c/launcher.c` has room for.
const MOST_SEGMENTS: usize = 8;
/// Most CPUs that one process serves.
const MOST_SLOTS: u64 = 1024;
/// Most bytes of variables that are copied at each change of CPU. With more, each CPU has a
/// process.
const COPIED: u64 = 64 << 10;

type Elf<'a> = ElfFile64<'a, Endianness>;

/// Refuses a compiled object with features that no kernel file has, such as constructors.
pub(crate) fn refuse_non_kernel_features(bytes: &[u8]) -> Result<(), String> {
    let object = parse_elf(bytes)?;
    for section in object.sections() {
        let name = section.name().unwrap_or_default();
        if has_any_prefix(name, &[".preinit_array", ".init_array", ".ctors"]) {
            return Err(refusal_text(
                "code that runs before it is called (constructor, .init_array, .preinit_array)",
            ));
        }
        if has_any_prefix(name, &[".fini_array", ".dtors"]) {
            return Err(refusal_text(
                "code that runs at the end (destructor, .fini_array)",
            ));
        }
        if let SectionFlags::Elf { sh_flags } = section.flags()
            && sh_flags & u64::from(SHF_TLS) != 0
        {
            return Err(refusal_text("variables of a thread (__thread)"));
        }
    }
    for symbol in object.symbols() {
        if symbol.elf_symbol().st_type() == STT_GNU_IFUNC {
            return Err(refusal_text(
                "a function that is chosen when it is loaded (IFUNC)",
            ));
        }
    }
    Ok(())
}

fn has_any_prefix(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Error text for a governor with a feature that the kernel has not.
fn refusal_text(feature: &str) -> String {
    format!(
        "it has {feature}, which a governor in the kernel cannot have; a governor is what postcore_initcall() registers"
    )
}

fn parse_elf(bytes: &[u8]) -> Result<Elf<'_>, String> {
    Elf::parse(bytes).map_err(|e| format!("what gcc made of it: {e}"))
}

/// A part of a governor image's memory, with address, content and access.
#[derive(Debug)]
struct Segment {
    address: u64,
    size: u64,
    flags: u64,
    content: Vec<u8>,
}

impl Segment {
    fn end_address(&self) -> u64 {
        self.address + self.size
    }

    /// Extends the segment to whole pages, at both ends.
    fn extend_to_whole_pages(&mut self, page: u64) {
        let before = self.address % page;
        self.address -= before;
        self.size = (self.size + before).next_multiple_of(page);
        let zeros = std::iter::repeat_n(0, before as usize);
        self.content.splice(0..0, zeros);
    }
}

/// A linked governor in the form that the launcher maps.
#[derive(Debug)]
pub(crate) struct Image {
    file: OwnedFd,
    slots: u64,
}

impl Image {
    /// Lays out a linked ELF program as an image.
    pub(crate) fn from_elf(bytes: &[u8]) -> Result<Self, String> {
        let program = parse_elf(bytes)?;
        let mut segments = read_segments(&program, bytes)?;
        let data: Vec<&Segment> = segments.iter().filter(|s| s.flags == WRITE).collect();
        let start = data.iter().map(|s| s.address & !7).min().unwrap_or(BASE);
        let end = data.iter().map(|s| s.end_address()).max().unwrap_or(BASE);
        let size = (end - start).next_multiple_of(8);
        let slots = if size > COPIED { 1 } else { MOST_SLOTS };
        let page = rustix::param::page_size() as u64;
        for segment in &mut segments {
            segment.extend_to_whole_pages(page);
        }
        let joined = join_writable_segments(segments)?;
        if joined.len() > MOST_SEGMENTS {
            return Err(format!(
                "it has {} parts, and {MOST_SEGMENTS} are the most",
                joined.len()
            ));
        }
        let content = encode_image(
            &joined,
            program.elf_header().e_entry(program.endian()),
            (start, size),
            slots,
        );
        let file = process::create_memory_file(&content)
            .map_err(|e| format!("no memory for what was compiled: {e}"))?;
        Ok(Self { file, slots })
    }

    /// File with the image, which the launcher reads.
    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Number of CPUs that a process with this image serves.
    pub(crate) fn cpus_per_process(&self) -> u32 {
        self.slots as u32
    }
}

/// Joins all writable segments into one, so that a single copy saves all variables.
fn join_writable_segments(segments: Vec<Segment>) -> Result<Vec<Segment>, String> {
    let mut joined: Vec<Segment> = Vec::new();
    for segment in segments {
        match joined.last_mut() {
            Some(last) if last.end_address() > segment.address => {
                return Err(
                    "its parts lie on one page; gcc's linker was told to keep them apart"
                        .to_owned(),
                );
            }
            Some(last) if last.flags == WRITE && segment.flags == WRITE => {
                let gap = (segment.address - last.address) as usize;
                last.content.resize(gap, 0);
                last.content.extend(segment.content);
                last.size = segment.address + segment.size - last.address;
            }
            _ => joined.push(segment),
        }
    }
    Ok(joined)
}

fn read_segments(program: &Elf<'_>, bytes: &[u8]) -> Result<Vec<Segment>, String> {
    let endian = program.endian();
    let mut all = Vec::new();
    for header in program.elf_program_headers() {
        let (address, size) = (header.p_vaddr(endian), header.p_memsz(endian));
        match header.p_type(endian) {
            PT_INTERP | PT_DYNAMIC | PT_TLS => {
                return Err(refusal_text("sections for a dynamic loader or for threads"));
            }
            PT_LOAD if size > 0 => {}
            _ => continue,
        }
        let inside = address >= BASE && size <= LARGEST && address - BASE <= LARGEST - size;
        if !inside {
            return Err(format!(
                "its code and variables need {} MiB of memory and more; {} MiB are the most, and a kernel gives a CPU less",
                size >> 20,
                LARGEST >> 20
            ));
        }
        let elf_flags = header.p_flags(endian);
        let flags = match (elf_flags & PF_W != 0, elf_flags & PF_X != 0) {
            (true, true) => return Err(refusal_text("memory that can be both written and run")),
            (true, false) => WRITE,
            (false, true) => EXECUTE,
            (false, false) => 0,
        };
        let content = header
            .data(endian, bytes)
            .map_err(|()| "what was linked is cut off".to_owned())?
            .to_vec();
        if content.len() as u64 > size {
            return Err("what was linked is larger than its memory".to_owned());
        }
        all.push(Segment {
            address,
            size,
            flags,
            content,
        });
    }
    all.sort_by_key(|segment| segment.address);
    Ok(all)
}

/// Encodes `struct image_header`, the segments, and their bytes.
fn encode_image(segments: &[Segment], entry: u64, data: (u64, u64), slots: u64) -> Vec<u8> {
    const HEADER: usize = 40;
    const SEGMENT: usize = 40;
    let mut bytes: Vec<u8> = [MAGIC, segments.len() as u32]
        .into_iter()
        .flat_map(u32::to_ne_bytes)
        .collect();
    let rest = [entry, data.0, data.1, slots];
    bytes.extend(rest.into_iter().flat_map(u64::to_ne_bytes));
    let mut at = HEADER + SEGMENT * segments.len();
    for segment in segments {
        let filled = segment.content.len();
        let fields = [
            segment.address,
            segment.size,
            at as u64,
            filled as u64,
            segment.flags,
        ];
        bytes.extend(fields.into_iter().flat_map(u64::to_ne_bytes));
        at += filled;
    }
    for segment in segments {
        bytes.extend(&segment.content);
    }
    bytes
}
