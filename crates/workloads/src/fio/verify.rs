//! Verification of written data, and its cost.

use serde::Serialize;

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
}

/// For each checksum: fio's name, and CPU cycles per KiB of checked data. Measured: fio 3.33, `psync` reads of 128 KiB
/// of a file in memory with and without `verify`, on a Xeon of 2.6 GHz, user time per I/O.
const CHECKSUMS: [(&str, Checksum, u64); 17] = [
    ("md5", Checksum::Md5, 3910),
    ("crc64", Checksum::Crc64, 5890),
    ("crc32", Checksum::Crc32, 6760),
    ("crc32c", Checksum::Crc32c, 360),
    ("crc32c-intel", Checksum::Crc32c, 360),
    ("crc16", Checksum::Crc16, 6210),
    ("crc7", Checksum::Crc7, 5830),
    ("sha1", Checksum::Sha1, 2920),
    ("sha256", Checksum::Sha256, 8270),
    ("sha512", Checksum::Sha512, 5090),
    ("sha3-224", Checksum::Sha3x224, 25_100),
    ("sha3-256", Checksum::Sha3x256, 27_000),
    ("sha3-384", Checksum::Sha3x384, 35_400),
    ("sha3-512", Checksum::Sha3x512, 50_200),
    ("xxhash", Checksum::Xxhash, 910),
    ("meta", Checksum::Meta, 0),
    ("pattern", Checksum::Pattern, 220),
];

impl Checksum {
    /// fio's names for all checksums, without names that switch verification off.
    pub(super) const NAMES: [&str; CHECKSUMS.len()] = {
        let mut names = [""; CHECKSUMS.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = CHECKSUMS[i].0;
            i += 1;
        }
        names
    };

    pub(super) fn from_name(name: &str) -> Option<Self> {
        let found = CHECKSUMS.iter().find(|(known, ..)| *known == name);
        found.map(|(_, checksum, _)| *checksum)
    }

    fn table_row(self) -> Option<&'static (&'static str, Self, u64)> {
        CHECKSUMS.iter().find(|(_, known, _)| *known == self)
    }

    /// fio's name.
    pub fn name(self) -> &'static str {
        self.table_row().map_or("", |row| row.0)
    }

    /// CPU cycles that checking takes for each KiB of data.
    pub fn cycles_per_kib(self) -> u64 {
        self.table_row().map_or(0, |row| row.2)
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
}

impl Default for Verify {
    fn default() -> Self {
        Self {
            checksum: None,
            read_back: true,
            pattern: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FioJob, parse};
    use super::*;

    /// Parses a job from lines, or returns the message.
    fn job(lines: &str) -> Result<FioJob, String> {
        let mut file = parse(&format!("[j]\nsize=1m\ndirect=1\n{lines}\n"), "t.fio")
            .map_err(|e| e.to_string())?;
        file.check_modelled().map_err(|e| e.to_string())?;
        Ok(file.jobs.remove(0))
    }

    #[test]
    fn what_is_not_read_again_is_modelled() {
        for name in Checksum::NAMES {
            for rest in [
                "rw=read",
                "rw=randread\nverify_fatal=1",
                "rw=write\ndo_verify=0",
            ] {
                let lines = format!("{rest}\nverify={name}");
                assert!(job(&lines).unwrap().verify.checksum.is_some(), "{lines}");
            }
            for rest in [
                "rw=write",
                "rw=randrw\ndo_verify=0",
                "rw=write\ndo_verify=1",
            ] {
                let said = job(&format!("{rest}\nverify={name}")).unwrap_err();
                assert!(
                    said.contains("t.fio:") && said.contains("do_verify=0"),
                    "{said}"
                );
            }
        }
        assert!(job("rw=read\nverify=md5\nverify_async=4").is_err());
        assert!(job("rw=write\nverify=md5\ndo_verify=0\nverify_async=4").is_ok());
        assert!(
            job("rw=write\nverify=null")
                .unwrap()
                .verify
                .checksum
                .is_none()
        );
        let said = job("rw=read\nverify=md6").unwrap_err();
        assert!(said.contains("did you mean `md5`?"), "{said}");
    }

    #[test]
    fn what_is_printed_is_the_same_job() {
        let lines = "rw=write\nverify=crc32c-intel\ndo_verify=0\nverify_pattern=0xdead";
        let file = parse(&format!("[j]\nsize=1m\ndirect=1\n{lines}\n"), "t.fio").unwrap();
        let again = parse(&file.to_string(), "t.fio").unwrap();
        assert_eq!(again.jobs[0].verify, file.jobs[0].verify);
        assert_eq!(again.jobs[0].verify.checksum, Some(Checksum::Crc32c));
    }
}
