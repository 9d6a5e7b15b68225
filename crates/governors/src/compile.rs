//! Compiling a governor's C code against the stand-ins for the kernel's headers.
//!
//! gcc reads foreign code and is confined like foreign programs (`sandbox.rs`): it sees only its own files and a
//! folder with copies of the sources.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use wakepath_units::TickRate;

use crate::image::{self, Image};
use crate::process;
use crate::sandbox::{self, Files, Limits, Need};
use crate::source::Source;
use crate::text::printable;

/// The stand-ins, and what serves questions with a governor.
const FILES: [(&str, &str); 8] = [
    ("serve.c", include_str!("../c/serve.c")),
    ("launcher.c", include_str!("../c/launcher.c")),
    ("launcher.h", include_str!("../c/launcher.h")),
    ("governor_device.h", include_str!("../c/governor_device.h")),
    ("record.h", include_str!("../c/record.h")),
    ("kernel_standin.h", include_str!("../c/kernel_standin.h")),
    ("cpuidle_standin.h", include_str!("../c/cpuidle_standin.h")),
    ("no_libc.h", include_str!("../c/no_libc.h")),
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
/// As in a kernel there is no C library, no floating point, and code lies at fixed addresses.
const AS_KERNEL: [&str; 7] = [
    "-ffreestanding",
    "-fbuiltin",
    "-nostdinc",
    "-fno-pic",
    "-fno-pie",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
];
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const NO_FLOATS: &[&str] = &["-mgeneral-regs-only"];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NO_FLOATS: &[&str] = &[];
/// Warnings that are switched on or off. Kernel functions have unused parameters and mixed-sign comparisons: both are
/// allowed.
const WARNINGS: [&str; 5] = [
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
    "-Wno-missing-field-initializers",
];
/// What a compiler may use: processor time in seconds, memory and the largest file in bytes.
const LIMITS: Limits = Limits {
    cpu_s: Some(60),
    memory: 4 << 30,
    file: 256 << 20,
};
/// Bytes of the compiler's output that are read, and lines of warnings that are shown.
const LOOKED_AT: u64 = 1 << 16;
const WARNING_LINES: usize = 40;

/// File name of the governor in the folder for compilation.
const GOVERNOR: &str = "governor.c";

/// A compiled governor.
#[derive(Debug)]
pub(crate) struct Binary {
    image: Image,
    need: Need,
    /// Warnings by gcc.
    warnings: Option<String>,
}

impl Binary {
    /// The command that answers queries. The launcher's file stays open with the second value.
    pub(crate) fn command(&self) -> Result<(Command, Arc<OwnedFd>), String> {
        let launcher = launcher(self.need)?;
        let mut command = Command::new(process::path_of(&launcher));
        command.arg(self.image.file().as_raw_fd().to_string());
        if self.need == Need::WherePossible {
            command.arg("anyway");
        }
        command.env_clear();
        process::hand_down(&mut command, self.image.file());
        Ok((command, launcher))
    }

    /// Number of CPUs that a process serves.
    pub(crate) fn slots(&self) -> u32 {
        self.image.slots()
    }

    /// Warnings by gcc, with lines of code.
    pub(crate) fn warnings(&self) -> Option<&str> {
        self.warnings.as_deref()
    }
}

/// Binaries compiled by this process, by text, tick rate and confinement.
static COMPILED: Mutex<BTreeMap<(String, u32, Need), Arc<Binary>>> = Mutex::new(BTreeMap::new());
/// The program that starts governors, compiled once.
static LAUNCHER: Mutex<Option<Arc<OwnedFd>>> = Mutex::new(None);

/// Compiles a governor for a tick rate, or returns an earlier result for the same text. No compiled code runs.
///
/// # Errors
/// The compiler is missing, or its first error.
pub(crate) fn compile(source: &Source, tick: TickRate, need: Need) -> Result<Arc<Binary>, String> {
    let key = (source.text.clone(), tick.hz(), need);
    // The lock is held meanwhile: the others want the same.
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(binary) = compiled.get(&key) {
        return Ok(Arc::clone(binary));
    }
    let scratch = scratch()?;
    let folder = Folder::new(scratch.path(), need)?;
    let (image, warnings) = in_folder(source, tick, &folder)?;
    let binary = Arc::new(Binary {
        image,
        need,
        warnings,
    });
    compiled.insert(key, Arc::clone(&binary));
    Ok(binary)
}

fn launcher(need: Need) -> Result<Arc<OwnedFd>, String> {
    let mut known = LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(launcher) = &*known {
        return Ok(Arc::clone(launcher));
    }
    let scratch = scratch()?;
    let folder = Folder::new(scratch.path(), need)?;
    folder.run(&["-Wl,-z,now", "launcher.c", "-o", "launcher"])?;
    let launcher = process::in_memory(&folder.read("launcher")?)
        .map_err(|e| format!("no memory for what was compiled: {e}"))?;
    let launcher = Arc::new(launcher);
    *known = Some(Arc::clone(&launcher));
    Ok(launcher)
}

fn scratch() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))
}

/// Builds a governor's binary in a folder, with gcc's warnings.
fn in_folder(
    source: &Source,
    tick: TickRate,
    folder: &Folder<'_>,
) -> Result<(Image, Option<String>), String> {
    for header in source.headers() {
        let path = format!("kernel/{header}");
        folder.write(&path, "#include \"cpuidle_standin.h\"\n")?;
    }
    let text = format!(
        "#line 1 \"{}\"\n{}",
        source.name.replace(['"', '\\'], ""),
        source.text
    );
    folder.write(GOVERNOR, &text)?;
    let hz = format!("-DHZ={}", tick.hz());
    let as_kernel = || {
        [&*hz, "-I."]
            .into_iter()
            .chain(AS_KERNEL)
            .chain(NO_FLOATS.iter().copied())
    };
    // Only the governor itself finds our headers where it looks for the kernel's.
    let governor = [
        "-Ikernel",
        "-MD",
        "-MF",
        "read.d",
        "-Wa,--MD,assembled.d",
        "-c",
        GOVERNOR,
    ];
    let said = folder.run(
        &as_kernel()
            .chain(WARNINGS)
            .chain(governor)
            .collect::<Vec<_>>(),
    )?;
    check_files(folder)?;
    image::check_object(&folder.read("governor.o")?)?;
    // gcc would turn loops into calls of memset() and memcpy(), which these loops implement.
    let serve = ["-fno-tree-loop-distribute-patterns", "-c", "serve.c"];
    folder.run(&as_kernel().chain(serve).collect::<Vec<_>>())?;
    let base = format!("-Wl,-Ttext-segment={:#x}", image::BASE);
    let linked = folder.run(&[
        "-static",
        "-nostdlib",
        "-no-pie",
        "-Wl,--build-id=none,-e,wp_serve,-z,norelro",
        &base,
        "governor.o",
        "serve.o",
        "-o",
        "program",
    ]);
    // The linker's messages use the copy's name; users know the source's.
    let named =
        |error: String| error.replace(&format!("{GOVERNOR}:"), &format!("{}:", source.name));
    linked.map_err(named)?;
    let image = Image::of_program(&folder.read("program")?)?;
    Ok((image, warnings(&said)))
}

/// Refuses sources that read files other than the given ones, judged by the dependencies that gcc and the assembler
/// report.
fn check_files(folder: &Folder<'_>) -> Result<(), String> {
    let names = |list: &str| -> Result<Vec<String>, String> {
        let text = String::from_utf8_lossy(&folder.read(list)?).replace("\\\n", " ");
        let listed = text.split_once(": ").map_or("", |(_, listed)| listed);
        Ok(listed.split_whitespace().map(str::to_owned).collect())
    };
    let read = names("read.d")?;
    let outside = read
        .iter()
        .find(|name| name.starts_with('/') || name.split('/').any(|part| part == ".."));
    if let Some(name) = outside {
        return Err(format!(
            "it includes {}, which is outside of its folder; copy what it needs to a file beside it",
            printable(name)
        ));
    }
    // gcc passes the assembler a temporary file, which names the source.
    let handed = |name: &String| {
        name == GOVERNOR
            || (Path::new(name).starts_with(folder.path)
                && Path::new(name).extension().is_some_and(|end| end == "s"))
    };
    if !names("assembled.d")?.iter().all(handed) {
        return Err(
            "its asm() reads files (.incbin or .include), which a governor has no reason for"
                .to_owned(),
        );
    }
    Ok(())
}

/// A folder to compile in.
struct Folder<'a> {
    path: &'a Path,
    files: Files,
    need: Need,
}

impl<'a> Folder<'a> {
    fn new(path: &'a Path, need: Need) -> Result<Self, String> {
        let files = Files {
            read: compilers_own(),
            write: vec![path.to_owned()],
        };
        let folder = Self { path, files, need };
        for (name, text) in FILES {
            folder.write(name, text)?;
        }
        Ok(folder)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.path.join(name);
        let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = parent.and_then(|()| fs::write(&path, text));
        written.map_err(|e| format!("{}: {e}", path.display()))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        fs::read(self.path.join(name)).map_err(|e| format!("what gcc made ({name}): {e}"))
    }

    /// Runs gcc, and returns its output on success.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let errors = self.path.join("errors");
        let log = File::create(&errors).map_err(|e| e.to_string())?;
        let mut compiler = Command::new("gcc");
        compiler
            .args(FLAGS)
            .args(arguments)
            .current_dir(self.path)
            .env_clear()
            .envs(env::var_os("PATH").map(|path| ("PATH", path)))
            .env("LC_ALL", "C")
            .env("TMPDIR", self.path)
            .env("CCACHE_DISABLE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        sandbox::confine(&mut compiler, LIMITS, &self.files, self.need)?;
        let status = process::spawn(compiler).and_then(|mut child| child.wait());
        let status = status.map_err(|e| {
            format!("cannot run gcc, which C code needs ({e}): `apt install gcc libc6-dev`, `dnf install gcc`, `zypper install gcc`")
        })?;
        let mut said = Vec::new();
        _ = File::open(&errors).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut said));
        let said = String::from_utf8_lossy(&said).into_owned();
        if status.success() {
            return Ok(said);
        }
        Err(first_error(&said).unwrap_or_else(|| {
            format!("gcc ended with {status}; it may use 60 s of processor time and 4 GB of memory")
        }))
    }
}

/// Folders of a compiler outside the system: the folder above the program's folder.
fn compilers_own() -> Vec<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found =
        env::split_paths(&folders).find_map(|folder| folder.join("gcc").canonicalize().ok());
    let Some(found) = found.filter(|gcc| !sandbox::is_of_system(gcc)) else {
        return Vec::new();
    };
    let folders = found
        .ancestors()
        .skip(1)
        .take(2)
        .filter(|f| f.parent().is_some());
    folders.map(Path::to_owned).collect()
}

/// Warnings by gcc, for people.
fn warnings(said: &str) -> Option<String> {
    if !said.contains("warning: ") {
        return None;
    }
    let lines: Vec<&str> = said.lines().collect();
    let mut shown: Vec<String> = lines
        .iter()
        .take(WARNING_LINES)
        .map(|line| printable(line))
        .collect();
    if lines.len() > WARNING_LINES {
        shown.push(format!(
            "... and {} more lines",
            lines.len() - WARNING_LINES
        ));
    }
    Some(shown.join("\n"))
}

/// The compiler's first error, with the line of code and advice.
fn first_error(said: &str) -> Option<String> {
    let said: Vec<&str> = said.lines().collect();
    let undefined = "undefined reference to `";
    let is_error = |line: &&str| {
        ["error: ", "Error: "]
            .iter()
            .any(|word| line.contains(word))
            || line.contains(undefined)
            || line.contains("multiple definition of")
    };
    let at = said.iter().position(is_error)?;
    if said[at].contains("`wp_initcall'") && said[at].contains(undefined) {
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
        "unknown type name",
        "No such file",
    ];
    let helper = said[at].split_once(undefined).map_or("", |(_, name)| name);
    let is_float = ["SSE", "x87", "general-regs-only", "floating-point"]
        .iter()
        .any(|word| said[at].contains(word))
        || (helper.starts_with("__")
            && ["sf", "df", "xf", "tf"]
                .iter()
                .any(|kind| helper.contains(kind)));
    let hint = if is_float {
        "\nIt computes with floating point, which a governor in the kernel cannot: take whole numbers of a smaller unit."
    } else if said[at].contains("Permission denied") {
        "\nOnly files in its folder can be read."
    } else if unknown.iter().any(|word| said[at].contains(word)) {
        "\nThe kernel's headers have stand-ins with what governors of Linux 6.1 to 7.3 use (docs/own-governor.md); what \
         they lack, define in the file itself. There is no C library."
    } else {
        ""
    };
    let text = printable(&format!("{}{shown}", said[at]));
    Some(format!("it does not compile:\n{text}{hint}"))
}
