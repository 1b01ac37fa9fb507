//! What the runtime of a language finds of WASI: a world in which nothing can be reached and nothing differs from run to run.
//!
//! Clocks show 1970 and move only while the guest sleeps (which takes no time), random bytes are the same ones in every
//! instance, arguments, environment and folders are empty, standard input has ended. What is written to standard output and
//! error goes to the plugin's log. Nothing of it needs a grant. A job may grant variables, the real time and real random bytes.

use crate::clock::{self, monotonic};
use crate::grants::{Grants, WasiGrants};
use std::time::Instant;

/// What both clocks show at first. Not 0: Go's runtime takes a monotonic 0 for a broken clock.
const BEGIN_NS: u64 = 1_000_000_000;

/// Bytes of a line that has not ended, after which it is taken for one.
const MAX_LINE: usize = 8 << 10;

/// What an import of WASI gives, as `weir check` says it. None: an interface that no guest gets to link.
///
/// `name` is `wasi:package/interface@version`. These are the packages of the world `wasi:cli/imports`, which the runtimes of
/// languages carry whole: they link, and what is not served traps when it is called.
pub(crate) fn gives(name: &str) -> Option<&'static str> {
    let (interface, version) = name.strip_prefix("wasi:")?.split_once('@')?;
    if !version.starts_with("0.2.") {
        return None;
    }
    Some(match interface {
        "clocks/wall-clock" | "clocks/monotonic-clock" => "a clock that shows 1970 and moves only while the plugin sleeps",
        "random/random" | "random/insecure" | "random/insecure-seed" => "the same bytes in every instance",
        "cli/environment" => "no variables, no arguments",
        "cli/stdin" => "nothing",
        "cli/stdout" | "cli/stderr" => "the plugin's log",
        "cli/exit" => "a trap",
        "filesystem/preopens" => "no folder",
        _ => match interface.split_once('/')?.0 {
            "io" => "what the others need",
            "cli" => "no terminal",
            "filesystem" | "sockets" | "clocks" | "random" => "a trap when it is called",
            _ => return None,
        },
    })
}

/// What an interface gives instead, as the job grants it; none: as without.
pub(crate) fn granted(name: &str, grants: &Grants) -> Option<&'static str> {
    let (interface, _) = name.strip_prefix("wasi:")?.split_once('@')?;
    match interface {
        "clocks/wall-clock" | "clocks/monotonic-clock" if grants.clock => Some("the time, as granted; sleeping takes none"),
        "random/random" | "random/insecure" | "random/insecure-seed" if grants.random => Some("random bytes, as granted"),
        "cli/environment" if !grants.env.is_empty() => Some("the granted variables, no arguments"),
        _ => None,
    }
}

/// Where clocks and random bytes begin. Those of a job are the default ones; a test of a plugin changes them, to see whether its
/// output depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// How far both clocks are ahead, in nanoseconds.
    pub clock_ahead_ns: u64,
    /// Begin of the random sequence.
    pub random_seed: u64,
}

/// What the host keeps of it for one instance.
#[derive(Debug)]
pub(crate) struct Wasi {
    granted: WasiGrants,
    begun: Instant,
    /// What both clocks showed at first, less [`BEGIN_NS`].
    ahead_ns: u64,
    /// How long the guest has slept.
    slept_ns: u64,
    /// State of the random sequence.
    random: u64,
    /// When each pollable is ready, by its handle; those that are ready at once have 0. The engine bounds a guest's handles.
    pollables: Vec<Option<u64>>,
    /// Lines that have not ended.
    pub(crate) output: Lines,
    pub(crate) error: Lines,
}

impl Wasi {
    /// For a fresh instance.
    pub(crate) fn new(surroundings: Surroundings, granted: WasiGrants) -> Self {
        let Surroundings { clock_ahead_ns, random_seed } = surroundings;
        Wasi {
            granted,
            begun: monotonic(),
            ahead_ns: clock_ahead_ns,
            slept_ns: 0,
            random: random_seed,
            pollables: Vec::new(),
            output: Lines::default(),
            error: Lines::default(),
        }
    }

    /// Names and values of the granted variables.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        self.granted.env.iter().map(|(name, value)| (name.clone(), value.as_str().to_owned())).collect()
    }

    /// What the monotonic clock shows, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        let passed = if self.granted.clock { self.begun.elapsed().as_nanos() as u64 } else { 0 };
        self.slept_ns.saturating_add(self.ahead_ns).saturating_add(BEGIN_NS).saturating_add(passed)
    }

    /// What the clock on the wall shows, in nanoseconds since the Unix epoch.
    pub(crate) fn wall_ns(&self) -> u64 {
        if self.granted.clock { clock::wall_ns().saturating_add(self.slept_ns) } else { self.now_ns() }
    }

    /// Time passes until `deadline`, all at once.
    pub(crate) fn sleep_until(&mut self, deadline: u64) {
        self.slept_ns = self.slept_ns.saturating_add(deadline.saturating_sub(self.now_ns()));
    }

    /// The next eight random bytes: SplitMix64, in a job from 0, or the system's if they are granted.
    pub(crate) fn random(&mut self) -> u64 {
        if self.granted.random {
            // A system that has no random bytes left to give does not run at all.
            return getrandom::u64().expect("the system gives random bytes");
        }
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A pollable that is ready at `deadline`.
    pub(crate) fn subscribe(&mut self, deadline: u64) -> u32 {
        let free = self.pollables.iter().position(Option::is_none).unwrap_or(self.pollables.len());
        if free == self.pollables.len() {
            self.pollables.push(None);
        }
        self.pollables[free] = Some(deadline);
        free as u32
    }

    pub(crate) fn unsubscribe(&mut self, pollable: u32) {
        if let Some(slot) = self.pollables.get_mut(pollable as usize) {
            *slot = None;
        }
    }

    /// When a pollable is ready. A guest can only name its own, which exist.
    pub(crate) fn deadline(&self, pollable: u32) -> u64 {
        self.pollables.get(pollable as usize).copied().flatten().unwrap_or(0)
    }

    /// Which of these are ready, by index; sleeps until the first one is, if none.
    pub(crate) fn poll(&mut self, pollables: &[u32]) -> Vec<u32> {
        let deadlines: Vec<u64> = pollables.iter().map(|&pollable| self.deadline(pollable)).collect();
        if let Some(&first) = deadlines.iter().min() {
            self.sleep_until(first);
        }
        let now = self.now_ns();
        (0..).zip(deadlines).filter(|&(_, deadline)| deadline <= now).map(|(index, _)| index).collect()
    }
}

/// Cuts what is written into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    /// Takes more bytes; gives the lines that they end, without empty ones.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let ends = part.ends_with(b"\n");
            self.0.extend_from_slice(part.strip_suffix(b"\n").unwrap_or(part));
            if ends || self.0.len() > MAX_LINE {
                lines.extend(self.take());
            }
        }
        lines
    }

    /// The line that has not ended, if there is one.
    pub(crate) fn take(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.0);
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Wasi {
        Wasi::new(Surroundings::default(), WasiGrants::default())
    }

    #[test]
    fn time_passes_only_in_sleep() {
        let mut wasi = plain();
        assert_eq!(wasi.now_ns(), BEGIN_NS);
        let (late, early, ready) = (wasi.subscribe(BEGIN_NS + 70), wasi.subscribe(BEGIN_NS + 50), wasi.subscribe(0));
        assert_eq!(wasi.poll(&[late, ready]), [1]);
        assert_eq!(wasi.now_ns(), BEGIN_NS);
        assert_eq!(wasi.poll(&[late, early]), [1]);
        assert_eq!(wasi.now_ns(), BEGIN_NS + 50);
        wasi.unsubscribe(early);
        assert_eq!(wasi.subscribe(BEGIN_NS + 60), early, "its place is free again");
        assert_eq!(wasi.poll(&[late, early, late]), [1]);
        wasi.sleep_until(3);
        assert_eq!(wasi.now_ns(), BEGIN_NS + 60, "time does not run backwards");
    }

    #[test]
    fn other_surroundings_have_another_time_and_other_bytes() {
        let mut wasi = Wasi::new(Surroundings { clock_ahead_ns: 5, random_seed: 7 }, WasiGrants::default());
        assert_eq!(wasi.now_ns(), BEGIN_NS + 5);
        wasi.sleep_until(BEGIN_NS + 9);
        assert_eq!(wasi.now_ns(), BEGIN_NS + 9);
        assert_ne!(wasi.random(), plain().random());
    }

    #[test]
    fn random_bytes_are_the_same_in_every_instance() {
        let draw = || {
            let mut wasi = plain();
            [wasi.random(), wasi.random(), wasi.random()]
        };
        assert_eq!(draw(), draw());
        // The first values of the published SplitMix64 with seed 0.
        assert_eq!(draw()[..2], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn what_is_granted_is_real() {
        let grants =
            Grants { clock: true, random: true, env: [("TZ".to_owned(), crate::Hidden::new("UTC"))].into(), ..Grants::default() };
        let reach = crate::grants::Reach::open(&grants).expect("no folder is opened");
        let (mut one, mut other) =
            (Wasi::new(Surroundings::default(), reach.wasi.clone()), Wasi::new(Surroundings::default(), reach.wasi));
        assert_ne!([one.random(), one.random()], [other.random(), other.random()]);
        assert_eq!(one.environment(), [("TZ".to_owned(), "UTC".to_owned())]);
        let (wall, now) = (one.wall_ns(), one.now_ns());
        assert!(wall > 1_700_000_000_000_000_000, "{wall}");
        one.sleep_until(now + 5_000_000_000);
        assert!(one.wall_ns() - wall >= 5_000_000_000 - 1_000_000, "sleeping moves it on");
        assert_eq!(granted("wasi:clocks/wall-clock@0.2.0", &grants), Some("the time, as granted; sleeping takes none"));
        assert_eq!(granted("wasi:cli/exit@0.2.0", &grants), None);
        assert_eq!(granted("wasi:random/random@0.2.0", &Grants::default()), None);
    }

    #[test]
    fn lines_are_put_together_and_bounded() {
        let mut lines = Lines::default();
        assert_eq!(lines.write(b"one\n\ntw"), ["one"]);
        assert_eq!(lines.write(b"o\n"), ["two"]);
        assert_eq!(lines.take(), None);
        assert_eq!(lines.write(&[b'x'; MAX_LINE]).len(), 0);
        assert_eq!(lines.write(b"y\xff")[0].len(), MAX_LINE + 4);
    }

    #[test]
    fn only_what_runtimes_carry_links() {
        for (name, gives_word) in [
            ("wasi:clocks/wall-clock@0.2.0", Some("1970")),
            ("wasi:cli/terminal-stdin@0.2.12", Some("no terminal")),
            ("wasi:sockets/tcp@0.2.3", Some("a trap")),
            ("wasi:http/outgoing-handler@0.2.0", None),
            ("wasi:clocks/wall-clock@0.3.0", None),
            ("wasi:clocks/wall-clock", None),
            ("env", None),
        ] {
            match (gives(name), gives_word) {
                (Some(text), Some(word)) => assert!(text.contains(word), "{name}: {text}"),
                (got, wanted) => assert!(got.is_none() && wanted.is_none(), "{name}: {got:?}"),
            }
        }
    }
}
