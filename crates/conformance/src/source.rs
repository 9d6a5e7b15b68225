//! Obtains the kernel sources to compare with, from Debian's `linux-source-*` packages: those of the suite that this
//! machine runs, and of other suites by an apt configuration that is thrown away afterwards.
//!
//! Only the few files of `FILES` are kept, in a cache outside the repository's history, under the
//! exact Debian version of the package.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rayon::prelude::*;
use rustix::fs::{FlockOperation, flock};
use wakepath_policies::idle::KernelVersion;

use crate::subject::Subject;

/// The kernel versions compared with, as Debian names its source packages.
pub const VERSIONS: [&str; 4] = ["6.1", "6.12", "7.2", "7.3"];

/// A kernel source package of another Debian suite, which this machine's suite may lack.
struct PinnedPackage {
    kernel: &'static str,
    suite: &'static str,
    /// Version of the package that the comparison was made with.
    version: &'static str,
    /// SHA-256 of the package in this version.
    sha256: &'static str,
}

const PINNED: [PinnedPackage; 2] = [
    PinnedPackage {
        kernel: "7.2",
        suite: "sid",
        version: "7.2.13-1",
        sha256: "30a8c5fc63f9028a62e6d7b3f7f43bee67425dbce2a05fceba83f9b87c92083d",
    },
    PinnedPackage {
        kernel: "7.3",
        suite: "trixie-backports",
        version: "7.3.4-1~bpo13+1",
        sha256: "703e369ddd4cce971452f5a593ee55df3a5c10c83caf0fa0df039633ed181ee3",
    },
];

/// Kernel files taken from each source package. `gov.h` exists only in newer ones.
const FILES: [&str; 13] = [
    "Makefile",
    "drivers/cpuidle/cpuidle.c",
    "drivers/cpuidle/governors/gov.h",
    "drivers/cpuidle/governors/haltpoll.c",
    "drivers/cpuidle/governors/ladder.c",
    "drivers/cpuidle/governors/menu.c",
    "drivers/cpuidle/governors/teo.c",
    "drivers/cpufreq/amd-pstate.c",
    "drivers/cpufreq/intel_pstate.c",
    "drivers/nvme/host/core.c",
    "kernel/sched/cpufreq_schedutil.c",
    // checkpatch.pl checks the style of our kernel code.
    "scripts/checkpatch.pl",
    "scripts/spelling.txt",
];

/// Kernel files taken from a single version's source package.
const ALSO: [(&str, &str); 3] = [
    ("6.12", "kernel/sched/pelt.c"),
    ("6.12", "kernel/sched/pelt.h"),
    ("6.12", "kernel/sched/sched-pelt.h"),
];

/// Kernel files that a source package may lack.
const OPTIONAL: [&str; 1] = ["drivers/cpuidle/governors/gov.h"];

/// Unpacked source files of a kernel version.
#[derive(Clone, Debug)]
pub struct KernelSource {
    /// Kernel version as in the package's name, `6.12`.
    pub version: &'static str,
    /// Exact version of the Debian package, `6.12.117-1~deb12u1`.
    pub debian_version: String,
    /// Stable release of the kernel, `6.12.117`, as the source's own Makefile gives it.
    pub release: String,
    /// Folder that holds the files under their paths in the kernel tree.
    pub root: PathBuf,
}

/// Gets the kernel sources of all versions. A source that only another suite than this machine's
/// has may be missing: a warning says so, and the recorded decisions stand in.
///
/// # Errors
///
/// A source that this machine's suite has cannot be had.
pub fn obtain_all_sources(cache: &Path) -> Result<Vec<KernelSource>> {
    let obtained: Vec<_> = VERSIONS
        .par_iter()
        .map(|version| (*version, KernelSource::obtain_source(version, cache)))
        .collect();
    let mut sources = Vec::new();
    for (version, source) in obtained {
        match source {
            Ok(source) => sources.push(source),
            Err(error) if PINNED.iter().any(|package| package.kernel == version) => {
                eprintln!(
                    "warning: {error:#}; of this kernel only recorded decisions are compared"
                );
            }
            Err(error) => return Err(error),
        }
    }
    Ok(sources)
}

impl KernelSource {
    /// Finds the files of a kernel version in the cache, or fills the cache from the installed
    /// package, or from a fresh download.
    pub fn obtain_source(version: &'static str, cache: &Path) -> Result<Self> {
        let package = format!("linux-source-{version}");
        let shelf = cache.join(&package);
        let pinned = PINNED.iter().find(|package| package.kernel == version);
        if let Some(package) = pinned_package_in_cache(pinned, &shelf) {
            return Self::open_unpacked(version, package.version.to_owned(), &shelf);
        }
        // Without a lock, such as on a read-only file system, the same package may be downloaded
        // twice.
        let _lock = lock_cache_folder(&shelf).ok();
        if let Some(package) = pinned_package_in_cache(pinned, &shelf) {
            return Self::open_unpacked(version, package.version.to_owned(), &shelf);
        }
        let origin = match (Origin::find_installed_or_in_apt(&package), pinned) {
            (None, Some(pinned)) => Origin::find_in_other_suite(&package, pinned, &shelf)
                .inspect_err(|error| eprintln!("warning: {package}: {error:#}"))
                .ok(),
            (origin, _) => origin,
        };

        let debian_version = match &origin {
            Some(origin) => origin.package_version().to_owned(),
            None => newest_cached_version(&shelf).ok_or_else(|| {
                anyhow!(
                    "{package} is neither installed, nor in the cache {}, nor known to apt; run \
                     `apt-get update` as root with a network, or install {package}",
                    shelf.display()
                )
            })?,
        };
        let root = shelf.join(&debian_version);
        if !has_required_files(&root, version) {
            let filled = match &origin {
                Some(origin) => origin.unpack_files(version, &shelf),
                None => Ok(()),
            };
            if let Err(error) = filled {
                // An older release of the same kernel is better than no comparison at all.
                let Some(older) = newest_cached_version(&shelf) else {
                    return Err(error.context(format!(
                        "cannot obtain {package} {debian_version}; it needs a network and current \
                         package lists (`apt-get update` as root), or {package} installed"
                    )));
                };
                eprintln!("warning: {error:#}; using {package} {older} from the cache");
                return Self::open_unpacked(version, older, &shelf);
            }
        }
        Self::open_unpacked(version, debian_version, &shelf)
    }

    fn open_unpacked(version: &'static str, debian_version: String, shelf: &Path) -> Result<Self> {
        let root = shelf.join(&debian_version);
        let makefile = root.join("Makefile");
        let text = fs::read_to_string(&makefile)
            .with_context(|| format!("cannot read {}", makefile.display()))?;
        Ok(Self {
            version,
            release: release_from_makefile(&text)
                .with_context(|| makefile.display().to_string())?,
            debian_version,
            root,
        })
    }

    /// Reads the text of a file in the kernel tree.
    pub fn read_file(&self, path: &str) -> Result<String> {
        let full = self.root.join(path);
        fs::read_to_string(&full).with_context(|| format!("cannot read {}", full.display()))
    }

    /// Whether this kernel's code for a subject is compared. Of 7.2 only menu and teo are: apt no
    /// longer has 7.1, and the comparison shows that they are the same from then on.
    pub fn is_compared_for(&self, subject: Subject) -> bool {
        self.version != "7.2" || matches!(subject, Subject::Menu | Subject::Teo)
    }

    /// Release of the kernel source as a policy's version.
    pub fn kernel_version(&self) -> Result<KernelVersion> {
        Ok(self.release.parse()?)
    }

    /// Package and release in words: `linux-source-6.12 6.12.117-1~deb12u1 (Linux 6.12.117)`.
    pub fn describe_package(&self) -> String {
        format!(
            "linux-source-{} {} (Linux {})",
            self.version, self.debian_version, self.release
        )
    }
}

/// Folder where kernel sources are cached: `$WAKEPATH_CACHE`, or `.cache` in the repository.
pub fn source_cache_folder() -> PathBuf {
    std::env::var_os("WAKEPATH_CACHE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache"),
        PathBuf::from,
    )
}

/// Where a kernel source package can be had.
enum Origin {
    /// The package is installed: its archive lies in `/usr/src`.
    Installed { version: String, archive: PathBuf },
    /// apt knows it.
    Apt { package: String, version: String },
    /// Another Debian suite than this machine's has the package.
    Elsewhere {
        package: String,
        version: String,
        apt: OtherSuite,
        pinned: &'static PinnedPackage,
    },
}

impl Origin {
    fn find_installed_or_in_apt(package: &str) -> Option<Self> {
        let archive = PathBuf::from(format!("/usr/src/{package}.tar.xz"));
        if archive.is_file() {
            let query = ["-W", "-f", "${Version}", package];
            if let Some(version) =
                command_output_if_ok("dpkg-query", &query).filter(|v| !v.is_empty())
            {
                return Some(Self::Installed { version, archive });
            }
        }
        let policy = command_output_if_ok("apt-cache", &["policy", package])?;
        let candidate = candidate_version(&policy)?;
        Some(Self::Apt {
            package: package.to_owned(),
            version: candidate.to_owned(),
        })
    }

    fn find_in_other_suite(
        package: &str,
        pinned: &'static PinnedPackage,
        shelf: &Path,
    ) -> Result<Self> {
        let apt = OtherSuite::download_package_lists(pinned.suite, shelf)?;
        let policy = command_output(apt.apt_command("apt-cache").args(["policy", package]))?;
        let version = candidate_version(&policy)
            .with_context(|| format!("{} has no {package}", pinned.suite))?;
        Ok(Self::Elsewhere {
            package: package.to_owned(),
            version: version.to_owned(),
            apt,
            pinned,
        })
    }

    fn package_version(&self) -> &str {
        match self {
            Self::Installed { version, .. }
            | Self::Apt { version, .. }
            | Self::Elsewhere { version, .. } => version,
        }
    }

    /// Unpacks the wanted kernel files to `shelf/VERSION`, which appears only when it is complete.
    fn unpack_files(&self, kernel: &str, shelf: &Path) -> Result<()> {
        fs::create_dir_all(shelf).with_context(|| format!("cannot create {}", shelf.display()))?;
        let scratch = tempfile::tempdir_in(shelf)?;
        let archive = self.fetch_archive(scratch.path())?;
        let tree = scratch.path().join("tree");
        extract_files(kernel, &archive, &tree)?;
        let place = shelf.join(self.package_version());
        // An older wakepath took fewer files, so that the cached folder is incomplete.
        if place.is_dir() && !has_required_files(&place, kernel) {
            fs::remove_dir_all(&place)
                .with_context(|| format!("cannot remove {}", place.display()))?;
        }
        match fs::rename(&tree, &place) {
            // Another process has unpacked the same package meanwhile.
            Err(_) if has_required_files(&place, kernel) => Ok(()),
            renamed => Ok(renamed?),
        }
    }

    /// Path of the archive with the kernel's sources, downloaded to a folder if the package is not
    /// installed.
    fn fetch_archive(&self, folder: &Path) -> Result<PathBuf> {
        match self {
            Self::Installed { archive, .. } => Ok(archive.clone()),
            Self::Apt { package, version } => {
                eprintln!("downloading {package} {version} (once; about 150 MB)");
                let mut apt = Command::new("apt-get");
                download_and_extract_archive(&mut apt, package, version, None, folder)
            }
            Self::Elsewhere {
                package,
                version,
                apt,
                pinned,
            } => {
                eprintln!(
                    "downloading {package} {version} of {} (once; about 160 MB)",
                    pinned.suite
                );
                let sha256 = (*version == pinned.version).then_some(pinned.sha256);
                if sha256.is_none() {
                    eprintln!(
                        "warning: {package} {} is no longer there; {version} is compared instead",
                        pinned.version
                    );
                }
                let mut apt = apt.apt_command("apt-get");
                download_and_extract_archive(&mut apt, package, version, sha256, folder)
            }
        }
    }
}

/// Extracts the wanted files of a kernel's archive to a new folder.
fn extract_files(kernel: &str, archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    let names = files_of_kernel(kernel).map(|file| format!("linux-source-{kernel}/{file}"));
    // tar fails when an optional file is missing, so the files that are there decide.
    let tar = Command::new("tar")
        .arg("-xJf")
        .arg(archive)
        .arg("-C")
        .arg(folder)
        .args(["--strip-components=1", "--occurrence=1"])
        .args(names)
        .stderr(Stdio::null())
        .status()
        .context("cannot run tar")?;
    for file in required_files_of_kernel(kernel) {
        ensure!(
            folder.join(file).is_file(),
            "{} has no {file} (tar: {tar})",
            archive.display()
        );
    }
    Ok(())
}

/// The pinned package of another suite, if the cache has its version complete.
fn pinned_package_in_cache(
    pinned: Option<&'static PinnedPackage>,
    shelf: &Path,
) -> Option<&'static PinnedPackage> {
    pinned.filter(|package| has_required_files(&shelf.join(package.version), package.kernel))
}

/// Locks a folder of the cache against other threads and processes, waiting for them, until the
/// file is closed: whoever is first downloads.
fn lock_cache_folder(shelf: &Path) -> Result<File> {
    fs::create_dir_all(shelf)?;
    let file = File::create(shelf.join("lock"))?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Files that are taken from a kernel's source package.
fn files_of_kernel(kernel: &str) -> impl Iterator<Item = &'static str> {
    let also = ALSO
        .into_iter()
        .filter(move |(version, _)| *version == kernel);
    FILES.into_iter().chain(also.map(|(_, file)| file))
}

fn required_files_of_kernel(kernel: &str) -> impl Iterator<Item = &'static str> {
    files_of_kernel(kernel).filter(|file| !OPTIONAL.contains(file))
}

/// Whether all necessary kernel files are unpacked below `root`.
fn has_required_files(root: &Path, kernel: &str) -> bool {
    required_files_of_kernel(kernel).all(|file| root.join(file).is_file())
}

/// Downloads a source package without installing it, and extracts the archive of the sources. A
/// given SHA-256 must match.
fn download_and_extract_archive(
    apt: &mut Command,
    package: &str,
    version: &str,
    sha256: Option<&str>,
    into: &Path,
) -> Result<PathBuf> {
    let apt = apt
        .args(["-q", "download", &format!("{package}={version}")])
        .current_dir(into)
        .stdout(Stdio::null())
        .output()
        .context("cannot run apt-get")?;
    ensure!(
        apt.status.success(),
        "`apt-get download {package}={version}` failed: {}",
        String::from_utf8_lossy(&apt.stderr).trim()
    );
    let deb = fs::read_dir(into)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .ok_or_else(|| anyhow!("`apt-get download {package}` left no package behind"))?;
    if let Some(expected) = sha256 {
        let sums = command_output(Command::new("sha256sum").arg(&deb))?;
        ensure!(
            sums.split_whitespace().next() == Some(expected),
            "{package} {version} is not the package that the comparison was made with: its SHA-256 is {sums}, not \
             {expected}"
        );
    }

    let mut contents = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(&deb)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run dpkg-deb")?;
    let stdout = contents
        .stdout
        .take()
        .ok_or_else(|| anyhow!("no pipe from dpkg-deb"))?;
    let member = format!("./usr/src/{package}.tar.xz");
    let tar = Command::new("tar")
        .args(["-xf", "-", "-C"])
        .arg(into)
        .arg(&member)
        .stdin(stdout)
        .status()
        .context("cannot run tar")?;
    if !contents.wait()?.success() || !tar.success() {
        bail!("cannot take {member} out of {}", deb.display());
    }
    Ok(into.join(member))
}

/// apt's view of another Debian suite, in a temporary folder. The system's configuration and lists
/// stay unchanged.
struct OtherSuite {
    folder: tempfile::TempDir,
}

impl OtherSuite {
    /// Downloads the package lists of a suite from the archive that this machine uses, signed as
    /// Debian's suites are.
    fn download_package_lists(suite: &str, shelf: &Path) -> Result<Self> {
        const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
        ensure!(
            Path::new(KEYRING).is_file(),
            "no {KEYRING} (package debian-archive-keyring)"
        );
        let archive = configured_debian_archive().context("apt knows no archive of Debian's")?;
        fs::create_dir_all(shelf).with_context(|| format!("cannot create {}", shelf.display()))?;
        let other = Self {
            folder: tempfile::tempdir_in(shelf)?,
        };
        for folder in ["lists/partial", "cache/archives/partial", "parts"] {
            fs::create_dir_all(other.folder.path().join(folder))?;
        }
        fs::write(
            other.folder.path().join("sources.list"),
            format!("deb [signed-by={KEYRING}] {archive} {suite} main\n"),
        )?;
        command_output(other.apt_command("apt-get").args(["-q", "update"]))
            .with_context(|| format!("cannot get the package lists of {suite}"))?;
        Ok(other)
    }

    fn apt_command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (key, name) in [
            ("Dir::State::lists", "lists"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "parts"),
        ] {
            let path = self.folder.path().join(name);
            command.arg("-o").arg(format!("{key}={}", path.display()));
        }
        command.args(["-o", "Acquire::Languages=none", "-o", "Acquire::Retries=1"]);
        command
    }
}

/// Address of the Debian archive that apt is configured for on this machine.
fn configured_debian_archive() -> Option<String> {
    let format = ["indextargets", "--format", "$(REPO_URI)", "Origin: Debian"];
    let archives = command_output_if_ok("apt-get", &format)?;
    let mut plain = archives.lines().filter(|uri| !uri.contains("security"));
    plain.next().map(str::to_owned)
}

/// Output of a command, trimmed; `None` when the command is missing or failed.
fn command_output_if_ok(command: &str, args: &[&str]) -> Option<String> {
    command_output(Command::new(command).args(args)).ok()
}

/// Runs a command and returns its output, trimmed.
fn command_output(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    // apt-cache names the field differently in another language.
    let output = command
        .env("LC_ALL", "C")
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Candidate version in the output of `apt-cache policy`; `None` if there is none.
fn candidate_version(policy: &str) -> Option<&str> {
    policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"))
        .map(str::trim)
        .filter(|version| *version != "(none)")
}

/// Version of a source package that was put into the cache last.
fn newest_cached_version(shelf: &Path) -> Option<String> {
    fs::read_dir(shelf)
        .ok()?
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("Makefile").is_file())
        .max_by_key(|entry| entry.metadata().and_then(|m| m.modified()).ok())
        .and_then(|entry| entry.file_name().into_string().ok())
}

/// Release of a kernel from its top Makefile: `VERSION.PATCHLEVEL.SUBLEVEL`.
fn release_from_makefile(makefile: &str) -> Result<String> {
    let [version, patchlevel, sublevel] = [
        value_in_makefile(makefile, "VERSION")?,
        value_in_makefile(makefile, "PATCHLEVEL")?,
        value_in_makefile(makefile, "SUBLEVEL")?,
    ];
    Ok(format!("{version}.{patchlevel}.{sublevel}"))
}

fn value_in_makefile<'a>(makefile: &'a str, name: &str) -> Result<&'a str> {
    makefile
        .lines()
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
        .ok_or_else(|| anyhow!("no {name} in the kernel's Makefile"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_comes_from_the_makefile() {
        let makefile = "# x\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n";
        assert_eq!(
            release_from_makefile(makefile).ok().as_deref(),
            Some("6.12.117")
        );
        assert!(release_from_makefile("VERSION = 6\n").is_err());
    }

    #[test]
    fn the_candidate_comes_from_apt() {
        let policy = "linux-source-6.1:\n  Installed: (none)\n  Candidate: 6.1.192-2\n";
        assert_eq!(candidate_version(policy), Some("6.1.192-2"));
        assert_eq!(candidate_version("x:\n  Candidate: (none)\n"), None);
        assert_eq!(candidate_version(""), None);
    }
}
