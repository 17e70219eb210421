use clap::ValueEnum;

use super::{BEGIN, END, Kind, PAGE, RECORDS, results, with_results};
use crate::workspace_root;

#[test]
fn page_shows_the_records() {
    let root = workspace_root();
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap();
    let written = with_results(&page, &results(&root).unwrap()).unwrap();
    assert!(page == written, "{PAGE} is out of date: run `cargo xtask conformance`");
}

#[test]
fn every_file_of_records_is_one_of_a_kind() {
    let names: Vec<_> = Kind::value_variants().iter().map(|kind| kind.records()).collect();
    for file in std::fs::read_dir(workspace_root().join(RECORDS)).unwrap() {
        let path = format!("{RECORDS}/{}", file.unwrap().file_name().display());
        assert!(names.contains(&path), "{path} belongs to no kind of runs");
    }
}

#[test]
fn results_replace_only_the_text_between_the_marks() {
    let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
    let expected = format!("before\n{BEGIN}\n\nnew\n{END}\nafter\n");
    assert_eq!(with_results(&page, "new\n").unwrap(), expected);
    assert_eq!(with_results(&expected, "new\n").unwrap(), expected);
    assert!(with_results("no marks\n", "new\n").is_err());
}
