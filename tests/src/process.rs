//! Runs the real `weir` binary, with a deadline, and looks at how it ended.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// No run of a test may take longer: what hangs is killed and fails the test.
const DEADLINE: Duration = Duration::from_secs(300);

/// Time between two looks at a running process.
const LOOK: Duration = Duration::from_millis(2);

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Ended {
    /// Its exit code; none if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// True if SIGKILL ended it, as a crash point does.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    /// Asserts an exit code, showing what was written.
    pub fn expect_code(self, code: i32) -> Self {
        assert!(self.code() == Some(code), "exit {:?} instead of {code}\n{}\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// Asserts that every text stands in stderr or stdout.
    pub fn expect_text(self, texts: &[&str]) -> Self {
        for text in texts {
            let found = self.stderr.contains(text) || self.stdout.contains(text);
            assert!(found, "'{text}' is not said:\n{}\n{}", self.stdout, self.stderr);
        }
        self
    }
}

/// What the kernel tells of a process or a thread.
pub struct Stat {
    /// Its name.
    pub name: String,
    /// One letter: `T` is stopped by a signal.
    pub state: String,
    /// Ticks of CPU time outside the kernel.
    pub user_ticks: u64,
}

impl Stat {
    /// Of `/proc/PID` or `/proc/PID/task/TID`. None: it is gone.
    pub fn of(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join("stat")).ok()?;
        // The name stands in parentheses, and may hold some.
        let (head, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(Stat {
            name: head.split_once('(')?.1.to_owned(),
            state: fields.next()?.to_owned(),
            user_ticks: fields.nth(10)?.parse().ok()?,
        })
    }
}

/// A running `weir`. Killed when dropped.
pub struct Running {
    child: Child,
    readers: Vec<std::thread::JoinHandle<String>>,
    started: Instant,
    deadline: Duration,
}

impl Running {
    /// Starts `weir` with these arguments and variables, in `folder`.
    pub fn start(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(crate::weir_binary());
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in ["WEIR_CRASH_AT", "WEIR_STOP_AT", "FLIGHTS", "WEATHER", "OUT"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        let mut child = command.spawn().expect("weir can be started");
        let stdout = drain(child.stdout.take().expect("piped"));
        let stderr = drain(child.stderr.take().expect("piped"));
        Running { child, readers: vec![stdout, stderr], started: Instant::now(), deadline: DEADLINE }
    }

    /// Lets it run for so long, for a test that takes its time.
    pub fn allow(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a child that was not waited for can be signalled");
    }

    /// Waits for the end, or until `limit` has passed.
    pub fn wait_for(&mut self, limit: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return Some(status);
            }
            std::thread::park_timeout(LOOK);
        }
        None
    }

    /// Waits until the process is stopped by a signal (SIGSTOP).
    pub fn wait_until_stopped(&mut self) {
        let folder = format!("/proc/{}", self.pid());
        self.wait_until("it is stopped", || Stat::of(Path::new(&folder)).is_some_and(|stat| stat.state == "T"));
    }

    /// Waits until something has happened while it runs.
    ///
    /// # Panics
    /// If it ends before, or the deadline passes. `what`: for that message.
    pub fn wait_until(&mut self, what: &str, mut happened: impl FnMut() -> bool) {
        while !happened() {
            assert!(self.started.elapsed() < self.deadline, "{what}: not in {:?}", self.deadline);
            assert!(self.wait_for(LOOK).is_none(), "weir ended before: {what}");
        }
    }

    /// Waits until a crash point of `WEIR_STOP_AT` has stopped it, lets `change` change the world, and goes on.
    pub fn change_while_stopped(&mut self, change: impl FnOnce()) {
        self.wait_until_stopped();
        change();
        self.signal(rustix::process::Signal::CONT);
    }

    /// Waits for the end.
    pub fn finish(mut self) -> Ended {
        let status = self.wait_for(self.deadline.saturating_sub(self.started.elapsed()));
        let hung = status.is_none();
        if hung {
            let _ = self.child.kill();
        }
        let status = self.child.wait().expect("a child can be waited for");
        let mut texts = self.readers.drain(..).map(|reader| reader.join().expect("a reader does not panic"));
        let (stdout, stderr) = (texts.next().expect("two readers"), texts.next().expect("two readers"));
        assert!(!hung, "weir was still running after {:?}\n{stdout}\n{stderr}", self.deadline);
        Ended { status, stdout, stderr }
    }

    /// Kills it with SIGKILL after `delay`, unless it ends before.
    pub fn kill_after(mut self, delay: Duration) -> Ended {
        if self.wait_for(delay).is_none() {
            self.child.kill().expect("a running child can be killed");
        }
        self.finish()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // A pipe that breaks has given all that there is.
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}
