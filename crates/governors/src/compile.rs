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
use crate::text::printable_text;

/// C files that every governor is compiled with: stand-ins for the kernel's headers, and the server
/// that answers questions.
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
/// Compiler flags with the language rules of a kernel build: signed overflow wraps. A function
/// without declaration is an error at its line, not only when all is linked.
const FLAGS: [&str; 6] = [
    "-O2",
    "-std=gnu11",
    "-fno-strict-overflow",
    "-fno-strict-aliasing",
    "-Werror=implicit-function-declaration",
    "-fdiagnostics-color=never",
];
/// Compiler flags for code as in a kernel: no C library, no floating point, fixed addresses.
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
/// Compiler warnings that are switched on or off. Kernel functions have unused parameters and
/// mixed-sign comparisons: both are allowed.
const WARNINGS: [&str; 5] = [
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
    "-Wno-missing-field-initializers",
];
/// Limits to a compiler: processor time in seconds, memory and the largest file in bytes.
const LIMITS: Limits = Limits {
    cpu_s: Some(60),
    memory: 4 << 30,
    file: 256 << 20,
};
/// Bytes of the compiler's output that are read.
const MAX_OUTPUT: u64 = 1 << 16;
/// Lines of compiler warnings that are shown.
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
    /// Command of a process that answers the governor's queries. The second value keeps the
    /// launcher's file open.
    pub(crate) fn server_command(&self) -> Result<(Command, Arc<OwnedFd>), String> {
        let launcher = compile_launcher(self.need)?;
        let mut command = Command::new(process::inherited_path(&launcher));
        command.arg(self.image.file().as_raw_fd().to_string());
        if self.need == Need::WherePossible {
            command.arg("anyway");
        }
        command.env_clear();
        process::keep_open_in_child(&mut command, self.image.file());
        Ok((command, launcher))
    }

    /// Number of CPUs that one process of this binary serves.
    pub(crate) fn cpus_per_process(&self) -> u32 {
        self.image.cpus_per_process()
    }

    /// Warnings by gcc about the governor, with lines of code.
    pub(crate) fn gcc_warnings(&self) -> Option<&str> {
        self.warnings.as_deref()
    }
}

/// Governors compiled by this process, by source text, tick rate and confinement.
static COMPILED: Mutex<BTreeMap<(String, u32, Need), Arc<Binary>>> = Mutex::new(BTreeMap::new());
/// Program that starts compiled governors; compiled once.
static LAUNCHER: Mutex<Option<Arc<OwnedFd>>> = Mutex::new(None);

/// Compiles a governor for a tick rate, or returns an earlier result for the same text. No compiled code runs.
///
/// # Errors
/// The compiler is missing, or its first error.
pub(crate) fn compile_governor(
    source: &Source,
    tick: TickRate,
    need: Need,
) -> Result<Arc<Binary>, String> {
    let key = (source.text.clone(), tick.hz(), need);
    // The lock is held while gcc runs, because other threads want the same binary.
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(binary) = compiled.get(&key) {
        return Ok(Arc::clone(binary));
    }
    let scratch = make_scratch_folder()?;
    let folder = Folder::new(scratch.path(), need)?;
    let (image, warnings) = build_image(source, tick, &folder)?;
    let binary = Arc::new(Binary {
        image,
        need,
        warnings,
    });
    compiled.insert(key, Arc::clone(&binary));
    Ok(binary)
}

fn compile_launcher(need: Need) -> Result<Arc<OwnedFd>, String> {
    let mut known = LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(launcher) = &*known {
        return Ok(Arc::clone(launcher));
    }
    let scratch = make_scratch_folder()?;
    let folder = Folder::new(scratch.path(), need)?;
    folder.run_gcc(&["-Wl,-z,now", "launcher.c", "-o", "launcher"])?;
    let file = process::create_memory_file(&folder.read_output("launcher")?)
        .map_err(|e| format!("no memory for what was compiled: {e}"))?;
    let launcher = Arc::new(file);
    *known = Some(Arc::clone(&launcher));
    Ok(launcher)
}

fn make_scratch_folder() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))
}

/// Compiles and links a governor in a folder. Also returns gcc's warnings.
fn build_image(
    source: &Source,
    tick: TickRate,
    folder: &Folder<'_>,
) -> Result<(Image, Option<String>), String> {
    write_source_and_headers(source, folder)?;
    let output = compile_governor_and_server(tick, folder)?;
    link_program(source, folder)?;
    let image = Image::from_elf(&folder.read_output("program")?)?;
    Ok((image, select_warnings(&output)))
}

/// Writes the governor's text, and a stand-in for each kernel header that the text includes, to the
/// folder.
fn write_source_and_headers(source: &Source, folder: &Folder<'_>) -> Result<(), String> {
    for header in source.kernel_headers() {
        let path = format!("kernel/{header}");
        folder.write_file(&path, "#include \"cpuidle_standin.h\"\n")?;
    }
    let name = source.name.replace(['"', '\\'], "");
    let text = format!("#line 1 \"{name}\"\n{}", source.text);
    folder.write_file(GOVERNOR, &text)
}

/// Compiles and checks the governor, then compiles the server that answers questions. Returns gcc's
/// output for the governor.
fn compile_governor_and_server(tick: TickRate, folder: &Folder<'_>) -> Result<String, String> {
    let hz = format!("-DHZ={}", tick.hz());
    let mut kernel_flags = vec![&*hz, "-I."];
    kernel_flags.extend(AS_KERNEL);
    kernel_flags.extend(NO_FLOATS);
    // Only the governor itself finds our stand-ins where the kernel's headers would be.
    let governor_flags = [
        "-Ikernel",
        "-MD",
        "-MF",
        "read.d",
        "-Wa,--MD,assembled.d",
        "-c",
        GOVERNOR,
    ];
    let output = folder.run_gcc(&[&kernel_flags[..], &WARNINGS, &governor_flags].concat())?;
    check_included_files(folder)?;
    image::refuse_non_kernel_features(&folder.read_output("governor.o")?)?;
    // gcc would turn loops into calls of memset() and memcpy(), but the loops are what implements
    // these functions.
    let server_flags = ["-fno-tree-loop-distribute-patterns", "-c", "serve.c"];
    folder.run_gcc(&[&kernel_flags[..], &server_flags].concat())?;
    Ok(output)
}

fn link_program(source: &Source, folder: &Folder<'_>) -> Result<(), String> {
    let base = format!("-Wl,-Ttext-segment={:#x}", image::BASE);
    let linked = folder.run_gcc(&[
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
    match linked {
        Ok(_) => Ok(()),
        // The linker's messages have the name of the source's copy; users know the source's name.
        Err(error) => Err(error.replace(&format!("{GOVERNOR}:"), &format!("{}:", source.name))),
    }
}

/// Refuses sources that read files other than the given ones, judged by the dependencies that gcc and the assembler
/// report.
fn check_included_files(folder: &Folder<'_>) -> Result<(), String> {
    let compiled = folder.read_dependency_names("read.d")?;
    let outside = compiled
        .iter()
        .find(|name| name.starts_with('/') || name.split('/').any(|part| part == ".."));
    if let Some(name) = outside {
        return Err(format!(
            "it includes {}, which is outside of its folder; copy what it needs to a file beside it",
            printable_text(name)
        ));
    }
    let assembled = folder.read_dependency_names("assembled.d")?;
    if assembled.iter().all(|name| folder.is_assembler_input(name)) {
        Ok(())
    } else {
        Err(
            "its asm() reads files (.incbin or .include), which a governor has no reason for"
                .to_owned(),
        )
    }
}

/// Folder in which a governor is compiled, with the compiler's confinement.
struct Folder<'a> {
    path: &'a Path,
    files: Files,
    need: Need,
}

impl<'a> Folder<'a> {
    fn new(path: &'a Path, need: Need) -> Result<Self, String> {
        let files = Files {
            read: folders_of_foreign_compiler(),
            write: vec![path.to_owned()],
        };
        let folder = Self { path, files, need };
        for (name, text) in FILES {
            folder.write_file(name, text)?;
        }
        Ok(folder)
    }

    fn write_file(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.path.join(name);
        let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = parent.and_then(|()| fs::write(&path, text));
        written.map_err(|e| format!("{}: {e}", path.display()))
    }

    fn read_output(&self, name: &str) -> Result<Vec<u8>, String> {
        fs::read(self.path.join(name)).map_err(|e| format!("what gcc made ({name}): {e}"))
    }

    /// Reads a list of dependencies as gcc writes it for make, and returns the names.
    fn read_dependency_names(&self, list: &str) -> Result<Vec<String>, String> {
        let content = self.read_output(list)?;
        let text = String::from_utf8_lossy(&content).replace("\\\n", " ");
        let names = text.split_once(": ").map_or("", |(_, names)| names);
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    /// Whether a file name in gcc's list is what gcc passes to the assembler: the source's name, or
    /// a temporary file in this folder.
    fn is_assembler_input(&self, name: &str) -> bool {
        let path = Path::new(name);
        let is_temporary =
            path.starts_with(self.path) && path.extension().is_some_and(|end| end == "s");
        name == GOVERNOR || is_temporary
    }

    /// Runs gcc in the folder, confined, and returns its output.
    ///
    /// # Errors
    ///
    /// The first error of gcc, with advice.
    fn run_gcc(&self, arguments: &[&str]) -> Result<String, String> {
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
        sandbox::confine_command(&mut compiler, LIMITS, &self.files, self.need)?;
        let finished =
            process::spawn_from_lasting_thread(compiler).and_then(|mut child| child.wait());
        let status = finished.map_err(|e| {
            format!("cannot run gcc, which C code needs ({e}): `apt install gcc libc6-dev`, `dnf install gcc`, `zypper install gcc`")
        })?;
        let mut bytes = Vec::new();
        _ = File::open(&errors).and_then(|file| file.take(MAX_OUTPUT).read_to_end(&mut bytes));
        let output = String::from_utf8_lossy(&bytes).into_owned();
        if status.success() {
            return Ok(output);
        }
        Err(describe_first_error(&output).unwrap_or_else(|| {
            format!("gcc ended with {status}; it may use 60 s of processor time and 4 GB of memory")
        }))
    }
}

/// Folders of a gcc outside the system: the program's folder, and the folder above.
fn folders_of_foreign_compiler() -> Vec<PathBuf> {
    let search_path = env::var_os("PATH").unwrap_or_default();
    let gcc =
        env::split_paths(&search_path).find_map(|folder| folder.join("gcc").canonicalize().ok());
    match gcc {
        Some(gcc) if !sandbox::is_readable_by_all(&gcc) => {
            let folders = gcc.ancestors().skip(1).take(2);
            let below_root = folders.filter(|folder| folder.parent().is_some());
            below_root.map(Path::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// gcc's output, shortened for people; `None` if it has no warnings.
fn select_warnings(output: &str) -> Option<String> {
    if !output.contains("warning: ") {
        return None;
    }
    let lines: Vec<&str> = output.lines().collect();
    let mut shown: Vec<String> = lines
        .iter()
        .take(WARNING_LINES)
        .map(|line| printable_text(line))
        .collect();
    if lines.len() > WARNING_LINES {
        shown.push(format!(
            "... and {} more lines",
            lines.len() - WARNING_LINES
        ));
    }
    Some(shown.join("\n"))
}

/// Text in a linker's message before the name of a missing function.
const UNDEFINED: &str = "undefined reference to `";

/// The compiler's first error, with the line of code and advice.
fn describe_first_error(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().collect();
    let at = lines.iter().position(|line| is_error_message(line))?;
    let message = lines[at];
    if message.contains("`wp_initcall'") && message.contains(UNDEFINED) {
        return Some(
            "it compiles, and registers no governor: it needs `postcore_initcall(...)` of a function that calls \
             cpuidle_register_governor()"
                .to_owned(),
        );
    }
    let code: String = lines[at + 1..]
        .iter()
        .take(2)
        .take_while(|line| line.starts_with(' '))
        .flat_map(|line| ["\n", line])
        .collect();
    let text = printable_text(&format!("{message}{code}"));
    Some(format!(
        "it does not compile:\n{text}{}",
        advice_on_error(message)
    ))
}

fn is_error_message(line: &str) -> bool {
    ["error: ", "Error: ", UNDEFINED, "multiple definition of"]
        .iter()
        .any(|sign| line.contains(sign))
}

/// Advice for the author of a governor on a message of the compiler or linker.
fn advice_on_error(message: &str) -> &'static str {
    const MISSING: [&str; 7] = [
        "implicit declaration",
        "undeclared",
        "undefined reference",
        "no member named",
        "incomplete type",
        "unknown type name",
        "No such file",
    ];
    if is_about_floating_point(message) {
        "\nIt computes with floating point, which a governor in the kernel cannot: take whole numbers of a smaller unit."
    } else if message.contains("Permission denied") {
        "\nOnly files in its folder can be read."
    } else if MISSING.iter().any(|sign| message.contains(sign)) {
        "\nThe kernel's headers have stand-ins with what governors of Linux 6.1 to 7.3 use (docs/guides/own-governor.md); what \
         they lack, define in the file itself. There is no C library."
    } else {
        ""
    }
}

/// Whether a message is about floating point: refused by the compiler, or by the linker, which
/// lacks gcc's helpers such as `__adddf3`.
fn is_about_floating_point(message: &str) -> bool {
    let refused = ["SSE", "x87", "general-regs-only", "floating-point"]
        .iter()
        .any(|sign| message.contains(sign));
    let helper = message.split_once(UNDEFINED).map_or("", |(_, name)| name);
    let is_float_helper = helper.starts_with("__")
        && ["sf", "df", "xf", "tf"]
            .iter()
            .any(|kind| helper.contains(kind));
    refused || is_float_helper
}
