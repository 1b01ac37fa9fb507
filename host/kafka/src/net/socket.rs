//! A TCP stream on which no step outlasts the deadline that is set.

use super::resolve::resolve;
use crate::clock::left_until;
use crate::settings::{Address, Family};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Shortest time that one of several addresses of a broker gets.
const SHORTEST_TRY: Duration = Duration::from_millis(200);

/// A connected stream. Reading and writing fail with [`ErrorKind::TimedOut`] once the deadline has passed.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    deadline: Instant,
}

impl Socket {
    /// Connects to the first address of the broker that answers.
    ///
    /// # Errors
    /// What went wrong with the last one, in words.
    pub(super) fn connect(address: &Address, family: Family, deadline: Instant) -> Result<Self, String> {
        let found = resolve(address, family, deadline)?;
        let mut last = String::new();
        for (i, ip) in found.iter().enumerate() {
            let Some(left) = left_until(deadline) else { break };
            // So that one address which swallows packets leaves time for the next.
            let share = (left / (found.len() - i) as u32).max(SHORTEST_TRY).min(left);
            match TcpStream::connect_timeout(ip, share) {
                Ok(stream) => {
                    // Requests are small, and each waits for its answer. Not worth failing for.
                    drop(stream.set_nodelay(true));
                    return Ok(Socket { stream, deadline });
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => last = format!("no connection to {ip} within {share:.1?}"),
                Err(error) => last = format!("no connection to {ip}: {error}"),
            }
        }
        if last.is_empty() {
            last = "no time was left to connect".to_owned();
        }
        Err(last)
    }

    /// From now on, this is the deadline.
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn left(&self) -> io::Result<Duration> {
        // The system takes no timeout below a microsecond, and reads 0 as none.
        let left = left_until(self.deadline).map(|left| left.max(Duration::from_millis(1)));
        left.ok_or_else(|| ErrorKind::TimedOut.into())
    }
}

/// Whether a step came back without having done anything.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(buffer) {
                Err(error) if is_early(&error) => {}
                done => return done,
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match self.stream.write(bytes) {
                Err(error) if is_early(&error) => {}
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
