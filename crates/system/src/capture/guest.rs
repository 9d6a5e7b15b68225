//! Recognizes virtual machines.

use crate::Root;

/// Beginnings of the DMI product and vendor names of virtual machines. Clouds use the same names for virtual and whole
/// machines: the processor's hypervisor flag tells them apart, and elsewhere the product name.
const DMI: [(&str, &str); 16] = [
    ("QEMU", "QEMU"),
    ("Standard PC", "QEMU"),
    ("KVM", "KVM"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("Virtual Machine", "Hyper-V"),
    ("HVM domU", "Xen"),
    ("Xen", "Xen"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Bochs", "Bochs"),
    ("OpenStack", "OpenStack"),
    ("Apple Virtualization", "Apple's virtualization"),
    ("Droplet", "DigitalOcean"),
    ("vServer", "Hetzner"),
];
/// Cloud vendors that also rent whole machines, whose product name may say `metal`.
const CLOUDS: [&str; 6] = [
    "Amazon EC2",
    "Google",
    "OracleCloud",
    "Alibaba Cloud",
    "Huawei Cloud",
    "Tencent Cloud",
];
/// Beginnings of the names that device trees of virtual machines have.
const TREES: [(&str, &str); 5] = [
    ("linux,dummy-virt", "KVM"),
    ("qemu,", "QEMU"),
    ("riscv-virtio", "QEMU"),
    ("xen,", "Xen"),
    ("IBM,pSeries", "PowerVM or KVM"),
];

/// What shows that the machine runs under a hypervisor; `None` if nothing does.
pub fn hypervisor_evidence(root: &Root) -> Option<String> {
    let cpuinfo = root
        .read_text_if_readable("proc/cpuinfo")
        .unwrap_or_default();
    let flags = cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "flags").then_some(value)
    });
    if flags.is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor")) {
        return Some("the processor's flag hypervisor".to_owned());
    }
    if root
        .read_text_if_readable("sys/devices/system/cpu/cpuidle/current_driver")
        .as_deref()
        == Some("haltpoll")
    {
        return Some("the idle driver haltpoll".to_owned());
    }
    if let Some(kind) = root.read_text_if_readable("sys/hypervisor/type") {
        return Some(format!("/sys/hypervisor/type is {kind}"));
    }
    if super::tree::has_device_tree_node(root, "hypervisor") {
        return Some("a hypervisor in the device tree".to_owned());
    }
    let compatible = super::tree::read_device_tree_strings(root, "compatible");
    for (head, name) in TREES {
        if compatible.iter().any(|c| c.starts_with(head)) {
            return Some(format!("a device tree of {name}"));
        }
    }
    let mut facts = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    if facts.any(|(key, value)| {
        let fact = (key.trim(), value.trim());
        fact == ("platform", "pSeries") || fact == ("vendor_id", "IBM/S390")
    }) {
        return Some("a logical partition".to_owned());
    }
    hypervisor_in_dmi(root, flags.is_some())
}

/// The hypervisor that DMI names show. `is_x86`: the processor itself would tell of a cloud's hypervisor.
fn hypervisor_in_dmi(root: &Root, is_x86: bool) -> Option<String> {
    let dmi = root.folder("sys/class/dmi/id");
    let told = ["sys_vendor", "product_name"]
        .map(|name| dmi.read_text_if_readable(name).unwrap_or_default());
    let [vendor, product] = &told;
    // Product names such as `m7g.metal` and `c3-highmem-192-metal` are whole machines.
    if product.contains("metal") {
        return None;
    }
    for (head, name) in DMI {
        if told.iter().any(|text| text.starts_with(head)) {
            return Some(format!("DMI says {name}"));
        }
    }
    let is_cloud = CLOUDS.iter().any(|cloud| vendor.starts_with(cloud));
    (is_cloud && !is_x86).then(|| format!("DMI says {vendor} {product}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shown(files: &[(&str, &str)]) -> Option<String> {
        let temp = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let file = temp.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        hypervisor_evidence(&Root::at_directory(temp.path()))
    }

    #[test]
    fn a_guest_is_known_by_what_its_hypervisor_shows() {
        const X86: (&str, &str) = ("proc/cpuinfo", "flags\t\t: fpu tsc monitor\n");
        const GUEST: (&str, &str) = ("proc/cpuinfo", "flags\t\t: fpu tsc hypervisor\n");
        const ARM: (&str, &str) = (
            "proc/cpuinfo",
            "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
        );
        const VENDOR: &str = "sys/class/dmi/id/sys_vendor";
        const PRODUCT: &str = "sys/class/dmi/id/product_name";
        for guest in [
            &[GUEST][..],
            &[X86, (VENDOR, "QEMU\n")],
            &[
                X86,
                (VENDOR, "Microsoft Corporation\n"),
                (PRODUCT, "Virtual Machine\n"),
            ],
            &[ARM, (VENDOR, "Amazon EC2\n"), (PRODUCT, "m7g.large\n")],
            &[
                ARM,
                (VENDOR, "Alibaba Cloud\n"),
                (PRODUCT, "Alibaba Cloud ECS\n"),
            ],
            &[ARM, (VENDOR, "Hetzner\n"), (PRODUCT, "vServer\n")],
            &[ARM, ("proc/device-tree/compatible", "linux,dummy-virt\0")],
            &[ARM, ("proc/device-tree/hypervisor/compatible", "xen,xen\0")],
            &[X86, ("sys/hypervisor/type", "xen\n")],
            &[
                X86,
                (
                    "sys/devices/system/cpu/cpuidle/current_driver",
                    "haltpoll\n",
                ),
            ],
            &[("proc/cpuinfo", "cpu\t\t: POWER9\nplatform\t: pSeries\n")],
        ] {
            assert!(shown(guest).is_some(), "{guest:?}");
        }
        // Whole machines in clouds, and unrelated values.
        for real in [
            &[X86][..],
            &[X86, (VENDOR, "Amazon EC2\n"), (PRODUCT, "m5.metal\n")],
            &[
                X86,
                (VENDOR, "Google\n"),
                (PRODUCT, "Google Compute Engine\n"),
            ],
            &[ARM, (VENDOR, "Amazon EC2\n"), (PRODUCT, "m7g.metal\n")],
            &[
                X86,
                (VENDOR, "Alibaba Cloud\n"),
                (PRODUCT, "Alibaba Cloud ECS\n"),
            ],
            &[
                X86,
                (VENDOR, "Microsoft Corporation\n"),
                (PRODUCT, "Surface Laptop 5\n"),
            ],
            &[
                ARM,
                (
                    "proc/device-tree/compatible",
                    "raspberrypi,4-model-b\0brcm,bcm2711\0",
                ),
            ],
            &[("proc/cpuinfo", "cpu\t\t: POWER9\nplatform\t: PowerNV\n")],
        ] {
            assert_eq!(shown(real), None, "{real:?}");
        }
    }
}
