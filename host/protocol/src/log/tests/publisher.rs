//! How a generation writes, and how it learns that it is over.

use super::super::publisher::{Effect, Event, Publisher};
use super::super::{CreateOutcome, LogEntry, Request, Slot};
use super::{checkpoint, entries, id};
use crate::Generation;
use crate::bounds::LOG_TRIES;
use crate::mutant::{Mutant, Mutation};

struct Script {
    machine: Publisher,
    last: Request,
}

impl Script {
    /// Generation 2, whose claim stands in slot 4.
    fn new() -> Self {
        Script { machine: Publisher::new(Generation(2), Slot(4)), last: Request(0) }
    }

    fn mutated(mutant: Mutant) -> Self {
        let mut script = Script::new();
        script.machine = script.machine.with_mutation(Mutation::of(mutant));
        script
    }

    #[track_caller]
    fn event(&mut self, event: Event, expected: &str) {
        let mut effects = Vec::new();
        self.machine.handle(event, &mut effects);
        let shown: Vec<String> = effects.into_iter().map(|effect| self.show(effect)).collect();
        assert_eq!(shown.join("; "), expected);
    }

    fn show(&mut self, effect: Effect) -> String {
        match effect {
            Effect::Create { request, slot, entry, .. } => {
                self.last = request;
                let what = match entry {
                    LogEntry::Checkpoint(checkpoint) => checkpoint.id.to_string(),
                    LogEntry::Tombstone { id } => format!("t{id}"),
                    LogEntry::Finished { generation, id } => format!("f{id} of g{generation}"),
                    other => panic!("a publisher does not write {other:?}"),
                };
                format!("create {what} at {}", slot.0)
            }
            Effect::Read { request, slot, .. } => {
                self.last = request;
                format!("read {}", slot.0)
            }
            Effect::Look { request, slot, .. } => {
                self.last = request;
                format!("look above {}", slot.0)
            }
            Effect::Published { id, slot } => format!("published {id} at {}", slot.0),
            Effect::Aborted { id } => format!("aborted {id}"),
            Effect::Finished { id } => format!("finished {id}"),
            Effect::Fenced { slot } => format!("fenced by {}", slot.0),
            Effect::GaveUp { .. } => "gave up".to_owned(),
        }
    }

    #[track_caller]
    fn publish(&mut self, text: &str, expected: &str) {
        self.event(Event::Publish { checkpoint: checkpoint(text) }, expected);
    }

    #[track_caller]
    fn created(&mut self, outcome: CreateOutcome, expected: &str) {
        self.event(Event::CreateAnswered { request: self.last, outcome }, expected);
    }

    #[track_caller]
    fn read(&mut self, word: &str, expected: &str) {
        let entry = entries(word).pop().map(|(_, entry)| entry);
        self.event(Event::ReadAnswered { request: self.last, entry }, expected);
    }

    #[track_caller]
    fn looked(&mut self, highest: u64, expected: &str) {
        self.event(Event::Looked { request: self.last, highest: Slot(highest) }, expected);
    }
}

#[test]
fn a_checkpoint_is_decided_once_nothing_stands_above_it() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Created, "look above 5");
    s.looked(5, "published 2-1 at 5");
    s.publish("2-3", "create 2-3 at 6");
}

/// (h) A newer claim landed at 6, and its process read the log before slot 5 was filled (retention had emptied it).
#[test]
fn something_above_fences() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Created, "look above 5");
    s.looked(6, "fenced by 6");
    s.publish("2-2", "");
}

#[test]
fn mutant_no_look_above_is_caught() {
    let mut s = Script::mutated(Mutant::NoLookAbove);
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Created, "published 2-1 at 5");
}

/// (h) Whatever stands above: were it the highest + 1, a fenced process would write after the claim that fenced it.
#[test]
fn the_slot_is_the_one_after_ones_own_last_entry() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Exists, "read 5");
    s.read("c3", "fenced by 5");
}

#[test]
fn ones_own_entry_found_after_no_answer_is_published() {
    for outcome in [CreateOutcome::Exists, CreateOutcome::Unknown] {
        let mut s = Script::new();
        s.publish("2-1", "create 2-1 at 5");
        s.created(outcome, "read 5");
        s.read("2-1", "look above 5");
        s.looked(5, "published 2-1 at 5");
    }
}

#[test]
fn mutant_unknown_publish_is_abort_is_caught() {
    let mut s = Script::mutated(Mutant::UnknownPublishIsAbort);
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Unknown, "aborted 2-1");
}

/// The same id with another digest is not what this process wrote.
#[test]
fn the_digest_tells_ones_own_entry() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    let other = LogEntry::Checkpoint(super::CheckpointEntry { digest: 0, ..checkpoint("2-1") });
    s.event(Event::ReadAnswered { request: s.last, entry: Some(other) }, "fenced by 5");
}

/// (h) The first create may still land.
#[test]
fn absent_means_create_again() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    s.read("", "create 2-1 at 5");
    s.created(CreateOutcome::Exists, "read 5");
    s.read("2-1", "look above 5");
}

#[test]
fn mutant_absent_is_not_written_is_caught() {
    let mut s = Script::mutated(Mutant::AbsentIsNotWritten);
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    s.read("", "aborted 2-1");
}

#[test]
fn a_tombstone_that_stands_aborts_for_certain() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.event(Event::Abort { id: id("2-1") }, "create t2-1 at 5");
    s.event(Event::Abort { id: id("2-1") }, "");
    s.created(CreateOutcome::Created, "look above 5");
    s.looked(5, "aborted 2-1");
    s.publish("2-2", "create 2-2 at 6");
}

/// 2-1 was still being collected when 2-2 was published first, and 2-2 was aborted.
#[test]
fn an_older_checkpoint_may_follow_one_that_was_aborted() {
    let mut s = Script::new();
    s.publish("2-2", "create 2-2 at 5");
    s.event(Event::Abort { id: id("2-2") }, "create t2-2 at 5");
    s.created(CreateOutcome::Created, "look above 5");
    s.looked(5, "aborted 2-2");
    s.publish("2-1", "create 2-1 at 6");
}

#[test]
fn a_tombstone_that_comes_too_late_publishes() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.event(Event::Abort { id: id("2-1") }, "create t2-1 at 5");
    s.created(CreateOutcome::Exists, "read 5");
    s.read("2-1", "look above 5");
    s.looked(5, "published 2-1 at 5");
}

#[test]
fn a_tombstone_is_created_again_while_the_slot_is_empty() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    s.event(Event::Abort { id: id("2-1") }, "create t2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    s.read("", "create t2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    s.read("t2-1", "look above 5");
}

#[test]
fn ones_own_tombstone_found_while_publishing_aborts() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    s.read("t2-1", "look above 5");
    s.looked(5, "aborted 2-1");
}

#[test]
fn another_entry_in_the_place_of_a_tombstone_fences() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.event(Event::Abort { id: id("2-1") }, "create t2-1 at 5");
    s.created(CreateOutcome::Exists, "read 5");
    s.read("c3", "fenced by 5");
}

#[test]
fn an_abort_of_what_stands_or_is_decided_is_ignored() {
    let mut s = Script::new();
    s.event(Event::Abort { id: id("2-1") }, "");
    s.publish("2-1", "create 2-1 at 5");
    s.event(Event::Abort { id: id("2-9") }, "");
    s.created(CreateOutcome::Created, "look above 5");
    s.event(Event::Abort { id: id("2-1") }, "");
    s.looked(5, "published 2-1 at 5");
    s.event(Event::Abort { id: id("2-1") }, "");
}

#[test]
fn finished_is_written_like_a_checkpoint() {
    let mut s = Script::new();
    s.event(Event::Finish { id: id("1-7") }, "create f1-7 of g2 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    let own = LogEntry::Finished { generation: Generation(2), id: id("1-7") };
    s.event(Event::ReadAnswered { request: s.last, entry: Some(own) }, "look above 5");
    s.looked(5, "finished 1-7");
}

#[test]
fn another_generations_finished_fences() {
    let mut s = Script::new();
    s.event(Event::Finish { id: id("1-7") }, "create f1-7 of g2 at 5");
    s.created(CreateOutcome::Exists, "read 5");
    let other = LogEntry::Finished { generation: Generation(3), id: id("1-7") };
    s.event(Event::ReadAnswered { request: s.last, entry: Some(other) }, "fenced by 5");
}

#[test]
fn a_listing_without_ones_own_entry_is_asked_again() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Created, "look above 5");
    s.looked(4, "look above 5");
    s.looked(5, "published 2-1 at 5");
}

#[test]
fn a_slot_that_cannot_be_read_decides_nothing() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    s.read("?", "gave up");
}

#[test]
fn it_gives_up_after_a_bounded_number_of_tries_and_decides_nothing() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.created(CreateOutcome::Unknown, "read 5");
    for _ in 1..LOG_TRIES {
        s.read("", "create 2-1 at 5");
        s.created(CreateOutcome::Unknown, "read 5");
    }
    s.read("", "gave up");
    s.publish("2-2", "");
}

#[test]
fn answers_to_earlier_questions_are_dropped() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    let old = s.last;
    s.event(Event::Abort { id: id("2-1") }, "create t2-1 at 5");
    s.event(Event::CreateAnswered { request: old, outcome: CreateOutcome::Created }, "");
    s.event(Event::ReadAnswered { request: old, entry: None }, "");
    s.event(Event::Looked { request: old, highest: Slot(9) }, "");
    s.event(Event::Failed { request: old, reason: String::new() }, "");
}

#[test]
fn a_checkpoint_of_another_generation_is_dropped() {
    Script::new().publish("1-9", "");
}

#[test]
#[should_panic(expected = "C1")]
fn c1_one_publish_at_a_time() {
    let mut s = Script::new();
    s.publish("2-1", "create 2-1 at 5");
    s.publish("2-2", "");
}

#[test]
#[should_panic(expected = "C1")]
fn c1_ids_rise() {
    let mut s = Script::new();
    s.publish("2-2", "create 2-2 at 5");
    s.created(CreateOutcome::Created, "look above 5");
    s.looked(5, "published 2-2 at 5");
    s.publish("2-1", "");
}
