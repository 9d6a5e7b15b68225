use std::io::Write;

use proptest::prelude::*;

use super::*;

const CPUS: &str = "sys/devices/system/cpu";

/// Files of two CPUs with two states each, in which every counter is `factor` times something.
fn files(factor: u64) -> Vec<(String, String)> {
    let mut files = vec![("proc/uptime".to_owned(), format!("{}.5 3.0\n", factor * 10))];
    for cpu in 0..2 {
        for (index, name) in ["POLL", "C6"].into_iter().enumerate() {
            let file = |file: &str| format!("{CPUS}/cpu{cpu}/cpuidle/state{index}/{file}");
            files.push((file("name"), format!("{name}\n")));
            for (i, counter) in ["usage", "time", "above", "below", "rejected"]
                .into_iter()
                .enumerate()
            {
                let value = factor * (i as u64 + 1) * (index as u64 + 1) * 100;
                files.push((file(counter), format!("{value}\n")));
            }
        }
    }
    files
}

fn folder(files: &[(String, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// An archive as tar makes from sysfs: files padded to a page.
fn archive(files: &[(String, String)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut page = text.clone().into_bytes();
        page.resize(4096, 0);
        let mut header = tar::Header::new_ustar();
        header.set_size(page.len() as u64);
        header.set_mode(0o444);
        header.set_cksum();
        builder.append_data(&mut header, path, &page[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn a_state_of_one_dump_only_is_left_out_with_a_note() {
    let without = |factor, missing: &str| {
        let mut files = files(factor);
        files.retain(|(path, _)| !path.contains(missing));
        let folder = folder(&files);
        Dump::read_single(folder.path()).unwrap()
    };
    for (missing_before, missing_after, which) in [
        ("cpu1/cpuidle/state1/", "nothing", "second"),
        ("nothing", "cpu1/cpuidle/state1/", "first"),
    ] {
        let before = without(1, missing_before);
        let counted = without(3, missing_after)
            .counts_since(&before, None)
            .unwrap();
        let note = format!("only in the {which} dump, and left out: cpu1/state1");
        assert_eq!(counted.notes, [note]);
        let states: Vec<usize> = counted.by_cpu.iter().map(|(_, s)| s.len()).collect();
        assert_eq!(states, [2, 1]);
        // Of cpu0 alone, and nothing from before the first dump.
        let c6 = &counted.states[1];
        assert_eq!((c6.usage, c6.time_us), (Some(400), Some(800)));
    }
}

#[test]
fn a_dump_in_utf_16_says_the_same() {
    let lines = files(1)
        .into_iter()
        .map(|(path, text)| format!("/{path}:{text}"));
    let text: String = lines.collect();
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    let wide: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
    let counted = |bytes: &[u8]| Dump::read_single(written(bytes).path()).unwrap().cpus;
    for bytes in [&wide, &wide[2..]] {
        assert_eq!(counted(bytes), counted(text.as_bytes()));
    }
}

/// Higher counters of a second machine must not count as a later dump of the first.
#[test]
fn dumps_of_two_machines_are_refused() {
    for heading in ["a: ", "a | CHANGED | rc=0 >>\n", "a:\n    "] {
        let of_machine = |name: &str, factor: u64| {
            let begin = heading.replacen('a', name, 1);
            let (heading, indent) = begin.split_once('\n').unwrap_or(("", &begin));
            let lines = files(factor)
                .into_iter()
                .map(|(path, text)| format!("{indent}/{path}:{text}"));
            format!("{heading}\n") + &lines.collect::<String>()
        };
        let text = of_machine("a", 1) + &of_machine("b", 3);
        let error = Dump::read_series(written(text.as_bytes()).path()).unwrap_err();
        assert!(
            error.to_string().contains("machines (`a` and `b`)"),
            "{error}"
        );
    }
}

#[test]
fn every_form_of_a_dump_says_the_same() {
    let (before, after) = (files(1), files(3));
    let folders = [folder(&before), folder(&after)];
    let tars = [written(&archive(&before)), written(&archive(&after))];
    let lines = [&before, &after].map(|files| {
        let lines = files.iter().map(|(path, text)| format!("/{path}:{text}"));
        written(lines.collect::<String>().as_bytes())
    });
    let zip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        written(&encoder.finish().unwrap())
    };
    let zipped = [&before, &after].map(|files| zip(&archive(files)));
    let zipped_lines = lines
        .each_ref()
        .map(|file| zip(&fs::read(file.path()).unwrap()));
    let between = |pair: [&Path; 2]| {
        let [before, after] = pair.map(|path| Dump::read_single(path).unwrap());
        let counted = after.counts_since(&before, None).unwrap();
        assert_eq!(counted.notes, Vec::<String>::new());
        (counted.seconds, counted.cpus, counted.states)
    };
    let (seconds, cpus, states) = between(folders.each_ref().map(tempfile::TempDir::path));
    assert_eq!((seconds, cpus, states.len()), (Some(20.0), 2, 2));
    // Twice the first dump's, of two CPUs.
    let c6 = StateSum {
        state: "C6".to_owned(),
        usage: Some(800),
        time_us: Some(1600),
        above: Some(2400),
        below: Some(3200),
        rejected: Some(4000),
    };
    assert_eq!(states[1], c6);
    for pair in [&tars, &lines, &zipped, &zipped_lines] {
        assert_eq!(
            between(pair.each_ref().map(tempfile::NamedTempFile::path)).2,
            states
        );
    }
    let one = Dump::read_single(folders[0].path())
        .unwrap()
        .counts_since_boot(None);
    assert_eq!((one.seconds, one.states[1].usage), (Some(10.5), Some(400)));
    assert!(one.notes[0].contains("one dump only"));
}

/// Counts for a state in a text: name, time, usage, above.
type Row<'a> = (&'a str, Option<u64>, Option<u64>, Option<u64>);

fn counted(text: &str) -> Counted {
    let file = written(text.as_bytes());
    match &Dump::read_series(file.path()).unwrap()[..] {
        [only] => only.counts_since_boot(None),
        [before, after] => after.counts_since(before, None).unwrap(),
        other => unreachable!("{other:?}"),
    }
}

fn rows(counted: &Counted) -> Vec<Row<'_>> {
    let states = counted.states.iter();
    states
        .map(|s| (s.state.as_str(), s.time_us, s.usage, s.above))
        .collect()
}

#[test]
fn more_entries_too_deep_than_entries_are_left_out() {
    let state = |cpu: u32, above: u64| {
        let path = format!("cpu{cpu}/cpuidle/state2");
        format!(
            "{path}/name:C6\n{path}/usage:500\n{path}/time:9\n{path}/above:{above}\n{path}/below:3\n"
        )
    };
    let found = counted(&(state(0, 20) + &state(1, 1 << 50)));
    let [c6] = &found.states[..] else {
        panic!("{found:?}")
    };
    assert_eq!((c6.usage, c6.above, c6.below), (Some(1000), None, Some(6)));
    let above = found.by_cpu.iter().map(|(_, states)| states[0].above);
    assert_eq!(above.collect::<Vec<_>>(), [Some(20), None]);
    let note = "above of C6 on cpu1 is 1125899906842624, of 500 entries: no kernel counts so";
    assert!(found.notes.iter().any(|n| n.contains(note)), "{found:?}");
}

#[test]
fn text_is_read_however_it_was_made() {
    let files = files(1);
    let lines = |line: &dyn Fn(&str, &str) -> String| -> String {
        let each = files.iter().map(|(path, text)| line(path, text.trim()));
        each.collect()
    };
    let expected = counted(&lines(&|path, text| format!("/{path}:{text}\n")));
    assert_eq!(expected.states.len(), 2);
    for text in [
        lines(&|path, text| format!("/{path}:1:{text}\n")),
        lines(&|path, text| format!("/{path}: {text}\r\n")),
        lines(&|path, text| format!("/{path} {text}\n")),
        lines(&|path, text| format!("/{path} = {text}\n")),
        lines(&|path, text| format!("> /{path}:{text}\n")),
        lines(&|path, text| format!("/{path},{text}\n")),
        lines(&|path, text| format!("\"/{path}\";\"{text}\"\n")),
        lines(&|path, text| format!("| /{path} | {text} |\n")),
        lines(&|path, text| format!("  \"/{path}\": \"{text}\",\n")),
        lines(&|path, text| format!("/{path}\n{text}\n")),
        lines(&|path, text| format!("==> /{path} <==\n{text}\n\n")),
        lines(&|path, text| format!("$ cat /{path}\n{text}\n")),
        lines(&|path, text| format!("{}:{text}\n", path.replace("sys/devices/system/cpu", "."))),
        format!(
            "before the test:\n{}",
            lines(&|path, text| format!("/{path}:{text}\n"))
        ),
        lines(&|path, text| format!("/{path}:{text}\n")).repeat(2),
        lines(&|path, text| format!("node7: /{path}:{text}\n")),
        lines(&|path, text| format!("node7: /{path}\nnode7: {text}\n")),
        "node7 | CHANGED | rc=0 >>\n".to_owned()
            + &lines(&|path, text| format!("/{path}:{text}\n")),
        "node7:\n".to_owned() + &lines(&|path, text| format!("    /{path}:{text}\n")),
    ] {
        let found = counted(&text);
        assert_eq!(
            (found.states, found.seconds),
            (expected.states.clone(), expected.seconds),
            "{text}"
        );
    }
}

#[test]
fn a_state_has_what_was_pasted_of_it() {
    let found = counted("./state3/name:1:C3\n./state3/usage:1:50\n./state3/time:1:70\n");
    assert_eq!(rows(&found), [("C3", Some(70), Some(50), None)]);
    assert!(found.notes[0].contains("CPU 0"), "{:?}", found.notes);
    let found = counted("cpu4/cpuidle/state1/above:38085\ncpu4/cpuidle/state2/above:7668\n");
    assert_eq!(
        rows(&found),
        [
            ("state1", None, None, Some(38_085)),
            ("state2", None, None, Some(7668))
        ]
    );
    assert_eq!(found.by_cpu[0].0, 4);
    let typed = "# cat /sys/devices/system/cpu/cpu2/cpuidle/state*/name\nPOLL\nC1\n\n\
        # cat /sys/devices/system/cpu/cpu2/cpuidle/state*/usage\n5\n7\n# cat /sys/devices/system/cpu/cpu2/cpuidle/state?/time\n6\n8\n# ";
    assert_eq!(
        rows(&counted(typed)),
        [
            ("POLL", Some(6), Some(5), None),
            ("C1", Some(8), Some(7), None)
        ]
    );
    assert_eq!(counted(typed).by_cpu[0].0, 2);
    let upside_down = "5\n/sys/devices/system/cpu/cpu0/cpuidle/state0/usage\n6\n/sys/devices/system/cpu/cpu0/cpuidle/state0/time\n";
    let error = Dump::read_single(written(upside_down.as_bytes()).path()).unwrap_err();
    assert!(error.to_string().contains("above their paths"), "{error}");
    // Nobody knows the CPU of values after the first ones.
    let several = typed.replace(
        "state*/usage",
        "state*/usage /sys/devices/system/cpu/cpu3/cpuidle/state*/usage",
    );
    assert!(rows(&counted(&several)).iter().all(|row| row.2.is_none()));
    let cpupower = "analyzing CPU 0:\n\nNumber of idle states: 2\nAvailable idle states: POLL C1\n\
        POLL:\nFlags/Description: CPUIDLE CORE POLL IDLE\nLatency: 0\nResidency: 0\nUsage: 5\nDuration: 6\n\
        C1 (DISABLED) :\nFlags/Description: MWAIT 0x00\nLatency: 2\nResidency: 2\nUsage: 7\nDuration: 8\n";
    let expected = [
        ("POLL", Some(6), Some(5), None),
        ("C1", Some(8), Some(7), None),
    ];
    assert_eq!(rows(&counted(cpupower)), expected);
    let each = cpupower.to_owned() + &cpupower.replace("CPU 0", "CPU 1");
    let found = counted(&each);
    assert_eq!((found.cpus, found.states[1].usage), (2, Some(14)));
    let later = cpupower.to_owned() + &cpupower.replace("Usage: 7", "Usage: 9");
    assert_eq!(rows(&counted(&later))[1], ("C1", Some(0), Some(2), None));
}

#[test]
fn two_values_of_a_file_are_two_dumps_or_an_error() {
    let text = |values: [u64; 2]| {
        let [usage, time] = values;
        format!(
            "cpu0/cpuidle/state1/name:C1\ncpu0/cpuidle/state1/usage:{usage}\ncpu0/cpuidle/state1/time:{time}\n"
        )
    };
    let quote = |text: String| {
        let lines = text.lines().map(|line| format!("> {line}\n"));
        lines.collect::<Vec<String>>().concat()
    };
    let later = text([10, 200]) + &text([15, 900]);
    assert_eq!(rows(&counted(&later)), [("C1", Some(700), Some(5), None)]);
    let named_once = later.lines().take(3).chain(later.lines().skip(4));
    let named_once = named_once
        .map(|line| format!("{line}\n"))
        .collect::<Vec<String>>()
        .concat();
    assert_eq!(
        rows(&counted(&named_once)),
        [("C1", Some(700), Some(5), None)]
    );
    let error = Dump::read_single(written(later.as_bytes()).path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("two dumps"), "{error}");
    let coloured = text([10, 200]).replace("state1", "\u{1b}[35mstate1\u{1b}[m");
    assert_eq!(
        rows(&counted(&coloured)),
        [("C1", Some(200), Some(10), None)]
    );
    let quoted = text([10, 200]) + &quote(text([9000, 1]));
    let found = counted(&quoted);
    assert_eq!(rows(&found), [("C1", Some(200), Some(10), None)]);
    assert!(found.notes[0].contains("quoted lines"), "{:?}", found.notes);
    for (other, path) in [
        (
            text([9, 300]),
            "state1/usage is `10` and `9` in lines 2 and 5",
        ),
        (
            text([15, 900]).replace("C1", "C2"),
            "state1/name is `C1` and `C2` in lines 1 and 4",
        ),
        (
            text([15, 900]) + &text([20, 1000]),
            "state1/usage is `10` and `15`",
        ),
        (
            text([15, 900]).replace("cpu0/cpuidle/state1/time", "cpu0/cpuidle/state2/time"),
            "state1/usage is",
        ),
    ] {
        let file = written((text([10, 200]) + &other).as_bytes());
        let error = Dump::read_series(file.path()).unwrap_err().to_string();
        assert!(
            error.contains(path) && error.contains("several dumps"),
            "{error}"
        );
    }
    let both = folder(&[
        ("a/cpu0/cpuidle/state1/usage".to_owned(), "1\n".to_owned()),
        ("b/cpu0/cpuidle/state1/usage".to_owned(), "2\n".to_owned()),
    ]);
    // Folders have no order, so none is known to be later.
    let error = Dump::read_series(both.path()).unwrap_err().to_string();
    assert!(error.contains("cpu0/cpuidle/state1/usage is"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_dump_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let _ = Dump::read_single(written(&bytes).path());
        let mut damaged = archive(&files(1));
        for (at, byte) in damage {
            let at = at.index(damaged.len());
            damaged[at] = byte;
        }
        if let Ok(dump) = Dump::read_single(written(&damaged).path()) {
            let counted = dump.counts_since_boot(None);
            prop_assert!(!counted.states.is_empty());
        }
    }
}

#[test]
fn what_does_not_fit_is_left_out_or_refused() {
    let read = |files: &[(String, String)]| Dump::read_single(folder(files).path());
    let (before, after) = (read(&files(1)).unwrap(), read(&files(3)).unwrap());
    let error = before.counts_since(&after, None).unwrap_err().to_string();
    assert!(
        error.contains("earlier dump first")
            && error.contains("cpu0 (usage of POLL from 300 to 100)"),
        "{error}"
    );

    let without: Vec<_> = files(3)
        .into_iter()
        .filter(|(path, _)| !path.contains("cpu1/"))
        .collect();
    let counted = read(&without).unwrap().counts_since(&before, None).unwrap();
    assert_eq!(counted.cpus, 1);
    assert_eq!(
        counted.notes,
        ["only in the first dump, and left out: cpu1"]
    );
    let none: Vec<_> = files(3)
        .into_iter()
        .map(|(path, text)| {
            (
                path.replace("cpu0/", "cpu7/").replace("cpu1/", "cpu8/"),
                text,
            )
        })
        .collect();
    let error = read(&none)
        .unwrap()
        .counts_since(&before, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no CPU in common"), "{error}");

    let mut back = files(3);
    for (path, text) in &mut back {
        if path.ends_with("cpu1/cpuidle/state1/above") {
            *text = "5\n".to_owned();
        }
    }
    let counted = read(&back)
        .unwrap()
        .counts_since(&before, Some(4.0))
        .unwrap();
    assert_eq!((counted.cpus, counted.seconds), (1, Some(4.0)));
    assert!(
        counted.notes[0].contains("cpu1 (above of C6 from 600 to 5)"),
        "{:?}",
        counted.notes
    );

    // The machine was started anew in between, and ran for longer since.
    let (mut first, mut second) = (files(1), files(3));
    first[0].1 = "90.0 1.0\n".to_owned();
    second[0].1 = "60.0 1.0\n".to_owned();
    let error = read(&second)
        .unwrap()
        .counts_since(&read(&first).unwrap(), None);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("up for 90 s at the first"), "{error}");

    // Another driver is not a counter that goes back.
    let other: Vec<_> = files(3)
        .into_iter()
        .map(|(path, text)| (path, text.replace("C6", "C2_ACPI")))
        .collect();
    let error = read(&other)
        .unwrap()
        .counts_since(&before, None)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("differ: cpu0 (state1 is C2_ACPI and was C6)"),
        "{error}"
    );

    // A counter in a single dump is unknown; others are known.
    let (mut first, mut second) = (files(1), files(3));
    first.retain(|(path, _)| !path.ends_with("above"));
    second.retain(|(path, _)| !path.ends_with("rejected"));
    let counted = read(&second)
        .unwrap()
        .counts_since(&read(&first).unwrap(), None);
    let poll = &counted.unwrap().states[0];
    assert_eq!(
        (poll.usage, poll.above, poll.below, poll.rejected),
        (Some(400), None, Some(1600), None)
    );

    // More idle time than there was time.
    let notes = |seconds| after.counts_since(&before, Some(seconds)).unwrap().notes;
    assert_eq!(notes(1.0), Vec::<String>::new());
    assert!(
        notes(1e-4)[0].contains("does not fit into"),
        "{:?}",
        notes(1e-4)
    );
    let same = before.counts_since(&before, None).unwrap().notes;
    assert!(same[0].contains("nothing was counted"), "{same:?}");

    // Old kernels count less.
    let old: Vec<_> = files(3)
        .into_iter()
        .filter(|(path, _)| !path.ends_with("rejected"))
        .collect();
    let counted = read(&old).unwrap().counts_since_boot(None);
    assert_eq!(
        (counted.states[0].rejected, counted.states[0].above),
        (None, Some(1800))
    );

    let mut wrong = files(1);
    wrong[2].1 = "many".to_owned();
    assert!(
        read(&wrong)
            .unwrap_err()
            .to_string()
            .contains("`many` is no count")
    );
    for empty in [
        &b""[..],
        b"nothing of the kind\n",
        &[0xff; 1000],
        &[0x1f, 0x8b].repeat(50),
    ] {
        assert!(Dump::read_single(written(empty).path()).is_err());
    }
    assert!(read(&[]).unwrap_err().to_string().contains("cpu*/cpuidle"));
    assert!(Dump::read_single(Path::new("/does/not/exist")).is_err());
    let cut = archive(&files(1));
    let error = Dump::read_single(written(&cut[..cut.len() / 2 + 100]).path()).unwrap_err();
    assert!(error.to_string().contains("only a part"), "{error}");
    let error = Dump::read_single(written(b"\xfd7zXZ\0anything").path()).unwrap_err();
    assert!(
        error.to_string().contains("a file of xz; unpack it"),
        "{error}"
    );
}
