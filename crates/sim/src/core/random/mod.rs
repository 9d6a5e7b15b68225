//! Random numbers in independent streams, one per purpose.
//!
//! Two policies compared with the same seed see the same drive and the same background (common random numbers): no
//! policy's decision draws from any stream.

mod exponential;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;
use wakepath_workloads::fio::{Draw, Sizes};

use self::exponential::exp;
use crate::core::basics::Direction;

/// A log-normal distribution of times.
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

    fn sample(&self, stream: &mut Pcg64Mcg) -> u64 {
        self.at(self.ratio(stream))
    }

    /// A time over the median.
    #[inline(always)]
    fn ratio(&self, stream: &mut Pcg64Mcg) -> f64 {
        let normal: f64 = StandardNormal.sample(stream);
        exp(normal * self.sigma)
    }

    /// In ns, rounded up.
    #[inline(always)]
    fn at(&self, ratio: f64) -> u64 {
        (self.median * ratio) as u64 + 1
    }
}

/// Times with one spread, in stream order.
///
/// Drawing a time is a long chain of dependent instructions, a tenth of a request's cost. Several are drawn at once,
/// so that the processor overlaps the chains.
#[derive(Debug)]
struct Drawn {
    stream: Pcg64Mcg,
    /// The spread for all times, after the first draw.
    sigma: Option<f64>,
    /// Times over their median, from `next` on.
    ratios: [f64; AT_A_TIME],
    next: usize,
}

/// How many times are drawn together.
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

    /// The next time; all times asked for have the same spread.
    #[inline(always)]
    fn sample(&mut self, time: &ServiceTime) -> u64 {
        if self.next == AT_A_TIME {
            self.draw(time);
        }
        debug_assert_eq!(self.sigma, Some(time.sigma), "times of another spread");
        let ratio = self.ratios[self.next % AT_A_TIME];
        self.next += 1;
        time.at(ratio)
    }

    #[inline(never)]
    fn draw(&mut self, time: &ServiceTime) {
        self.next = 0;
        self.sigma = self.sigma.or(Some(time.sigma));
        for ratio in &mut self.ratios {
            *ratio = time.ratio(&mut self.stream);
        }
    }
}

/// A stream for a seed: distinct states for distinct seeds and numbers, far apart.
fn stream(seed: u64, number: u64) -> Pcg64Mcg {
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
    /// By CPU; empty if every exit from an idle state takes its mean time.
    exit: Vec<Pcg64Mcg>,
    /// By CPU and source.
    background: Vec<Pcg64Mcg>,
    sources: usize,
}

impl Streams {
    /// By how much a look at the clock every `look` ns misses a request's end.
    pub(crate) fn missed(&mut self, look: u64) -> u64 {
        if look == 0 {
            return 0;
        }
        self.look.random_range(0..=look)
    }

    pub(crate) fn new(seed: u64, cpus: usize, sources: usize, exits_vary: bool) -> Self {
        Self {
            direction: stream(seed, 1),
            service: Drawn::new(stream(seed, 2)),
            offset: stream(seed, 3),
            completion: stream(seed, 4),
            start: stream(seed, 5),
            size: stream(seed, 6),
            interval: stream(seed, 7),
            unit: stream(seed, 8),
            look: stream(seed, 9),
            exit: (0..if exits_vary { cpus } else { 0 })
                .map(|cpu| stream(seed, (1 << 32) + cpu as u64))
                .collect(),
            background: (0..cpus * sources)
                .map(|i| stream(seed, 16 + i as u64))
                .collect(),
            sources,
        }
    }

    /// A request's direction when `read_percent` out of 100 are reads.
    #[inline]
    pub(crate) fn direction(&mut self, read_percent: u8) -> Direction {
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

    /// A service time in ns.
    #[inline(always)]
    pub(crate) fn service(&mut self, time: &ServiceTime) -> u64 {
        self.service.sample(time)
    }

    /// How long after its group a process starts, in ns.
    pub(crate) fn start_delay(&mut self, [from, to]: [u64; 2]) -> u64 {
        if from < to {
            self.start.random_range(from..=to)
        } else {
            from
        }
    }

    /// The time to the next event in a Poisson process with this mean in us, in ns: whole us, as in fio.
    pub(crate) fn interval(&mut self, mean_us: u64) -> u64 {
        let times_mean: f64 = Exp1.sample(&mut self.interval);
        ((mean_us as f64 * times_mean) as u64).saturating_mul(1000)
    }

    /// A random block's number, below `blocks`.
    pub(crate) fn block(&mut self, blocks: u64) -> u64 {
        self.offset.random_range(0..blocks.max(1))
    }

    /// The unit with a read's data, below `units`.
    pub(crate) fn unit(&mut self, units: usize) -> usize {
        self.unit.random_range(0..units.max(1))
    }

    /// A request's size in bytes.
    ///
    /// As fio (`get_next_buflen()`): a range is drawn with the highest size added on, rounded down to a multiple, and
    /// sizes beyond the range become the highest size.
    pub(crate) fn size(&mut self, sizes: &Sizes) -> u64 {
        match sizes {
            Sizes::Range { least, most, step } => {
                let size = least + self.size.random_range(0..(*most).max(1));
                (size / step * step).min(*most)
            }
            Sizes::Split(parts) => {
                let share = self.size.random_range(0..100);
                let part = parts.iter().find(|(_, up_to)| share < *up_to);
                part.or(parts.last()).map_or(1, |part| part.0)
            }
        }
    }

    /// Whether a completion comes to another CPU than the queue's own; `share` is the share that does not. Then a
    /// number below `others`.
    pub(crate) fn elsewhere(&mut self, same_cpu_share: f64, others: usize) -> Option<usize> {
        let same = self.completion.random::<f64>() < same_cpu_share;
        // Drawn in any case, so that the next draw does not depend on the share.
        let other = self.completion.random_range(0..others.max(1));
        (!same && others > 0).then_some(other)
    }

    /// How long a CPU takes to leave an idle state this time, in ns. Policies decide how often a CPU leaves one;
    /// nothing but these times uses the CPU's stream.
    pub(crate) fn exit(&mut self, cpu: usize, time: &ServiceTime) -> u64 {
        time.sample(&mut self.exit[cpu])
    }

    /// Time in ns until a background source's next arrival: exponential with this mean.
    pub(crate) fn background(&mut self, cpu: usize, source: usize, mean: f64) -> u64 {
        let unit: f64 = Exp1.sample(&mut self.background[cpu * self.sources + source]);
        (unit * mean).round().max(1.0) as u64
    }
}
impl Draw for Streams {
    fn draw_below(&mut self, n: u64) -> u64 {
        self.block(n)
    }

    fn draw_size(&mut self, sizes: &Sizes) -> u64 {
        Self::size(self, sizes)
    }
}
