//! Compiles the eBPF programs.

fn main() {
    wakepath_ebpf::build::compile_program_in_build_script(
        "block_io",
        &["bpf/wire.h"],
        "`wakepath daemon`",
    );
}
