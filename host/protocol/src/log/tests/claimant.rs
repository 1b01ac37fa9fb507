//! How a generation begins.

use super::super::claimant::{ClaimRequest, Claimant, Effect, Event};
use super::super::{Claim, ClaimFacts, CreateOutcome, LogEntry, Request, Slot, Start};
use super::{entries, id};
use crate::bounds::{CLAIM_ROUNDS, LOG_TRIES};
use crate::mutant::{Mutant, Mutation};
use crate::recovery::{Ask, Purpose, Refusal, StartPoint};
use crate::{Generation, Lineage};

const RESUME: Ask = Ask { purpose: Purpose::Run, start: Start::Newest, allow_duplicates: false };
const FRESH: Ask = Ask { purpose: Purpose::Run, start: Start::Scratch, allow_duplicates: true };

struct Script {
    machine: Claimant,
    last: Request,
    claim: Option<(Slot, Claim)>,
}

impl Script {
    #[track_caller]
    fn begin(ask: Ask) -> Self {
        let facts = ClaimFacts { prefixes: ["mine".to_owned()].into(), parallelism: 2, ..ClaimFacts::default() };
        let machine = Claimant::new(ClaimRequest { nonce: 99, new_lineage: Lineage(5), ask, facts, above: Generation(0) });
        let mut script = Script { machine, last: Request(0), claim: None };
        script.event(Event::Begin, "list");
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
            Effect::List { request, .. } => {
                self.last = request;
                "list".to_owned()
            }
            Effect::Create { request, slot, claim, .. } => {
                self.last = request;
                let text = format!("create g{} at {}", claim.generation, slot.0);
                self.claim = Some((slot, claim));
                text
            }
            Effect::Read { request, slot, .. } => {
                self.last = request;
                format!("read {}", slot.0)
            }
            Effect::Claimed { slot, claim, plan, log: _ } => {
                let start = match plan.start {
                    StartPoint::Scratch => "scratch".to_owned(),
                    StartPoint::Checkpoint(id) => id.to_string(),
                };
                self.claim = Some((slot, claim.clone()));
                format!("claimed g{} at {} from {start}", claim.generation, slot.0)
            }
            Effect::Finished { id } => format!("finished {id}"),
            Effect::Refused { refusal: Refusal::WouldRepeat { .. } } => "refused: repeats".to_owned(),
            Effect::Refused { refusal: Refusal::ForeignLog { .. } } => "refused: foreign".to_owned(),
            Effect::Refused { refusal: Refusal::NewestUnreadable { .. } } => "refused: unreadable".to_owned(),
            Effect::Refused { refusal: Refusal::NoSuchCheckpoint { .. } } => "refused: no such".to_owned(),
            Effect::GaveUp { .. } => "gave up".to_owned(),
        }
    }

    #[track_caller]
    fn listed(&mut self, log: &str, expected: &str) {
        self.event(Event::Listed { request: self.last, entries: entries(log) }, expected);
    }

    /// A listing in which the claim made last stands where it was created, among these.
    #[track_caller]
    fn listed_with_claim(&mut self, log: &str, expected: &str) {
        let (slot, claim) = self.claim.clone().expect("claimed before");
        let mut entries = entries(log);
        entries.push((slot, LogEntry::Claim(claim)));
        self.event(Event::Listed { request: self.last, entries }, expected);
    }

    #[track_caller]
    fn created(&mut self, outcome: CreateOutcome, expected: &str) {
        self.event(Event::CreateAnswered { request: self.last, outcome }, expected);
    }

    #[track_caller]
    fn read(&mut self, entry: Option<LogEntry>, expected: &str) {
        self.event(Event::ReadAnswered { request: self.last, entry }, expected);
    }

    fn made(&self) -> Claim {
        self.claim.clone().expect("claimed before").1
    }
}

#[test]
fn the_first_claim_of_a_job() {
    let mut s = Script::begin(RESUME);
    s.listed("", "create g1 at 1");
    assert_eq!(s.made().lineage, Lineage(5));
    s.created(CreateOutcome::Created, "list");
    s.listed_with_claim("", "claimed g1 at 1 from scratch");
}

#[test]
fn a_claim_goes_above_the_highest_slot_and_the_highest_generation() {
    let mut s = Script::begin(RESUME);
    s.listed("_ _ c3 3-1 3-2", "create g4 at 6");
    s.created(CreateOutcome::Created, "list");
    s.listed_with_claim("_ _ c3 3-1 3-2", "claimed g4 at 6 from 3-2");
}

#[test]
fn a_slot_that_another_took_is_no_claim() {
    let mut s = Script::begin(RESUME);
    s.listed("c1", "create g2 at 2");
    s.created(CreateOutcome::Exists, "read 2");
    s.read(entries("_ 1-1").pop().map(|(_, entry)| entry), "list");
    s.listed("c1 1-1", "create g2 at 3");
}

/// C5: another process claims the same generation in the same slot; the nonce tells.
#[test]
fn another_claim_of_the_same_generation_is_not_ones_own() {
    let mut s = Script::begin(RESUME);
    s.listed("c1", "create g2 at 2");
    s.created(CreateOutcome::Unknown, "read 2");
    s.read(entries("c2").pop().map(|(_, entry)| entry), "list");
    s.listed("c1 c2", "create g3 at 3");
}

#[test]
fn ones_own_claim_found_after_no_answer_stands() {
    for outcome in [CreateOutcome::Exists, CreateOutcome::Unknown] {
        let mut s = Script::begin(RESUME);
        s.listed("", "create g1 at 1");
        s.created(outcome, "read 1");
        let own = LogEntry::Claim(s.made());
        s.read(Some(own), "list");
        s.listed_with_claim("", "claimed g1 at 1 from scratch");
    }
}

#[test]
fn absent_means_create_again() {
    let mut s = Script::begin(RESUME);
    s.listed("", "create g1 at 1");
    s.created(CreateOutcome::Unknown, "read 1");
    s.read(None, "create g1 at 1");
    s.created(CreateOutcome::Created, "list");
}

/// (h) Between the create and the listing another process claimed, read the newest checkpoint and recovered.
#[test]
fn something_above_the_claim_means_claim_anew() {
    let mut s = Script::begin(RESUME);
    s.listed("c1", "create g2 at 2");
    s.created(CreateOutcome::Created, "list");
    s.listed_with_claim("c1 _ c3 3-1", "create g4 at 5");
    s.created(CreateOutcome::Created, "list");
    s.listed_with_claim("c1 c2 c3 3-1", "claimed g4 at 5 from 3-1");
}

#[test]
fn mutant_no_look_above_is_caught() {
    let mut s = Script::begin(RESUME);
    s.machine = s.machine.with_mutation(Mutation::of(Mutant::NoLookAbove));
    s.listed("c1", "create g2 at 2");
    s.created(CreateOutcome::Created, "list");
    s.listed_with_claim("c1 _ c3", "claimed g2 at 2 from scratch");
}

/// A listing that is older than the claim says nothing.
#[test]
fn a_listing_without_the_claim_is_asked_again() {
    let mut s = Script::begin(RESUME);
    s.listed("c1", "create g2 at 2");
    s.created(CreateOutcome::Created, "list");
    s.listed("c1", "list");
    s.listed_with_claim("c1", "claimed g2 at 2 from scratch");
}

#[test]
fn finished_and_refused_leave_no_trace() {
    let mut s = Script::begin(RESUME);
    s.listed("c1 1-1last f1-1", "finished 1-1");
    let mut s = Script::begin(Ask { allow_duplicates: false, ..FRESH });
    s.listed("c1 1-1[0.1]", "refused: repeats");
    let mut s = Script::begin(RESUME);
    s.listed("c1 alien", "refused: foreign");
}

/// (h) What can be refused is judged again after the claim: here the checkpoint to start from was deleted in between.
#[test]
fn refused_after_the_claim() {
    let mut s = Script::begin(Ask { start: Start::From(id("1-1")), ..FRESH });
    s.listed("c1 1-1 1-2", "create g2 at 4");
    s.created(CreateOutcome::Created, "list");
    s.listed_with_claim("c1 _ 1-2", "refused: no such");
}

#[test]
fn finished_found_when_claiming_anew() {
    let mut s = Script::begin(RESUME);
    s.listed("c1 1-1last", "create g2 at 3");
    s.created(CreateOutcome::Exists, "read 3");
    s.read(entries("f1-1").pop().map(|(_, entry)| entry), "list");
    s.listed("c1 1-1last f1-1", "finished 1-1");
}

#[test]
fn facts_are_cumulative_and_remember_earlier_claims() {
    let mut s = Script::begin(RESUME);
    s.listed("c1 1-1 c2", "create g3 at 4");
    let facts = s.made().facts;
    assert!(facts.prefixes.contains("mine") && facts.sink_paths.contains("out"));
    assert_eq!(facts.parallelism, 2);
    assert_eq!(facts.lineages, [Lineage(1)].into());
    assert_eq!(facts.claims, [(Slot(1), Generation(1)), (Slot(3), Generation(2))].into());
}

/// Only claims that can judge a checkpoint: the last below the oldest one, and all above.
#[test]
fn claims_below_the_oldest_checkpoint_are_forgotten_but_for_the_last() {
    let mut s = Script::begin(RESUME);
    s.listed("c1 c2 2-1 c3", "create g4 at 5");
    assert_eq!(s.made().facts.claims, [(Slot(2), Generation(2)), (Slot(4), Generation(3))].into());
}

#[test]
fn fresh_draws_a_lineage_and_from_does_not() {
    let mut s = Script::begin(FRESH);
    s.listed("c1 1-1", "create g2 at 3");
    assert_eq!((s.made().lineage, s.made().start), (Lineage(5), Start::Scratch));
    assert_eq!(s.made().facts.lineages, [Lineage(1), Lineage(5)].into());
    let mut s = Script::begin(Ask { start: Start::From(id("1-1")), ..RESUME });
    s.listed("c1 1-1", "create g2 at 3");
    assert_eq!((s.made().lineage, s.made().start), (Lineage(1), Start::From(id("1-1"))));
}

#[test]
fn a_plain_claim_repeats_a_start_until_a_checkpoint_stands_after_it() {
    let mut s = Script::begin(RESUME);
    s.listed("c1 1-1[0.1] c2fresh!", "create g3 at 4");
    assert_eq!((s.made().start, s.made().allow_duplicates), (Start::Scratch, true));
    s.created(CreateOutcome::Created, "list");
    s.listed_with_claim("c1 1-1[0.1] c2fresh!", "claimed g3 at 4 from scratch");
    let mut s = Script::begin(RESUME);
    s.listed("c1 1-1 c2fresh! 2-1", "create g3 at 5");
    assert_eq!(s.made().start, Start::Newest);
}

#[test]
fn a_claim_for_maintenance_is_never_finished_nor_refused_for_repeats() {
    let maintain = Ask { purpose: Purpose::Maintain, ..RESUME };
    let mut s = Script::begin(maintain);
    s.listed("c1 1-1last f1-1", "create g2 at 4");
    s.created(CreateOutcome::Created, "list");
    s.listed_with_claim("c1 1-1last f1-1", "claimed g2 at 4 from 1-1");
}

#[test]
fn an_entry_that_cannot_be_read_may_be_a_claim() {
    let mut s = Script::begin(Ask { start: Start::From(id("1-1")), ..FRESH });
    s.listed("c1 1-1 ? ?", "create g4 at 5");
}

#[test]
fn answers_to_earlier_questions_are_dropped() {
    let mut s = Script::begin(RESUME);
    let old = s.last;
    s.listed("c1", "create g2 at 2");
    s.event(Event::Listed { request: old, entries: Vec::new() }, "");
    s.event(Event::CreateAnswered { request: old, outcome: CreateOutcome::Created }, "");
    s.event(Event::ReadAnswered { request: old, entry: None }, "");
    s.event(Event::Failed { request: old, reason: String::new() }, "");
    s.event(Event::Begin, "");
    s.created(CreateOutcome::Created, "list");
}

#[test]
fn it_gives_up_after_a_bounded_number_of_tries() {
    let mut s = Script::begin(RESUME);
    for _ in 1..LOG_TRIES {
        s.event(Event::Failed { request: s.last, reason: "down".to_owned() }, "list");
    }
    s.event(Event::Failed { request: s.last, reason: "down".to_owned() }, "gave up");
    s.listed("", "");
}

#[test]
fn it_gives_up_after_a_bounded_number_of_claims() {
    let mut s = Script::begin(RESUME);
    s.listed("", "create g1 at 1");
    for round in 1..CLAIM_ROUNDS {
        // Somebody else is always one slot higher.
        s.created(CreateOutcome::Created, "list");
        let highest = 2 * round as usize;
        s.listed(&"c9 ".repeat(highest), &format!("create g10 at {}", highest + 1));
    }
    s.created(CreateOutcome::Created, "list");
    s.listed(&"c9 ".repeat(2 * CLAIM_ROUNDS as usize), "gave up");
}
