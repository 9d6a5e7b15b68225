//! teo's counters: how often the CPU woke up in each bin, lately.

use wakepath_hardware::idle::MAX_STATES;

use crate::idle::table::{MEDIUM_TABLE, SHORT_TABLE};

/// Increment of a teo counter for one wake-up.
pub(super) const PULSE: u32 = 1024;

/// Three counters of a bin in one word, 16 bits each: hits, intercepts and recent intercepts.
/// Counters and their sums stay below 2^14: they grow by [`PULSE`] at most while an eighth is taken
/// off, and there are never more than nine recent intercepts. So words are added as single numbers.
type Word = u64;

const RECENT: Word = 1 << 32;
/// Addend for the hits and intercepts of a word, which sets the top bit of counters from 8 on.
const FROM_8: Word = 0x7ff8_7ff8;
/// Top bits of the hits and intercepts in a word.
const TOP: Word = 0x8000_8000;
/// Mask of a word shifted right by three: an eighth of hits and intercepts, none of recent
/// intercepts.
const EIGHTHS: Word = 0x1fff_1fff;

/// A wake-up in the expected timer's bin or before, as an increment for the bin's word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event(Word);

impl Event {
    pub(super) const HIT: Self = Self(PULSE as Word);
    /// A wake-up before the expected bin, also counted as recent.
    pub(super) const INTERCEPT: Self = Self(Self::PLAIN_INTERCEPT.0 | RECENT);
    /// A wake-up before the expected bin, counted only where counters decay.
    pub(super) const PLAIN_INTERCEPT: Self = Self((PULSE as Word) << 16);
}

/// Wake-ups counted in a bin, or in several bins together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Wake-ups in the bin of the expected timer.
    pub(super) hits: u32,
    /// Wake-ups before the expected bin, counted in their own bin.
    pub(super) intercepts: u32,
    /// Intercepts among the most recent wake-ups; only Linux 6.1's teo counts them.
    pub(super) recent: u32,
}

impl From<Word> for Sums {
    #[inline]
    fn from(word: Word) -> Self {
        Self {
            hits: word as u32 & 0xffff,
            intercepts: (word >> 16) as u32 & 0xffff,
            recent: (word >> 32) as u32 & 0xffff,
        }
    }
}

/// Wake-up counters of all bins, one bin per idle state. Bins without a state stay 0.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    /// Number of bins in use, rounded up to [`SHORT_TABLE`], [`MEDIUM_TABLE`] or all.
    used: usize,
    counters: [Word; MAX_STATES],
    /// Sums over all shallower bins, by bin. The last entry covers all bins.
    below: [Word; MAX_STATES + 1],
}

impl Bins {
    /// Empty bins for a number of idle states.
    pub(super) fn new(states: usize) -> Self {
        Self {
            used: if states <= SHORT_TABLE {
                SHORT_TABLE
            } else if states <= MEDIUM_TABLE {
                MEDIUM_TABLE
            } else {
                MAX_STATES
            },
            counters: [0; MAX_STATES],
            below: [0; MAX_STATES + 1],
        }
    }

    /// Decays all hits and intercepts by an eighth.
    #[inline]
    pub(super) fn decay_counters(&mut self) {
        self.replace_counter_words(|word| word - ((word >> 3) & EIGHTHS));
    }

    /// Decays all hits and intercepts by an eighth, or to 0 where an eighth is 0. There must be no
    /// recent intercepts.
    #[inline]
    pub(super) fn decay_counters_to_zero(&mut self) {
        self.replace_counter_words(|word| {
            let kept = (word + FROM_8) & TOP;
            // The mask keeps every bit of the counters that remain.
            let mask = kept | (kept - (kept >> 15));
            (word - ((word >> 3) & EIGHTHS)) & mask
        });
    }

    #[inline]
    fn replace_counter_words(&mut self, replacement: impl Fn(Word) -> Word) {
        match self.used {
            SHORT_TABLE => replace_words_in(&mut self.counters[..SHORT_TABLE], replacement),
            MEDIUM_TABLE => replace_words_in(&mut self.counters[..MEDIUM_TABLE], replacement),
            _ => replace_words_in(&mut self.counters, replacement),
        }
    }

    /// Number of all hits and intercepts, whether [`Bins::update_sums`] was called or not.
    #[inline]
    pub(super) fn count_all_wakeups(&self) -> u32 {
        let all = Sums::from(self.counters[..self.used].iter().sum::<Word>());
        all.hits + all.intercepts
    }

    /// Number of intercepts in a bin.
    #[inline]
    pub(super) fn intercepts_in_bin(&self, bin: usize) -> u32 {
        Sums::from(self.counters[bin]).intercepts
    }

    /// Bin with most intercepts among the first `bins`; among equals the deepest.
    #[inline]
    pub(super) fn bin_with_most_intercepts(&self, bins: usize) -> usize {
        match self.used {
            SHORT_TABLE => bin_with_most_intercepts(&self.counters[..SHORT_TABLE], bins),
            MEDIUM_TABLE => bin_with_most_intercepts(&self.counters[..MEDIUM_TABLE], bins),
            _ => bin_with_most_intercepts(&self.counters, bins),
        }
    }

    /// Number of all hits and intercepts at the last [`Bins::update_sums`].
    #[inline]
    pub(super) fn summed_wakeups(&self) -> u32 {
        let all = Sums::from(self.below[MAX_STATES]);
        all.hits + all.intercepts
    }

    /// Sums up the counters over all shallower bins, for [`Bins::sums_below`] and the totals.
    #[inline]
    pub(super) fn update_sums(&mut self) {
        let (below, counters) = (&mut self.below, &self.counters);
        below[MAX_STATES] = match self.used {
            SHORT_TABLE => write_running_sums(&mut below[..SHORT_TABLE], &counters[..SHORT_TABLE]),
            MEDIUM_TABLE => {
                write_running_sums(&mut below[..MEDIUM_TABLE], &counters[..MEDIUM_TABLE])
            }
            _ => write_running_sums(&mut below[..MAX_STATES], counters),
        };
    }

    /// Counts a wake-up in a bin.
    #[inline]
    pub(super) fn count_wakeup(&mut self, bin: usize, event: Event) {
        self.counters[bin] += event.0;
    }

    /// Takes a wake-up off the recent intercepts of a bin; hits and intercepts stay.
    #[inline]
    pub(super) fn forget_recent_wakeup(&mut self, bin: usize, event: Event) {
        self.counters[bin] -= event.0 & RECENT;
    }

    /// Sums over all bins shallower than `state`'s bin, at the last [`Bins::update_sums`].
    #[inline]
    pub(super) fn sums_below(&self, state: usize) -> Sums {
        Sums::from(self.below[state])
    }

    /// All intercepts.
    #[inline]
    pub(super) fn summed_intercepts(&self) -> u32 {
        Sums::from(self.below[MAX_STATES]).intercepts
    }
}

// Each function below is called with slices of a few known lengths, so that the compiler unrolls
// its loops for each.

#[inline(always)]
fn replace_words_in(words: &mut [Word], by: impl Fn(Word) -> Word) {
    for word in words {
        *word = by(*word);
    }
}

#[inline(always)]
fn bin_with_most_intercepts(counters: &[Word], bins: usize) -> usize {
    // The low bits of a key hold the bin's number, so that a single comparison finds the bin with
    // most intercepts.
    let keys = counters.iter().enumerate().map(|(bin, word)| {
        let key = Sums::from(*word).intercepts << 4 | bin as u32;
        if bin < bins { key } else { 0 }
    });
    keys.max().unwrap_or(0) as usize & 0xf
}

/// Writes the sum of all shallower counters for each counter, and returns the sum of all counters.
#[inline(always)]
fn write_running_sums(below: &mut [Word], counters: &[Word]) -> Word {
    let mut sum = 0;
    for (below, word) in below.iter_mut().zip(counters) {
        *below = sum;
        sum += word;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_counters_are_plain_counters(
            states in 1..=MAX_STATES,
            events in prop::collection::vec((0..MAX_STATES, 0_u8..3), 1..300),
        ) {
            let mut bins = Bins::new(states);
            let mut plain = [Sums::default(); MAX_STATES];
            let mut recent = std::collections::VecDeque::new();
            for (bin, kind) in events {
                let bin = bin % states;
                bins.decay_counters();
                for sums in &mut plain {
                    sums.hits -= sums.hits >> 3;
                    sums.intercepts -= sums.intercepts >> 3;
                }
                let before = plain.iter().map(|sums| sums.hits + sums.intercepts).sum::<u32>();
                prop_assert_eq!(bins.count_all_wakeups(), before);
                let event = if kind == 0 {
                    plain[bin].hits += PULSE;
                    Event::HIT
                } else {
                    plain[bin].intercepts += PULSE;
                    plain[bin].recent += 1;
                    Event::INTERCEPT
                };
                bins.count_wakeup(bin, event);
                recent.push_back((bin, event, kind != 0));
                if recent.len() > 9 {
                    let (bin, event, intercept) = recent.pop_front().unwrap();
                    bins.forget_recent_wakeup(bin, event);
                    plain[bin].recent -= u32::from(intercept);
                }
                bins.update_sums();
                let mut sums = Sums::default();
                for (state, counters) in plain[..states].iter().enumerate() {
                    prop_assert_eq!(bins.sums_below(state), sums);
                    sums.hits += counters.hits;
                    sums.intercepts += counters.intercepts;
                    sums.recent += counters.recent;
                }
                prop_assert_eq!(bins.summed_wakeups(), sums.hits + sums.intercepts);
                prop_assert_eq!(bins.summed_intercepts(), sums.intercepts);
            }
        }

        #[test]
        fn a_counter_below_8_decays_to_zero(
            events in prop::collection::vec((0..MAX_STATES, any::<bool>()), 1..120),
        ) {
            let mut bins = Bins::new(MAX_STATES);
            let mut plain = [[0_u32; 2]; MAX_STATES];
            for (bin, hit) in events {
                bins.decay_counters_to_zero();
                for counter in plain.as_flattened_mut() {
                    *counter = if *counter < 8 { 0 } else { *counter - *counter / 8 };
                }
                bins.count_wakeup(bin, if hit { Event::HIT } else { Event::PLAIN_INTERCEPT });
                plain[bin][usize::from(!hit)] += PULSE;
                bins.update_sums();
                let most = plain[..MAX_STATES - 1].iter().map(|counters| counters[1]).max();
                let last = plain[..MAX_STATES - 1]
                    .iter()
                    .rposition(|counters| Some(counters[1]) == most);
                prop_assert_eq!(Some(bins.bin_with_most_intercepts(MAX_STATES - 1)), last);
                let mut sums = Sums::default();
                for (state, [hits, intercepts]) in plain.iter().enumerate() {
                    prop_assert_eq!(bins.sums_below(state), sums);
                    sums.hits += hits;
                    sums.intercepts += intercepts;
                }
                prop_assert_eq!(bins.count_all_wakeups(), sums.hits + sums.intercepts);
            }
        }
    }
}
