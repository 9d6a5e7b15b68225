//! A control group: foreign programs and their children together may use half of the machine's memory.
//!
//! Available as root, or in a part of systemd's tree delegated to the user. Elsewhere each process only has a limit
//! for itself.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Folder where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// Prefix of the names of wakepath's control groups, before the number of the creating process.
const NAME: &str = "wakepath-";

/// A control group with a memory limit, removed with its last holder.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    /// Process that created the group; a forked process leaves the group alone.
    owner: u32,
    /// The group's file of members: a process that writes 0 moves itself into the group.
    members: File,
}

static CURRENT: Mutex<Weak<Group>> = Mutex::new(Weak::new());

/// The control group that all programs of this process share; `None` where no group can be made.
pub(crate) fn shared_control_group() -> Option<Arc<Group>> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(group) = current.upgrade() {
        return Some(group);
    }
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    let total = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().trim_end_matches(" kB").parse().ok()?;
    let created = candidate_group_folders()
        .into_iter()
        .find_map(|(parent, limit)| Group::create_with_limit(&parent, limit, kib * 512).ok())?;
    let group = Arc::new(created);
    *current = Arc::downgrade(&group);
    Some(group)
}

/// Folders where a control group may be made, each with the name of its limit's file: next to this
/// process's group, since a group with processes has no limited groups inside, and within.
fn candidate_group_folders() -> Vec<(PathBuf, &'static str)> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut all = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            let own_group = Path::new(ROOT).join(path);
            let parent_group = own_group.parent().filter(|_| !path.is_empty());
            let groups = parent_group.into_iter().chain([&*own_group]);
            let limited = groups.filter(|group| can_limit_memory(group));
            all.extend(limited.map(|group| (group.to_owned(), "memory.max")));
        } else if controllers.split(',').any(|name| name == "memory") {
            let folder = Path::new(ROOT).join("memory").join(path);
            all.push((folder, "memory.limit_in_bytes"));
        }
    }
    all
}

/// Whether groups within a control group can have a memory limit.
fn can_limit_memory(group: &Path) -> bool {
    let controllers = fs::read_to_string(group.join("cgroup.subtree_control"));
    controllers.is_ok_and(|names| names.split_whitespace().any(|name| name == "memory"))
}

impl Group {
    fn create_with_limit(parent: &Path, limit: &str, bytes: u64) -> io::Result<Self> {
        remove_abandoned_groups(parent);
        let owner = std::process::id();
        let folder = parent.join(format!("{NAME}{owner}"));
        fs::create_dir(&folder)?;
        let limited = fs::write(folder.join(limit), bytes.to_string());
        let members = limited.and_then(|()| {
            let mut options = OpenOptions::new();
            options.write(true).open(folder.join("cgroup.procs"))
        });
        match members {
            Ok(members) => Ok(Self {
                folder,
                owner,
                members,
            }),
            Err(error) => {
                _ = fs::remove_dir(&folder);
                Err(error)
            }
        }
    }

    /// Puts the command's process, once started, and all its children into the group, if the kernel
    /// allows.
    #[expect(unsafe_code, reason = "nothing safe acts between fork and exec")]
    pub(crate) fn adopt_command(self: &Arc<Self>, command: &mut Command) {
        let members = self.members.as_raw_fd();
        let group = Arc::clone(self);
        // SAFETY: the closure only calls the kernel, without allocating or locking. The byte lives
        // through the call.
        unsafe {
            command.pre_exec(move || {
                // The closure keeps the group alive.
                let _group = &group;
                libc::write(members, c"0".as_ptr().cast(), 1);
                Ok(())
            });
        }
    }
}

/// Removes control groups left behind by killed wakepath processes.
fn remove_abandoned_groups(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if let Some(number) = number.and_then(|number| number.parse::<u32>().ok())
            && !Path::new("/proc").join(number.to_string()).exists()
        {
            _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Group {
    /// Removes the group's folder; waits a moment for processes that were told to end.
    fn drop(&mut self) {
        for _ in 0..40 {
            if self.owner != std::process::id() || fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_goes_with_its_last_process() {
        // Where no control group can be made, there is nothing to test.
        let Some(group) = shared_control_group() else {
            return;
        };
        let folder = group.folder.clone();
        let mut command = Command::new("sleep");
        command.arg("60");
        group.adopt_command(&mut command);
        let mut child = command.spawn().unwrap();
        let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
        assert_eq!(members.trim(), child.id().to_string());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(command);
        assert!(Arc::ptr_eq(&group, &shared_control_group().unwrap()));
        drop(group);
        assert!(!folder.exists());
    }
}
