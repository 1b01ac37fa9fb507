//! Disks that fill up: the run ends with a clear error, and once there is room the next one goes on, exactly.
//!
//! Small file systems are mounted for this, which only root may do; where it is not allowed the tests say so and do nothing.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weir_tests::flights::{FlightsCase, FlightsOptions};

/// A small file system of its own; unmounted when dropped.
struct Mount {
    folder: PathBuf,
}

impl Mount {
    /// Mounts one; none where that is not allowed.
    fn new(folder: PathBuf, mebibytes: u32) -> Option<Self> {
        fs::create_dir_all(&folder).expect("a mount point can be made");
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "weir-test"]).arg(&folder).status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("not tested: {} can't be mounted; run this as root", folder.display());
            return None;
        }
        Some(Mount { folder })
    }

    /// Takes all space that is left.
    fn fill(&self) -> Filler {
        let path = self.folder.join(".filler");
        let mut file = File::create(&path).expect("a filler can be made");
        for piece in [1 << 20, 4 << 10, 1] {
            loop {
                match file.write_all(&vec![b'x'; piece]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{}: {error}", path.display()),
                }
            }
        }
        Filler { path }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a process that is about to end may still hold a file there.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// What fills a disk; gone when dropped.
struct Filler {
    path: PathBuf,
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Mebibytes of a file system that a job fits into, with all that it preallocates.
const ROOM: u32 = 96;

/// What every full disk has to say.
const ADVICE: &str = "free some space";

/// A job that ends at the first checkpoint that fails.
fn impatient() -> FlightsCase {
    FlightsCase::new(FlightsOptions { checkpoint: "tolerable_failures = 0", ..FlightsOptions::default() })
}

/// Runs until `point`, fills the disk there, and expects a failure that names a path on it and the reason.
fn fill_at(case: &FlightsCase, disk: &Mount, point: &str) -> Filler {
    fill_and_fail(case, disk, point, &[]).0
}

/// The same; the last line must contain `said`, too. Gives what was written to stderr.
fn fill_and_fail(case: &FlightsCase, disk: &Mount, point: &str, said: &[&str]) -> (Filler, String) {
    let mut running = case.start(&[], &[("WEIR_STOP_AT", point)]);
    let mut filler = None;
    running.change_while_stopped(|| filler = Some(disk.fill()));
    let failed = running.finish().expect_code(1);
    let last = failed.stderr.lines().last().unwrap_or_default().to_owned();
    for text in ["failed for good", "No space left on device", &*disk.folder.to_string_lossy(), ADVICE, "run the job again"] {
        assert!(last.contains(text), "{point}: the last line does not say '{text}':\n{}", failed.stderr);
    }
    for text in said {
        assert!(last.contains(text), "{point}: the last line does not say '{text}':\n{}", failed.stderr);
    }
    assert!(!last.contains(".;") && last.matches(ADVICE).count() == 1, "{point}: not one clear sentence: {last}");
    (filler.expect("the disk was filled"), failed.stderr)
}

/// With room again the job goes on to the exact end.
fn go_on(case: &FlightsCase) {
    case.run(&[], &[]).expect_code(0);
    case.judge().unwrap();
}

/// The data folder lies on a disk that is full from `point` on.
fn full_data_folder(point: &str) {
    let case = impatient();
    let Some(disk) = Mount::new(case.scratch.path("data"), ROOM) else { return };
    drop(fill_at(&case, &disk, point));
    {
        // The failed run has tidied up behind itself. A start without a byte of room is refused as clearly.
        let _filler = disk.fill();
        case.run(&[], &[]).expect_code(2).expect_text(&["No space left on device", &disk.folder.to_string_lossy(), ADVICE]);
    }
    go_on(&case);
    case.expect_clean();
}

#[test]
fn no_room_for_state() {
    full_data_folder("snapshot-sync-done:5");
}

#[test]
fn no_room_for_a_manifest() {
    full_data_folder("all-acked:3");
}

#[test]
fn no_room_after_a_commit() {
    full_data_folder("committed:2");
}

#[test]
fn no_room_on_the_disk_of_the_storage() {
    let case = impatient();
    let Some(disk) = Mount::new(case.storage(), ROOM) else { return };
    drop(fill_at(&case, &disk, "upload-partial:5"));
    go_on(&case);
    case.expect_clean();
}

/// The storage has a disk of its own, so that state files are copied to it: the copy itself finds no room.
#[test]
fn no_room_for_an_upload() {
    let case = impatient();
    let Some(disk) = Mount::new(case.storage(), ROOM) else { return };
    let shared = disk.folder.join("shared").display().to_string();
    drop(fill_and_fail(&case, &disk, "snapshot-sync-done:5", &[&shared, ".rows"]));
    go_on(&case);
    case.expect_clean();
}

/// The log tries again for a while, says from the first try on what is wrong, and gives up before a user does.
#[test]
fn no_room_in_the_log() {
    let case = impatient();
    let Some(disk) = Mount::new(case.storage(), ROOM) else { return };
    let begun = std::time::Instant::now();
    let (filler, stderr) = fill_and_fail(&case, &disk, "all-acked:3", &["/log/"]);
    let took = begun.elapsed();
    drop(filler);
    println!("a full disk at the log was an error after {took:?}");
    let warnings = stderr.lines().filter(|line| line.contains("the job's log: ") && line.contains(ADVICE)).count();
    assert!(warnings > 1, "each failed try is to be told:\n{stderr}");
    go_on(&case);
    case.expect_clean();
}

/// A sink's folder lies on a disk that is full from `point` on.
fn full_sink(point: &str) {
    let case = impatient();
    let Some(disk) = Mount::new(case.scratch.path("out/stats"), ROOM) else { return };
    drop(fill_at(&case, &disk, point));
    go_on(&case);
    case.expect_clean();
}

#[test]
fn no_room_for_output() {
    full_sink("committed:2");
}

#[test]
fn no_room_when_output_is_prepared() {
    full_sink("barrier-injected:3");
}

#[test]
fn a_full_disk_is_borne_by_the_restart_policy() {
    let options = FlightsOptions {
        restart: "[restart]\nstrategy = \"fixed\"\ndelay = \"100ms\"\nattempts = 100",
        ..FlightsOptions::default()
    };
    let case = FlightsCase::new(options);
    let Some(disk) = Mount::new(case.scratch.path("out/stats"), ROOM) else { return };
    let mut running = case.start(&[], &[("WEIR_STOP_AT", "committed:2")]);
    let mut filler = None;
    running.change_while_stopped(|| filler = Some(disk.fill()));
    // The third generation's claim shows that two attempts have failed on the full disk.
    while claims(&case.storage().join("log")) < 3 {
        assert!(running.wait_for(Duration::from_millis(10)).is_none(), "the run has ended on the full disk");
    }
    drop(filler);
    running.finish().expect_code(0).expect_text(&["No space left on device", ADVICE]);
    case.judge().unwrap();
    case.expect_clean();
}

/// How often a job was claimed.
fn claims(log: &Path) -> usize {
    let entries = fs::read_dir(log).expect("the log can be listed");
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    texts.filter(|text| text.contains("\"kind\":\"claim\"")).count()
}

#[test]
fn a_staging_folder_on_another_disk_is_refused() {
    let case = FlightsCase::new(FlightsOptions { rate: None, rows: 500, ..FlightsOptions::default() });
    let staging = case.scratch.path("out/stats/.weir-staging");
    {
        let Some(_disk) = Mount::new(staging.clone(), 1) else { return };
        let said = ["sink stats-out", &staging.to_string_lossy(), "different file systems", "unmount it", "nothing was started"];
        case.run(&[], &[]).expect_code(2).expect_text(&said);
        assert!(
            !case.storage().join("log").exists()
                || fs::read_dir(case.storage().join("log")).is_ok_and(|mut log| log.next().is_none())
        );
    }
    go_on(&case);
    case.expect_clean();
}
