//! For build scripts: compiles eBPF programs with clang, if installed.
//!
//! `include/kernel.h` has the few kernel types that the programs read.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// Compiles `bpf/NAME.bpf.c` to `NAME.bpf.o` in the folder for build products. Without clang the crate still builds:
/// the object is empty then, and `NAME.missing` beside it says why. `user` is who will not work then.
///
/// `headers` are further files of the crate that the programs include.
pub fn compile_program_in_build_script(name: &str, headers: &[&str], user: &str) {
    let source = format!("bpf/{name}.bpf.c");
    for file in headers.iter().copied().chain([source.as_str(), INCLUDE]) {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        return;
    };
    let object = folder.join(format!("{name}.bpf.o"));
    let missing = match run_clang(&source, &object) {
        Ok(()) => String::new(),
        Err(reason) => {
            println!("cargo::warning={user} will not work: {reason}");
            // An empty object file stands for missing programs.
            let _ = fs::write(&object, "");
            reason
        }
    };
    let _ = fs::write(folder.join(format!("{name}.missing")), missing);
}

fn run_clang(source: &str, object: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    // The name that bpf_tracing.h has for the target's architecture.
    let architecture = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        Ok("riscv64") => "riscv",
        other => return Err(format!("no eBPF programs for {other:?}")),
    };
    let endian = match env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let output = Command::new(&clang)
        // The option -g adds type information, by which the loader adapts the programs to the running kernel.
        .args(["-O2", "-g", "-Wall", "-Werror", "-target", endian])
        .arg(format!("-D__TARGET_ARCH_{architecture}"))
        .args(["-I", INCLUDE, "-c", source, "-o"])
        .arg(object)
        .output()
        .map_err(|error| format!("it was built without clang (`{clang}`: {error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let first = complaint
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or("no reason given");
    Err(format!(
        "its eBPF programs did not compile when it was built; clang and libbpf's headers (Debian: clang, libbpf-dev) \
         are needed: {first}"
    ))
}
