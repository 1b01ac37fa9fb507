//! Where the calls of an operator spend their time.
//!
//! Invariants:
//! - *apart*: the spans don't overlap, so their sum is at most the time that the calls took;
//! - *cheap*: six readings of the clock a call; in a call that makes many host calls only some of them are measured.

use crate::clock;
use crate::store::HostState;
use std::ops::{AddAssign, Sub};
use wasmtime::{AsContextMut, StoreContextMut};

/// Host calls of one call that are all measured. Of those after them, every [`SAMPLE`]th is, and stands for as many.
const MEASURED: u64 = 16;
const SAMPLE: u64 = 16;

/// Nanoseconds and counts of an operator's calls since it was made, failed ones included. Only calls that get records or
/// hear of the end of input count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// Calls of the guest.
    pub calls: u64,
    /// Grouping the records by key.
    pub group_ns: u64,
    /// Reading the declared state of all keys.
    pub look_up_ns: u64,
    /// In the guest, with what it takes to copy arguments in and the answer out; without its host calls.
    pub guest_ns: u64,
    /// Calls that the guest made of the host.
    pub host_calls: u64,
    /// In the host's functions. Estimated for calls that make many: one in sixteen is measured.
    pub host_ns: u64,
    /// Checking what the guest gave.
    pub take_ns: u64,
    /// Writing state.
    pub apply_ns: u64,
}

impl CallTimes {
    /// One call of the guest took so long, host calls included.
    pub(crate) fn guest(&mut self, span_ns: u64, host: HostTimes) {
        // What is estimated must not be longer than what it is a part of.
        let host_ns = host.ns.min(span_ns);
        self.calls += 1;
        self.guest_ns += span_ns - host_ns;
        self.host_calls += host.calls;
        self.host_ns += host_ns;
    }
}

impl AddAssign for CallTimes {
    fn add_assign(&mut self, more: CallTimes) {
        let CallTimes { calls, group_ns, look_up_ns, guest_ns, host_calls, host_ns, take_ns, apply_ns } = more;
        self.calls += calls;
        self.group_ns += group_ns;
        self.look_up_ns += look_up_ns;
        self.guest_ns += guest_ns;
        self.host_calls += host_calls;
        self.host_ns += host_ns;
        self.take_ns += take_ns;
        self.apply_ns += apply_ns;
    }
}

impl Sub for CallTimes {
    type Output = CallTimes;

    /// What came after `before`, an earlier reading of the same operator.
    fn sub(self, before: CallTimes) -> CallTimes {
        CallTimes {
            calls: self.calls - before.calls,
            group_ns: self.group_ns - before.group_ns,
            look_up_ns: self.look_up_ns - before.look_up_ns,
            guest_ns: self.guest_ns - before.guest_ns,
            host_calls: self.host_calls - before.host_calls,
            host_ns: self.host_ns - before.host_ns,
            take_ns: self.take_ns - before.take_ns,
            apply_ns: self.apply_ns - before.apply_ns,
        }
    }
}

/// Host calls of the running call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostTimes {
    calls: u64,
    ns: u64,
}

impl HostTimes {
    /// Counts one more. Gives how many it stands for, if it is to be measured.
    fn count(&mut self) -> Option<u64> {
        self.calls += 1;
        match self.calls {
            ..=MEASURED => Some(1),
            later if later % SAMPLE == 0 => Some(SAMPLE),
            _ => None,
        }
    }
}

/// A host function that is counted and measured.
pub(crate) fn timed<P, R>(
    function: impl Fn(StoreContextMut<'_, HostState>, P) -> wasmtime::Result<R> + Send + Sync + 'static,
) -> impl Fn(StoreContextMut<'_, HostState>, P) -> wasmtime::Result<R> + Send + Sync + 'static {
    move |mut store, parameters| {
        let Some(stands_for) = store.data_mut().host_times.count() else { return function(store, parameters) };
        let begun = clock::monotonic();
        let answer = function(store.as_context_mut(), parameters);
        store.data_mut().host_times.ns += begun.elapsed().as_nanos() as u64 * stands_for;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_call_is_stood_for_once() {
        let mut host = HostTimes::default();
        for calls in 1..=1_000 {
            let measured = host.count();
            assert!(calls > MEASURED || measured == Some(1));
        }
        let mut host = HostTimes::default();
        let weights: u64 = (0..160).filter_map(|_| host.count()).sum();
        assert_eq!((host.calls, weights), (160, 160));
    }

    #[test]
    fn an_estimate_is_never_longer_than_the_call() {
        let mut times = CallTimes::default();
        times.guest(1_000, HostTimes { calls: 20, ns: 1_500 });
        times.guest(1_000, HostTimes { calls: 1, ns: 100 });
        let expected = CallTimes { calls: 2, guest_ns: 900, host_calls: 21, host_ns: 1_100, ..CallTimes::default() };
        assert_eq!(times, expected);
        let mut sum = times;
        sum += times;
        assert_eq!(sum - times, times);
    }
}
