//! One process has a data folder: a second one is refused, and is told by whom.

use rustix::process::Signal;
use weir_tests::flights::{FlightsCase, FlightsOptions};
use weir_tests::process::Running;

#[test]
fn a_second_process_in_one_data_folder_is_refused_by_the_holders_pid() {
    let case = FlightsCase::new(FlightsOptions { rows: 3_000, ..FlightsOptions::default() });
    let mut first = case.start(&[], &[("WEIR_STOP_AT", "committed:1")]);
    first.wait_until_stopped();
    let holder = format!("process {}", first.pid());
    case.run(&[], &[]).expect_code(2).expect_text(&[&holder]);
    let collect = ["checkpoint", "gc", "job.toml", "--data", "data"];
    Running::start(case.scratch.folder(), &collect, &[]).finish().expect_code(2).expect_text(&[&holder]);
    first.signal(Signal::CONT);
    first.finish().expect_code(0);
    case.judge().unwrap();
    case.expect_clean();
}
