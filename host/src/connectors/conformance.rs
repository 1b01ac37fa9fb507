//! What every transactional sink must do, built-in or plugin, as one suite of cases over [`SinkConnector`].
//!
//! Each case runs on a fresh target. A crash is the loss of every writer and committer: they are dropped without `close`.

use super::{AbortAnswer, CommitAnswer, Committable, Committer, CommitterContext, Prepared, SinkConnector, SinkTask, SinkWriter};
use std::any::Any;
use std::fmt::Debug;
use weir_plugin::batch::RecordBatch;
use weir_protocol::{CheckpointId, Generation, Lineage, TransactionId};

/// A sink with an empty target, and eyes to look at it from outside.
pub struct Rig {
    /// The sink.
    pub connector: Box<dyn SinkConnector>,
    /// Its name.
    pub sink: String,
    /// The values that a consumer sees now, in any order.
    pub visible: Box<dyn Fn() -> Vec<String>>,
    /// Lets the consumer take all that it sees away; none if there is no such thing for this sink.
    pub take_away: Option<Box<dyn Fn()>>,
    /// What lies outside beside the visible values: staged data, markers.
    pub leftovers: Box<dyn Fn() -> Vec<String>>,
    /// Whether it can tell if committed output of an earlier run is there (a plugin can't be asked).
    pub tells_output: bool,
    /// Kept as long as the rig (a temporary folder).
    pub guard: Box<dyn Any>,
}

/// One promise.
pub struct Case {
    /// What is promised.
    pub name: &'static str,
    /// Tries it; says what was broken.
    pub run: fn(&Rig) -> Result<(), String>,
}

/// Every promise of a transactional sink.
pub const CASES: &[Case] = &[
    Case { name: "nothing is visible before the commit", run: invisible_before_commit },
    Case { name: "a commit shows every record once", run: commit_shows_all },
    Case { name: "a repeated commit changes nothing", run: commit_twice },
    Case { name: "another process commits after a crash", run: commit_after_crash },
    Case { name: "another process repeats a commit after a crash", run: commit_again_after_crash },
    Case { name: "a repeated commit does not bring back what the consumer took away", run: commit_after_take_away },
    Case { name: "an aborted transaction is gone, and never commits", run: abort_prepared },
    Case { name: "an open transaction is aborted after a crash", run: abort_open_after_crash },
    Case { name: "a transaction that was never heard of is aborted", run: abort_unknown },
    Case { name: "a committed transaction stays when it is aborted", run: abort_committed },
    Case { name: "an empty transaction leaves nothing", run: empty_transaction },
    Case { name: "status tells each phase and changes nothing", run: status_of_each_phase },
    Case { name: "all transactions of the job are listed, and no other's", run: list_all_of_the_job },
    Case { name: "another job's transactions are never touched", run: leave_others_alone },
    Case { name: "what is forgotten leaves nothing behind", run: forget_and_finish },
    Case { name: "a finished job leaves nothing behind, whatever was not forgotten", run: finish_without_forgetting },
    Case { name: "a transaction that rides commits with the next one, in order", run: ride_and_commit_in_order },
    Case { name: "after one that is not committed the rest is not tried", run: stop_at_the_first },
    Case { name: "several writers commit together", run: several_writers },
    Case { name: "a writer goes on while earlier transactions commit", run: write_while_committing },
];

/// Runs every case on a rig of its own; the texts say what was broken.
pub fn failures(make: &mut dyn FnMut() -> Rig) -> Vec<String> {
    let run = |case: &Case| (case.run)(&make()).err().map(|why| format!("{}: {why}", case.name));
    CASES.iter().filter_map(run).collect()
}

type Outcome = Result<(), String>;

const JOB: &str = "conformance";
const OURS: Lineage = Lineage(0xa);
const OURS_OLDER: Lineage = Lineage(0xb);
const OTHERS: Lineage = Lineage(0xc);

/// One attempt of the job, with the helpers that every case uses.
struct Run<'a> {
    rig: &'a Rig,
    lineage: Lineage,
    generation: Generation,
}

impl<'a> Run<'a> {
    fn first(rig: &'a Rig) -> Result<Self, String> {
        rig.connector.prepare_target().map_err(|error| error.message)?;
        Ok(Run { rig, lineage: OURS, generation: Generation(1) })
    }

    /// The attempt after a crash.
    fn next(&self) -> Self {
        Run { generation: Generation(self.generation.0 + 1), ..*self }
    }

    fn of_lineage(&self, lineage: Lineage) -> Self {
        Run { lineage, ..*self }
    }

    fn id(&self, writer: u32, number: u64) -> TransactionId {
        TransactionId { lineage: self.lineage, generation: self.generation, sink: self.rig.sink.clone(), writer, number }
    }

    fn writer(&self, subtask: u32) -> Result<Box<dyn SinkWriter>, String> {
        let task = SinkTask { job: JOB.to_owned(), lineage: self.lineage, generation: self.generation, subtask, parallelism: 4 };
        self.rig.connector.writer(&task).map_err(|error| error.message)
    }

    /// A committer of the job whose lineages are given.
    fn committer_of(&self, lineages: &[Lineage]) -> Result<Box<dyn Committer>, String> {
        let context =
            CommitterContext { job: JOB.to_owned(), lineages: lineages.to_vec(), generation: self.generation, plugin: None };
        let committer = self.rig.connector.committer(&context).map_err(|error| error.message)?;
        committer.ok_or_else(|| "it has no committer, so it is no transactional sink".to_owned())
    }

    fn committer(&self) -> Result<Box<dyn Committer>, String> {
        self.committer_of(&[OURS, OURS_OLDER])
    }

    /// Writes and prepares one transaction with its own number as checkpoint.
    fn prepare(&self, writer: &mut dyn SinkWriter, subtask: u32, number: u32, values: &[&str]) -> Result<Committable, String> {
        let id = self.id(subtask, u64::from(number));
        writer.begin(&id).map_err(|error| error.message)?;
        writer.write(&batch(values)).map_err(|error| error.message)?;
        let checkpoint = CheckpointId::new(self.generation, number);
        let step = writer.prepare(checkpoint, false).map_err(|error| error.message)?;
        let step = step.ok_or("records were written, but prepare gives no durable step")?;
        let prepared =
            step().map_err(|error| error.message)?.ok_or("records were written, but the durable step gives no committable")?;
        Ok(self.committable(id, checkpoint, prepared))
    }

    /// As a checkpoint gives it back.
    fn committable(&self, id: TransactionId, checkpoint: CheckpointId, prepared: Prepared) -> Committable {
        let plugin = self.rig.connector.plugin_digest().map(str::to_owned);
        let Prepared { version, bytes, valid_until: _ } = prepared;
        Committable { id, checkpoint, version, bytes, plugin, sources: Vec::new(), valid_until: None }
    }

    /// One writer, one prepared transaction, and then a crash of the writer.
    fn prepared(&self, subtask: u32, number: u32, values: &[&str]) -> Result<Committable, String> {
        self.prepare(&mut *self.writer(subtask)?, subtask, number, values)
    }

    /// Writes without preparing, and then a crash of the writer.
    fn left_open(&self, subtask: u32, number: u64, values: &[&str]) -> Result<TransactionId, String> {
        let (mut writer, id) = (self.writer(subtask)?, self.id(subtask, number));
        writer.begin(&id).map_err(|error| error.message)?;
        writer.write(&batch(values)).map_err(|error| error.message)?;
        Ok(id)
    }

    fn sees(&self, expected: &[&str]) -> Outcome {
        let mut got = (self.rig.visible)();
        got.sort_unstable();
        let mut expected: Vec<String> = expected.iter().map(|&value| value.to_owned()).collect();
        expected.sort_unstable();
        same("visible values", &got, &expected)
    }
}

fn batch(values: &[&str]) -> RecordBatch {
    let mut records = RecordBatch::new();
    values.iter().for_each(|value| records.push(b"key", value.as_bytes(), 7));
    records
}

fn same<T: PartialEq + Debug>(what: &str, got: &T, expected: &T) -> Outcome {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got:?}, expected {expected:?}")) }
}

/// An answer without its text.
fn kind(answer: &CommitAnswer) -> &'static str {
    match answer {
        CommitAnswer::Committed => "committed",
        CommitAnswer::AlreadyCommitted => "already committed",
        CommitAnswer::Retryable(_) => "retryable",
        CommitAnswer::Unknown(_) => "unknown",
        CommitAnswer::Lost(_) => "lost",
    }
}

fn answers(what: &str, got: &[CommitAnswer], expected: &[&str]) -> Outcome {
    let kinds: Vec<&str> = got.iter().map(kind).collect();
    if kinds == expected { Ok(()) } else { Err(format!("{what}: {got:?}, expected {expected:?}")) }
}

fn aborts(committer: &mut dyn Committer, what: &[TransactionId], expected: &[AbortAnswer]) -> Outcome {
    same("abort", &committer.abort(what).as_slice(), &expected)
}

fn lists(committer: &mut dyn Committer, expected: &[&TransactionId]) -> Outcome {
    let mut got = committer.list_dangling().map_err(|error| error.message)?;
    got.sort_unstable();
    let mut expected: Vec<TransactionId> = expected.iter().map(|&id| id.clone()).collect();
    expected.sort_unstable();
    same("list of transactions", &got, &expected)
}

fn invisible_before_commit(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let (mut writer, id) = (run.writer(0)?, run.id(0, 1));
    writer.begin(&id).map_err(|error| error.message)?;
    for _ in 0..3 {
        writer.write(&batch(&["a", "b"])).map_err(|error| error.message)?;
    }
    run.sees(&[])?;
    let step = writer.prepare(CheckpointId::new(run.generation, 1), false).map_err(|error| error.message)?;
    run.sees(&[])?;
    step.ok_or("no durable step")?().map_err(|error| error.message)?;
    run.sees(&[])?;
    if rig.connector.output().map_err(|error| error.message)?.is_some() {
        return Err("output, though nothing is committed".to_owned());
    }
    Ok(())
}

fn commit_shows_all(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let what = run.prepared(0, 1, &["a", "b", "", "a", "long long long"])?;
    answers("commit", &run.committer()?.commit(&[what]), &["committed"])?;
    run.sees(&["a", "b", "", "a", "long long long"])?;
    if rig.tells_output {
        same("output", &rig.connector.output().map_err(|error| error.message)?.is_some(), &true)?;
    }
    Ok(())
}

fn commit_twice(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let what = [run.prepared(0, 1, &["a"])?];
    let mut committer = run.committer()?;
    answers("first", &committer.commit(&what), &["committed"])?;
    answers("second", &committer.commit(&what), &["already committed"])?;
    answers("third", &committer.commit(&what), &["already committed"])?;
    run.sees(&["a"])
}

fn commit_after_crash(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let what = [run.prepared(0, 1, &["a"])?];
    answers("commit", &run.next().committer()?.commit(&what), &["committed"])?;
    run.sees(&["a"])
}

fn commit_again_after_crash(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let what = [run.prepared(0, 1, &["a"])?];
    answers("first", &run.committer()?.commit(&what), &["committed"])?;
    answers("second", &run.next().committer()?.commit(&what), &["already committed"])?;
    run.sees(&["a"])
}

fn commit_after_take_away(rig: &Rig) -> Outcome {
    let Some(take_away) = &rig.take_away else { return Ok(()) };
    let run = Run::first(rig)?;
    let what = [run.prepared(0, 1, &["a"])?];
    answers("first", &run.committer()?.commit(&what), &["committed"])?;
    take_away();
    run.sees(&[])?;
    answers("second", &run.next().committer()?.commit(&what), &["already committed"])?;
    run.sees(&[])
}

fn abort_prepared(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let what = run.prepared(0, 1, &["a"])?;
    let mut committer = run.next().committer()?;
    let id = [what.id.clone()];
    aborts(&mut *committer, &id, &[AbortAnswer::Aborted])?;
    aborts(&mut *committer, &id, &[AbortAnswer::Aborted])?;
    lists(&mut *committer, &[])?;
    answers("status", &committer.status(std::slice::from_ref(&what)), &["lost"])?;
    answers("commit", &committer.commit(&[what]), &["lost"])?;
    run.sees(&[])
}

fn abort_open_after_crash(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let id = run.left_open(0, 1, &["a"])?;
    let mut committer = run.next().committer()?;
    aborts(&mut *committer, &[id], &[AbortAnswer::Aborted])?;
    lists(&mut *committer, &[])?;
    run.sees(&[])
}

fn abort_unknown(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let mut committer = run.committer()?;
    aborts(
        &mut *committer,
        &[run.id(0, 77), run.of_lineage(OURS_OLDER).id(1, 1)],
        &[AbortAnswer::Aborted, AbortAnswer::Aborted],
    )?;
    lists(&mut *committer, &[])
}

fn abort_committed(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let what = run.prepared(0, 1, &["a"])?;
    let mut committer = run.committer()?;
    answers("commit", &committer.commit(std::slice::from_ref(&what)), &["committed"])?;
    aborts(&mut *committer, &[what.id], &[AbortAnswer::Committed])?;
    run.sees(&["a"])
}

fn empty_transaction(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let mut writer = run.writer(0)?;
    for (number, write) in [(1, false), (2, true)] {
        writer.begin(&run.id(0, number)).map_err(|error| error.message)?;
        if write {
            writer.write(&batch(&[])).map_err(|error| error.message)?;
        }
        let step =
            writer.prepare(CheckpointId::new(run.generation, number as u32), number == 2).map_err(|error| error.message)?;
        let prepared = step.map_or(Ok(None), |step| step()).map_err(|error| error.message)?;
        same("committable of an empty transaction", &prepared, &None)?;
    }
    writer.close().map_err(|error| error.message)?;
    lists(&mut *run.committer()?, &[])?;
    same("leftovers", &(rig.leftovers)(), &Vec::new())
}

fn status_of_each_phase(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let mut committer = run.committer()?;
    let what = [run.prepared(0, 1, &["a"])?, run.prepared(1, 1, &["b"])?];
    for _ in 0..2 {
        answers("prepared", &committer.status(&what), &["retryable", "retryable"])?;
    }
    run.sees(&[])?;
    answers("commit", &committer.commit(&what[..1]), &["committed"])?;
    answers("one committed", &committer.status(&what), &["already committed", "retryable"])?;
    aborts(&mut *committer, &[what[1].id.clone()], &[AbortAnswer::Aborted])?;
    answers("the other aborted", &run.next().committer()?.status(&what), &["already committed", "lost"])?;
    run.sees(&["a"])
}

fn list_all_of_the_job(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let (second, older) = (run.next(), run.of_lineage(OURS_OLDER));
    let one = run.prepared(0, 1, &["a"])?.id;
    let two = run.prepared(3, 9, &["b"])?.id;
    let three = second.prepared(0, 1, &["c"])?.id;
    let four = older.prepared(2, 12, &["d"])?.id;
    run.of_lineage(OTHERS).prepared(0, 1, &["e"])?;
    // Another attempt than any of these looks, and lists the newer one too.
    lists(&mut *run.committer()?, &[&one, &two, &three, &four])?;
    lists(&mut *run.next().next().committer()?, &[&one, &two, &three, &four])?;
    lists(&mut *run.committer_of(&[OURS_OLDER])?, &[&four])
}

fn leave_others_alone(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let theirs = [run.of_lineage(OTHERS).prepared(0, 1, &["theirs"])?];
    let mut committer = run.committer()?;
    if let [AbortAnswer::Aborted | AbortAnswer::Committed] = committer.abort(&[theirs[0].id.clone()])[..] {
        return Err("another job's transaction was aborted".to_owned());
    }
    committer.close(true).map_err(|error| error.message)?;
    answers("their commit", &run.committer_of(&[OTHERS])?.commit(&theirs), &["committed"])?;
    run.sees(&["theirs"])
}

fn forget_and_finish(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let (mut writer, mut committer) = (run.writer(0)?, run.committer()?);
    let one = run.prepare(&mut *writer, 0, 1, &["a"])?;
    let two = run.prepare(&mut *writer, 0, 2, &["b"])?;
    answers("commit", &committer.commit(&[one.clone(), two.clone()]), &["committed", "committed"])?;
    for _ in 0..2 {
        committer.forget(std::slice::from_ref(&one.id)).map_err(|error| error.message)?;
    }
    if committer.list_dangling().map_err(|error| error.message)?.contains(&one.id) {
        return Err("a forgotten transaction is still listed".to_owned());
    }
    committer.forget(&[two.id]).map_err(|error| error.message)?;
    lists(&mut *committer, &[])?;
    writer.close().map_err(|error| error.message)?;
    committer.close(true).map_err(|error| error.message)?;
    run.sees(&["a", "b"])?;
    same("leftovers", &(rig.leftovers)(), &Vec::new())
}

fn finish_without_forgetting(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let one = [run.prepared(0, 1, &["a"])?];
    let newer = [run.next().next().prepared(0, 2, &["newer"])?];
    answers("commit", &run.committer()?.commit(&one), &["committed"])?;
    // Prepared for no checkpoint: nobody will ever commit it.
    run.of_lineage(OURS_OLDER).prepared(1, 1, &["given up"])?;
    let mut last = run.next().committer()?;
    aborts(&mut *last, &[one[0].id.clone()], &[AbortAnswer::Committed])?;
    aborts(&mut *last, &[run.of_lineage(OURS_OLDER).id(1, 1)], &[AbortAnswer::Aborted])?;
    last.close(true).map_err(|error| error.message)?;
    run.sees(&["a"])?;
    lists(&mut *run.committer()?, &[&newer[0].id])?;
    answers("a newer owner's commit", &run.next().next().committer()?.commit(&newer), &["committed"])?;
    run.next().next().committer()?.close(true).map_err(|error| error.message)?;
    run.sees(&["a", "newer"])?;
    same("leftovers", &(rig.leftovers)(), &Vec::new())
}

fn ride_and_commit_in_order(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let mut writer = run.writer(0)?;
    // Checkpoint 1 is aborted, and its transaction rides in checkpoint 2.
    let what = [run.prepare(&mut *writer, 0, 1, &["a"])?, run.prepare(&mut *writer, 0, 2, &["b"])?];
    answers("commit", &run.committer()?.commit(&what), &["committed", "committed"])?;
    // Checkpoint 2 may have been recorded as committed only in part.
    answers("repeat", &run.next().committer()?.commit(&what), &["already committed", "already committed"])?;
    run.sees(&["a", "b"])
}

fn stop_at_the_first(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let what = [run.prepared(0, 1, &["a"])?, run.prepared(1, 1, &["b"])?, run.prepared(2, 1, &["c"])?];
    let mut committer = run.committer()?;
    aborts(&mut *committer, &[what[1].id.clone()], &[AbortAnswer::Aborted])?;
    answers("commit", &committer.commit(&what), &["committed", "lost", "retryable"])?;
    run.sees(&["a"])?;
    answers("the rest", &committer.commit(&what[2..]), &["committed"])?;
    run.sees(&["a", "c"])
}

fn several_writers(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let mut writers = [run.writer(0)?, run.writer(1)?, run.writer(2)?];
    let mut what = Vec::new();
    for number in 1..3 {
        for (subtask, writer) in (0..).zip(&mut writers) {
            what.push(run.prepare(&mut **writer, subtask, number, &[&format!("{subtask}.{number}")])?);
        }
    }
    answers("commit", &run.committer()?.commit(&what), &["committed"; 6])?;
    run.sees(&["0.1", "0.2", "1.1", "1.2", "2.1", "2.2"])
}

fn write_while_committing(rig: &Rig) -> Outcome {
    let run = Run::first(rig)?;
    let (mut writer, mut committer) = (run.writer(0)?, run.committer()?);
    let one = run.prepare(&mut *writer, 0, 1, &["a"])?;
    let open = run.id(0, 2);
    writer.begin(&open).map_err(|error| error.message)?;
    writer.write(&batch(&["b"])).map_err(|error| error.message)?;
    answers("commit", &committer.commit(&[one]), &["committed"])?;
    run.sees(&["a"])?;
    writer.write(&batch(&["c"])).map_err(|error| error.message)?;
    let step = writer.prepare(CheckpointId::new(run.generation, 2), true).map_err(|error| error.message)?;
    let prepared = step.ok_or("no durable step")?().map_err(|error| error.message)?.ok_or("no committable")?;
    let two = run.committable(open, CheckpointId::new(run.generation, 2), prepared);
    answers("commit", &committer.commit(&[two]), &["committed"])?;
    run.sees(&["a", "b", "c"])
}
