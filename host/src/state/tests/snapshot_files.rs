//! What backends promise about their files, their memory and their failures.

use super::rig::*;
use crate::state::{CheckpointedBackend, LocalSnapshot, SnapshotFile, files};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn write_range(backend: &mut dyn CheckpointedBackend, keys: std::ops::Range<u32>, value: u64) {
    let keys: Vec<u32> = keys.collect();
    for part in keys.chunks(1000) {
        let owned = OwnedKeys::new(part.iter().map(|key| key.to_be_bytes()));
        let mut out = Vec::new();
        backend.prefetch(owned.get(), &[0], &mut out).expect("a prefetch succeeds");
        let cells = updates(part.iter().map(|&key| Some((u64::from(key) * 7919 + value).to_le_bytes())));
        backend.apply(owned.get(), &[0], &[cells]).expect("an apply succeeds");
    }
}

fn names(snapshot: &LocalSnapshot) -> Vec<&str> {
    snapshot.base.iter().chain(&snapshot.deltas).map(|file| file.name.as_str()).collect()
}

fn bytes_to_upload(snapshot: &LocalSnapshot) -> u64 {
    snapshot.base.iter().chain(&snapshot.deltas).filter(|file| !file.stored).map(|file| file.bytes).sum()
}

#[test]
fn one_percent_of_change_uploads_less_than_five_percent() {
    let mut rig = Rig::new(Flavor::Rocks);
    let mut backend = rig.open(None);
    write_range(backend.as_mut(), 0..200_000, 1);
    let full = rig.snapshot(backend.as_mut());
    rig.complete(backend.as_mut(), &full);
    write_range(backend.as_mut(), 50_000..52_000, 2);
    let change = rig.snapshot(backend.as_mut());
    let (full, change) = (bytes_to_upload(&full), bytes_to_upload(&change));
    assert!(change * 20 < full, "{change} bytes for a change of 1 %, {full} for everything");
}

#[test]
fn writing_what_is_there_already_is_no_change() {
    let mut rig = Rig::new(Flavor::Rocks);
    let mut backend = rig.open(None);
    write_range(backend.as_mut(), 0..1000, 1);
    rig.checkpoint(backend.as_mut());
    write_range(backend.as_mut(), 0..1000, 1);
    write(backend.as_mut(), 0, &[(b"absent", None)]);
    assert_eq!(bytes_to_upload(&rig.snapshot(backend.as_mut())), 0);
}

#[test]
fn a_restored_state_that_fits_is_read_in_and_the_store_is_not_asked_again() {
    let mut rig = Rig::new(Flavor::Small);
    let mut backend = rig.open(None);
    write_range(backend.as_mut(), 0..10_000, 1);
    let key = |i: u32| i.to_be_bytes();
    write(backend.as_mut(), 0, &[(&key(7), None)]);
    let restored = rig.checkpoint(backend.as_mut());
    drop(backend);
    assert!(restored.deltas.iter().any(|file| file.name.ends_with(".sst")), "there is a store: {restored:?}");
    rig.flavor = Flavor::Rocks;
    let mut backend = rig.open(Some(restored));
    // Written before it is read in: these stay.
    write(backend.as_mut(), 0, &[(&key(5), Some(b"newer")), (&key(6), None)]);
    let asked = backend.look_ups().store_reads;
    sweep_all(backend.as_mut());
    let mut value = |key: &[u8]| read(backend.as_mut(), 0, key);
    assert_eq!(value(&key(5)), Some(b"newer".to_vec()));
    assert!([&key(6)[..], &key(7)[..], b"never there"].iter().all(|key| value(key).is_none()));
    assert!((8..10_000).all(|i| value(&key(i)).is_some()));
    assert_eq!(backend.look_ups().store_reads, asked, "all of it is in memory");
}

#[test]
fn kept_files_never_change_whatever_the_store_does() {
    let mut rig = Rig::new(Flavor::Small);
    let mut backend = rig.open(None);
    let mut kept: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut last = None;
    // Twenty files that cover each other: ingested, compacted, their links removed.
    for round in 0..20 {
        write_range(backend.as_mut(), 0..20_000, round);
        let snapshot = rig.snapshot(backend.as_mut());
        for file in snapshot.base.iter().chain(&snapshot.deltas) {
            check(file, &file.local);
            kept.insert(file.local.clone(), file.checksum.clone());
        }
        last = Some(snapshot);
    }
    drop(backend);
    assert!(kept.len() >= 20);
    for (path, checksum) in &kept {
        assert_eq!(&files::measure(path).expect("it is kept").1, checksum, "{}", path.display());
    }
    // Restored from, changed, compacted again: the stored files are as they were.
    let restored = rig.storage.upload(&last.expect("there were rounds"));
    let mut backend = rig.open(Some(restored.clone()));
    for round in 100..110 {
        write_range(backend.as_mut(), 0..20_000, round);
        rig.snapshot(backend.as_mut());
    }
    drop(backend);
    for file in restored.base.iter().chain(&restored.deltas) {
        check(file, &file.local);
    }
}

#[test]
fn stored_files_are_listed_under_their_names_and_removed_here() {
    let mut rig = Rig::new(Flavor::Rocks);
    let mut backend = rig.open(None);
    write_range(backend.as_mut(), 0..100, 1);
    let aborted = rig.snapshot(backend.as_mut());
    write_range(backend.as_mut(), 0..100, 2);
    let second = rig.snapshot(backend.as_mut());
    assert_eq!((names(&aborted).len(), names(&second).len()), (1, 2), "S2: what an aborted checkpoint wrote stays in the list");
    let files = |snapshot: &LocalSnapshot| [&snapshot.base[..], &snapshot.deltas].concat();
    assert!(files(&aborted).iter().chain(&files(&second)).all(|file| !file.stored && file.local.exists()));
    rig.complete(backend.as_mut(), &second);
    write_range(backend.as_mut(), 0..100, 3);
    let third = rig.snapshot(backend.as_mut());
    let stored: Vec<bool> = files(&third).iter().map(|file| file.stored).collect();
    assert_eq!(stored, [true, true, false]);
    assert_eq!(names(&third)[..2], names(&second)[..]);
    // The thread that removes files has done so before it linked the third snapshot.
    let local: Vec<bool> = files(&third).iter().map(|file| file.local.exists()).collect();
    assert_eq!(local, [false, false, true]);
    let restored = rig.complete(backend.as_mut(), &third);
    drop(backend);
    let mut backend = rig.open(Some(restored));
    write_range(backend.as_mut(), 0..100, 4);
    let fourth = rig.snapshot(backend.as_mut());
    assert_eq!(names(&fourth)[..3], names(&third)[..], "restored files keep their names");
    assert!(
        files(&fourth)[..3].iter().all(|file| file.stored && file.local.exists()),
        "S1: a restored file is not ours to remove"
    );
    rig.complete(backend.as_mut(), &fourth);
}

#[test]
fn a_new_base_begins_when_deltas_outweigh_it_and_reuses_stored_table_files() {
    let mut rig = Rig::new(Flavor::Tight);
    let mut backend = rig.open(None);
    let (mut bases, mut reused) = (0, 0);
    let mut before: Option<LocalSnapshot> = None;
    for round in 0..60u32 {
        write_range(backend.as_mut(), round % 10 * 100..round % 10 * 100 + 200, u64::from(round));
        let snapshot = rig.snapshot(backend.as_mut());
        let restored = rig.complete(backend.as_mut(), &snapshot);
        if let Some(before) = before.filter(|before| before.base != snapshot.base && before.base.len() + snapshot.base.len() > 0)
        {
            let is_new = names(&before) != names(&snapshot)[..names(&before).len().min(names(&snapshot).len())];
            bases += usize::from(is_new);
            reused += snapshot.base.iter().filter(|file| file.stored).count();
        }
        assert!(snapshot.deltas.len() <= 20, "the list of deltas is bounded: {}", snapshot.deltas.len());
        let mut other = Rig::new(Flavor::Tight);
        let (ours, theirs) = (dump(backend.as_mut(), &[0]), dump(other.open(Some(restored)).as_mut(), &[0]));
        assert!(ours == theirs, "round {round}");
        before = Some(snapshot);
    }
    assert!(bases >= 3, "{bases} new bases");
    assert!(reused > 0, "no table file was found to be stored already");
}

#[test]
fn memory_stays_in_its_bound_and_evicted_cells_come_back() {
    let mut rig = Rig::new(Flavor::Tight);
    let mut backend = rig.open(None);
    for key in (0..50_000u32).step_by(500) {
        write_range(backend.as_mut(), key..key + 500, 1);
        // The budget of 40 KiB, one batch of 500 cells, and one block of copies.
        let bound = 40 * 1024 + 500 * 64 + (1 << 20);
        assert!(backend.memory_bytes() < bound, "{} bytes", backend.memory_bytes());
    }
    write_range(backend.as_mut(), 100..300, 2);
    for key in [0u32, 99, 100, 299, 300, 49_999] {
        let value = u64::from(key) * 7919 + if (100..300).contains(&key) { 2 } else { 1 };
        assert_eq!(read(backend.as_mut(), 0, &key.to_be_bytes()).as_deref(), Some(&value.to_le_bytes()[..]), "key {key}");
    }
    assert_eq!(scan(backend.as_mut(), &[0], 1000).len(), 50_000);
}

#[test]
fn the_high_water_mark_freezes_without_a_checkpoint() {
    let mut rig = Rig::new(Flavor::Small);
    let mut backend = rig.open(None);
    write_range(backend.as_mut(), 0..2000, 1);
    let before = rig.snapshot(backend.as_mut());
    // Two fifths of 40 KiB are 256 cells of 64 bytes.
    write_range(backend.as_mut(), 0..246, 2);
    sweep_all(backend.as_mut());
    write_range(backend.as_mut(), 246..266, 2);
    write_range(backend.as_mut(), 266..271, 2);
    sweep_all(backend.as_mut());
    write_range(backend.as_mut(), 0..10, 3);
    let snapshot = rig.snapshot(backend.as_mut());
    let new = snapshot.deltas.len() - before.deltas.len();
    assert_eq!(new, 2, "what was frozen at the mark, and what was written since");
    let restored = rig.complete(backend.as_mut(), &snapshot);
    let (ours, theirs) = (dump(backend.as_mut(), &[0]), dump(rig.open(Some(restored)).as_mut(), &[0]));
    assert_eq!(ours.len(), 2000);
    assert!(ours == theirs);
}

/// Files of a snapshot, told by their ends.
fn kinds(files: &[SnapshotFile]) -> Vec<&str> {
    files.iter().map(|file| if file.name.ends_with(".sst") { "sst" } else { files::what_of(&file.name).unwrap_or("") }).collect()
}

#[test]
fn state_that_outgrows_memory_moves_into_a_store_between_two_checkpoints() {
    let mut rig = Rig::new(Flavor::Small);
    let mut backend = rig.open(None);
    write_range(backend.as_mut(), 0..200, 1);
    write(backend.as_mut(), 0, &[(&7u32.to_be_bytes(), None)]);
    let small = rig.snapshot(backend.as_mut());
    assert_eq!((kinds(&small.base), kinds(&small.deltas)), (vec!["base.rows"], vec![]));
    // Frozen before the store is made, and part of it nevertheless.
    write_range(backend.as_mut(), 100..250, 2);
    let between = freeze(backend.as_mut(), rig.next_checkpoint());
    write_range(backend.as_mut(), 250..1000, 3);
    write(backend.as_mut(), 0, &[(&8u32.to_be_bytes(), None)]);
    let between = finish(backend.as_mut(), &between);
    assert_eq!((kinds(&between.base), kinds(&between.deltas)), (vec!["base.rows"], vec!["delta.rows"]));
    let large = rig.snapshot(backend.as_mut());
    assert_eq!(kinds(&large.base), ["base.rows"]);
    assert!(kinds(&large.deltas).iter().all(|kind| *kind == "sst"), "{:?}", kinds(&large.deltas));
    let in_between = rig.storage.upload(&between);
    let restored = rig.complete(backend.as_mut(), &large);
    let now = dump(backend.as_mut(), &[0]);
    assert_eq!(now.len(), 998);
    assert!(dump(Rig::new(Flavor::Small).open(Some(restored.clone())).as_mut(), &[0]) == now);
    // With room for it the same files go back into memory.
    for flavor in [Flavor::Rocks, Flavor::Memory] {
        assert!(dump(Rig::new(flavor).open(Some(restored.clone())).as_mut(), &[0]) == now, "{flavor:?}");
        assert_eq!(dump(Rig::new(flavor).open(Some(in_between.clone())).as_mut(), &[0]).len(), 249, "{flavor:?}");
    }
    // Rows that have no room any more become a store at once.
    drop(backend);
    let mut large = Rig::new(Flavor::Memory);
    let mut backend = large.open(None);
    write_range(backend.as_mut(), 0..5000, 1);
    large.checkpoint(backend.as_mut());
    write_range(backend.as_mut(), 1000..2000, 2);
    write(backend.as_mut(), 0, &[(&9u32.to_be_bytes(), None)]);
    let restored = large.checkpoint(backend.as_mut());
    assert!(dump(Rig::new(Flavor::Small).open(Some(restored)).as_mut(), &[0]) == dump(backend.as_mut(), &[0]));
}

#[test]
fn keys_that_are_gone_take_no_memory_and_make_no_store() {
    // Keys of a round, and what all cells may take: 64 Ki and as many again, with index and lists, or three quarters of 40 KiB.
    for (flavor, keys, bound) in
        [(Flavor::Rocks, 1000, 20 << 20), (Flavor::Memory, 1000, 20 << 20), (Flavor::Small, 100, 50 << 10)]
    {
        let mut rig = Rig::new(flavor);
        let mut backend = rig.open(None);
        write(backend.as_mut(), 0, &[(b"stays", Some(b"here"))]);
        for round in 0..500u32 {
            let first = round * keys;
            write_range(backend.as_mut(), first..first + keys, 1);
            for key in first..first + keys {
                write(backend.as_mut(), 0, &[(&key.to_be_bytes(), None)]);
            }
            assert_eq!(read(backend.as_mut(), 1, &round.to_be_bytes()), None);
            if round % 10 == 0 || flavor == Flavor::Small {
                let snapshot = rig.snapshot(backend.as_mut());
                assert!(names(&snapshot).iter().all(|name| name.ends_with(".rows")), "{flavor:?}: {snapshot:?}");
                rig.complete(backend.as_mut(), &snapshot);
            }
            assert!(backend.memory_bytes() < bound, "{flavor:?}, round {round}: {} bytes", backend.memory_bytes());
        }
        assert_eq!(read(backend.as_mut(), 0, b"stays").as_deref(), Some(&b"here"[..]));
    }
}

#[test]
fn without_a_store_a_new_base_is_all_cells_and_bounds_the_list() {
    let mut rig = Rig::new(Flavor::Rocks);
    let mut backend = rig.open(None);
    let mut bases = BTreeSet::new();
    for round in 0..300u32 {
        write_range(backend.as_mut(), round % 10 * 100..round % 10 * 100 + 200, u64::from(round));
        write(backend.as_mut(), 0, &[(&(round % 1000).to_be_bytes(), None)]);
        let done = freeze(backend.as_mut(), rig.next_checkpoint());
        let at_barrier = dump(backend.as_mut(), &[0]);
        // Written while it is copied.
        write_range(backend.as_mut(), 900..1000, u64::from(round) + 1);
        write(backend.as_mut(), 0, &[(&(round + 1).to_be_bytes(), None), (&(5000 + round).to_be_bytes(), Some(b"new"))]);
        let snapshot = finish(backend.as_mut(), &done);
        let restored = rig.complete(backend.as_mut(), &snapshot);
        assert!(snapshot.deltas.len() <= 129 && snapshot.base.len() <= 1, "{} deltas", snapshot.deltas.len());
        bases.extend(snapshot.base.iter().map(|file| file.name.clone()));
        if !snapshot.base.is_empty() && snapshot.deltas.len() < 3 {
            assert!(dump(Rig::new(Flavor::Rocks).open(Some(restored)).as_mut(), &[0]) == at_barrier, "round {round}");
        }
    }
    assert_eq!(bases.len(), 3, "the first one, and one after 128 deltas each");
}

#[test]
fn damaged_rows_are_an_error_by_name() {
    let mut rig = Rig::new(Flavor::Rocks);
    let mut backend = rig.open(None);
    write_range(backend.as_mut(), 0..5000, 1);
    let long = vec![b'x'; 5000];
    write(backend.as_mut(), 0, &[(b"long", Some(&long)), (b"gone", Some(b"1"))]);
    write(backend.as_mut(), 0, &[(b"gone", None)]);
    let restored = rig.checkpoint(backend.as_mut());
    let file = &restored.base[0];
    let content = std::fs::read(&file.local).expect("it is stored");
    let mut refused = 0;
    for at in (0..content.len()).step_by(97).chain(content.len() - 20..content.len()).chain(0..40) {
        let mut damaged = content.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&file.local, damaged).expect("it is damaged");
        // What is inside a key or a value nobody can tell here: the checksum was compared when the file was fetched.
        if let Err(e) = rig.try_open(Some(restored.clone())) {
            assert!(e.to_string().contains(&*file.local.to_string_lossy()) && e.to_string().contains("corrupt"), "{e}");
            refused += 1;
        }
    }
    assert!(refused > 40, "{refused}");
}

#[test]
fn a_full_disk_fails_the_snapshot_and_the_backend_by_name() {
    let mut rig = Rig::new(Flavor::Rocks);
    let mut backend = rig.open(None);
    write_range(backend.as_mut(), 0..1000, 1);
    rig.checkpoint(backend.as_mut());
    // The next delta file leads to a device that is always full.
    let path = rig.working_folder().join("sets").join("2.rows");
    std::os::unix::fs::symlink(Path::new("/dev/full"), &path).expect("the link is made");
    write_range(backend.as_mut(), 0..50_000, 2);
    let done = freeze(backend.as_mut(), rig.next_checkpoint());
    while backend.sweep().is_ok_and(|more| more) {}
    let error = done.recv().expect("the callback is called").expect_err("the disk is full").to_string();
    assert!(error.contains("2.rows") && error.contains("No space left"), "{error}");
    assert_eq!(error.matches("free some space").count(), 1, "{error}");
    let later = backend.sweep().expect_err("the backend has failed").to_string();
    assert!(later.contains("2.rows") && later.matches("free some space").count() == 1, "{later}");
    let refused = backend.freeze(rig.next_checkpoint(), Box::new(|result| assert!(result.is_err())));
    assert!(refused.is_err());
}

#[test]
fn an_unwritable_working_folder_is_an_error() {
    let folder = tempfile::TempDir::new().expect("the test has a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, b"not a folder").expect("the file is written");
    for kind in [crate::state::BackendKind::Rocks, crate::state::BackendKind::Memory] {
        let opened = crate::state::open_backend(kind, file.join("state"), "1-stats-0".into(), 1 << 20, None);
        let Err(e) = opened else { panic!("it opened below a file") };
        assert!(e.to_string().contains("file/state"), "{e}");
    }
}
