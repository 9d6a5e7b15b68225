//! Traces as a whole: what users give, and what is refused.

use std::fmt::Write as _;
use std::fs;

use proptest::prelude::*;

use super::*;

const MSR: &str = "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
                   128166372016382155,usr,1,Write,2657792,512,1963\n\
                   128166372026382245,usr,1,Read,1317441536,8192,1953\n";

fn options(disk: Option<&str>, from: Nanoseconds, is_dependent: bool) -> BlockTraceOptions {
    BlockTraceOptions {
        disk: disk.map(str::to_owned),
        from,
        is_dependent,
    }
}

fn read(text: &str, options: &BlockTraceOptions) -> Result<BlockTrace, BlockTraceError> {
    BlockTrace::from_text(text.as_bytes(), "t", options)
}

fn requests(trace: &BlockTrace) -> Vec<BlockTraceRequest> {
    let requests = trace.requests().unwrap();
    requests.collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_busiest_disk_is_read_and_said() {
    let trace = read(MSR, &BlockTraceOptions::default()).unwrap();
    assert_eq!(trace.disk.as_deref(), Some("usr,1"));
    assert!(
        trace.notes()[0].sentence.contains("2 of 3"),
        "{:?}",
        trace.notes()
    );
    let read_requests = requests(&trace);
    let begins: Vec<u64> = read_requests.iter().map(|r| r.begin.0).collect();
    assert_eq!(begins, [0, 1_000_009_000]);
    assert_eq!(read_requests[0].end, Some(Nanoseconds(196_300)));
    assert_eq!(trace.totals.written_bytes, 512);
    let other = read(MSR, &options(Some("0"), Nanoseconds::ZERO, false)).unwrap();
    assert_eq!((other.totals.requests(), other.notes().len()), (1, 0));
}

#[test]
fn a_window_begins_at_its_time() {
    let from = Nanoseconds::from_millis(500);
    let trace = read(MSR, &options(None, from, false)).unwrap();
    assert_eq!(trace.duration(), Nanoseconds(500_009_000));
    assert_eq!(requests(&trace)[0].begin, trace.duration());
    let late = read(MSR, &options(None, Nanoseconds::from_secs(2), false));
    let message = late.unwrap_err().to_string();
    assert_eq!(
        message,
        "t: there is no request from 2 s on: the last one comes after 1.000009 s"
    );
}

#[test]
fn a_file_is_read_as_its_text_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usr.csv");
    fs::write(&path, MSR).unwrap();
    let options = BlockTraceOptions::default();
    let file = BlockTrace::load(&path, &options).unwrap().unwrap();
    let text = read(MSR, &options).unwrap();
    assert_eq!(requests(&file), requests(&text));
    assert_eq!(file.totals, text.totals);
    fs::write(&path, "[a]\nrw=read\nsize=1m\n").unwrap();
    assert_eq!(BlockTrace::load(&path, &options), Ok(None));
}

#[test]
fn bad_traces_are_refused_with_one_clear_line() {
    let dependent = options(None, Nanoseconds::ZERO, true);
    let plain = BlockTraceOptions::default();
    for (text, options, wanted) in [
        (
            "1,a,0,Read,0,512,1\n2,a,0,Write,0,0,1\n",
            &plain,
            "t:2: a write of 0 bytes: the trace is damaged",
        ),
        (
            "1,a,0,Read,0,512,1\n2,a,0,Read,0",
            &plain,
            "t:2: 5 columns instead of 7: the trace is cut off or damaged; this last line has no end: remove it to take what \
             stands before",
        ),
        (
            "1,a,0,Read,18446744073709551615,512,1\n",
            &plain,
            "t:1: a read of 512 bytes at byte 18446744073709551615: its end is beyond all addresses: the trace is damaged",
        ),
        (
            "1,a,0,Read,0,2147483648,1\n",
            &plain,
            "t:1: a read of 2147483648 bytes, and nothing issues more than 1073741824 at once: the trace is damaged",
        ),
        (
            "fio version 3 iolog\n0 f add\n",
            &plain,
            "t: no request in 2 line(s)",
        ),
        (
            "1,a,0,Read,0,512,1\n\0\n",
            &plain,
            "t:2: the line has a NUL byte: the trace is damaged, or no text",
        ),
        (
            "fio version 2 iolog\nf read 0 512\n",
            &dependent,
            "t: the trace does not say when requests ended, so that nothing is known to depend on them; leave out --dependent",
        ),
        (
            "8,0 0 1 0.0 5 D R 8 + 8 [x]\n",
            &dependent,
            "t: the trace does not say when requests ended, so that nothing is known to depend on them; leave out --dependent",
        ),
        (
            "",
            &plain,
            "t: is no block trace: expected text of blkparse, blktrace's binary, fio's iolog or an MSR Cambridge \
             trace",
        ),
    ] {
        let message = read(text, options).unwrap_err().to_string();
        assert_eq!(message, wanted);
    }
    let long = format!("1,a,0,Read,0,512,1\n{}\n", "x".repeat(20_000));
    let message = read(&long, &plain).unwrap_err().to_string();
    assert_eq!(message, "t:2: the line has more than 16384 bytes");
}

#[test]
fn a_last_line_without_an_end_is_said() {
    let trace = read(MSR.trim_end(), &BlockTraceOptions::default()).unwrap();
    assert_eq!(trace.unended_line, Some(3));
    let note = trace.notes().pop().unwrap();
    assert_eq!(note.line, 3);
    assert_eq!(
        note.sentence,
        "the last line has no end: the trace may be cut off"
    );
}

proptest! {
    /// What is read adds up to the totals, in the order of time.
    #[test]
    fn requests_add_up_to_the_totals(
        rows in prop::collection::vec((0_u64..5000, 0_u8..3, any::<bool>(), 1_u64..9000), 1..200),
    ) {
        let mut text = String::new();
        for (time, disk, writes, bytes) in &rows {
            let kind = if *writes { "Write" } else { "Read" };
            let _ = writeln!(text, "{time},h,{disk},{kind},{bytes},{bytes},7");
        }
        let trace = read(&text, &BlockTraceOptions::default()).unwrap();
        let all = requests(&trace);
        prop_assert_eq!(all.len() as u64, trace.totals.requests());
        prop_assert!(all.is_sorted_by_key(|r| r.begin));
        prop_assert_eq!(all.last().map(|r| r.begin), Some(trace.duration()));
        let written: u64 = (all.iter().filter(|r| r.io == TraceIo::Write)).map(|r| r.bytes).sum();
        prop_assert_eq!(written, trace.totals.written_bytes);
    }

    /// Whatever is in a file, it is a trace, another file, or one error on a line of its own.
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-zA-Z,.+ \\[\\]\n]{0,400}", start in 0_usize..5) {
        let starts = ["", "fio version 2 iolog\n", "fio version 3 iolog\n", "8,0 0 1 0.0 5 D R 8 + 8 [x]\n", "1,a,0,Read,0,512,1\n"];
        for dependent in [false, true] {
            let text = format!("{}{text}", starts[start]);
            match read(&text, &options(None, Nanoseconds::ZERO, dependent)) {
                Ok(trace) => prop_assert_eq!(requests(&trace).len() as u64, trace.totals.requests()),
                Err(e) => prop_assert!(!e.to_string().contains('\n')),
            }
        }
    }
}

#[test]
fn a_gap_of_more_than_a_day_is_named_with_its_line() {
    // MSR times count 100 ns since 1601; the first one is damaged.
    let text = "1,a,0,Read,0,512,9\n128166372003061629,a,0,Read,512,512,9\n128166372013061629,a,0,Read,0,512,9\n";
    let trace = BlockTrace::from_text(text.as_bytes(), "t", &BlockTraceOptions::default()).unwrap();
    let wanted = TraceNote {
        line: 2,
        sentence: "148340.7 days without a request lie behind line 1: a time in the trace may be damaged; what is behind the \
                   gap is taken with --from"
            .to_owned(),
    };
    assert_eq!(trace.notes(), [wanted]);
    let usual = "128166372003061629,a,0,Read,0,512,9\n128166372013061629,a,0,Read,0,512,9\n";
    let trace =
        BlockTrace::from_text(usual.as_bytes(), "t", &BlockTraceOptions::default()).unwrap();
    assert!(trace.notes().is_empty(), "{:?}", trace.notes());
    assert_eq!(trace.totals.longest_gap, Nanoseconds::from_secs(1));
}

#[test]
fn requests_behind_later_ones_are_counted_once_for_the_disk_that_counts() {
    let text = "10,h,0,Read,0,512,9\n30,h,0,Read,512,512,9\n20,h,0,Read,1024,512,9\n25,h,0,Read,0,512,9\n\
                40,h,1,Read,0,512,9\n35,h,0,Read,0,512,9\n31,h,1,Read,0,512,9\n";
    for (disk, wanted) in [
        (
            "0",
            "2 requests stand behind a later one in the trace: they are read in the order of time",
        ),
        (
            "1",
            "1 request stands behind a later one in the trace: it is read in the order of time",
        ),
    ] {
        let trace = read(text, &options(Some(disk), Nanoseconds::ZERO, false)).unwrap();
        let sentences: Vec<String> = (trace.notes().into_iter())
            .map(|note| note.sentence)
            .collect();
        assert_eq!(sentences, [wanted]);
        assert!(requests(&trace).is_sorted_by_key(|request| request.begin));
    }
    let log = "fio version 3 iolog\n10 f read 0 512\n30 g read 0 512\n20 f read 0 512\n";
    let trace = read(log, &BlockTraceOptions::default()).unwrap();
    assert_eq!(trace.misplaced, 1);
    assert!(trace.notes()[0].sentence.starts_with("1 request stands"));
}
