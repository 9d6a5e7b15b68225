//! Compiles the eBPF programs.

fn main() {
    wakepath_ebpf_build::compile("record", &["bpf/wire.h"], "`wakepath record`");
}
