use std::fs;

use jiff::civil::date;
use tempfile::TempDir;

use super::Dataset;
use crate::failure::Exit;

const A: &str = "0123abcd-0000-0000-0000-00000000000a";
const B: &str = "0123abcd-0000-0000-0000-00000000000b";

/// Makes a dataset with empty files.
fn dataset(files: &[(&str, &str, &str)]) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    for table in ["inodes", "scans"] {
        fs::create_dir(directory.path().join(table)).expect("a table");
    }
    for (table, day, volume) in files {
        let place = format!("{table}/scan_date={day}/volume_uuid={volume}");
        let place = directory.path().join(place);
        fs::create_dir_all(&place).expect("a partition");
        fs::write(place.join("part-00000.parquet"), b"no Parquet").expect("a file");
    }
    directory
}

#[test]
fn newest_date_is_the_last_with_a_complete_scan() {
    let directory = dataset(&[
        ("inodes", "2026-11-30", A),
        ("scans", "2026-11-30", A),
        ("inodes", "2026-12-01", A),
    ]);
    let set = Dataset::open(directory.path()).expect("a dataset");
    assert_eq!(set.newest().expect("a date"), date(2026, 11, 30));
    assert!(set.require(date(2026, 12, 1)).is_err());
}

#[test]
fn volume_without_a_scan_on_a_date_is_a_gap() {
    let directory = dataset(&[
        ("inodes", "2026-11-30", A),
        ("scans", "2026-11-30", A),
        ("inodes", "2026-11-30", B),
        ("scans", "2026-11-30", B),
        ("inodes", "2026-12-01", A),
        ("scans", "2026-12-01", A),
        ("inodes", "2026-12-01", B),
    ]);
    let set = Dataset::open(directory.path()).expect("a dataset");
    assert_eq!(set.gaps(date(2026, 11, 30)), Vec::<String>::new());
    let gaps = set.gaps(date(2026, 12, 1));
    assert_eq!(gaps.len(), 2, "{gaps:?}");
    assert_eq!(gaps.first().map(String::as_str), Some("1 of 2 volumes have no scan of 2026-12-01"));
}

#[test]
fn directory_without_tables_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let failure = Dataset::open(directory.path()).expect_err("no dataset");
    assert_eq!(failure.exit, Exit::Refused);
}

#[test]
fn foreign_directory_in_a_table_is_refused() {
    let directory = dataset(&[("scans", "yesterday", A)]);
    let failure = Dataset::open(directory.path()).expect_err("no date");
    assert_eq!(failure.exit, Exit::Refused);
    let directory = dataset(&[("scans", "2026-11-30", "' OR 1=1 --")]);
    let failure = Dataset::open(directory.path()).expect_err("no UUID");
    assert_eq!(failure.exit, Exit::Refused);
}

#[test]
fn file_that_is_no_parquet_is_found() {
    let directory = dataset(&[("scans", "2026-11-30", A)]);
    let set = Dataset::open(directory.path()).expect("a dataset");
    assert!(set.damaged_file().is_some());
}

#[test]
fn uuid_of_a_volume_is_found_in_capital_letters_too() {
    let directory = dataset(&[("scans", "2026-11-30", A)]);
    let set = Dataset::open(directory.path()).expect("a dataset");
    assert_eq!(set.volume(&A.to_uppercase()).expect("the volume"), A);
    assert!(set.volume(B).is_err());
    assert!(set.volume("%").is_err());
}
