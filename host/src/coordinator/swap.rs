//! Hot swaps of one run: carries out what the machine of `weir_protocol::swap` decides, and tells clients and the log of it.

use super::compat::short;
use super::deploy::JobParts;
use super::staging::Staged;
use crate::control::{SwapReply, SwapRequest};
use crate::graph::{PluginFacts, Problem, suggestion};
use crate::job::{EventListener, JobEvent};
use crate::store::CheckpointStore;
use crate::store::manifest::Manifest;
use crate::task::messages::{Culprit, ExchangePause, InstanceSlot};
use crate::task::operator::StreamOperator;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use weir_protocol::CheckpointId;
use weir_protocol::swap::{OperatorBuild, SwapEffect, SwapEvent, SwapMachine, SwapRefusal};

/// The builds of a run, and the swap under way.
pub struct Swaps {
    machine: SwapMachine,
    parts: Arc<JobParts>,
    listener: EventListener,
    /// Wishes of clients. Its other end is kept open by the run.
    pub requests: UnboundedReceiver<SwapRequest>,
    /// What is known of builds, by digest.
    facts: BTreeMap<String, PluginFacts>,
    /// Builds that were taken in, and are let go when nobody needs them.
    taken_in: BTreeSet<String>,
    /// Builds that are being looked at.
    looks: u32,
    under_way: Option<UnderWay>,
    /// Who waits for the end of an operator's probation.
    waiting: BTreeMap<usize, Sender<SwapReply>>,
    /// Why the attempt ended, or what has failed.
    why: Option<String>,
}

/// The swap under way.
struct UnderWay {
    operator: usize,
    build: String,
    replies: Sender<SwapReply>,
    /// Until the subtasks have them.
    instances: Vec<Box<dyn StreamOperator>>,
    /// What they exchange; then the instances of the old build.
    slots: Vec<InstanceSlot>,
    pauses: Vec<ExchangePause>,
}

/// What is left to be done by the attempt.
pub enum Order {
    /// Ask for a swap checkpoint.
    RequestCheckpoint,
    /// Tell the subtasks that an operator's build is trusted.
    Trust(usize),
    /// Close what ran before.
    Close(Vec<InstanceSlot>),
}

impl Swaps {
    /// Every operator runs what the job file names, until a checkpoint says otherwise.
    pub fn new(parts: &Arc<JobParts>, listener: &EventListener, requests: UnboundedReceiver<SwapRequest>) -> Self {
        Swaps {
            machine: SwapMachine::new(&parts.plugins),
            parts: Arc::clone(parts),
            listener: Arc::clone(listener),
            requests,
            facts: parts.facts.values().map(|facts| (facts.digest.clone(), facts.clone())).collect(),
            taken_in: BTreeSet::new(),
            looks: 0,
            under_way: None,
            waiting: BTreeMap::new(),
            why: None,
        }
    }

    /// What runs, by operator.
    pub fn builds(&self) -> &[OperatorBuild] {
        self.machine.builds()
    }

    /// What runs once this checkpoint is complete.
    pub fn after(&self, checkpoint: CheckpointId) -> Vec<OperatorBuild> {
        self.machine.after(checkpoint)
    }

    /// Whether the attempt ends because a build is taken back.
    pub fn takes_back(&self) -> bool {
        self.machine.takes_back()
    }

    /// Whether a build is on probation.
    pub fn is_on_probation(&self) -> bool {
        self.builds().iter().any(|build| build.probation.is_some())
    }

    /// Digests of all builds that run, and of those that may have to run again.
    pub fn digests(&self) -> BTreeSet<String> {
        let of = |build: &OperatorBuild| {
            let old = build.probation.as_ref().map(|probation| probation.old.clone());
            [Some(build.runs.clone()), old].into_iter().flatten()
        };
        self.builds().iter().flat_map(of).collect()
    }

    /// Those of them that are at hand.
    pub fn components(&self) -> Vec<(String, Bytes)> {
        let at_hand = |digest: String| self.parts.provider.bytes_of(&digest).map(|bytes| (digest, bytes));
        self.digests().into_iter().filter_map(at_hand).collect()
    }

    /// The operator that a wish names.
    pub fn operator(&self, name: &str) -> Result<usize, Problem> {
        let graph = &self.parts.graph;
        if let Some(index) = graph.operators.iter().position(|spec| spec.name == name) {
            return Ok(index);
        }
        let place = format!("operator {name}");
        if graph.sinks.iter().any(|spec| spec.name == name) {
            let what = "it is a sink, and only operators are exchanged in a running job";
            return Err(Problem::new(place, what, "swap a sink by a restart: stop the job, change its plugin, run it again"));
        }
        if graph.sources.iter().any(|spec| spec.name == name) {
            return Err(Problem::new(place, "it is a source, and has no plugin", "name an operator"));
        }
        let names: Vec<&str> = graph.operators.iter().map(|spec| spec.name.as_str()).collect();
        Err(Problem::new(place, "the job has no such operator", suggestion(name, &names)))
    }

    /// What is known of the build that an operator runs.
    pub fn running(&self, operator: usize) -> &PluginFacts {
        &self.facts[&self.builds()[operator].runs]
    }

    /// Why this build would be refused now, if it would.
    pub fn refusal(&self, operator: usize, build: &str, again: bool) -> Option<Problem> {
        self.machine.refusal(operator, build, again).map(|refusal| self.explain(operator, refusal))
    }

    fn explain(&self, operator: usize, refusal: SwapRefusal) -> Problem {
        let (what, next) = match refusal {
            SwapRefusal::Busy => ("another swap is under way".to_owned(), "try again when it has ended"),
            SwapRefusal::OnProbation(left) => {
                let word = if left == 1 { "checkpoint" } else { "checkpoints" };
                (format!("the build that runs is on probation for {left} more {word}"), "try again then")
            }
            SwapRefusal::Same => ("this very build runs already".to_owned(), "name another one"),
            SwapRefusal::HasFailed => {
                ("this build has failed on probation before".to_owned(), "mend it; or say --again to try it once more")
            }
        };
        Problem::new(format!("operator {}", self.name(operator)), what, next)
    }

    fn name(&self, operator: usize) -> &str {
        &self.parts.graph.operators[operator].name
    }

    /// A client wants a build, and it was read. False: it was refused.
    pub fn requested(&mut self, operator: usize, build: &str, request: &SwapRequest) -> bool {
        if let Some(problem) = self.refusal(operator, build, request.wish.again) {
            refuse(request, problem);
            return false;
        }
        self.under_way = Some(UnderWay {
            operator,
            build: build.to_owned(),
            replies: request.replies.clone(),
            instances: Vec::new(),
            slots: Vec::new(),
            pauses: Vec::new(),
        });
        let (probation, again) = (request.wish.probation, request.wish.again);
        self.handle(SwapEvent::Requested { operator, build: build.to_owned(), probation, again });
        true
    }

    /// A build is being looked at.
    pub fn looks_at(&mut self, build: &str) {
        self.looks += 1;
        self.taken_in.insert(build.to_owned());
    }

    /// It was only looked at.
    pub fn looked(&mut self) {
        self.looks = self.looks.saturating_sub(1);
        self.let_go();
    }

    /// The build can't be taken.
    pub fn stage_failed(&mut self) {
        self.under_way = None;
        self.handle(SwapEvent::StageFailed);
        self.looked();
    }

    /// The build can be taken.
    pub fn staged(&mut self, staged: Staged) -> Vec<Order> {
        self.facts.insert(staged.facts.digest.clone(), staged.facts);
        if let Some(swap) = &mut self.under_way {
            swap.instances = staged.instances;
        }
        self.looked();
        self.handle(SwapEvent::Staged)
    }

    /// A swap checkpoint is triggered: the operator, its build, and instances in slots, one for each subtask.
    pub fn exchange(&mut self, checkpoint: CheckpointId) -> (usize, Arc<str>, Vec<InstanceSlot>) {
        self.handle(SwapEvent::Triggered { checkpoint });
        let swap = self.under_way.as_mut().expect("X2: a swap is under way");
        swap.slots = std::mem::take(&mut swap.instances).into_iter().map(InstanceSlot::new).collect();
        (swap.operator, swap.build.as_str().into(), swap.slots.clone())
    }

    /// A subtask runs the new build.
    pub fn paused(&mut self, pause: ExchangePause) {
        if let Some(swap) = &mut self.under_way {
            swap.pauses.push(pause);
        }
    }

    /// A checkpoint is complete, after so long.
    pub fn completed(&mut self, checkpoint: CheckpointId, took: Duration) -> Vec<Order> {
        self.handle_at(SwapEvent::Completed { checkpoint }, Some((checkpoint, took)))
    }

    /// A call of an operator has failed.
    pub fn build_failed(&mut self, culprit: Culprit, message: &str) {
        let before = self.takes_back();
        self.handle(SwapEvent::BuildFailed { operator: culprit.operator, build: culprit.build });
        if !before && self.takes_back() {
            self.why = Some(message.to_owned());
        }
    }

    /// Nothing of the attempt runs any more; it has failed.
    pub fn attempt_ended(&mut self, why: &str) {
        self.why.get_or_insert_with(|| why.to_owned());
        self.handle(SwapEvent::AttemptEnded);
    }

    /// An attempt begins, from this checkpoint. Builds that the job file does not name are taken in from the storage.
    ///
    /// # Errors
    /// What keeps one from running.
    pub async fn began(&mut self, from: Option<&Manifest>, store: &CheckpointStore) -> Result<(), String> {
        let stored = |name: &String| from.and_then(|manifest| manifest.operators.get(name)).map(|own| own.build());
        let restored = self.parts.graph.operators.iter().map(|spec| stored(&spec.name)).collect();
        let at = from.and_then(|manifest| manifest.checkpoint_id().ok()).map(|id| (id, Duration::ZERO));
        self.looks = 0;
        self.handle_at(SwapEvent::AttemptBegan { restored }, at);
        self.why = None;
        let (parts, known) = (Arc::clone(&self.parts), &mut self.facts);
        for (spec, build) in parts.graph.operators.iter().zip(self.machine.builds()) {
            if build.runs == build.file {
                continue;
            }
            (self.listener)(JobEvent::Notice(format!(
                "operator {} goes on with build {}, to which it was swapped; the job file still names {}",
                spec.name,
                short(&build.runs),
                short(&build.file)
            )));
            if known.contains_key(&build.runs) {
                continue;
            }
            let taken = async {
                let bytes = store.get_plugin(&build.runs).await.map_err(|error| error.to_string())?;
                parts.provider.take_in(spec, &build.runs, bytes).map_err(|problem| problem.to_string())
            };
            let facts = taken.await.map_err(|error| {
                format!("operator {} was swapped to build {}, which can't be loaded: {error}", spec.name, build.runs)
            })?;
            known.insert(build.runs.clone(), facts);
            self.taken_in.insert(build.runs.clone());
        }
        Ok(())
    }

    /// Lets builds go that neither run nor may have to run again.
    fn let_go(&mut self) {
        if self.looks > 0 {
            return;
        }
        let mut needed = self.digests();
        needed.extend(self.parts.plugins.iter().cloned());
        needed.extend(self.under_way.as_ref().map(|swap| swap.build.clone()));
        for digest in std::mem::take(&mut self.taken_in) {
            if needed.contains(&digest) {
                self.taken_in.insert(digest);
            } else {
                self.facts.remove(&digest);
                self.parts.provider.let_go(&digest);
            }
        }
    }

    fn handle(&mut self, event: SwapEvent) -> Vec<Order> {
        self.handle_at(event, None)
    }

    /// `completed`: the checkpoint that brings it about, and how long that took.
    fn handle_at(&mut self, event: SwapEvent, completed: Option<(CheckpointId, Duration)>) -> Vec<Order> {
        let mut effects = Vec::new();
        self.machine.handle(event, &mut effects);
        effects.into_iter().filter_map(|effect| self.carry_out(effect, completed)).collect()
    }

    fn carry_out(&mut self, effect: SwapEffect, completed: Option<(CheckpointId, Duration)>) -> Option<Order> {
        match effect {
            SwapEffect::RequestCheckpoint => Some(Order::RequestCheckpoint),
            // Whoever tells of the event does it.
            SwapEffect::Refused(_) | SwapEffect::Stage | SwapEffect::Exchange { .. } => None,
            SwapEffect::Exchanged { operator, old, probation } => {
                let swap = self.under_way.take();
                let pauses = swap.as_ref().map_or(&[][..], |swap| &swap.pauses);
                let longest = |of: fn(&ExchangePause) -> Duration| {
                    pauses
                        .iter()
                        .map(of)
                        .max()
                        .map_or(0, |pause| u64::try_from(pause.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
                };
                let (pause_us, barrier_us) = (longest(|pause| pause.exchange), longest(|pause| pause.barrier));
                let (at, took) = completed.map_or((String::new(), Duration::ZERO), |(id, took)| (id.to_string(), took));
                let runs = &self.builds()[operator].runs;
                self.tell(format!(
                    "operator {} runs build {} instead of {}, paused for {pause_us} µs; {}",
                    self.name(operator),
                    short(runs),
                    short(&old),
                    match probation {
                        0 => "there is no way back".to_owned(),
                        1 => "on probation for 1 checkpoint".to_owned(),
                        more => format!("on probation for {more} checkpoints"),
                    }
                ));
                let swap = swap?;
                let checkpoint_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                send(&swap.replies, SwapReply::Exchanged { checkpoint: at, checkpoint_ms, pause_us, barrier_us, probation });
                if probation > 0 {
                    self.waiting.insert(operator, swap.replies);
                }
                self.let_go();
                Some(Order::Close(swap.slots))
            }
            SwapEffect::Passed { operator } => {
                let at = completed.map_or(String::new(), |(checkpoint, _)| checkpoint.to_string());
                self.tell(format!(
                    "operator {}: build {} has passed its probation",
                    self.name(operator),
                    short(&self.builds()[operator].runs)
                ));
                self.answer(operator, SwapReply::Passed { checkpoint: at });
                self.let_go();
                Some(Order::Trust(operator))
            }
            SwapEffect::Undone { operator, failed: _ } => {
                let why = self.why.take().unwrap_or_else(|| "the attempt ended before the exchange".to_owned());
                let runs = &self.builds()[operator].runs;
                self.tell(format!("operator {} goes on with build {}: {why}", self.name(operator), short(runs)));
                if let Some(swap) = self.under_way.take() {
                    send(&swap.replies, SwapReply::Undone { why });
                }
                self.let_go();
                None
            }
            SwapEffect::RolledBack { operator, failed, old } => {
                let why = self.why.take().unwrap_or_else(|| "it failed".to_owned());
                self.tell(format!(
                    "operator {} runs build {} again: {} has failed on probation: {why}",
                    self.name(operator),
                    short(&old),
                    short(&failed)
                ));
                let reply = SwapReply::RolledBack { why, old };
                match self.under_way.take() {
                    Some(swap) => send(&swap.replies, reply),
                    None => self.answer(operator, reply),
                }
                self.let_go();
                None
            }
        }
    }

    fn tell(&self, text: String) {
        (self.listener)(JobEvent::Notice(text));
    }

    /// Tells who waits for the end of a probation.
    fn answer(&mut self, operator: usize, reply: SwapReply) {
        if let Some(replies) = self.waiting.remove(&operator) {
            send(&replies, reply);
        }
    }
}

/// Who does not listen any more misses it.
fn send(replies: &Sender<SwapReply>, reply: SwapReply) {
    let _ = replies.send(reply);
}

/// Tells a client that nothing is done.
pub fn refuse(request: &SwapRequest, problem: Problem) {
    let Problem { place, what, next } = problem;
    request.reply(SwapReply::Refused { what: format!("{place}: {what}"), next });
}
