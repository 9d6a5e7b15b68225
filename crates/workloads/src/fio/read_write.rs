//! fio's option `rw`: direction and order of I/Os.

use std::fmt;

use serde::Serialize;

/// Direction and order of a job's I/Os (fio's `rw`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadWrite {
    /// Sequential reads.
    #[default]
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Sequential reads and writes, mixed by `rwmixread`.
    ReadWrite,
    /// Random reads and writes, mixed by `rwmixread`.
    RandRw,
    /// Sequential trims.
    Trim,
    /// Random trims.
    RandTrim,
    /// Sequential blocks, each trimmed and then written.
    TrimWrite,
    /// Random blocks, each trimmed and then written.
    RandTrimWrite,
}

impl ReadWrite {
    /// All values of `rw`, with fio's names.
    pub(crate) const NAMES: [(&'static str, Self); 11] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("randread", Self::RandRead),
        ("randwrite", Self::RandWrite),
        ("rw", Self::ReadWrite),
        ("readwrite", Self::ReadWrite),
        ("randrw", Self::RandRw),
        ("trim", Self::Trim),
        ("randtrim", Self::RandTrim),
        ("trimwrite", Self::TrimWrite),
        ("randtrimwrite", Self::RandTrimWrite),
    ];

    /// Whether some of the job's I/Os are reads.
    pub const fn reads(self) -> bool {
        matches!(
            self,
            Self::Read | Self::RandRead | Self::ReadWrite | Self::RandRw
        )
    }

    /// Whether some of the job's I/Os write data.
    pub const fn writes(self) -> bool {
        !matches!(
            self,
            Self::Read | Self::RandRead | Self::Trim | Self::RandTrim
        )
    }

    /// Whether some of the job's I/Os are trims.
    pub const fn trims(self) -> bool {
        matches!(
            self,
            Self::Trim | Self::RandTrim | Self::TrimWrite | Self::RandTrimWrite
        )
    }

    /// Whether the I/Os have random offsets.
    pub const fn is_random(self) -> bool {
        matches!(
            self,
            Self::RandRead | Self::RandWrite | Self::RandRw | Self::RandTrim | Self::RandTrimWrite
        )
    }
}

impl fmt::Display for ReadWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
            Self::ReadWrite => "rw",
            Self::RandRw => "randrw",
            Self::Trim => "trim",
            Self::RandTrim => "randtrim",
            Self::TrimWrite => "trimwrite",
            Self::RandTrimWrite => "randtrimwrite",
        })
    }
}
