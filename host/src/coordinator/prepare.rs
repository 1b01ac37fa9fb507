//! From a checked job graph to everything that its attempts share: plugins, connectors, the execution graph.

use super::deploy::{BuildLoader, JobParts};
use super::plugins::{Role, WasmProvider};
use super::provider::OperatorProvider;
use super::run::run_job;
use super::transactions::transactions;
use crate::blocking;
use crate::connectors::factory::{sink_connector, sink_outlook, source_connector};
use crate::connectors::plugin_sink::PluginSource;
use crate::connectors::{ConnectorError, Outlook, SinkConnector};
use crate::graph::{ExecutionGraph, JobGraph, PluginFacts, Problem, SinkConnectorSpec, SinkSpec};
use crate::job::{EventListener, JobOutcome, NodeOutside, Outside, RunOptions, Runtime, StopSignal};
use crate::task::times::TaskTimes;
use crate::transactions::{TransactionPlace, TransactionReport, TransactionWish};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use weir_plugin::{EngineConfig, PluginEngine};

/// Makes sink connectors, also of sinks that have left the job file.
pub type SinkFactory = Arc<dyn Fn(&SinkSpec) -> Result<Arc<dyn SinkConnector>, ConnectorError> + Send + Sync>;

/// Runs jobs in this process.
pub struct HostRuntime {
    wasm: Arc<WasmProvider>,
    provider: Arc<dyn OperatorProvider>,
}

/// A runtime that is made when a command first needs it: `weir --help` starts no engine.
pub struct LazyRuntime {
    cache: Option<PathBuf>,
    made: OnceLock<Result<HostRuntime, Problem>>,
}

impl LazyRuntime {
    /// See [`HostRuntime::new`].
    pub fn new(cache: Option<PathBuf>) -> Self {
        LazyRuntime { cache, made: OnceLock::new() }
    }

    fn get(&self) -> Result<&HostRuntime, Vec<Problem>> {
        self.made.get_or_init(|| HostRuntime::new(self.cache.clone())).as_ref().map_err(|problem| vec![problem.clone()])
    }
}

impl Runtime for LazyRuntime {
    fn plugin_facts(&self, graph: &JobGraph) -> Result<BTreeMap<String, PluginFacts>, Vec<Problem>> {
        self.get()?.plugin_facts(graph)
    }

    fn look_outside(&self, graph: &JobGraph, data: &Path) -> Outside {
        look_outside(graph, data)
    }

    fn transactions(&self, place: &TransactionPlace, wish: &TransactionWish) -> Result<TransactionReport, Vec<Problem>> {
        self.get()?.transactions(place, wish)
    }

    fn another(&self) -> Result<Arc<dyn Runtime + Send + Sync>, Vec<Problem>> {
        self.get()?.another()
    }

    fn run(&self, graph: JobGraph, options: RunOptions, stop: StopSignal, events: EventListener) -> JobOutcome {
        match self.get() {
            Ok(runtime) => runtime.run(graph, options, stop, events),
            Err(problems) => JobOutcome::Refused { problems },
        }
    }
}

/// Inputs and clusters. A job that has run before keeps its list of inputs in its checkpoints: nothing is said of those that are
/// missing then.
fn look_outside(graph: &JobGraph, data: &Path) -> Outside {
    let log = graph.checkpoint.folder(data).join("log");
    let is_first_start = !std::fs::read_dir(log).is_ok_and(|mut entries| entries.next().is_some());
    let mut outside = Outside::default();
    let mut add = |place: String, outlook: Outlook| {
        let Outlook { problems, warnings, facts } = outlook;
        outside.problems.extend(problems);
        if !warnings.is_empty() || !facts.is_empty() {
            outside.nodes.push(NodeOutside { place, warnings, facts });
        }
    };
    for spec in &graph.sources {
        let place = format!("source {}", spec.name);
        let source = source_connector(spec);
        let found = source.and_then(|source| if is_first_start { source.enumerate().map(|_| source) } else { Ok(source) });
        let outlook = match found {
            Ok(source) => source.outlook(),
            Err(error) => Outlook { problems: vec![error.at(&place)], ..Outlook::default() },
        };
        add(place, outlook);
    }
    for spec in &graph.sinks {
        add(format!("sink {}", spec.name), sink_outlook(spec, is_first_start));
    }
    outside
}

/// Where compiled plugins are kept between runs: `$XDG_CACHE_HOME/weir/compiled`, else `~/.cache/weir/compiled`. None without
/// a home: every start compiles.
pub fn default_cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("weir").join("compiled"))
}

impl HostRuntime {
    /// A runtime whose operators are Wasm plugins. `cache`: folder of compiled code; none: every start compiles.
    pub fn new(cache: Option<PathBuf>) -> Result<Self, Problem> {
        let engine = PluginEngine::new(&EngineConfig { cache, ..EngineConfig::default() })
            .map_err(|error| Problem::new("plugin engine", error.to_string(), ""))?;
        Ok(HostRuntime::on(engine))
    }

    fn on(engine: Arc<PluginEngine>) -> Self {
        let wasm = Arc::new(WasmProvider::new(engine));
        HostRuntime { provider: Arc::clone(&wasm) as Arc<dyn OperatorProvider>, wasm }
    }

    /// The same with operators from elsewhere (native code in benches); sinks stay plugins or built in.
    pub fn with_operators(self, provider: Arc<dyn OperatorProvider>) -> Self {
        HostRuntime { provider, ..self }
    }

    fn load_build(&self) -> BuildLoader {
        let wasm = Arc::clone(&self.wasm);
        Arc::new(move |digest, bytes| wasm.load_stored(digest, bytes))
    }

    fn sink_factory(&self) -> SinkFactory {
        let plugins: Arc<dyn PluginSource> = Arc::clone(&self.wasm) as Arc<dyn PluginSource>;
        Arc::new(move |spec| sink_connector(spec, &plugins).map(Arc::from))
    }

    fn parts(&self, graph: JobGraph) -> Result<(JobParts, SinkFactory), Vec<Problem>> {
        let facts = self.plugin_facts(&graph)?;
        let execution = ExecutionGraph::derive(&graph, &facts)?;
        let mut problems = Vec::new();
        let mut sources = Vec::new();
        for spec in &graph.sources {
            match source_connector(spec) {
                Ok(source) => sources.push(source),
                Err(error) => problems.push(Problem::new(format!("source {}", spec.name), error.message, "")),
            }
        }
        let factory = self.sink_factory();
        let mut sinks = Vec::new();
        for spec in &graph.sinks {
            match factory(spec) {
                Ok(sink) => sinks.push(sink),
                Err(error) => problems.push(Problem::new(format!("sink {}", spec.name), error.message, "")),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let of = |name: &str| facts[name].clone();
        let parts = JobParts {
            plugins: graph.operators.iter().map(|spec| of(&spec.name).digest).collect(),
            states: graph.operators.iter().map(|spec| of(&spec.name).states).collect(),
            checkpointed: graph.operators.iter().map(|spec| of(&spec.name).checkpointed).collect(),
            sink_plugins: sinks.iter().map(|sink: &Arc<dyn SinkConnector>| sink.plugin_digest().map(str::to_owned)).collect(),
            plugin_bytes: self.wasm.builds(),
            provider: Arc::clone(&self.provider),
            load_build: self.load_build(),
            times: task_times(&execution),
            graph,
            execution,
            sources,
            sinks,
            facts,
        };
        Ok((parts, factory))
    }
}

/// Counters of every subtask, by its index.
fn task_times(execution: &ExecutionGraph) -> Vec<Arc<TaskTimes>> {
    let subtasks = execution.tasks.iter().flat_map(|task| (0..task.parallelism).map(|_| task.nodes.len()));
    subtasks.map(|nodes| Arc::new(TaskTimes::new(nodes))).collect()
}

impl Runtime for HostRuntime {
    fn plugin_facts(&self, graph: &JobGraph) -> Result<BTreeMap<String, PluginFacts>, Vec<Problem>> {
        let (mut facts, mut problems) = (BTreeMap::new(), Vec::new());
        for spec in &graph.operators {
            match self.provider.facts(spec) {
                Ok(own) => {
                    facts.insert(spec.name.clone(), own);
                }
                Err(own) => problems.extend(own),
            }
        }
        for spec in &graph.sinks {
            if let SinkConnectorSpec::Plugin { plugin, sha256, limits, .. } = &spec.connector
                && let Err(problem) = self.wasm.load(&spec.name, plugin, sha256.as_deref(), limits, Role::Sink)
            {
                problems.push(Problem { place: format!("sink {}", problem.place), ..problem });
            }
        }
        if problems.is_empty() { Ok(facts) } else { Err(problems) }
    }

    fn look_outside(&self, graph: &JobGraph, data: &Path) -> Outside {
        look_outside(graph, data)
    }

    fn transactions(&self, place: &TransactionPlace, wish: &TransactionWish) -> Result<TransactionReport, Vec<Problem>> {
        blocking::wait(transactions(place, wish, &self.sink_factory())).flatten().map_err(|problem| vec![problem])
    }

    fn another(&self) -> Result<Arc<dyn Runtime + Send + Sync>, Vec<Problem>> {
        Ok(Arc::new(HostRuntime::on(self.wasm.engine())))
    }

    fn run(&self, graph: JobGraph, options: RunOptions, stop: StopSignal, events: EventListener) -> JobOutcome {
        let (parts, factory) = match self.parts(graph) {
            Ok(prepared) => prepared,
            Err(problems) => return JobOutcome::Refused { problems },
        };
        for note in &parts.execution.notes {
            events(crate::job::JobEvent::Notice(note.clone()));
        }
        // Two workers: uploads, the log and the event loop; the data path has threads of its own.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().thread_name("control").build();
        match runtime {
            Ok(runtime) => runtime.block_on(run_job(parts, factory, options, stop, events)),
            Err(error) => {
                let what = format!("the control threads could not be started: {error}");
                JobOutcome::Refused { problems: vec![Problem::new("this machine", what, "raise its process limit")] }
            }
        }
    }
}
