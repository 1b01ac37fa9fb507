//! The jobs of a daemon: which are wanted, which run, and how they ended. A thread for each that runs.

use super::home::{Home, Record};
use crate::cli::args::JobArgs;
use crate::cli::main::{load, usable_data_folder};
use crate::cli::output::Output;
use crate::cli::{daemon, json, progress, run};
use crate::clock::{monotonic, wall_ms};
use crate::control::{self, SwapReply, SwapWish};
use crate::graph::{JobGraph, Problem};
use crate::job::{Failure, JobEvent, JobOutcome, Progress, RunOptions, Runtime, StartMode, StopHandle, StopRequest, stop_pair};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use utoipa::ToSchema;
use weir_protocol::CheckpointId;

/// Events of a job that are kept to be asked for.
const EVENTS: usize = 100;

/// How long a submission waits for the job to run, or to be refused. Compiling a large plugin takes many seconds.
const START_WAIT: Duration = Duration::from_secs(60);

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Its plugins are loaded and its data folder is claimed.
    Starting,
    /// Records pass.
    Running,
    /// An attempt has failed; the next one follows.
    Restarting,
    /// It was asked to stop.
    Stopping,
    /// It does not run: `outcome` says why.
    Ended,
}

/// What a client gives to start a job. Paths are the daemon's: absolute.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Submission {
    /// The job file. Its `${NAME}` are replaced from the daemon's environment.
    #[schema(value_type = String)]
    pub job_file: PathBuf,
    /// The data folder; by default `.weir/<job name>` beside the job file.
    #[schema(value_type = Option<String>)]
    pub data: Option<PathBuf>,
    /// Start over from the beginning.
    #[serde(default)]
    pub fresh: bool,
    /// Start at this checkpoint.
    #[schema(value_type = Option<String>)]
    pub from: Option<String>,
    /// Whether committed output may be written again.
    #[serde(default)]
    pub allow_duplicates: bool,
    /// Whether a first start may use names outside that somebody has used before.
    #[serde(default)]
    pub take_over: bool,
}

/// Something that happened to a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Happened {
    /// When, ms since the Unix epoch.
    pub at_ms: u64,
    /// `warn`, `info` or `debug`.
    pub level: String,
    /// What.
    pub text: String,
}

/// A job as a client sees it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobStatus {
    /// The name in its job file.
    pub name: String,
    /// Where it stands.
    pub phase: Phase,
    /// Whether a daemon's start resumes it.
    pub wanted: bool,
    /// The job file.
    #[schema(value_type = String)]
    pub job_file: PathBuf,
    /// The data folder.
    #[schema(value_type = String)]
    pub data: PathBuf,
    /// How it ended last, as `weir run --json` says it; none while it runs.
    #[schema(value_type = Option<Object>)]
    pub outcome: Option<Value>,
    /// The same in words.
    pub message: Option<String>,
    /// The last figures.
    #[schema(value_type = Option<Object>)]
    pub progress: Option<Value>,
    /// What happened last, oldest first.
    pub events: Vec<Happened>,
}

/// Why a client does not get what it asked for.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is no such job.
    NotFound(Problem),
    /// Not while the job is as it is.
    Conflict(Problem),
    /// The job can't be started as it was given.
    Unfit(Vec<Problem>),
    /// The daemon's own folder or machine does not let it.
    Trouble(Problem),
}

struct Job {
    record: Record,
    phase: Phase,
    stop: Option<StopHandle>,
    progress: Option<Progress>,
    message: Option<String>,
    events: VecDeque<Happened>,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<String, Job>,
    is_ending: bool,
}

/// All jobs of a daemon.
pub(super) struct Jobs {
    home: Home,
    runtime: Arc<dyn Runtime + Send + Sync>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Jobs {
    /// The jobs that the folder names; none runs yet.
    pub fn new(home: Home, runtime: Arc<dyn Runtime + Send + Sync>) -> Result<Arc<Self>, Problem> {
        let (records, problems) = home.records()?;
        for problem in problems {
            tracing::warn!("{}: {}; {}", problem.place, problem.what, problem.next);
        }
        let jobs = records.into_iter().map(|(name, record)| (name, Job::idle(record))).collect();
        let state = Mutex::new(State { jobs, is_ending: false });
        Ok(Arc::new(Jobs { home, runtime, state, changed: Condvar::new() }))
    }

    /// What a client must show.
    pub fn token(&self) -> &str {
        self.home.token()
    }

    /// The daemon's folder.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Starts what ran when the last daemon of this folder ended. One that can't be started is told, and does not keep the rest.
    pub fn resume(self: &Arc<Self>) {
        let wanted: Vec<(String, Record)> = {
            let state = self.lock();
            state.jobs.iter().filter(|(_, job)| job.record.wanted).map(|(name, job)| (name.clone(), job.record.clone())).collect()
        };
        for (name, record) in wanted {
            let submission = Submission {
                job_file: record.job_file,
                data: Some(record.data),
                fresh: false,
                from: None,
                allow_duplicates: false,
                take_over: false,
            };
            if let Err(refusal) = self.start(&submission) {
                let told =
                    |problem: &Problem| format!("it is not resumed: {}: {}; {}", problem.place, problem.what, problem.next);
                let message = refusal.problems().iter().map(told).collect::<Vec<_>>().join("\n");
                tracing::warn!("{name}: {message}");
                if let Some(job) = self.lock().jobs.get_mut(&name) {
                    job.message = Some(message);
                }
            }
        }
    }

    /// Starts a job, and waits until it runs or is refused.
    pub fn submit(self: &Arc<Self>, submission: &Submission) -> Result<JobStatus, Refusal> {
        let name = self.start(submission)?;
        let status = self.wait(&name, START_WAIT, |phase| phase != Phase::Starting)?;
        match &status.outcome {
            Some(outcome) if outcome["outcome"] == "refused" => Err(Refusal::Unfit(daemon::problems(outcome))),
            _ => Ok(status),
        }
    }

    fn start(self: &Arc<Self>, submission: &Submission) -> Result<String, Refusal> {
        let (graph, options) = prepare(submission).map_err(Refusal::Unfit)?;
        let runtime = self.runtime.another().map_err(Refusal::Unfit)?;
        let name = graph.name.clone();
        let (stop, signal) = stop_pair();
        let record = Record { job_file: submission.job_file.clone(), data: options.data.clone(), wanted: true, ended: None };
        {
            let mut state = self.lock();
            if state.is_ending {
                return Err(Refusal::Conflict(Problem::new("this daemon", "is about to end", "submit the job to the next one")));
            }
            if let Some(job) = state.jobs.get(&name).filter(|job| job.phase != Phase::Ended) {
                let what = format!("a job of that name runs here, from {}", job.record.job_file.display());
                return Err(Refusal::Conflict(Problem::new(
                    format!("job '{name}'"),
                    what,
                    format!("stop it first: weir stop {name}"),
                )));
            }
            self.home.keep(&name, &record).map_err(Refusal::Trouble)?;
            state.jobs.insert(name.clone(), Job { phase: Phase::Starting, stop: Some(stop), ..Job::idle(record) });
        }
        let (jobs, of) = (Arc::clone(self), name.clone());
        let work = move || {
            let hears = (Arc::clone(&jobs), of.clone());
            let listener = Arc::new(move |event| hears.0.hear(&hears.1, event));
            let outcome = catch_unwind(AssertUnwindSafe(|| runtime.run(graph, options, signal, listener)));
            jobs.end(&of, &outcome.unwrap_or_else(|_| bug()));
        };
        if let Err(error) = std::thread::Builder::new().name(format!("job {name}")).spawn(work) {
            let outcome = JobOutcome::Refused {
                problems: vec![Problem::new("this machine", error.to_string(), "raise its limit on threads")],
            };
            self.end(&name, &outcome);
        }
        Ok(name)
    }

    fn hear(&self, name: &str, event: JobEvent) {
        progress::log(&event, &format!("{name}: "));
        let mut state = self.lock();
        let Some(job) = state.jobs.get_mut(name) else { return };
        for (level, text) in progress::told(&event) {
            job.events.push_back(Happened { at_ms: wall_ms(), level: level.to_string().to_lowercase(), text });
        }
        job.events.drain(..job.events.len().saturating_sub(EVENTS));
        let phase = match event {
            JobEvent::Started { .. } => Phase::Running,
            JobEvent::Restarting { .. } => Phase::Restarting,
            JobEvent::Suspending => Phase::Stopping,
            JobEvent::Progress(progress) => {
                job.progress = Some(progress);
                return;
            }
            _ => return,
        };
        // Asked to stop, it stays so, whatever it still does until then.
        if job.phase != Phase::Stopping {
            job.phase = phase;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn end(&self, name: &str, outcome: &JobOutcome) {
        let message = in_words(name, outcome);
        message.lines().for_each(|line| tracing::info!("{line}"));
        let mut state = self.lock();
        // The next daemon goes on with what only this one's end has stopped.
        let stays_wanted = state.is_ending && matches!(outcome, JobOutcome::Suspended { .. } | JobOutcome::Stopped { .. });
        if let Some(job) = state.jobs.get_mut(name) {
            job.phase = Phase::Ended;
            job.stop = None;
            job.message = Some(message);
            job.record.wanted &= stays_wanted;
            job.record.ended = Some(json::outcome(name, outcome, job.progress.as_ref()));
            if let Err(problem) = self.home.keep(name, &job.record) {
                tracing::warn!("how job '{name}' ended is not kept: {}: {}; {}", problem.place, problem.what, problem.next);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Every job, by name.
    pub fn list(&self) -> Vec<JobStatus> {
        self.lock().jobs.iter().map(|(name, job)| job.status(name)).collect()
    }

    /// One job.
    pub fn status(&self, name: &str) -> Result<JobStatus, Refusal> {
        self.lock().job(name).map(|job| job.status(name))
    }

    /// Waits until a job has ended, but not for ever: its status then.
    pub fn wait_for_end(&self, name: &str, limit: Duration) -> Result<JobStatus, Refusal> {
        self.wait(name, limit, |phase| phase == Phase::Ended)
    }

    fn wait(&self, name: &str, limit: Duration, until: impl Fn(Phase) -> bool) -> Result<JobStatus, Refusal> {
        let deadline = monotonic() + limit;
        let mut state = self.lock();
        loop {
            let job = state.job(name)?;
            let left = deadline.saturating_duration_since(monotonic());
            if until(job.phase) || left.is_zero() {
                return Ok(job.status(name));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks a job to stop; it is not wanted any more.
    pub fn stop(&self, name: &str, request: StopRequest) -> Result<JobStatus, Refusal> {
        let mut state = self.lock();
        let job = state.jobs.get_mut(name).ok_or_else(|| no_job(name))?;
        let Some(stop) = &job.stop else {
            return Err(Refusal::Conflict(Problem::new(
                format!("job '{name}'"),
                "does not run",
                "'weir list' tells how it ended",
            )));
        };
        stop.ask(request);
        job.phase = Phase::Stopping;
        job.record.wanted = false;
        // It stops all the same; how it ended is kept when it has.
        if let Err(problem) = self.home.keep(name, &job.record) {
            tracing::warn!("that job '{name}' is not wanted is not kept: {}: {}; {}", problem.place, problem.what, problem.next);
        }
        Ok(job.status(name))
    }

    /// Exchanges the plugin of an operator, and waits until the new build runs; every reply of the job, in order. `wait`: until the
    /// end of its probation, too.
    pub fn swap(&self, name: &str, wish: &SwapWish, wait: bool) -> Result<Vec<SwapReply>, Refusal> {
        absolute("plugin", &wish.plugin).map_err(Refusal::Unfit)?;
        let data = {
            let state = self.lock();
            let job = state.job(name)?;
            if job.phase == Phase::Ended {
                return Err(Refusal::Conflict(Problem::new(format!("job '{name}'"), "does not run", "submit it first")));
            }
            job.record.data.clone()
        };
        let mut heard = Vec::new();
        let asked = control::ask(&data, wish, &mut |reply| {
            let goes_on = !reply.is_last(wish) && (wait || !matches!(reply, SwapReply::Exchanged { .. }));
            heard.push(reply);
            goes_on
        });
        asked.map_err(|error| Refusal::Trouble(Problem::new(format!("job '{name}'"), error.to_string(), "ask again")))?;
        match heard.last() {
            Some(SwapReply::Refused { what, next }) => {
                Err(Refusal::Unfit(vec![Problem::new(format!("operator '{}'", wish.operator), what, next)]))
            }
            _ => Ok(heard),
        }
    }

    /// Forgets a job that does not run. Its data folder stays.
    pub fn remove(&self, name: &str) -> Result<JobStatus, Refusal> {
        let mut state = self.lock();
        let job = state.job(name)?;
        if job.phase != Phase::Ended {
            let next = format!("stop it first: weir stop {name}");
            return Err(Refusal::Conflict(Problem::new(format!("job '{name}'"), "runs", next)));
        }
        let status = job.status(name);
        self.home.forget(name).map_err(Refusal::Trouble)?;
        state.jobs.remove(name);
        Ok(status)
    }

    /// Stops every job, each time more urgently, and takes no new one. They stay wanted.
    pub fn begin_end(&self, request: StopRequest) {
        let mut state = self.lock();
        state.is_ending = true;
        for job in state.jobs.values_mut() {
            if let Some(stop) = &job.stop {
                stop.ask(request);
                job.phase = Phase::Stopping;
            }
        }
    }

    /// Waits until no job runs.
    pub fn wait_until_idle(&self) {
        let is_busy = |state: &mut State| state.jobs.values().any(|job| job.phase != Phase::Ended);
        drop(self.changed.wait_while(self.lock(), is_busy).unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn job(&self, name: &str) -> Result<&Job, Refusal> {
        self.jobs.get(name).ok_or_else(|| no_job(name))
    }
}

impl Job {
    fn idle(record: Record) -> Self {
        Job { record, phase: Phase::Ended, stop: None, progress: None, message: None, events: VecDeque::new() }
    }

    fn status(&self, name: &str) -> JobStatus {
        let Record { job_file, data, wanted, ended } = self.record.clone();
        JobStatus {
            name: name.to_owned(),
            phase: self.phase,
            wanted,
            job_file,
            data,
            outcome: ended,
            message: self.message.clone(),
            progress: self.progress.as_ref().map(json::progress_of),
            events: self.events.iter().cloned().collect(),
        }
    }
}

impl Refusal {
    /// What is wrong.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Refusal::NotFound(problem) | Refusal::Conflict(problem) | Refusal::Trouble(problem) => std::slice::from_ref(problem),
            Refusal::Unfit(problems) => problems,
        }
    }
}

fn no_job(name: &str) -> Refusal {
    Refusal::NotFound(Problem::new(
        format!("job '{name}'"),
        "there is none of that name here",
        "'weir list' names those that there are",
    ))
}

/// As for `weir run`, with the daemon's environment.
fn prepare(submission: &Submission) -> Result<(JobGraph, RunOptions), Vec<Problem>> {
    let Submission { job_file: path, data, fresh, from, allow_duplicates, take_over } = submission;
    absolute("job_file", path)?;
    data.iter().try_for_each(|data| absolute("data", data))?;
    let job = JobArgs { job: path.clone(), data: data.clone(), drill: None };
    let graph = load(&job)?;
    let data = usable_data_folder(&job, &graph)?;
    let mode = match (fresh, from) {
        (true, Some(_)) => return Err(vec![Problem::new("submission", "'fresh' and 'from' are given", "give one of them")]),
        (true, None) => StartMode::Fresh,
        (false, None) => StartMode::Resume,
        (false, Some(id)) => StartMode::From(id.parse::<CheckpointId>().map_err(|error| {
            vec![Problem::new(format!("from {id}"), error.to_string(), "'weir checkpoint list' shows which there are")]
        })?),
    };
    let (allow_duplicates, take_over) = (*allow_duplicates, *take_over);
    Ok((graph, RunOptions { data, mode, allow_duplicates, take_over, control: true }))
}

fn absolute(key: &str, path: &Path) -> Result<(), Vec<Problem>> {
    if path.is_absolute() {
        return Ok(());
    }
    let next = "the daemon has a working folder of its own: give the path from / on";
    Err(vec![Problem::new(format!("{key} {}", path.display()), "is no absolute path", next)])
}

/// How it ended, as `weir run` tells it.
fn in_words(name: &str, outcome: &JobOutcome) -> String {
    let (mut nowhere, mut said) = (Vec::new(), Vec::new());
    run::tell(name, "weir submit JOB", outcome, true, &mut Output::new(&mut nowhere, &mut said));
    String::from_utf8_lossy(&said).trim_end().to_owned()
}

fn bug() -> JobOutcome {
    JobOutcome::Failed(Failure {
        why: "its control thread panicked: the log has the place".to_owned(),
        place: "weir itself".to_owned(),
        next: "this is a bug of weir; the job resumes from its last completed checkpoint when it is submitted again".to_owned(),
    })
}
