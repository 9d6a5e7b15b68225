//! Blocks of random jobs that come to some places more often than to others: `random_distribution=zipf` and `pareto`.
//!
//! As fio 3.33 (`lib/zipf.c`): a block's rank is drawn, and ranks are scattered over the file by a multiplicative hash.

use super::{FioJob, Walk};

/// Ranks whose weights are added up one by one. An integral stands for the weights of further ranks.
const RANKS_ADDED_UP: u64 = 10_000;

/// Most ranks whose weights fio adds up.
const MOST_RANKS_OF_FIO: u64 = 10_000_000;

/// Multiplier that scatters ranks: 2^64 over the square of the golden ratio, made odd.
const SCATTER: u64 = 0x61C8_8646_80B5_83EB;

/// Parameters without which fio takes these.
const THETA: f64 = 1.1;
const POWER: f64 = 0.2;

/// How often a process comes to each block of its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnevenPlaces {
    law: Law,
    /// Number of blocks, at least 1.
    blocks: u64,
    /// Where the first rank lies, as a share of the file; `None`: elsewhere for each process.
    center: Option<f64>,
}

/// Law of a block's rank, from 0 for the block that is drawn most often.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    Zipf {
        theta: f64,
        /// Sum of the weights of all ranks.
        sum: f64,
    },
    Pareto {
        exponent: f64,
    },
}

impl FioJob {
    /// Whether some blocks of the job's files are drawn more often than others in a way that the page cache's model knows.
    pub fn has_modelled_uneven_places(&self) -> bool {
        self.places.distribution.as_deref().is_some_and(is_modelled)
            && self.files_per_process() == 1
            && self
                .places
                .block_align
                .as_array()
                .into_iter()
                .all(Option::is_none)
            && Walk::for_job_if_positions_matter(self, u64::MAX >> 1).is_none()
    }
}

impl UnevenPlaces {
    /// The blocks of `bytes` each in a file of `span` bytes, for a buffered job; `None`: they are drawn evenly.
    pub fn for_buffered_job(job: &FioJob, span: u64, bytes: u64) -> Option<Self> {
        if job.is_direct() || !job.has_modelled_uneven_places() {
            return None;
        }
        let blocks = (span / bytes.max(1)).max(1);
        let mut words = job.places.distribution.as_deref()?.split(':');
        let kind = words.next()?;
        let mut numbers = words.map(|word| word.parse::<f64>().ok());
        let parameter = numbers.next().flatten();
        let law = if kind == "zipf" {
            let theta = parameter.unwrap_or(THETA);
            let sum = sum_weights(theta, blocks.min(MOST_RANKS_OF_FIO));
            Law::Zipf { theta, sum }
        } else {
            let power = parameter.unwrap_or(POWER);
            let exponent = power.ln() / (1.0 - power).ln();
            Law::Pareto { exponent }
        };
        Some(Self {
            law,
            blocks,
            center: numbers.next().flatten(),
        })
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Block of the first rank for a process that has drawn a block for that.
    pub fn first_rank_of_process(&self, drawn: u64) -> u64 {
        match self.center {
            Some(center) => (self.blocks as f64 * center) as u64,
            None => drawn,
        }
    }

    /// The block that a number from 0 to 1, drawn evenly, stands for.
    pub fn block_for_chance(&self, chance: f64, first_rank: u64) -> u64 {
        let blocks = self.blocks as f64;
        let rank = match self.law {
            Law::Zipf { theta, sum } => zipf_rank(theta, sum, blocks, chance),
            Law::Pareto { exponent } => ((blocks - 1.0) * chance.powf(exponent)) as u64,
        };
        rank.wrapping_mul(SCATTER).wrapping_add(first_rank) % self.blocks
    }
}

/// Whether a distribution has a model.
fn is_modelled(distribution: &str) -> bool {
    ["zipf", "pareto"].contains(&distribution.split(':').next().unwrap_or_default())
}

/// The rank that a number from 0 to 1 stands for: exact for the first two, by an approximation of the law for others.
fn zipf_rank(theta: f64, sum: f64, blocks: f64, chance: f64) -> u64 {
    let second = 0.5_f64.powf(theta);
    let weight = chance * sum;
    if weight < 1.0 {
        return 0;
    }
    if weight < 1.0 + second {
        return 1;
    }
    let eta = (1.0 - (2.0 / blocks).powf(1.0 - theta)) / (1.0 - (1.0 + second) / sum);
    let share = (eta * chance - eta + 1.0).powf(1.0 / (1.0 - theta));
    (blocks * share) as u64
}

/// Sum of `rank^-theta` for ranks from 1 to the last one.
fn sum_weights(theta: f64, last: u64) -> f64 {
    let added_up = last.min(RANKS_ADDED_UP);
    let sum: f64 = (1..=added_up)
        .map(|rank| weigh_rank(rank as f64, theta))
        .sum();
    if last == added_up {
        return sum;
    }
    // By Euler and Maclaurin; what is left out is less than 1e-9.
    let (from, to) = (added_up as f64, last as f64);
    let area = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    sum + area + f64::midpoint(weigh_rank(to, theta), -weigh_rank(from, theta))
}

fn weigh_rank(rank: f64, theta: f64) -> f64 {
    rank.powf(-theta)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse_modelled_job as job;
    use super::*;

    #[test]
    fn the_integral_stands_for_the_sum() {
        for theta in [0.5, 0.99, 1.2, 2.0] {
            let added: f64 = (1..=100_000).map(|rank| f64::from(rank).powf(-theta)).sum();
            let sum = sum_weights(theta, 100_000);
            assert!((sum - added).abs() < 1e-7, "{theta}: {sum} {added}");
        }
    }

    fn places_in_file(distribution: &str, bytes: u64) -> UnevenPlaces {
        let job = job(&format!("rw=randread\nrandom_distribution={distribution}")).unwrap();
        UnevenPlaces::for_buffered_job(&job, bytes, 4096).unwrap()
    }

    fn first_rank_under(distribution: &str) -> u64 {
        places_in_file(distribution, 1 << 20).first_rank_of_process(7)
    }

    #[test]
    fn blocks_are_those_of_the_file_whatever_is_drawn() {
        for (distribution, blocks) in [
            ("zipf:1.2", 1),
            ("zipf:0.5", 2),
            ("pareto:0.2:0.9", 768),
            ("zipf", 3),
        ] {
            let places = places_in_file(distribution, blocks * 4096);
            assert_eq!(places.blocks(), blocks, "{distribution}");
            for chance in [0.0, 0.3, 0.999_999, 1.0] {
                assert!(
                    places.block_for_chance(chance, u64::MAX) < blocks,
                    "{distribution} {chance}"
                );
            }
        }
    }

    #[test]
    fn the_center_is_the_same_for_all_processes() {
        assert_eq!(first_rank_under("zipf:1.2"), 7);
        assert_eq!(first_rank_under("zipf:1.2:0.5"), 128);
    }

    #[test]
    fn direct_and_even_jobs_have_none() {
        for lines in [
            "random_distribution=zipf:1.2\ndirect=1",
            "norandommap",
            "random_distribution=random",
        ] {
            let job = job(&format!("rw=randread\n{lines}")).unwrap();
            assert_eq!(UnevenPlaces::for_buffered_job(&job, 1 << 20, 4096), None);
        }
    }
}
