//! Deliberate faults, so that tests can show that each would be caught. Without `cfg(test)` or the feature `mutants` a
//! [`Mutation`] has no bits, `is` is always false, and what depends on it is compiled away.

/// One fault, named for what the faulty machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// The aligner goes on waiting for the barrier of a channel that has ended.
    ForgetEndedInput,
    /// The coordinator aborts a checkpoint whose publish has no known outcome.
    UnknownPublishIsAbort,
    /// The coordinator does not wait for source subtasks that have reported EndOfData.
    OwedSkipsEnded,
    /// The permit names every committable acknowledged for this checkpoint or an earlier one.
    PermitByIds,
    /// The coordinator gives up the transactions of an aborted checkpoint: later permits leave them out.
    AbortTransactionWithCheckpoint,
    /// The publisher takes a slot that is read as absent for a manifest that was not written.
    AbsentIsNotWritten,
    /// Claimant and publisher don't list the log again after a create.
    NoLookAbove,
    /// A recovery does not commit what the newest checkpoint contains.
    NoCommitOnRecovery,
    /// A recovery aborts what dangles, of newer generations too.
    AbortNewerGenerations,
    /// A snapshot carries only the committable of its own barrier.
    OnlyOwnCommittable,
    /// An aborted checkpoint's set is neither copied nor ingested.
    CancelFreeze,
    /// The manifest of a swap checkpoint names the build that ran before its barrier.
    ManifestNamesOldBuild,
    /// A build that has failed on probation runs in the next attempt.
    FailedBuildRunsAgain,
    /// The attempt goes on after its swap checkpoint was aborted.
    SwapSurvivesAbort,
}

/// Which fault a machine has. None, in the product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mutation {
    #[cfg(any(test, feature = "mutants"))]
    mutant: Option<Mutant>,
}

impl Mutation {
    /// A machine with this fault.
    #[cfg(any(test, feature = "mutants"))]
    pub fn of(mutant: Mutant) -> Self {
        Mutation { mutant: Some(mutant) }
    }

    /// Whether the machine has this fault.
    #[cfg(any(test, feature = "mutants"))]
    pub(crate) fn is(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether the machine has this fault: never.
    #[cfg(not(any(test, feature = "mutants")))]
    pub(crate) const fn is(self, _: Mutant) -> bool {
        false
    }
}
