//! The directory of lock and journal. Only the owner may read and write there, and no link is followed.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use wakepath_system::journal::{
    DIRECTORY, FILE, LOCK, open_journal_directory, read_journal_directory_file,
    read_pid_in_lock_file,
};
use wakepath_system::{Root, SystemError};

use crate::SettingsError;
use crate::lend::borrow_lock_from_daemon;

/// Number of attempts to take the lock.
const RETRIES: usize = 5;
/// Pause between two attempts to take the lock.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// The directory of lock and journal, with the lock held.
#[derive(Debug)]
pub(crate) struct LockedJournalDirectory {
    directory: OwnedFd,
    path: PathBuf,
    /// Folders that were made below a captured machine, the outermost first: an apply that is refused removes them.
    made: Vec<PathBuf>,
    /// Whether a journal was kept in the directory.
    used: Cell<bool>,
    /// The file whose lock is held, as long as it is open.
    lock: File,
    /// The daemon that has lent the lock, and waits until this connection is closed.
    lender: Option<UnixStream>,
}

impl Drop for LockedJournalDirectory {
    fn drop(&mut self) {
        if self.made.is_empty() || self.used.get() {
            return;
        }
        if !matches!(read_journal_directory_file(&self.directory, FILE), Ok(None)) {
            return;
        }
        let _ = rustix::fs::unlinkat(&self.directory, LOCK, AtFlags::empty());
        for folder in self.made.iter().rev() {
            // A folder that has got other files stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl LockedJournalDirectory {
    /// Makes the directory if needed, opens it, and takes the lock.
    pub(crate) fn open_locked(root: &Root) -> Result<Self, SettingsError> {
        let path = root.absolute_path(DIRECTORY);
        let made = if root.is_live() {
            Vec::new()
        } else {
            list_missing_journal_folders(root)
        };
        let directory = make_and_open_private_directory(root, &path)?;
        let lock = take_lock_and_note_pid(&directory, &path)?;
        Ok(Self {
            directory,
            path,
            made,
            used: Cell::new(false),
            lock,
            lender: None,
        })
    }

    /// Opens the directory under a lock that another process has lent.
    ///
    /// # Errors
    /// The file is not this directory's lock, or not held by the lender.
    pub(crate) fn open_with_lent_lock(root: &Root, lock: OwnedFd) -> Result<Self, SettingsError> {
        let path = root.absolute_path(DIRECTORY);
        let directory = make_and_open_private_directory(root, &path)?;
        let own = rustix::fs::statat(&directory, LOCK, AtFlags::SYMLINK_NOFOLLOW).ok();
        let given = rustix::fs::fstat(&lock).ok();
        let is_own = own
            .zip(given)
            .is_some_and(|(own, given)| (own.st_dev, own.st_ino) == (given.st_dev, given.st_ino));
        // Inherited descriptors share the lock, so that trying to take it again succeeds.
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
            lender: None,
        })
    }

    /// Opens the directory under a lock that the daemon lends; `None` if no daemon lends it.
    ///
    /// # Errors
    /// What the daemon has lent is not this directory's lock.
    pub(crate) fn open_with_daemon_lock(root: &Root) -> Result<Option<Self>, SettingsError> {
        let Some(borrowed) = borrow_lock_from_daemon(root) else {
            return Ok(None);
        };
        let mut opened = Self::open_with_lent_lock(root, borrowed.lock)?;
        opened.lender = Some(borrowed.lender);
        Ok(Some(opened))
    }

    /// The held lock, for a borrower.
    pub(crate) fn lock_descriptor(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Another descriptor of the held lock, for a tenant.
    pub(crate) fn clone_lock_descriptor(&self) -> io::Result<OwnedFd> {
        self.lock.try_clone().map(OwnedFd::from)
    }

    /// The path of a file in the directory, for messages.
    pub(crate) fn file_path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file in the directory; `None` if it does not exist.
    pub(crate) fn read_file(&self, name: &str) -> Result<Option<Vec<u8>>, SettingsError> {
        read_journal_directory_file(&self.directory, name).map_err(|source| {
            let path = self.file_path(name);
            SystemError::Read { path, source }.into()
        })
    }

    /// Replaces a file in the directory. After a crash at any moment the old or the new file is there, whole.
    pub(crate) fn replace_file_atomically(
        &self,
        name: &str,
        content: &[u8],
    ) -> Result<(), SettingsError> {
        self.used.set(true);
        replace_file_durably_in(&self.directory, name, content, owner_only_permissions()).map_err(
            |source| {
                // Half a file is removed: it is of no use, and takes room that may have been lacking.
                let _ =
                    rustix::fs::unlinkat(&self.directory, temporary_name(name), AtFlags::empty());
                self.write_error_for(name, format!("{} bytes", content.len()), source)
            },
        )
    }

    /// Marks the directory as unused again, so that it is removed at the end.
    pub(crate) fn mark_unused_for_removal(&self) {
        self.used.set(false);
    }

    /// Removes a file from the directory, if present.
    pub(crate) fn remove_file_if_present(&self, name: &str) -> Result<(), SettingsError> {
        remove_file_if_present_in(&self.directory, name)
            .and_then(|()| Ok(rustix::fs::fsync(&self.directory)?))
            .map_err(|source| {
                self.write_error_for(name, "nothing, by removing it".to_owned(), source)
            })
    }

    fn write_error_for(&self, name: &str, value: String, source: io::Error) -> SettingsError {
        let path = self.file_path(name);
        SystemError::Write {
            path,
            value,
            source,
        }
        .into()
    }
}

/// The temporary name of a file until it takes the place of the old one.
fn temporary_name(name: &str) -> String {
    format!("{name}.new")
}

/// Replaces a file in a directory. After a crash at any moment the old or the new file is there, whole.
///
/// # Errors
/// The system's.
pub(crate) fn replace_file_durably_in(
    directory: &OwnedFd,
    name: &str,
    content: &[u8],
    mode: Mode,
) -> io::Result<()> {
    let new = &temporary_name(name);
    // A crash may have left a temporary file behind.
    remove_file_if_present_in(directory, new)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(directory, new, flags, mode)?);
    file.write_all(content)?;
    file.sync_all()?;
    rustix::fs::renameat(directory, new, directory, name)?;
    Ok(rustix::fs::fsync(directory)?)
}

/// Removes a file from a directory, if present.
pub(crate) fn remove_file_if_present_in(directory: &OwnedFd, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Permissions of files that only their owner may read and write.
pub(crate) fn owner_only_permissions() -> Mode {
    Mode::RUSR | Mode::WUSR
}

/// The missing folders of the directory's path below a captured machine, the outermost first.
fn list_missing_journal_folders(root: &Root) -> Vec<PathBuf> {
    let above = Path::new(DIRECTORY).ancestors();
    let mut folders: Vec<PathBuf> = above
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| root.absolute_path(&folder.to_string_lossy()))
        .filter(|folder| folder.symlink_metadata().is_err())
        .collect();
    folders.reverse();
    folders
}

/// Opens the directory of lock and journal, made if needed. Only this user may write there, and no link is followed.
fn make_and_open_private_directory(root: &Root, path: &Path) -> Result<OwnedFd, SettingsError> {
    let opened = open_journal_directory(root, true).map_err(|error| {
        let in_the_way = [Errno::LOOP, Errno::NOTDIR].map(Errno::raw_os_error);
        let is_in_the_way = error.kind() == io::ErrorKind::InvalidInput
            || error
                .raw_os_error()
                .is_some_and(|code| in_the_way.contains(&code));
        if is_in_the_way {
            unsafe_directory_error(
                path,
                "is a link or no directory, or is below one; remove it".to_owned(),
            )
        } else {
            cannot_keep_journal_error(path, &error)
        }
    })?;
    let opened = opened.ok_or_else(|| cannot_keep_journal_error(path, &Errno::NOENT.into()))?;
    let about =
        rustix::fs::fstat(&opened).map_err(|e| cannot_keep_journal_error(path, &e.into()))?;
    let me = rustix::process::geteuid().as_raw();
    if about.st_uid != me {
        return Err(unsafe_directory_error(
            path,
            format!(
                "belongs to user {}, not to {me}, who runs this; remove it",
                about.st_uid
            ),
        ));
    }
    if about.st_mode & 0o022 != 0 {
        return Err(unsafe_directory_error(
            path,
            "others may write there; make it private: chmod 700".to_owned(),
        ));
    }
    Ok(opened)
}

fn unsafe_directory_error(path: &Path, why: String) -> SettingsError {
    SettingsError::Unsafe {
        path: path.to_owned(),
        why,
    }
}

fn cannot_keep_journal_error(path: &Path, error: &io::Error) -> SettingsError {
    unsafe_directory_error(
        path,
        format!(
            "cannot keep a journal of old values here: {error}{}",
            advice_on_missing_right(error)
        ),
    )
}

/// What to do where the user may not write: mostly, root is needed.
fn advice_on_missing_right(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; changing settings needs root: run it with sudo",
        _ => "",
    }
}

/// Takes the lock on a machine's settings.
///
/// # Errors
/// Another process has the lock, or its file cannot be opened.
fn take_lock_and_note_pid(directory: &OwnedFd, path: &Path) -> Result<File, SettingsError> {
    let file = path.join(LOCK);
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened =
        rustix::fs::openat(directory, LOCK, flags, owner_only_permissions()).map_err(|e| {
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
    if !lock_with_retries(&opened) {
        let pid = read_pid_in_lock_file(&mut opened);
        return Err(SettingsError::Locked {
            path: file,
            owner: pid.map_or_else(String::new, |pid| format!(" (process {pid})")),
        });
    }
    // The process number in the lock file serves only the message above.
    let _ = opened
        .set_len(0)
        .and_then(|()| opened.write_all(std::process::id().to_string().as_bytes()));
    Ok(opened)
}

/// Tries several times to take the lock: a process that asks for the owner holds the lock for a moment.
fn lock_with_retries(file: &File) -> bool {
    for retry in 0..=RETRIES {
        if retry > 0 {
            std::thread::sleep(RETRY_PAUSE);
        }
        if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at_directory(directory.path());
        (directory, root)
    }

    #[test]
    fn the_directory_is_private_and_the_lock_exclusive() {
        let (_directory, root) = root();
        let store = LockedJournalDirectory::open_locked(&root).unwrap();
        let mode = std::fs::metadata(root.absolute_path(DIRECTORY))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        let message = LockedJournalDirectory::open_locked(&root)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        drop(store);
        LockedJournalDirectory::open_locked(&root).unwrap();
    }

    #[test]
    fn what_was_made_for_nothing_goes_again() {
        let (directory, root) = root();
        drop(LockedJournalDirectory::open_locked(&root).unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        std::fs::create_dir_all(root.absolute_path("var/log")).unwrap();
        drop(LockedJournalDirectory::open_locked(&root).unwrap());
        assert_eq!(root.list_names("var"), ["log"]);
        let store = LockedJournalDirectory::open_locked(&root).unwrap();
        store.replace_file_atomically(FILE, b"{}").unwrap();
        drop(store);
        assert!(root.exists("var/lib/wakepath/journal.json"));
        // The folder existed before.
        let store = LockedJournalDirectory::open_locked(&root).unwrap();
        store.remove_file_if_present(FILE).unwrap();
        drop(store);
        assert!(root.exists("var/lib/wakepath/lock"));
    }

    #[test]
    fn a_journal_that_is_no_file_is_refused_at_once() {
        let (_directory, root) = root();
        let store = LockedJournalDirectory::open_locked(&root).unwrap();
        let fifo = root.absolute_path("var/lib/wakepath/journal.json");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            owner_only_permissions(),
            0,
        )
        .unwrap();
        let message = store.read_file(FILE).unwrap_err().to_string();
        assert!(message.contains("FIFO"), "{message}");
    }

    #[test]
    fn links_and_open_directories_are_refused() {
        let (_directory, root) = root();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.absolute_path("var/lib")).unwrap();
        symlink(elsewhere.path(), root.absolute_path(DIRECTORY)).unwrap();
        let message = LockedJournalDirectory::open_locked(&root)
            .unwrap_err()
            .to_string();
        assert!(message.contains("is a link"), "{message}");

        std::fs::remove_file(root.absolute_path(DIRECTORY)).unwrap();
        std::fs::create_dir(root.absolute_path(DIRECTORY)).unwrap();
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(root.absolute_path(DIRECTORY), open).unwrap();
        let message = LockedJournalDirectory::open_locked(&root)
            .unwrap_err()
            .to_string();
        assert!(message.contains("others may write"), "{message}");

        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(root.absolute_path(DIRECTORY), private).unwrap();
        let target = elsewhere.path().join("target");
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, root.absolute_path(DIRECTORY).join(LOCK)).unwrap();
        let message = LockedJournalDirectory::open_locked(&root)
            .unwrap_err()
            .to_string();
        assert!(message.contains("is a link"), "{message}");

        std::fs::remove_file(root.absolute_path(DIRECTORY).join(LOCK)).unwrap();
        symlink(&target, root.absolute_path(DIRECTORY).join("j.new")).unwrap();
        symlink(&target, root.absolute_path(DIRECTORY).join("j")).unwrap();
        let store = LockedJournalDirectory::open_locked(&root).unwrap();
        assert!(store.read_file("j").is_err());
        store.replace_file_atomically("j", b"mine").unwrap();
        assert_eq!(store.read_file("j").unwrap().unwrap(), b"mine");
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    }
}
