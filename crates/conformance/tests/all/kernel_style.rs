//! Kernel code of ours is in the kernel's style, by the kernel's own judgement: `scripts/checkpatch.pl`.

use std::path::Path;
use std::process::Command;

use wakepath_conformance::source::{KernelSource, source_cache_folder};

const FILES: [&str; 5] = [
    "module/wakepath_psd.c",
    "rig/cpufreq/wakepath_cpufreq.c",
    "rig/drive/wakepath_drive.c",
    "rig/module/wakepath_idle.c",
    "rig/spin/wakepath_spin.c",
];

fn skip(reason: &str) {
    eprintln!(
        "skipped: kernel_code_is_in_kernel_style: {}",
        reason.replace('\n', " ")
    );
    assert!(
        std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
        "{reason}"
    );
}

#[test]
fn kernel_code_is_in_kernel_style() {
    let source = match KernelSource::obtain_source("6.12", &source_cache_folder()) {
        Ok(source) => source,
        Err(error) => {
            skip(&format!("{error:#}"));
            return;
        }
    };
    let checkpatch = Command::new("perl")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .arg(source.root.join("scripts/checkpatch.pl"))
        .args(["--no-tree", "--show-types", "--max-line-length=118"])
        // Code that is built against several kernels has to ask for their version.
        .args([
            "--ignore",
            "LINUX_VERSION_CODE,CONSTANT_COMPARISON",
            "--file",
        ])
        .args(FILES)
        .output();
    let output = match checkpatch {
        Ok(output) => output,
        Err(error) => {
            skip(&format!("perl: {error}"));
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    // It did look at them.
    assert_eq!(
        said.matches("0 errors, 0 warnings").count(),
        FILES.len(),
        "{said}"
    );
}
