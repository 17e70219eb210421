//! Small datasets, written as the scanner writes them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, ListArray, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array,
    UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::parquet::arrow::ArrowWriter;
use tempfile::TempDir;

pub(crate) const A: &str = "0123abcd-0000-0000-0000-00000000000a";
pub(crate) const B: &str = "0123abcd-0000-0000-0000-00000000000b";
pub(crate) const DAYS: [&str; 2] = ["2026-11-30", "2026-12-01"];

const DAY_NS: i64 = 86_400_000_000_000;

/// A row of `inodes`.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) ino: u64,
    pub(crate) kind: &'static str,
    pub(crate) uid: u32,
    pub(crate) size: u64,
    /// The day of ctime and mtime since 1970.
    pub(crate) day: i64,
    /// `None`: no path leads to the inode.
    pub(crate) path: Option<&'static str>,
}

pub(crate) fn file(ino: u64, size: u64, path: &'static str) -> Inode {
    Inode { ino, kind: "file", uid: 1000, size, day: 20_000, path: Some(path) }
}

pub(crate) fn directory(ino: u64, path: &'static str) -> Inode {
    Inode { kind: "directory", uid: 0, ..file(ino, 0, path) }
}

/// A dataset in a temporary directory.
pub(crate) struct Dataset {
    pub(crate) folder: TempDir,
}

impl Dataset {
    /// Makes a dataset without scans.
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        for table in ["inodes", "scans"] {
            fs::create_dir_all(folder.path().join("data").join(table)).unwrap();
        }
        Self { folder }
    }

    /// Makes a dataset of two volumes and two dates.
    pub(crate) fn small() -> Self {
        let set = Self::new();
        let mut rows = vec![
            directory(128, "/"),
            directory(131, "/home"),
            file(132, 5000, "/home/a"),
            file(133, 5000, "/home/b"),
            file(134, 10, "/c"),
            Inode { path: None, ..file(135, 100, "") },
        ];
        set.add(DAYS[0], A, &rows);
        set.add(DAYS[0], B, &[directory(128, "/"), file(129, 1 << 30, "/large <i>")]);
        rows.remove(3);
        let third = rows.get_mut(2).expect("there are three rows");
        third.size = 9000;
        third.day += 1;
        rows.push(file(136, 5000, "/home/new"));
        set.add(DAYS[1], A, &rows);
        set.add(DAYS[1], B, &[directory(128, "/"), file(129, 1 << 30, "/large <i>")]);
        set
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the file of a table for a date and volume.
    pub(crate) fn part(&self, table: &str, day: &str, volume: &str) -> PathBuf {
        let place = format!("{table}/scan_date={day}/volume_uuid={volume}/part-00000.parquet");
        self.path().join(place)
    }

    /// Adds a scan.
    pub(crate) fn add(&self, day: &str, volume: &str, rows: &[Inode]) {
        write(&self.part("inodes", day, volume), &inodes(rows));
        self.add_scan_row(day, volume, rows.len() as u64, 2);
    }

    /// Adds a scan with hashes (`scan --hash`), one for each row.
    pub(crate) fn add_hashed(&self, day: &str, volume: &str, rows: &[(Inode, Option<&str>)]) {
        let hashes = StringArray::from_iter(rows.iter().map(|(_, hash)| *hash));
        let rows: Vec<Inode> = rows.iter().map(|(row, _)| row.clone()).collect();
        let batch = inodes(&rows);
        let schema = batch.schema();
        let columns = schema.fields().iter().map(|field| field.name().clone());
        let mut columns: Vec<(String, ArrayRef)> =
            columns.zip(batch.columns().iter().cloned()).collect();
        columns.push(("hash".to_owned(), Arc::new(hashes)));
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        );
        write(&self.part("inodes", day, volume), &batch.unwrap());
        self.add_scan_row(day, volume, rows.len() as u64, 2);
    }

    /// Adds only the row about a scan.
    pub(crate) fn add_scan_row(&self, day: &str, volume: &str, inodes: u64, version: u32) {
        let number = |value: u64| Arc::new(UInt64Array::from(vec![value])) as ArrayRef;
        let columns = [
            ("volume_label", Arc::new(StringArray::from(vec!["data"])) as ArrayRef),
            ("inodes", number(inodes)),
            ("errors", number(0)),
            ("missing_inodes", number(0)),
            ("schema_version", Arc::new(UInt32Array::from(vec![version])) as ArrayRef),
        ];
        write(&self.part("scans", day, volume), &RecordBatch::try_from_iter(columns).unwrap());
    }

    /// Runs the command on this dataset.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs-query"));
        command.arg(self.path()).args(arguments).current_dir(self.folder.path());
        command.output().unwrap()
    }

    /// Runs the command, which must succeed. Returns its output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the command, which must fail with this code. Returns its message.
    pub(crate) fn fails(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        errors
    }
}

fn inodes(rows: &[Inode]) -> RecordBatch {
    let text = |value: fn(&Inode) -> &'static str| {
        Arc::new(StringArray::from_iter_values(rows.iter().map(value))) as ArrayRef
    };
    let u32s = |value: fn(&Inode) -> u32| {
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(value))) as ArrayRef
    };
    let u64s = |value: fn(&Inode) -> u64| {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(value))) as ArrayRef
    };
    let times = || {
        let times = rows.iter().map(|row| row.day * DAY_NS);
        Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC")) as ArrayRef
    };
    let paths = StringArray::from_iter_values(rows.iter().filter_map(|row| row.path));
    let lengths = rows.iter().map(|row| usize::from(row.path.is_some()));
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths(lengths), Arc::new(paths), None);
    RecordBatch::try_from_iter([
        ("ino", u64s(|row| row.ino)),
        ("generation", u32s(|_| 1)),
        ("type", text(|row| row.kind)),
        ("uid", u32s(|row| row.uid)),
        ("size", u64s(|row| row.size)),
        ("blocks", u64s(|row| row.size.div_ceil(4096) * 8)),
        ("atime", times()),
        ("mtime", times()),
        ("ctime", times()),
        ("paths", Arc::new(lists) as ArrayRef),
    ])
    .unwrap()
}

fn write(path: &Path, batch: &RecordBatch) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}
