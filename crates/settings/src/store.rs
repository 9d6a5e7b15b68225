//! The directory of lock and journal: only its owner may look into it or write there, and no link in it is
//! followed.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use wakepath_system::journal::{DIRECTORY, FILE, LOCK, directory, owner, read};
use wakepath_system::{Root, SystemError};

use crate::SettingsError;

/// How often, and with what pauses, to try again to get it.
const LOOKS: usize = 5;
const LOOK: Duration = Duration::from_millis(10);
/// The directory, with the lock held.
#[derive(Debug)]
pub(crate) struct Store {
    directory: OwnedFd,
    path: PathBuf,
    /// What was made below a captured machine, the outermost first: an apply that is refused leaves nothing behind.
    made: Vec<PathBuf>,
    /// Whether a journal was kept in it.
    used: Cell<bool>,
    /// Held as long as it is open.
    lock: File,
}

impl Drop for Store {
    fn drop(&mut self) {
        let is_empty = || matches!(read(&self.directory, FILE), Ok(None));
        if self.made.is_empty() || self.used.get() || !is_empty() {
            return;
        }
        let _ = rustix::fs::unlinkat(&self.directory, LOCK, AtFlags::empty());
        for folder in self.made.iter().rev() {
            // One that is not empty stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl Store {
    /// Makes the directory if needed, and takes the lock.
    pub(crate) fn open(root: &Root) -> Result<Self, SettingsError> {
        let path = root.path(DIRECTORY);
        let made = if root.is_live() {
            Vec::new()
        } else {
            missing(root)
        };
        let directory = private_directory(root, &path)?;
        let lock = lock(&directory, &path)?;
        Ok(Self {
            directory,
            path,
            made,
            used: Cell::new(false),
            lock,
        })
    }

    /// The directory under a lock lent by another process.
    ///
    /// # Errors
    /// The file is not this directory's lock, or not held by the lender.
    pub(crate) fn lent(root: &Root, lock: OwnedFd) -> Result<Self, SettingsError> {
        let path = root.path(DIRECTORY);
        let directory = private_directory(root, &path)?;
        let own = rustix::fs::statat(&directory, LOCK, AtFlags::SYMLINK_NOFOLLOW).ok();
        let given = rustix::fs::fstat(&lock).ok();
        let is_own = own
            .zip(given)
            .is_some_and(|(own, given)| (own.st_dev, own.st_ino) == (given.st_dev, given.st_ino));
        // Descriptors that were inherited share the lock, so that taking it again succeeds.
        if !is_own || rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(SettingsError::Unsafe {
                path: path.join(LOCK),
                why: "standard input is not this lock, held by the process that lends it"
                    .to_owned(),
            });
        }
        Ok(Self {
            directory,
            path,
            made: Vec::new(),
            used: Cell::new(false),
            lock: File::from(lock),
        })
    }

    /// Another descriptor of the lock, for a process that works under it.
    pub(crate) fn lend(&self) -> io::Result<OwnedFd> {
        self.lock.try_clone().map(OwnedFd::from)
    }

    /// The path of a file, for messages.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The content of a file; `None` if it does not exist.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SettingsError> {
        read(&self.directory, name).map_err(|source| {
            let path = self.path(name);
            SystemError::Read { path, source }.into()
        })
    }

    /// Puts a file in place of the one of the same name, so that after a crash at any moment one of the
    /// two is there, whole.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), SettingsError> {
        self.used.set(true);
        let write = || -> io::Result<()> {
            let new = format!("{name}.new");
            // Left over from a crash.
            match rustix::fs::unlinkat(&self.directory, &new, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.directory, &new, flags, owner_only())?;
            let mut file = File::from(file);
            file.write_all(content)?;
            file.sync_all()?;
            rustix::fs::renameat(&self.directory, &new, &self.directory, name)?;
            rustix::fs::fsync(&self.directory).map_err(io::Error::from)
        };
        write().map_err(|source| {
            // Half of it is of no use, and takes room that may be what was lacking.
            let _ = rustix::fs::unlinkat(&self.directory, format!("{name}.new"), AtFlags::empty());
            self.not_written(name, format!("{} bytes", content.len()), source)
        })
    }

    /// Says that what was kept here is of no more use.
    pub(crate) fn was_for_nothing(&self) {
        self.used.set(false);
    }

    /// Removes a file; it is no error if there is none.
    pub(crate) fn remove(&self, name: &str) -> Result<(), SettingsError> {
        let remove = || match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {
                rustix::fs::fsync(&self.directory).map_err(io::Error::from)
            }
            Err(e) => Err(e.into()),
        };
        remove()
            .map_err(|source| self.not_written(name, "nothing, by removing it".to_owned(), source))
    }

    fn not_written(&self, name: &str, value: String, source: io::Error) -> SettingsError {
        let path = self.path(name);
        SystemError::Write {
            path,
            value,
            source,
        }
        .into()
    }
}

fn owner_only() -> Mode {
    Mode::RUSR | Mode::WUSR
}

/// The folders of the directory below a captured machine that are not there, the outermost first.
fn missing(root: &Root) -> Vec<PathBuf> {
    let above = Path::new(DIRECTORY).ancestors();
    let mut folders: Vec<PathBuf> = above
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| root.path(&folder.to_string_lossy()))
        .filter(|folder| folder.symlink_metadata().is_err())
        .collect();
    folders.reverse();
    folders
}

/// Opens the directory, which has to be a real one that only we may write to.
fn private_directory(root: &Root, path: &Path) -> Result<OwnedFd, SettingsError> {
    let not_safe = |why: String| SettingsError::Unsafe {
        path: path.to_owned(),
        why,
    };
    let cannot = |e: io::Error| not_safe(format!("cannot keep a journal of old values here: {e}"));
    let opened = directory(root, true).map_err(|error| {
        let in_the_way = [Errno::LOOP, Errno::NOTDIR].map(Errno::raw_os_error);
        let is_in_the_way = error.kind() == io::ErrorKind::InvalidInput
            || error
                .raw_os_error()
                .is_some_and(|code| in_the_way.contains(&code));
        if is_in_the_way {
            not_safe("is a link or no directory, or is below one; remove it".to_owned())
        } else {
            cannot(error)
        }
    })?;
    let opened = opened.ok_or_else(|| cannot(Errno::NOENT.into()))?;
    let about = rustix::fs::fstat(&opened).map_err(|e| cannot(e.into()))?;
    let me = rustix::process::geteuid().as_raw();
    if about.st_uid != me {
        return Err(not_safe(format!(
            "belongs to user {}, not to {me}, who runs this; remove it",
            about.st_uid
        )));
    }
    if about.st_mode & 0o022 != 0 {
        return Err(not_safe(
            "others may write there; make it private: chmod 700".to_owned(),
        ));
    }
    Ok(opened)
}

fn lock(directory: &OwnedFd, path: &Path) -> Result<File, SettingsError> {
    let file = path.join(LOCK);
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, LOCK, flags, owner_only()).map_err(|e| {
        let why = match e {
            Errno::LOOP => "is a link; remove it".to_owned(),
            e => format!("cannot be opened: {e}"),
        };
        SettingsError::Unsafe {
            path: file.clone(),
            why,
        }
    })?;
    let mut opened = File::from(opened);
    let taken = || rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).is_err();
    // Who only looks who has it, has it for a moment.
    if taken()
        && (0..LOOKS).all(|_| {
            std::thread::sleep(LOOK);
            taken()
        })
    {
        let owner = owner(&mut opened);
        let owner = owner.map_or_else(String::new, |pid| format!(" (process {pid})"));
        return Err(SettingsError::Locked { path: file, owner });
    }
    // Only for the message above: what counts is the lock.
    let _ = opened
        .set_len(0)
        .and_then(|()| opened.write_all(std::process::id().to_string().as_bytes()));
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path());
        (directory, root)
    }

    #[test]
    fn the_directory_is_private_and_the_lock_exclusive() {
        let (_directory, root) = root();
        let store = Store::open(&root).unwrap();
        let mode = std::fs::metadata(root.path(DIRECTORY))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        let message = Store::open(&root).unwrap_err().to_string();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        drop(store);
        Store::open(&root).unwrap();
    }

    #[test]
    fn what_was_made_for_nothing_goes_again() {
        let (directory, root) = root();
        let names = || std::fs::read_dir(directory.path()).unwrap().count();
        drop(Store::open(&root).unwrap());
        assert_eq!(names(), 0);
        std::fs::create_dir_all(root.path("var/log")).unwrap();
        drop(Store::open(&root).unwrap());
        assert_eq!(root.names("var"), ["log"]);
        let store = Store::open(&root).unwrap();
        store.replace(FILE, b"{}").unwrap();
        drop(store);
        assert!(root.exists("var/lib/wakepath/journal.json"));
        // It was there before.
        let store = Store::open(&root).unwrap();
        store.remove(FILE).unwrap();
        drop(store);
        assert!(root.exists("var/lib/wakepath/lock"));
    }

    #[test]
    fn a_journal_that_is_no_file_is_refused_at_once() {
        let (_directory, root) = root();
        let store = Store::open(&root).unwrap();
        let fifo = root.path("var/lib/wakepath/journal.json");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            owner_only(),
            0,
        )
        .unwrap();
        let message = store.read(FILE).unwrap_err().to_string();
        assert!(message.contains("FIFO"), "{message}");
    }

    #[test]
    fn links_and_open_directories_are_refused() {
        let (_directory, root) = root();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path("var/lib")).unwrap();
        symlink(elsewhere.path(), root.path(DIRECTORY)).unwrap();
        let message = Store::open(&root).unwrap_err().to_string();
        assert!(message.contains("is a link"), "{message}");

        std::fs::remove_file(root.path(DIRECTORY)).unwrap();
        std::fs::create_dir(root.path(DIRECTORY)).unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(root.path(DIRECTORY), open).unwrap();
        let message = Store::open(&root).unwrap_err().to_string();
        assert!(message.contains("others may write"), "{message}");

        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(root.path(DIRECTORY), private).unwrap();
        let target = elsewhere.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, root.path(DIRECTORY).join(LOCK)).unwrap();
        let message = Store::open(&root).unwrap_err().to_string();
        assert!(message.contains("is a link"), "{message}");

        std::fs::remove_file(root.path(DIRECTORY).join(LOCK)).unwrap();
        symlink(&target, root.path(DIRECTORY).join("j.new")).unwrap();
        symlink(&target, root.path(DIRECTORY).join("j")).unwrap();
        let store = Store::open(&root).unwrap();
        assert!(store.read("j").is_err());
        store.replace("j", b"mine").unwrap();
        assert_eq!(store.read("j").unwrap().unwrap(), b"mine");
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    }
}
