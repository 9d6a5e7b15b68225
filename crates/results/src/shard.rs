//! Shards: parts of a study that run apart.

use std::fmt;
use std::str::FromStr;

use crate::text::as_text;

/// Most shards.
pub const MAX_SHARDS: u32 = 100_000;

/// A shard, one part of a study that is run in several: `3/64` has every 64th run from the third on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    number: u32,
    count: u32,
}

/// Why a text cannot be parsed as a shard such as `3/64`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}`: expected a shard such as 3/64, from 1/64 to 64/64, of at most {MAX_SHARDS}")]
pub struct ShardError(String);

impl Shard {
    /// Number from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Number of shards.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Whether the shard includes the run with an index, counted from 0.
    pub fn includes_run(self, index: usize) -> bool {
        index % self.count as usize + 1 == self.number as usize
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let (number, count) = text
            .split_once('/')
            .and_then(|(number, count)| Some((parse_unsigned(number)?, parse_unsigned(count)?)))
            .filter(|(number, count)| (1..=*count).contains(number) && *count <= MAX_SHARDS)
            .ok_or_else(|| ShardError(text.to_owned()))?;
        Ok(Self { number, count })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

as_text!(Shard);

/// Parses a decimal number without a sign.
fn parse_unsigned(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_run_belongs_to_one_shard(count in 1_u32..200, index in 0_usize..100_000) {
            let owners = (1..=count).filter(|number| Shard { number: *number, count }.includes_run(index)).count();
            prop_assert_eq!(owners, 1);
        }

        #[test]
        fn shards_print_as_they_are_read(count in 1..=MAX_SHARDS, at in 0..MAX_SHARDS) {
            let shard = Shard { number: at % count + 1, count };
            prop_assert_eq!(shard.to_string().parse(), Ok(shard));
        }
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        for text in [
            "",
            "3",
            "0/4",
            "5/4",
            "1/0",
            "1/100001",
            "-1/4",
            "1/4/2",
            "a/b",
            "+1/4",
            "99999999999/4",
        ] {
            assert_eq!(
                text.parse::<Shard>(),
                Err(ShardError(text.to_owned())),
                "{text}"
            );
        }
    }
}
