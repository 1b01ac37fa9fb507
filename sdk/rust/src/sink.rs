//! What a transactional sink's author implements: a writer for each subtask, and one committer for the job.
//!
//! The two never share memory: the committer lives in another instance, maybe in another process years later. What it needs
//! stands in the committable.

use crate::batch::Batch;
use crate::bindings::sink::exports::weir::plugin::{sink_committer as committer, sink_writer as writer};
use crate::bindings::types;
use crate::error::Error;
use crate::host::{Grants, Task};
use crate::operator::Info;

pub use crate::bindings::sink::exports::weir::plugin::sink_writer::Prepared;
pub use crate::bindings::sink::weir::plugin::sink_types::Committable;

/// The writing half: `open` → ( `begin` → `write`* → `prepare` )* → `close`.
pub trait SinkWriter: Default + 'static {
    /// Name and version; `weir_sdk::info!()` takes them from the crate.
    const INFO: Info;
    /// Versions of committables that this build can commit and abort.
    const COMMITTABLE_VERSIONS: &'static [u32];

    /// Once, before all else. `config`: the job file's `config` as one JSON document (`{}` if there is none).
    fn open(&mut self, task: &Task, config: &str) -> Result<(), Error>;
    /// Opens the transaction that the following writes belong to. `transaction`:
    /// `<lineage>.<generation>.<sink>.<subtask>.<number>`, never used twice.
    fn begin(&mut self, transaction: &str) -> Result<(), Error>;
    /// Writes records into the open transaction.
    fn write(&mut self, batch: Batch<'_>) -> Result<(), Error>;
    /// A barrier: stage durably, and say what to commit; none if nothing was written. Nothing may be visible outside yet.
    /// When it returns, a crash must not lose what was written. `checkpoint`: such as `3-17`.
    fn prepare(&mut self, checkpoint: &str, end_of_input: bool) -> Result<Option<Prepared>, Error>;
    /// A clean end. What is neither prepared nor committed is given up.
    fn close(&mut self) {}
}

/// What became of one committable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done now.
    Committed,
    /// Was done before.
    AlreadyCommitted,
    /// Certainly not done; try again.
    Retry(String),
    /// Nobody can say; `status` is asked before the next try.
    Unknown(String),
    /// Certainly not committed, and never will be.
    Lost(String),
}

/// What became of an abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortOutcome {
    /// It is gone, now or before.
    Aborted,
    /// It is committed already, and stays so.
    Committed,
    /// Try again.
    Retry(String),
}

/// The committing half.
pub trait SinkCommitter: Default + 'static {
    /// Once, before all else.
    fn open(&mut self, job: &str, sink: &str, config: &str, grants: &Grants) -> Result<(), Error>;
    /// Idempotent. Called one by one, in order; after the first that is not committed the rest is not tried.
    fn commit(&mut self, what: &Committable) -> Outcome;
    /// What became of it, by asking the outside; changes nothing. `Retry`: not committed yet, can be.
    fn status(&mut self, what: &Committable) -> Outcome;
    /// Idempotent. Gives up what was staged under this identity.
    fn abort(&mut self, transaction: &str) -> AbortOutcome;
    /// Every identity of this job and sink that exists outside, whatever its lineage, generation and subtask.
    fn list_dangling(&mut self) -> Result<Vec<String>, Error>;
    /// A later completed checkpoint no longer contains it: what was kept to answer "already committed" may go.
    fn forget(&mut self, transaction: &str) -> Result<(), Error>;
    /// A clean end.
    fn close(&mut self) {}
}

/// Commits in order and stops trying at the first that is not done.
pub(crate) fn commit_all(committer: &mut impl SinkCommitter, what: &[Committable]) -> Vec<Outcome> {
    let mut stopped_at: Option<&str> = None;
    let mut outcomes = Vec::with_capacity(what.len());
    for committable in what {
        if let Some(id) = stopped_at {
            outcomes.push(Outcome::Retry(format!("not tried: {id} before it is not committed")));
            continue;
        }
        let outcome = committer.commit(committable);
        match outcome {
            Outcome::Committed | Outcome::AlreadyCommitted => {}
            Outcome::Retry(_) | Outcome::Unknown(_) | Outcome::Lost(_) => stopped_at = Some(&committable.id),
        }
        outcomes.push(outcome);
    }
    outcomes
}

impl From<Outcome> for committer::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Committed => committer::Outcome::Committed,
            Outcome::AlreadyCommitted => committer::Outcome::AlreadyCommitted,
            Outcome::Retry(why) => committer::Outcome::Retry(why),
            Outcome::Unknown(why) => committer::Outcome::Unknown(why),
            Outcome::Lost(why) => committer::Outcome::Lost(why),
        }
    }
}

impl From<AbortOutcome> for committer::AbortOutcome {
    fn from(outcome: AbortOutcome) -> Self {
        match outcome {
            AbortOutcome::Aborted => committer::AbortOutcome::Aborted,
            AbortOutcome::Committed => committer::AbortOutcome::Committed,
            AbortOutcome::Retry(why) => committer::AbortOutcome::Retry(why),
        }
    }
}

/// What the exports call; one open writer and one open committer in a component.
pub mod glue {
    use super::*;
    use crate::export::log_panics;

    /// See `sink-writer.describe`.
    pub fn describe<W: SinkWriter>() -> writer::Descriptor {
        writer::Descriptor {
            plugin_name: W::INFO.name.to_owned(),
            plugin_version: W::INFO.version.to_owned(),
            committable_versions: W::COMMITTABLE_VERSIONS.to_vec(),
        }
    }

    /// See `sink-writer.open`.
    pub fn open_writer<W: SinkWriter>(info: types::TaskInfo, config: &str) -> Result<W, types::Error> {
        log_panics();
        let mut writer = W::default();
        writer.open(&Task::new(info, Grants::default()), config).map_err(Error::into_wire)?;
        Ok(writer)
    }

    /// See `sink-writer.begin`.
    pub fn begin(writer: &mut impl SinkWriter, transaction: &str) -> Result<(), types::Error> {
        writer.begin(transaction).map_err(Error::into_wire)
    }

    /// See `sink-writer.write`.
    pub fn write(writer: &mut impl SinkWriter, input: &types::Batch) -> Result<(), types::Error> {
        Batch::new(input, 0).and_then(|batch| writer.write(batch)).map_err(Error::into_wire)
    }

    /// See `sink-writer.prepare`.
    pub fn prepare(
        writer: &mut impl SinkWriter,
        checkpoint: &str,
        end_of_input: bool,
    ) -> Result<Option<Prepared>, types::Error> {
        writer.prepare(checkpoint, end_of_input).map_err(Error::into_wire)
    }

    /// See `sink-committer.open`.
    pub fn open_committer<C: SinkCommitter>(job: &str, sink: &str, config: &str) -> Result<C, types::Error> {
        log_panics();
        let mut committer = C::default();
        committer.open(job, sink, config, &Grants::default()).map_err(Error::into_wire)?;
        Ok(committer)
    }

    /// See `sink-committer.commit`.
    pub fn commit(committer: &mut impl SinkCommitter, what: &[Committable]) -> Vec<committer::Outcome> {
        commit_all(committer, what).into_iter().map(Into::into).collect()
    }

    /// See `sink-committer.status`.
    pub fn status(committer: &mut impl SinkCommitter, what: &[Committable]) -> Vec<committer::Outcome> {
        what.iter().map(|committable| committer.status(committable).into()).collect()
    }

    /// See `sink-committer.abort`.
    pub fn abort(committer: &mut impl SinkCommitter, what: &[String]) -> Vec<committer::AbortOutcome> {
        what.iter().map(|transaction| committer.abort(transaction).into()).collect()
    }

    /// See `sink-committer.list-dangling`.
    pub fn list_dangling(committer: &mut impl SinkCommitter) -> Result<Vec<String>, types::Error> {
        committer.list_dangling().map_err(Error::into_wire)
    }

    /// See `sink-committer.forget`.
    pub fn forget(committer: &mut impl SinkCommitter, what: &[String]) -> Result<(), types::Error> {
        what.iter().try_for_each(|transaction| committer.forget(transaction)).map_err(Error::into_wire)
    }
}

/// Makes two types the sink that this crate exports: `export_sink!(Writer, Committer)`. Outside of Wasm nothing is exported.
#[macro_export]
macro_rules! export_sink {
    ($writer:ty, $committer:ty) => {
        // Checks the types natively as well, and counts as their use.
        #[cfg(not(target_family = "wasm"))]
        const _: () = {
            use $crate::bindings::types::{Error, TaskInfo};
            const _: fn(TaskInfo, &str) -> Result<$writer, Error> = $crate::sink::glue::open_writer::<$writer>;
            const _: fn(&str, &str, &str) -> Result<$committer, Error> = $crate::sink::glue::open_committer::<$committer>;
        };
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::bindings::sink::exports::weir::plugin::{sink_committer, sink_writer};
            use $crate::bindings::types::{Batch, Error, TaskInfo};
            use $crate::sink::{Committable, Prepared, glue};

            ::std::thread_local! {
                static WRITER: ::std::cell::RefCell<Option<$writer>> = const { ::std::cell::RefCell::new(None) };
                static COMMITTER: ::std::cell::RefCell<Option<$committer>> = const { ::std::cell::RefCell::new(None) };
            }

            fn writer<R>(call: impl FnOnce(&mut $writer) -> R) -> R {
                WRITER.with_borrow_mut(|slot| call(slot.as_mut().expect("the host calls open first")))
            }

            fn committer<R>(call: impl FnOnce(&mut $committer) -> R) -> R {
                COMMITTER.with_borrow_mut(|slot| call(slot.as_mut().expect("the host calls open first")))
            }

            struct Exported;
    $crate::bindings::sink::export!(Exported with_types_in $crate::bindings::sink);

            impl sink_writer::Guest for Exported {
                fn describe() -> sink_writer::Descriptor {
                    glue::describe::<$writer>()
                }
                fn open(task: TaskInfo, config: String) -> Result<(), Error> {
                    let opened = glue::open_writer::<$writer>(task, &config)?;
                    WRITER.set(Some(opened));
                    Ok(())
                }
                fn begin(transaction: String) -> Result<(), Error> {
                    writer(|writer| glue::begin(writer, &transaction))
                }
                fn write(input: Batch) -> Result<(), Error> {
                    writer(|writer| glue::write(writer, &input))
                }
                fn prepare(checkpoint: String, end_of_input: bool) -> Result<Option<Prepared>, Error> {
                    writer(|writer| glue::prepare(writer, &checkpoint, end_of_input))
                }
                fn close() {
                    if let Some(mut writer) = WRITER.take() {
                        $crate::SinkWriter::close(&mut writer);
                    }
                }
            }

            impl sink_committer::Guest for Exported {
                fn open(job: String, sink: String, config: String) -> Result<(), Error> {
                    let opened = glue::open_committer::<$committer>(&job, &sink, &config)?;
                    COMMITTER.set(Some(opened));
                    Ok(())
                }
                fn commit(what: Vec<Committable>) -> Vec<sink_committer::Outcome> {
                    committer(|committer| glue::commit(committer, &what))
                }
                fn status(what: Vec<Committable>) -> Vec<sink_committer::Outcome> {
                    committer(|committer| glue::status(committer, &what))
                }
                fn abort(what: Vec<String>) -> Vec<sink_committer::AbortOutcome> {
                    committer(|committer| glue::abort(committer, &what))
                }
                fn list_dangling() -> Result<Vec<String>, Error> {
                    committer(|committer| glue::list_dangling(committer))
                }
                fn forget(what: Vec<String>) -> Result<(), Error> {
                    committer(|committer| glue::forget(committer, &what))
                }
                fn close() {
                    if let Some(mut committer) = COMMITTER.take() {
                        $crate::SinkCommitter::close(&mut committer);
                    }
                }
            }
        };
    };
}
