//! The idle periods of a recording, known before its tasks are followed: a recording tells of a period at its end only.

use crate::recording::{EventKind, IdlePeriod, Reader, RecordingError};

/// Most idle periods that are kept; tasks are followed as far as these reach.
const MAX_SPANS: usize = 1 << 22;

/// Highest number of CPUs.
const MAX_CPUS: usize = 1 << 16;

/// An idle period of a CPU. Times in ns on the recording's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleSpan {
    pub(super) start: u64,
    pub(super) end: u64,
    /// When the next timer was to expire, as the governor was told.
    pub(super) next_timer: Option<u64>,
    pub(super) state: u8,
}

/// Idle periods by CPU, and the part of the recording without losses.
#[derive(Clone, Debug, Default)]
pub(super) struct IdleSpans {
    by_cpu: Vec<Vec<IdleSpan>>,
    /// Start and end in ns of the longest part of the recording without lost events.
    pub(super) window: (u64, u64),
    pub(super) has_losses: bool,
}

/// Reads a recording that lasts from the first to the second time in ns.
pub(super) fn collect_idle_spans(
    reader: &mut Reader,
    extent: (u64, u64),
) -> Result<IdleSpans, RecordingError> {
    let mut spans = IdleSpans::default();
    let mut count = 0;
    let mut breaks = vec![extent.0];
    let mut end = extent.1;
    reader.for_each_event(|event| {
        match &event.kind {
            EventKind::Lost { .. } => breaks.push(event.time.0),
            EventKind::Idle(period) if count < MAX_SPANS => {
                spans.add_period_ending_at(event.time.0, event.cpu as usize, period);
                count += 1;
                if count == MAX_SPANS {
                    end = end.min(event.time.0);
                }
            }
            _ => {}
        }
        Ok::<(), RecordingError>(())
    })?;
    spans.has_losses = breaks.len() > 1;
    breaks.push(end);
    breaks.sort_unstable();
    let parts = breaks
        .windows(2)
        .map(|pair| (pair[0].min(end), pair[1].min(end)));
    let longest = parts
        .rev()
        .max_by_key(|(start, end)| end.saturating_sub(*start));
    spans.window = longest.unwrap_or(extent);
    for cpu in &mut spans.by_cpu {
        cpu.sort_by_key(|span| span.start);
    }
    Ok(spans)
}

impl IdleSpans {
    fn add_period_ending_at(&mut self, end: u64, cpu: usize, period: &IdlePeriod) {
        if cpu >= MAX_CPUS || period.duration.0 == 0 {
            return;
        }
        if self.by_cpu.len() <= cpu {
            self.by_cpu.resize(cpu + 1, Vec::new());
        }
        let start = end.saturating_sub(period.duration.0);
        let asked = start.saturating_sub(period.inputs.select_lead.unwrap_or(0).into());
        let sleep_length = period.inputs.sleep_length;
        let length = sleep_length.and_then(|length| u64::try_from(length).ok());
        self.by_cpu[cpu].push(IdleSpan {
            start,
            end,
            next_timer: length.map(|length| asked.saturating_add(length)),
            state: period.state,
        });
    }

    /// Idle periods of a CPU in order of their starts.
    pub(super) fn spans_of_cpu(&self, cpu: u32) -> &[IdleSpan] {
        self.by_cpu.get(cpu as usize).map_or(&[], Vec::as_slice)
    }

    /// The idle period of a CPU that began last at or before `time`.
    pub(super) fn last_span_before(&self, cpu: u32, time: u64) -> Option<&IdleSpan> {
        let spans = self.spans_of_cpu(cpu);
        let after = spans.partition_point(|span| span.start <= time);
        spans.get(after.checked_sub(1)?)
    }
}
