//! The command line as clap reads it, with the help that it gives.

use crate::graph::units;
use clap::{Args as ClapArgs, Parser, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_protocol::CheckpointId;

const AFTER_HELP: &str = "\
Examples:
  weir check job.toml                   what would run, with every default and why
  weir run job.toml                     run it here; Ctrl-C stops it cleanly
  weir run job.toml                     the same again: resumes where it stopped
  weir run job.toml --fresh             start over (see 'weir run --help')
  weir checkpoint list job.toml         what is stored, newest first
  weir new word-count --lang rust       a project for a plugin; then weir build, weir test
  weir test plugin.wasm                 try a plugin against the contract, without a job
  weir swap job.toml OP new.wasm        exchange a plugin while the job runs
  weir drill job.toml                   kill it 20 times, and compare what it commits
  weir txn list job.toml                transactions that have no end yet, and what ends them

Exit codes:
  0  finished, or stopped cleanly
  1  the job failed for good; the last line says why, where, and what to do
  2  refused before start: bad command line, bad job file, bad plugin, failed check
  3  commit lost or unknown: transactions and source ranges are named
  4  this checkpoint can't be restored here
  5  another process has taken this job over
  130  stopped at once by a second Ctrl-C, without a final checkpoint

Logs go to stderr, results to stdout. WEIR_LOG sets the log filter (WEIR_LOG=debug), NO_COLOR takes the colours off.";

const RUN_HELP: &str = "\
Runs the job in this process until its input ends, it is stopped, or it fails for good.

Without --fresh or --from it RESUMES from the newest completed checkpoint in the data folder, if there is one, and says \
so. Output that was committed stays committed; nothing is written twice.

Ctrl-C (or SIGTERM) takes a final checkpoint, commits it, and exits with 0: run it again to go on. A second Ctrl-C stops \
at once; the next run then resumes from the last completed checkpoint, which is just as safe, and a little further back.";

const RUN_EXAMPLES: &str = "\
Examples:
  weir run job.toml
  weir run job.toml --data /fast/disk/flights
  weir run job.toml --profile
  weir run job.toml --fresh --allow-duplicates
  weir run job.toml --from 3-17 --json > result.json";

const CHECK_HELP: &str = "\
Tells everything that can be known before running: the job with every default filled in and why, what its plugins \
declare, how it is split into threads, and what each path from a source to a sink guarantees. Kafka's brokers are asked for \
topics, rights, timeouts and what would void the promise. Nothing is written and nothing runs. All problems are listed together.

The output is itself a job file (what is not a setting stands in comments).";

const DRILL_HELP: &str = "\
Runs the job once undisturbed, and then again and again with kill -9 at seeded moments and at named points of a checkpoint and \
a recovery, restarting it until its input ends. What each of these runs has committed (files and topics, as a read_committed \
reader sees them) must be the same records as often, and no transaction may be left without an end.

Every run writes to folders and topics of its own, which are removed if all is well; the job's own outputs, data folder and \
transactions are not touched. A Kafka source is read up to where its topics end at the start of each run: nothing should be \
written to them meanwhile. The job must give the same results whatever the order in which its inputs meet.

Exit code: 0 if every run was exact, 1 if not, 2 if the job can't be drilled.";

const NEW_HELP: &str = "\
Makes a small project that builds and passes its own tests as it stands: the source of a plugin, a test, a README of ten lines, and a \
copy of the SDK in weir-sdk/, so that it needs no checkout of Weir. It builds with the language's own tools; 'weir build' calls them.

The folder must be new or empty. Its name becomes the plugin's: lower-case words joined by hyphens.";

const NEW_EXAMPLES: &str = "\
Examples:
  weir new word-count --lang rust --kind keyed
  weir new clean-up --lang go
  weir new to-files --lang rust --kind sink";

const BUILD_HELP: &str = "\
Finds out what the project is written in, has that language's own tools build it, makes a component of what they give, and checks \
it as 'weir check' does. Prints the component's path (DIR/build/NAME.wasm), its size, what it is and what it imports.

  Cargo.toml       cargo, for wasm32-unknown-unknown
  go.mod           go 1.24 or newer
  Makefile         make with weir.mk: clang and wasm-ld, or zig
  package.json     npm install, npm run build
  pyproject.toml   a virtual environment .venv with what requirements.txt names

What is missing is told with the package to install. Exit code: 0 if the component stands, else 2.";

const BUILD_EXAMPLES: &str = "\
Examples:
  weir build word-count --release
  weir build word-count --json";

const TEST_HELP: &str = "\
Tries whether a plugin keeps the contract that exactly-once rests on. No job, no broker, no data folder is needed.

An operator gets the same records again and again: in other batches, in fresh instances that are given the stored state, with \
another clock and other random bytes. Output and state must be the same each time. Then come records at the limits of the \
contract (huge, empty, null, no UTF-8, a hundred thousand): it may refuse them, but not trap, hang, or grow.

Records are generated. An operator that understands only its own needs --input, and most often --config. Of plain lines each is \
a value; an operator with state gets ten keys in turn. If every line is a JSON object with a \"value\" and nothing that a record \
has not, each is a whole record.

A sink gets scratch folders under the names that --folder gives. It begins, writes, prepares, commits and aborts in every order, \
and dies at each call that it makes to its host. A file is seen by readers unless a name in its path begins with a dot.

Exit code: 0 if all checks hold, 1 if one failed, 2 if the plugin can't be loaded.";

const TEST_EXAMPLES: &str = "\
Examples:
  weir test word_count.wasm
  weir test carrier_stats.wasm --input flights.jsonl
  weir test window_count.wasm --config '{\"size_ms\": 60000}' --seed 7
  weir test file_sink.wasm --folder out
  weir test word_count.wasm --json > report.json";

const DRILL_EXAMPLES: &str = "\
Examples:
  weir drill job.toml
  weir drill job.toml --kills 200 --seed 42
  weir drill job.toml --json > report.json
  weir drill --list";

const SERVE_HELP: &str = "\
Runs jobs that are given to it by 'weir submit' or over HTTP (GET /openapi.json describes it), each as 'weir run' would, with a \
data folder of its own. It listens on this machine only; every request shows the token that lies in its home folder, readable \
by its owner.

Jobs that ran when it ended are resumed when it starts again. Ctrl-C (or SIGTERM) stops all of them with a final checkpoint; a \
second one stops them at once.";

const SERVE_EXAMPLES: &str = "\
Examples:
  weir serve
  weir serve --home /var/lib/weir --listen 127.0.0.1:7117
  curl -H \"Authorization: Bearer $(cat ~/.local/state/weir/token)\" http://127.0.0.1:7117/v1/jobs";

const SUBMIT_HELP: &str = "\
Gives a job file to the daemon, which starts it as 'weir run' would, and waits until it runs or is refused. The daemon reads \
the file itself, and replaces ${NAME} in it from its own environment.";

const STOP_HELP: &str = "\
Stops a job of the daemon with a final checkpoint, whose output is committed, and waits until it has ended. 'weir submit' resumes \
it.";

/// Runs dataflow jobs whose operators are WebAssembly components, with exactly-once output.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = AFTER_HELP, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct Common {
    /// Give the result as JSON on stdout.
    #[arg(long, global = true)]
    pub json: bool,
    /// Only warnings and errors on stderr, no progress.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// More on stderr; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a job in this process; resumes where it stopped.
    #[command(long_about = RUN_HELP, after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Tell everything that can be known of a job before running it.
    #[command(long_about = CHECK_HELP)]
    Check(CheckArgs),
    /// Look at and tidy the stored checkpoints of a job.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Exchange the plugin of an operator while the job runs.
    #[command(long_about = SWAP_HELP, after_help = SWAP_EXAMPLES)]
    Swap(SwapArgs),
    /// Kill a job again and again, and compare what it commits with an undisturbed run.
    #[command(long_about = DRILL_HELP, after_help = DRILL_EXAMPLES)]
    Drill(DrillArgs),
    /// Make a project for a plugin: it builds and passes its tests as it stands.
    #[command(long_about = NEW_HELP, after_help = NEW_EXAMPLES)]
    New(NewArgs),
    /// Build a plugin's project to a component, with its language's own tools.
    #[command(long_about = BUILD_HELP, after_help = BUILD_EXAMPLES)]
    Build(BuildArgs),
    /// Make a component of a core module that was built with a Weir SDK.
    Componentize(ComponentizeArgs),
    /// Try a plugin against the contract, without a job: the conformance kit.
    #[command(long_about = TEST_HELP, after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// Look at and end the transactions of a job's sinks, also when the job is gone.
    #[command(subcommand)]
    Txn(TxnCommand),
    /// Run many jobs in one process, which is asked over HTTP.
    #[command(long_about = SERVE_HELP, after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Start a job in the daemon; it resumes where it stopped.
    #[command(long_about = SUBMIT_HELP)]
    Submit(SubmitArgs),
    /// List the daemon's jobs.
    List(DaemonArgs),
    /// Tell how one of the daemon's jobs does.
    Status(NamedJobArgs),
    /// Stop one of the daemon's jobs, with a final checkpoint.
    #[command(long_about = STOP_HELP)]
    Stop(StopArgs),
    /// Forget one of the daemon's jobs that does not run. Its data folder and its output stay.
    Remove(NamedJobArgs),
    /// A command that this version does not have, or nobody knows.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// Which job.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct JobArgs {
    /// The job file (TOML).
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// The data folder [default: .weir/<job name> beside the job file].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// What 'weir drill' starts: outputs and names of its own, below this folder.
    #[arg(long, hide = true, value_name = "DIR")]
    pub drill: Option<PathBuf>,
}

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct DrillArgs {
    /// The job file (TOML).
    #[arg(value_name = "JOB", required_unless_present = "list")]
    pub job: Option<PathBuf>,
    /// How often it is killed.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub kills: u32,
    /// Draws moments and points: the same seed draws the same ones.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Where the runs and the report lie [default: .weir/<job name>-drill beside the job file].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep folders and topics also if all is well.
    #[arg(long)]
    pub keep: bool,
    /// List the named points, and do nothing.
    #[arg(long)]
    pub list: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct NewArgs {
    /// The project's folder; its name becomes the plugin's.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The language: rust, go, c, js, python.
    #[arg(long, value_name = "LANGUAGE")]
    pub lang: String,
    /// The kind of plugin: operator, keyed (an operator with state for each key), sink.
    #[arg(long, value_name = "KIND", default_value = "operator")]
    pub kind: String,
}

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct BuildArgs {
    /// The project's folder.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Optimise; in Rust it takes longer to build and runs many times as fast.
    #[arg(long)]
    pub release: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct ComponentizeArgs {
    /// The module (.wasm). A component is copied.
    #[arg(value_name = "MODULE")]
    pub module: PathBuf,
    /// The component (.wasm).
    #[arg(value_name = "COMPONENT")]
    pub component: PathBuf,
}

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct TestArgs {
    /// The component (.wasm).
    #[arg(value_name = "PLUGIN")]
    pub plugin: PathBuf,
    /// The plugin's config: a JSON document, or @ and the file that holds it [default: {}].
    #[arg(long, value_name = "JSON|@FILE")]
    pub config: Option<String>,
    /// Records for an operator, one a line: a value, or {"value": …, "key": …, "time": ms, "port": n, "headers": {…}}.
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Draws the generated records: the same seed draws the same ones.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Memory of one instance, as 'limits.memory' of a job file [default: 64MiB].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Name of a folder that the plugin is granted: an empty scratch folder. May be given several times.
    #[arg(long, value_name = "NAME", default_value = "out")]
    pub folder: Vec<String>,
}

fn size(text: &str) -> Result<u64, String> {
    units::parse_size(text).ok_or_else(|| units::SIZE_HINT.to_owned())
}

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Look at nothing outside: neither whether inputs are there nor what Kafka's brokers say.
    #[arg(long)]
    pub offline: bool,
}

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub job: JobArgs,
    #[command(flatten)]
    pub start: StartArgs,
    /// At the end, tell on stderr where the time of every thread went (with --json, in the result as well), and draw it as a
    /// flame graph: profile.svg in the data folder.
    #[arg(long)]
    pub profile: bool,
    /// Listen on a socket in the data folder, so that 'weir swap' can exchange plugins while the job runs. Only its owner may
    /// use it.
    #[arg(long)]
    pub control: bool,
}

/// Where a job starts.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct StartArgs {
    /// Start over from the beginning, with empty state. What the newest checkpoint holds is committed first. Refused where
    /// committed output would be written again.
    #[arg(long, conflicts_with = "from")]
    pub fresh: bool,
    /// Start at this checkpoint, as 'weir checkpoint list' shows it. What the newest one holds is committed first. Refused
    /// where committed output would be written again.
    #[arg(long, value_name = "ID")]
    pub from: Option<CheckpointId>,
    /// Let --fresh and --from write committed output again, and a first start write into a folder that holds output.
    #[arg(long)]
    pub allow_duplicates: bool,
    /// Let a first start use names of Kafka transactions that the brokers know from another checkout of this job, or from a data
    /// folder that is gone: what is open under them is aborted. The job begins anew: its input is read from 'start', and what
    /// the other one has committed stays, so that output topics that go on in use get those records twice.
    #[arg(long)]
    pub take_over: bool,
}

/// Checkpoints of a new build's probation, if nobody says.
pub(super) const DEFAULT_PROBATION: u32 = 3;

const SWAP_HELP: &str = "\
Exchanges the plugin of an operator while the job runs ('weir run JOB --control'), without losing or repeating a record.

The new build is read, compiled, compared with the one that runs (state, side outputs that are read, inputs) and opened once for \
every subtask, all beside the data path; what does not fit is refused, and says why. At the barrier of one checkpoint every \
subtask exchanges its instance and goes on at once. Once that checkpoint is complete the new build is on probation: if it fails, \
the job goes on with the old one from its newest checkpoint, and the new one is refused from then on (--again).

The job file stays as it is. While it names the component that it named at the swap, restarts go on with the new build, and say \
so; once it names another, that one is taken.

JOB may also be the data folder. Exit code: 0 if the new build runs, 1 if the old one does after all, 2 if it was refused.";

const SWAP_EXAMPLES: &str = "\
Examples:
  weir swap job.toml stats new/carrier_stats.wasm --dry-run
  weir swap job.toml stats new/carrier_stats.wasm
  weir swap job.toml stats new/carrier_stats.wasm --probation 10 --no-wait --json";

#[derive(Clone, Debug, ClapArgs)]
pub(super) struct SwapArgs {
    /// The job file (TOML), or the job's data folder.
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// The operator, as the job file names it.
    #[arg(value_name = "OPERATOR")]
    pub operator: String,
    /// The new component.
    #[arg(value_name = "PLUGIN")]
    pub plugin: PathBuf,
    /// Say what would happen, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Checkpoints of the probation; 0: none, and no way back.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PROBATION, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub probation: u32,
    /// Take a build that has failed on probation before.
    #[arg(long)]
    pub again: bool,
    /// Do not wait for the end of the probation.
    #[arg(long)]
    pub no_wait: bool,
    /// The data folder [default: .weir/<job name> beside the job file].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum CheckpointCommand {
    /// List the completed checkpoints, newest first.
    List(JobArgs),
    /// Show one checkpoint: sources and positions, state files, transactions.
    #[command(allow_missing_positional = true)]
    Show(ShowArgs),
    /// Check that every file that a checkpoint needs is there and whole, and that nothing else is stored.
    Fsck(JobArgs),
    /// Delete what no retained checkpoint needs. Refused while the job runs.
    Gc(JobArgs),
}

const TXN_LIST_HELP: &str = "\
Tells which transactions of the job's sinks have no end yet: from the newest checkpoint, and from the Kafka cluster. Readers \
that are read_committed wait for an open one. Nothing is changed.

JOB may also be the data folder of a job whose file is gone. Exit code 3: one that the newest checkpoint holds is lost.";

const TXN_COMMIT_HELP: &str = "\
Commits what the newest completed checkpoint holds, as the job's next start would do. For a job that will not be started any \
more; it does no harm to one that will. Refused while the job runs here; one that runs elsewhere is fenced.

JOB may also be the data folder of a job whose file is gone.";

const TXN_ABORT_HELP: &str = "\
Aborts open transactions by name, or all that no checkpoint holds, so that readers need not wait for their timeout. Refused \
while the job runs here; one that runs elsewhere is fenced.

What the newest checkpoint holds is not aborted without --lose-output: its records would not be in the output, and the job's \
next start would end with exit code 3 and name them.";

#[derive(Debug, Subcommand)]
pub(super) enum TxnCommand {
    /// List transactions without an end, whose they are, and what ends them.
    #[command(long_about = TXN_LIST_HELP)]
    List(JobArgs),
    /// Commit what the newest checkpoint holds.
    #[command(long_about = TXN_COMMIT_HELP)]
    Commit(JobArgs),
    /// Abort open transactions.
    #[command(long_about = TXN_ABORT_HELP)]
    Abort(TxnAbortArgs),
}

#[derive(Debug, ClapArgs)]
pub(super) struct TxnAbortArgs {
    /// The job file (TOML), or the job's data folder.
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// Which, as 'weir txn list' names them; or --all.
    #[arg(value_name = "ID|--all", required_unless_present = "all")]
    pub names: Vec<String>,
    /// Every one that no checkpoint holds.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Also one that the newest checkpoint holds: its records are lost.
    #[arg(long, conflicts_with = "all")]
    pub lose_output: bool,
    /// The data folder [default: .weir/<job name> beside the job file].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

impl TxnAbortArgs {
    /// Which job.
    pub fn job(&self) -> JobArgs {
        JobArgs { job: self.job.clone(), data: self.data.clone(), drill: None }
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct ShowArgs {
    /// The checkpoint, as '3-17' [default: the newest].
    #[arg(value_name = "ID")]
    pub id: Option<CheckpointId>,
    /// The job file (TOML).
    #[arg(value_name = "JOB", required = true)]
    pub job: PathBuf,
    /// The data folder [default: .weir/<job name> beside the job file].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

impl ShowArgs {
    /// Which job.
    pub fn job(&self) -> JobArgs {
        JobArgs { job: self.job.clone(), data: self.data.clone(), drill: None }
    }
}

/// Which daemon.
#[derive(Clone, Debug, ClapArgs)]
pub(super) struct DaemonArgs {
    /// The daemon's folder [default: $WEIR_HOME, else $XDG_STATE_HOME/weir, else ~/.local/state/weir].
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ServeArgs {
    /// The folder of its token and of the jobs that it was given [default: $WEIR_HOME, else $XDG_STATE_HOME/weir, else ~/.local/state/weir].
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Where it listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7117")]
    pub listen: SocketAddr,
}

#[derive(Debug, ClapArgs)]
pub(super) struct SubmitArgs {
    /// The job file (TOML).
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// The data folder [default: .weir/<job name> beside the job file].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub start: StartArgs,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct NamedJobArgs {
    /// The job's name, as 'weir list' shows it.
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct StopArgs {
    #[command(flatten)]
    pub job: NamedJobArgs,
    /// At once, without a final checkpoint.
    #[arg(long)]
    pub now: bool,
}

/// Commands that a later version will know.
pub(super) const LATER_COMMANDS: &[&str] = &["savepoint"];

/// Commands of this version.
pub(super) const COMMANDS: &[&str] = &[
    "run",
    "check",
    "checkpoint",
    "swap",
    "txn",
    "drill",
    "new",
    "build",
    "componentize",
    "test",
    "serve",
    "submit",
    "list",
    "status",
    "stop",
    "remove",
    "help",
];
