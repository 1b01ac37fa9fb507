//! Which entries may go.

use super::super::{LogEntry, LogView, Slot, retention};
use super::{checkpoint, entries, id, view};
use crate::Generation;
use std::collections::BTreeMap;

#[track_caller]
fn check(log: &str, retain: usize, expected: &[u64]) {
    let slots: Vec<u64> = retention(&entries(log), retain).into_iter().map(|Slot(slot)| slot).collect();
    assert_eq!(slots, expected);
}

#[test]
fn nothing_goes_before_enough_checkpoints_stand() {
    check("c1 1-1 1-2", 3, &[]);
    check("", 1, &[]);
    check("c1 t1-1 c2 c3", 1, &[]);
}

#[test]
fn the_oldest_go_first_and_the_newest_stay() {
    check("c1 1-1 1-2 1-3 1-4 1-5", 2, &[2, 3, 4]);
}

#[test]
fn the_newest_claim_stays_and_older_ones_go() {
    check("c1 1-1 c2 c3 3-1", 1, &[1, 2, 3]);
}

/// (h) A create that lands late in an emptied slot above the newest checkpoint would be taken for the newest.
#[test]
fn nothing_above_the_newest_checkpoint_goes() {
    check("c1 1-1 c2 t2-1 c3 t3-1", 1, &[1]);
}

/// Nor between two that are kept: what lands there late could be named by `--from`.
#[test]
fn nothing_between_kept_checkpoints_goes() {
    check("c1 1-1 c2 c3 3-1", 2, &[1]);
}

#[test]
fn an_entry_that_cannot_be_read_goes_only_below_the_newest_claim() {
    check("c1 ? c2 ? 2-1", 1, &[1, 2]);
}

#[test]
fn another_jobs_entries_stay() {
    check("alien c1 1-1 1-2", 1, &[3]);
}

fn remembering(log: &str, claims: &[(u64, u32)]) -> Vec<(Slot, LogEntry)> {
    let mut log = entries(log);
    let newest = log.iter_mut().rev().find_map(|(_, entry)| match entry {
        LogEntry::Claim(claim) => Some(claim),
        _ => None,
    });
    let claims = claims.iter().map(|(slot, generation)| (Slot(*slot), Generation(*generation)));
    newest.expect("a claim").facts.claims = claims.collect();
    log
}

/// What is left of a log after retention, once `late` has landed in `slot`, if that is free.
fn landed(log: &[(Slot, LogEntry)], slot: u64, late: &str) -> LogView {
    let gone = retention(log, 1);
    let mut left: BTreeMap<_, _> = log.iter().filter(|(slot, _)| !gone.contains(slot)).cloned().collect();
    left.entry(Slot(slot)).or_insert(LogEntry::Checkpoint(checkpoint(late)));
    LogView::new(left)
}

/// C7: 1-1 was withdrawn and what it contains aborted; its first create is still on its way. Were its tombstone deleted, it
/// would count, and `--from 1-1` would take what it contains for committed.
#[test]
fn a_tombstone_keeps_its_slot_from_the_manifest_that_it_withdrew() {
    check("c1 t1-1 1-2 1-3", 1, &[3]);
    assert_eq!(landed(&entries("c1 t1-1 1-2 1-3"), 2, "1-1").checkpoint_ids(), [id("1-3")]);
    // A claim above it is not enough: it is deleted itself, and remembered for its own slot only.
    let log = remembering("c1 t1-1 1-2 c2 2-1", &[(1, 1)]);
    assert_eq!(retention(&log, 1), [Slot(1), Slot(3)]);
    assert_eq!(landed(&log, 2, "1-1").checkpoint_ids(), [id("2-1")]);
}

/// The log does not grow for ever: below all that the newest claim remembers nothing counts any more.
#[test]
fn a_tombstone_below_all_that_the_newest_claim_remembers_goes() {
    let log = remembering("_ t1-1 _ c2 2-1 c3 3-1", &[(4, 2)]);
    assert_eq!(retention(&log, 1), [Slot(2), Slot(4), Slot(5)]);
    assert_eq!(landed(&log, 2, "1-1").checkpoint_ids(), [id("3-1")]);
}

/// C7: nor do the claims after that one let it count again, though no checkpoint can be read that says where the oldest is.
#[test]
fn the_floor_never_sinks() {
    let log = remembering("_ _ _ _ _ c3 ?", &[(4, 2)]);
    assert_eq!(LogView::new(log).facts().claims, [(Slot(4), Generation(2)), (Slot(6), Generation(3))].into());
    // Nor by a claim that stands above, made from an older listing.
    let mut log = remembering("_ _ _ _ _ c3 _ c4", &[(1, 1)]);
    let LogEntry::Claim(older) = &mut log[0].1 else { panic!("a claim") };
    older.facts.claims = [(Slot(4), Generation(2))].into();
    log.insert(0, (Slot(2), LogEntry::Checkpoint(checkpoint("1-1"))));
    assert_eq!(LogView::new(log).checkpoint_ids(), []);
}

/// C7: it landed late, in a slot that retention had emptied of the claim that fenced its publisher.
#[test]
fn a_checkpoint_in_the_slot_of_a_claim_does_not_count() {
    let log = remembering("_ _ 1-2 _ c3 3-1", &[(1, 1), (3, 2)]);
    assert_eq!(LogView::new(log.clone()).checkpoint_ids(), [id("3-1")]);
    assert_eq!(retention(&log, 1), [Slot(3)]);
}

/// C7: so long ago that the claim is forgotten.
#[test]
fn a_checkpoint_below_all_that_the_newest_claim_remembers_does_not_count() {
    let log = remembering("_ _ 1-2 _ _ _ c4 4-1", &[(5, 3)]);
    assert_eq!(LogView::new(log).checkpoint_ids(), [id("4-1")]);
}

/// Generation 2 claimed by an old listing, and its create landed in a slot that retention had emptied: were that a fence, the
/// newest checkpoint would be lost.
#[test]
fn a_claim_that_landed_late_takes_no_checkpoint_away() {
    assert_eq!(view("c1 c2 1-2").checkpoint_ids(), [id("1-2")]);
}

#[test]
#[should_panic(expected = "S1")]
fn s1_at_least_the_newest_is_kept() {
    check("c1 1-1", 0, &[]);
}
