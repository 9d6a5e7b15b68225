//! Puts what CPUs hand over in the order of time.

use crate::wire::{self, Record, WireError};

/// Records on their way from the buffers to a batch.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Something earlier may still come.
    waiting: Vec<Record>,
    /// By CPU: what happened before comes only with its next records.
    nested: Vec<Vec<Record>>,
}

impl Queue {
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            waiting: Vec::new(),
            nested: vec![Vec::new(); cpus],
        }
    }

    /// Takes what a CPU handed over at once, without what is from before `begun_ns`.
    pub(crate) fn push(
        &mut self,
        cpu: usize,
        bytes: &[u8],
        begun_ns: u64,
    ) -> Result<(), WireError> {
        let nested = wire::is_nested(bytes);
        let records = if nested {
            &mut self.nested[cpu]
        } else {
            &mut self.waiting
        };
        for record in wire::decode(bytes) {
            let record = record?;
            if record.time_ns >= begun_ns {
                records.push(record);
            }
        }
        if !nested {
            self.waiting.append(&mut self.nested[cpu]);
        }
        Ok(())
    }

    /// What happened until `last_ns`, in the order of time.
    pub(crate) fn take_until(&mut self, last_ns: u64) -> Vec<Record> {
        // Stable: records of one CPU with equal times stay in the order in which they were written.
        self.waiting.sort_by_key(|record| record.time_ns);
        let settled = self
            .waiting
            .partition_point(|record| record.time_ns <= last_ns);
        let later = self.waiting.split_off(settled);
        std::mem::replace(&mut self.waiting, later)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NESTED: u16 = 1 << 15;

    /// A record whose kind says nothing; `word` tells it from others.
    fn frequency(time_ns: u64, cpu: u16, flags: u16, word: u32) -> Vec<u8> {
        let mut bytes = time_ns.to_ne_bytes().to_vec();
        bytes.extend((8 | flags).to_ne_bytes());
        bytes.extend(cpu.to_ne_bytes());
        bytes.extend(word.to_ne_bytes());
        bytes
    }

    fn times(records: &[Record]) -> Vec<(u64, u16)> {
        records.iter().map(|r| (r.time_ns, r.cpu)).collect()
    }

    #[test]
    fn records_of_all_cpus_come_in_the_order_of_time() {
        let mut queue = Queue::new(2);
        let first = [frequency(10, 0, 0, 1), frequency(30, 0, 0, 1)].concat();
        queue.push(0, &first, 10).unwrap();
        let second = [9, 20, 40].map(|time| frequency(time, 1, 0, 1)).concat();
        queue.push(1, &second, 10).unwrap();
        assert_eq!(times(&queue.take_until(30)), [(10, 0), (20, 1), (30, 0)]);
        assert_eq!(times(&queue.take_until(u64::MAX)), [(40, 1)]);
    }

    #[test]
    fn a_nested_record_waits_for_those_before_it() {
        let mut queue = Queue::new(2);
        queue.push(0, &frequency(50, 0, NESTED, 1), 0).unwrap();
        queue.push(1, &frequency(60, 1, 0, 1), 0).unwrap();
        assert_eq!(times(&queue.take_until(100)), [(60, 1)]);
        // Interrupted at 50, on a coarse clock.
        let pile = [frequency(40, 0, 0, 1), frequency(50, 0, 0, 2)].concat();
        queue.push(0, &pile, 0).unwrap();
        let records = queue.take_until(100);
        let khz: Vec<_> = records.iter().map(|record| record.kind).collect();
        assert_eq!(times(&records), [(40, 0), (50, 0), (50, 0)]);
        assert_eq!(khz[1..], [2, 1].map(|khz| wire::Kind::Frequency { khz }));
        // When all is over, an empty pile lets it go.
        queue.push(0, &frequency(70, 0, NESTED, 1), 0).unwrap();
        queue.push(0, &[], 0).unwrap();
        assert_eq!(times(&queue.take_until(100)), [(70, 0)]);
    }

    #[test]
    fn half_a_record_is_an_error() {
        let mut queue = Queue::new(1);
        assert!(queue.push(0, &frequency(1, 0, 0, 1)[..12], 0).is_err());
    }

    proptest! {
        /// However piles are handed over and late they come, each CPU's records come in its order, and none is missing.
        #[test]
        fn each_cpu_keeps_its_order(
            cpus in proptest::collection::vec(proptest::collection::vec((1..4_u64, 0..4_u8, 0..3_u8), 0..30), 3),
            take_every in 1..9_usize,
        ) {
            // What each CPU does: events, of which some are nested in the next one that is not, and some end a pile.
            let mut samples = Vec::new();
            for (cpu, events) in cpus.iter().enumerate() {
                let (mut time, mut pile) = (0, Vec::new());
                for (word, &(step, nested, ends)) in (0..).zip(events) {
                    time += step;
                    if nested == 0 {
                        samples.push((time, cpu, frequency(time, cpu as u16, NESTED, word)));
                    } else {
                        pile.extend(frequency(time, cpu as u16, 0, word));
                        if ends == 0 {
                            samples.push((time, cpu, std::mem::take(&mut pile)));
                        }
                    }
                }
                samples.push((u64::MAX, cpu, pile));
            }
            samples.sort_by_key(|&(time, ..)| time);

            let mut queue = Queue::new(3);
            let mut seen = Vec::new();
            for (index, (time, cpu, bytes)) in samples.iter().enumerate() {
                queue.push(*cpu, bytes, 0).unwrap();
                if index % take_every == 0 {
                    seen.extend(queue.take_until(time.saturating_sub(20)));
                }
            }
            seen.extend(queue.take_until(u64::MAX));
            for (cpu, events) in cpus.iter().enumerate() {
                let words: Vec<u32> = seen
                    .iter()
                    .filter(|record| usize::from(record.cpu) == cpu)
                    .map(|record| match record.kind {
                        wire::Kind::Frequency { khz } => khz,
                        other => panic!("{other:?}"),
                    })
                    .collect();
                let all: Vec<u32> = (0..).take(events.len()).collect();
                prop_assert_eq!(words, all);
            }
        }
    }
}
