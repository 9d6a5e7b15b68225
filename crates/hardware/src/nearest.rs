//! Chooses the built-in machine that lends a captured machine its missing figures.

use std::fmt;

use crate::identity::{CpuVendor, ProcessorIdentity, Segment, SegmentHints, is_amd_server_name};

/// CPUID models of family 6 (`arch/x86/include/asm/intel-family.h`, Linux 6.16): clients with cores of two or three kinds, that is
/// Lakefield, Alder, Raptor, Meteor, Arrow, Lunar and Panther Lake.
const INTEL_HYBRID: [u32; 13] = [
    138, 151, 154, 170, 172, 181, 183, 186, 189, 191, 197, 198, 204,
];
/// Client processors with identical cores, Nehalem to Rocket Lake.
const INTEL_CLIENT: [u32; 22] = [
    30, 31, 37, 42, 58, 60, 61, 69, 70, 71, 78, 94, 102, 125, 126, 140, 141, 142, 158, 165, 166,
    167,
];
/// Small cores alone, from Bonnell to Clearwater Forest, and the Xeon Phi.
const INTEL_SMALL: [u32; 26] = [
    28, 38, 39, 53, 54, 55, 74, 76, 77, 87, 90, 92, 93, 95, 117, 122, 133, 134, 150, 156, 175, 182,
    190, 213, 215, 221,
];
/// Server processors, Nehalem to Broadwell: cores on a ring, as in the Haswell machine.
const INTEL_RING_SERVER: [u32; 10] = [26, 44, 45, 46, 47, 62, 63, 79, 86, 29];
/// Servers with a mesh from Skylake to Emerald Rapids, which are also sold for workstations.
const INTEL_MESH_SERVER: [u32; 5] = [85, 106, 108, 143, 207];
/// Granite Rapids.
const INTEL_REDWOOD_COVE_SERVER: [u32; 2] = [173, 174];
/// The first CPUID family with Zen cores.
const ZEN: u32 = 23;

/// The machine whose figures stand in for unknown ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lender {
    /// Name of the built-in machine.
    pub machine: &'static str,
    /// Whether the lender's powers apply, since the class is the same. Otherwise there are no powers.
    pub power: bool,
    /// Why this machine lends, and why powers are missing.
    pub why: String,
}

impl fmt::Display for Lender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.power {
            write!(f, "figures as on {}: {}", self.machine, self.why)
        } else {
            write!(
                f,
                "no power figures: {}; times of the I/O path as on {}",
                self.why, self.machine
            )
        }
    }
}

/// Chooses the built-in machine that lends figures, by vendor, family, segment and core. Powers are lent within a
/// segment only, and only by cores of the kind. `guest_evidence`: what shows that it is a virtual machine, which owns
/// no package.
pub fn choose_lender_of_figures(
    processor: &ProcessorIdentity,
    hints: &SegmentHints,
    guest_evidence: Option<&str>,
) -> Lender {
    let segment = hints.find_segment_and_evidence(processor);
    let kind = segment.as_ref().map(|(segment, _)| *segment);
    let (machine, power) = choose_lender_and_if_powers_fit(processor, hints, kind);
    let what = describe_processor_segment_and_evidence(processor, segment);
    if let Some(shown) = guest_evidence {
        return Lender {
            machine,
            power: false,
            why: format!("a virtual machine ({shown}) owns no package"),
        };
    }
    Lender {
        machine,
        power,
        why: if power {
            what
        } else {
            format!("no machine with published powers is near enough ({what})")
        },
    }
}

/// A processor and its segment in words: `AMD family 25, laptop (ACPI's pm_profile 2)`.
fn describe_processor_segment_and_evidence(
    processor: &ProcessorIdentity,
    segment_and_evidence: Option<(Segment, String)>,
) -> String {
    let maker = match processor.vendor {
        vendor @ (CpuVendor::Amd | CpuVendor::Intel) => {
            format!(
                "{vendor} family {} model {}",
                processor.family, processor.model
            )
        }
        CpuVendor::Apple | CpuVendor::Arm | CpuVendor::Other => processor.name.clone(),
    };
    match segment_and_evidence {
        Some((segment, why)) => format!("{maker}, {segment} by {why}"),
        None => format!("{maker}, nothing tells what kind of machine"),
    }
}

/// The lender by the processor's vendor, and whether it lends powers.
fn choose_lender_and_if_powers_fit(
    processor: &ProcessorIdentity,
    hints: &SegmentHints,
    segment: Option<Segment>,
) -> (&'static str, bool) {
    match processor.vendor {
        CpuVendor::Amd => choose_amd_lender_and_if_powers_fit(processor, segment),
        CpuVendor::Intel => choose_intel_lender_and_if_powers_fit(processor, segment),
        CpuVendor::Apple => {
            let same_chip = is_device_tree_compatible_with(hints, "apple,t6000");
            (
                "apple-m1-pro",
                same_chip || segment == Some(Segment::Laptop),
            )
        }
        CpuVendor::Arm if segment == Some(Segment::Server) => {
            let cores = &processor.cores;
            let same_cores = cores
                .iter()
                .all(|core| core.product_name() == Some("Neoverse-N1"));
            ("ampere-altra", same_cores && !cores.is_empty())
        }
        CpuVendor::Arm => {
            let same_chip = is_device_tree_compatible_with(hints, "rockchip,rk3399");
            let same_cores = processor
                .cores
                .iter()
                .all(|core| matches!(core.product_name(), Some("Cortex-A53" | "Cortex-A72")));
            let near = same_cores && segment == Some(Segment::Board);
            ("rk3399", same_chip || near)
        }
        // Hygon has Zen cores under another name; the others are x86 of further makers.
        CpuVendor::Other if processor.name.contains("Hygon") => ("epyc-7502", false),
        CpuVendor::Other if processor.family > 0 => ("laptop", false),
        CpuVendor::Other => match segment {
            Some(Segment::Server) => ("skylake-2s-server", false),
            _ => ("rk3399", false),
        },
    }
}

fn is_device_tree_compatible_with(hints: &SegmentHints, chip: &str) -> bool {
    hints.compatible.iter().any(|name| name == chip)
}

fn choose_amd_lender_and_if_powers_fit(
    processor: &ProcessorIdentity,
    segment: Option<Segment>,
) -> (&'static str, bool) {
    let is_zen = processor.family >= ZEN;
    if is_amd_server_name(&processor.name) {
        return ("epyc-7502", is_zen && segment == Some(Segment::Server));
    }
    ("ryzen-8840u", is_zen && segment == Some(Segment::Laptop))
}

fn choose_intel_lender_and_if_powers_fit(
    processor: &ProcessorIdentity,
    segment: Option<Segment>,
) -> (&'static str, bool) {
    let hybrid = is_family_6_model_in(processor, &INTEL_HYBRID);
    let ring = is_family_6_model_in(processor, &INTEL_RING_SERVER);
    let redwood_cove = is_family_6_model_in(processor, &INTEL_REDWOOD_COVE_SERVER);
    let is_server = ring || redwood_cove || is_family_6_model_in(processor, &INTEL_MESH_SERVER);
    let is_client = hybrid || is_family_6_model_in(processor, &INTEL_CLIENT);
    let listed = is_server || is_client || is_family_6_model_in(processor, &INTEL_SMALL);
    // Processors newer than the lists are matched by name.
    let name = if listed {
        String::new()
    } else {
        processor.name.to_uppercase()
    };
    let client = is_client || name.contains("CORE");
    let server = is_server || name.contains("XEON");
    match segment {
        Some(Segment::Server) if ring => ("intel-tbench-80t", true),
        Some(Segment::Server) if redwood_cove => ("xeon-6741p", true),
        Some(Segment::Server) => ("skylake-2s-server", server),
        Some(Segment::Desktop) if server => ("skylake-2s-server", false),
        Some(Segment::Desktop) => ("xeon-e3-1240v5", client),
        _ if hybrid => ("hybrid-i7-1260p", segment == Some(Segment::Laptop)),
        _ => ("laptop", client && segment == Some(Segment::Laptop)),
    }
}

/// Whether the processor is a member of family 6 with a listed model number.
fn is_family_6_model_in(processor: &ProcessorIdentity, listed_models: &[u32]) -> bool {
    processor.family == 6 && listed_models.contains(&processor.model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::ArmCore;

    /// An x86 processor with a given family, model and name.
    fn x86(vendor: CpuVendor, family: u32, model: u32, name: &str) -> ProcessorIdentity {
        ProcessorIdentity {
            name: name.to_owned(),
            vendor,
            family,
            model,
            cores: Vec::new(),
        }
    }

    fn arm(implementer: u32, parts: &[u32]) -> ProcessorIdentity {
        let line =
            |part: &u32| format!("CPU implementer : {implementer:#x}\nCPU part : {part:#x}\n");
        ProcessorIdentity::from_cpuinfo(&parts.iter().map(line).collect::<String>())
    }

    fn acpi(profile: u32) -> SegmentHints {
        SegmentHints {
            pm_profile: Some(profile),
            ..SegmentHints::default()
        }
    }

    fn battery() -> SegmentHints {
        SegmentHints {
            battery: true,
            ..SegmentHints::default()
        }
    }

    fn tree(compatible: &[&str]) -> SegmentHints {
        SegmentHints {
            compatible: compatible.iter().map(|name| (*name).to_owned()).collect(),
            ..SegmentHints::default()
        }
    }

    /// The machine that lends powers, or `none`.
    fn lends(processor: &ProcessorIdentity, hints: &SegmentHints) -> &'static str {
        let lender = choose_lender_of_figures(processor, hints, None);
        if lender.power { lender.machine } else { "none" }
    }

    #[test]
    fn x86_processors_get_figures_of_their_own_class() {
        use CpuVendor::{Amd, Intel};
        fn chassis(chassis_type: u32) -> SegmentHints {
            SegmentHints {
                chassis_type: Some(chassis_type),
                ..SegmentHints::default()
            }
        }
        let none = SegmentHints::default();
        for (vendor, family, model, name, hints, expected) in [
            (
                Amd,
                25,
                80,
                "AMD Ryzen 5 5600U with Radeon Graphics",
                &none,
                "ryzen-8840u",
            ),
            (
                Amd,
                23,
                96,
                "AMD Ryzen 7 4800H with Radeon Graphics",
                &none,
                "ryzen-8840u",
            ),
            (
                Amd,
                26,
                36,
                "AMD Ryzen AI 9 HX 370 w/ Radeon 890M",
                &none,
                "ryzen-8840u",
            ),
            (
                Amd,
                25,
                97,
                "AMD Ryzen 9 7945HX with Radeon Graphics",
                &none,
                "ryzen-8840u",
            ),
            (
                Amd,
                23,
                17,
                "AMD Ryzen 7 2700U with Radeon Vega Mobile Gfx",
                &acpi(2),
                "ryzen-8840u",
            ),
            (
                Amd,
                23,
                144,
                "AMD Custom APU 0405",
                &battery(),
                "ryzen-8840u",
            ),
            (
                Amd,
                25,
                33,
                "AMD Ryzen 7 5800X 8-Core Processor",
                &none,
                "none",
            ),
            (
                Amd,
                25,
                97,
                "AMD Ryzen 9 7950X3D 16-Core Processor",
                &acpi(1),
                "none",
            ),
            (
                Amd,
                23,
                49,
                "AMD Ryzen Threadripper 3970X 32-Core Processor",
                &none,
                "none",
            ),
            (
                Amd,
                23,
                1,
                "AMD EPYC 7551P 32-Core Processor",
                &acpi(4),
                "epyc-7502",
            ),
            (
                Amd,
                25,
                160,
                "AMD EPYC 9754 128-Core Processor",
                &none,
                "epyc-7502",
            ),
            (
                Amd,
                26,
                17,
                "AMD EPYC 9965 192-Core Processor",
                &chassis(23),
                "epyc-7502",
            ),
            (
                Amd,
                25,
                97,
                "AMD EPYC 4564P 16-Core Processor",
                &acpi(4),
                "none",
            ),
            (Amd, 22, 48, "AMD GX-412TC SOC", &none, "none"),
            (
                Amd,
                21,
                2,
                "AMD FX(tm)-8350 Eight-Core Processor",
                &none,
                "none",
            ),
            (
                Intel,
                6,
                142,
                "Intel(R) Core(TM) i5-8250U CPU @ 1.60GHz",
                &none,
                "laptop",
            ),
            (
                Intel,
                6,
                126,
                "Intel(R) Core(TM) i7-1065G7 CPU @ 1.30GHz",
                &none,
                "laptop",
            ),
            (
                Intel,
                6,
                158,
                "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz",
                &chassis(10),
                "laptop",
            ),
            (
                Intel,
                6,
                158,
                "Intel(R) Core(TM) i5-9600K CPU @ 3.70GHz",
                &none,
                "xeon-e3-1240v5",
            ),
            (
                Intel,
                6,
                183,
                "Intel(R) Core(TM) i9-14900K",
                &acpi(1),
                "xeon-e3-1240v5",
            ),
            (
                Intel,
                6,
                183,
                "13th Gen Intel(R) Core(TM) i9-13980HX",
                &acpi(2),
                "hybrid-i7-1260p",
            ),
            (
                Intel,
                6,
                170,
                "Intel(R) Core(TM) Ultra 7 155H",
                &none,
                "hybrid-i7-1260p",
            ),
            (
                Intel,
                6,
                198,
                "Intel(R) Core(TM) Ultra 9 285K",
                &none,
                "xeon-e3-1240v5",
            ),
            (
                Intel,
                6,
                158,
                "Intel(R) Xeon(R) E-2276G CPU @ 3.80GHz",
                &acpi(4),
                "xeon-e3-1240v5",
            ),
            (Intel, 6, 190, "Intel(R) N100", &acpi(1), "none"),
            (
                Intel,
                6,
                156,
                "Intel(R) Celeron(R) N5105 @ 2.00GHz",
                &acpi(2),
                "none",
            ),
            (
                Intel,
                6,
                55,
                "Intel(R) Atom(TM) CPU  E3845  @ 1.91GHz",
                &none,
                "none",
            ),
            (
                Intel,
                6,
                85,
                "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz",
                &none,
                "skylake-2s-server",
            ),
            (
                Intel,
                6,
                79,
                "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz",
                &none,
                "intel-tbench-80t",
            ),
            (
                Intel,
                6,
                173,
                "Intel(R) Xeon(R) 6972P",
                &acpi(4),
                "xeon-6741p",
            ),
            (Intel, 6, 175, "Intel(R) Xeon(R) 6780E", &acpi(4), "none"),
            (
                Intel,
                6,
                85,
                "Intel(R) Xeon(R) W-2295 CPU @ 3.00GHz",
                &acpi(3),
                "none",
            ),
        ] {
            let processor = x86(vendor, family, model, name);
            assert_eq!(lends(&processor, hints), expected, "{name}");
        }
    }

    #[test]
    fn other_processors_get_figures_of_their_core_or_none() {
        let none = SegmentHints::default();
        let rk3399 = tree(&["pine64,pinebook-pro", "rockchip,rk3399"]);
        let phone = SegmentHints {
            tree_chassis: Some("handset".to_owned()),
            ..SegmentHints::default()
        };
        let x13s = SegmentHints {
            tree_chassis: Some("laptop".to_owned()),
            battery: true,
            ..SegmentHints::default()
        };
        for (what, processor, hints, expected) in [
            ("Raspberry Pi 3", arm(0x41, &[0xd03; 4]), &none, "rk3399"),
            ("Raspberry Pi 4", arm(0x41, &[0xd08; 4]), &none, "rk3399"),
            ("Raspberry Pi 5", arm(0x41, &[0xd0b; 4]), &none, "none"),
            ("RK3588", arm(0x41, &[0xd05, 0xd0b]), &none, "none"),
            (
                "RK3328",
                arm(0x41, &[0xd03; 4]),
                &tree(&["rockchip,rk3328"]),
                "rk3399",
            ),
            (
                "Pinebook Pro",
                arm(0x41, &[0xd03, 0xd08]),
                &rk3399,
                "rk3399",
            ),
            ("MT8183", arm(0x41, &[0xd03, 0xd09]), &none, "none"),
            ("Snapdragon 410", arm(0x41, &[0xd03; 4]), &phone, "none"),
            ("a phone", arm(0x41, &[0xd03; 8]), &battery(), "none"),
            ("Snapdragon 845", arm(0x51, &[0x803, 0x802]), &phone, "none"),
            ("ThinkPad X13s", arm(0x41, &[0xd4b, 0xd4c]), &x13s, "none"),
            ("Graviton2", arm(0x41, &[0xd0c; 2]), &none, "ampere-altra"),
            ("Graviton3, whole", arm(0x41, &[0xd40; 2]), &acpi(4), "none"),
            ("Graviton, whole", arm(0x41, &[0xd08; 2]), &acpi(4), "none"),
            ("Ampere Altra", arm(0xc0, &[0xac3; 2]), &none, "none"),
            (
                "MacBook Pro, M1 Pro",
                arm(0x61, &[0x024, 0x025]),
                &battery(),
                "apple-m1-pro",
            ),
            (
                "MacBook Air, M2",
                arm(0x61, &[0x032, 0x033]),
                &battery(),
                "apple-m1-pro",
            ),
            ("Mac mini", arm(0x61, &[0x022, 0x023]), &none, "none"),
        ] {
            assert_eq!(lends(&processor, hints), expected, "{what}");
        }
        for cpuinfo in [
            "processor : 0\ncpu : POWER9, altivec supported\nclock : 3800.000000MHz\nplatform : PowerNV\n",
            "processor : 0\nhart : 1\nisa : rv64imafdc\nmmu : sv39\nuarch : sifive,u74-mc\n",
            "vendor_id : IBM/S390\n",
            "CPU Family : Loongson-64bit\nModel Name : Loongson-3A5000\n",
            "",
        ] {
            let processor = ProcessorIdentity::from_cpuinfo(cpuinfo);
            assert_eq!(processor.vendor, CpuVendor::Other, "{cpuinfo}");
            assert_eq!(lends(&processor, &none), "none", "{cpuinfo}");
        }
    }

    #[test]
    fn firmware_goes_before_a_battery_and_that_before_the_name() {
        let processor = x86(
            CpuVendor::Amd,
            25,
            80,
            "AMD Ryzen 7 5700G with Radeon Graphics",
        );
        let segment = |hints: &SegmentHints| hints.find_segment_and_evidence(&processor).unwrap();
        assert_eq!(segment(&SegmentHints::default()).0, Segment::Desktop);
        assert_eq!(segment(&battery()).0, Segment::Laptop);
        let mut all = battery();
        all.chassis_type = Some(3);
        assert_eq!(
            segment(&all),
            (Segment::Desktop, "chassis type 3".to_owned())
        );
        all.pm_profile = Some(2);
        assert_eq!(segment(&all).0, Segment::Laptop);
        // 0 is no profile, and 2 no chassis that is known.
        (all.pm_profile, all.chassis_type) = (Some(0), Some(2));
        assert_eq!(segment(&all).1, "a battery");
    }

    #[test]
    fn the_reason_is_printed() {
        let processor = x86(CpuVendor::Amd, 25, 116, "AMD Ryzen 7 7840U");
        assert_eq!(
            choose_lender_of_figures(&processor, &acpi(2), None).to_string(),
            "figures as on ryzen-8840u: AMD family 25 model 116, laptop by ACPI's pm_profile 2"
        );
        let shown = Some("the processor's flag hypervisor");
        let guest = choose_lender_of_figures(&processor, &acpi(2), shown).to_string();
        assert!(
            guest.starts_with("no power figures: a virtual machine"),
            "{guest}"
        );
    }

    #[test]
    fn unknown_cores_are_named_by_their_numbers() {
        let core = ArmCore {
            implementer: 0x41,
            part: 0xfff,
        };
        assert_eq!(core.to_string(), "Arm core (implementer 0x41, part 0xfff)");
        let mixed = arm(0x41, &[0xd03, 0xd03, 0xd08]);
        assert_eq!(mixed.name, "Cortex-A53 and Cortex-A72");
    }
}
