//! The client's end.

use super::messages::{SwapReply, SwapWish};
use super::place::{Address, socket};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Why there is no conversation.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody is there.
    #[error("no job runs there with --control ({0})")]
    Nobody(String),
    /// It broke off.
    #[error("the job can't be heard any more: {0}")]
    Broken(io::Error),
}

/// Asks the job of a data folder for a swap; `hear` is given every reply, the last one included, and says whether to wait for
/// more.
pub fn ask(data: &Path, wish: &SwapWish, hear: &mut dyn FnMut(SwapReply) -> bool) -> Result<(), AskError> {
    let connected = Address::of_socket(data).and_then(|address| UnixStream::connect(&address.path));
    let mut stream = connected.map_err(|error| AskError::Nobody(format!("{}: {error}", socket(data).display())))?;
    let mut line = serde_json::to_vec(wish).map_err(|error| AskError::Broken(error.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(AskError::Broken)?;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(AskError::Broken)?;
        let reply: SwapReply = serde_json::from_str(&line).map_err(|error| AskError::Broken(error.into()))?;
        if !hear(reply) {
            break;
        }
    }
    Ok(())
}
