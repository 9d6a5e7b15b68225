//! What strangers leave in place of a file is refused, and at once.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use wakepath_files::{Links, Tree, open_regular_file, read_file_up_to, read_text_up_to};

/// A folder with a file, a FIFO, a socket, a folder, and links.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "text").unwrap();
    fs::write(path("bytes"), [0xff, 0xfe]).unwrap();
    fs::create_dir(path("inside")).unwrap();
    fs::write(path("inside/file"), "inner").unwrap();
    mknodat(
        CWD,
        path("fifo"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    UnixListener::bind(path("socket")).unwrap();
    symlink("file", path("link")).unwrap();
    symlink("inside", path("linked")).unwrap();
    symlink("/etc/passwd", path("out")).unwrap();
    folder
}

#[test]
fn the_empty_path_is_the_working_directory() {
    let bare = Path::new("Cargo.toml").parent().unwrap();
    let tree = Tree::open_folder(bare, Links::Refused).unwrap();
    let text = tree.read_text_up_to(Path::new("Cargo.toml"), 10_000);
    assert!(text.unwrap().contains("wakepath-files"));
}

#[test]
fn only_regular_files_are_read() {
    let folder = folder();
    for (name, kind) in [
        ("fifo", "a FIFO"),
        ("inside", "a directory"),
        ("socket", "a socket"),
    ] {
        let path = folder.path().join(name);
        let error = open_regular_file(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
        assert!(error.to_string().contains(kind), "{error}");
        let tree = Tree::open_folder(folder.path(), Links::Refused).unwrap();
        let error = tree.open_file(Path::new(name), OFlags::RDONLY).unwrap_err();
        assert!(error.to_string().contains(kind), "{error}");
    }
    for device in ["/dev/zero", "/dev/null"] {
        let error = read_file_up_to(Path::new(device), 100).unwrap_err();
        assert!(error.to_string().contains("a device"), "{error}");
    }
    // Of a user's own path.
    assert_eq!(
        read_text_up_to(&folder.path().join("link"), 4).unwrap(),
        "text"
    );
}

#[test]
fn bytes_are_counted_as_they_come() {
    let folder = folder();
    let error = read_file_up_to(&folder.path().join("file"), 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    assert!(error.to_string().contains("more than 3 bytes"), "{error}");
    // Files of /proc have no length.
    assert_eq!(fs::metadata("/proc/self/status").unwrap().len(), 0);
    read_file_up_to(Path::new("/proc/self/status"), 10).unwrap_err();
    read_file_up_to(Path::new("/proc/self/status"), 1 << 20).unwrap();
    let error = read_text_up_to(&folder.path().join("bytes"), 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn no_path_leads_out_of_a_directory() {
    let folder = folder();
    let tree = Tree::open_folder(folder.path(), Links::Refused).unwrap();
    assert_eq!(
        tree.read_text_up_to(Path::new("inside/file"), 10).unwrap(),
        "inner"
    );
    for path in [
        "link",
        "linked/file",
        "out",
        "../x",
        "inside/../file",
        "/etc/passwd",
    ] {
        let error = tree.read_file_up_to(Path::new(path), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path}: {error}");
    }
    let names = tree.list_names(Path::new("")).unwrap();
    assert_eq!(names.len(), 8);
    assert_eq!(tree.list_names(Path::new("inside")).unwrap(), ["file"]);
    tree.list_names(Path::new("linked")).unwrap_err();
}

#[test]
fn nothing_is_written_through_a_link() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = elsewhere.path().join("target");
    fs::write(&target, "precious").unwrap();
    symlink(elsewhere.path(), folder.path().join("sys")).unwrap();
    symlink(&target, folder.path().join("about.txt")).unwrap();
    fs::hard_link(&target, folder.path().join("hard")).unwrap();
    let tree = Tree::open_folder(folder.path(), Links::Refused).unwrap();
    tree.replace_file(Path::new("sys/kernel/x"), b"x")
        .unwrap_err();
    tree.replace_file(Path::new("sys/target"), b"x")
        .unwrap_err();
    tree.replace_file(Path::new("../x"), b"x").unwrap_err();
    tree.replace_file(Path::new("about.txt"), b"new").unwrap();
    tree.replace_file(Path::new("hard"), b"new").unwrap();
    tree.replace_file(Path::new("proc/sys/kernel/x"), b"deep")
        .unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    for (name, text) in [
        ("about.txt", "new"),
        ("hard", "new"),
        ("proc/sys/kernel/x", "deep"),
    ] {
        assert_eq!(tree.read_text_up_to(Path::new(name), 10).unwrap(), text);
    }
}
