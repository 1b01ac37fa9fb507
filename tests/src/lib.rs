//! What the end-to-end tests share: the real binary, real jobs in a scratch folder, and judges of committed output that know
//! nothing of Weir's code.

pub mod flights;
pub mod join;
pub mod judge;
pub mod kafka;
pub mod process;
pub mod scratch;

use std::path::{Path, PathBuf};

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository").to_owned()
}

/// A component built from `guests/`.
///
/// # Panics
/// If it was not built: `make guests` does.
pub fn guest(name: &str) -> PathBuf {
    let path = repository().join("guests/out").join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is missing: run `make guests` first, which says what it can't build", path.display());
    path
}

/// The `weir` binary of the profile that this test was built with.
///
/// # Panics
/// If it was not built: `make build` does.
pub fn weir_binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/release/deps/e2e-… → target/release/weir
    let path = test.parent().and_then(Path::parent).expect("tests lie two folders below the target folder").join("weir");
    assert!(path.exists(), "{} is missing: run `make build` first", path.display());
    path
}

/// Whether the long matrix is asked for (`make soak`).
pub fn soak() -> bool {
    std::env::var_os("WEIR_SOAK").is_some()
}

/// A small deterministic generator (SplitMix64), for seeded choices.
#[derive(Clone, Debug)]
pub struct Seeded(pub u64);

impl Seeded {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}
