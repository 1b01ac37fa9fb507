//! Every step of a swap, and what a restart makes of it.

use super::{OperatorBuild, Probation, SwapEffect, SwapEvent, SwapMachine, SwapRefusal};
use crate::bounds;
use crate::ids::{CheckpointId, Generation};
use std::collections::BTreeSet;

fn id(sequence: u32) -> CheckpointId {
    CheckpointId::new(Generation(1), sequence)
}

/// Operator 0 runs `a`, operator 1 runs `x`.
fn machine() -> SwapMachine {
    SwapMachine::new(&["a".to_owned(), "x".to_owned()])
}

fn tell(machine: &mut SwapMachine, event: SwapEvent) -> Vec<SwapEffect> {
    let mut effects = Vec::new();
    machine.handle(event, &mut effects);
    effects
}

fn request(build: &str, probation: u32) -> SwapEvent {
    SwapEvent::Requested { operator: 0, build: build.to_owned(), probation, again: false }
}

fn again(build: &str) -> SwapEvent {
    SwapEvent::Requested { operator: 0, build: build.to_owned(), probation: 3, again: true }
}

fn failed(build: &str) -> SwapEvent {
    SwapEvent::BuildFailed { operator: 0, build: build.to_owned() }
}

/// Up to where subtasks exchange, with this checkpoint.
fn exchange(machine: &mut SwapMachine, build: &str, probation: u32, sequence: u32) {
    assert_eq!(tell(machine, request(build, probation)), [SwapEffect::Stage]);
    assert_eq!(tell(machine, SwapEvent::Staged), [SwapEffect::RequestCheckpoint]);
    let exchange = SwapEffect::Exchange { checkpoint: id(sequence) };
    assert_eq!(tell(machine, SwapEvent::Triggered { checkpoint: id(sequence) }), [exchange]);
}

/// The attempt ends and the next one begins with what this checkpoint says.
fn restart(machine: &mut SwapMachine, manifest: &[OperatorBuild]) -> Vec<SwapEffect> {
    let mut effects = tell(machine, SwapEvent::AttemptEnded);
    effects.extend(tell(machine, SwapEvent::AttemptBegan { restored: manifest.iter().cloned().map(Some).collect() }));
    effects
}

fn runs(machine: &SwapMachine) -> &str {
    &machine.builds()[0].runs
}

#[test]
fn a_swap_goes_its_way() {
    let mut machine = machine();
    exchange(&mut machine, "b", 2, 5);
    assert_eq!(runs(&machine), "a", "until the checkpoint stands");
    let after = machine.after(id(5));
    assert_eq!(after[0].probation, Some(Probation { old: "a".to_owned(), left: 2 }));
    assert_eq!((&*after[0].file, &*after[0].runs, &*after[1].runs), ("a", "b", "x"));
    let exchanged = SwapEffect::Exchanged { operator: 0, old: "a".to_owned(), probation: 2 };
    assert_eq!(tell(&mut machine, SwapEvent::Completed { checkpoint: id(5) }), [exchanged]);
    assert_eq!(machine.builds(), after);
    assert_eq!(tell(&mut machine, SwapEvent::Completed { checkpoint: id(6) }), []);
    assert_eq!(machine.after(id(7))[0].probation, None);
    assert_eq!(tell(&mut machine, SwapEvent::Completed { checkpoint: id(7) }), [SwapEffect::Passed { operator: 0 }]);
    assert_eq!(runs(&machine), "b");
    // What fails later is for the restart policy.
    tell(&mut machine, failed("b"));
    assert!(!machine.takes_back());
}

#[test]
fn without_a_probation_there_is_no_way_back() {
    let mut machine = machine();
    exchange(&mut machine, "b", 0, 5);
    let exchanged = SwapEffect::Exchanged { operator: 0, old: "a".to_owned(), probation: 0 };
    assert_eq!(tell(&mut machine, SwapEvent::Completed { checkpoint: id(5) }), [exchanged]);
    tell(&mut machine, failed("b"));
    assert!(!machine.takes_back());
}

#[test]
fn a_request_is_refused_for_a_reason() {
    let mut machine = machine();
    assert_eq!(tell(&mut machine, request("a", 3)), [SwapEffect::Refused(SwapRefusal::Same)]);
    assert_eq!(tell(&mut machine, request("b", 3)), [SwapEffect::Stage]);
    assert_eq!(tell(&mut machine, request("c", 3)), [SwapEffect::Refused(SwapRefusal::Busy)]);
    tell(&mut machine, SwapEvent::StageFailed);
    exchange(&mut machine, "b", 3, 1);
    assert_eq!(tell(&mut machine, request("c", 3)), [SwapEffect::Refused(SwapRefusal::Busy)]);
    tell(&mut machine, SwapEvent::Completed { checkpoint: id(1) });
    assert_eq!(tell(&mut machine, request("c", 3)), [SwapEffect::Refused(SwapRefusal::OnProbation(3))]);
    let other = SwapEvent::Requested { operator: 1, build: "y".to_owned(), probation: 1, again: false };
    assert_eq!(tell(&mut machine, other), [SwapEffect::Stage], "another operator is not on probation");
}

#[test]
fn what_comes_too_late_changes_nothing() {
    let mut machine = machine();
    for event in [SwapEvent::Staged, SwapEvent::StageFailed, SwapEvent::Completed { checkpoint: id(1) }, SwapEvent::AttemptEnded]
    {
        assert_eq!(tell(&mut machine, event), []);
        assert_eq!(machine, self::machine());
    }
}

#[test]
#[should_panic(expected = "X2")]
fn a_swap_checkpoint_of_no_swap_is_a_bug() {
    tell(&mut machine(), SwapEvent::Triggered { checkpoint: id(1) });
}

#[test]
fn an_attempt_that_ends_before_the_exchange_undoes_the_swap() {
    let undone = SwapEffect::Undone { operator: 0, failed: false };
    let mut staging = machine();
    tell(&mut staging, request("b", 3));
    assert_eq!(tell(&mut staging, SwapEvent::AttemptEnded), std::slice::from_ref(&undone));
    let mut staged = machine();
    tell(&mut staged, request("b", 3));
    tell(&mut staged, SwapEvent::Staged);
    assert_eq!(tell(&mut staged, SwapEvent::AttemptEnded), [undone]);
    assert_eq!(staged, machine());
}

#[test]
fn the_log_says_whether_the_swap_stands() {
    let before = machine().builds().to_vec();
    let mut lost = machine();
    exchange(&mut lost, "b", 3, 5);
    let manifest = lost.after(id(5));
    let mut stands = lost.clone();
    assert_eq!(restart(&mut lost, &before), [SwapEffect::Undone { operator: 0, failed: false }]);
    assert_eq!(lost, machine());
    let exchanged = SwapEffect::Exchanged { operator: 0, old: "a".to_owned(), probation: 3 };
    assert_eq!(restart(&mut stands, &manifest), [exchanged]);
    assert_eq!(stands.builds(), manifest);
}

#[test]
fn a_build_that_fails_on_probation_is_taken_back_and_remembered() {
    let mut machine = machine();
    exchange(&mut machine, "b", 3, 5);
    tell(&mut machine, SwapEvent::Completed { checkpoint: id(5) });
    let manifest = machine.builds().to_vec();
    tell(&mut machine, SwapEvent::BuildFailed { operator: 1, build: "x".to_owned() });
    tell(&mut machine, failed("a"));
    assert!(!machine.takes_back(), "neither is on probation");
    tell(&mut machine, failed("b"));
    assert!(machine.takes_back());
    let back = SwapEffect::RolledBack { operator: 0, failed: "b".to_owned(), old: "a".to_owned() };
    assert_eq!(restart(&mut machine, &manifest), [back]);
    assert_eq!(runs(&machine), "a");
    assert!(machine.after(id(6))[0].refused.contains("b"));
    assert_eq!(tell(&mut machine, request("b", 3)), [SwapEffect::Refused(SwapRefusal::HasFailed)]);
    assert_eq!(tell(&mut machine, again("b")), [SwapEffect::Stage]);
    // Tried in vain: it is remembered as before.
    tell(&mut machine, SwapEvent::StageFailed);
    assert_eq!(tell(&mut machine, request("b", 3)), [SwapEffect::Refused(SwapRefusal::HasFailed)]);
}

#[test]
fn a_build_that_fails_before_its_checkpoint_stands_is_taken_back_either_way() {
    let before = machine().builds().to_vec();
    let mut lost = machine();
    exchange(&mut lost, "b", 0, 5);
    let manifest = lost.after(id(5));
    tell(&mut lost, failed("a"));
    assert!(!lost.takes_back(), "a subtask that has not exchanged yet");
    tell(&mut lost, failed("b"));
    let mut stands = lost.clone();
    assert_eq!(restart(&mut lost, &before), [SwapEffect::Undone { operator: 0, failed: true }]);
    let back = SwapEffect::RolledBack { operator: 0, failed: "b".to_owned(), old: "a".to_owned() };
    assert_eq!(restart(&mut stands, &manifest), [back]);
    for machine in [lost, stands] {
        assert_eq!(runs(&machine), "a");
        assert!(machine.builds()[0].refused.contains("b"));
    }
}

#[test]
fn a_new_process_goes_on_with_what_the_checkpoint_says() {
    let mut first = machine();
    exchange(&mut first, "b", 3, 5);
    tell(&mut first, SwapEvent::Completed { checkpoint: id(5) });
    let mut second = machine();
    assert_eq!(restart(&mut second, first.builds()), []);
    assert_eq!(second.builds(), first.builds());
    // The way back is still there.
    tell(&mut second, failed("b"));
    restart(&mut second, first.builds());
    assert_eq!(runs(&second), "a");
}

#[test]
fn the_job_file_has_the_last_word_once_it_names_another_build() {
    let mut swapped = machine();
    exchange(&mut swapped, "b", 3, 5);
    tell(&mut swapped, SwapEvent::Completed { checkpoint: id(5) });
    let start = |file: &str| {
        let mut machine = SwapMachine::new(&[file.to_owned(), "x".to_owned()]);
        assert_eq!(restart(&mut machine, swapped.builds()), []);
        machine.builds()[0].clone()
    };
    assert_eq!(start("c"), OperatorBuild::of_file("c"), "a third one is taken");
    let taken_over = start("b");
    assert_eq!((&*taken_over.file, &*taken_over.runs), ("b", "b"));
    assert!(taken_over.probation.is_some(), "the way back stays");
    let from_scratch = {
        let mut machine = machine();
        tell(&mut machine, SwapEvent::AttemptBegan { restored: vec![None, None] });
        machine
    };
    assert_eq!(from_scratch, machine());
}

#[test]
fn failed_builds_are_remembered_up_to_a_bound() {
    let mut machine = machine();
    let mut names = BTreeSet::new();
    for n in 0..=bounds::REFUSED_BUILDS as u32 {
        let name = format!("b{n:03}");
        exchange(&mut machine, &name, 3, n + 1);
        tell(&mut machine, failed(&name));
        let manifest = machine.builds().to_vec();
        restart(&mut machine, &manifest);
        names.insert(name);
    }
    let refused = &machine.builds()[0].refused;
    assert_eq!(refused.len(), bounds::REFUSED_BUILDS);
    assert!(refused.contains("b064"), "the newest is remembered");
}
