//! Opens a path below a directory: by `openat2` where the kernel has it (5.6), else component by component.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

/// Limit on links followed while a path is resolved: as many as the kernel follows.
const MOST_LINKS: usize = 40;
/// Number of attempts: `openat2` asks to be called again if something was moved while it looked.
const TRIES: usize = 16;

/// What is done about links on the way to a file below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// No path may contain a link or `..`: for data made by somebody else.
    Refused,
    /// Links are followed as if the directory was `/`: for the root of a captured machine, since sysfs is full of
    /// links.
    InTree,
}

/// Opens `path` relative to `base`, without leaving `base`.
pub(crate) fn open_resolving_links(
    base: &OwnedFd,
    path: &Path,
    flags: OFlags,
    links: Links,
) -> io::Result<OwnedFd> {
    if path.as_os_str().is_empty() {
        return open_resolving_links(base, Path::new("."), flags, links);
    }
    let how = ResolveFlags::NO_MAGICLINKS
        | match links {
            Links::Refused => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
            Links::InTree => ResolveFlags::IN_ROOT,
        };
    for _ in 0..TRIES {
        match openat2(base, path, flags, Mode::empty(), how) {
            Err(Errno::AGAIN) => {}
            // The kernel is too old, or a sandbox forbids the call.
            Err(Errno::NOSYS | Errno::PERM) => break,
            Err(Errno::LOOP) if links == Links::Refused => return Err(link_refused_error()),
            opened => return Ok(opened?),
        }
    }
    open_without_openat2(base, path, flags, links)
}

fn link_refused_error() -> io::Error {
    let message = "is a link, or has one on its way; only files below the directory are read";
    io::Error::new(ErrorKind::InvalidInput, message)
}

/// Opens `path` relative to `base` without `openat2`. No component is opened through a link: links are read, and their
/// parts are walked in turn.
fn open_without_openat2(
    base: &OwnedFd,
    path: &Path,
    flags: OFlags,
    links: Links,
) -> io::Result<OwnedFd> {
    // The folders that were passed, for `..`; empty at the base, whose `..` is itself.
    let mut way: Vec<OwnedFd> = Vec::new();
    let mut left: VecDeque<OsString> =
        split_components_and_reset_way_if_absolute(path.as_os_str(), &mut way);
    let mut followed = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            way.pop();
            continue;
        }
        let here = way.last().unwrap_or(base);
        let seen = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = openat(here, name.as_os_str(), seen, Mode::empty())?;
        let kind = FileType::from_raw_mode(fstat(&entry)?.st_mode);
        let last = left.is_empty();
        if kind == FileType::Symlink {
            if links == Links::Refused {
                return Err(link_refused_error());
            }
            if last && flags.contains(OFlags::NOFOLLOW) {
                return Ok(openat(here, name.as_os_str(), flags, Mode::empty())?);
            }
            followed += 1;
            if followed > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = OsString::from_vec(readlinkat(&entry, "", Vec::new())?.into_bytes());
            let mut unresolved = split_components_and_reset_way_if_absolute(&target, &mut way);
            unresolved.append(&mut left);
            left = unresolved;
        } else if last {
            let opened = openat(
                here,
                name.as_os_str(),
                flags | OFlags::NOFOLLOW,
                Mode::empty(),
            );
            return Ok(opened?);
        } else if kind == FileType::Directory {
            way.push(entry);
        } else {
            return Err(Errno::NOTDIR.into());
        }
    }
    let here = way.last().unwrap_or(base);
    Ok(openat(here, ".", flags, Mode::empty())?)
}

/// The components of a path that are still to be walked; an absolute path empties `way`, so that it starts at the base.
fn split_components_and_reset_way_if_absolute(
    path: &OsStr,
    way: &mut Vec<OwnedFd>,
) -> VecDeque<OsString> {
    let mut parts = VecDeque::new();
    for part in Path::new(path).components() {
        match part {
            Component::Prefix(_) | Component::RootDir => way.clear(),
            Component::CurDir => {}
            Component::ParentDir => parts.push_back(OsString::from("..")),
            Component::Normal(name) => parts.push_back(name.to_owned()),
        }
    }
    // A path such as `folder/` must be a folder.
    if path.as_bytes().ends_with(b"/") && !parts.is_empty() {
        parts.push_back(OsString::from("."));
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::Tree;

    /// A directory with every kind of link, and a secret next to the directory.
    fn tree() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir_all(root.join("sys/devices/cpu0/idle")).unwrap();
        fs::create_dir_all(root.join("sys/class")).unwrap();
        fs::write(root.join("sys/devices/cpu0/idle/name"), "C1").unwrap();
        fs::write(root.join("secret"), "own").unwrap();
        fs::write(directory.path().join("secret"), "foreign").unwrap();
        for (target, link) in [
            ("../devices/cpu0", "sys/class/cpu0"),
            ("/sys/devices/cpu0", "sys/class/absolute"),
            ("../../../../../../secret", "sys/class/out"),
            ("/secret", "sys/class/top"),
            ("loop", "sys/class/loop"),
            ("cpu0/idle/name", "sys/class/chain"),
            ("nowhere", "sys/class/dangling"),
            ("/", "sys/class/root"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let outside = directory.path().join("secret");
        symlink(outside, root.join("sys/class/outside")).unwrap();
        (directory, root)
    }

    /// Paths below the root of [`tree`].
    const PATHS: [&str; 22] = [
        "",
        ".",
        "secret",
        "sys/devices/cpu0/idle/name",
        "sys//devices/./cpu0/idle/name",
        "sys/class/cpu0/idle/name",
        "sys/class/absolute/idle/name",
        "sys/class/out",
        "sys/class/top",
        "sys/class/loop",
        "sys/class/chain",
        "sys/class/dangling",
        "sys/class/outside",
        "sys/class/root/secret",
        "sys/class/cpu0/../cpu0/idle/name",
        "../secret",
        "/secret",
        "sys/../../secret",
        "sys/devices/cpu0/",
        "secret/x",
        "secret/",
        "nothing",
    ];

    /// Whether both ways give the same: the content, a folder, or the same kind of error.
    fn seen(opened: io::Result<OwnedFd>) -> String {
        let mut file = match opened {
            Ok(opened) => File::from(opened),
            Err(error) => return format!("{:?}", error.raw_os_error()),
        };
        let mut text = String::new();
        match file.read_to_string(&mut text) {
            Ok(_) => text,
            Err(_) => "folder".to_owned(),
        }
    }

    #[test]
    fn both_ways_to_open_a_path_agree() {
        let (_directory, root) = tree();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        for links in [Links::InTree, Links::Refused] {
            let tree = Tree::open_folder(&root, links).unwrap();
            for path in PATHS {
                if links == Links::Refused && (path.contains("..") || path.starts_with('/')) {
                    tree.open_file_or_folder(Path::new(path), flags)
                        .unwrap_err();
                    continue;
                }
                let path = Path::new(path);
                let base = rustix::fs::open(&root, OFlags::PATH, Mode::empty()).unwrap();
                let one = seen(open_resolving_links(&base, path, flags, links));
                let walked = if path.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    path
                };
                let other = seen(open_without_openat2(&base, walked, flags, links));
                assert_eq!(one, other, "{} {links:?}", path.display());
                assert_ne!(one, "foreign", "{}", path.display());
            }
        }
    }

    fn read(tree: &Tree, path: &str) -> Option<String> {
        tree.read_text_up_to(Path::new(path), 100).ok()
    }

    #[test]
    fn links_stay_inside() {
        let (_directory, root) = tree();
        let tree = Tree::open_folder(&root, Links::InTree).unwrap();
        for path in [
            "sys/class/cpu0/idle/name",
            "sys/class/absolute/idle/name",
            "sys/class/chain",
        ] {
            assert_eq!(read(&tree, path).as_deref(), Some("C1"), "{path}");
        }
        // As in a chroot: what climbs too far stays at the top.
        for path in ["sys/class/out", "sys/class/top", "../secret", "/secret"] {
            assert_eq!(read(&tree, path).as_deref(), Some("own"), "{path}");
        }
        assert_eq!(read(&tree, "sys/class/outside"), None);
        assert_eq!(read(&tree, "sys/class/loop"), None);
    }
}
