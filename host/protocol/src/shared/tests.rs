//! References, release and retention of files.

use super::{FileOrigin, FileRef, RegistryEffect, RegistryEvent, SharedStateRegistry};
use crate::ids::{CheckpointId, Generation};
use std::collections::BTreeSet;

fn id(sequence: u32) -> CheckpointId {
    CheckpointId::new(Generation(1), sequence)
}

fn names(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// `+f` is uploaded, `=f` is taken for stored.
fn files(text: &str) -> Vec<FileRef> {
    text.split_whitespace()
        .map(|word| {
            let origin = if word.starts_with('+') { FileOrigin::Uploaded } else { FileOrigin::Stored };
            FileRef { name: word[1..].to_owned(), origin }
        })
        .collect()
}

fn released(text: &str) -> RegistryEffect {
    RegistryEffect::Released { names: names(text) }
}

struct Bench(SharedStateRegistry);

impl Bench {
    fn new(retain: usize) -> Self {
        Bench(SharedStateRegistry::new(retain))
    }

    fn tell(&mut self, event: RegistryEvent) -> Vec<RegistryEffect> {
        let mut effects = Vec::new();
        self.0.handle(event, &mut effects);
        effects
    }

    fn register(&mut self, sequence: u32, text: &str) -> Vec<RegistryEffect> {
        self.tell(RegistryEvent::Registered { checkpoint: id(sequence), files: files(text) })
    }

    fn complete(&mut self, sequence: u32) -> Vec<RegistryEffect> {
        let mut effects = self.tell(RegistryEvent::Completed { checkpoint: id(sequence) });
        effects.extend(self.tell(RegistryEvent::Retire { needed: id(sequence) }));
        effects
    }

    fn abort(&mut self, sequence: u32) -> Vec<RegistryEffect> {
        self.tell(RegistryEvent::Aborted { checkpoint: id(sequence) })
    }
}

#[test]
fn an_aborted_checkpoint_releases_what_only_it_referred_to() {
    let mut bench = Bench::new(1);
    bench.register(1, "+base +d1");
    assert_eq!(bench.complete(1), []);
    bench.register(2, "=base =d1 +d2");
    assert_eq!(bench.abort(2), [released("d2")]);
    assert_eq!(bench.abort(2), [], "aborted again: nothing is left to release");
}

#[test]
fn a_subsumed_checkpoint_releases_what_no_later_one_refers_to_and_its_entry_goes_first() {
    let mut bench = Bench::new(1);
    bench.register(1, "+base +d1");
    bench.complete(1);
    bench.register(2, "=base +d2");
    assert_eq!(bench.complete(2), [RegistryEffect::Subsumed { checkpoint: id(1) }, released("d1")]);
}

#[test]
fn the_newest_are_kept_by_count_and_go_oldest_first() {
    let mut bench = Bench::new(2);
    for sequence in 1..=2 {
        bench.register(sequence, &format!("+f{sequence}"));
        assert_eq!(bench.complete(sequence), []);
    }
    bench.register(3, "+f3");
    assert_eq!(bench.complete(3), [RegistryEffect::Subsumed { checkpoint: id(1) }, released("f1")]);
    assert_eq!(bench.0.completed(), &BTreeSet::from([id(2), id(3)]));
}

#[test]
fn what_a_snapshot_under_way_may_count_on_is_kept() {
    let mut bench = Bench::new(1);
    for sequence in 1..=3 {
        bench.register(sequence, &format!("+f{sequence}"));
        bench.tell(RegistryEvent::Completed { checkpoint: id(sequence) });
    }
    let retired = bench.tell(RegistryEvent::Retire { needed: id(2) });
    assert_eq!(retired, [RegistryEffect::Subsumed { checkpoint: id(1) }, released("f1")]);
    assert_eq!(bench.tell(RegistryEvent::Retire { needed: id(3) }).len(), 2);
}

#[test]
fn a_file_of_a_checkpoint_under_way_is_not_stored() {
    let mut bench = Bench::new(1);
    bench.register(1, "+f");
    assert!(!bench.0.is_stored("f"));
    assert_eq!(bench.register(2, "=f +g"), [RegistryEffect::Gone { names: names("f") }]);
    assert_eq!(bench.abort(2), [released("g")], "f belongs to 1 alone");
    bench.complete(1);
    assert!(bench.0.is_stored("f"));
}

#[test]
fn a_released_file_is_not_stored() {
    let mut bench = Bench::new(1);
    bench.register(1, "+f");
    bench.complete(1);
    bench.register(2, "+g");
    bench.complete(2);
    assert_eq!(bench.register(3, "=f =g"), [RegistryEffect::Gone { names: names("f") }]);
}

#[test]
fn a_refused_snapshot_releases_its_uploads_and_nothing_that_is_referred_to() {
    let mut bench = Bench::new(1);
    bench.register(1, "+f");
    bench.complete(1);
    let refused = RegistryEvent::Refused { files: files("=f +late +f") };
    assert_eq!(bench.tell(refused), [released("late")]);
}

#[test]
fn restored_files_are_stored() {
    let mut bench = Bench::new(1);
    bench.tell(RegistryEvent::Restored { checkpoint: id(1), files: names("f") });
    assert_eq!(bench.register(2, "=f +g"), []);
    assert_eq!(bench.complete(2), [RegistryEffect::Subsumed { checkpoint: id(1) }]);
}

#[test]
#[should_panic(expected = "S3")]
fn a_name_used_twice_is_our_bug() {
    let mut bench = Bench::new(1);
    bench.register(1, "+f");
    bench.register(2, "+f");
}

#[test]
#[should_panic(expected = "C1")]
fn completing_below_the_newest_is_our_bug() {
    let mut bench = Bench::new(2);
    bench.complete(2);
    bench.complete(1);
}
