//! Granted folders: nothing outside can be reached.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

fn folder() -> (tempfile::TempDir, Folder) {
    let outside = tempfile::tempdir().expect("a folder");
    fs::create_dir(outside.path().join("granted")).expect("a folder in it");
    let folder = Folder::open(&outside.path().join("granted")).expect("it opens");
    (outside, folder)
}

#[test]
fn paths_that_could_leave_are_refused_by_every_operation() {
    let (outside, folder) = folder();
    fs::write(outside.path().join("secret"), "s").expect("a file outside");
    let deep = "d/".repeat(MAX_DEPTH) + "f";
    let long = "a".repeat(MAX_PATH + 1);
    for path in ["..", "../secret", "a/../../secret", "/etc/passwd", "//x", "a//b", "./a", "a/", "a/.", "x\0y", &deep, &long] {
        assert!(folder.append(path, b"x").is_err(), "append {path:?}");
        assert!(folder.check(path).is_err(), "check {path:?}");
        assert!(folder.read(path, 0, 10).is_err(), "read {path:?}");
        assert!(folder.sync(path).is_err(), "sync {path:?}");
        assert!(folder.mkdir(path).is_err(), "mkdir {path:?}");
        assert!(folder.rename(path, "b").is_err() && folder.rename("b", path).is_err(), "rename {path:?}");
        assert!(folder.remove(path).is_err(), "remove {path:?}");
        assert!(folder.exists(path).is_err(), "exists {path:?}");
        assert!(folder.list(path).is_err(), "list {path:?}");
    }
    assert_eq!(fs::read(outside.path().join("secret")).expect("still there"), b"s");
    assert!(folder.list("").expect("the folder itself").is_empty());
}

#[test]
fn symbolic_links_are_never_followed() {
    let (outside, folder) = folder();
    let granted = outside.path().join("granted");
    fs::create_dir(outside.path().join("other")).expect("a folder outside");
    fs::write(outside.path().join("other/secret"), "s").expect("a file outside");
    symlink(outside.path().join("other"), granted.join("dir")).expect("a link to a folder");
    symlink(outside.path().join("other/secret"), granted.join("file")).expect("a link to a file");
    symlink(granted.join("nothing"), granted.join("dangling")).expect("a link to nothing");
    for path in ["dir/secret", "file", "dangling", "dir"] {
        assert!(folder.append(path, b"x").is_err(), "append {path}");
        assert!(folder.read(path, 0, 10).is_err(), "read {path}");
        assert!(folder.sync(path).is_err(), "sync {path}");
        assert!(folder.rename(path, "b").is_err(), "rename {path}");
        assert!(folder.remove(path).is_err(), "remove {path}");
    }
    for path in ["dir", "dir/sub", "file/sub"] {
        assert!(folder.mkdir(path).is_err(), "mkdir {path}");
        assert!(folder.list(path).is_err(), "list {path}");
    }
    assert!(folder.exists("file").expect_err("a link").contains("symbolic link"));
    assert_eq!(fs::read(outside.path().join("other/secret")).expect("still there"), b"s");
    assert_eq!(fs::read_dir(outside.path().join("other")).expect("the folder").count(), 1);
    assert!(!granted.join("nothing").exists());
}

#[test]
fn content_is_appended_and_read_in_parts() {
    let (_outside, folder) = folder();
    assert!(folder.read("f", 0, 10).is_err(), "there is none yet");
    folder.append("f", b"hello ").expect("it is made");
    folder.append("f", b"world").expect("it grows");
    for (offset, limit, expected) in [(0, 5, "hello"), (6, 100, "world"), (11, 5, ""), (u64::MAX, 5, ""), (0, 0, "")] {
        assert_eq!(folder.read("f", offset, limit).expect("it reads"), expected.as_bytes());
    }
    folder.sync("f").expect("the file");
    folder.sync("").expect("the folder itself");
    assert!(folder.append("missing/f", b"x").is_err(), "append makes no folders");
    folder.mkdir("a/b").expect("with its parent");
    folder.mkdir("a/b").expect("again");
    assert!(folder.append("a", b"x").is_err(), "a folder is no file");
    assert!(folder.read("a", 0, 1).is_err());
    assert!(folder.mkdir("f").is_err(), "a file is no folder");
    assert_eq!(folder.list("").expect("sorted"), ["a", "f"]);
    assert_eq!(folder.list("nowhere").expect("none"), Vec::<String>::new());
    assert!(folder.exists("a/b").expect("it is there") && !folder.exists("a/c").expect("it is not"));
    assert!(!folder.exists("nowhere/c").expect("nor is its folder"));
}

#[test]
fn a_rename_never_replaces() {
    let (_outside, folder) = folder();
    folder.mkdir("staged").expect("a folder");
    folder.append("staged/part", b"new").expect("a file");
    folder.append("taken", b"old").expect("a file");
    assert!(!folder.rename("staged/part", "taken").expect("the name is taken"));
    assert_eq!(folder.read("taken", 0, 9).expect("it reads"), b"old");
    assert!(folder.rename("staged/part", "part").expect("the name is free"));
    assert_eq!(folder.read("part", 0, 9).expect("it reads"), b"new");
    assert!(folder.rename("staged/part", "part2").is_err(), "the source is gone");
    assert!(folder.rename("part", "nowhere/part").is_err(), "the target's folder is missing");
}

#[test]
fn a_remove_says_whether_there_was_something() {
    let (_outside, folder) = folder();
    folder.mkdir("a/b").expect("folders");
    folder.append("a/f", b"x").expect("a file");
    assert!(folder.remove("a").is_err(), "it is not empty");
    assert!(folder.remove("a/f").expect("it goes") && !folder.remove("a/f").expect("it is gone"));
    assert!(folder.remove("a/b").expect("an empty folder") && folder.remove("a").expect("now empty too"));
    assert!(!folder.remove("a/b").expect("its folder is gone"));
}

#[test]
fn a_pipe_is_neither_read_nor_waited_for() {
    let (outside, folder) = folder();
    let path = outside.path().join("granted/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    assert!(folder.read("pipe", 0, 1).is_err());
    assert!(folder.append("pipe", b"x").is_err());
}

#[test]
fn an_error_says_what_where_and_why() {
    let (outside, folder) = folder();
    let text = folder.append("missing/f", b"x").expect_err("no such folder");
    assert!(text.starts_with("append missing/f in ") && text.contains(outside.path().to_str().expect("text")), "{text}");
}
