//! Tests of the page docs/matrix.md: the tests that the page names exist, and the commands treat
//! each kind of volume as the page says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use xfs_testkit::{
    Image, RealtimeSection, golden_metadata_directory, golden_quota, golden_version_4,
};

use crate::{GoldenDir, transcript, write_image};

/// The exit codes of a command that refuses a volume.
const REFUSED: [i32; 2] = [3, 8];
/// The exit code of a salvage whose files are not all complete.
const INCOMPLETE: i32 = 5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the rows of the table whose first column has this title, with their trimmed cells. The
/// first row has the titles.
fn table(page: &str, title: &str) -> Vec<Vec<String>> {
    let start = format!("| {title} |");
    let lines = page.lines().skip_while(|line| !line.starts_with(&start));
    let rows = lines.take_while(|line| line.starts_with('|')).filter(|line| !line.contains("|-"));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

/// The cells of the page: the marks of each kind and operation.
struct Matrix(BTreeMap<(String, String), String>);

impl Matrix {
    fn read(page: &str) -> Self {
        let rows = table(page, "kind");
        let (titles, rows) = rows.split_first().expect("the page has a table of kinds");
        let mut cells = BTreeMap::new();
        for row in rows {
            assert_eq!(row.len(), titles.len(), "{row:?}");
            for (title, cell) in titles.iter().zip(row).skip(1) {
                cells.insert((row[0].clone(), title.clone()), cell.clone());
            }
        }
        Self(cells)
    }

    fn cell(&self, kind: &str, operation: &str) -> &str {
        let key = (kind.to_owned(), operation.to_owned());
        self.0.get(&key).unwrap_or_else(|| panic!("the page has no cell for {key:?}"))
    }
}

fn page() -> String {
    fs::read_to_string(root().join("docs/matrix.md")).unwrap()
}

/// Returns whether the file of a module has the test with this name. The name consists of crate,
/// test binary, modules and function or trial, as in `xfs-cli::it::matrix::named_tests_exist`.
fn has_test(name: &str) -> bool {
    let parts: Vec<&str> = name.split("::").collect();
    let [package, modules @ .., test] = parts.as_slice() else { return false };
    let file = root().join("crates").join(package).join("tests").join(modules.join("/"));
    let Ok(source) = fs::read_to_string(file.with_extension("rs")) else { return false };
    [format!("fn {test}("), format!("\"{test}\""), format!("\"{test}::")]
        .iter()
        .any(|text| source.contains(text))
}

#[test]
fn named_tests_exist() {
    let page = page();
    let rows = table(&page, "mark");
    assert!(rows.len() > 10, "{rows:?}");
    for row in &rows[1..] {
        let name = row[1].trim_matches('`');
        assert!(has_test(name), "{}: there is no test {name}", row[0]);
    }
    assert!(!has_test("xfs-cli::it::matrix::no_such_test"));
    let marks: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
    let matrix = Matrix::read(&page);
    assert_eq!(matrix.0.len(), 100);
    for ((kind, operation), cell) in &matrix.0 {
        for mark in cell.split(", ").filter(|mark| !["refused", "part"].contains(mark)) {
            assert!(marks.contains(&mark), "{kind}, {operation}: no test has the mark {mark:?}");
        }
    }
}

/// A golden volume: its kind in the page, and the path, length and first byte of one of its files.
struct Golden {
    kind: &'static str,
    data: Image,
    device: Option<Image>,
    file: (&'static str, u64, u8),
}

fn golden_volumes() -> Vec<Golden> {
    let realtime = |kind, section: RealtimeSection| Golden {
        kind,
        data: section.data(),
        device: section.device(),
        file: ("/rt/fragments", (39 * 64 + 4) << 10, b'e'),
    };
    let plain = |kind, data, file| Golden { kind, data, device: None, file };
    vec![
        plain("version 4, folded names", golden_version_4(), ("/SHORT/S1", 7, b'1')),
        plain("version 4, blocks of 512 bytes", golden_version_4(), ("/short/s1", 7, b'1')),
        plain("quota", golden_quota(), ("/d/new", 70 << 10, 0)),
        plain("metadata directory", golden_metadata_directory(), ("/d/shared", 40 << 10, b'a')),
        realtime("classic realtime", RealtimeSection::Classic),
        realtime("realtime groups", RealtimeSection::Groups),
        realtime("zoned, internal", RealtimeSection::Zoned),
    ]
}

impl Golden {
    /// Writes the volume into a new directory, as `image` and `device`.
    fn place(&self) -> GoldenDir {
        let place = GoldenDir::with(&self.data);
        if let Some(device) = &self.device {
            write_image(device, &place.path().join("device"));
        }
        place
    }

    /// Returns the arguments of a command that reads the volume.
    fn reading<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        let (command, rest) = arguments.split_first().expect("a command has a name");
        let device: &[&str] = if self.device.is_some() { &["--rt-device", "device"] } else { &[] };
        [&[*command], device, rest].concat()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Checks that a scan has a row for each inode that `find` shows, and that `cp` copies a file.
fn check_reading(golden: &Golden) {
    let place = golden.place();
    let found = place.run(&golden.reading(&["find", "image:/", "-printf", "%i\\n"]));
    let mut numbers = lines(&found);
    numbers.sort();
    numbers.dedup();
    let scanned = place.run(&golden.reading(&["scan", "image"]));
    let rows = lines(&scanned).iter().filter(|line| line.contains("\"row\":\"inode\"")).count();
    assert_eq!(rows, numbers.len(), "{}: {}", golden.kind, transcript(&scanned));
    let (path, length, first) = golden.file;
    let source = format!("image:{path}");
    let copied = place.run(&golden.reading(&["cp", &source, "copy"]));
    assert_eq!(code(&copied), 0, "{}: {}", golden.kind, transcript(&copied));
    let copy = fs::read(place.path().join("copy")).unwrap();
    assert_eq!((copy.len() as u64, copy[0]), (length, first), "{}", golden.kind);
}

/// Checks that commands that write or check a golden volume succeed, or refuse it as the page says.
#[test]
fn golden_volumes_are_used_as_documented() {
    let matrix = Matrix::read(&page());
    for golden in golden_volumes() {
        check_reading(&golden);
        let commands: [(&str, &[&str]); 5] = [
            ("check", &["check", "image"]),
            ("repair", &["repair", "--plan", "image"]),
            ("salvage", &["salvage", "--ignore-owner", "image", "salvaged"]),
            ("recover", &["recover", "image"]),
            ("write", &["touch", "image:/new"]),
        ];
        let place = golden.place();
        let image = place.path().join("image");
        for (operation, arguments) in commands {
            let cell = matrix.cell(golden.kind, operation);
            let before = fs::read(&image).unwrap();
            let output = place.run(&golden.reading(arguments));
            let about = format!("{}, {operation}: {}", golden.kind, transcript(&output));
            match cell.split(", ").next() {
                Some("refused") => {
                    assert!(REFUSED.contains(&code(&output)), "{about}");
                    assert!(before == fs::read(&image).unwrap(), "{about}");
                }
                Some("part") => assert_eq!(code(&output), INCOMPLETE, "{about}"),
                _ => assert_eq!(code(&output), 0, "{about}"),
            }
        }
    }
}

/// Checks that `mkfs` makes or refuses an empty volume of each kind as the page says.
#[test]
fn kinds_are_made_as_documented() {
    let matrix = Matrix::read(&page());
    let kinds: [(&str, &[&str]); 10] = [
        ("version 5", &[]),
        ("version 4", &["-m", "crc=0"]),
        ("version 4, folded names", &["-m", "crc=0", "-n", "version=ci"]),
        ("version 4, blocks of 512 bytes", &["-m", "crc=0", "-b", "size=512"]),
        ("quota", &["-m", "metadir=1,uquota,gquota,pquota"]),
        ("classic realtime", &["-m", "metadir=0", "-r", "rtdev=device"]),
        ("realtime groups", &["-m", "metadir=1", "-r", "rtdev=device"]),
        ("metadata directory", &["-m", "metadir=1"]),
        ("zoned, own device", &["-r", "zoned=1,rgsize=16m,rtdev=device"]),
        ("zoned, internal", &["-r", "zoned=1,rgsize=16m"]),
    ];
    let place = tempfile::tempdir().unwrap();
    let place = GoldenDir::in_directory(place, &RealtimeSection::Zoned.data());
    for (kind, options) in kinds {
        let device = fs::File::create(place.path().join("device")).unwrap();
        device.set_len(300 << 20).unwrap();
        if kind == "zoned, internal" {
            // The zones follow the data in a file that is there already.
            let new = fs::File::create(place.path().join("new")).unwrap();
            new.set_len(620 << 20).unwrap();
        }
        let arguments = [&["mkfs", "-q", "-d", "size=320m"], options, &["new"]].concat();
        let output = place.run(&arguments);
        let about = format!("{kind}: {}", transcript(&output));
        let is_refused = matrix.cell(kind, "mkfs").starts_with("refused");
        assert_eq!(code(&output) != 0, is_refused, "{about}");
        assert_eq!(place.path().join("new").exists(), !is_refused, "{about}");
        drop(fs::remove_file(place.path().join("new")));
    }
}
