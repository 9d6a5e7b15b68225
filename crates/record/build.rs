//! Compiles the eBPF programs.

fn main() {
    wakepath_ebpf::build::compile("record", &["bpf/wire.h"], "`wakepath record`");
}
