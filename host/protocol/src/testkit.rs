//! What the tests of several machines share.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A small seeded generator (SplitMix64), so that a failure can be repeated from its seed.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 … `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Runs `test`; a failure names its seed.
pub fn seeded<T>(seed: u64, test: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(test)).unwrap_or_else(|cause| panic!("seed {seed}: {}", panic_text(&*cause)))
}

/// Runs `test` with each seed; a failure names its seed.
pub fn for_seeds(seeds: std::ops::Range<u64>, test: impl Fn(u64)) {
    for seed in seeds {
        seeded(seed, || test(seed));
    }
}

/// What a panic said.
pub fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Runs a script of `event => effect, effect` lines: `step` executes the event and gives the effects as texts. A line
/// `event => panic NAME` expects an assertion that begins with this name.
pub fn run_script(script: &str, mut step: impl FnMut(&str) -> Vec<String>) -> Result<(), String> {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (event, expected) = line.split_once("=>").ok_or_else(|| format!("'{line}' has no =>"))?;
        let expected = expected.trim();
        let got = match catch_unwind(AssertUnwindSafe(|| step(event.trim()))) {
            Ok(effects) => effects.join(", "),
            Err(cause) => {
                let text = panic_text(&*cause);
                match text.split_once(':') {
                    Some((name, _)) if expected == format!("panic {name}") => return Ok(()),
                    _ => format!("panic {text}"),
                }
            }
        };
        if got != expected {
            return Err(format!("after '{}'\n  expected: {expected}\n       got: {got}", event.trim()));
        }
    }
    Ok(())
}
