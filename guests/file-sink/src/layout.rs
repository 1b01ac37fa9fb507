//! Names in the granted folder.

use serde::Deserialize;
use weir_sdk::prelude::*;

/// The folder grant that the job must give.
pub const GRANT: &str = "out";

/// Version of a committable's bytes; see [`Target`].
pub const VERSION: u32 = 1;

/// Where everything lies that is not committed. Readers ignore names that begin with a dot.
pub const STAGING: &str = ".weir-staging";

/// End of a marker's name.
pub const PREPARED: &str = ".prepared";

/// The sink has no settings: a key that it does not know is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {}

/// Refuses any setting.
pub fn check_config(config: &str) -> Result<(), Error> {
    let Config {} = serde_json::from_str(config).map_err(|e| Error::fatal(format!("config: {e}")))?;
    Ok(())
}

/// Where a transaction's files lie.
pub struct Staged {
    /// The folder that holds the two.
    pub folder: String,
    /// The staged file.
    pub file: String,
    /// Its marker.
    pub marker: String,
    /// Subtask of the writer.
    pub subtask: u32,
}

impl Staged {
    /// Of an identity `<lineage>.<generation>.<sink>.<subtask>.<number>`; an error if it is none.
    pub fn of(identity: &str) -> Result<Self, String> {
        let parts: Vec<&str> = identity.split('.').collect();
        let [lineage, _, sink, subtask, _] = parts[..] else {
            return Err(format!("'{identity}' is no identity: it has {} parts, not five", parts.len()));
        };
        let subtask =
            subtask.parse().map_err(|_| format!("'{identity}' is no identity: subtask '{subtask}' is not a number"))?;
        let folder = folder(lineage, sink);
        Ok(Staged {
            file: format!("{folder}/{identity}"),
            marker: format!("{folder}/{identity}{PREPARED}"),
            folder,
            subtask,
        })
    }
}

/// Where the transactions of one lineage and sink lie.
pub fn folder(lineage: &str, sink: &str) -> String {
    format!("{STAGING}/{lineage}/{sink}")
}

/// What a transaction becomes. As a committable's bytes: `<bytes> <name>`, in ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the committed file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl Target {
    /// Of what this subtask has prepared at this checkpoint.
    pub fn new(subtask: u32, checkpoint: &str, bytes: u64) -> Self {
        Target { name: format!("part-{subtask}-{checkpoint}"), bytes }
    }

    /// As a committable's bytes.
    pub fn encode(&self) -> Vec<u8> {
        format!("{} {}", self.bytes, self.name).into_bytes()
    }

    /// From a committable's bytes; none if they are no target.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (bytes, name) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
        let bytes = bytes.parse().ok().filter(|&bytes| bytes > 0)?;
        name.starts_with("part-").then(|| Target { name: name.to_owned(), bytes })
    }
}
