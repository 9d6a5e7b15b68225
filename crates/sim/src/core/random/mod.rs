//! Random numbers in independent streams, one per purpose.
//!
//! Two policies compared with the same seed see the same drive and the same background (common random numbers): no
//! policy's decision draws from any stream.

mod exponential;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;
use wakepath_workloads::fio::{Draw, IoSizes};

use self::exponential::exp;
use crate::core::basics::Direction;

/// A log-normal distribution of a drive's or CPU's times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceTime {
    /// In ns.
    median: f64,
    sigma: f64,
}

impl ServiceTime {
    /// A distribution with this mean in ns, and this standard deviation over mean.
    pub(crate) fn new(mean: f64, spread: f64) -> Self {
        let variance = (1.0 + spread * spread).ln();
        Self {
            median: mean * (-variance / 2.0).exp(),
            sigma: variance.sqrt(),
        }
    }

    /// A distribution with this median in ns, and this standard deviation over mean.
    pub(crate) fn with_median(median: f64, spread: f64) -> Self {
        Self {
            median,
            ..Self::new(median, spread)
        }
    }

    fn sample_ns(&self, stream: &mut Pcg64Mcg) -> u64 {
        self.ns_at_ratio(self.sample_ratio_to_median(stream))
    }

    /// Draws a random time, as a ratio to the median.
    #[inline(always)]
    fn sample_ratio_to_median(&self, stream: &mut Pcg64Mcg) -> f64 {
        let normal: f64 = StandardNormal.sample(stream);
        exp(normal * self.sigma)
    }

    /// The time in ns at a ratio to the median, rounded up.
    #[inline(always)]
    fn ns_at_ratio(&self, ratio: f64) -> u64 {
        (self.median * ratio) as u64 + 1
    }
}

/// Random times with one spread, drawn many at once, and handed out in stream order.
///
/// Drawing a time is a long chain of dependent instructions, a tenth of a request's cost. Several are drawn at once,
/// so that the processor overlaps the chains.
#[derive(Debug)]
struct Drawn {
    stream: Pcg64Mcg,
    /// The spread that all times of this stream share; `None` before the first draw.
    sigma: Option<f64>,
    /// Drawn times as ratios to their median; those from `next` on are unused.
    ratios: [f64; AT_A_TIME],
    next: usize,
}

/// Number of times that are drawn together.
const AT_A_TIME: usize = 64;

impl Drawn {
    fn new(stream: Pcg64Mcg) -> Self {
        Self {
            stream,
            sigma: None,
            ratios: [0.0; AT_A_TIME],
            next: AT_A_TIME,
        }
    }

    /// The next random time in ns; all distributions asked for must have the same spread.
    #[inline(always)]
    fn next_time(&mut self, time: &ServiceTime) -> u64 {
        if self.next == AT_A_TIME {
            self.refill_ratios(time);
        }
        debug_assert_eq!(self.sigma, Some(time.sigma), "times of another spread");
        let ratio = self.ratios[self.next % AT_A_TIME];
        self.next += 1;
        time.ns_at_ratio(ratio)
    }

    #[inline(never)]
    fn refill_ratios(&mut self, time: &ServiceTime) {
        self.next = 0;
        self.sigma = self.sigma.or(Some(time.sigma));
        for ratio in &mut self.ratios {
            *ratio = time.sample_ratio_to_median(&mut self.stream);
        }
    }
}

/// Random stream number `number` for a seed: distinct seeds and numbers give distinct states, far apart.
fn seeded_stream(seed: u64, number: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

#[derive(Debug)]
pub(crate) struct Streams {
    direction: Pcg64Mcg,
    service: Drawn,
    offset: Pcg64Mcg,
    completion: Pcg64Mcg,
    start: Pcg64Mcg,
    size: Pcg64Mcg,
    interval: Pcg64Mcg,
    unit: Pcg64Mcg,
    look: Pcg64Mcg,
    slow: Pcg64Mcg,
    /// For a server's arrivals, and all that is random about a request.
    server: Pcg64Mcg,
    /// By CPU, the stream for idle exit times; empty if every exit takes its mean time.
    exit: Vec<Pcg64Mcg>,
    /// By CPU, the stream for times that the host takes; empty without such a host.
    stolen: Vec<Pcg64Mcg>,
    /// Streams for background arrivals, by CPU and source.
    background: Vec<Pcg64Mcg>,
    sources: usize,
}

impl Streams {
    /// Draws how much later than a request's end the player's next look at the clock comes, with looks every `interval` ns.
    pub(crate) fn draw_clock_look_delay(&mut self, interval: u64) -> u64 {
        if interval == 0 {
            return 0;
        }
        self.look.random_range(0..=interval)
    }

    pub(crate) fn new(
        seed: u64,
        cpus: usize,
        sources: usize,
        exits_vary: bool,
        is_stolen_from: bool,
    ) -> Self {
        Self {
            direction: seeded_stream(seed, 1),
            service: Drawn::new(seeded_stream(seed, 2)),
            offset: seeded_stream(seed, 3),
            completion: seeded_stream(seed, 4),
            start: seeded_stream(seed, 5),
            size: seeded_stream(seed, 6),
            interval: seeded_stream(seed, 7),
            unit: seeded_stream(seed, 8),
            look: seeded_stream(seed, 9),
            slow: seeded_stream(seed, 10),
            server: seeded_stream(seed, 11),
            exit: (0..if exits_vary { cpus } else { 0 })
                .map(|cpu| seeded_stream(seed, (1 << 32) + cpu as u64))
                .collect(),
            stolen: (0..if is_stolen_from { cpus } else { 0 })
                .map(|cpu| seeded_stream(seed, (2 << 32) + cpu as u64))
                .collect(),
            background: (0..cpus * sources)
                .map(|i| seeded_stream(seed, 16 + i as u64))
                .collect(),
            sources,
        }
    }

    /// Draws a request's direction, if `read_percent` out of 100 requests are reads.
    #[inline]
    pub(crate) fn draw_direction(&mut self, read_percent: u8) -> Direction {
        let read = match read_percent {
            0 => false,
            100.. => true,
            share => self.direction.random_range(0..100) < share,
        };
        if read {
            Direction::Read
        } else {
            Direction::Write
        }
    }

    /// Draws a drive's service time in ns.
    #[inline(always)]
    pub(crate) fn draw_service_time(&mut self, time: &ServiceTime) -> u64 {
        self.service.next_time(time)
    }

    /// Draws whether a request is one of the slow ones, one in `one_in`. Drives without slow requests draw nothing.
    pub(crate) fn draw_is_slow_request(&mut self, one_in: u32) -> bool {
        self.slow.random_range(0..one_in) == 0
    }

    /// Draws how long after its job group a process starts, in ns.
    pub(crate) fn draw_start_delay(&mut self, [from, to]: [u64; 2]) -> u64 {
        if from < to {
            self.start.random_range(from..=to)
        } else {
            from
        }
    }

    /// Draws the time in ns to the next event of a Poisson process with this mean in us: whole us, as in fio.
    pub(crate) fn draw_poisson_interval(&mut self, mean_us: u64) -> u64 {
        let times_mean: f64 = Exp1.sample(&mut self.interval);
        ((mean_us as f64 * times_mean) as u64).saturating_mul(1000)
    }

    /// Draws an exponential time or amount of work of a server, as a ratio to the mean.
    pub(crate) fn draw_server_ratio(&mut self) -> f64 {
        Exp1.sample(&mut self.server)
    }

    /// Draws a number of a server from 0 to 1, 1 excluded.
    pub(crate) fn draw_server_share(&mut self) -> f64 {
        self.server.random()
    }

    /// Draws one of `choices` for a server.
    pub(crate) fn draw_server_choice(&mut self, choices: usize) -> usize {
        self.server.random_range(0..choices.max(1))
    }

    /// Draws a block number below `blocks`.
    pub(crate) fn draw_block_number(&mut self, blocks: u64) -> u64 {
        self.offset.random_range(0..blocks.max(1))
    }

    /// Draws the drive's unit that holds a read's data, below `units`.
    pub(crate) fn draw_drive_unit(&mut self, units: usize) -> usize {
        self.unit.random_range(0..units.max(1))
    }

    /// Draws a request's size in bytes.
    ///
    /// As fio (`get_next_buflen()`): a range is drawn with the highest size added on, rounded down to a multiple, and
    /// sizes beyond the range become the highest size.
    pub(crate) fn draw_request_size(&mut self, sizes: &IoSizes) -> u64 {
        match sizes {
            IoSizes::Range { least, most, step } => {
                let size = least + self.size.random_range(0..(*most).max(1));
                (size / step * step).min(*most)
            }
            IoSizes::Split(parts) => {
                let share = self.size.random_range(0..100);
                let part = parts.iter().find(|(_, up_to)| share < *up_to);
                part.or(parts.last()).map_or(1, |part| part.0)
            }
        }
    }

    /// Draws whether a completion goes to another CPU than the queue's own, whose share is `same_cpu_share`. If so, returns a
    /// number below `others`.
    pub(crate) fn draw_other_completion_cpu(
        &mut self,
        same_cpu_share: f64,
        others: usize,
    ) -> Option<usize> {
        let same = self.completion.random::<f64>() < same_cpu_share;
        // Drawn in any case, so that the next draw does not depend on the share.
        let other = self.completion.random_range(0..others.max(1));
        (!same && others > 0).then_some(other)
    }

    /// Draws how long a CPU takes to leave an idle state this time, in ns. Policies decide how often a CPU leaves a state;
    /// nothing but these times uses the CPU's stream.
    pub(crate) fn draw_idle_exit_time(&mut self, cpu: usize, time: &ServiceTime) -> u64 {
        time.sample_ns(&mut self.exit[cpu])
    }

    /// Draws an exponential time in ns for a CPU that a host takes: until the host takes it, or gives it back.
    pub(crate) fn draw_time_of_host(&mut self, cpu: usize, mean: f64) -> u64 {
        /// Some thirty years, after which no run goes on.
        const LONGEST: f64 = 1e18;
        let unit: f64 = Exp1.sample(&mut self.stolen[cpu]);
        (unit * mean).round().clamp(1.0, LONGEST) as u64
    }

    /// Draws the time in ns until a background source's next arrival: exponential with this mean.
    pub(crate) fn draw_background_interval(&mut self, cpu: usize, source: usize, mean: f64) -> u64 {
        let unit: f64 = Exp1.sample(&mut self.background[cpu * self.sources + source]);
        (unit * mean).round().max(1.0) as u64
    }
}
impl Draw for Streams {
    fn draw_below(&mut self, n: u64) -> u64 {
        self.draw_block_number(n)
    }

    fn draw_size(&mut self, sizes: &IoSizes) -> u64 {
        self.draw_request_size(sizes)
    }
}
