//! Verification of written data, and its cost.

use serde::Serialize;

use super::defaults::is_default;

/// How fio checks data that it reads back (`verify`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// MD5.
    Md5,
    /// CRC-64.
    Crc64,
    /// Ethernet's CRC-32.
    Crc32,
    /// Checksum CRC-32C, computed by the processor's own instruction.
    Crc32c,
    /// CRC-16.
    Crc16,
    /// CRC-7.
    Crc7,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// SHA3-224.
    Sha3x224,
    /// SHA3-256.
    Sha3x256,
    /// SHA3-384.
    Sha3x384,
    /// SHA3-512.
    Sha3x512,
    /// xxHash.
    Xxhash,
    /// `verify=meta`: facts about the I/O only, without the data.
    Meta,
    /// The pattern itself.
    Pattern,
    /// Nothing: `verify=null` reads the data back without a look at them.
    Null,
}

/// A checksum with fio's name, and CPU cycles per KiB of checked data.
struct ChecksumRow {
    name: &'static str,
    checksum: Checksum,
    cycles_per_kib: u64,
}

const fn describe_checksum(
    name: &'static str,
    checksum: Checksum,
    cycles_per_kib: u64,
) -> ChecksumRow {
    ChecksumRow {
        name,
        checksum,
        cycles_per_kib,
    }
}

/// All checksums, by each of fio's names. Cycles measured: fio 3.33, `psync` reads of 128 KiB
/// of a file in memory with and without `verify`, on a Xeon of 2.6 GHz, user time per I/O.
const CHECKSUMS: [ChecksumRow; 18] = [
    describe_checksum("md5", Checksum::Md5, 3910),
    describe_checksum("crc64", Checksum::Crc64, 5890),
    describe_checksum("crc32", Checksum::Crc32, 6760),
    describe_checksum("crc32c", Checksum::Crc32c, 360),
    describe_checksum("crc32c-intel", Checksum::Crc32c, 360),
    describe_checksum("crc16", Checksum::Crc16, 6210),
    describe_checksum("crc7", Checksum::Crc7, 5830),
    describe_checksum("sha1", Checksum::Sha1, 2920),
    describe_checksum("sha256", Checksum::Sha256, 8270),
    describe_checksum("sha512", Checksum::Sha512, 5090),
    describe_checksum("sha3-224", Checksum::Sha3x224, 25_100),
    describe_checksum("sha3-256", Checksum::Sha3x256, 27_000),
    describe_checksum("sha3-384", Checksum::Sha3x384, 35_400),
    describe_checksum("sha3-512", Checksum::Sha3x512, 50_200),
    describe_checksum("xxhash", Checksum::Xxhash, 910),
    describe_checksum("meta", Checksum::Meta, 0),
    describe_checksum("pattern", Checksum::Pattern, 220),
    describe_checksum("null", Checksum::Null, 0),
];

impl Checksum {
    /// fio's names for all checksums, without the `0` that switches verification off.
    pub(super) const NAMES: [&str; CHECKSUMS.len()] = {
        let mut names = [""; CHECKSUMS.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = CHECKSUMS[i].name;
            i += 1;
        }
        names
    };

    pub(super) fn from_name(name: &str) -> Option<Self> {
        let found = CHECKSUMS.iter().find(|row| row.name == name);
        found.map(|row| row.checksum)
    }

    fn find_name_and_cost(self) -> Option<&'static ChecksumRow> {
        CHECKSUMS.iter().find(|row| row.checksum == self)
    }

    /// fio's name.
    pub fn name(self) -> &'static str {
        self.find_name_and_cost().map_or("", |row| row.name)
    }

    /// CPU cycles that checking takes for each KiB of data.
    pub fn cycles_per_kib(self) -> u64 {
        self.find_name_and_cost()
            .map_or(0, |row| row.cycles_per_kib)
    }
}

/// How a job verifies its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verify {
    /// Checksum for verification, if any. Default: none.
    pub checksum: Option<Checksum>,
    /// Whether written data are read again and checked (`do_verify`). Default true.
    pub read_back: bool,
    /// Pattern that is written instead of random data (`verify_pattern`).
    pub pattern: Option<String>,
    /// Number of writes after which the job reads back, among its writes; 0: only at the end of each pass
    /// (`verify_backlog`). Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub backlog: u64,
    /// Number of reads each time; 0: as many as `backlog` (`verify_backlog_batch`). Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub backlog_batch: u32,
    /// Whether the second pass generates the job's I/Os anew instead of remembering them (`experimental_verify`). Default
    /// false.
    #[serde(skip_serializing_if = "is_default")]
    pub experimental: bool,
    /// Threads of each process that check what was read, beside the process; 0: the process checks (`verify_async`).
    /// Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub threads: u32,
}

impl Default for Verify {
    fn default() -> Self {
        Self {
            checksum: None,
            read_back: true,
            pattern: None,
            backlog: 0,
            backlog_batch: 0,
            experimental: false,
            threads: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse_modelled_job;
    use super::super::{FioJob, parse};
    use super::*;

    fn job(lines: &str) -> Result<FioJob, String> {
        parse_modelled_job(&format!("direct=1\n{lines}"))
    }

    #[test]
    fn what_is_read_again_and_what_is_not_are_modelled() {
        for name in Checksum::NAMES {
            for (rest, reads_back) in [
                ("rw=read", false),
                ("rw=randread\nverify_fatal=1", false),
                ("rw=write\ndo_verify=0", false),
                ("rw=randrw\ndo_verify=0", false),
                ("rw=write", true),
                ("rw=randrw\nverify_backlog=8", true),
                // The writes of a time-based job leave no time, unless fio counts them as they are queued.
                ("rw=write\ntime_based\nruntime=5", false),
                ("rw=write\ntime_based", true),
                ("rw=write\ntime_based\nruntime=5\nverify_backlog=1", true),
                ("rw=write\ntime_based\nruntime=5\nioengine=libaio", true),
            ] {
                let job = job(&format!("{rest}\nverify={name}")).unwrap();
                assert!(job.verify.checksum.is_some(), "{rest}");
                assert_eq!(job.reads_back(), reads_back, "{rest}");
            }
        }
        assert!(!job("rw=write\nverify=0").unwrap().reads_back());
        for (rest, why) in [
            ("rw=trimwrite", "trims"),
            ("rw=write\ntrim_percentage=50", "trims"),
            ("rw=randwrite\nrandom_distribution=zipf:1.2", "overwritten"),
        ] {
            let said = job(&format!("{rest}\nverify=md5")).unwrap_err();
            assert!(said.contains("t.fio:") && said.contains(why), "{said}");
        }
        for (rest, threads) in [
            ("rw=read", 4),
            ("rw=write", 4),
            ("rw=write\ndo_verify=0", 0),
            ("rw=randrw\ndo_verify=0", 0),
        ] {
            let job = job(&format!("{rest}\nverify=md5\nverify_async=4")).unwrap();
            assert_eq!(job.checking_threads(), threads, "{rest}");
        }
        let said = job("rw=read\nverify=md6").unwrap_err();
        assert!(said.contains("did you mean `md5`?"), "{said}");
    }

    #[test]
    fn a_job_that_its_writes_leave_no_time_says_so() {
        let text = "[j]\nrw=write\nsize=1m\nverify=md5\ntime_based\nruntime=5\ndirect=1\n";
        let warnings = parse(text, "t.fio").unwrap().warnings;
        let said = warnings.iter().find(|warning| warning.option == "verify");
        assert!(said.unwrap().to_string().contains("reads nothing back"));
    }

    #[test]
    fn what_is_printed_is_the_same_job() {
        let lines = "rw=write\nverify=crc32c-intel\ndo_verify=0\nverify_pattern=0xdead\nverify_backlog=7\n\
                     verify_backlog_batch=3\nexperimental_verify=1\nverify_async=2";
        let file = parse(&format!("[j]\nsize=1m\ndirect=1\n{lines}\n"), "t.fio").unwrap();
        let again = parse(&file.to_string(), "t.fio").unwrap();
        assert_eq!(again.jobs[0].verify, file.jobs[0].verify);
        assert_eq!(again.jobs[0].verify.checksum, Some(Checksum::Crc32c));
    }
}
