//! Compiling a governor's C code against the stand-ins for the kernel's headers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use wakepath_units::TickRate;

use crate::sandbox::{self, Limits};
use crate::source::Source;

/// The stand-ins, and the program around a governor.
const FILES: [(&str, &str); 5] = [
    ("governor_main.c", include_str!("../c/governor_main.c")),
    ("record.c", include_str!("../c/record.c")),
    ("record.h", include_str!("../c/record.h")),
    ("kernel_standin.h", include_str!("../c/kernel_standin.h")),
    ("cpuidle_standin.h", include_str!("../c/cpuidle_standin.h")),
];
/// The language rules of a kernel build: signed overflow wraps there. A function without declaration would only be found
/// missing when all is put together, without its line.
const FLAGS: [&str; 6] = [
    "-O2",
    "-std=gnu11",
    "-fno-strict-overflow",
    "-fno-strict-aliasing",
    "-Werror=implicit-function-declaration",
    "-fdiagnostics-color=never",
];
/// What a compiler may use: processor time in seconds, memory and the largest file in bytes.
const LIMITS: Limits = Limits {
    cpu_s: Some(60),
    memory: 4 << 30,
    file: 256 << 20,
};

/// A compiled governor. Its file has no name any more, so nothing is left of it when this process ends.
#[derive(Debug)]
pub(crate) struct Binary(File);

impl Binary {
    /// Where a child process finds it.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// What this process has compiled, by text and ticks a second.
static COMPILED: Mutex<BTreeMap<(String, u32), Arc<Binary>>> = Mutex::new(BTreeMap::new());

/// Compiles a governor for a tick rate, or takes what was compiled of the same text before.
///
/// # Errors
/// There is no compiler, or what it says first.
pub(crate) fn compile(source: &Source, tick: TickRate) -> Result<Arc<Binary>, String> {
    let key = (source.text.clone(), tick.hz());
    // The lock is held meanwhile: the others want the same.
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(binary) = compiled.get(&key) {
        return Ok(Arc::clone(binary));
    }
    let scratch = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let binary = in_folder(source, tick, scratch.path())?;
    let binary = Arc::new(Binary(
        File::open(&binary).map_err(|e| format!("what was compiled: {e}"))?,
    ));
    compiled.insert(key, Arc::clone(&binary));
    Ok(binary)
}

fn in_folder(source: &Source, tick: TickRate, folder: &Path) -> Result<PathBuf, String> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = parent.and_then(|()| fs::write(&path, text));
        written.map_err(|e| format!("{}: {e}", path.display()))
    };
    for (name, text) in FILES {
        write(name, text)?;
    }
    for header in source.headers() {
        write(
            &format!("kernel/{header}"),
            "#include \"cpuidle_standin.h\"\n",
        )?;
    }
    let text = format!(
        "#line 1 \"{}\"\n{}",
        source.name.replace('"', ""),
        source.text
    );
    write("governor.c", &text)?;
    let hz = format!("-DHZ={}", tick.hz());
    // Only the governor itself finds our headers where it looks for the kernel's.
    run(folder, &[&hz, "-I.", "-Ikernel", "-c", "governor.c"])?;
    let rest = [
        &*hz,
        "-I.",
        "-Wl,-z,now",
        "governor.o",
        "governor_main.c",
        "record.c",
        "-o",
        "program",
    ];
    run(folder, &rest)?;
    Ok(folder.join("program"))
}

fn run(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let errors = folder.join("errors");
    let log = File::create(&errors).map_err(|e| e.to_string())?;
    let mut compiler = Command::new("gcc");
    compiler
        .args(FLAGS)
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    sandbox::limit(&mut compiler, LIMITS);
    let status = compiler.status().map_err(|e| {
        format!("cannot run gcc, which C code needs ({e}): `apt install gcc libc6-dev`, `dnf install gcc`, `zypper install gcc`")
    })?;
    if status.success() {
        return Ok(());
    }
    let mut said = Vec::new();
    // Not more than a screen of it is looked at.
    _ = File::open(&errors).and_then(|file| file.take(1 << 16).read_to_end(&mut said));
    Err(
        first_error(&String::from_utf8_lossy(&said)).unwrap_or_else(|| {
            format!("gcc ended with {status}; it may use 60 s of processor time and 4 GB of memory")
        }),
    )
}

/// The first error of a compiler, with the line of code that it shows, and what can be done.
fn first_error(said: &str) -> Option<String> {
    let said: Vec<&str> = said.lines().collect();
    let is_error = |line: &&str| line.contains("error: ") || line.contains("undefined reference");
    let at = said.iter().position(is_error)?;
    if said[at].contains("`wp_initcall'") {
        return Some(
            "it compiles, and registers no governor: it needs `postcore_initcall(...)` of a function that calls \
             cpuidle_register_governor()"
                .to_owned(),
        );
    }
    let shown = said[at + 1..]
        .iter()
        .take(2)
        .take_while(|line| line.starts_with(' '));
    let shown: String = shown.flat_map(|line| ["\n", line]).collect();
    let unknown = [
        "implicit declaration",
        "undeclared",
        "undefined reference",
        "no member named",
        "incomplete type",
    ];
    let missing = ["unknown type name", "No such file"];
    let hint = if unknown
        .iter()
        .chain(&missing)
        .any(|word| said[at].contains(word))
    {
        "\nThe kernel's headers have stand-ins with what governors of Linux 6.1 to 7.3 use (docs/own-governor.md); what \
         they lack, define in the file itself."
    } else {
        ""
    };
    Some(format!("it does not compile:\n{}{shown}{hint}", said[at]))
}
