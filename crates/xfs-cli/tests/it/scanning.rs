//! Tests of `scan` through the program. The contents of rows are tested in xfs-scan.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use expect_test::expect;
use ferroxfs::OpenOptions;
use xfs_testkit::golden;

use crate::{GoldenDir, check, shared, transcript};

#[test]
fn rows_are_one_per_line() {
    let output = shared().run(&["scan", "image", "--fields", "ino,paths", "--threads", "1"]);
    let text = transcript(&output);
    assert!(output.status.success(), "{text}");
    let row = "\"ino\":72,\"paths\":[\"/short/ccc\"]";
    assert!(text.lines().any(|line| line.contains(row)), "{text}");
    let inodes = text.lines().filter(|line| line.contains("\"row\":\"inode\"")).count();
    // As many as `info` reports as used, without the two inodes of the realtime device.
    assert_eq!(inodes, 712);
}

#[test]
fn output_file_appears_when_complete() {
    let place = GoldenDir::new();
    for format in ["csv", "ndjson", "parquet", "table"] {
        let output = place.run(&["scan", "image", "-o", format, "--format", format]);
        assert!(output.status.success(), "{}", transcript(&output));
        assert!(fs::metadata(place.path().join(format)).unwrap().len() > 10_000);
    }
    let output = place.run(&["scan", "image", "-o", "small", "--memory", "1k"]);
    assert_eq!(output.status.code(), Some(2));
    let names = fs::read_dir(place.path()).unwrap().count();
    assert_eq!(names, 5, "neither the file nor its staged file exists");
}

#[test]
fn summaries_are_for_people() {
    let text = transcript(&shared().run(&["scan", "--summary", "image"]));
    assert!(text.starts_with("712 inodes"), "{text}");
}

#[test]
fn fields_are_named_when_one_is_wrong() {
    check(
        &["scan", "image", "--fields", "ino,colour"],
        &expect![[r#"
            ! ferroxfs: scan: unknown field colour; the fields are volume_uuid, volume_label, ino, generation, ag, type, mode, nlink, uid, gid, project_id, size, blocks, rt_blocks, atime, mtime, ctime, btime, extents, attr_extents, xflags, rdev, change_count, lsn, flags, flags2, owner, group, hash, symlink, xattrs, paths, parents, parent_generations
            exit 2
        "#]],
    );
}

/// Parses a CSV file and checks that each row has every column. Returns the header and the rows.
fn read_csv(bytes: &[u8]) -> (csv::StringRecord, Vec<csv::StringRecord>) {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(bytes);
    let header = reader.headers().unwrap().clone();
    (header, reader.records().collect::<Result<_, _>>().unwrap())
}

#[test]
fn csv_holds_only_inodes_and_facts_go_to_a_second_file() {
    let place = GoldenDir::new();
    let plain = place.run(&["scan", "image", "--format", "csv"]);
    assert!(plain.status.success() && plain.stderr.is_empty(), "{}", transcript(&plain));
    let (header, rows) = read_csv(&plain.stdout);
    assert_eq!(rows.len(), 712);
    assert_eq!(&header[0], "volume_uuid");
    let accounted = place.run(&["scan", "image", "--format", "csv", "--by", "owner"]);
    assert!(accounted.stdout == plain.stdout);
    let text = String::from_utf8_lossy(&accounted.stderr).into_owned();
    assert!(text.starts_with("owner ") && text.lines().count() >= 1, "{text}");
    let words =
        ["scan", "image", "--format", "csv", "--by", "owner", "-o", "rows", "--facts", "facts"];
    let kept = place.run(&words);
    assert_eq!(transcript(&kept), "");
    assert!(fs::read(place.path().join("rows")).unwrap() == plain.stdout);
    let facts = fs::read_to_string(place.path().join("facts")).unwrap();
    let kinds: Vec<String> = facts
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| row["row"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds[..2], ["scan", "volume"]);
    assert!(kinds[2..kinds.len() - 1].iter().all(|kind| kind == "account"), "{kinds:?}");
    assert_eq!(kinds.last().unwrap(), "end");
}

#[test]
fn damage_is_reported_with_csv_and_in_the_exit_code() {
    let place = GoldenDir::new();
    let volume = OpenOptions::new().open_device(Arc::new(golden())).unwrap();
    let numbers = volume.walk("/").unwrap().map(|entry| entry.unwrap().node.number());
    let last = volume.geometry().inode_location(numbers.max().unwrap()).unwrap();
    let image = File::options().write(true).open(place.path().join("image")).unwrap();
    image.write_all_at(&[0xff; 2048], last.cluster.byte_offset().unwrap()).unwrap();
    let output = place.run(&["scan", "image", "--format", "csv"]);
    assert_eq!(output.status.code(), Some(5), "{}", transcript(&output));
    let (_, rows) = read_csv(&output.stdout);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.starts_with("error: "), "{text}");
    assert!(text.contains("unreadable data is missing from the rows"), "{text}");
    let words = ["scan", "image", "--format", "csv", "-o", "rows", "--facts", "facts"];
    let output = place.run(&words);
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(read_csv(&fs::read(place.path().join("rows")).unwrap()).1.len(), rows.len());
    let facts = fs::read_to_string(place.path().join("facts")).unwrap();
    let end: serde_json::Value = serde_json::from_str(facts.lines().last().unwrap()).unwrap();
    assert_eq!(end["inodes"], rows.len());
    let errors = facts.lines().filter(|line| line.starts_with("{\"row\":\"error\"")).count();
    assert_eq!(end["errors"], errors);
    assert!(end["missing_inodes"].as_u64() > Some(0), "{end}");
}

#[test]
fn facts_file_is_refused_with_ndjson_or_in_another_directory() {
    let place = GoldenDir::new();
    let output = place.run(&["scan", "image", "--facts", "facts"]);
    assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
    fs::create_dir(place.path().join("d")).unwrap();
    let words = ["scan", "image", "--format", "csv", "-o", "rows", "--facts", "d/facts"];
    let output = place.run(&words);
    assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
}

#[test]
fn ending_without_a_format_is_refused_by_name() {
    let place = GoldenDir::new();
    let output = place.run(&["scan", "image", "-o", "rows.xlsx"]);
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the ending .xlsx stands for no format"), "{text}");
    assert!(text.contains("--format names the format"), "{text}");
    assert!(!place.path().join("rows.xlsx").exists());
    let output = place.run(&["scan", "image", "-o", "rows.xlsx", "--format", "csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", transcript(&output));
    let output = place.run(&["diff", "image", "rows.xlsx"]);
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("diff takes an image or the Parquet file of a scan"), "{text}");
}

#[test]
fn ending_of_the_output_file_chooses_the_format() {
    let place = GoldenDir::new();
    let scan = |arguments: &[&str], output: &str| {
        let all = [&["scan", "image", "-o", output], arguments].concat();
        assert_eq!(place.run(&all).status.code(), Some(0), "{all:?}");
        std::fs::read(place.path().join(output)).unwrap()
    };
    assert_eq!(scan(&[], "rows.csv"), scan(&["--format", "csv"], "other"));
    assert!(scan(&[], "rows.parquet").starts_with(b"PAR1"));
    assert!(scan(&[], "rows.ndjson").starts_with(b"{"));
    // The option decides if it is given.
    assert!(scan(&["--format", "ndjson"], "other.csv").starts_with(b"{"));
}
