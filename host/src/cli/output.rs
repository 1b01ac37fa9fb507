//! Where the command's words go: results to stdout, the rest to stderr.

use crate::graph::Problem;
use std::io::{self, Write};

/// The two streams. A reader that went away (`weir … | head`) is no error of ours: what can't be written is dropped.
pub(super) struct Output<'o> {
    stdout: &'o mut dyn Write,
    stderr: &'o mut dyn Write,
}

impl<'o> Output<'o> {
    /// Over two streams.
    pub fn new(stdout: &'o mut dyn Write, stderr: &'o mut dyn Write) -> Self {
        Output { stdout, stderr }
    }

    /// A line of the result.
    pub fn result(&mut self, line: impl AsRef<str>) {
        ignore_closed(writeln!(self.stdout, "{}", line.as_ref()));
    }

    /// A JSON document as the result.
    pub fn json(&mut self, document: &serde_json::Value) {
        self.result(format!("{document:#}"));
    }

    /// A line for people.
    pub fn say(&mut self, line: impl AsRef<str>) {
        ignore_closed(writeln!(self.stderr, "{}", line.as_ref()));
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

fn ignore_closed(written: io::Result<()>) {
    // There is nobody left to tell.
    let _ = written;
}
