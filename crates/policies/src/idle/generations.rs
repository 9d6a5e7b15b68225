//! Kernels change their governors in stable releases too. A generation is what some releases have in common.

use wakepath_units::KernelVersion;

/// A generation of a governor: releases of Linux with equal rules.
#[derive(Clone, Copy, Debug)]
pub struct Generation {
    /// First kernel releases of the generation, one for each stable series. A generation lasts
    /// until the next begins.
    pub since: &'static [(u16, u16, u16)],
    /// Release whose own C code decided the same in every case that was compared; `None` where only
    /// the change's description was to be had.
    pub compared: Option<&'static str>,
    /// Change to the governor that began the generation.
    pub change: &'static str,
}

impl Generation {
    /// First kernel releases of the generation as text, `6.12.56, 6.17.6`.
    pub fn first_releases(&self) -> String {
        let names: Vec<_> = self
            .since
            .iter()
            .map(|(major, minor, patch)| match patch {
                0 => format!("{major}.{minor}"),
                _ => format!("{major}.{minor}.{patch}"),
            })
            .collect();
        names.join(", ")
    }
}

/// A generation of a governor with its rules.
pub(super) struct Entry<R> {
    pub(super) generation: Generation,
    pub(super) rules: R,
}

pub(super) const fn generation_entry<R: Copy>(
    since: &'static [(u16, u16, u16)],
    rules: R,
    compared: Option<&'static str>,
    change: &'static str,
) -> Entry<R> {
    Entry {
        generation: Generation {
            since,
            compared,
            change,
        },
        rules,
    }
}

/// Index of the latest governor generation that had begun by a kernel's release.
pub(super) fn index_of_generation<'g>(
    generations: impl IntoIterator<Item = &'g Generation>,
    kernel: KernelVersion,
) -> usize {
    let begun = generations
        .into_iter()
        .enumerate()
        .flat_map(|(index, generation)| generation.since.iter().map(move |since| (*since, index)))
        .filter(|(since, _)| *since <= kernel.release());
    begun.max().map_or(0, |(_, index)| index)
}

/// Generation of a governor that a kernel belongs to.
pub(super) fn find_generation(
    mut generations: impl Iterator<Item = &'static Generation> + Clone,
    kernel: KernelVersion,
) -> Option<&'static Generation> {
    let index = index_of_generation(generations.clone(), kernel);
    generations.nth(index)
}

/// Defines an enum over all generations of a governor, each compiled separately, and a macro that evaluates an
/// expression for any variant.
macro_rules! any_generation {
    ($d:tt $module:ident $any:ident $each:ident $governor:ident: $first:ident $($later:ident = $index:literal)+) => {
        /// The governor in any generation. Variant `G7` has index 7 in the list of generations.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "the list of generations describes them")]
        pub enum $any {
            $first($governor<0>),
            $($later($governor<$index>),)+
        }

        impl $any {
            /// Creates the governor for a generation's index, for a CPU that was never idle.
            fn new_for_generation(
                index: usize,
                states: &wakepath_hardware::IdleStates,
                tick: wakepath_units::TickRate,
            ) -> Self {
                match index {
                    $($index => Self::$later($governor::new(states, tick)),)+
                    _ => Self::$first($governor::new(states, tick)),
                }
            }
        }

        macro_rules! $each {
            ($d governor:expr, $d name:ident => $d what:expr) => {
                match $d governor {
                    $crate::idle::$module::$any::$first($d name) => $d what,
                    $($crate::idle::$module::$any::$later($d name) => $d what,)+
                }
            };
        }
        pub(in crate::idle) use $each;
    };
}
pub(super) use any_generation;
