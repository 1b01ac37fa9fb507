//! Lends the state of a running call to its host calls.
//!
//! An engine's store owns its data for good, while state and batch belong to the caller of one call. The loan is a pointer
//! that lives exactly as long as that call: the only place where a lifetime is erased.

use crate::scope::CallScope;
use crate::store::HostState;
use std::ptr::NonNull;
use wasmtime::Store;

/// The scope of the running call, if it has one. Invariant: set only while [`lend`] is on the stack.
#[derive(Default)]
pub(crate) struct Loan(Option<NonNull<CallScope<'static>>>);

// SAFETY: the pointer is only set while `lend` holds `&mut Store`, so the store (and the loan in it) can't move to another
// thread meanwhile; a loan that does move is empty.
unsafe impl Send for Loan {}

impl Loan {
    /// The scope of the running call. None between calls, and in calls that have no keyed state.
    pub(crate) fn scope(&mut self) -> Option<&mut CallScope<'_>> {
        let pointer = self.0?;
        // SAFETY: `lend` set the pointer from a `&mut CallScope` that it keeps borrowed and untouched until it clears the
        // pointer. The reference given out can't outlive the borrow of the loan, which lies in the store that `lend`
        // holds, and two can't exist at once. Nothing reachable through it outlives `lend`'s lifetime either: fields of
        // `CallScope` are private, and its methods store no references.
        Some(unsafe { pointer.cast::<CallScope<'_>>().as_mut() })
    }
}

/// Runs `call` with the scope reachable through the store's loan.
pub(crate) fn lend<R>(
    store: &mut Store<HostState>,
    scope: Option<&mut CallScope<'_>>,
    call: impl FnOnce(&mut Store<HostState>) -> R,
) -> R {
    /// Ends the loan also when the call unwinds.
    struct TakeBack<'s>(&'s mut Store<HostState>);
    impl Drop for TakeBack<'_> {
        fn drop(&mut self) {
            self.0.data_mut().loan = Loan(None);
        }
    }
    store.data_mut().loan = Loan(scope.map(|scope| NonNull::from(scope).cast()));
    let lent = TakeBack(store);
    call(&mut *lent.0)
}
