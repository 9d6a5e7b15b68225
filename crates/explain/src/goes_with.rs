//! What goes with a state so closely that nothing else can be compared with it.

use serde::Serialize;

use crate::strata::{Sample, Stratum, keep_comparable_samples};

/// What goes with a state: among requests that have one of these in common, the state is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GoesWith {
    /// The gap since the drive's last request.
    pub gap: bool,
    /// Requests in flight at issue.
    pub depth: bool,
    /// The interrupted CPU's clock.
    pub clock: bool,
    /// What other CPUs of the cluster and package did.
    pub other_cpus: bool,
}

impl GoesWith {
    /// Looks for what goes with a state; `None` if too few requests met another state, whatever else they had in common.
    pub(crate) fn find(samples: &[Sample], state: u8) -> Option<Self> {
        let is_alone_by = |reduce: fn(&Sample) -> Sample| {
            let reduced: Vec<Sample> = samples.iter().map(reduce).collect();
            let compared = keep_comparable_samples(&reduced);
            !compared.iter().any(|sample| sample.first == state)
        };
        if is_alone_by(|sample| with_stratum(sample, Stratum::default())) {
            return None;
        }
        Some(Self {
            gap: is_alone_by(|sample| Sample {
                gap: sample.gap,
                ..with_stratum(sample, sample.stratum.gap_alone())
            }),
            depth: is_alone_by(|sample| with_stratum(sample, sample.stratum.depth_alone())),
            clock: is_alone_by(|sample| with_stratum(sample, sample.stratum.clock_alone())),
            other_cpus: is_alone_by(|sample| with_stratum(sample, sample.stratum.others_alone())),
        })
    }
}

/// The sample in another stratum, whose requests count as if after one gap.
fn with_stratum(sample: &Sample, stratum: Stratum) -> Sample {
    Sample {
        stratum,
        gap: 0,
        ..*sample
    }
}
