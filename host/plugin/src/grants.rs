//! What a job grants a plugin.

use crate::error::CallErrorKind;
use crate::folder::Folder;
use crate::http::Origins;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What one plugin may use beyond computing. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Folders by the name under which the plugin asks for them. They must exist when an instance is made.
    pub folders: BTreeMap<String, PathBuf>,
    /// Origins by the name under which the plugin asks for them.
    pub http: BTreeMap<String, HttpGrant>,
    /// Variables of the environment that it sees.
    pub env: BTreeMap<String, Hidden>,
    /// Whether clocks show the time. Else they show 1970, the same in every run.
    pub clock: bool,
    /// Whether random bytes are random. Else they are the same ones in every instance.
    pub random: bool,
}

impl Grants {
    /// Whether it may change something outside, which a second call would change again.
    pub fn reach_outside(&self) -> bool {
        !self.folders.is_empty() || !self.http.is_empty()
    }
}

/// An origin that a plugin may send requests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGrant {
    /// As `https://api.example.com` or `http://127.0.0.1:8080`.
    pub origin: String,
    /// Headers that the host adds: credentials. The plugin may not set them.
    pub headers: Vec<(String, Hidden)>,
    /// For a request and its answer.
    pub timeout: Duration,
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Hidden(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// What one instance may reach, open.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    folders: BTreeMap<String, Folder>,
    pub(crate) origins: Origins,
    pub(crate) wasi: WasiGrants,
}

/// What is granted of the world that the runtime of a language sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct WasiGrants {
    pub(crate) env: Vec<(String, Hidden)>,
    pub(crate) clock: bool,
    pub(crate) random: bool,
}

impl Reach {
    pub(crate) fn open(grants: &Grants) -> Result<Self, CallErrorKind> {
        let open = |(name, path): (&String, &PathBuf)| match Folder::open(path) {
            Ok(folder) => Ok((name.clone(), folder)),
            Err(source) => {
                let what = format!("the granted folder `{name}` ({}) can't be opened", path.display());
                Err(CallErrorKind::Environment { what, source })
            }
        };
        Ok(Reach {
            folders: grants.folders.iter().map(open).collect::<Result<_, _>>()?,
            origins: Origins::new(&grants.http),
            wasi: WasiGrants {
                env: grants.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
                clock: grants.clock,
                random: grants.random,
            },
        })
    }

    pub(crate) fn folder(&self, grant: &str) -> Result<&Folder, String> {
        self.folders.get(grant).ok_or_else(|| format!("no folder `{grant}` is granted; `grants.folders` in the job file does"))
    }
}
