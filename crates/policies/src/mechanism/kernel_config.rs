//! `kernel-config`: options from the kernel's configuration, independent of version.

use wakepath_units::{TickRate, quantity};

use super::key::{Fallback, Form, Key, KeyInfo, SWITCH};
use super::{Kind, Mechanism, Place, Policy};
use crate::kernel_config::KernelConfig;

static HZ: Key<TickRate> = Key {
    info: KeyInfo {
        name: "hz",
        meaning: "ticks per second (`CONFIG_HZ`)",
        unit: "Hz",
        fallback: Fallback::Derived("the machine's"),
        example: "1000",
    },
    words: &[],
    form: Form::Text("a whole number from 1 to 6250", |text| {
        TickRate::new(u32::try_from(quantity::parse_whole_number(text)?).ok()?)
    }),
};
static IRQ_TIME: Key<bool> = Key {
    info: KeyInfo {
        name: "irq_time",
        meaning: "whether interrupt time counts as utilisation (`CONFIG_IRQ_TIME_ACCOUNTING`)",
        unit: "",
        fallback: Fallback::Derived("the machine's"),
        example: "on",
    },
    words: SWITCH,
    form: Form::WordsOnly,
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "kernel-config",
    kind: Kind::KernelConfig,
    versioned: false,
    summary: "the kernel's configuration: ticks per second, and whether interrupt time counts as utilisation",
    source: "CONFIG_HZ, kernel/Kconfig.hz; CONFIG_IRQ_TIME_ACCOUNTING, init/Kconfig",
    on: &[Place::Sim],
    keys: &[&HZ, &IRQ_TIME],
    overlaps: &[],
    build: |given| {
        let config = KernelConfig {
            hz: given.given_value(&HZ)?,
            irq_time: given.given_value(&IRQ_TIME)?,
        };
        if config == KernelConfig::default() {
            return Err(given.keys_error("says nothing; give hz or irq_time"));
        }
        Ok(Policy::KernelConfig(config))
    },
};
