//! Every cell of the alignment table, as scripts.
//!
//! Events: `a 1` (barrier), `a -1` (cancel), `abort 1` (from the coordinator), `a end` (EndOfInput). `0/1` is a checkpoint of
//! another attempt.

use super::{AlignAbort, AlignEffect, AlignEvent, BarrierAligner};
use crate::bounds;
use crate::ids::{ChannelIndex, CheckpointId, Generation};
use crate::mutant::Mutant;
use crate::testkit::run_script;

const GENERATION: Generation = Generation(1);

fn checkpoint(text: &str) -> CheckpointId {
    let (generation, sequence) = text.split_once('/').unwrap_or(("1", text));
    CheckpointId::new(Generation(generation.parse().expect("a number")), sequence.parse().expect("a number"))
}

fn channel(text: &str) -> ChannelIndex {
    ChannelIndex(u16::from(text.as_bytes()[0] - b'a'))
}

fn event(text: &str) -> AlignEvent {
    match text.split_once(' ').expect("two words") {
        ("abort", n) => AlignEvent::Abort { checkpoint: checkpoint(n) },
        (at, "end") => AlignEvent::EndOfInput { channel: channel(at) },
        (at, n) => match n.strip_prefix('-') {
            Some(n) => AlignEvent::Cancel { channel: channel(at), checkpoint: checkpoint(n) },
            None => AlignEvent::Barrier { channel: channel(at), checkpoint: checkpoint(n) },
        },
    }
}

fn show(effect: &AlignEffect) -> String {
    let name = |channel: &ChannelIndex| char::from(b'a' + channel.0 as u8);
    match effect {
        AlignEffect::Block(channel) => format!("block {}", name(channel)),
        AlignEffect::UnblockAll => "unblock".to_owned(),
        AlignEffect::Complete(n) => format!("complete {}", n.sequence()),
        AlignEffect::Aborted { checkpoint, reason } => {
            let reason = match reason {
                AlignAbort::Subsumed => "subsumed",
                AlignAbort::Cancelled => "cancelled",
                AlignAbort::Aborted => "aborted",
            };
            format!("give up {} {reason}", checkpoint.sequence())
        }
        AlignEffect::ForwardCancel(n) => format!("cancel {}", n.sequence()),
        AlignEffect::Finished => "finished".to_owned(),
        AlignEffect::Stale { channel, checkpoint } => format!("stale {} {}", name(channel), checkpoint.sequence()),
    }
}

fn run(channels: &str, script: &str, mutant: Option<Mutant>) -> Result<(), String> {
    let channels: Vec<ChannelIndex> = channels.split(' ').map(channel).collect();
    let mut aligner = BarrierAligner::new(GENERATION, &channels);
    if let Some(mutant) = mutant {
        aligner = aligner.with_mutant(mutant);
    }
    run_script(script, |text| {
        let mut effects = Vec::new();
        aligner.handle(event(text), &mut effects);
        effects.iter().map(show).collect()
    })
}

/// One test for each case: a name, the channels, the script.
macro_rules! cases {
    ($($name:ident: $channels:literal, $script:literal;)*) => {
        $(#[test]
        fn $name() {
            if let Err(difference) = run($channels, $script, None) {
                panic!("{difference}");
            }
        })*
    };
}

cases! {
    // Barrier, newer than everything.
    idle_newer_barrier_blocks_its_channel: "a b", "
        a 1 => block a";
    idle_newer_barrier_on_the_only_open_channel_completes: "a", "
        a 1 => block a, complete 1, unblock
        a 2 => block a, complete 2, unblock";
    aligning_newer_barrier_subsumes: "a b c", "
        a 1 => block a
        b 2 => give up 1 subsumed, unblock, block b
        a 2 => block a
        c 1 => stale c 1
        c 2 => block c, complete 2, unblock";
    aligning_newer_barrier_on_the_last_open_channel_completes_at_once: "a b", "
        a 1 => block a
        b 2 => give up 1 subsumed, unblock, block b
        a end => complete 2, unblock
        b end => finished";
    aligning_newer_barrier_that_was_aborted_forwards_a_cancel: "a b", "
        a 1 => block a
        abort 2 =>
        b 2 => give up 1 subsumed, unblock, cancel 2
        a 2 => stale a 2
        a 3 => block a
        b 3 => block b, complete 3, unblock";

    // Barrier of the current checkpoint.
    idle_barrier_of_the_last_checkpoint_is_stale: "a b", "
        b -1 => cancel 1
        a 1 => stale a 1";
    aligning_same_barrier_blocks_and_completes: "a b c", "
        c 1 => block c
        a 1 => block a
        b 1 => block b, complete 1, unblock";
    aligning_same_barrier_on_an_aligned_channel_is_our_bug: "a b", "
        a 1 => block a
        a 1 => panic A1";

    // Barrier older than the current one.
    idle_older_barrier_is_stale: "a b", "
        a -2 => cancel 2
        b 1 => stale b 1";
    aligning_older_barrier_is_stale: "a b", "
        a 2 => block a
        b 1 => stale b 1
        b 2 => block b, complete 2, unblock";

    // Cancel.
    idle_newer_cancel_is_forwarded_once: "a b", "
        a -1 => cancel 1
        b -1 =>
        a 2 => block a
        b 2 => block b, complete 2, unblock";
    idle_older_cancel_is_ignored: "a b", "
        a 2 => block a
        b 2 => block b, complete 2, unblock
        a -1 =>
        b -2 =>";
    aligning_cancel_of_the_same_checkpoint_gives_up: "a b", "
        a 1 => block a
        b -1 => give up 1 cancelled, unblock, cancel 1
        a 2 => block a";
    aligning_newer_cancel_gives_up_and_forwards_the_newer: "a b", "
        a 1 => block a
        b -3 => give up 1 cancelled, unblock, cancel 3
        a 2 => stale a 2
        a 3 => stale a 3
        a 4 => block a";
    aligning_older_cancel_is_ignored: "a b", "
        a 2 => block a
        b -1 =>
        b 2 => block b, complete 2, unblock";

    // Abort from the coordinator.
    idle_newer_abort_is_remembered_and_answers_the_barrier: "a b", "
        abort 1 =>
        a 1 => cancel 1
        b 1 => stale b 1
        a 2 => block a";
    idle_older_abort_is_ignored: "a", "
        a 1 => block a, complete 1, unblock
        abort 1 =>
        a 2 => block a, complete 2, unblock";
    aligning_abort_of_the_same_checkpoint_gives_up: "a b", "
        a 1 => block a
        abort 1 => give up 1 aborted, unblock, cancel 1
        b 1 => stale b 1
        b 2 => block b
        a 2 => block a, complete 2, unblock";
    aligning_newer_abort_is_remembered: "a b", "
        a 1 => block a
        abort 2 =>
        b 1 => block b, complete 1, unblock
        b 2 => cancel 2
        a 2 => stale a 2";
    aligning_older_abort_is_ignored: "a b", "
        a 2 => block a
        abort 1 =>
        b 2 => block b, complete 2, unblock";
    a_remembered_abort_is_forgotten_once_its_checkpoint_is_over: "a b", "
        abort 1 =>
        abort 2 =>
        a -2 => cancel 2
        b 1 => stale b 1
        b 2 => stale b 2
        b 3 => block b";

    // EndOfInput.
    idle_end_of_input_shrinks_what_is_awaited: "a b", "
        a end =>
        b 1 => block b, complete 1, unblock";
    idle_last_end_of_input_finishes: "a b", "
        a end =>
        b end => finished";
    aligning_end_of_input_completes_if_the_rest_is_aligned: "a b c", "
        a 1 => block a
        b end =>
        c end => complete 1, unblock
        a end => finished";
    aligning_end_of_input_goes_on_awaiting_the_rest: "a b c", "
        a 1 => block a
        b end =>
        c 1 => block c, complete 1, unblock";

    // What the driver must not do.
    reading_a_blocked_channel_is_our_bug: "a b", "
        a 1 => block a
        a -1 => panic A1";
    ending_a_blocked_channel_is_our_bug: "a b", "
        a 1 => block a
        a end => panic A1";
    reading_an_ended_channel_is_our_bug: "a b", "
        a end =>
        a 1 => panic A3";

    // Another attempt.
    a_barrier_of_another_attempt_is_stale: "a b", "
        a 0/9 => stale a 9
        a 2/1 => stale a 1
        a 1 => block a";
    cancel_and_abort_of_another_attempt_are_dropped: "a b", "
        a 1 => block a
        b -2/1 =>
        abort 2/1 =>
        b 1 => block b, complete 1, unblock";
}

const ENDED_WHILE_ALIGNING: &str = "
    a 1 => block a
    b end => complete 1, unblock";

const ENDED_BEFORE: &str = "
    b end =>
    a 1 => block a, complete 1, unblock";

#[test]
fn mutant_forget_an_ended_input_is_caught() {
    for script in [ENDED_WHILE_ALIGNING, ENDED_BEFORE] {
        assert_eq!(run("a b", script, None), Ok(()));
        assert!(run("a b", script, Some(Mutant::ForgetEndedInput)).is_err(), "not caught by {script}");
    }
}

#[test]
fn beyond_the_bound_the_oldest_abort_is_forgotten() {
    let mut aligner = BarrierAligner::new(GENERATION, &[ChannelIndex(0)]);
    let mut effects = Vec::new();
    let first = CheckpointId::new(GENERATION, 1);
    let mut id = first;
    for _ in 0..=bounds::REMEMBERED_ABORTS {
        aligner.handle(AlignEvent::Abort { checkpoint: id }, &mut effects);
        id = id.next();
    }
    assert_eq!(effects, []);
    let channel = ChannelIndex(0);
    aligner.handle(AlignEvent::Barrier { channel, checkpoint: first }, &mut effects);
    aligner.handle(AlignEvent::Barrier { channel, checkpoint: first.next() }, &mut effects);
    let aligned_in_vain = [AlignEffect::Block(channel), AlignEffect::Complete(first), AlignEffect::UnblockAll];
    assert_eq!(effects, [&aligned_in_vain[..], &[AlignEffect::ForwardCancel(first.next())]].concat());
}
