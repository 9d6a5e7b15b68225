//! Holds what a verifying job reads back, and where a buffered reader with gaps reads, against fio's own log of its I/Os
//! (`write_iolog`).

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;
use std::process::Command;

use wakepath_workloads::fio::{self, Draw, IoSizes, NextIo, ReadBack, Walk};

use crate::against_fio::fio_is_here;

/// Bytes of the file in which the jobs write, where it stands for a device.
const CAPACITY: u64 = 1 << 20;

/// Options of jobs whose file fio lays out.
const IN_NEW_FILES: &[&str] = &[
    "rw=write",
    "rw=randwrite",
    "rw=randwrite,norandommap",
    "rw=randwrite,norandommap,ioengine=libaio",
    "rw=write,loops=2",
    "rw=randwrite,loops=2",
    "rw=randwrite,loops=2,norandommap",
    "rw=randwrite,loops=2,norandommap,ioengine=libaio",
    "rw=write,io_size=160k",
    "rw=write,io_size=200k,ioengine=libaio",
    "rw=randwrite,io_size=100k",
    "rw=randwrite,io_size=160k,norandommap",
    "rw=randwrite,io_size=160k,norandommap,ioengine=libaio",
    "rw=rw",
    "rw=randrw",
    "rw=randrw,rwmixread=20,norandommap",
    "rw=randrw,loops=2",
    "rw=write,number_ios=10",
    "rw=write,number_ios=10,loops=2",
    "rw=write:12k",
    "rw=write:12k,size=60k,offset=8k",
    "rw=write:12k,size=256k,io_size=64k,loops=2,verify_backlog=1",
    "rw=write:12k,size=256k,io_size=64k,loops=2,ioengine=libaio",
    "rw=randwrite:4,norandommap",
    "rw=write,verify_backlog=4",
    "rw=write,verify_backlog=4,verify_backlog_batch=2",
    "rw=write,verify_backlog=4,verify_backlog_batch=8",
    "rw=write,verify_backlog=5,loops=2",
    "rw=write,verify_backlog=4,number_ios=10",
    "rw=randwrite,verify_backlog=3",
    "rw=randwrite,verify_backlog=3,norandommap",
    "rw=randwrite,verify_backlog=3,norandommap,ioengine=libaio",
    "rw=randrw,verify_backlog=4",
    "rw=write,verify_backlog=4,io_size=160k",
    "rw=write,experimental_verify=1",
    "rw=randwrite,experimental_verify=1,verify_backlog=2",
    "rw=randwrite,bssplit=4k/50:8k/50,norandommap",
    "rw=write,bs=12k,size=100k",
    "rw=randwrite,blockalign=8k",
    "rw=write,do_verify=0",
    "rw=randrw,do_verify=0",
    "rw=write,verify=null",
    "rw=randwrite,experimental_verify=1,norandommap=0",
    "rw=write,verify_fatal=1,verify_interval=1k,verify=crc32c",
    "rw=write,verify_pattern=0xdeadbeef,verify=pattern",
    "rw=write,verify_async=2",
    "rw=randwrite,verify_async=2,verify_backlog=4",
];

/// Options of jobs on a file that is larger than what they ask for, and stands for a device.
const ON_A_DEVICE: &[&str] = &[
    "rw=write",
    "rw=write,loops=2",
    "rw=write:12k",
    "rw=write:12k,offset=256k,io_size=96k,loops=2,verify_backlog=1",
    "rw=randwrite,norandommap,offset=64k",
    "rw=write,size=100%,bs=64k",
];

/// Options of time-based jobs, of which the first so many I/Os are compared.
const TIME_BASED: &[(&str, usize)] = &[
    ("rw=write", 100),
    ("rw=write,ioengine=libaio", 100),
    ("rw=randwrite,norandommap,ioengine=libaio", 100),
    ("rw=write,verify_backlog=4", 100),
    ("rw=randwrite,verify_backlog=4,ioengine=libaio", 100),
];

/// Options of buffered readers with gaps, and backwards: where they read decides what is cached.
const BUFFERED_WITH_GAPS: &[&str] = &[
    "rw=read:8k",
    "rw=read:-8k",
    "rw=read:4k,size=256k,bs=16k",
    "rw=read:-12k,size=256k",
    "rw=read:8k,size=60k,offset=8k",
    "rw=read:8k,number_ios=5",
];

/// An I/O, and whether it is a read.
type Io = (bool, NextIo);

/// A job that is compared.
struct Compared {
    options: String,
    on_device: bool,
    /// How many I/Os are compared at most.
    most: usize,
}

impl Compared {
    /// A job whose I/Os are compared to the last.
    fn new(options: &str, on_device: bool) -> Self {
        Self {
            options: format!("size=64k\nverify=md5\n{}", options.replace(',', "\n")),
            on_device,
            most: usize::MAX,
        }
    }
}

fn compared_jobs() -> Vec<Compared> {
    let mut jobs: Vec<Compared> = Vec::new();
    jobs.extend(
        IN_NEW_FILES
            .iter()
            .map(|options| Compared::new(options, false)),
    );
    jobs.extend(
        ON_A_DEVICE
            .iter()
            .map(|options| Compared::new(options, true)),
    );
    jobs.extend((BUFFERED_WITH_GAPS.iter()).map(|options| {
        let options = format!("{options},verify=0,direct=0");
        Compared::new(&options, false)
    }));
    for (options, most) in TIME_BASED {
        let mut job = Compared::new(options, false);
        job.options.push_str("\ntime_based\nruntime=100ms");
        job.most = *most;
        jobs.push(job);
    }
    jobs
}

/// I/Os of each job, in the order in which fio submitted them.
fn logs_of_fio(jobs: &[Compared]) -> Vec<Vec<Io>> {
    let folder = tempfile::tempdir().unwrap();
    // fio 3.33 finds a wrong seed in blocks that a job without a map has overwritten, and would give up.
    let mut text = "[global]\ncontinue_on_error=verify\n".to_owned();
    for (number, job) in jobs.iter().enumerate() {
        if job.on_device {
            let file = std::fs::File::create(folder.path().join(number.to_string())).unwrap();
            file.set_len(CAPACITY).unwrap();
        }
        let options = &job.options;
        let _ = writeln!(
            text,
            "[j{number}]\nfilename={number}\nwrite_iolog={number}.log\n{options}"
        );
    }
    let path = folder.path().join("t.fio");
    std::fs::write(&path, &text).unwrap();
    let mut fio = Command::new("fio");
    let output = fio.arg(&path).current_dir(folder.path()).output().unwrap();
    let mut logs = Vec::new();
    for number in 0..jobs.len() {
        let log = std::fs::read_to_string(folder.path().join(format!("{number}.log")));
        let log = log.unwrap_or_else(|e| panic!("{e}: {output:?}"));
        logs.push(log.lines().filter_map(io_from_line).collect());
    }
    logs
}

/// The I/O in a line of fio's log (version 3); `None` if the line is about the file.
fn io_from_line(line: &str) -> Option<Io> {
    let words: Vec<&str> = line.split(' ').collect();
    let [_, _, direction @ ("read" | "write"), offset, bytes] = words[..] else {
        return None;
    };
    let (offset, bytes) = (offset.parse().unwrap(), bytes.parse().unwrap());
    Some((direction == "read", NextIo { offset, bytes }))
}

/// Random numbers that lead to the I/O that fio chose.
struct FromLog {
    offset: u64,
    bytes: u64,
    align: u64,
}

impl Draw for FromLog {
    fn draw_below(&mut self, n: u64) -> u64 {
        (self.offset / self.align).min(n - 1)
    }

    fn draw_size(&mut self, _: &IoSizes) -> u64 {
        self.bytes
    }
}

/// I/Os of a job as the simulator orders them. Only what fio draws by chance is taken from its log: places of random I/Os, and the
/// mix of reads and writes.
fn predict(options: &str, on_device: bool, log: &[Io]) -> Vec<Io> {
    let name = if on_device { "/dev/sdx" } else { "new" };
    let direct = u8::from(!options.contains("direct=0"));
    let text = format!("[j]\nfilename={name}\n{options}\ndirect={direct}\n");
    let file = fio::parse(&text, "t.fio").unwrap_or_else(|e| panic!("{e}\n{text}"));
    file.refuse_unmodelled_options()
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    let job = &file.jobs[0];
    let limits = job.process_limits(CAPACITY);
    let start = job.byte_offset_of_process(0, CAPACITY);
    let align = job.places.block_align.write.unwrap_or(job.block_size.write);
    let mixed = job.rw.reads() && job.rw.writes();
    let mut walk = Walk::for_job_if_positions_matter(job, CAPACITY);
    let mut read_back = ReadBack::for_job(job);
    let mut done: Vec<Io> = Vec::new();
    let (mut bytes, mut pass_is_over) = (0, false);
    while done.len() < log.len() + 1 {
        let second_pass = read_back.as_ref().is_some_and(ReadBack::is_in_second_pass);
        let pass_has_bytes = walk.as_ref().is_none_or(Walk::pass_has_bytes_left);
        let within_limits = limits.bytes.is_none_or(|most| bytes < most)
            && limits.ios.is_none_or(|most| (done.len() as u64) < most);
        let may_read_back = second_pass || (within_limits && !pass_is_over && pass_has_bytes);
        let due = read_back.as_mut().filter(|_| may_read_back);
        if let Some(mut io) = due.and_then(ReadBack::take_due_read) {
            if let Some(read_back) = &mut read_back {
                read_back.note_end(0, true);
            }
            if let Some(walk) = &mut walk {
                walk.count_read_back(io.bytes);
            }
            io.offset += start;
            done.push((true, io));
            continue;
        }
        if !second_pass && within_limits && !pass_is_over {
            let nothing = (
                false,
                NextIo {
                    offset: start,
                    bytes: 0,
                },
            );
            let (logged_read, logged) = log.get(done.len()).unwrap_or(&nothing);
            let read = if mixed { *logged_read } else { job.rw.reads() };
            let mut draw = FromLog {
                offset: logged.offset.saturating_sub(start),
                bytes: logged.bytes,
                align,
            };
            let next = match &mut walk {
                Some(walk) => walk.next_io_of_pass(usize::from(!read), &mut draw),
                None => Some(NextIo {
                    offset: logged.offset - start,
                    ..*logged
                }),
            };
            if let Some(mut io) = next {
                bytes += io.bytes;
                if let Some(read_back) = &mut read_back {
                    if !read {
                        read_back.add_write(0, io);
                    }
                    read_back.note_end(0, read);
                }
                io.offset += start;
                done.push((read, io));
            } else {
                pass_is_over = true;
            }
            continue;
        }
        let Some(read_back) = &mut read_back else {
            return done;
        };
        if !second_pass {
            read_back.begin_second_pass();
            continue;
        }
        read_back.end_second_pass();
        pass_is_over = false;
        let goes_on = walk
            .as_mut()
            .is_some_and(Walk::start_over_unless_finished_or_stuck);
        if !goes_on || limits.bytes.is_some_and(|most| bytes >= most) {
            return done;
        }
    }
    done
}

#[test]
fn what_is_read_back_and_when_is_as_in_fio() {
    if !fio_is_here("what_is_read_back_and_when_is_as_in_fio") {
        return;
    }
    let jobs = compared_jobs();
    let mut apart = Vec::new();
    let mut reading_back = 0;
    for (job, mut theirs) in jobs.iter().zip(logs_of_fio(&jobs)) {
        theirs.truncate(job.most);
        let mut ours = predict(&job.options, job.on_device, &theirs);
        ours.truncate(job.most);
        reading_back += usize::from(theirs.iter().any(|(is_read, _)| *is_read));
        if ours != theirs {
            let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
            apart.push(format!(
                "{:?}: from I/O {at} of {}: fio {:?}, we {:?} of {}",
                job.options,
                theirs.len(),
                &theirs[at..theirs.len().min(at + 3)],
                &ours[at..ours.len().min(at + 3)],
                ours.len(),
            ));
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
    assert!(reading_back >= 40, "only {reading_back} jobs read back");
}
