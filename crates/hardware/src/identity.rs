//! Identifies a machine's processor and market segment.

use std::fmt;

/// Vendor of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuVendor {
    /// AMD.
    Amd,
    /// Intel.
    Intel,
    /// Apple.
    Apple,
    /// Any other maker of Arm cores than Apple.
    Arm,
    /// A vendor of other processors: POWER, RISC-V, s390x, LoongArch.
    Other,
}

impl fmt::Display for CpuVendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd => "AMD",
            Self::Intel => "Intel",
            Self::Apple => "Apple",
            Self::Arm => "Arm",
            Self::Other => "another maker",
        })
    }
}

/// Market segment, ordered by typical power, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// A phone or a tablet.
    Phone,
    /// A single-board computer, a router, an appliance.
    Board,
    /// A laptop or a handheld computer.
    Laptop,
    /// A desktop computer or a workstation.
    Desktop,
    /// A server.
    Server,
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Phone => "phone",
            Self::Board => "board",
            Self::Laptop => "laptop",
            Self::Desktop => "desktop",
            Self::Server => "server",
        })
    }
}

/// Facts from firmware that hint at the segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentHints {
    /// The machine's profile in ACPI's FADT (`/sys/firmware/acpi/pm_profile`).
    pub pm_profile: Option<u32>,
    /// The chassis type in SMBIOS (`/sys/class/dmi/id/chassis_type`).
    pub chassis_type: Option<u32>,
    /// The chassis type in the device tree (`chassis-type`).
    pub tree_chassis: Option<String>,
    /// Whether the machine has a battery; batteries in mice and uninterruptible supplies do not count.
    pub battery: bool,
    /// Names of boards and chips that the device tree is compatible with, the most special first.
    pub compatible: Vec<String>,
}

/// An Arm core by its identification registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmCore {
    /// The core's implementer: `CPU implementer` in `/proc/cpuinfo`.
    pub implementer: u32,
    /// The core's part number: `CPU part` in `/proc/cpuinfo`.
    pub part: u32,
}

impl ArmCore {
    /// Product name of the core; `None` for an unlisted core.
    pub fn product_name(self) -> Option<&'static str> {
        let mut known = ARM_CORES.iter();
        let found = known
            .find(|(implementer, part, _)| (*implementer, *part) == (self.implementer, self.part));
        found.map(|(_, _, name)| *name)
    }
}

impl fmt::Display for ArmCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.product_name() {
            Some(name) => f.write_str(name),
            None => write!(
                f,
                "Arm core (implementer {:#04x}, part {:#05x})",
                self.implementer, self.part
            ),
        }
    }
}

/// A processor, identified from `/proc/cpuinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessorIdentity {
    /// Product name.
    pub name: String,
    /// Vendor.
    pub vendor: CpuVendor,
    /// CPUID family; 0 without CPUID.
    pub family: u32,
    /// CPUID model; 0 without CPUID.
    pub model: u32,
    /// Arm's cores, by CPU in the order of the file; empty elsewhere.
    pub cores: Vec<ArmCore>,
}

/// Keys in `/proc/cpuinfo` for the processor's name, most specific first: x86, RISC-V, POWER, MIPS, LoongArch, 32-bit
/// Arm, s390x.
const NAME_KEYS: [&str; 8] = [
    "model name",
    "uarch",
    "cpu",
    "cpu model",
    "Model Name",
    "Processor",
    "isa",
    "vendor_id",
];

impl ProcessorIdentity {
    /// Reads `/proc/cpuinfo`.
    pub fn from_cpuinfo(text: &str) -> Self {
        let cores = list_arm_cores(cpuinfo_fields(text));
        let vendor = match (cpuinfo_field(text, "vendor_id"), cores.first()) {
            (Some("AuthenticAMD"), _) => CpuVendor::Amd,
            (Some("GenuineIntel"), _) => CpuVendor::Intel,
            (_, Some(core)) if core.implementer == APPLE => CpuVendor::Apple,
            (_, Some(_)) => CpuVendor::Arm,
            _ => CpuVendor::Other,
        };
        let name = match cores.first() {
            Some(_) => list_distinct_names(&cores),
            None => NAME_KEYS
                .iter()
                .find_map(|key| cpuinfo_field(text, key).filter(|name| !name.is_empty()))
                .unwrap_or("unknown processor")
                .to_owned(),
        };
        Self {
            name,
            vendor,
            family: cpuinfo_number(text, "cpu family"),
            model: cpuinfo_number(text, "model"),
            cores,
        }
    }

    /// CPUID family and model in the notation used for recorded systems: `6/85`.
    pub fn family_model(&self) -> String {
        format!("{}/{}", self.family, self.model)
    }
}

/// Keys and values in `/proc/cpuinfo`, all CPUs in sequence.
fn cpuinfo_fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key.trim(), value.trim()))
}

/// The first value of a key in `/proc/cpuinfo`.
fn cpuinfo_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo_fields(text)
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// The first value of a key in `/proc/cpuinfo` as a number; 0 if missing.
fn cpuinfo_number(text: &str, name: &str) -> u32 {
    let value = cpuinfo_field(text, name).and_then(|value| value.parse().ok());
    value.unwrap_or(0)
}

fn parse_hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Arm cores listed in `/proc/cpuinfo`, one per CPU.
fn list_arm_cores<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<ArmCore> {
    let mut cores = Vec::new();
    let mut implementer = None;
    for (key, value) in fields {
        match key {
            "CPU implementer" => implementer = parse_hexadecimal(value),
            "CPU part" => {
                let core = implementer.zip(parse_hexadecimal(value));
                cores.extend(core.map(|(implementer, part)| ArmCore { implementer, part }));
            }
            _ => {}
        }
    }
    cores
}

/// The product names of cores, as in `Cortex-A53 and Cortex-A72`: each kind once, in the order of CPUs.
fn list_distinct_names(cores: &[ArmCore]) -> String {
    let mut names: Vec<String> = Vec::new();
    for core in cores {
        let name = core.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" and ")
}

impl SegmentHints {
    /// The segment of a machine with this processor, and the evidence; `None` without evidence.
    pub fn find_segment_and_evidence(
        &self,
        processor: &ProcessorIdentity,
    ) -> Option<(Segment, String)> {
        let told = self
            .segment_by_acpi()
            .or_else(|| self.segment_by_chassis())
            .or_else(|| self.segment_by_device_tree())
            .or_else(|| self.segment_by_battery(processor));
        let by_name = segment_by_product_name(processor);
        match (told, by_name) {
            // Entry-level servers use desktop processors, with the same power.
            (Some((Segment::Server, why)), Some(Segment::Desktop | Segment::Laptop)) => {
                let why = format!("{why}, with the processor of a desktop");
                Some((Segment::Desktop, why))
            }
            (Some(told), _) => Some(told),
            (None, by_name) => by_name.map(|s| (s, "its processor".to_owned())),
        }
    }

    /// The segment by ACPI's profile (ACPI 6.5, table 5.9, "Preferred PM Profile").
    fn segment_by_acpi(&self) -> Option<(Segment, String)> {
        let profile = self.pm_profile?;
        let segment = match profile {
            1 | 3 => Segment::Desktop,
            2 => Segment::Laptop,
            4 | 5 | 7 => Segment::Server,
            6 => Segment::Board,
            8 => Segment::Phone,
            _ => return None,
        };
        Some((segment, format!("ACPI's pm_profile {profile}")))
    }

    /// The segment by SMBIOS' chassis type (SMBIOS 3.7, section 7.4.1, "System Enclosure or Chassis Types").
    fn segment_by_chassis(&self) -> Option<(Segment, String)> {
        let chassis = self.chassis_type?;
        let segment = match chassis {
            3..=7 | 13 | 15 | 16 | 24 | 35 => Segment::Desktop,
            8..=10 | 12 | 14 | 31 | 32 => Segment::Laptop,
            11 | 30 => Segment::Phone,
            17 | 23 | 25 | 28 | 29 => Segment::Server,
            33 | 34 | 36 => Segment::Board,
            _ => return None,
        };
        Some((segment, format!("chassis type {chassis}")))
    }

    /// The segment by the device tree's `chassis-type` (Devicetree Specification 0.4, section 3.2).
    fn segment_by_device_tree(&self) -> Option<(Segment, String)> {
        let chassis = self.tree_chassis.as_deref()?;
        let segment = match chassis {
            "desktop" | "all-in-one" => Segment::Desktop,
            "laptop" | "convertible" => Segment::Laptop,
            "server" => Segment::Server,
            "handset" | "tablet" | "watch" => Segment::Phone,
            "embedded" => Segment::Board,
            _ => return None,
        };
        Some((segment, format!("the device tree's chassis {chassis}")))
    }

    fn segment_by_battery(&self, processor: &ProcessorIdentity) -> Option<(Segment, String)> {
        // Laptops with Arm's cores say so in their device tree or firmware.
        let segment = match processor.vendor {
            CpuVendor::Arm => Segment::Phone,
            _ => Segment::Laptop,
        };
        self.battery.then(|| (segment, "a battery".to_owned()))
    }
}

/// The segment that a processor's product name implies.
fn segment_by_product_name(processor: &ProcessorIdentity) -> Option<Segment> {
    match processor.vendor {
        CpuVendor::Amd => segment_of_amd_name(&processor.name),
        CpuVendor::Intel => segment_of_intel_name(&processor.name),
        // Apple's desktops and laptops share chips; a battery tells laptops apart.
        CpuVendor::Apple => Some(Segment::Desktop),
        CpuVendor::Arm => segment_of_arm_cores(&processor.cores),
        CpuVendor::Other => segment_of_other_name(&processor.name),
    }
}

fn segment_of_amd_name(name: &str) -> Option<Segment> {
    if is_amd_server(name) {
        return Some(Segment::Server);
    }
    if name.contains("EPYC") || name.contains("Threadripper") {
        return Some(Segment::Desktop);
    }
    let mut words = name.split_whitespace();
    if name.contains("Embedded") || name.starts_with("AMD GX-") || words.any(is_amd_embedded_model)
    {
        return Some(Segment::Board);
    }
    // Names of the Steam Deck, of other handhelds, and of the Ryzen AI sold only in laptops.
    if name.contains("Custom APU") || name.contains("Ryzen Z") || name.contains("Ryzen AI") {
        return Some(Segment::Laptop);
    }
    if ![
        "Ryzen", "Athlon", "FX", "A4", "A6", "A8", "A9", "A10", "A12",
    ]
    .iter()
    .any(|line| name.contains(line))
    {
        return None;
    }
    let suffix = name.split_whitespace().find_map(model_suffix)?;
    Some(match suffix.trim_end_matches("3D") {
        "U" | "H" | "HS" | "HX" | "C" | "P" | "M" | "B" => Segment::Laptop,
        _ => Segment::Desktop,
    })
}

/// Whether a word of an AMD processor's name is an embedded model number, such as `V1605B` or `R2314`.
fn is_amd_embedded_model(word: &str) -> bool {
    let digits = word
        .trim_start_matches(['V', 'R'])
        .trim_end_matches(char::is_alphabetic);
    word.starts_with(['V', 'R']) && digits.len() == 4 && digits.parse::<u32>().is_ok()
}

/// Whether an AMD processor is made for servers; EPYC 4004 and 4005 are desktop chips.
pub(crate) fn is_amd_server(name: &str) -> bool {
    (name.contains("EPYC") && !name.split_whitespace().any(is_entry_epyc_model))
        || name.contains("Opteron")
}

/// Whether a word is a model number of EPYC 4004 or 4005.
fn is_entry_epyc_model(word: &str) -> bool {
    word.starts_with('4') && word.get(..4).is_some_and(|d| d.parse::<u32>().is_ok())
}

fn segment_of_intel_name(name: &str) -> Option<Segment> {
    let words: Vec<&str> = name.split_whitespace().collect();
    if name.to_uppercase().contains("XEON") {
        let of_client = words.iter().find(|word| {
            ["E3-", "E-2", "W-", "w3-", "w5-", "w7-", "w9-"]
                .iter()
                .any(|line| word.starts_with(line))
        });
        return Some(match of_client {
            Some(word) if word.ends_with('M') || word.ends_with("ML") => Segment::Laptop,
            Some(_) => Segment::Desktop,
            None => Segment::Server,
        });
    }
    if !name.contains("Core(TM)") && !name.contains("Core ") {
        return None;
    }
    // Model numbers such as `i7-1260P`, or `255H` behind `Ultra 7`. The names of the first Cores have no such words.
    let model = words.iter().rev().find_map(|word| {
        let number = word.rsplit_once('-').map_or(*word, |(_, number)| number);
        model_suffix(number).map(|suffix| (number, suffix))
    })?;
    Some(match model {
        // `7Y30`, `5Y10c`.
        (model, _) if model.get(1..2) == Some("Y") => Segment::Laptop,
        (_, suffix) if suffix.starts_with(['U', 'Y', 'H', 'P', 'V', 'M', 'Q', 'L']) => {
            Segment::Laptop
        }
        // A laptop's model number such as `1065G7`; desktops have no digit behind the letter.
        (_, "G1" | "G4" | "G7") => Segment::Laptop,
        _ => Segment::Desktop,
    })
}

/// The suffix of a processor's model number, such as `U` in `7840U` and `G7` in `1065G7`.
fn model_suffix(word: &str) -> Option<&str> {
    let digits = word
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(word.len());
    let suffix = word.get(digits..)?;
    // A word such as `8-Core` is no model number, `780M` is a graphics unit behind the model, and a clock has a point.
    let fits = (3..=5).contains(&digits)
        && suffix.len() <= 4
        && suffix.chars().all(|c| c.is_ascii_alphanumeric());
    // A model number such as `7Y30` has the letter after the first digit.
    let early = digits == 1 && word.len() >= 4 && suffix.starts_with('Y');
    (fits || early).then_some(suffix)
}

/// The segment of Arm cores: servers for Arm's own server cores, and for cores by makers of servers only.
fn segment_of_arm_cores(cores: &[ArmCore]) -> Option<Segment> {
    let core = cores.first()?;
    let name = core.product_name().unwrap_or_default();
    let server = name.starts_with("Neoverse")
        || [
            "Ampere", "ThunderX", "TSV", "A64FX", "Falkor", "eMAG", "Olympus",
        ]
        .iter()
        .any(|line| name.starts_with(line));
    if server {
        return Some(Segment::Server);
    }
    name.starts_with("Cortex").then_some(Segment::Board)
}

fn segment_of_other_name(name: &str) -> Option<Segment> {
    let server = name.starts_with("POWER") || name.contains("IBM") || name.contains("Loongson-3C");
    if server {
        return Some(Segment::Server);
    }
    (name.starts_with("rv64") || name.contains(',')).then_some(Segment::Board)
}

/// Apple's `CPU implementer`.
const APPLE: u32 = 0x61;

/// Product names of Arm cores by implementer and part: `arch/arm64/include/asm/cputype.h` in Linux 6.16, and the table
/// in `lscpu` (util-linux 2.41, `sys-utils/lscpu-arm.c`).
const ARM_CORES: &[(u32, u32, &str)] = &[
    (0x41, 0xb76, "ARM1176"),
    (0x41, 0xc05, "Cortex-A5"),
    (0x41, 0xc07, "Cortex-A7"),
    (0x41, 0xc08, "Cortex-A8"),
    (0x41, 0xc09, "Cortex-A9"),
    (0x41, 0xc0d, "Cortex-A17"),
    (0x41, 0xc0e, "Cortex-A17"),
    (0x41, 0xc0f, "Cortex-A15"),
    (0x41, 0xd01, "Cortex-A32"),
    (0x41, 0xd02, "Cortex-A34"),
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd04, "Cortex-A35"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd06, "Cortex-A65"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd0d, "Cortex-A77"),
    (0x41, 0xd0e, "Cortex-A76AE"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd43, "Cortex-A65AE"),
    (0x41, 0xd44, "Cortex-X1"),
    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd48, "Cortex-X2"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4a, "Neoverse-E1"),
    (0x41, 0xd4b, "Cortex-A78C"),
    (0x41, 0xd4c, "Cortex-X1C"),
    (0x41, 0xd4d, "Cortex-A715"),
    (0x41, 0xd4e, "Cortex-X3"),
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd80, "Cortex-A520"),
    (0x41, 0xd81, "Cortex-A720"),
    (0x41, 0xd82, "Cortex-X4"),
    (0x41, 0xd83, "Neoverse-V3AE"),
    (0x41, 0xd84, "Neoverse-V3"),
    (0x41, 0xd85, "Cortex-X925"),
    (0x41, 0xd87, "Cortex-A725"),
    (0x41, 0xd88, "Cortex-A520AE"),
    (0x41, 0xd89, "Cortex-A720AE"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x41, 0xd8f, "Cortex-A320"),
    (0x42, 0x516, "ThunderX2"),
    (0x43, 0x0a1, "ThunderX"),
    (0x43, 0x0a2, "ThunderX-81XX"),
    (0x43, 0x0a3, "ThunderX-83XX"),
    (0x43, 0x0af, "ThunderX2-99xx"),
    (0x43, 0x0b8, "ThunderX3"),
    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "TSV110"),
    (0x48, 0xd02, "TSV200"),
    (0x4e, 0x003, "Denver 2"),
    (0x4e, 0x004, "Carmel"),
    (0x4e, 0x010, "Olympus"),
    (0x50, 0x000, "eMAG"),
    (0x51, 0x001, "Oryon"),
    (0x51, 0x06f, "Krait"),
    (0x51, 0x201, "Kryo"),
    (0x51, 0x205, "Kryo"),
    (0x51, 0x211, "Kryo"),
    (0x51, 0x800, "Kryo 2xx Gold"),
    (0x51, 0x801, "Kryo 2xx Silver"),
    (0x51, 0x802, "Kryo 3xx Gold"),
    (0x51, 0x803, "Kryo 3xx Silver"),
    (0x51, 0x804, "Kryo 4xx Gold"),
    (0x51, 0x805, "Kryo 4xx Silver"),
    (0x51, 0xc00, "Falkor"),
    (0x53, 0x001, "Exynos M1"),
    (0x53, 0x002, "Exynos M3"),
    (0x53, 0x003, "Exynos M4"),
    (0x53, 0x004, "Exynos M5"),
    (0x61, 0x020, "Icestorm"),
    (0x61, 0x021, "Firestorm"),
    (0x61, 0x022, "Icestorm"),
    (0x61, 0x023, "Firestorm"),
    (0x61, 0x024, "Icestorm"),
    (0x61, 0x025, "Firestorm"),
    (0x61, 0x028, "Icestorm"),
    (0x61, 0x029, "Firestorm"),
    (0x61, 0x030, "Blizzard"),
    (0x61, 0x031, "Avalanche"),
    (0x61, 0x032, "Blizzard"),
    (0x61, 0x033, "Avalanche"),
    (0x61, 0x034, "Blizzard"),
    (0x61, 0x035, "Avalanche"),
    (0x61, 0x038, "Blizzard"),
    (0x61, 0x039, "Avalanche"),
    (0x70, 0x303, "FTC310"),
    (0x70, 0x660, "FTC660"),
    (0x70, 0x661, "FTC661"),
    (0x70, 0x662, "FTC662"),
    (0x70, 0x663, "FTC663"),
    (0x70, 0x664, "FTC664"),
    (0x70, 0x862, "FTC862"),
    (0x6d, 0xd49, "Neoverse-N2 (Azure Cobalt 100)"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
    (0xc0, 0xac5, "Ampere-1b"),
];
