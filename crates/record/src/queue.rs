//! Merges the per-CPU buffers, delivered or still in use, into one stream ordered by time.

use crate::wire::{self, CpuBuffer, Delivered, Record, WireError};

/// Records on their way from the kernel's buffers to a batch.
#[derive(Debug)]
pub(crate) struct RecordQueue {
    /// Start of the recording in ns: earlier records are left out.
    begun_ns: u64,
    /// Records that wait for earlier records of other CPUs.
    waiting: Vec<Record>,
    cpus: Vec<Cpu>,
}

/// How far a CPU's buffers have been taken.
#[derive(Clone, Debug, Default)]
struct Cpu {
    /// Generation of the CPU's next delivered buffer.
    next: u64,
    /// Number of bytes already taken from the CPU's next buffer.
    taken: usize,
    /// Records that interrupted the filling of the CPU's buffer; earlier records come with the next buffer.
    nested: Vec<Record>,
}

impl Cpu {
    /// Number of bytes already taken from a buffer; 0 after the next one, since buffers between were lost.
    fn bytes_taken_from_generation(&self, generation: u64) -> usize {
        if generation == self.next {
            self.taken
        } else {
            0
        }
    }
}

impl RecordQueue {
    pub(crate) fn new(cpus: usize, begun_ns: u64) -> Self {
        Self {
            begun_ns,
            waiting: Vec::new(),
            cpus: vec![Cpu::default(); cpus],
        }
    }

    /// Takes the records of a delivered buffer, without the bytes taken before.
    pub(crate) fn take_delivered_buffer(
        &mut self,
        cpu: usize,
        bytes: &[u8],
    ) -> Result<(), WireError> {
        let (begun_ns, state) = (self.begun_ns, &mut self.cpus[cpu]);
        match Delivered::split_header(bytes)? {
            Delivered::Nested(record) => {
                append_task_names_and_records_since_begin(&mut state.nested, record, begun_ns)
            }
            Delivered::CpuBuffer(generation, records) => {
                let taken = state.bytes_taken_from_generation(generation);
                state.next = generation + 1;
                state.taken = 0;
                let new = records.get(taken..).unwrap_or_default();
                append_task_names_and_records_since_begin(&mut self.waiting, new, begun_ns)?;
                self.waiting.append(&mut state.nested);
                Ok(())
            }
        }
    }

    /// Takes the records of a CPU's unfinished buffer, once all earlier buffers were delivered. Does nothing if this
    /// buffer was delivered too.
    pub(crate) fn take_unfinished_buffer(
        &mut self,
        cpu: usize,
        generation: u64,
        records: &[u8],
    ) -> Result<(), WireError> {
        let state = &mut self.cpus[cpu];
        if generation < state.next {
            return Ok(());
        }
        let taken = state.bytes_taken_from_generation(generation);
        let new = records.get(taken..).unwrap_or_default();
        state.next = generation;
        state.taken = taken + new.len();
        append_task_names_and_records_since_begin(&mut self.waiting, new, self.begun_ns)
    }

    /// Whether a CPU's buffer has records that were not taken.
    pub(crate) fn has_new_records(&self, cpu: usize, buffer: &CpuBuffer) -> bool {
        let taken = self.cpus[cpu].bytes_taken_from_generation(buffer.generation());
        buffer.data_words_in_use() * size_of::<u64>() > taken
    }

    /// Lets nested records wait no longer, at the end of the recording.
    pub(crate) fn stop_waiting_for_nested(&mut self) {
        for cpu in &mut self.cpus {
            self.waiting.append(&mut cpu.nested);
        }
    }

    /// Takes the waiting records until `last_ns`, in order of time.
    pub(crate) fn take_records_until(&mut self, last_ns: u64) -> Vec<Record> {
        // A stable sort keeps a CPU's records with equal times in the order of writing.
        self.waiting.sort_by_key(|record| record.time_ns);
        let settled = self
            .waiting
            .partition_point(|record| record.time_ns <= last_ns);
        let later = self.waiting.split_off(settled);
        std::mem::replace(&mut self.waiting, later)
    }
}

/// Decodes the records in `bytes`, and appends those since `begun_ns`. Earlier names stay, since the kernel never sends
/// a name again.
fn append_task_names_and_records_since_begin(
    records: &mut Vec<Record>,
    bytes: &[u8],
    begun_ns: u64,
) -> Result<(), WireError> {
    for decoded in wire::decode_records(bytes) {
        let record = decoded?;
        let names = matches!(record.kind, wire::RecordKind::TaskName { .. });
        if names || record.time_ns >= begun_ns {
            records.push(record);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record with an irrelevant kind; `word` identifies the record.
    fn frequency(time_ns: u64, cpu: u16, word: u32) -> Vec<u8> {
        let mut bytes = time_ns.to_ne_bytes().to_vec();
        bytes.extend(8_u16.to_ne_bytes());
        bytes.extend(cpu.to_ne_bytes());
        bytes.extend(word.to_ne_bytes());
        bytes
    }

    fn buffer(generation: u64, records: &[Vec<u8>]) -> Vec<u8> {
        [generation.to_ne_bytes().to_vec(), records.concat()].concat()
    }

    fn nested(record: Vec<u8>) -> Vec<u8> {
        buffer(u64::MAX, &[record])
    }

    fn times(records: &[Record]) -> Vec<(u64, u16)> {
        records.iter().map(|r| (r.time_ns, r.cpu)).collect()
    }

    fn words(records: &[Record]) -> Vec<u32> {
        records.iter().map(frequency_word).collect()
    }

    fn frequency_word(record: &Record) -> u32 {
        match record.kind {
            wire::RecordKind::Frequency { khz } => khz,
            other => panic!("{other:?}"),
        }
    }

    /// Whether the first buffer of CPU 0 would have something new with so many records.
    fn is_new(queue: &RecordQueue, records: u32) -> bool {
        queue.has_new_records(0, &CpuBuffer::with_words(0, records * 2))
    }

    #[test]
    fn records_of_all_cpus_come_in_the_order_of_time() {
        let mut queue = RecordQueue::new(2, 10);
        let first = [frequency(10, 0, 1), frequency(30, 0, 1)];
        queue.take_delivered_buffer(0, &buffer(0, &first)).unwrap();
        let second = [9, 20, 40].map(|time| frequency(time, 1, 1));
        queue.take_delivered_buffer(1, &buffer(0, &second)).unwrap();
        assert_eq!(
            times(&queue.take_records_until(30)),
            [(10, 0), (20, 1), (30, 0)]
        );
        assert_eq!(times(&queue.take_records_until(u64::MAX)), [(40, 1)]);
    }

    #[test]
    fn names_from_before_the_beginning_stay() {
        let mut name = 5_u64.to_ne_bytes().to_vec();
        // `WP_TASK_NAME`.
        name.extend(27_u16.to_ne_bytes());
        name.extend(0_u16.to_ne_bytes());
        name.extend(77_u32.to_ne_bytes());
        name.extend(*b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let mut queue = RecordQueue::new(1, 10);
        let records = [frequency(4, 0, 1), name, frequency(12, 0, 1)];
        queue
            .take_delivered_buffer(0, &buffer(0, &records))
            .unwrap();
        assert_eq!(times(&queue.take_records_until(20)), [(5, 0), (12, 0)]);
    }

    #[test]
    fn a_nested_record_waits_for_those_before_it() {
        let mut queue = RecordQueue::new(2, 0);
        queue
            .take_delivered_buffer(0, &nested(frequency(50, 0, 1)))
            .unwrap();
        queue
            .take_delivered_buffer(1, &nested(frequency(60, 1, 1)))
            .unwrap();
        queue.take_delivered_buffer(1, &buffer(0, &[])).unwrap();
        assert_eq!(times(&queue.take_records_until(100)), [(60, 1)]);
        // Interrupted at 50, on a coarse clock.
        let interrupted = [frequency(40, 0, 0), frequency(50, 0, 2)];
        queue
            .take_delivered_buffer(0, &buffer(0, &interrupted))
            .unwrap();
        let records = queue.take_records_until(100);
        assert_eq!(times(&records), [(40, 0), (50, 0), (50, 0)]);
        assert_eq!(words(&records), [0, 2, 1]);
        // When all is over, it has waited for long enough.
        queue
            .take_delivered_buffer(0, &nested(frequency(70, 0, 1)))
            .unwrap();
        assert_eq!(times(&queue.take_records_until(100)), []);
        queue.stop_waiting_for_nested();
        assert_eq!(times(&queue.take_records_until(100)), [(70, 0)]);
    }

    #[test]
    fn what_was_taken_before_it_was_handed_over_is_taken_once() {
        let mut queue = RecordQueue::new(1, 0);
        let records = [1, 2, 3].map(|word| frequency(word.into(), 0, word));
        assert!(is_new(&queue, 1) && !is_new(&queue, 0));
        queue.take_unfinished_buffer(0, 0, &records[0]).unwrap();
        assert!(is_new(&queue, 2) && !is_new(&queue, 1));
        queue
            .take_unfinished_buffer(0, 0, &records[..2].concat())
            .unwrap();
        queue
            .take_delivered_buffer(0, &buffer(0, &records))
            .unwrap();
        // Looked at before, and taken too late.
        queue
            .take_unfinished_buffer(0, 0, &records[..2].concat())
            .unwrap();
        // The second buffer found no room in the buffer.
        queue
            .take_unfinished_buffer(0, 2, &frequency(5, 0, 5))
            .unwrap();
        queue
            .take_delivered_buffer(0, &buffer(2, &[frequency(5, 0, 5), frequency(6, 0, 6)]))
            .unwrap();
        assert_eq!(words(&queue.take_records_until(9)), [1, 2, 3, 5, 6]);
    }

    #[test]
    fn half_a_record_is_an_error() {
        let mut queue = RecordQueue::new(1, 0);
        let half = frequency(1, 0, 1)[..12].to_vec();
        assert!(queue.take_delivered_buffer(0, &buffer(0, &[half])).is_err());
        assert!(queue.take_delivered_buffer(0, &[1, 2, 3]).is_err());
    }

    proptest! {
        /// However buffers are looked at and handed over, and however late, each CPU's records come in its order, and
        /// none is missing or there twice.
        #[test]
        fn each_cpu_keeps_its_order(
            cpus in proptest::collection::vec(proptest::collection::vec((1..4_u64, 0..4_u8, 0..3_u8, any::<bool>()), 0..30), 3),
            take_every in 1..9_usize,
        ) {
            enum Input {
                Delivered(Vec<u8>),
                CpuBuffer(u64, Vec<u8>),
            }
            // Random activity per CPU: events, some nested in the next unnested event, some at the end of a buffer;
            // reads in between.
            let mut samples = Vec::new();
            for (cpu, events) in cpus.iter().enumerate() {
                let (mut time, mut generation, mut records, mut inside) = (0, 0, Vec::new(), false);
                for (word, &(step, is_nested, ends, look)) in (0..).zip(events) {
                    time += step;
                    let record = frequency(time, cpu as u16, word);
                    if is_nested == 0 {
                        samples.push((time, cpu, Input::Delivered(nested(record))));
                        inside = true;
                        continue;
                    }
                    records.push(record);
                    if ends == 0 || inside {
                        samples.push((time, cpu, Input::Delivered(buffer(generation, &records))));
                        records.clear();
                        generation += 1;
                        inside = false;
                    } else if look {
                        samples.push((time, cpu, Input::CpuBuffer(generation, records.concat())));
                    }
                }
                samples.push((u64::MAX, cpu, Input::CpuBuffer(generation, records.concat())));
            }
            samples.sort_by_key(|&(time, ..)| time);

            let mut queue = RecordQueue::new(3, 0);
            let mut seen = Vec::new();
            for (index, (time, cpu, taken)) in samples.iter().enumerate() {
                match taken {
                    Input::Delivered(bytes) => queue.take_delivered_buffer(*cpu, bytes),
                    Input::CpuBuffer(generation, bytes) => queue.take_unfinished_buffer(*cpu, *generation, bytes),
                }
                .unwrap();
                if index % take_every == 0 {
                    seen.extend(queue.take_records_until(time.saturating_sub(120)));
                }
            }
            queue.stop_waiting_for_nested();
            seen.extend(queue.take_records_until(u64::MAX));
            for (cpu, events) in cpus.iter().enumerate() {
                let own: Vec<Record> = seen.iter().filter(|r| usize::from(r.cpu) == cpu).copied().collect();
                let all: Vec<u32> = (0..).take(events.len()).collect();
                prop_assert_eq!(words(&own), all);
            }
        }
    }
}
