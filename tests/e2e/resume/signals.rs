//! Signals in quick succession, whichever of them are heard as two.

use super::end_exactly;
use rustix::process::Signal;
use std::time::Duration;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::process::Running;

/// Starts a job and waits until it has committed something.
fn running(case: &FlightsCase) -> Running {
    let mut running = case.start(&[], &[]);
    running.wait_until("something is committed", || !case.parts().is_empty());
    running
}

#[test]
fn two_signals_in_a_row_lose_nothing() {
    let case = FlightsCase::new(FlightsOptions { parallelism: 2, files: 6, ..FlightsOptions::default() });
    let mut running = running(&case);
    running.signal(Signal::INT);
    // Long enough to be heard as two, mostly; the outcome must be right in any case.
    running.wait_for(Duration::from_millis(5));
    running.signal(Signal::INT);
    let ended = running.finish();
    assert!(matches!(ended.code(), Some(0 | 130)), "{ended:?}");
    end_exactly(&case);
}
