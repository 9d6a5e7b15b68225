//! Compiles the eBPF programs with clang, where there is one. Without it the crate still builds, and says at run
//! time what was missing.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

const SOURCE: &str = "bpf/record.bpf.c";

fn main() {
    for file in [SOURCE, "bpf/kernel.h", "bpf/wire.h"] {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        return;
    };
    let object = folder.join("record.bpf.o");
    if let Err(reason) = compile(&object) {
        println!("cargo::warning=`wakepath record` will not work: {reason}");
        // An empty object stands for none; beside it lies why.
        let _ = fs::write(&object, "");
        let _ = fs::write(folder.join("record.missing"), reason);
    } else {
        let _ = fs::write(folder.join("record.missing"), "");
    }
}

fn compile(object: &std::path::Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    // How bpf_tracing.h calls the architectures.
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
        // -g: type information, by which the loader adapts the programs to the running kernel.
        .args(["-O2", "-g", "-Wall", "-Werror", "-target", endian])
        .arg(format!("-D__TARGET_ARCH_{architecture}"))
        .args(["-c", SOURCE, "-o"])
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
