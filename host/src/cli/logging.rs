//! Logs on stderr, above the live lines if there are some.

use indicatif::MultiProgress;
use std::io::{self, IsTerminal, Write};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Sets the process's logger up. `live`: the lines that logs must not tear.
///
/// A filter in WEIR_LOG goes before -q and -v; one that can't be read gives the error text. `silent`: without -v nothing is logged.
pub(super) fn init(quiet: bool, verbose: u8, silent: bool, live: &MultiProgress) -> Result<(), String> {
    let filter = match std::env::var("WEIR_LOG") {
        Ok(filter) if !filter.is_empty() => EnvFilter::try_new(&filter).map_err(|error| {
            format!("WEIR_LOG={filter} is no log filter: {error}; write WEIR_LOG=debug or WEIR_LOG=weir_host=trace")
        })?,
        _ if silent && verbose == 0 => EnvFilter::new("off"),
        _ => EnvFilter::new(default_filter(quiet, verbose)),
    };
    // A second initialisation (a test, an embedding program) keeps the first logger.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(verbose > 0)
        .with_ansi(colours())
        .with_writer(AboveLines { live: live.clone() })
        .try_init();
    Ok(())
}

fn default_filter(quiet: bool, verbose: u8) -> &'static str {
    match (quiet, verbose) {
        (true, _) => "warn",
        (false, 0) => "warn,weir_host=info,weir_plugin=info",
        (false, 1) => "info,weir_host=debug,weir_plugin=debug",
        (false, _) => "debug,weir_host=trace,weir_plugin=trace",
    }
}

/// Whether stderr takes colours.
pub(super) fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes to stderr with the live lines taken away meanwhile.
#[derive(Clone)]
struct AboveLines {
    live: MultiProgress,
}

impl Write for AboveLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A log that can't be written (its disk is full, its reader is gone) must not stop a job; the logger would panic.
        let _ = self.live.suspend(|| io::stderr().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = io::stderr().flush();
        Ok(())
    }
}

impl MakeWriter<'_> for AboveLines {
    type Writer = AboveLines;

    fn make_writer(&self) -> AboveLines {
        self.clone()
    }
}
