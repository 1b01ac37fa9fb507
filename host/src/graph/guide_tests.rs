//! The guide's claims about the job file, held against the code.

use super::{Problem, job_file};
use std::path::Path;

fn guide() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(text: &str) -> super::JobGraph {
    job_file::parse(text, Path::new("job.toml"), Path::new("/"), &|_| None)
        .unwrap_or_else(|problems| panic!("{:?}\n{text}", problems.iter().map(Problem::to_string).collect::<Vec<_>>()))
}

/// Lines of a section, up to the next heading.
fn section<'g>(guide: &'g str, heading: &str) -> Vec<&'g str> {
    let mut lines = guide.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "the guide has no heading '{heading}'");
    lines.take_while(|line| !line.starts_with('#')).collect()
}

#[test]
fn its_jobs_are_right() {
    for path in ["../docs/guide.md", "../README.md"] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("it is there");
        let blocks: Vec<&str> = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!blocks.is_empty(), "{path}");
        for block in blocks {
            assert_eq!(parse(block).sinks.len(), 2);
        }
    }
}

#[test]
fn it_gives_every_default_as_it_is() {
    let job = "[job]\nname = \"j\"\n[[source]]\nname = \"f\"\nconnector = \"file\"\npath = \"x\"\n\
               [[source]]\nname = \"s\"\nconnector = \"sequence\"\ncount = 1\n\
               [[operator]]\nname = \"o\"\nplugin = \"o.wasm\"\nfrom = [\"f\", \"s\"]\n\
               [[sink]]\nname = \"k\"\nconnector = \"file\"\npath = \"out\"\nfrom = \"o\"\n";
    let guide = guide();
    let mut checked = 0;
    for setting in parse(job).settings.iter().filter(|setting| setting.default.is_some() && !setting.value.is_empty()) {
        let heading = format!("### {}", setting.section.split(' ').next().expect("a title has a word"));
        let key = setting.key.rsplit('.').next().expect("a key has a part");
        let lines = section(&guide, &heading);
        let merged = heading == "### [[sink]]" && key == "parallelism";
        // This machine's memory decides it; the guide says what enough of it gives.
        let value = if key == "cache" { "\"1GiB\"" } else { &setting.value };
        let row = format!("| `{key}` | `{value}` |");
        assert!(merged || lines.iter().any(|line| line.starts_with(&row)), "no row '{row}…' below '{heading}'");
        checked += 1;
    }
    assert!(checked > 25, "only {checked} defaults were found");
}

#[test]
fn it_names_every_crash_point() {
    let guide = guide();
    let rows: Vec<&str> = section(&guide, "## Crash points").into_iter().filter(|line| line.starts_with("| `")).collect();
    let want: Vec<String> = crate::crash::POINTS.iter().map(|(point, place)| format!("| `{point}` | {place} |")).collect();
    assert_eq!(rows, want);
}
