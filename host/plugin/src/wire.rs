//! The contract's value types as the engine copies them across the boundary.
//!
//! `…Ref` types go to the guest straight out of the host's buffers: one copy a column. `…Lift` types come from the guest
//! as owned bytes that nothing has checked yet; each has one way on, into a checked type. `Wasm…` types stay in the
//! guest's memory and are only valid inside the host call that got them.

use crate::batch::{Cells, Column, Malformed, RecordBatch};
use crate::error::CallErrorKind;
use crate::parts::StatePart;
use wasmtime::component::{ComponentType, Lift, Lower, WasmList};

/// `types.batch`, to the guest.
#[derive(ComponentType, Lower, Clone, Copy)]
#[component(record)]
pub(crate) struct BatchRef<'a> {
    count: u32,
    data: &'a [u8],
    index: &'a [u8],
    times: &'a [u8],
    aux: &'a [u8],
}

impl<'a> BatchRef<'a> {
    /// `aux`: the batch's [`RecordBatch::aux`].
    pub(crate) fn new(batch: &'a RecordBatch, aux: &'a [u8]) -> Self {
        BatchRef { count: batch.len() as u32, data: batch.data(), index: batch.index(), times: batch.times(), aux }
    }
}

/// `types.cells`, to the guest.
#[derive(ComponentType, Lower, Clone, Copy)]
#[component(record)]
pub(crate) struct CellsRef<'a> {
    ops: &'a [u8],
    data: &'a [u8],
    index: &'a [u8],
}

impl<'a> CellsRef<'a> {
    pub(crate) fn new(cells: &'a Cells) -> Self {
        CellsRef { ops: cells.ops(), data: cells.column().data(), index: cells.column().index() }
    }
}

/// `types.column`, to the guest.
#[derive(ComponentType, Lower, Clone, Copy)]
#[component(record)]
pub(crate) struct ColumnRef<'a> {
    data: &'a [u8],
    index: &'a [u8],
}

impl<'a> ColumnRef<'a> {
    pub(crate) fn new(column: &'a Column) -> Self {
        ColumnRef { data: column.data(), index: column.index() }
    }
}

/// `types.cells`, to the guest as the answer of a host call.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct CellsAnswer {
    ops: Vec<u8>,
    data: Vec<u8>,
    index: Vec<u8>,
}

impl From<Cells> for CellsAnswer {
    fn from(cells: Cells) -> Self {
        let (ops, column) = cells.into_parts();
        let (data, index) = column.into_parts();
        CellsAnswer { ops, data, index }
    }
}

/// `types.column`, to the guest in the answer of a host call.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct ColumnAnswer {
    data: Vec<u8>,
    index: Vec<u8>,
}

impl From<Column> for ColumnAnswer {
    fn from(column: Column) -> Self {
        let (data, index) = column.into_parts();
        ColumnAnswer { data, index }
    }
}

/// `list-state.lists`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct ListsAnswer {
    pub(crate) counts: Vec<u8>,
    pub(crate) values: ColumnAnswer,
}

/// `list-state.list-page`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct ListPageAnswer {
    pub(crate) values: ColumnAnswer,
    pub(crate) next: u64,
}

/// `map-state.map-page`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct MapPageAnswer {
    #[component(name = "map-keys")]
    pub(crate) map_keys: ColumnAnswer,
    pub(crate) values: ColumnAnswer,
    pub(crate) done: bool,
}

/// `types.task-info`.
#[derive(ComponentType, Lower, Clone, Debug, PartialEq, Eq)]
#[component(record)]
pub struct TaskInfo {
    /// The job's name.
    pub job: String,
    /// Operator or sink in the job file.
    #[component(name = "operator-name")]
    pub operator: String,
    /// 0 … parallelism - 1.
    pub subtask: u32,
    /// Number of instances that share the work.
    pub parallelism: u32,
    /// Number of the job's attempt, from 1.
    pub attempt: u32,
}

/// `types.batch`, from the guest.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct BatchLift {
    count: u32,
    data: Vec<u8>,
    index: Vec<u8>,
    times: Vec<u8>,
    aux: Vec<u8>,
}

impl BatchLift {
    pub(crate) fn bytes(&self) -> usize {
        self.data.len() + self.index.len() + self.times.len() + self.aux.len()
    }

    pub(crate) fn check(self) -> Result<RecordBatch, Malformed> {
        RecordBatch::from_parts(self.count, self.data, self.index, self.times, self.aux)
    }
}

/// `types.batch`, still in the guest's memory.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct WasmBatch {
    pub(crate) count: u32,
    pub(crate) data: WasmList<u8>,
    pub(crate) index: WasmList<u8>,
    pub(crate) times: WasmList<u8>,
    pub(crate) aux: WasmList<u8>,
}

impl WasmBatch {
    pub(crate) fn bytes(&self) -> usize {
        self.data.len() + self.index.len() + self.times.len() + self.aux.len()
    }
}

/// `types.column`, from the guest.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct ColumnLift {
    data: Vec<u8>,
    index: Vec<u8>,
}

impl ColumnLift {
    pub(crate) fn check(self) -> Result<Column, Malformed> {
        Column::from_parts(self.data, self.index)
    }
}

/// `types.cells`, from the guest.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct CellsLift {
    ops: Vec<u8>,
    data: Vec<u8>,
    index: Vec<u8>,
}

impl CellsLift {
    pub(crate) fn bytes(&self) -> usize {
        self.ops.len() + self.data.len() + self.index.len()
    }

    pub(crate) fn check(self) -> Result<Cells, Malformed> {
        Cells::from_parts(self.ops, self.data, self.index)
    }
}

/// `types.side-output`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct SideLift {
    pub(crate) port: u32,
    pub(crate) records: BatchLift,
}

/// `types.output`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct OutputLift {
    pub(crate) main: BatchLift,
    pub(crate) sides: Vec<SideLift>,
    pub(crate) updates: Vec<CellsLift>,
}

impl OutputLift {
    pub(crate) fn bytes(&self) -> usize {
        self.main.bytes()
            + self.sides.iter().map(|side| side.records.bytes()).sum::<usize>()
            + self.updates.iter().map(CellsLift::bytes).sum::<usize>()
    }
}

/// `types.error`.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(crate) enum ErrorLift {
    #[component(name = "retry")]
    Retry(String),
    #[component(name = "bad-input")]
    BadInput(Vec<(u32, String)>),
    #[component(name = "fatal")]
    Fatal(String),
}

impl ErrorLift {
    /// The error of a call that was given `records` records.
    pub(crate) fn check(self, records: usize) -> CallErrorKind {
        match self {
            ErrorLift::Retry(why) => CallErrorKind::Retry(why),
            ErrorLift::Fatal(why) => CallErrorKind::Fatal(why),
            ErrorLift::BadInput(mut bad) => {
                bad.sort_by_key(|(index, _)| *index);
                bad.dedup_by_key(|(index, _)| *index);
                match bad.last() {
                    None => CallErrorKind::Malformed("bad-input names no record".into()),
                    Some((last, _)) if *last as usize >= records => {
                        CallErrorKind::Malformed(format!("bad-input names record {last} of a batch of {records}"))
                    }
                    Some(_) => CallErrorKind::BadInput(bad),
                }
            }
        }
    }
}

/// `checkpointed.part`, from the guest.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct PartLift {
    pub(crate) mode: String,
    #[component(name = "schema-version")]
    pub(crate) schema_version: u32,
    pub(crate) bytes: Vec<u8>,
}

/// `checkpointed.part`, to the guest.
#[derive(ComponentType, Lower, Clone, Copy)]
#[component(record)]
pub(crate) struct PartRef<'a> {
    mode: &'a str,
    #[component(name = "schema-version")]
    schema_version: u32,
    bytes: &'a [u8],
}

impl<'a> PartRef<'a> {
    pub(crate) fn new(part: &'a StatePart) -> Self {
        PartRef { mode: part.mode.name(), schema_version: part.schema_version, bytes: &part.bytes }
    }
}

/// `operator.state-desc`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct StateDescLift {
    pub(crate) name: String,
    pub(crate) kind: String,
    #[component(name = "schema-version")]
    pub(crate) schema_version: u32,
    pub(crate) prefetch: bool,
}

/// `operator.descriptor`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct OperatorDescriptorLift {
    #[component(name = "plugin-name")]
    pub(crate) plugin_name: String,
    #[component(name = "plugin-version")]
    pub(crate) plugin_version: String,
    pub(crate) states: Vec<StateDescLift>,
    #[component(name = "side-outputs")]
    pub(crate) side_outputs: Vec<String>,
    pub(crate) inputs: u32,
}

/// `sink-writer.descriptor`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct SinkDescriptorLift {
    #[component(name = "plugin-name")]
    pub(crate) plugin_name: String,
    #[component(name = "plugin-version")]
    pub(crate) plugin_version: String,
    #[component(name = "committable-versions")]
    pub(crate) committable_versions: Vec<u32>,
}

/// `sink-writer.prepared`.
#[derive(ComponentType, Lift, Clone, Debug, PartialEq, Eq)]
#[component(record)]
pub struct Prepared {
    /// Version of `bytes`, one of the descriptor's.
    pub version: u32,
    /// What the committer needs.
    pub bytes: Vec<u8>,
}

/// `sink-types.committable`.
#[derive(ComponentType, Lower, Clone, Debug, PartialEq, Eq)]
#[component(record)]
pub struct Committable {
    /// The identity that `begin` was given.
    pub id: String,
    /// The checkpoint at which it was prepared, as `3-17`.
    pub checkpoint: String,
    /// Version of `bytes`.
    pub version: u32,
    /// What the author needs to commit or abort.
    pub bytes: Vec<u8>,
}

/// `sink-committer.outcome`: what became of one committable.
#[derive(ComponentType, Lift, Clone, Debug, PartialEq, Eq)]
#[component(variant)]
pub enum Outcome {
    /// Done now.
    #[component(name = "committed")]
    Committed,
    /// Was done before.
    #[component(name = "already-committed")]
    AlreadyCommitted,
    /// Certainly not done; try again.
    #[component(name = "retry")]
    Retry(String),
    /// Nobody can say: ask `status`, then try again.
    #[component(name = "unknown")]
    Unknown(String),
    /// Certainly not committed, and never will be.
    #[component(name = "lost")]
    Lost(String),
}

/// `sink-committer.abort-outcome`: what became of one abort.
#[derive(ComponentType, Lift, Clone, Debug, PartialEq, Eq)]
#[component(variant)]
pub enum AbortOutcome {
    /// It is gone, now or before.
    #[component(name = "aborted")]
    Aborted,
    /// It is committed already, and stays so.
    #[component(name = "committed")]
    Committed,
    /// Try again.
    #[component(name = "retry")]
    Retry(String),
}
