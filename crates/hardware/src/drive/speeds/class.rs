//! Classes of drives whose speeds are alike.

use std::fmt;

/// The traits that decide a drive's speed: market, PCIe, flash and DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpeedClass<'a> {
    pub class: &'a str,
    pub pcie_gen: &'a str,
    pub flash: &'a str,
    pub dram: &'a str,
}

/// The class with the most figures, whose medians stand in where another class has none.
pub(super) const COMMONEST: SpeedClass<'static> = SpeedClass {
    class: "client",
    pcie_gen: "3",
    flash: "tlc",
    dram: "yes",
};

impl fmt::Display for SpeedClass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let market = match self.class {
            "dc" => "data-centre",
            class => class,
        };
        let memory = match self.dram {
            "yes" => ", with DRAM",
            "hmb" => ", with a host memory buffer",
            _ => "",
        };
        let flash = self.flash.to_uppercase();
        write!(
            f,
            "{market} drives, PCIe {}, {flash}{memory}",
            self.pcie_gen
        )
    }
}

impl SpeedClass<'_> {
    /// How similar another class is, as a list of common traits; more is closer. Flash counts before market, both before
    /// the generation of PCIe, and that before DRAM. Of classes that are equally close, the commonest is the closest.
    pub(super) fn rank_similarity_to(self, other: SpeedClass<'_>) -> [bool; 7] {
        let same_flash = self.flash_or_commonest() == other.flash;
        let same_market = self.class == other.class;
        [
            self == other,
            same_flash && same_market,
            same_flash,
            same_market,
            self.pcie_gen == other.pcie_gen,
            self.dram == other.dram,
            other == COMMONEST,
        ]
    }

    /// The class's flash; if not known, the flash in most drives.
    fn flash_or_commonest(&self) -> &str {
        match self.flash {
            "unknown" => COMMONEST.flash,
            flash => flash,
        }
    }
}

/// Whether both classes have two lanes, or both have four.
pub(super) fn agree_on_two_lanes(own: SpeedClass<'_>, other: SpeedClass<'_>) -> bool {
    own.pcie_gen.ends_with("x2") == other.pcie_gen.ends_with("x2")
}

/// Whether the other class is the model's own.
pub(super) fn is_own_class(own: SpeedClass<'_>, other: SpeedClass<'_>) -> bool {
    own == other
}
