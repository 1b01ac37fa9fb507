//! What every backend promises, one case each, run on every flavor.

use super::rig::*;
use std::collections::BTreeSet;
use weir_plugin::batch::{CellOp, Cells};

/// Runs a case on every flavor; the flavor is in the panic's message.
fn each(case: impl Fn(Rig)) {
    for flavor in FLAVORS {
        let run = std::panic::AssertUnwindSafe(|| case(Rig::new(flavor)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            let text = panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|s| s.to_string()));
            panic!("{flavor:?}: {}", text.unwrap_or_default());
        }
    }
}

fn number(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn rows(keys: std::ops::Range<u32>, value: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    keys.map(|n| (number(n), Some(value.to_vec()))).collect()
}

fn write_rows(backend: &mut dyn crate::state::CheckpointedBackend, state: u16, rows: &[(Vec<u8>, Option<Vec<u8>>)]) {
    let rows: Vec<(&[u8], Option<&[u8]>)> = rows.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
    for part in rows.chunks(100) {
        write(backend, state, part);
    }
}

#[test]
fn put_get_delete_and_the_empty_value() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        let backend = backend.as_mut();
        assert_eq!(read(backend, 0, b"k"), None);
        write(backend, 0, &[(b"k", Some(b"v")), (b"empty", Some(b"")), (b"", Some(b"empty key"))]);
        assert_eq!(read(backend, 0, b"k").as_deref(), Some(&b"v"[..]));
        assert_eq!(read(backend, 0, b"empty").as_deref(), Some(&b""[..]), "an empty value is a value");
        assert_eq!(read(backend, 0, b"").as_deref(), Some(&b"empty key"[..]));
        assert_eq!(read(backend, 1, b"k"), None, "states are apart");
        write(backend, 0, &[(b"k", None), (b"never", None)]);
        assert_eq!(read(backend, 0, b"k"), None);
        assert_eq!(read(backend, 0, b"never"), None);
    });
}

#[test]
fn prefetch_hands_over_every_state_and_apply_changes_only_what_it_says() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        write(backend.as_mut(), 0, &[(b"a", Some(b"a0")), (b"b", Some(b"b0"))]);
        write(backend.as_mut(), 2, &[(b"b", Some(b""))]);
        let keys = OwnedKeys::new(["b", "c", "a"]);
        let mut out = vec![Cells::new(); 5];
        backend.prefetch(keys.get(), &[2, 0], &mut out).expect("a prefetch succeeds");
        let seen: Vec<Vec<Option<&[u8]>>> = out.iter().map(|cells| (0..cells.len()).map(|i| cells.get(i)).collect()).collect();
        assert_eq!(seen, [vec![Some(&b""[..]), None, None], vec![Some(&b"b0"[..]), None, Some(&b"a0"[..])]]);
        // A read in the middle of the call, as a guest may do.
        assert_eq!(read(backend.as_mut(), 7, b"elsewhere"), None);
        let (mut two, mut zero) = (Cells::new(), Cells::new());
        two.push_none();
        two.push_put(b"c2");
        two.push_delete();
        zero.push_delete();
        zero.push_none();
        zero.push_put(b"a1");
        assert_eq!((two.op(0), zero.op(0)), (CellOp::None, CellOp::Delete));
        backend.apply(keys.get(), &[2, 0], &[two, zero]).expect("an apply succeeds");
        backend.apply(keys.get(), &[2, 0], &[]).expect("no updates change nothing");
        let model = dump(backend.as_mut(), &[0, 1, 2]);
        let expected: Model = [((0, "a"), "a1"), ((2, "b"), ""), ((2, "c"), "c2")]
            .map(|((state, key), value)| ((state, key.into()), value.into()))
            .into();
        assert_eq!(model, expected);
    });
}

#[test]
fn put_many_writes_without_reading_and_the_last_of_a_key_wins() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        write(backend.as_mut(), 3, &[(b"gone", Some(b"1")), (b"kept", Some(b"2"))]);
        rig.checkpoint(backend.as_mut());
        let keys = OwnedKeys::new(["new", "gone", "kept", "new"]);
        let mut cells = updates([Some("first"), None]);
        cells.push_none();
        cells.push_put(b"last");
        backend.put_many(3, keys.get(), &cells).expect("a write succeeds");
        assert_eq!(read(backend.as_mut(), 3, b"new").as_deref(), Some(&b"last"[..]));
        assert_eq!(read(backend.as_mut(), 3, b"gone"), None);
        assert_eq!(read(backend.as_mut(), 3, b"kept").as_deref(), Some(&b"2"[..]));
        // Absent keys that stand twice are read once and cached once.
        let mut out = Cells::new();
        backend.get_many(4, OwnedKeys::new(["x", "y", "x"]).get(), &mut out).expect("a read succeeds");
        assert_eq!(out.ops(), [0, 0, 0]);
    });
}

#[test]
fn keys_and_values_of_any_size() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        let sizes = [0usize, 1, 24, 25, 255, 256, 4096, 3 << 20];
        for (i, &size) in sizes.iter().enumerate() {
            let key = vec![i as u8; size.min(70_000)];
            write(backend.as_mut(), 0, &[(&key, Some(&vec![1; size]))]);
            write(backend.as_mut(), 1, &[(&key, Some(&vec![2; sizes[sizes.len() - 1 - i]]))]);
        }
        let before = dump(backend.as_mut(), &[0, 1]);
        assert_eq!(before.len(), 16);
        let restored = rig.checkpoint(backend.as_mut());
        drop(backend);
        assert_eq!(dump(rig.open(Some(restored)).as_mut(), &[0, 1]), before);
    });
}

#[test]
fn a_snapshot_is_exact_at_its_barrier() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        let backend = backend.as_mut();
        write_rows(backend, 0, &rows(0..5000, b"before"));
        write(backend, 0, &[(&number(1), None)]);
        let before = dump(backend, &[0]);
        let done = freeze(backend, rig.next_checkpoint());
        // Overwritten, deleted and added before, while and after the sweep gets there.
        write_rows(backend, 0, &rows(2000..6000, b"after"));
        backend.sweep().expect("a sweep succeeds");
        write(backend, 0, &[(&number(0), None), (&number(4999), None), (&number(1), Some(b"back"))]);
        let snapshot = finish(backend, &done);
        let restored = rig.storage.upload(&snapshot);
        let now = dump(backend, &[0]);
        assert_eq!(now.len(), 5998, "two are deleted of 6000, one that was came back");
        assert_eq!(dump(rig.open(Some(restored)).as_mut(), &[0]), before);
    });
}

#[test]
fn two_freezes_overlap_and_each_gets_its_own_values() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        let backend = backend.as_mut();
        write_rows(backend, 0, &rows(0..3000, b"one"));
        let at_one = dump(backend, &[0]);
        let one = freeze(backend, rig.next_checkpoint());
        write_rows(backend, 0, &rows(1000..4000, b"two"));
        let at_two = dump(backend, &[0]);
        let two = freeze(backend, rig.next_checkpoint());
        write_rows(backend, 0, &rows(500..3500, b"three"));
        let at_three = dump(backend, &[0]);
        let three = freeze(backend, rig.next_checkpoint());
        write_rows(backend, 0, &[(number(600), None)]);
        for (done, expected) in [(one, at_one), (two, at_two), (three, at_three)] {
            let snapshot = finish(backend, &done);
            let restored = rig.storage.upload(&snapshot);
            let mut other = Rig::new(rig.flavor);
            assert_eq!(dump(other.open(Some(restored)).as_mut(), &[0]), expected);
        }
    });
}

#[test]
fn a_freeze_without_changes_is_a_snapshot_too() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        let restored = rig.checkpoint(backend.as_mut());
        assert!(dump(Rig::new(rig.flavor).open(Some(restored)).as_mut(), &[0]).is_empty());
        write(backend.as_mut(), 0, &[(b"k", Some(b"v"))]);
        let first = rig.checkpoint(backend.as_mut());
        let second = rig.checkpoint(backend.as_mut());
        assert_eq!(first, second, "nothing changed, so the files are the same");
        assert_eq!(dump(Rig::new(rig.flavor).open(Some(second)).as_mut(), &[0]).len(), 1);
    });
}

#[test]
fn restored_state_goes_on_and_deletes_stay_deleted() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        write_rows(backend.as_mut(), 0, &rows(0..1000, b"one"));
        let mut restored = rig.checkpoint(backend.as_mut());
        for round in 0..4u32 {
            drop(backend);
            backend = rig.open(Some(restored));
            let at = round * 100;
            let deleted: Vec<_> = (at..at + 50).map(|n| (number(n), None)).collect();
            write_rows(backend.as_mut(), 0, &deleted);
            write_rows(backend.as_mut(), 0, &rows(at + 50..at + 60, b"two"));
            restored = rig.checkpoint(backend.as_mut());
            let model = dump(backend.as_mut(), &[0]);
            assert_eq!(model.len() as u32, 1000 - 50 * (round + 1));
            assert_eq!(dump(Rig::new(rig.flavor).open(Some(restored.clone())).as_mut(), &[0]), model);
        }
    });
}

#[test]
fn a_snapshot_after_an_abort_holds_what_the_aborted_one_held() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        write_rows(backend.as_mut(), 0, &rows(0..500, b"one"));
        let aborted = rig.snapshot(backend.as_mut());
        write_rows(backend.as_mut(), 0, &rows(400..700, b"two"));
        let next = rig.snapshot(backend.as_mut());
        assert!(next.deltas.iter().chain(&next.base).all(|file| !file.stored), "nothing was completed: {next:?}");
        let restored = rig.complete(backend.as_mut(), &next);
        let model = dump(backend.as_mut(), &[0]);
        assert_eq!(dump(Rig::new(rig.flavor).open(Some(restored)).as_mut(), &[0]), model);
        // A completion that comes twice or late changes nothing.
        backend.completed(aborted.checkpoint);
        backend.completed(next.checkpoint);
        let last = rig.checkpoint(backend.as_mut());
        assert_eq!(dump(Rig::new(rig.flavor).open(Some(last)).as_mut(), &[0]), model);
    });
}

#[test]
fn scans_merge_what_is_cached_frozen_and_stored() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        let backend = backend.as_mut();
        write_rows(backend, 0, &rows(0..300, b"stored"));
        write_rows(backend, 1, &rows(200..400, b"stored"));
        rig.checkpoint(backend);
        write_rows(backend, 0, &rows(350..500, b"frozen"));
        write_rows(backend, 0, &[(number(3), None), (number(250), None)]);
        let done = freeze(backend, rig.next_checkpoint());
        write_rows(backend, 2, &rows(900..1000, b"live"));
        write_rows(backend, 0, &[(number(4), None), (number(360), None), (number(3), Some(b"back".into()))]);
        let keys = |ranges: &[std::ops::Range<u32>], but: &[u32]| -> BTreeSet<Vec<u8>> {
            ranges.iter().cloned().flatten().filter(|n| !but.contains(n)).map(number).collect()
        };
        let cases = [
            (&[0u16][..], keys(&[0..300, 350..500], &[4, 250, 360])),
            (&[1], keys(&[200..300, 300..400], &[])),
            (&[0, 1], keys(&[0..300, 200..500], &[4])),
            (&[2, 0, 1], keys(&[0..500, 900..1000], &[4])),
            (&[5], BTreeSet::new()),
            (&[], BTreeSet::new()),
        ];
        for when in ["while it is frozen", "when it is stored"] {
            for (states, expected) in &cases {
                for page in [1, 10, 5000] {
                    let got: BTreeSet<_> = scan(backend, states, page).into_iter().collect();
                    assert_eq!(&got, expected, "{states:?} in pages of {page}, {when}");
                }
            }
            if when == "while it is frozen" {
                finish(backend, &done);
            }
        }
        assert!(backend.scan_keys(&[0], None, 0).expect("a scan succeeds").is_empty());
    });
}

#[test]
fn a_scan_may_delete_and_change_what_it_returned() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        write_rows(backend.as_mut(), 0, &rows(0..500, b"v"));
        rig.checkpoint(backend.as_mut());
        write_rows(backend.as_mut(), 0, &rows(500..1000, b"v"));
        let (mut seen, mut last) = (0, None::<Vec<u8>>);
        loop {
            let page = backend.scan_keys(&[0], last.as_deref(), 64).expect("a scan succeeds");
            let changes: Vec<_> =
                page.iter().enumerate().map(|(i, key)| (key.clone(), (i % 2 == 0).then(|| b"seen".to_vec()))).collect();
            write_rows(backend.as_mut(), 0, &changes);
            seen += page.len();
            last = page.last().cloned();
            if page.len() < 64 {
                break;
            }
        }
        assert_eq!(seen, 1000);
        let left = dump(backend.as_mut(), &[0]);
        assert_eq!(left.len(), 500);
        assert!(left.values().all(|value| value == b"seen"));
    });
}

#[test]
fn a_dropped_backend_answers_every_freeze() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        write_rows(backend.as_mut(), 0, &rows(0..10_000, b"v"));
        let one = freeze(backend.as_mut(), rig.next_checkpoint());
        write_rows(backend.as_mut(), 0, &rows(0..10_000, b"w"));
        let two = freeze(backend.as_mut(), rig.next_checkpoint());
        drop(backend);
        for done in [one, two] {
            // Either way, but once: the thread that waits for it must not hang.
            let _either: Result<_, _> = done.recv().expect("the callback is called");
            assert!(done.recv().is_err(), "it is called once");
        }
    });
}

#[test]
fn a_file_that_is_cut_or_missing_is_refused_by_name() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        write_rows(backend.as_mut(), 0, &rows(0..1000, b"value"));
        let good = rig.checkpoint(backend.as_mut());
        drop(backend);
        let file = good.base.iter().chain(&good.deltas).next().expect("there is a file").clone();
        let content = std::fs::read(&file.local).expect("the stored file is read");
        for broken in [Some(&content[..content.len() - 1]), Some(&b""[..]), None] {
            match broken {
                Some(bytes) => std::fs::write(&file.local, bytes).expect("the stored file is broken"),
                None => std::fs::remove_file(&file.local).expect("the stored file is removed"),
            }
            let Err(e) = rig.try_open(Some(good.clone())) else { panic!("a broken file was restored") };
            let text = e.to_string();
            assert!(text.contains(&file.name) && text.contains(&*file.local.to_string_lossy()), "{text}");
        }
        std::fs::write(&file.local, &content).expect("the stored file is mended");
        assert_eq!(dump(rig.open(Some(good)).as_mut(), &[0]).len(), 1000);
    });
}

/// What a file holds was checked by whoever fetched it; large state is not read a second time.
#[test]
fn a_restore_takes_no_checksum_again() {
    each(|mut rig| {
        let mut backend = rig.open(None);
        write_rows(backend.as_mut(), 0, &rows(0..1000, b"value"));
        let mut good = rig.checkpoint(backend.as_mut());
        drop(backend);
        good.base.iter_mut().chain(&mut good.deltas).for_each(|file| file.checksum = "not asked for".to_owned());
        assert_eq!(dump(rig.open(Some(good)).as_mut(), &[0]).len(), 1000);
    });
}
