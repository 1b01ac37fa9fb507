//! Whether a transaction's records have all arrived: before that none of the next one's may be sent, or a key's records could change
//! their order, since each transaction has a connection of its own.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Done,
    /// It failed, or was given up.
    Failed,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The flushing side. Dropped without a word, it has failed.
pub(super) struct Flushing(Arc<Shared>);

/// The waiting side.
pub(super) struct Flushed(Arc<Shared>);

/// Both sides.
pub(super) fn pair() -> (Flushing, Flushed) {
    let shared = Arc::new(Shared { state: Mutex::new(State::Pending), changed: Condvar::new() });
    (Flushing(Arc::clone(&shared)), Flushed(shared))
}

impl Flushing {
    fn set(&self, state: State) {
        let mut own = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *own == State::Pending {
            *own = state;
        }
        self.0.changed.notify_all();
    }

    /// All records have arrived.
    pub(super) fn done(self) {
        self.set(State::Done);
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        self.set(State::Failed);
    }
}

impl Flushed {
    /// Waits at most so long. True: all have arrived. None: they never will.
    pub(super) fn wait(&self, timeout: Duration) -> Option<bool> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.changed.wait_timeout_while(state, timeout, |state| *state == State::Pending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Pending => Some(false),
            State::Done => Some(true),
            State::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_pending_until_it_is_done_or_given_up() {
        let (flushing, flushed) = pair();
        assert_eq!(flushed.wait(Duration::ZERO), Some(false));
        flushing.done();
        assert_eq!(flushed.wait(Duration::ZERO), Some(true));
        let (flushing, flushed) = pair();
        drop(flushing);
        assert_eq!(flushed.wait(Duration::ZERO), None);
    }
}
