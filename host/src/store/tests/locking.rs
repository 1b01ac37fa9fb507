//! One process at a time.

use crate::store::lock::{DataLock, LockError};

#[test]
fn the_second_is_refused_by_name_of_the_first() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let data = folder.path().join("new/data");
    let first = DataLock::acquire(&data, "flights").expect("nobody has it");
    let Err(error @ LockError::Held { .. }) = DataLock::acquire(&data, "weather").map(drop) else {
        panic!("the first one has it")
    };
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())) && text.contains("job 'flights'"), "{text}");
    drop(first);
    DataLock::acquire(&data, "weather").expect("the first one is gone");
}

#[test]
fn what_a_dead_process_wrote_does_not_count() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    for stale in ["{\"pid\":1,\"host\":\"h\",\"job\":\"flights\",\"since_ms\":1}\n", "{\"pid\":1,\"ho", ""] {
        std::fs::write(folder.path().join("lock"), stale).expect("it can be written");
        let held = DataLock::acquire(folder.path(), "flights").expect("its writer is gone");
        let text = std::fs::read_to_string(folder.path().join("lock")).expect("it is there");
        assert!(text.contains(&format!("\"pid\":{}", std::process::id())), "{text}");
        drop(held);
    }
}

#[test]
fn a_folder_that_can_not_be_made_is_named() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    std::fs::write(folder.path().join("file"), b"x").expect("it can be written");
    let error = DataLock::acquire(&folder.path().join("file/data"), "flights").map(drop).expect_err("a file stands there");
    assert!(matches!(&error, LockError::Io { .. }) && error.to_string().contains("file/data"), "{error}");
}
