//! Compiles the eBPF programs.

fn main() {
    wakepath_ebpf::build::compile_program_in_build_script(
        "record",
        &["bpf/wire.h"],
        "`wakepath record`",
    );
}
