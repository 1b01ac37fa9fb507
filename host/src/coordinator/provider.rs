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
    /// Whether the build is on probation.
    pub on_probation: bool,
}

/// Makes operator instances.
pub trait OperatorProvider: Send + Sync {
    /// Loads what the operator names and says what the graph must know of it; every problem found is listed.
    fn facts(&self, operator: &OperatorSpec) -> Result<PluginFacts, Vec<Problem>>;

    /// Takes in another build of an operator's plugin and says what the graph must know of it. `name`: for messages.
    fn take_in(&self, operator: &OperatorSpec, _name: &str, _bytes: bytes::Bytes) -> Result<PluginFacts, Problem> {
        let place = format!("operator {}", operator.name);
        Err(Problem::new(place, "it is no plugin, so there are no builds of it", "name an operator with a plugin"))
    }

    /// Lets a build go that was taken in.
    fn let_go(&self, _build: &str) {}

    /// The component of a build that is at hand.
    fn bytes_of(&self, _build: &str) -> Option<bytes::Bytes> {
        None
    }

    /// A fresh instance of a build, opened. Only for operators whose facts were given, and their builds.
    fn instantiate(
        &self,
        operator: &OperatorSpec,
        build: &str,
        task: InstanceTask,
    ) -> Result<Box<dyn StreamOperator>, OperatorFailure>;
}
