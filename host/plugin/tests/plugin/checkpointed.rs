//! Operators with state of their own: snapshots, restores, and no fresh instance after a trap.

use crate::guest::{ECHO, Guest};
use crate::{batch, instance, load, setup};
use weir_plugin::*;

const PARTS: &[(&str, u32, &[u8])] = &[("split", 1, b"mine"), ("broadcast", 7, b"")];

#[test]
fn a_snapshot_gives_the_parts_and_a_restore_takes_them() {
    let mut given = instance(&Guest::checkpointed(&[], PARTS));
    let parts = given.snapshot().expect("it gives them");
    let part = |mode, schema_version, bytes: &[u8]| StatePart { mode, schema_version, bytes: bytes.to_vec() };
    assert_eq!(parts, [part(PartMode::Split, 1, b"mine"), part(PartMode::Broadcast, 7, b"")]);
    // Two parts; the second one is of version 7 and has no bytes.
    let check = "(if (i32.ne (local.get $len) (i32.const 2)) (then unreachable))
        (if (i32.ne (i32.load offset=28 (local.get $list)) (i32.const 7)) (then unreachable))
        (if (i32.ne (i32.load offset=16 (local.get $list)) (i32.const 4)) (then unreachable))
        (if (i32.ne (i32.load offset=36 (local.get $list)) (i32.const 0)) (then unreachable)) (call $ok)";
    let mut taken = instance(&Guest::checkpointed(&[], &[]).body("checkpointed#restore", check));
    taken.restore(&parts).expect("it takes them");
    assert_eq!(taken.snapshot().expect("it has none").len(), 0);
    taken.restore(&[]).expect_err("it wants two");
}

#[test]
fn who_has_no_such_state_is_not_asked() {
    let mut operator = instance(&Guest::operator(&[], &[]));
    assert!(!operator.plugin().is_checkpointed());
    assert_eq!(operator.snapshot().expect("nothing is called"), []);
    operator.restore(&[]).expect("nothing is called");
    assert!(load(&Guest::checkpointed(&[], &[])).expect("it loads").is_checkpointed());
}

#[test]
fn a_mode_that_nobody_knows_breaks_the_contract() {
    let error = instance(&Guest::checkpointed(&[], &[("union", 1, b"")])).snapshot().expect_err("refused").to_string();
    assert!(error.contains("snapshot: breaks the contract: part 0 of its snapshot: there is no mode \"union\""), "{error}");
}

#[test]
fn a_refused_restore_names_its_reason() {
    let refuse = "(call $error (i32.const 2) (i32.const 0) (i32.const 0))";
    let mut operator = instance(&Guest::checkpointed(&[], &[]).body("checkpointed#restore", refuse));
    let error = operator.restore(&[]).expect_err("refused");
    assert!(matches!(error.kind, CallErrorKind::Fatal(_)), "{error}");
    assert_eq!(error.site.function.name(), "restore");
}

#[test]
fn a_trap_fails_the_task_and_no_fresh_instance_goes_on_without_the_state() {
    let body = format!("(if (i32.eq (local.get $count) (i32.const 2)) (then unreachable)) {ECHO}");
    for (guest, replays) in [(Guest::operator(&[], &[]), true), (Guest::checkpointed(&[], PARTS), false)] {
        let plugin = load(&guest.process(body.clone())).expect("it loads");
        let spec = OperatorSpec { plugin, setup: setup(), retries: Retries::default() };
        let mut operator = SupervisedOperator::new(spec).expect("it opens");
        let done = operator.process(0, &batch(&[("k", "1"), ("k", "2")]), None, BadRecordPolicy::Skip);
        match done {
            Ok(_) => assert!(replays),
            Err(Failure::Task(error)) => assert!(!replays && matches!(error.kind, CallErrorKind::Trap { .. }), "{error}"),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(operator.counts().fresh_instances, u64::from(replays));
    }
}
