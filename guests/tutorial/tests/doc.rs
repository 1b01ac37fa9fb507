//! The code in docs/write-an-operator.md is this crate's code.

#[test]
fn code_blocks_with_a_source_are_in_that_file() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let doc = std::fs::read_to_string(format!("{root}/docs/write-an-operator.md")).expect("the doc is there");
    let mut blocks = 0;
    for part in doc.split("<!-- from ").skip(1) {
        let (file, rest) = part.split_once(" -->\n```rust\n").expect("a code block follows");
        let (code, _) = rest.split_once("```\n").expect("the block ends");
        let source = std::fs::read_to_string(format!("{root}/{file}")).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(source.contains(code), "{file} does not contain this block of the doc:\n{code}");
        blocks += 1;
    }
    assert_eq!(blocks, 2);
}
