//! Compiles the eBPF programs.

fn main() {
    wakepath_ebpf_build::compile("guard", &["bpf/wire.h"], "`wakepath daemon`");
}
