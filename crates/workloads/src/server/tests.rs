use proptest::prelude::*;
use wakepath_units::Nanoseconds;

use super::*;

const OPEN: &str = "kind = \"server\"\nname = \"web\"\nworkers = 4\n\n[arrivals]\npattern = \"poisson\"\nrate = 1000\n\n\
                    [request]\nwork_us = { value = 300, assumed = \"a guess\" }\nat_mhz = 2000\n\n[[request.disk]]\noperation = \"read\"\nbytes = 4096\nshare = 0.1\n";

fn parsed(text: &str) -> ServerFile {
    parse(text, "s.toml", None).unwrap()
}

fn refusal(text: &str) -> String {
    parse(text, "s.toml", None).unwrap_err().to_string()
}

#[test]
fn a_file_means_what_its_keys_say() {
    let file = parsed(OPEN);
    assert_eq!(
        (file.workers, file.duration),
        (4, Nanoseconds::from_secs(10))
    );
    assert_eq!(file.warm_up, Nanoseconds::from_secs(1));
    assert_eq!(file.open_rate(), Some(1000.0));
    assert!((file.work.mean.cycles(1_000_000) - 600_000.0).abs() < 1e-6);
    assert_eq!(file.assumed_figures(), [("request.work_us", "a guess")]);
    let call = &file.calls[0];
    assert!(call.direct && !call.together && call.calls == 1 && call.bytes == 4096);
    let without_clock = parsed(&OPEN.replace("at_mhz = 2000\n", ""));
    assert!((without_clock.work.mean.cycles(1_000_000) - 300_000.0).abs() < 1e-6);
    let clients = OPEN.replace("\"poisson\"\nrate = 1000", "\"clients\"\nclients = 8");
    assert_eq!(parsed(&clients).open_rate(), None);
}

#[test]
fn whatever_is_wrong_is_named_with_its_line() {
    for (line, other, wanted) in [
        (
            "\"server\"",
            "\"sever\"",
            "s.toml:1: no kind of workload is called `sever`; did you mean `server`?",
        ),
        (
            "workers = 4",
            "workers = 0",
            "s.toml:3: `workers` is 0, and may be 1 to 1024",
        ),
        (
            "workers = 4",
            "wokers = 4",
            "unknown key `wokers`; did you mean `workers`?",
        ),
        (
            "rate = 1000",
            "rate = 0",
            "s.toml:7: `rate` is 0, and may be 0.001 to 10000000",
        ),
        ("rate = 1000", "rate = -5", "s.toml:7: `rate` is -5"),
        ("rate = 1000", "rate = nan", "s.toml:7: `rate` is NaN"),
        ("rate = 1000", "rate = inf", "s.toml:7: `rate` is inf"),
        ("rate = 1000", "rate = 1e300", "s.toml:7: `rate` is 1"),
        (
            "rate = 1000",
            "",
            "s.toml:6: this arrival pattern needs `rate`",
        ),
        (
            "rate = 1000",
            "rate = 1000\nclients = 3",
            "s.toml:8: `clients` is for the arrival patterns clients",
        ),
        (
            "rate = 1000",
            "rate = { value = 3 }",
            "says where it is from",
        ),
        (
            "rate = 1000",
            "rate = { value = 3, source = 'a', assumed = 'b' }",
            "this has two",
        ),
        ("at_mhz = 2000", "at_mhz = 0", "s.toml:11: `at_mhz` is 0"),
        (
            "bytes = 4096",
            "bytes = 4095",
            "s.toml:15: `bytes` is 4095, and may be 512 to 67108864, a multiple of 512",
        ),
        ("bytes = 4096", "bytes = -1", "s.toml:15"),
        ("share = 0.1", "share = 1.5", "s.toml:16: `share` is 1.5"),
        (
            "operation = \"read\"",
            "operation = \"write\"\ndirect = false",
            "s.toml:15: a buffered write ends in memory",
        ),
        ("operation = \"read\"", "operation = \"erase\"", "s.toml:14"),
        (
            "work_us = { value = 300, assumed = \"a guess\" }",
            "work_us = 0",
            "s.toml:10: `work_us` is 0, and may be 0.001",
        ),
        (
            "work_us = { value = 300, assumed = \"a guess\" }\nat_mhz = 2000",
            "",
            "[request] needs `work_us`",
        ),
        (
            "workers = 4",
            "seconds = 1e9",
            "s.toml:3: `seconds` is 1000000000, and may be 0.001 to 600",
        ),
        (
            "\"poisson\"\nrate = 1000",
            "\"recorded\"",
            "s.toml:6: recorded arrivals need `times`",
        ),
        (
            "\"poisson\"\nrate = 1000",
            "\"recorded\"\ntimes_ns = []",
            "s.toml:7: `times_ns`: there is no arrival time",
        ),
        (
            "\"poisson\"\nrate = 1000",
            "\"recorded\"\ntimes_ns = [5, 3]",
            "s.toml:7: `times_ns`: 3 comes after 5",
        ),
        (
            "\"poisson\"\nrate = 1000",
            "\"recorded\"\ntimes_ns = [5, 6]",
            "is the unit right?",
        ),
        (
            "\"poisson\"\nrate = 1000",
            "\"recorded\"\ntimes = 'a.csv'",
            "s.toml:7: a text without a folder",
        ),
    ] {
        assert!(OPEN.contains(line), "{line}");
        let said = refusal(&OPEN.replace(line, other));
        assert!(said.contains(wanted), "{other}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for text in ["", "kind = 'server'", "[arrivals", "\u{1b}[31m"] {
        assert!(refusal(text).starts_with("s.toml:"), "{text}");
    }
    let huge = " ".repeat(MAX_FILE_BYTES + 1);
    assert!(refusal(&huge).contains("is larger than"));
}

#[test]
fn a_caller_sets_the_load() {
    let with = |name: &str, value: &str| {
        let variables = [(name.to_owned(), value.to_owned())].into();
        parsed(OPEN).with_variables(&variables, "s.toml")
    };
    assert_eq!(with("rate", "50").unwrap().open_rate(), Some(50.0));
    assert_eq!(with("workers", "2").unwrap().workers, 2);
    for (name, value, wanted) in [
        (
            "rate",
            "0",
            "s.toml: rate=0 is set, and it may be 0.001 to 10000000",
        ),
        ("rate", "nan", "rate=nan is set"),
        ("rate", "\u{1b}[2J", "rate=\\u{1b}[2J is set"),
        ("workers", "2.5", "it may be 1 to 1024"),
        (
            "clients",
            "4",
            "clients is set, and requests arrive whatever is in flight here; set rate=N",
        ),
        ("rates", "4", "no variable `rates`; did you mean `rate`?"),
    ] {
        let said = with(name, value).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
    }
    let closed = OPEN.replace(
        "\"poisson\"\nrate = 1000",
        "\"clients\"\nclients = 4\nthink_us = 0",
    );
    let variables = [("rate".to_owned(), "1e5".to_owned())].into();
    let said = parsed(&closed)
        .with_variables(&variables, "s.toml")
        .unwrap_err();
    assert_eq!(
        said.to_string(),
        "s.toml: rate is set, and clients that wait for replies decide the rate here; set clients=N"
    );
}

const IN_PROCESS: &str = "kind = 'server'\nname = 'db'\n[arrivals]\npattern = 'clients'\nclients = 3\nin_process = true\n\n\
                          [request]\nwork_us = { value = 40, fitted = \"a paper\" }\n[log]\nbytes = 100\nsync = 'each'\ngroup_commit = false\nwork_us = 7\n";

#[test]
fn clients_in_the_server_s_process_are_its_workers() {
    let file = parsed(IN_PROCESS);
    assert_eq!((file.workers, file.has_clients_in_process()), (3, true));
    assert_eq!(parsed(&file.to_string()), file);
    let figures = file.figures();
    let fitted: Vec<_> = (figures.iter())
        .filter_map(|(key, figure)| Some((*key, figure.fitted_to()?)))
        .collect();
    assert_eq!(fitted, [("request.work_us", "a paper")]);
    assert!(file.assumed_figures().is_empty());
    let log = file.log.as_ref().unwrap();
    assert_eq!((log.group_commit, log.work_us.value), (false, 7.0));
    let with = |name: &str, value: &str| {
        let variables = [(name.to_owned(), value.to_owned())].into();
        file.clone().with_variables(&variables, "s.toml")
    };
    assert_eq!(with("clients", "9").unwrap().workers, 9);
    for (name, value, wanted) in [
        ("clients", "1025", "it may be 1 to 1024"),
        (
            "workers",
            "2",
            "s.toml: workers is set, and each client is a worker here; set clients=N",
        ),
    ] {
        let said = with(name, value).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
    }
    for (line, other, wanted) in [
        (
            "name = 'db'",
            "name = 'db'\nworkers = 3",
            "s.toml:3: with `in_process = true` each client is a worker: give `clients` only",
        ),
        (
            "clients = 3",
            "clients = 3\nthink_us = 5",
            "s.toml:6: with `in_process = true` clients do not think: put their CPU work into `work_us`",
        ),
        (
            "clients = 3",
            "clients = 3\ninterrupt_cpus = [0]",
            "s.toml:6: with `in_process = true` no network interrupts a CPU",
        ),
        (
            "clients = 3",
            "clients = 2000",
            "s.toml:5: with `in_process = true` there may be 1024 clients",
        ),
        (
            "pattern = 'clients'\nclients = 3",
            "pattern = 'poisson'\nrate = 3",
            "s.toml:6: `in_process` is for the arrival patterns clients",
        ),
        (
            "sync = 'each'",
            "sync_every_s = 1",
            "s.toml:13: `group_commit` is for `sync = \"each\"`, and no request waits for this log",
        ),
    ] {
        assert!(IN_PROCESS.contains(line), "{line}");
        let said = refusal(&IN_PROCESS.replacen(line, other, 1));
        assert_eq!(said, wanted);
    }
}

#[test]
fn arrivals_come_from_a_column_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = OPEN.replace(
        "\"poisson\"\nrate = 1000",
        "\"recorded\"\ntimes = \"a.csv\"\ncolumn = \"at\"\nunit = \"ms\"",
    );
    let read = |csv: &str| {
        std::fs::write(folder.path().join("a.csv"), csv).unwrap();
        parse(&text, "s.toml", Some(folder.path()))
    };
    let file = read("who, at\nx, 5\ny, 5.5\nz, 10\n").unwrap();
    let Arrivals::Recorded { times } = &file.arrivals else {
        panic!("recorded");
    };
    assert_eq!(times[..], [0, 500_000, 5_000_000].map(Nanoseconds));
    assert_eq!((file.warm_up.0, file.duration.0), (0, 5_000_000));
    for (csv, wanted) in [
        ("", "a.csv: is empty; expected the name of a column"),
        ("who,at\n", "a.csv: there is no arrival time"),
        ("who,at\nx,5\ny,soon\n", "a.csv:3: `soon` is no time"),
        ("who,at\nx,5\ny\n", "a.csv:3: the line has 1 cells"),
        ("who,at\nx,5\ny,4\n", "a.csv:3: 4 comes after 5"),
        ("who,at\nx,nan\n", "a.csv:2: NaN is no time"),
        ("who,at\nx,0\ny,1e99\n", "is the unit right?"),
        (
            "who,when\nx,0\n",
            "a.csv:1: no column is called `at`; there are: who, when",
        ),
    ] {
        let said = read(csv).unwrap_err().to_string();
        assert!(said.contains(wanted), "{csv}: {said}");
    }
    let outside = text.replace("a.csv", "../a.csv");
    let said = parse(&outside, "s.toml", Some(folder.path()))
        .unwrap_err()
        .to_string();
    assert!(said.starts_with("s.toml:7: `times`: ../a.csv"), "{said}");
}

/// The built-in servers.
const SERVERS: [&str; 7] = [
    "redis-server.toml",
    "web-server.toml",
    "postgres-commit.toml",
    "mariadb-commit.toml",
    "etcd-put.toml",
    "rocksdb-fillsync.toml",
    "redis-everysec.toml",
];

#[test]
fn the_built_in_servers_say_where_their_figures_are_from() {
    for name in SERVERS {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/");
        let text = std::fs::read_to_string(format!("{path}{name}")).unwrap();
        let file = parse(&text, name, None).unwrap();
        let printed = file.to_string();
        for line in printed.lines() {
            let is_figure = [
                "rate =",
                "work_us =",
                "reply_us =",
                "share =",
                "bytes = {",
                "block_bytes = {",
                "commit_bytes = {",
                "writes",
                "every_s =",
                "think_us =",
            ];
            if is_figure.iter().any(|start| line.starts_with(start)) {
                assert!(
                    ["assumed", "source", "measured"]
                        .iter()
                        .any(|origin| line.contains(origin)),
                    "{name}: {line}"
                );
            }
        }
    }
}

/// What servers write beside their requests' disk calls.
const LOGS: [&str; 5] = [
    "",
    "[log]\nbytes = 64\nsync_every_s = 0.5\n",
    "[log]\nbytes = 64\nsync = 'each'\nblock_bytes = 8192\n[log.journal]\nbytes = { value = 8192, measured = 'ext4' }\n",
    "[log]\nbytes = 64.5\nsync = 'each'\nlargest_write_bytes = 524288\n[log.journal]\nwhen = 'new_block'\nbytes = 512\ncommit_bytes = 1024\n\
     [[background]]\nevery_s = 0.1\nwrites = 2.5\nbytes = 4096\nflushes = 2\n\
     [[background]]\nevery_s = { value = 5, assumed = 'a test' }\nwrites_per_request = 0.25\nbytes = 8192\n",
    "[[background]]\nevery_requests = { value = 20000, assumed = 'a buffer' }\nwrites = 3\nbytes = 1048576\n\
     reads = { value = 1.5, assumed = 'a merge' }\nread_bytes = 2097152\ndepth = 1\nwork_us = { value = 900, assumed = 'merging' }\n",
];

#[test]
fn a_log_and_background_writers_mean_what_their_keys_say() {
    let file = parsed(&format!("{OPEN}{}", LOGS[3]));
    let log = file.log.as_ref().unwrap();
    assert_eq!((log.sync, log.block_bytes.value), (LogSync::Each, 4096.0));
    let journal = log.journal.as_ref().unwrap();
    assert_eq!(journal.when, JournaledSyncs::NewBlock);
    assert_eq!(
        (journal.bytes.value, journal.commit_bytes.value),
        (512.0, 1024.0)
    );
    let [rounds, checkpoints] = &file.background[..] else {
        panic!("{:?}", file.background);
    };
    assert_eq!(
        rounds.rounds,
        RoundStart::AfterSeconds(ServerFigure::declared(0.1))
    );
    assert_eq!((rounds.depth, &rounds.reads), (32, &None));
    assert_eq!(
        (rounds.writes.key_and_figure().0, rounds.flushes),
        ("writes", 2)
    );
    assert_eq!(
        (checkpoints.writes.key_and_figure().0, checkpoints.flushes),
        ("writes_per_request", 0)
    );
    let assumed = [
        ("request.work_us", "a guess"),
        ("background.every_s", "a test"),
    ];
    assert_eq!(file.assumed_figures(), assumed);
    let every = parsed(&format!("{OPEN}[log]\nbytes = 1\n")).log.unwrap();
    assert_eq!(every.sync, LogSync::Every(Nanoseconds::from_secs(1)));
    assert_eq!((every.block_bytes.value, every.journal), (4096.0, None));
}

#[test]
fn a_background_writer_that_merges_means_what_its_keys_say() {
    let file = parsed(&format!("{OPEN}{}", LOGS[4]));
    let [merging] = &file.background[..] else {
        panic!("{:?}", file.background);
    };
    let (key, replies) = merging.rounds.key_and_figure();
    assert_eq!((key, replies.value), ("every_requests", 20_000.0));
    let reads = merging.reads.as_ref().unwrap();
    assert_eq!((reads.reads.value, reads.bytes.value), (1.5, 2_097_152.0));
    assert_eq!((merging.depth, merging.work_us.value), (1, 900.0));
    let assumed = [
        ("request.work_us", "a guess"),
        ("background.every_requests", "a buffer"),
        ("background.reads", "a merge"),
        ("background.work_us", "merging"),
    ];
    assert_eq!(file.assumed_figures(), assumed);
}

/// Older result directories keep their bytes.
#[test]
fn a_background_writer_without_new_keys_prints_as_before() {
    let text = "[[background]]\nevery_s = 0.1\nwrites = 2.5\nbytes = 4096.0\nflushes = 2\n";
    let printed = parsed(&format!("{OPEN}{text}")).to_string();
    assert!(printed.ends_with(text), "{printed}");
}

#[test]
fn a_wrong_log_or_background_writer_is_named_with_its_line() {
    let first = OPEN.lines().count() + 1;
    for (text, line, wanted) in [
        ("[log]\n", 0, "missing key `bytes`"),
        (
            "[log]\nbytes = 0\n",
            1,
            "`bytes` is 0, and may be 1 to 1048576",
        ),
        (
            "[log]\nbytes = 1\nsync = 'ech'\n",
            2,
            "unknown variant `ech`",
        ),
        (
            "[log]\nbytes = 1\nsync = 'each'\nsync_every_s = 1\n",
            3,
            "`sync_every_s` is for `sync = \"every\"`, and each request syncs this log",
        ),
        (
            "[log]\nbytes = 1\nblock_bytes = 700\n",
            2,
            "`block_bytes` is 700, and may be 512 to 1048576, a multiple of 512",
        ),
        (
            "[log]\nbytes = 1\nlargest_write_bytes = 512\n",
            2,
            "`largest_write_bytes` is 512, and may be 4096 to 67108864",
        ),
        (
            "[log]\nbytes = 1\n[log.journal]\nbytes = nan\n",
            3,
            "`bytes` is NaN, and may be 512 to 1048576, a multiple of 512",
        ),
        (
            "[log]\nbytes = 1\n[log.journal]\nbytes = 512\ncommit_bytes = 0\n",
            4,
            "`commit_bytes` is 0, and may be 512",
        ),
        (
            "[[background]]\nevery_s = 1\nbytes = 512\n",
            0,
            "[[background]] needs `writes`, a number for each round, or `writes_per_request`, and not both",
        ),
        (
            "[[background]]\nevery_s = 0\nbytes = 512\nwrites = 1\n",
            1,
            "`every_s` is 0, and may be 0.001 to 600",
        ),
        (
            "[[background]]\nevery_s = 1\nbytes = 512\nwrites = 1\nflushes = 17\n",
            4,
            "`flushes` is 17, and may be 0 to 16",
        ),
        (
            "[[background]]\nevery_s = 1\nbytes = 512\nwrites_per_request = 101\n",
            3,
            "`writes_per_request` is 101, and may be 0 to 100",
        ),
        (
            "[[background]]\nbytes = 512\nwrites = 1\n",
            0,
            "[[background]] needs `every_s`, seconds from round to round, or `every_requests`, and not both",
        ),
        (
            "[[background]]\nevery_requests = 0\nbytes = 512\nwrites = 1\n",
            1,
            "`every_requests` is 0, and may be 1 to 1000000000",
        ),
        (
            "[[background]]\nevery_s = 1\nbytes = 512\nwrites = 1\nread_bytes = 4096\n",
            4,
            "`reads` of [[background]] needs `read_bytes`, and `read_bytes` needs `reads`",
        ),
        (
            "[[background]]\nevery_s = 1\nbytes = 512\nwrites = 1\nreads = 1\nread_bytes = 1000\n",
            5,
            "`read_bytes` is 1000, and may be 512 to 67108864, a multiple of 512",
        ),
        (
            "[[background]]\nevery_s = 1\nbytes = 512\nwrites = 1\ndepth = 0\n",
            4,
            "`depth` is 0, and may be 1 to 32",
        ),
        (
            "[[background]]\nevery_s = 1\nbytes = 512\nwrites = 1\nwork_us = -1\n",
            4,
            "`work_us` is -1, and may be 0 to 10000000",
        ),
    ] {
        let said = refusal(&format!("{OPEN}{text}"));
        let place = format!("s.toml:{}: ", first + line);
        assert!(
            said.starts_with(&place) && said.contains(wanted),
            "{text}: {said}"
        );
    }
    let nine = "[[background]]\nevery_s = 1\nbytes = 512\nwrites = 1\n".repeat(9);
    assert!(refusal(&format!("{OPEN}{nine}")).ends_with("there may be 8 [[background]]"));
}

proptest! {
    #[test]
    fn an_accepted_file_prints_as_an_equal_one(
        rate in 0.001_f64..1e7,
        work in 0.001_f64..1e6,
        share in 0.001_f64..1.0,
        clients in 1_u32..1000,
        pattern in 0..4,
        together in any::<bool>(),
    ) {
        let arrivals = match pattern {
            0 => format!("pattern = 'fixed'\nrate = {rate:?}"),
            1 => format!("pattern = 'poisson'\nrate = {{ value = {rate:?}, source = 'a \"b\"' }}"),
            2 => "pattern = 'recorded'\ntimes_ns = [7, 9, 5000000]".to_owned(),
            _ => format!("pattern = 'clients'\nclients = {clients}\nthink_us = {work:?}\nthink = 'exponential'"),
        };
        let log = LOGS[clients as usize % LOGS.len()];
        let text = format!(
            "kind = 'server'\nname = 'a'\n[arrivals]\n{arrivals}\ninterrupt_cpus = [2, 0]\n[request]\nwork_kcycles = {work:?}\nreply_us = 3\nat_mhz = 1500\n\
             [[request.disk]]\noperation = 'write'\nbytes = 512\ncalls = 3\ntogether = {together}\nshare = {share:?}\n{log}"
        );
        let file = parsed(&text);
        prop_assert_eq!(parsed(&file.to_string()), file);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,200}") {
        let _ = parse(&text, "s.toml", None);
        let _ = parse(&format!("{OPEN}{text}"), "s.toml", None);
    }
}

#[test]
fn a_key_with_control_characters_is_named_without_them() {
    let text = "kind = 'server'\nname = 'x'\n\"a\\u001b[31m\\nb\" = 1\n";
    let error = parse(text, "x.toml", None).unwrap_err().to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
}
