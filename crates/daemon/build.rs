//! Compiles the eBPF programs.

fn main() {
    wakepath_ebpf::build::compile("block_io", &["bpf/wire.h"], "`wakepath daemon`");
}
