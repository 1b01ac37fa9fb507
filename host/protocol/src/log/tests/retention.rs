//! Which entries may go.

use super::super::{LogEntry, LogView, Slot, retention};
use super::{entries, id, view};
use crate::Generation;

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
    check("c1 1-1 1-2 t1-3 1-4 1-5", 2, &[2, 3, 4]);
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
