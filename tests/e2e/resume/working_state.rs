//! Working state is nothing that a resume needs.

use super::{crashed, end_exactly};
use weir_tests::flights::FlightsOptions;
use weir_tests::scratch::files_below;

#[test]
fn deleting_the_working_state_loses_nothing() {
    let case = crashed(FlightsOptions { parallelism: 2, files: 3, ..FlightsOptions::default() }, "committed:2");
    let state = case.scratch.path("data/state");
    assert!(!files_below(&state).is_empty(), "a killed run leaves working state, else this test deletes nothing");
    std::fs::remove_dir_all(&state).unwrap();
    end_exactly(&case);
}

#[test]
fn foreign_working_state_is_not_taken_for_ones_own() {
    let case = crashed(FlightsOptions { parallelism: 2, files: 3, ..FlightsOptions::default() }, "committed:2");
    for file in files_below(&case.scratch.path("data/state")) {
        // As another file: what lies there may be a second name of a stored one, whose bytes nobody may touch.
        std::fs::remove_file(case.scratch.path(&format!("data/state/{file}"))).unwrap();
        case.scratch.write(&format!("data/state/{file}"), "this is not what was there");
    }
    end_exactly(&case);
}
