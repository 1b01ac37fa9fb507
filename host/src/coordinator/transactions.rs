//! `weir txn`: transactions without an end, as checkpoints and the outside know them; and how they get one without the job.

use super::committers::Committers;
use super::prepare::SinkFactory;
use super::targets::{committable_of, standing};
use crate::clock;
use crate::connectors::{CommitAnswer, Committable, CommitterContext, OutsideTransaction, SinkConnector};
use crate::graph::job_file::sink_from_section;
use crate::graph::{Problem, SinkConnectorSpec, SinkSpec};
use crate::store::lock::{DataLock, running_holder};
use crate::store::manifest::{CommittableManifest, Manifest};
use crate::store::{CheckpointStore, LogStore, claim_for_maintenance};
use crate::transactions::{SinkTransactions, Standing, TransactionPlace, TransactionReport, TransactionRow, TransactionWish};
use std::sync::Arc;
use std::time::Duration;
use weir_protocol::Generation;
use weir_protocol::log::LogView;

/// How long a commit is tried.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// A sink, and what the newest checkpoint holds of it.
struct Target {
    spec: SinkSpec,
    connector: Result<Arc<dyn SinkConnector>, String>,
    contained: Vec<Contained>,
}

struct Contained {
    what: Committable,
    sources: Vec<(String, String, u64, u64)>,
}

/// What the job's log says.
struct Stored {
    log: LogStore,
    newest: Option<Manifest>,
    /// Committables that are not known committed.
    is_finished: bool,
    context: CommitterContext,
}

/// Does what is wanted, and tells what is there afterwards.
pub(super) async fn transactions(
    place: &TransactionPlace,
    wish: &TransactionWish,
    factory: &SinkFactory,
) -> Result<TransactionReport, Problem> {
    let stored = read(place).await?;
    let mut targets = targets(place, &stored, factory)?;
    let mut report = TransactionReport {
        job: stored.log.job().to_owned(),
        checkpoint: stored.newest.as_ref().map(|newest| newest.id.clone()),
        running: running_holder(&place.data),
        sinks: Vec::new(),
    };
    let (mut failures, mut aborted) = (vec![None; targets.len()], vec![Vec::new(); targets.len()]);
    if *wish != TransactionWish::List {
        // The claim stops whoever still runs the job elsewhere; the lock stops one that would begin here.
        let lock = DataLock::acquire(&place.data, &format!("{} (weir txn)", report.job));
        let _lock = lock.map_err(|error| Problem::new("data folder", error.to_string(), ""))?;
        if let TransactionWish::Abort { names, lose_output } = wish {
            refuse_losses(&targets, &stored, names, *lose_output)?;
        }
        let claimed = claim_for_maintenance(stored.log.clone()).await;
        let claimed = claimed.map_err(|error| Problem::new("job's log", error.to_string(), ""))?;
        let context = CommitterContext { generation: claimed.claim.generation, ..stored.context.clone() };
        for (target, (failure, aborted)) in targets.iter_mut().zip(failures.iter_mut().zip(&mut aborted)) {
            match wish {
                TransactionWish::List => {}
                TransactionWish::Commit => {
                    target.contained.retain(|one| claimed.plan.commit.contains(&one.what.id));
                    *failure = commit(target, &context).await.err();
                }
                TransactionWish::Abort { names, .. } => *failure = abort(target, &stored, names, aborted).err(),
            }
        }
    }
    // Whoever is asked now is asked after all was done.
    for (target, (failure, aborted)) in targets.iter().zip(failures.into_iter().zip(aborted)) {
        let mut sink = look(target, &stored.context, report.running.is_some(), report.checkpoint.as_deref());
        sink.aborted = aborted;
        sink.failure = failure.or(sink.failure);
        report.sinks.push(sink);
    }
    Ok(report)
}

async fn read(place: &TransactionPlace) -> Result<Stored, Problem> {
    let at = || place.job.as_ref().map_or_else(|| place.data.display().to_string(), |job| format!("job '{job}'"));
    let problem = |what: String| Problem::new(at(), what, "");
    let store = CheckpointStore::open(&place.storage.to_string_lossy()).map_err(|error| {
        let next = match &place.job {
            Some(_) => "has the job been run, with this --data folder?",
            None => "give the job file, or its data folder if the checkpoints lie in there",
        };
        Problem::new(at(), error.to_string(), next)
    })?;
    let job = match &place.job {
        Some(job) => job.clone(),
        None => {
            let found = LogStore::job_in(&store).await.map_err(|error| problem(error.to_string()))?;
            found.ok_or_else(|| problem("its log is empty: no job was ever started here".to_owned()))?
        }
    };
    let log = LogStore::new(store, &job);
    let view = LogView::new(log.read_entries().await.map_err(|error| problem(error.to_string()))?);
    if view.newest_claim().is_none() {
        return Err(problem("it was never started: it has no transactions".to_owned()));
    }
    let newest = match view.newest() {
        None => None,
        Some((_, entry)) => Some(log.manifest(entry.id).await.map_err(|error| problem(error.to_string()))?),
    };
    let context = CommitterContext {
        job,
        lineages: view.facts().lineages.into_iter().collect(),
        generation: view.newest_claim().map_or(Generation(0), |(_, claim)| claim.generation),
        plugin: None,
    };
    Ok(Stored { log, newest, is_finished: view.finished().is_some(), context })
}

/// Sinks as the newest checkpoint knows them, and those of the job file that it does not.
fn targets(place: &TransactionPlace, stored: &Stored, factory: &SinkFactory) -> Result<Vec<Target>, Problem> {
    let mut targets = Vec::new();
    for sink in stored.newest.iter().flat_map(|newest| newest.sinks.values()) {
        let spec = sink_from_section(&sink.section, &|variable| std::env::var(variable).ok());
        let mut spec = spec.map_err(|problems| problems.into_iter().next().expect("a refusal has a problem"))?;
        let held = if stored.is_finished { &[][..] } else { &sink.committables[..] };
        let contained: Result<Vec<Contained>, String> = held.iter().map(contained).collect();
        let contained = contained.map_err(|why| Problem::new(format!("sink {}", spec.name), why, ""))?;
        if let SinkConnectorSpec::Plugin { sha256, .. } = &mut spec.connector {
            *sha256 = contained.first().and_then(|one| one.what.plugin.clone()).or(sha256.take());
        }
        targets.push((spec, contained));
    }
    for spec in &place.sinks {
        if !targets.iter().any(|(known, _)| known.name == spec.name && standing(&known.section) == standing(&spec.section)) {
            targets.push((spec.clone(), Vec::new()));
        }
    }
    let with_connector = |(spec, contained): (SinkSpec, Vec<Contained>)| {
        let connector = factory(&spec).map_err(|error| error.message);
        Target { spec, connector, contained }
    };
    let mut targets: Vec<Target> = targets.into_iter().map(with_connector).collect();
    targets.retain(|target| target.connector.as_ref().map_or(true, |connector| connector.is_transactional()));
    Ok(targets)
}

fn contained(stored: &CommittableManifest) -> Result<Contained, String> {
    Ok(Contained { what: committable_of(stored, Vec::new())?, sources: stored.sources.clone() })
}

impl Target {
    fn connector(&self) -> Result<&Arc<dyn SinkConnector>, String> {
        self.connector.as_ref().map_err(Clone::clone)
    }

    /// Those of every build that has made something.
    fn committers(&self, context: &CommitterContext) -> Result<Committers, String> {
        let mut committers = Committers::new(Arc::clone(self.connector()?), context.clone());
        for one in &self.contained {
            committers.of(&one.what.plugin).map_err(|error| error.message)?;
        }
        Ok(committers)
    }

    fn committables(&self) -> Vec<Committable> {
        self.contained.iter().map(|one| one.what.clone()).collect()
    }

    /// What became of what it contains, in that order.
    fn status(&self, context: &CommitterContext) -> Result<Vec<CommitAnswer>, String> {
        Ok(self.committers(context)?.status(&self.committables()))
    }
}

/// Commits what the newest checkpoint holds of a sink, as the job's next start would.
async fn commit(target: &Target, context: &CommitterContext) -> Result<(), String> {
    if target.contained.is_empty() {
        return Ok(());
    }
    let mut committers = target.committers(context)?;
    let deadline = clock::monotonic() + PATIENCE;
    loop {
        let answers = committers.commit(&target.committables());
        let why = answers.iter().find_map(|answer| match answer {
            CommitAnswer::Committed | CommitAnswer::AlreadyCommitted => None,
            CommitAnswer::Retryable(why) | CommitAnswer::Unknown(why) | CommitAnswer::Lost(why) => Some(why),
        });
        let Some(why) = why else { return Ok(()) };
        let is_lost = answers.iter().any(|answer| matches!(answer, CommitAnswer::Lost(_)));
        if is_lost || clock::monotonic() >= deadline {
            return Err(format!("not all is committed: {why}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Names that the newest checkpoint holds and that are not committed may not be aborted by mistake.
fn refuse_losses(targets: &[Target], stored: &Stored, names: &[String], lose_output: bool) -> Result<(), Problem> {
    let mut unknown: Vec<&String> = names.iter().collect();
    for target in targets {
        let place = || format!("sink {}", target.spec.name);
        let connector = target.connector().map_err(|why| Problem::new(place(), why, ""))?;
        let outside = connector.outside().map_err(|error| error.at(&place()))?;
        let open = |name: &String| outside.iter().flatten().any(|one| one.name == *name && one.is_open);
        unknown.retain(|name| !open(name));
        let held = held_names(target, &stored.context).map_err(|why| Problem::new(place(), why, ""))?;
        if let Some(name) = names.iter().find(|name| held.contains(name)).filter(|_| !lose_output) {
            let checkpoint = stored.newest.as_ref().map_or("", |newest| newest.id.as_str());
            return Err(Problem::new(
                place(),
                format!("{name} is prepared, and checkpoint {checkpoint} holds it: if it is aborted, its records are lost"),
                "'weir txn commit' makes them visible; --lose-output aborts it all the same",
            ));
        }
    }
    match unknown.first() {
        None => Ok(()),
        Some(name) => Err(Problem::new(
            name.as_str(),
            "no such transaction is open",
            "'weir txn list' tells which are; nothing was aborted",
        )),
    }
}

/// What of the newest checkpoint waits for its commit, as it is called outside.
fn held_names(target: &Target, context: &CommitterContext) -> Result<Vec<String>, String> {
    let connector = target.connector()?;
    let answers = target.status(context)?;
    let waits = |answer: &CommitAnswer| matches!(answer, CommitAnswer::Retryable(_) | CommitAnswer::Unknown(_));
    let held = target.contained.iter().zip(answers).filter(|(_, answer)| waits(answer));
    Ok(held.map(|(one, _)| connector.name_outside(&one.what)).collect())
}

fn abort(target: &Target, stored: &Stored, names: &[String], aborted: &mut Vec<String>) -> Result<(), String> {
    let connector = target.connector()?;
    let Some(outside) = connector.outside().map_err(|error| error.message)? else { return Ok(()) };
    let held = held_names(target, &stored.context)?;
    let is_meant = |name: &String| if names.is_empty() { !held.contains(name) } else { names.contains(name) };
    for one in outside.into_iter().filter(|one| one.is_open && is_meant(&one.name)) {
        connector.abort_outside(&one.name).map_err(|error| error.message)?;
        aborted.push(one.name);
    }
    Ok(())
}

/// What there is of a sink.
fn look(target: &Target, context: &CommitterContext, is_running: bool, checkpoint: Option<&str>) -> SinkTransactions {
    let connector = target.spec.section.get("connector").and_then(|text| text.as_str()).unwrap_or("unknown").to_owned();
    let mut sink = SinkTransactions { sink: target.spec.name.clone(), connector, ..SinkTransactions::default() };
    sink.failure = fill(&mut sink, target, context, is_running, checkpoint.unwrap_or_default()).err();
    sink
}

fn fill(
    sink: &mut SinkTransactions,
    target: &Target,
    context: &CommitterContext,
    is_running: bool,
    checkpoint: &str,
) -> Result<(), String> {
    let connector = target.connector()?;
    let outside = connector.outside().map_err(|error| error.message)?;
    let has_names = outside.is_some();
    sink.idle = outside.as_ref().map(|all| all.iter().filter(|one| !one.is_open).count());
    let mut outside = outside.unwrap_or_default();
    outside.retain(|one| one.is_open);
    let answers = target.status(context)?;
    for (one, answer) in target.contained.iter().zip(answers) {
        let name = connector.name_outside(&one.what);
        let (standing, state, end) = match answer {
            CommitAnswer::Committed | CommitAnswer::AlreadyCommitted => {
                sink.committed += 1;
                continue;
            }
            // Something else has its name by now.
            CommitAnswer::Retryable(why) if has_names && outside.iter().all(|open| open.name != name) => {
                (Standing::Lost, "gone", why)
            }
            CommitAnswer::Retryable(_) => {
                let end =
                    format!("checkpoint {checkpoint} holds it: the job's next start commits it, and so does 'weir txn commit'");
                (Standing::InCheckpoint, "prepared", end)
            }
            CommitAnswer::Lost(why) => (Standing::Lost, "lost", why),
            CommitAnswer::Unknown(why) => (Standing::Lost, "unknown", why),
        };
        let found = match standing {
            Standing::InCheckpoint => outside.iter().position(|open| open.name == name).map(|at| outside.remove(at)),
            Standing::InNone | Standing::Lost => None,
        };
        sink.transactions
            .push(TransactionRow { sources: one.sources.clone(), ..row(name, standing, state, found.as_ref(), end) });
    }
    for open in outside {
        let end = match is_running {
            true => "in no checkpoint yet: the job is running, and it may be its work",
            false => "in no checkpoint: the job's next start aborts it, and so does 'weir txn abort'",
        };
        sink.transactions.push(row(open.name.clone(), Standing::InNone, "open", Some(&open), end.to_owned()));
    }
    Ok(())
}

fn row(name: String, standing: Standing, state: &str, outside: Option<&OutsideTransaction>, end: String) -> TransactionRow {
    let age_ms = outside.and_then(|one| one.since_ms).map(|since| clock::wall_ms().saturating_sub(since));
    let timeout = outside.and_then(|one| one.timeout).map(|timeout| timeout.as_millis() as u64);
    TransactionRow {
        name,
        standing,
        state: outside.map_or(state, |one| one.state.as_str()).to_owned(),
        age_ms,
        left_ms: age_ms.zip(timeout).map(|(age, timeout)| timeout.saturating_sub(age)),
        places: outside.map(|one| one.places.clone()).unwrap_or_default(),
        sources: Vec::new(),
        end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_transaction_s_time_is_told() {
        let outside = OutsideTransaction {
            name: "a".into(),
            state: "Ongoing".into(),
            is_open: true,
            since_ms: Some(clock::wall_ms() - 10_000),
            timeout: Some(Duration::from_secs(70)),
            places: vec!["t/0".into()],
        };
        let told = row("a".into(), Standing::InNone, "open", Some(&outside), String::new());
        assert_eq!(told.state, "Ongoing");
        let (age, left) = (told.age_ms.expect("it has one"), told.left_ms.expect("it has one"));
        assert!((10_000..15_000).contains(&age) && age + left == 70_000, "{age} {left}");
    }
}
