//! Random numbers in independent streams, one per purpose.
//!
//! Two policies that are compared with the same seed see the same drive and the same background
//! (common random numbers): no stream is drawn from by anything that a policy decides.

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
    /// With this mean in ns, and this standard deviation over mean.
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

/// Times of one spread in the order in which their stream has them.
///
/// Drawing one is a long chain of dependent instructions, a tenth of the cost of a request. Several are drawn at once, so that
/// the processor overlaps the chains.
#[derive(Debug)]
struct Drawn {
    stream: Pcg64Mcg,
    /// The spread of all times, once some have been drawn.
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

    /// The next time; all that are asked for have the same spread.
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
    /// By how much the end of a request is missed by who looks at the clock every so many ns.
    pub(crate) fn missed(&mut self, look: u64) -> u64 {
        if look == 0 {
            return 0;
        }
        self.look.random_range(0..=look)
    }

    pub(crate) fn new(seed: u64, cpus: usize, sources: usize, exits_vary: bool) -> Self {
        let stream = |number: u64| {
            // Distinct states for distinct (seed, number), far apart.
            Pcg64Mcg::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        };
        Self {
            direction: stream(1),
            service: Drawn::new(stream(2)),
            offset: stream(3),
            completion: stream(4),
            start: stream(5),
            size: stream(6),
            interval: stream(7),
            unit: stream(8),
            look: stream(9),
            exit: (0..if exits_vary { cpus } else { 0 })
                .map(|cpu| stream((1 << 32) + cpu as u64))
                .collect(),
            background: (0..cpus * sources).map(|i| stream(16 + i as u64)).collect(),
            sources,
        }
    }

    /// The direction of a request when `read_percent` of 100 are reads.
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

    /// The time to the next event of a Poisson process with a mean of so many us, in ns: whole us, as in fio.
    pub(crate) fn interval(&mut self, mean_us: u64) -> u64 {
        let times_mean: f64 = Exp1.sample(&mut self.interval);
        ((mean_us as f64 * times_mean) as u64).saturating_mul(1000)
    }

    /// The number of a block of `blocks` at random.
    pub(crate) fn block(&mut self, blocks: u64) -> u64 {
        self.offset.random_range(0..blocks.max(1))
    }

    /// The unit of `units` that a read's data lie on.
    pub(crate) fn unit(&mut self, units: usize) -> usize {
        self.unit.random_range(0..units.max(1))
    }

    /// The size of a request in bytes.
    ///
    /// As fio (`get_next_buflen()`): a range is drawn with its highest size added on, rounded down to a multiple, and
    /// what is beyond the range becomes its highest size.
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

    /// Whether a completion comes to another CPU than its queue's, with the given share of those that
    /// do not; then which one of the `others`.
    pub(crate) fn elsewhere(&mut self, same_cpu_share: f64, others: usize) -> Option<usize> {
        let same = self.completion.random::<f64>() < same_cpu_share;
        // Drawn in any case, so that the next one does not depend on the share.
        let other = self.completion.random_range(0..others.max(1));
        (!same && others > 0).then_some(other)
    }

    /// How long a CPU takes to leave an idle state this time, in ns. How often a CPU leaves one is up
    /// to the policies; nothing but these times comes from its stream.
    pub(crate) fn exit(&mut self, cpu: usize, time: &ServiceTime) -> u64 {
        time.sample(&mut self.exit[cpu])
    }

    /// Time in ns until the next arrival of a background source: exponential with this mean.
    pub(crate) fn background(&mut self, cpu: usize, source: usize, mean: f64) -> u64 {
        let unit: f64 = Exp1.sample(&mut self.background[cpu * self.sources + source]);
        (unit * mean).round().max(1.0) as u64
    }
}
impl Draw for Streams {
    fn below(&mut self, n: u64) -> u64 {
        self.block(n)
    }

    fn size(&mut self, sizes: &Sizes) -> u64 {
        Self::size(self, sizes)
    }
}
