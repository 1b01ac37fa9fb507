//! State files and plugins: what comes back is what went in, or an error that names the file.

use super::faulty::{Fault, FaultyStore};
use super::*;
use crate::store::transfer::copy_in;
use bytes::Bytes;
use object_store::memory::InMemory;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

const SST: &str = "3-stats-0.3-17.1.delta.sst";
const CURRENT: &str = "3-stats-0.3-17.2.CURRENT";

fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).expect("it is there").ino()
}

#[tokio::test]
async fn a_table_is_linked_both_ways_and_an_index_comes_back_as_a_copy() {
    let fixture = Fixture::new();
    for (name, back) in [(SST, Transfer::Linked), (CURRENT, Transfer::Copied)] {
        let file = fixture.write(name, b"content");
        assert_eq!(fixture.store.upload(&file, &fixture.work(name)).await, Ok(Transfer::Linked));
        assert_eq!(inode(&fixture.stored(name)), inode(&fixture.work(name)));
        let to = fixture.work(&format!("restored-{name}"));
        assert_eq!(fixture.store.fetch(&file, &to).await, Ok(back));
        assert_eq!(std::fs::read(&to).expect("it was fetched"), b"content");
        assert_eq!(inode(&to) == inode(&fixture.stored(name)), back == Transfer::Linked);
    }
    assert!(fixture.names_in("tmp").is_empty());
}

#[tokio::test]
async fn a_flipped_bit_is_found_and_named() {
    let fixture = Fixture::new();
    for name in [SST, CURRENT] {
        let file = fixture.upload(name).await;
        flip_a_bit(&fixture.stored(name));
        let to = fixture.work("restored");
        for error in [fixture.store.fetch(&file, &to).await.map(|_| ()), fixture.store.check(&file).await] {
            let error = error.expect_err("it is damaged");
            assert!(matches!(&error, StoreError::Corrupt { file, .. } if file == name), "{error}");
            assert!(error.is_damage());
        }
        assert!(!to.exists(), "nothing damaged is left in a working folder");
    }
}

#[tokio::test]
async fn a_cut_and_a_missing_file_are_found_and_named() {
    let fixture = Fixture::new();
    let file = fixture.upload(SST).await;
    std::fs::write(fixture.stored(SST), b"").expect("it can be cut");
    assert!(matches!(fixture.store.fetch(&file, &fixture.work("a")).await, Err(StoreError::Corrupt { .. })));
    fixture.store.delete_shared(SST).await.expect("it can be deleted");
    let missing = Err(StoreError::Missing { file: SST.to_owned() });
    assert_eq!(fixture.store.fetch(&file, &fixture.work("a")).await, missing);
    fixture.store.delete_shared(SST).await.expect("deleting what is gone is fine");
}

#[tokio::test]
async fn a_name_is_never_used_twice() {
    let fixture = Fixture::new();
    let first = fixture.upload(SST).await;
    assert_eq!(fixture.store.upload(&first, &fixture.work(SST)).await, Ok(Transfer::AlreadyThere), "a repeat");
    std::fs::remove_file(fixture.work(SST)).expect("it is there");
    let second = fixture.write(SST, b"other content");
    let error = fixture.store.upload(&second, &fixture.work(SST)).await.expect_err("the name is taken");
    assert!(matches!(&error, StoreError::NameTaken { file, .. } if file == SST), "{error}");
    fixture.store.check(&first).await.expect("the first is untouched");
}

#[tokio::test]
async fn what_is_not_what_it_should_be_is_not_stored() {
    let fixture = Fixture::new();
    let file = fixture.write(SST, b"content");
    std::fs::write(fixture.work(SST), b"contemt").expect("it can be written");
    let error = fixture.store.upload(&file, &fixture.work(SST)).await.expect_err("it changed on the way");
    assert!(matches!(&error, StoreError::Corrupt { file, .. } if file.ends_with(SST)), "{error}");
    let gone = fixture.store.upload(&file, &fixture.work("gone")).await.expect_err("it is not there");
    assert!(matches!(&gone, StoreError::Io { kind: ErrorKind::NotFound, path, .. } if path.ends_with("gone")), "{gone}");
    assert!(fixture.names_in("shared").is_empty());
}

/// As between two file systems, where nothing can be linked.
#[tokio::test]
async fn a_copy_is_checked_and_leaves_no_temporary() {
    let fixture = Fixture::new();
    let root = fixture.folder.path().join("checkpoints");
    let file = fixture.write(SST, b"content");
    let copy = || copy_in(&root, &file, &fixture.work(SST), &fixture.stored(SST));
    assert_eq!(copy(), Ok(Some(Transfer::Copied)));
    assert_ne!(inode(&fixture.stored(SST)), inode(&fixture.work(SST)));
    fixture.store.check(&file).await.expect("it is whole");
    assert_eq!(copy(), Ok(None), "the name is taken");
    std::fs::remove_file(fixture.stored(SST)).expect("it is there");
    flip_a_bit(&fixture.work(SST));
    assert!(matches!(copy(), Err(StoreError::Corrupt { .. })));
    assert!(fixture.names_in("shared").is_empty() && fixture.names_in("tmp").is_empty());
}

#[tokio::test]
async fn names_that_lead_elsewhere_are_refused() {
    let fixture = Fixture::new();
    for name in ["", "../x", "a/b", ".hidden", "a#1", "ä", &"x".repeat(251)] {
        let file = FileManifest { name: name.to_owned(), ..described("x", b"x") };
        assert_eq!(fixture.store.fetch(&file, &fixture.work("x")).await, Err(StoreError::BadName(name.to_owned())));
    }
}

#[test]
fn only_local_folders_are_storage_yet() {
    for url in ["s3://bucket/x", "gs://bucket", "az://x", "file://relative"] {
        assert_eq!(CheckpointStore::create(url).map(|_| ()), Err(StoreError::NotInThisVersion(url.to_owned())));
    }
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let place = folder.path().join("not/yet");
    let missing = CheckpointStore::open(place.to_str().expect("it is text")).map(|_| ());
    assert!(matches!(missing, Err(StoreError::NoStorage(_))), "{missing:?}");
    assert!(!place.exists(), "opening creates nothing");
    CheckpointStore::create(&format!("file://{}", place.display())).expect("a file URL is a folder");
}

#[tokio::test]
async fn an_object_store_gets_and_gives_the_same() {
    let fixture = Fixture::new();
    let store = CheckpointStore::with_objects(Arc::new(InMemory::new()), "memory".to_owned());
    let large: Vec<u8> = (0..(20 << 20)).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (name, content) in [("3-a-0.3-1.1.delta.sst", &b""[..]), ("3-a-0.3-1.2.delta.sst", b"small"), (SST, &large)] {
        let file = fixture.write(name, content);
        assert_eq!(store.upload(&file, &fixture.work(name)).await, Ok(Transfer::Copied));
        assert_eq!(store.upload(&file, &fixture.work(name)).await, Ok(Transfer::AlreadyThere));
        let to = fixture.work("restored");
        assert_eq!(store.fetch(&file, &to).await, Ok(Transfer::Copied));
        assert_eq!(std::fs::read(&to).expect("it was fetched"), content);
        std::fs::remove_file(&to).expect("it is there");
        let wrong = FileManifest { checksum: "0".repeat(32), ..file.clone() };
        assert!(matches!(store.fetch(&wrong, &to).await, Err(StoreError::Corrupt { .. })));
        assert!(!to.exists(), "nothing damaged is left in a working folder");
        let other = FileManifest { name: format!("{name}.other"), ..wrong };
        assert!(matches!(store.upload(&other, &fixture.work(name)).await, Err(StoreError::Corrupt { .. })));
    }
    assert_eq!(store.list_shared().await.expect("it can be listed").len(), 3, "nothing refused was stored");
}

#[tokio::test]
async fn a_full_disk_is_told_and_leaves_no_object() {
    let fixture = Fixture::new();
    let faulty = FaultyStore::over(Arc::new(InMemory::new()));
    let store = CheckpointStore::with_objects(Arc::new(faulty.clone()), "memory".to_owned());
    faulty.always(Fault::Full);
    for content in [&b"small"[..], &vec![7; 9 << 20]] {
        let file = fixture.write(SST, content);
        let error = store.upload(&file, &fixture.work(SST)).await.expect_err("the disk is full");
        assert!(matches!(error, StoreError::Io { kind: ErrorKind::StorageFull, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("memory/shared/{SST}")) && text.contains("free some space"), "{text}");
        assert_eq!(store.list_shared().await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn plugins_are_kept_by_content_and_mended() {
    let fixture = Fixture::new();
    let (bytes, digest) = (Bytes::from_static(b"\0asm"), sha256_hex(b"\0asm"));
    assert!(matches!(fixture.store.get_plugin(&digest).await, Err(StoreError::Missing { .. })));
    for _ in 0..2 {
        fixture.store.put_plugin(&digest, bytes.clone()).await.expect("it is stored");
        assert_eq!(fixture.store.get_plugin(&digest).await, Ok(bytes.clone()));
    }
    let path = fixture.folder.path().join(format!("checkpoints/plugins/{digest}.wasm"));
    flip_a_bit(&path);
    assert!(matches!(fixture.store.get_plugin(&digest).await, Err(StoreError::Corrupt { .. })));
    fixture.store.put_plugin(&digest, bytes.clone()).await.expect("it is mended");
    assert_eq!(fixture.store.get_plugin(&digest).await, Ok(bytes));
    assert!(fixture.names_in("tmp").is_empty());
}
