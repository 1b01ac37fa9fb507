//! Where operators come from: Wasm plugins in production, native code in benches.

use crate::graph::{OperatorSpec, PluginFacts, Problem};
use crate::task::operator::{OperatorFailure, StreamOperator};

/// Which instance of an operator is asked for.
#[derive(Clone, Debug)]
pub struct InstanceTask {
    /// The job's name.
    pub job: String,
    /// 0 … parallelism - 1.
    pub subtask: u32,
    /// Number of instances.
    pub parallelism: u32,
    /// Number of the attempt.
    pub attempt: u32,
}

/// Makes operator instances.
pub trait OperatorProvider: Send + Sync {
    /// Loads what the operator names and says what the graph must know of it; every problem found is listed.
    fn facts(&self, operator: &OperatorSpec) -> Result<PluginFacts, Vec<Problem>>;

    /// A fresh instance, opened. Only for operators whose facts were given.
    fn instantiate(&self, operator: &OperatorSpec, task: InstanceTask) -> Result<Box<dyn StreamOperator>, OperatorFailure>;
}
