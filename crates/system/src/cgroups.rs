//! Paths of control groups by the numbers that the kernel knows them by.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::Root;

/// Most cgroups that a search visits.
const MAX_CGROUPS: usize = 1 << 16;

/// Paths of cgroups in the hierarchy of version 2, by number. A cgroup's number is the inode number of its directory.
#[derive(Clone, Debug, Default)]
pub struct CgroupPaths {
    /// Where the hierarchy is mounted; `None` if it is not.
    mount: Option<PathBuf>,
    paths: HashMap<u64, String>,
    /// Numbers without a directory, so that each is searched for once: cgroups that ended, or outside of a container.
    unknown: HashSet<u64>,
}

impl CgroupPaths {
    /// Finds the hierarchy's mount, and the cgroups of now.
    pub fn find_mount_and_cgroups(root: &Root) -> Self {
        let mounts = root
            .read_text_if_readable("proc/self/mounts")
            .unwrap_or_default();
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (place, kind) = (words.nth(1)?, words.next()?);
            (kind == "cgroup2").then(|| root.absolute_path(place.trim_start_matches('/')))
        });
        let mut found = Self {
            mount,
            ..Self::default()
        };
        found.add_existing_cgroups();
        found
    }

    /// A cgroup's path below the mount, such as `/system.slice/cron.service`; `None` if no directory has the number. A number
    /// that was not seen before makes a new search.
    pub fn find_path_by_inode(&mut self, inode: u64) -> Option<&str> {
        if !self.paths.contains_key(&inode) && !self.unknown.contains(&inode) {
            self.add_existing_cgroups();
            if !self.paths.contains_key(&inode) && self.unknown.len() < MAX_CGROUPS {
                self.unknown.insert(inode);
            }
        }
        self.paths.get(&inode).map(String::as_str)
    }

    /// Adds the cgroups that exist now; those that ended keep their paths.
    fn add_existing_cgroups(&mut self) {
        let Some(mount) = self.mount.clone() else {
            return;
        };
        if let Ok(about) = fs::metadata(&mount) {
            self.paths.insert(about.ino(), "/".to_owned());
        }
        let mut pending = vec![mount.clone()];
        let mut visited = 0;
        while let Some(directory) = pending.pop() {
            // A cgroup may end meanwhile.
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                visited += 1;
                if visited > MAX_CGROUPS {
                    return;
                }
                let path = entry.path();
                self.paths
                    .insert(entry.ino(), cgroup_path_below_mount(&mount, &path));
                pending.push(path);
            }
        }
    }
}

fn cgroup_path_below_mount(mount: &Path, path: &Path) -> String {
    let below = path.strip_prefix(mount).unwrap_or(path);
    format!("/{}", below.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn cgroups_are_found_by_inode_also_later_ones() {
        let directory = tempfile::tempdir().unwrap();
        let mount = directory.path().join("sys/fs/cgroup/unified");
        let service = mount.join("system.slice/cron.service");
        fs::create_dir_all(&service).unwrap();
        fs::write(mount.join("cgroup.procs"), "1\n").unwrap();
        fs::create_dir_all(directory.path().join("proc/self")).unwrap();
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        fs::write(directory.path().join("proc/self/mounts"), mounts).unwrap();
        let mut cgroups =
            CgroupPaths::find_mount_and_cgroups(&Root::at_directory(directory.path()));
        assert_eq!(cgroups.find_path_by_inode(inode(&mount)), Some("/"));
        let path = cgroups.find_path_by_inode(inode(&service));
        assert_eq!(path, Some("/system.slice/cron.service"));

        let later = mount.join("later.scope");
        fs::create_dir(&later).unwrap();
        let number = inode(&later);
        assert_eq!(cgroups.find_path_by_inode(number), Some("/later.scope"));
        // A cgroup that ended keeps its path.
        fs::remove_dir(&later).unwrap();
        assert_eq!(cgroups.find_path_by_inode(number), Some("/later.scope"));
        assert_eq!(cgroups.find_path_by_inode(0), None);
        // A file is no cgroup.
        assert_eq!(
            cgroups.find_path_by_inode(inode(&mount.join("cgroup.procs"))),
            None
        );
    }

    #[test]
    fn without_a_hierarchy_no_path_is_known() {
        for mounts in [
            None,
            Some(""),
            Some("cgroup2"),
            Some("cgroup2 /no/such/place cgroup2 rw 0 0\n"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            if let Some(mounts) = mounts {
                fs::create_dir_all(directory.path().join("proc/self")).unwrap();
                fs::write(directory.path().join("proc/self/mounts"), mounts).unwrap();
            }
            let mut cgroups =
                CgroupPaths::find_mount_and_cgroups(&Root::at_directory(directory.path()));
            assert_eq!(cgroups.find_path_by_inode(1), None, "{mounts:?}");
        }
    }
}
