//! Reports, SQL, formats, outputs and exit codes.

use std::fs;
use std::process::{Command, Stdio};

use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use crate::fixture::{A, B, DAYS, Dataset, directory, file};

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn column(rows: &[Value], name: &str) -> Vec<Value> {
    rows.iter().map(|row| row[name].clone()).collect()
}

#[test]
fn usage_by_directory_counts_as_du() {
    let set = Dataset::small();
    let text = set.ok(&["-r", "usage-by-directory", "--volume", A, "--depth", "1"]);
    let rows = rows(&text);
    let all: Vec<Value> = rows
        .iter()
        .map(|row| json!([row["directory"], row["inodes"], row["used_bytes"]]))
        .collect();
    assert_eq!(
        all,
        [json!(["/", 5, 24576]), json!(["/home", 3, 20480]), json!(["(no path)", 1, 4096])],
        "{text}"
    );
}

#[test]
fn usage_by_owner_sums_all_volumes() {
    let set = Dataset::small();
    let rows = rows(&set.ok(&["--report", "usage-by-owner"]));
    assert_eq!(column(&rows, "user_id"), [1000, 0]);
    assert_eq!(column(&rows, "inodes"), [5, 3]);
    assert_eq!(rows[0]["used_bytes"], (1_u64 << 30) + 28672);
}

#[test]
fn changes_are_named_by_kind() {
    let set = Dataset::small();
    let rows = rows(&set.ok(&["--report", "changes"]));
    let cells = |row: &Value| json!([row["change"], row["inode"], row["size_change_bytes"]]);
    let all: Vec<Value> = rows.iter().map(cells).collect();
    let expected = [
        json!(["removed", 133, -5000]),
        json!(["created", 136, 5000]),
        json!(["contents", 132, 4000]),
    ];
    assert_eq!(all, expected);
    let totals = self::rows(&set.ok(&["--report", "change-totals"]));
    assert_eq!(column(&totals, "change"), ["contents", "created", "removed"]);
}

#[test]
fn growth_has_a_row_for_each_date() {
    let rows = rows(&Dataset::small().ok(&["--report", "growth"]));
    assert_eq!(column(&rows, "scan_date"), DAYS);
    assert_eq!(column(&rows, "volumes"), [2, 2]);
    assert_eq!(column(&rows, "used_bytes_change"), [0, 4096]);
}

#[test]
fn equal_sizes_are_candidates_for_duplicates() {
    let set = Dataset::small();
    let text = set.ok(&["-r", "duplicates", "--minimum", "1", "--date", DAYS[0]]);
    let rows = rows(&text);
    assert_eq!(rows.len(), 1, "{text}");
    assert_eq!(rows[0]["size_bytes"], 5000);
    assert_eq!(rows[0]["first_path"], "/home/a");
    assert_eq!(rows[0]["contents_hash"], Value::Null);
}

/// One volume was scanned with `--hash head`, which leaves out sizes that occur once, and one
/// without `--hash`.
#[test]
fn hashes_tell_duplicates_from_files_of_the_same_size() {
    let set = Dataset::new();
    let hashed = [
        (file(129, 5000, "/a"), Some("head:1")),
        (file(130, 5000, "/b"), Some("head:1")),
        (file(131, 5000, "/other"), Some("head:2")),
        (file(132, 700, "/left"), Some("head:3")),
        (file(133, 700, "/right"), Some("head:4")),
        (file(134, 60, "/single"), None),
    ];
    set.add_hashed(DAYS[0], A, &hashed);
    set.add(DAYS[0], B, &[file(129, 700, "/unknown"), file(130, 60, "/small")]);
    let text = set.ok(&["-r", "duplicates", "--minimum", "1"]);
    let cells = |row: &Value| {
        json!([row["size_bytes"], row["contents_hash"], row["files"], row["repeated_bytes"]])
    };
    let all: Vec<Value> = rows(&text).iter().map(cells).collect();
    let expected =
        [json!([5000, "head:1", 2, 5000]), json!([700, null, 1, 700]), json!([60, null, 2, 60])];
    assert_eq!(all, expected, "{text}");
}

#[test]
fn sql_reads_both_tables_with_partitions_as_columns() {
    let set = Dataset::small();
    let sql = "SELECT i.volume_uuid, count(*) AS n FROM inodes i JOIN scans s ON i.scan_date = \
               s.scan_date AND i.volume_uuid = s.volume_uuid WHERE i.scan_date = '2026-12-01' \
               GROUP BY 1 ORDER BY 1";
    let rows = rows(&set.ok(&[sql]));
    assert_eq!(column(&rows, "volume_uuid"), [A, B]);
    assert_eq!(column(&rows, "n"), [6, 2]);
    // No file has this column, and the schema has it.
    assert_eq!(set.ok(&["SELECT max(symlink) AS s FROM inodes"]), "{\"s\":null}\n");
}

#[test]
fn statement_that_writes_is_refused() {
    let set = Dataset::small();
    let target = set.folder.path().join("copy.parquet");
    let copy = format!("COPY inodes TO '{}'", target.display());
    for sql in [
        copy.as_str(),
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW inodes",
        "INSERT INTO scans SELECT * FROM scans",
        "SET datafusion.execution.batch_size = 1",
    ] {
        set.fails(&[sql], 2);
    }
    assert!(!target.exists());
}

#[test]
fn wrong_command_line_exits_with_2() {
    let set = Dataset::small();
    assert!(set.fails(&["--report", "nothing"], 2).contains("there is no report \"nothing\""));
    assert!(set.fails(&["SELECT nothing FROM inodes"], 2).contains("nothing"));
    assert!(set.fails(&["SELEC"], 2).starts_with("ferroxfs-query: "));
    let message = set.fails(&["-r", "largest", "--date", "2020-01-01"], 2);
    assert!(message.contains("the newest dates are 2026-12-01, 2026-11-30"), "{message}");
    let message = set.fails(&["-r", "growth", "--depth", "1"], 2);
    assert!(message.contains("its parameters are --since, --date, --volume"), "{message}");
    set.fails(&["-r", "changes", "--date", DAYS[0]], 2);
    set.fails(&["-r", "largest", "--volume", "' OR '1'='1"], 2);
    set.fails(&["-r", "overview", "--format", "csv"], 2);
    set.fails(&["SELECT 1", "-o", "file.unknown"], 2);
    set.fails(&["SELECT 1", "--limit", "1"], 2);
    set.fails(&["SELECT paths FROM inodes", "-f", "csv"], 2);
}

#[test]
fn too_little_memory_exits_with_2_and_names_the_option() {
    let set = Dataset::new();
    let names = ["/a", "/b"];
    let rows: Vec<_> = (0..20_000).map(|ino| file(ino, ino, names[ino as usize % 2])).collect();
    set.add(DAYS[0], A, &rows);
    let sql = "SELECT ino, count(DISTINCT size), min(paths) FROM inodes GROUP BY ino";
    let message = set.fails(&[sql, "--memory", "64k", "--threads", "1"], 2);
    assert!(message.contains("--memory"), "{message}");
    assert_eq!(set.ok(&[sql, "--memory", "256m"]).lines().count(), 20_000);
}

#[test]
fn directory_that_is_no_dataset_exits_with_3() {
    let set = Dataset::small();
    fs::remove_dir_all(set.path().join("scans")).unwrap();
    assert!(set.fails(&[], 3).contains("not a dataset"));
    let set = Dataset::new();
    assert!(set.fails(&[], 3).contains("has no scans"));
    set.add_scan_row(DAYS[0], A, 0, 3);
    assert!(set.fails(&["SELECT 1"], 3).contains("another schema than version 2"));
}

#[test]
fn damaged_file_is_named_and_exits_with_5() {
    let set = Dataset::small();
    let path = set.part("inodes", DAYS[1], B);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let message = set.fails(&["-r", "largest"], 5);
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    // The other date does not need that file.
    set.ok(&["-r", "largest", "--date", DAYS[0]]);
}

#[test]
fn volume_without_a_scan_on_the_date_is_reported() {
    let set = Dataset::small();
    fs::remove_file(set.part("scans", DAYS[1], B)).unwrap();
    let output = set.run(&["-r", "usage-by-owner"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("1 of 2 volumes have no scan of 2026-12-01"), "{errors}");
    assert!(errors.contains("1 volumes have rows of inodes"), "{errors}");
}

#[test]
fn formats_have_the_same_rows() {
    let set = Dataset::small();
    let sql = "SELECT ino, path, modified FROM inodes WHERE type = 'file' \
               AND scan_date = '2026-12-01' ORDER BY ino";
    let lines = rows(&set.ok(&[sql, "-f", "ndjson"]));
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["modified"], "2024-10-04");
    let array: Vec<Value> = serde_json::from_str(&set.ok(&[sql, "-f", "json"])).unwrap();
    assert_eq!(array, lines);
    let csv = set.ok(&[sql, "-f", "csv"]);
    assert_eq!(csv.lines().count(), 6, "{csv}");
    assert!(csv.starts_with("ino,path,modified\n129,/large <i>,"), "{csv}");
    let table = set.ok(&[sql, "-f", "table"]);
    assert!(table.starts_with("ino  path        modified\n129  /large <i>"), "{table}");
    set.ok(&[sql, "-o", "rows.parquet"]);
    let file = fs::File::open(set.folder.path().join("rows.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 5);
    let empty = "SELECT ino FROM inodes WHERE ino = 1";
    assert_eq!(set.ok(&[empty, "-f", "csv"]), "ino\n");
    assert_eq!(set.ok(&[empty, "-f", "json"]).trim(), "[]");
    assert_eq!(set.ok(&[empty, "-f", "table"]), "ino\n");
}

#[test]
fn output_is_complete_or_absent() {
    let set = Dataset::small();
    set.fails(&["SELECT ino / (ino - 128) FROM inodes", "-o", "rows.csv"], 1);
    let names = || -> Vec<_> {
        let entries = fs::read_dir(set.folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(), ["data"]);
    assert!(set.fails(&["SELECT 1", "-f", "csv", "-o", "/dev/null"], 1).contains("not a regular"));
    set.fails(&["SELECT 1", "-o", "data/inodes/rows.csv"], 1);
}

#[test]
fn closed_pipe_ends_silently() {
    let set = Dataset::new();
    let rows: Vec<_> = (0..50_000).map(|ino| file(ino, ino, "/a")).collect();
    set.add(DAYS[0], A, &rows);
    for format in ["csv", "ndjson", "json", "table"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs-query"));
        command.arg(set.path()).args(["SELECT ino, path FROM inodes", "-f", format]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), errors.as_ref()), (Some(141), ""), "{format}");
    }
}

#[test]
fn printed_sql_gives_the_rows_of_the_report() {
    let set = Dataset::small();
    for report in set_names(&set) {
        let sql = set.ok(&["--report", &report, "--print-sql"]);
        assert_eq!(set.ok(&["--", &sql]), set.ok(&["--report", &report]), "{report}");
    }
}

fn set_names(set: &Dataset) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs-query"));
    let output = command.arg("--list").current_dir(set.folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split(' ').next()).map(str::to_owned);
    let names: Vec<String> = names.filter(|name| name != "overview").collect();
    assert!(names.len() >= 8, "{text}");
    names
}

#[test]
fn setup_names_the_files_and_covers_missing_columns() {
    let set = Dataset::new();
    set.add(DAYS[0], A, &[directory(128, "/")]);
    for (engine, word) in
        [("duckdb", "read_parquet"), ("clickhouse", "file("), ("spark", "USING parquet")]
    {
        let text = set.ok(&["--setup", engine]);
        assert!(text.contains(word), "{text}");
        assert!(text.contains("AS owner") && text.contains("AS hash"), "{text}");
        assert!(!text.contains("union") && !text.contains("mergeSchema"), "{text}");
        assert!(text.contains(set.path().canonicalize().unwrap().to_str().unwrap()), "{text}");
    }
    // A file of an older date has the column.
    set.add_hashed(DAYS[0], B, &[(file(129, 1, "/a"), Some("head:1"))]);
    set.add(DAYS[1], A, &[directory(128, "/")]);
    for (engine, word) in
        [("duckdb", "union_by_name"), ("clickhouse", "'union'"), ("spark", "mergeSchema")]
    {
        let text = set.ok(&["--setup", engine]);
        assert!(text.contains(word), "{text}");
        assert!(text.contains("AS owner") && !text.contains("AS hash"), "{text}");
    }
}
