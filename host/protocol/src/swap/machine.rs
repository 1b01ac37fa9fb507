//! The machine: what it knows, and what each event means.

use super::{OperatorBuild, Probation, SwapEffect, SwapEvent, SwapRefusal};
use crate::bounds;
use crate::ids::CheckpointId;
use crate::mutant::{Mutant, Mutation};

/// The builds of one run of a job. See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SwapMachine {
    /// By index of the operator.
    builds: Vec<OperatorBuild>,
    phase: Phase,
    /// What has failed in the attempt that ends.
    failed: Option<Failed>,
    mutation: Mutation,
}

/// How far the swap under way is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// Its build is looked at; the old one runs undisturbed.
    Staging(Wish),
    /// Its instances are at hand and the checkpoint is asked for.
    Staged(Wish),
    /// Subtasks exchange as the barrier reaches them. Only the log can say whether the checkpoint stands.
    Exchanging {
        wish: Wish,
        checkpoint: CheckpointId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wish {
    operator: usize,
    build: String,
    probation: u32,
    /// It had failed before, and is tried again.
    again: bool,
}

/// A build that has failed where there is a way back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Failed {
    operator: usize,
    build: String,
    old: String,
}

impl SwapMachine {
    /// `files`: the build that the job file names, for each operator.
    pub fn new(files: &[String]) -> Self {
        let builds = files.iter().map(|file| OperatorBuild::of_file(file)).collect();
        SwapMachine { builds, phase: Phase::Idle, failed: None, mutation: Mutation::default() }
    }

    /// The same with a deliberate fault.
    #[cfg(any(test, feature = "mutants"))]
    #[must_use]
    pub fn with_mutant(mut self, mutant: Mutant) -> Self {
        self.mutation = Mutation::of(mutant);
        self
    }

    /// What runs, by index of the operator. While subtasks exchange: what ran before.
    pub fn builds(&self) -> &[OperatorBuild] {
        &self.builds
    }

    /// What the manifest of a checkpoint has to say: the builds as they are once it is complete.
    pub fn after(&self, checkpoint: CheckpointId) -> Vec<OperatorBuild> {
        let mut then = self.clone();
        if !self.mutation.is(Mutant::ManifestNamesOldBuild) {
            then.completed(checkpoint, &mut Vec::new());
        }
        then.builds
    }

    /// Whether the attempt ends for a build to be taken back: then the next one starts at once.
    pub fn takes_back(&self) -> bool {
        self.failed.is_some()
    }

    /// Why this build would be refused now, if it would.
    pub fn refusal(&self, operator: usize, build: &str, again: bool) -> Option<SwapRefusal> {
        let own = &self.builds[operator];
        if self.phase != Phase::Idle {
            return Some(SwapRefusal::Busy);
        }
        if own.runs == build {
            return Some(SwapRefusal::Same);
        }
        if let Some(probation) = &own.probation {
            return Some(SwapRefusal::OnProbation(probation.left));
        }
        (own.refused.contains(build) && !again).then_some(SwapRefusal::HasFailed)
    }

    /// Takes one event and appends what has to be done. What comes too late, or for another swap, changes nothing.
    ///
    /// # Panics
    /// If a swap checkpoint is triggered that was not asked for (X2): a bug of ours.
    pub fn handle(&mut self, event: SwapEvent, effects: &mut Vec<SwapEffect>) {
        match event {
            SwapEvent::AttemptBegan { restored } => self.began(restored, effects),
            SwapEvent::Requested { operator, build, probation, again } => {
                if let Some(refusal) = self.refusal(operator, &build, again) {
                    return effects.push(SwapEffect::Refused(refusal));
                }
                let again = self.builds[operator].refused.remove(&build);
                self.phase = Phase::Staging(Wish { operator, build, probation, again });
                effects.push(SwapEffect::Stage);
            }
            SwapEvent::Staged => {
                if let Phase::Staging(wish) = &self.phase {
                    self.phase = Phase::Staged(wish.clone());
                    effects.push(SwapEffect::RequestCheckpoint);
                }
            }
            SwapEvent::StageFailed => {
                if let Phase::Staging(wish) = &self.phase {
                    let wish = wish.clone();
                    self.forget(&wish);
                }
            }
            SwapEvent::Triggered { checkpoint } => {
                let Phase::Staged(wish) = &self.phase else { panic!("X2: {checkpoint} is a swap checkpoint of no swap") };
                self.phase = Phase::Exchanging { wish: wish.clone(), checkpoint };
                effects.push(SwapEffect::Exchange { checkpoint });
            }
            SwapEvent::Completed { checkpoint } => self.completed(checkpoint, effects),
            SwapEvent::BuildFailed { operator, build } => self.build_failed(operator, build),
            SwapEvent::AttemptEnded => match &self.phase {
                Phase::Staging(wish) | Phase::Staged(wish) => {
                    let wish = wish.clone();
                    self.forget(&wish);
                    effects.push(SwapEffect::Undone { operator: wish.operator, failed: false });
                }
                // Its manifest may stand: the next attempt's checkpoint says so.
                Phase::Idle | Phase::Exchanging { .. } => {}
            },
        }
    }

    fn completed(&mut self, n: CheckpointId, effects: &mut Vec<SwapEffect>) {
        // 1. A checkpoint of a probation, if not the one that begins it.
        for (operator, own) in self.builds.iter_mut().enumerate() {
            let Some(probation) = &mut own.probation else { continue };
            probation.left -= 1;
            if probation.left == 0 {
                own.probation = None;
                effects.push(SwapEffect::Passed { operator });
            }
        }
        // 2. The swap checkpoint.
        if let Phase::Exchanging { wish, checkpoint } = &self.phase
            && *checkpoint == n
        {
            let wish = wish.clone();
            self.exchanged(wish, effects);
        }
    }

    /// The new build runs, whatever comes.
    fn exchanged(&mut self, wish: Wish, effects: &mut Vec<SwapEffect>) {
        let Wish { operator, build, probation, again: _ } = wish;
        let own = &mut self.builds[operator];
        let old = std::mem::replace(&mut own.runs, build);
        own.probation = (probation > 0).then(|| Probation { old: old.clone(), left: probation });
        self.phase = Phase::Idle;
        effects.push(SwapEffect::Exchanged { operator, old, probation });
    }

    /// The swap comes to nothing: what was known of its build is known again.
    fn forget(&mut self, wish: &Wish) {
        if wish.again {
            self.refuse(wish.operator, &wish.build);
        }
        self.phase = Phase::Idle;
    }

    fn refuse(&mut self, operator: usize, build: &str) {
        let refused = &mut self.builds[operator].refused;
        refused.insert(build.to_owned());
        if refused.len() > bounds::REFUSED_BUILDS {
            let other = refused.iter().find(|other| *other != build).cloned().expect("there is more than one");
            refused.remove(&other);
        }
    }

    /// Only what runs on trial is blamed; for everything else there is the restart policy.
    fn build_failed(&mut self, operator: usize, build: String) {
        if self.failed.is_some() {
            return;
        }
        let own = &self.builds[operator];
        let exchanging = match &self.phase {
            Phase::Exchanging { wish, .. } => wish.operator == operator && wish.build == build,
            Phase::Idle | Phase::Staging(_) | Phase::Staged(_) => false,
        };
        let old = match &own.probation {
            _ if exchanging => own.runs.clone(),
            Some(probation) if own.runs == build => probation.old.clone(),
            Some(_) | None => return,
        };
        self.failed = Some(Failed { operator, build, old });
    }

    /// What runs in the new attempt.
    fn began(&mut self, restored: Vec<Option<OperatorBuild>>, effects: &mut Vec<SwapEffect>) {
        assert!(restored.len() == self.builds.len(), "X3: a checkpoint says something of every operator, or nothing");
        // 1. What the checkpoint says, unless the job file names another component by now: that is the user's newest word.
        for (own, stored) in self.builds.iter_mut().zip(restored) {
            let (file, mut refused) = (own.file.clone(), std::mem::take(&mut own.refused));
            *own = match stored {
                Some(stored) => {
                    refused.extend(stored.refused);
                    let goes_on = stored.file == file && stored.runs != file;
                    let stays = stored.file == file || stored.runs == file;
                    let runs = if goes_on { stored.runs } else { file.clone() };
                    OperatorBuild { file, runs, probation: stored.probation.filter(|_| stays), refused }
                }
                None => OperatorBuild { refused, ..OperatorBuild::of_file(&file) },
            };
        }
        // 2. Whether the swap of the last attempt stands.
        let failed = self.failed.take();
        if let Phase::Exchanging { wish, checkpoint: _ } = &self.phase {
            let wish = wish.clone();
            let has_failed = failed.as_ref().is_some_and(|failed| failed.operator == wish.operator);
            let own = &self.builds[wish.operator];
            if own.runs != wish.build {
                self.forget(&wish);
                effects.push(SwapEffect::Undone { operator: wish.operator, failed: has_failed });
            } else {
                let probation = own.probation.as_ref();
                let old = probation.map_or_else(|| own.file.clone(), |probation| probation.old.clone());
                let left = probation.map_or(0, |probation| probation.left);
                self.phase = Phase::Idle;
                if !has_failed {
                    effects.push(SwapEffect::Exchanged { operator: wish.operator, old, probation: left });
                }
            }
        }
        // 3. What has failed on trial does not run again.
        if let Some(Failed { operator, build, old }) = failed {
            self.refuse(operator, &build);
            let own = &mut self.builds[operator];
            if own.runs == build && !self.mutation.is(Mutant::FailedBuildRunsAgain) {
                own.runs = old.clone();
                own.probation = None;
                effects.push(SwapEffect::RolledBack { operator, failed: build, old });
            }
        }
    }
}
