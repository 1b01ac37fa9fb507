//! Where the command's words go: results to stdout, the rest to stderr.

use crate::graph::Problem;
use std::io::{self, Write};

/// The two streams. A reader that went away (`weir … | head`) is no error of ours: what can't be written is dropped.
pub(super) struct Output<'o> {
    stdout: &'o mut dyn Write,
    stderr: &'o mut dyn Write,
    /// Why a part of the result is not where it was to go.
    lost: Option<io::Error>,
}

impl<'o> Output<'o> {
    /// Over two streams.
    pub fn new(stdout: &'o mut dyn Write, stderr: &'o mut dyn Write) -> Self {
        Output { stdout, stderr, lost: None }
    }

    /// A line of the result.
    pub fn result(&mut self, line: impl AsRef<str>) {
        if let Err(error) = writeln!(self.stdout, "{}", line.as_ref()).and_then(|()| self.stdout.flush())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.lost.get_or_insert(error);
        }
    }

    /// Says so if a part of the result was lost. True: it was.
    pub fn tell_lost(&mut self) -> bool {
        let Some(error) = self.lost.take() else { return false };
        self.say(format!("error: the result can't be written to stdout: {error}"));
        true
    }

    /// A JSON document as the result.
    pub fn json(&mut self, document: &serde_json::Value) {
        self.result(format!("{document:#}"));
    }

    /// A line for people.
    pub fn say(&mut self, line: impl AsRef<str>) {
        // There is nobody left to tell.
        let _ = writeln!(self.stderr, "{}", line.as_ref());
    }

    /// All problems, and how many they are.
    pub fn problems(&mut self, problems: &[Problem]) {
        for problem in problems {
            self.say(format!("error: {}: {}", problem.place, problem.what));
            if !problem.next.is_empty() {
                self.say(format!("       {}", problem.next));
            }
        }
        let count = match problems.len() {
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        self.say(format!("refused: {count}; nothing was started"));
    }
}
