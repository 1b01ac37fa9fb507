//! What a start comes to.

use super::super::Start;
use super::{id, view};
use crate::Generation;
use crate::recovery::{Ask, Purpose, RecoveryPlan, Refusal, Repeats, StartPoint, Verdict, plan};

const UP_TO: Generation = Generation(9);

fn ask(text: &str) -> Ask {
    let start = match text.trim_end_matches('!') {
        "resume" | "maintain" => Start::Newest,
        "fresh" => Start::Scratch,
        from => Start::From(id(from)),
    };
    let purpose = if text == "maintain" { Purpose::Maintain } else { Purpose::Run };
    Ask { purpose, start, allow_duplicates: text.ends_with('!') }
}

fn ids<'a>(of: impl IntoIterator<Item = &'a crate::TransactionId>) -> String {
    let short = |id: &crate::TransactionId| format!("{}:{}.{}", id.generation, id.writer, id.number);
    of.into_iter().map(short).collect::<Vec<_>>().join(" ")
}

fn repeats(repeats: &Repeats) -> String {
    ids(repeats.values().flatten())
}

fn show_plan(plan: &RecoveryPlan) -> String {
    let mut text = match plan.start {
        StartPoint::Scratch => "scratch".to_owned(),
        StartPoint::Checkpoint(id) => format!("from {id}"),
    };
    for (name, what) in [
        ("commit", ids(&plan.commit)),
        ("replayed", ids(&plan.replayed)),
        ("known", ids(&plan.known_committed)),
        ("repeats", repeats(&plan.repeats)),
    ] {
        if !what.is_empty() {
            text += &format!("; {name} {what}");
        }
    }
    if plan.last { text + "; last" } else { text }
}

fn show(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Proceed(plan) => show_plan(plan),
        Verdict::Finished(id) => format!("finished {id}"),
        Verdict::Refused(Refusal::ForeignLog { slot, job }) => format!("{job}'s log at {}", slot.0),
        Verdict::Refused(Refusal::NoSuchCheckpoint { id, available }) => format!("no {id} in {} checkpoints", available.len()),
        Verdict::Refused(Refusal::WouldRepeat { repeats: what, after, .. }) => {
            let after: Vec<String> = after.iter().map(ToString::to_string).collect();
            format!("would repeat [{}] of {}", repeats(what), after.join(" "))
        }
        Verdict::Refused(Refusal::NewestUnreadable { slot, available, .. }) => {
            format!("unreadable at {}, {} checkpoints", slot.0, available.len())
        }
    }
}

/// One line for each case: log | ask | verdict.
#[track_caller]
fn check(table: &str) {
    for line in table.trim().lines() {
        let [log, asked, expected] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert_eq!(show(&plan(&view(log), &ask(asked), UP_TO)), expected, "{line}");
    }
}

#[test]
fn a_resume_commits_what_the_newest_contains_and_starts_there() {
    check(
        "
                               | resume | scratch
        c1                     | resume | scratch
        c1 1-1[0.1]            | resume | from 1-1; commit 1:0.1
        c1 1-1[0.1] 1-2[0.1,0.2] t1-3 c2 | resume | from 1-2; commit 1:0.1 1:0.2
        c1 1-1[0.1] 1-2last    | resume | from 1-2; known 1:0.1; last
        ",
    );
}

/// (h) What an older checkpoint contains and the newest does not is known committed: no call.
#[test]
fn known_committed() {
    check(
        "
        c1 1-1[0.1] 1-2[0.2]   | resume | from 1-2; commit 1:0.2; known 1:0.1
        c1 1-1[0.1] 1-2[0.2]   | 1-1!   | from 1-1; commit 1:0.2; replayed 1:0.2; known 1:0.1; repeats 1:0.2
        c1 1-1[0.1]last f1-1   | maintain | from 1-1; known 1:0.1; last
        c1 1-1[0.1]last f1-1   | fresh! | scratch; known 1:0.1; repeats 1:0.1
        ",
    );
}

#[test]
fn finished_stands_after_the_last_checkpoint_and_the_last_claim_with_a_start() {
    check(
        "
        c1 1-1last f1-1              | resume | finished 1-1
        c1 1-1last f1-1 c2           | resume | finished 1-1
        c1 1-1last f1-1 c2fresh!     | resume | scratch
        c1 1-1last f1-1 c2fresh! 2-1 | resume | from 2-1
        c1 1-1last f1-1              | 1-1    | from 1-1; last
        ",
    );
}

/// (h) Starting at anything but the newest: first commit what it contains, and refuse what repeats.
#[test]
fn a_start_before_a_permit_is_refused() {
    check(
        "
        c1 1-1[0.1] 1-2[0.1,0.2] 1-3 | 1-1   | would repeat [1:0.2] of 1-2 1-3
        c1 1-1[0.1] 1-2[0.1,0.2] 1-3 | 1-1!  | from 1-1; known 1:0.1 1:0.2; repeats 1:0.2
        c1 1-1[0.1] 1-2[0.1]         | 1-1   | from 1-1; commit 1:0.1
        c1 1-1[0.1] 1-2[0.1]         | 1-2   | from 1-2; commit 1:0.1
        c1 1-1                       | fresh | would repeat [] of 1-1
        c1                           | fresh | scratch
        c1 1-1[0.1]                  | fresh! | scratch; commit 1:0.1; replayed 1:0.1; repeats 1:0.1
        c1 1-1                       | 1-7   | no 1-7 in 1 checkpoints
        ",
    );
}

#[test]
fn a_start_in_force_is_followed_until_a_checkpoint_stands_after_it() {
    check(
        "
        c1 1-1[0.1] 1-2[0.2] c2from1-1!     | resume | from 1-1; commit 1:0.2; replayed 1:0.2; known 1:0.1; repeats 1:0.2
        c1 1-1[0.1] 1-2[0.2] c2from1-1! c3from1-1! | resume | from 1-1; commit 1:0.2; replayed 1:0.2; known 1:0.1; repeats 1:0.2
        c1 1-1[0.1] 1-2[0.2] c2from1-1! 2-1 | resume | from 2-1; known 1:0.1 1:0.2
        c1 1-1[0.1] 1-2[0.2] c2from1-1!     | 1-2    | from 1-2; commit 1:0.2; known 1:0.1
        ",
    );
}

/// (h) An unreadable newest: only a start that the user chose, and that may repeat, passes it.
#[test]
fn an_unreadable_newest() {
    check(
        "
        c1 1-1[0.1] ?                | resume  | unreadable at 3, 1 checkpoints
        c1 1-1[0.1] ?                | resume! | unreadable at 3, 1 checkpoints
        c1 1-1[0.1] ?                | 1-1     | unreadable at 3, 1 checkpoints
        c1 1-1[0.1] ?                | 1-1!    | from 1-1; commit 1:0.1
        c1 1-1[0.1] ? 1-3[0.3]       | resume  | from 1-3; commit 1:0.3; known 1:0.1
        c1 1-1[0.1] ? c2from1-1!     | resume  | from 1-1; commit 1:0.1
        c1 1-1[0.1] ? c2from1-1! ?   | resume  | unreadable at 5, 1 checkpoints
        c1 1-1[0.1] ?                | maintain | unreadable at 3, 1 checkpoints
        ",
    );
}

#[test]
fn another_jobs_log_is_refused() {
    check("c1 alien | resume | other's log at 2");
}

#[test]
fn aborts_are_what_no_checkpoint_contains_up_to_ones_own_generation() {
    let Verdict::Proceed(plan) = plan(&view("c1 1-1[0.1,0.2] 1-2[0.2]"), &ask("resume"), Generation(2)) else {
        panic!("it may start")
    };
    let dangling: Vec<_> = ["1:0.1", "1:0.2", "1:0.3", "2:5.1", "3:0.1"].map(|text| super::tx(text, UP_TO)).into();
    assert_eq!(ids(&plan.aborts(&dangling)), "1:0.3 2:5.1");
}
