//! Reads after short pauses of a program. Between kernel and drive something may rest within microseconds.
//!
//! A thread of the host serves a virtual machine's disk, and sleeps between requests. The longer the pause, the deeper sleeps the
//! thread's CPU. Reads without a pause are the zero. Pauses of all lengths come in turn, and a drift meets all alike.
//! The reading thread spins in pauses, and CPUs are held awake in reads. So the growth has neither idle exits nor cold caches.

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use wakepath_system::Root;
use wakepath_units::Nanoseconds;

use super::load::{LoadTarget, random_block, transfer};
use super::other_requests::BegunRequests;
use super::paused_reads::PausedDrive;
use super::plan::AccessDirection;
use super::sleep::GapLatency;
use crate::pin::pin_to;
use crate::summary::{Estimate, LatencySummary, drop_slow_samples};
use crate::test_file::{ALIGNMENT, AlignedBuffer, TestFile};
use crate::{ExperimentControl, MeasureError};

/// Pauses in us.
const PAUSES: [u64; 11] = [0, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_240];
/// A pause that became longer by more than this share and time was interrupted, and its read does not count.
const MOST_LONGER: (f64, Duration) = (0.25, Duration::from_micros(5));
/// Fewest reads after each pause that tell a rest.
const FEWEST: u64 = 20;
/// Least growth from a rest to the next: a share of reads without a pause, and a time in ns. Cold code of the driver costs less.
const LEAST_GROWTH: (f64, f64) = (0.1, 3_000.0);

/// Reads after short pauses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShortPauses {
    /// Latencies without very slow reads, shortest pause first; the first of them is without any.
    pub gaps: Vec<GapLatency>,
    /// Pauses with requests of others, whose reads do not count.
    pub disturbed: u64,
    /// Rests, the shallowest first.
    pub rests: Vec<ShortRest>,
}

/// A rest of the drive, or of a host before it, that begins within milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShortRest {
    /// The longest pause with faster reads.
    pub awake_after: Nanoseconds,
    /// The shortest pause with slower reads.
    pub asleep_after: Nanoseconds,
    /// Median latency beyond reads without a pause, in ns. Other work delays some reads after spun pauses, and means with them.
    pub delay: Estimate,
    /// Reads after such pauses.
    pub n: u64,
}

/// Reads by one CPU: for each planned pause the real pauses and the latencies, in ns.
#[derive(Clone, Debug, Default)]
struct PausedSamples {
    by_pause: [Vec<(u64, u64)>; PAUSES.len()],
    disturbed: u64,
}

/// The drive of an experiment.
pub(super) struct ShortPauseTarget<'a> {
    pub(super) root: &'a Root,
    pub(super) file: &'a TestFile,
    /// Disks that serve the file's requests; empty: not known.
    pub(super) disks: &'a [String],
    pub(super) control: ExperimentControl<'a>,
}

/// Reads after short pauses on one CPU after the other, for equal times.
///
/// # Errors
/// A read fails.
pub(super) fn measure_short_pauses(
    target: &ShortPauseTarget<'_>,
    cpus: &[usize],
    time: Duration,
) -> Result<ShortPauses, MeasureError> {
    let joined = std::thread::scope(|scope| {
        // Its own thread: the binding to a CPU ends with it.
        let reader = scope.spawn(|| read_on_cpus(target, cpus, time));
        reader.join()
    });
    let by_cpu =
        joined.map_err(|_| MeasureError::Impossible("the reading thread failed".to_owned()))??;
    Ok(ShortPauses::new(&by_cpu))
}

fn read_on_cpus(
    target: &ShortPauseTarget<'_>,
    cpus: &[usize],
    time: Duration,
) -> Result<Vec<PausedSamples>, MeasureError> {
    let mut drive = ShortlyPausedFile {
        target,
        began: Instant::now(),
        random: Pcg64Mcg::seed_from_u64(7),
        buffer: AlignedBuffer::new(ALIGNMENT),
    };
    let mut all = Vec::new();
    for cpu in cpus {
        // Where a CPU goes away meanwhile, the thread runs on another.
        drop(pin_to(*cpu));
        all.push(read_after_short_pauses(
            &mut drive,
            time / cpus.len() as u32,
        )?);
    }
    Ok(all)
}

/// Reads after all pauses in turn for a time, and at least once after each.
fn read_after_short_pauses(
    drive: &mut impl PausedDrive,
    time: Duration,
) -> Result<PausedSamples, MeasureError> {
    let end = drive.now() + time;
    let mut samples = PausedSamples::default();
    loop {
        for (place, pause_us) in PAUSES.into_iter().enumerate() {
            if drive.is_cancelled() {
                return Ok(samples);
            }
            let before = drive.count_requests();
            // The idle time of the drive begins with a read of this program.
            drive.read()?;
            let began = drive.now();
            let planned = Duration::from_micros(pause_us);
            if pause_us > 0 {
                drive.wait(planned);
            }
            let pause = drive.now().saturating_sub(began);
            let latency = drive.read()?;
            let counted = before.zip(drive.count_requests());
            let others =
                counted.and_then(|(before, after)| after.requests_of_others_since(before, 2));
            if others.is_some_and(|(requests, _)| requests > 0) {
                samples.disturbed += 1;
            } else if pause <= planned.mul_f64(1.0 + MOST_LONGER.0) + MOST_LONGER.1 {
                samples.by_pause[place].push((pause.as_nanos() as u64, latency));
            }
        }
        if drive.now() >= end {
            return Ok(samples);
        }
    }
}

/// A file that is read after short pauses.
struct ShortlyPausedFile<'a> {
    target: &'a ShortPauseTarget<'a>,
    began: Instant,
    random: Pcg64Mcg,
    buffer: AlignedBuffer,
}

impl PausedDrive for ShortlyPausedFile<'_> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            std::hint::spin_loop();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.target.control.is_cancelled()
    }

    fn count_requests(&self) -> Option<BegunRequests> {
        BegunRequests::count(self.target.root, self.target.disks)
    }

    fn read(&mut self) -> Result<u64, MeasureError> {
        let file = self.target.file;
        let target = LoadTarget {
            file: file.file(),
            bytes: file.bytes(),
        };
        let offset = random_block(&mut self.random, target.bytes);
        let began = Instant::now();
        transfer(target.file, AccessDirection::Read, &mut self.buffer, offset)
            .map_err(|e| file.error("reading it", e))?;
        Ok(began.elapsed().as_nanos() as u64)
    }
}

impl ShortPauses {
    /// Joins the reads of all CPUs. A read's time differs between CPUs, and a rest's delay does not. Reads count relative to reads
    /// without a pause on the same CPU.
    fn new(by_cpu: &[PausedSamples]) -> Self {
        let awake = by_cpu.iter().filter_map(|samples| {
            let latencies: Vec<u64> = samples.by_pause[0].iter().map(|(_, ns)| *ns).collect();
            Some((samples, LatencySummary::new(&latencies)?.median.ns))
        });
        let awake: Vec<(&PausedSamples, f64)> = awake.collect();
        let mean_awake = awake.iter().map(|(_, ns)| ns).sum::<f64>() / awake.len().max(1) as f64;
        let rows = (0..PAUSES.len()).filter_map(|place| {
            let (mut pauses, mut latencies) = (Vec::new(), Vec::new());
            for (samples, own_awake) in &awake {
                let reads = samples.by_pause[place].iter();
                pauses.extend(reads.clone().map(|(pause, _)| *pause));
                let alike =
                    reads.map(|(_, ns)| (*ns as f64 - own_awake + mean_awake).max(0.0) as u64);
                latencies.extend(alike);
            }
            drop_slow_samples(&mut latencies);
            Some(GapLatency {
                gap: Nanoseconds(LatencySummary::new(&pauses)?.median.ns as u64),
                latency: LatencySummary::new(&latencies)?,
            })
        });
        let mut gaps: Vec<GapLatency> = rows.collect();
        // Half of the reads of a busy machine may come late, within bounds.
        gaps.sort_by_key(|row| row.gap);
        Self {
            rests: find_rests(&gaps),
            gaps,
            disturbed: by_cpu.iter().map(|samples| samples.disturbed).sum(),
        }
    }

    /// Delay of a read after a pause, beyond reads without a pause.
    pub(super) fn delay_after(&self, pause: Nanoseconds) -> Estimate {
        let mut begun = self.rests.iter().rev();
        let rest = begun.find(|rest| rest.asleep_after <= pause);
        rest.map_or(Estimate::ZERO, |rest| rest.delay)
    }
}

/// Rests by the growth of the median: by more than the intervals and a least share, after this and all longer pauses. A gradual growth
/// becomes several rests.
fn find_rests(gaps: &[GapLatency]) -> Vec<ShortRest> {
    let Some((awake, _)) = gaps.split_first() else {
        return Vec::new();
    };
    if gaps.iter().any(|row| row.latency.n < FEWEST) {
        return Vec::new();
    }
    let least = (awake.latency.median.ns * LEAST_GROWTH.0).max(LEAST_GROWTH.1);
    let mut begins = Vec::new();
    let mut level = awake.latency.median;
    for (index, row) in gaps.iter().enumerate().skip(1) {
        let longer = &gaps[index..];
        let is_rest = row.latency.median.low > level.high
            && longer
                .iter()
                .all(|row| row.latency.median.ns >= level.ns + least);
        if is_rest {
            begins.push(index);
            level = row.latency.median;
        }
    }
    let ends = begins.iter().skip(1).copied().chain([gaps.len()]);
    let mut rests: Vec<ShortRest> = Vec::new();
    for (begin, end) in begins.iter().copied().zip(ends) {
        let (median, n) = average_of_medians(&gaps[begin..end]);
        let delay = median.minus(awake.latency.median);
        if delay.low > 0.0 && rests.last().is_none_or(|lesser| delay.ns > lesser.delay.ns) {
            rests.push(ShortRest {
                awake_after: gaps[begin - 1].gap,
                asleep_after: gaps[begin].gap,
                delay,
                n,
            });
        }
    }
    rests
}

/// Average of the medians after several pauses, weighted by the number of reads, and the sum of these numbers.
fn average_of_medians(rows: &[GapLatency]) -> (Estimate, u64) {
    let n: u64 = rows.iter().map(|row| row.latency.n).sum();
    let (mut average, mut below, mut above) = (0.0, 0.0_f64, 0.0_f64);
    for LatencySummary {
        n: own,
        median: part,
        ..
    } in rows.iter().map(|row| &row.latency)
    {
        let weight = *own as f64 / n.max(1) as f64;
        average += weight * part.ns;
        below = below.hypot(weight * (part.ns - part.low));
        above = above.hypot(weight * (part.high - part.ns));
    }
    let estimate = Estimate {
        ns: average,
        low: average - below,
        high: average + above,
    };
    (estimate, n)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    /// A drive in simulated time, with the latency of a read by the idle time before, both in ns.
    struct ModelledDrive {
        latency: fn(u64) -> u64,
        now: u64,
        last_end: u64,
        reads: u64,
        /// Others write so often, in ns.
        others: Option<u64>,
        /// Pauses so far; another program runs for 3 ms in two of three, if any does.
        pauses: u64,
        is_interrupted: bool,
    }

    impl ModelledDrive {
        const fn new(latency: fn(u64) -> u64) -> Self {
            Self {
                latency,
                now: 0,
                last_end: 0,
                reads: 0,
                others: None,
                pauses: 0,
                is_interrupted: false,
            }
        }
    }

    impl PausedDrive for ModelledDrive {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.now)
        }

        fn wait(&mut self, time: Duration) {
            self.pauses += 1;
            let longer = self.is_interrupted && !self.pauses.is_multiple_of(3);
            self.now += time.as_nanos() as u64 + u64::from(longer) * 3 * MS;
        }

        fn is_cancelled(&self) -> bool {
            false
        }

        fn count_requests(&self) -> Option<BegunRequests> {
            let others = self.others.map_or(0, |every| self.now / every);
            Some(BegunRequests::with_counts(self.reads, others))
        }

        fn read(&mut self) -> Result<u64, MeasureError> {
            self.reads += 1;
            // Reads differ by some per cent.
            let latency = (self.latency)(self.now - self.last_end) + self.reads * 7 % 13 * 300;
            self.now += latency;
            self.last_end = self.now;
            Ok(latency)
        }
    }

    /// 70 us, 12 more from 60 us of idle time on, and 400 more from 100 ms on.
    pub(in crate::drive) const fn latency_with_step_and_sleep(idle: u64) -> u64 {
        let step = if idle >= 60 * US { 12 * US } else { 0 };
        let sleep = if idle >= 100 * MS { 400 * US } else { 0 };
        70 * US + step + sleep
    }

    /// A measurement on CPUs with these latencies.
    pub(in crate::drive) fn measured(latencies: &[fn(u64) -> u64]) -> ShortPauses {
        let by_cpu = latencies.iter().map(|latency| {
            let drive = &mut ModelledDrive::new(*latency);
            read_after_short_pauses(drive, Duration::from_secs(1)).unwrap()
        });
        ShortPauses::new(&by_cpu.collect::<Vec<_>>())
    }

    /// Rests as pauses before and after in us, and delays in whole us.
    fn in_us(short: &ShortPauses) -> Vec<[u64; 3]> {
        let rests = short.rests.iter().map(|rest| {
            let delay = (rest.delay.ns / 1e3).round() as u64;
            [rest.awake_after.0 / US, rest.asleep_after.0 / US, delay]
        });
        rests.collect()
    }

    #[test]
    fn a_step_of_microseconds_is_found_between_two_pauses() {
        let short = measured(&[latency_with_step_and_sleep]);
        assert_eq!(in_us(&short), [[40, 80, 12]]);
        assert_eq!(short.disturbed, 0);
        let [before, behind] =
            [50, 100].map(|us| short.delay_after(Nanoseconds::from_micros(us)).ns);
        assert!(before.abs() < 0.5 && behind > 11_000.0);
    }

    #[test]
    fn cpus_whose_reads_take_longer_have_the_same_rest() {
        let short = measured(&[latency_with_step_and_sleep, |idle| {
            latency_with_step_and_sleep(idle) + 25 * US
        }]);
        assert_eq!(in_us(&short), [[40, 80, 12]]);
    }

    #[test]
    fn reads_after_interrupted_pauses_do_not_count() {
        let mut drive = ModelledDrive::new(|idle| {
            let sleep = if idle >= 2 * MS { 30 * US } else { 0 };
            latency_with_step_and_sleep(idle) + sleep
        });
        drive.is_interrupted = true;
        let samples = read_after_short_pauses(&mut drive, Duration::from_secs(4)).unwrap();
        let short = ShortPauses::new(&[samples]);
        assert_eq!(in_us(&short), [[40, 80, 12], [1_280, 2_560, 42]]);
    }

    #[test]
    fn a_gradual_growth_becomes_several_rests() {
        // 5 us for each doubling of the idle time from 100 us on.
        let short = measured(&[|idle| {
            let doublings = (idle as f64 / 1e5).max(1.0).log2();
            42 * US + (doublings * 5e3) as u64
        }]);
        let rests = in_us(&short);
        assert!(rests.len() >= 4, "{rests:?}");
        for row in &short.gaps {
            let truth = (row.gap.0 as f64 / 1e5).max(1.0).log2() * 5e3;
            let told = short.delay_after(row.gap).ns;
            assert!((told - truth).abs() <= 4_200.0, "{truth}: {rests:?}");
        }
    }

    #[test]
    fn what_cold_code_costs_and_what_comes_back_is_no_rest() {
        assert_eq!(measured(&[|_| 70 * US]).rests, []);
        // 4 us of 70, growing with the pause.
        let colder = measured(&[|idle| 70 * US + idle.min(8 * MS) / 2_000]);
        assert_eq!(colder.rests, []);
        // One length of pauses that is slow by chance.
        let once =
            measured(&[|idle| 70 * US + u64::from((300 * US..400 * US).contains(&idle)) * 30 * US]);
        assert_eq!(once.rests, []);
        assert_eq!(ShortPauses::new(&[]), ShortPauses::default());
    }

    #[test]
    fn few_reads_tell_no_rest() {
        let drive = &mut ModelledDrive::new(latency_with_step_and_sleep);
        let few = read_after_short_pauses(drive, Duration::from_millis(100)).unwrap();
        let short = ShortPauses::new(&[few]);
        assert!(short.gaps.len() == PAUSES.len() && short.rests.is_empty());
    }

    #[test]
    fn reads_after_pauses_that_others_disturb_do_not_count() {
        let mut drive = ModelledDrive::new(latency_with_step_and_sleep);
        drive.others = Some(7 * MS);
        let samples = read_after_short_pauses(&mut drive, Duration::from_secs(4)).unwrap();
        // All pauses of 10 ms, and some of the others.
        assert!(samples.by_pause[PAUSES.len() - 1].is_empty());
        assert!(samples.disturbed > 0 && !samples.by_pause[0].is_empty());
        let short = ShortPauses::new(&[samples]);
        assert_eq!(in_us(&short), [[40, 80, 12]]);
    }
}
