//! Hot swap in the loop of an attempt: stages beside the data path, exchanges at a barrier.

use super::{AttemptRun, Event};
use crate::control::SwapRequest;
use crate::coordinator::staging::{Component, Staged, stage, subtasks_of};
use crate::coordinator::swap::{Order, refuse};
use crate::crash;
use crate::graph::Problem;
use crate::task::messages::{NextBuild, TaskControl};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use weir_protocol::CheckpointId;
use weir_protocol::coordinator::CoordEvent;

/// What became of a step of a swap that was taken elsewhere.
pub enum SwapNews {
    /// The component was read.
    Read(Wish, Result<Component, Problem>),
    /// The build was looked at.
    Staged(Wish, Result<Staged, Problem>),
}

/// Who wants another build of which operator.
pub struct Wish {
    request: SwapRequest,
    operator: usize,
}

impl fmt::Debug for SwapNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (step, wish) = match self {
            SwapNews::Read(wish, _) => ("Read", wish),
            SwapNews::Staged(wish, _) => ("Staged", wish),
        };
        f.debug_tuple(step).field(&wish.request).finish()
    }
}

impl AttemptRun {
    /// A client asks. Everything that takes long happens elsewhere.
    pub(super) fn swap_requested(&mut self, request: SwapRequest) {
        let operator = match self.setup.swaps.operator(&request.wish.operator) {
            Ok(operator) => operator,
            Err(problem) => return refuse(&request, problem),
        };
        let events = self.events.clone();
        tokio::task::spawn_blocking(move || {
            let component = Component::read(&request.wish.plugin);
            // Nobody listens once the attempt has ended; the client hears that the conversation is over.
            let _ = events.send(Event::Swap(SwapNews::Read(Wish { request, operator }, component)));
        });
    }

    pub(super) fn on_swap(&mut self, news: SwapNews) {
        match news {
            SwapNews::Read(wish, Err(problem)) => refuse(&wish.request, problem),
            SwapNews::Read(wish, Ok(component)) => {
                let (operator, again) = (wish.operator, wish.request.wish.again);
                if wish.request.wish.dry_run {
                    match self.setup.swaps.refusal(operator, &component.digest, again) {
                        Some(problem) => refuse(&wish.request, problem),
                        None => self.stage(wish, component),
                    }
                } else if self.setup.swaps.requested(operator, &component.digest, &wish.request) {
                    self.stage(wish, component);
                }
            }
            SwapNews::Staged(wish, Err(problem)) => {
                match wish.request.wish.dry_run {
                    true => self.setup.swaps.looked(),
                    false => self.setup.swaps.stage_failed(),
                }
                refuse(&wish.request, problem);
            }
            SwapNews::Staged(wish, Ok(staged)) => {
                wish.request.reply(staged.told.clone());
                if wish.request.wish.dry_run {
                    return self.setup.swaps.looked();
                }
                crash::point("swap-staged");
                let orders = self.setup.swaps.staged(staged);
                self.swap_orders(orders);
            }
        }
    }

    /// Looks at a build and stores it, while the old one runs.
    fn stage(&mut self, wish: Wish, component: Component) {
        self.setup.swaps.looks_at(&component.digest);
        let (parts, store, events) = (Arc::clone(&self.setup.parts), Arc::clone(&self.setup.store), self.events.clone());
        let (old, generation) = (self.setup.swaps.running(wish.operator).clone(), self.setup.generation);
        let dry_run = wish.request.wish.dry_run;
        // Held before it is stored: the clean-up behind the log must not take it for a leftover.
        let held = (!dry_run).then(|| self.setup.keeper.hold(component.digest.clone()));
        tokio::spawn(async move {
            let on_probation = wish.request.wish.probation > 0;
            let looked = tokio::task::spawn_blocking(move || {
                let mut staged = stage(&parts, wish.operator, &component, &old, generation, on_probation);
                if let (true, Ok(staged)) = (dry_run, &mut staged) {
                    staged.instances.clear();
                }
                (wish, component, staged)
            });
            let (wish, component, mut staged) = looked.await.expect("a look at a plugin does not panic");
            if let (Some(held), true) = (held, staged.is_ok()) {
                // The clean-up ends with the attempt, and then nobody listens here either.
                let _ = held.await;
                if let Err(error) = store.put_plugin(&component.digest, component.bytes.clone()).await {
                    staged = Err(Problem::new("checkpoint storage", error.to_string(), "make room, or mend it, and try again"));
                }
            }
            let _ = events.send(Event::Swap(SwapNews::Staged(wish, staged)));
        });
    }

    fn swap_orders(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::RequestCheckpoint => self.step(CoordEvent::RequestSwap { now: self.now() }),
                Order::Trust(operator) => self.tell_all(&TaskControl::Trusted(operator)),
                Order::Close(slots) => {
                    // Nobody waits for it: a plugin that hangs while it is closed runs into its deadline.
                    tokio::task::spawn_blocking(move || slots.iter().for_each(|slot| slot.lock().close()));
                }
            }
        }
    }

    /// Hands the new instances to the subtasks. The barrier is not sent yet, so each has its own before that arrives.
    pub(super) fn hand_out(&mut self, checkpoint: CheckpointId) {
        let (operator, build, slots) = self.setup.swaps.exchange(checkpoint);
        for (subtask, slot) in subtasks_of(&self.setup.parts.execution, operator).into_iter().zip(slots) {
            let next = NextBuild { checkpoint, operator, build: Arc::clone(&build), slot };
            self.setup.deployment.controls[subtask.0 as usize].send(TaskControl::Exchange(next));
        }
    }

    /// A checkpoint is complete: it may be the one of a swap, or one of a probation.
    pub(super) fn swap_completed(&mut self, checkpoint: CheckpointId, took: Duration) {
        let on_probation = self.setup.swaps.is_on_probation();
        let orders = self.setup.swaps.completed(checkpoint, took);
        if orders.iter().any(|order| matches!(order, Order::Close(_))) {
            crash::point("swap-done");
        }
        if on_probation {
            crash::point("swap-probation");
        }
        self.swap_orders(orders);
    }
}
