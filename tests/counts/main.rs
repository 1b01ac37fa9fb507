//! What the hot path does, counted and not timed: instructions, allocations, host calls, bytes. A count is the same on a busy
//! machine, so that a limit on it fails for what was changed and for nothing else.
//!
//! Instructions are counted by Valgrind's callgrind in a process of its own: this binary again, once with some batches and once
//! with three times as many; what starts and ends it falls out of the difference.

mod work;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;
use weir_host::state::{LocalSnapshot, SnapshotFile};
use work::{BATCH, Boundary, Exchange, Keyed, ROW_BYTES, State, StateAlone, Work};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what a thread asks for.
struct Counting;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a thread for each batch, once its memory has grown to its size.
fn allocations(mut work: impl Work) -> f64 {
    const BATCHES: u64 = 200;
    work.run(BATCHES);
    let before = ALLOCATIONS.get();
    work.run(BATCHES);
    (ALLOCATIONS.get() - before) as f64 / BATCHES as f64
}

/// Fails if a count has grown, and if it has shrunk so much that its limit guards nothing.
fn within(what: &str, count: f64, limit: f64) {
    println!("{what}: {count:.1}, limit {limit}");
    assert!(count <= limit, "{what}: {count:.1} is above its limit, {limit}: find out why, or raise the limit and say why");
    assert!(count >= limit * 0.8, "{what}: {count:.1} is far below its limit, {limit}: lower it, so that it guards what was won");
}

#[test]
fn allocations_of_a_batch() {
    within("allocations of a batch, boundary", allocations(Boundary::open()), 4.0);
    within("allocations of a batch, keyed count", allocations(Keyed::open(50_000)), 10.0);
    within("allocations of a batch, state alone", allocations(StateAlone::open(50_000)), 0.0);
    within("allocations of a batch, exchange", allocations(Exchange::open(50_000)), 9.0);
}

#[test]
fn no_call_asks_the_host_for_state_that_is_declared() {
    let mut keyed = Keyed::open(50_000);
    keyed.run(100);
    let times = keyed.times();
    assert_eq!((times.calls, times.host_calls), (100, 0));
}

/// Bytes of files that a checkpoint has to store.
fn new_bytes(files: &[SnapshotFile]) -> u64 {
    files.iter().filter(|file| !file.stored).map(|file| file.bytes).sum()
}

#[test]
fn a_checkpoint_stores_little_more_than_what_changed() {
    const KEYS: u64 = 500_000;
    let mut state = State::open(KEYS);
    state.snapshot();
    for changed in [KEYS / 100, KEYS / 10, KEYS] {
        state.count_first(changed);
        let LocalSnapshot { base, deltas, .. } = state.snapshot();
        assert_eq!(new_bytes(&base), 0, "{changed} keys are no reason for a new base");
        let ratio = new_bytes(&deltas) as f64 / (changed * ROW_BYTES) as f64;
        println!("bytes of a checkpoint over bytes changed, {changed} of {KEYS} keys: {ratio:.2}");
        assert!(ratio <= 1.3, "{changed} of {KEYS} keys: {ratio:.2} times what changed");
        assert!(ratio >= 0.3, "{changed} of {KEYS} keys: {ratio:.2} times what changed: are all of them stored?");
    }
}

/// Names the work of the counted process.
const WORK: &str = "WEIR_COUNT_WORK";
const BATCHES: &str = "WEIR_COUNT_BATCHES";

#[test]
fn instructions_of_a_record() {
    within("instructions of a record, boundary", instructions("boundary"), 330.0);
    within("instructions of a record, keyed count", instructions("keyed"), 920.0);
    within("instructions of a record, state alone", instructions("state"), 545.0);
    within("instructions of a record, exchange", instructions("exchange"), 240.0);
}

/// The counted process; by itself it has nothing to do.
#[test]
fn counted() {
    let (Ok(work), Ok(batches)) = (std::env::var(WORK), std::env::var(BATCHES)) else { return };
    let batches = batches.parse().expect("a number of batches");
    match work.as_str() {
        "boundary" => Boundary::open().run(batches),
        "keyed" => Keyed::open(20_000).run(batches),
        "state" => StateAlone::open(20_000).run(batches),
        "exchange" => Exchange::open(20_000).run(batches),
        other => panic!("there is no work called {other}"),
    }
}

fn instructions(work: &str) -> f64 {
    const FEW: u64 = 20;
    const MANY: u64 = 60;
    // The first one to open a plugin compiles it: for the processor that Valgrind shows, so that no run outside of it helps.
    counted_run(work, 1);
    let (few, many) = (counted_run(work, FEW), counted_run(work, MANY));
    (many - few) as f64 / ((MANY - FEW) * BATCH as u64) as f64
}

/// Instructions of a whole process.
fn counted_run(work: &str, batches: u64) -> u64 {
    let own = std::env::current_exe().expect("a test knows its own path");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(own).args([
        "--exact",
        "counted",
        "--test-threads=1",
    ]);
    valgrind.env(WORK, work).env(BATCHES, batches.to_string());
    let output = valgrind.output().expect("valgrind can be run: `scripts/setup.sh` installs it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    collected.unwrap_or_else(|| panic!("callgrind says what it has counted: {said}"))
}
