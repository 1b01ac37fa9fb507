//! A sink that dies: at each call that it makes to its host, and between its own calls, in every order.

use super::Subject;
use super::sink_rig::{Folders, SINK, mark};
use crate::graph::Problem;
use std::fmt::Debug;
use weir_plugin::batch::RecordBatch;
use weir_plugin::{
    AbortOutcome, CallError, Committable, CommitterInstance, CommitterSetup, Grants, Outcome, SinkWriterInstance, TaskInfo,
    TaskSetup,
};
use weir_protocol::{CheckpointId, Generation, Lineage, TransactionId};

/// Host calls of one call, after which no further death is tried.
const MAX_CALLS: u32 = 200;

/// Steps of an order.
const STEPS: usize = 4;

/// One promise: its name, and what tries it.
pub(super) type CrashCase = (&'static str, fn(&mut Lab<'_>) -> Result<String, String>);

/// Deaths inside of calls.
pub(super) const CASES: &[CrashCase] = &[
    ("a begin or a write that dies leaves what can be aborted", write_dies),
    ("a prepare that dies leaves what can be aborted", prepare_dies),
    ("a commit that dies, or whose answer is lost, is repeated without harm", commit_dies),
    ("an abort that dies is repeated without harm", abort_dies),
    ("a forget that dies is repeated without harm", forget_dies),
];

/// One sink on scratch folders. Instances are made at will; what is outside stays.
pub(super) struct Lab<'s> {
    subject: &'s Subject,
    folders: Folders,
    pub setup: TaskSetup,
    number: u64,
    /// What readers must see.
    committed: Vec<String>,
}

impl<'s> Lab<'s> {
    pub fn new(subject: &'s Subject, names: &[String]) -> Result<Self, Problem> {
        let folders = Folders::new(names)?;
        let task = TaskInfo { job: "test".to_owned(), operator: SINK.to_owned(), subtask: 0, parallelism: 1, attempt: 1 };
        let setup =
            TaskSetup { task, grants: Grants { folders: folders.grants(), ..Grants::default() }, ..subject.setup.clone() };
        Ok(Lab { subject, folders, setup, number: 0, committed: Vec::new() })
    }

    /// Both halves, opened and closed.
    pub fn open(&self) -> Result<(), CallError> {
        SinkWriterInstance::new(&self.subject.plugin, &self.setup)?.close()?;
        self.open_committer()?.close()
    }

    pub fn writer(&self) -> Result<SinkWriterInstance, String> {
        SinkWriterInstance::new(&self.subject.plugin, &self.setup).map_err(text)
    }

    pub fn committer(&self) -> Result<CommitterInstance, String> {
        self.open_committer().map_err(text)
    }

    fn open_committer(&self) -> Result<CommitterInstance, CallError> {
        let TaskSetup { task, config, limits, grants } = self.setup.clone();
        let setup = CommitterSetup { job: task.job, sink: SINK.to_owned(), config, limits, grants };
        CommitterInstance::new(&self.subject.plugin, setup)
    }

    pub fn next_id(&mut self) -> String {
        self.number += 1;
        let (lineage, generation) = (Lineage(0xa), Generation(1));
        TransactionId { lineage, generation, sink: SINK.to_owned(), writer: 0, number: self.number }.to_string()
    }

    fn checkpoint(&self) -> String {
        CheckpointId::new(Generation(1), self.number as u32).to_string()
    }

    /// A prepared transaction of a writer that is gone.
    pub fn prepared(&mut self, values: &[&str]) -> Result<Committable, String> {
        let mut writer = self.writer()?;
        self.prepared_by(&mut writer, values)
    }

    fn prepared_by(&mut self, writer: &mut SinkWriterInstance, values: &[&str]) -> Result<Committable, String> {
        let id = self.next_id();
        writer.begin(&id).map_err(text)?;
        writer.write(&batch(values)).map_err(text)?;
        let checkpoint = self.checkpoint();
        let prepared = writer.prepare(&checkpoint, false).map_err(text)?;
        let prepared = prepared.ok_or("records were written, but prepare gives no committable")?;
        Ok(Committable { id, checkpoint, version: prepared.version, bytes: prepared.bytes })
    }

    fn sees(&self, after: &str) -> Result<(), String> {
        let (mut seen, mut expected) = (self.folders.visible(), self.committed.clone());
        seen.sort_unstable();
        expected.sort_unstable();
        if seen == expected { Ok(()) } else { Err(format!("after {after} readers see {seen:?} instead of {expected:?}")) }
    }

    /// The transaction is gone: nothing is seen of it and it is not listed.
    fn is_gone(&self, id: &str, after: &str) -> Result<(), String> {
        self.sees(after)?;
        let listed = self.committer()?.list_dangling().map_err(text)?;
        match listed.iter().any(|other| other == id) {
            true => Err(format!("after {after} list-dangling still names {id}")),
            false => Ok(()),
        }
    }

    fn aborts(&self, id: &str, after: &str) -> Result<(), String> {
        let answer = self.committer()?.abort(&[id.to_owned()]);
        expect(&answer[0], |answer| matches!(answer, AbortOutcome::Aborted), "aborted", &format!("abort after {after}"))
    }
}

fn text(error: CallError) -> String {
    error.to_string()
}

fn batch(values: &[&str]) -> RecordBatch {
    let mut batch = RecordBatch::new();
    values.iter().for_each(|value| batch.push(b"key", &mark(value.as_bytes()), 7));
    batch
}

fn expect<T: Debug>(answer: &T, is: impl Fn(&T) -> bool, wanted: &str, call: &str) -> Result<(), String> {
    if is(answer) { Ok(()) } else { Err(format!("{call} answers {answer:?}, expected {wanted}")) }
}

fn deaths(calls: u32) -> String {
    match calls {
        0 => "it makes no call to the host".to_owned(),
        calls => format!("died at each of its {calls} calls to the host"),
    }
}

/// Dies at the first call to the host, at the second … until `run` says that it came through; gives how many there were.
fn at_each_call(mut run: impl FnMut(u32) -> Result<bool, String>) -> Result<u32, String> {
    for calls in 0..MAX_CALLS {
        if run(calls)? {
            return Ok(calls);
        }
    }
    Ok(MAX_CALLS)
}

fn write_dies(lab: &mut Lab<'_>) -> Result<String, String> {
    let calls = at_each_call(|calls| {
        let (mut writer, id) = (lab.writer()?, lab.next_id());
        writer.crash_after(calls);
        let written = writer.begin(&id).and_then(|()| writer.write(&batch(&["a", "b"])));
        let after = format!("begin and write that died at call {} to the host", calls + 1);
        if let Err(error) = &written
            && !writer.is_poisoned()
        {
            return Err(error.to_string());
        }
        drop(writer);
        lab.aborts(&id, &after)?;
        lab.is_gone(&id, &after)?;
        Ok(written.is_ok())
    })?;
    Ok(deaths(calls))
}

fn prepare_dies(lab: &mut Lab<'_>) -> Result<String, String> {
    let calls = at_each_call(|calls| {
        let (mut writer, id) = (lab.writer()?, lab.next_id());
        writer.begin(&id).map_err(text)?;
        writer.write(&batch(&["a", "b"])).map_err(text)?;
        writer.crash_after(calls);
        let prepared = writer.prepare(&lab.checkpoint(), false);
        let after = format!("a prepare that died at call {} to the host", calls + 1);
        if let Err(error) = &prepared
            && !writer.is_poisoned()
        {
            return Err(error.to_string());
        }
        drop(writer);
        lab.sees(&after)?;
        lab.aborts(&id, &after)?;
        lab.is_gone(&id, &after)?;
        Ok(prepared.is_ok())
    })?;
    Ok(deaths(calls))
}

fn commit_dies(lab: &mut Lab<'_>) -> Result<String, String> {
    let calls = at_each_call(|calls| {
        let values = [format!("{calls}a"), format!("{calls}b")];
        let what = [lab.prepared(&[&values[0], &values[1]])?];
        let mut committer = lab.committer()?;
        committer.crash_after(calls);
        let first = committer.commit(&what).remove(0);
        let after = format!("a commit that died at call {} to the host", calls + 1);
        let seen = lab.folders.visible().iter().filter(|seen| values.contains(seen)).count();
        if ![0, 2].contains(&seen) {
            return Err(format!("after {after} readers see {seen} of 2 records of one transaction"));
        }
        lab.committed.extend(values);
        // The process that restarts knows nothing of the answer, whatever it was.
        let again = lab.committer()?.commit(&what).remove(0);
        let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Committed | Outcome::AlreadyCommitted);
        expect(&again, is_done, "committed or already-committed", &format!("commit after {after}"))?;
        lab.sees(&format!("{after} and its repeat"))?;
        let status = lab.committer()?.status(&what).remove(0);
        expect(&status, |it| matches!(it, Outcome::AlreadyCommitted), "already-committed", &format!("status after {after}"))?;
        Ok(first == Outcome::Committed)
    })?;
    Ok(deaths(calls))
}

fn abort_dies(lab: &mut Lab<'_>) -> Result<String, String> {
    let calls = at_each_call(|calls| {
        let what = [lab.prepared(&["a", "b"])?];
        let id = what[0].id.clone();
        let mut committer = lab.committer()?;
        committer.crash_after(calls);
        let first = committer.abort(std::slice::from_ref(&id)).remove(0);
        let after = format!("an abort that died at call {} to the host", calls + 1);
        lab.aborts(&id, &after)?;
        lab.is_gone(&id, &after)?;
        let commit = lab.committer()?.commit(&what).remove(0);
        expect(&commit, |it| matches!(it, Outcome::Lost(_)), "lost", &format!("commit after {after}"))?;
        lab.sees(&after)?;
        Ok(first == AbortOutcome::Aborted)
    })?;
    Ok(deaths(calls))
}

fn forget_dies(lab: &mut Lab<'_>) -> Result<String, String> {
    let calls = at_each_call(|calls| {
        let value = format!("{calls}");
        let what = [lab.prepared(&[&value])?];
        let mut committer = lab.committer()?;
        expect(&committer.commit(&what).remove(0), |it| *it == Outcome::Committed, "committed", "commit")?;
        lab.committed.push(value);
        committer.crash_after(calls);
        let id = [what[0].id.clone()];
        let first = committer.forget(&id);
        let after = format!("a forget that died at call {} to the host", calls + 1);
        lab.committer()?.forget(&id).map_err(|error| format!("forget after {after}: {error}"))?;
        lab.is_gone(&id[0], &after)?;
        Ok(first.is_ok())
    })?;
    Ok(deaths(calls))
}

/// What may come after a prepare.
#[derive(Clone, Copy, Debug)]
enum Step {
    Commit,
    Status,
    Abort,
    Crash,
}

const ALL: [Step; 4] = [Step::Commit, Step::Status, Step::Abort, Step::Crash];

/// What has become of the transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Prepared,
    Committed,
    Aborted,
}

/// Every order of so many steps, each on a transaction of its own.
pub(super) fn every_order(lab: &mut Lab<'_>) -> Result<String, String> {
    let orders = ALL.len().pow(STEPS as u32);
    let mut writer = lab.writer()?;
    for order in 0..orders {
        let steps: Vec<Step> = (0..STEPS).map(|i| ALL[order / ALL.len().pow(i as u32) % ALL.len()]).collect();
        let what = [lab.prepared_by(&mut writer, &["a"])?];
        one_order(lab, &what, &steps)?;
    }
    Ok(format!("{orders} orders"))
}

fn one_order(lab: &mut Lab<'_>, what: &[Committable; 1], steps: &[Step]) -> Result<(), String> {
    let id = [what[0].id.clone()];
    let mut committer = lab.committer()?;
    let mut phase = Phase::Prepared;
    for (i, step) in steps.iter().enumerate() {
        let so_far: Vec<String> = steps[..=i].iter().map(|step| format!("{step:?}").to_lowercase()).collect();
        let way = format!("prepare, {}", so_far.join(", "));
        match step {
            Step::Crash => committer = lab.committer()?,
            Step::Abort => {
                let answer = committer.abort(&id).remove(0);
                let wanted = if phase == Phase::Committed { AbortOutcome::Committed } else { AbortOutcome::Aborted };
                expect(&answer, |answer| *answer == wanted, &format!("{wanted:?}"), &way)?;
                if phase == Phase::Prepared {
                    phase = Phase::Aborted;
                }
            }
            Step::Commit | Step::Status => {
                let is_commit = matches!(step, Step::Commit);
                let answer = if is_commit { committer.commit(what) } else { committer.status(what) }.remove(0);
                let (is_right, wanted) = match phase {
                    Phase::Prepared if is_commit => (answer == Outcome::Committed, "committed"),
                    Phase::Prepared => (matches!(answer, Outcome::Retry(_)), "retry"),
                    Phase::Committed => (answer == Outcome::AlreadyCommitted, "already-committed"),
                    Phase::Aborted => (matches!(answer, Outcome::Lost(_)), "lost"),
                };
                expect(&answer, |_| is_right, wanted, &way)?;
                if is_commit && phase == Phase::Prepared {
                    phase = Phase::Committed;
                    lab.committed.push("a".to_owned());
                }
            }
        }
        lab.sees(&way)?;
    }
    match phase {
        Phase::Prepared => lab.aborts(&id[0], "an order without an end")?,
        Phase::Committed => committer.forget(&id).map_err(text)?,
        Phase::Aborted => {}
    }
    lab.is_gone(&id[0], "its end")?;
    // A consumer takes what it has seen, so that the folder stays small.
    lab.folders.take_away();
    lab.committed.clear();
    Ok(())
}
