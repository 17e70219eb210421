//! Tests of `scan --hash`.

use std::collections::HashMap;
use std::fs;

use ring::digest::{SHA256, digest};

use crate::changing::VolumeDir;

const HEAD_BYTES: usize = 64 << 10;

/// Returns `length` bytes that depend on `seed`.
fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(at + seed) >> 7) as u8).collect()
}

/// Returns a volume with these files.
fn volume(files: &[(&str, Vec<u8>)]) -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    for (name, contents) in files {
        fs::write(place.path(&format!("tree/{name}")), contents).unwrap();
    }
    place.check(&["import", "-q", "tree", "image"]);
    place
}

/// Returns the hash of each file by its path. Files without a hash have an empty one.
fn hashes(place: &VolumeDir, kind: &str) -> HashMap<String, String> {
    let fields = ["--fields", "type,paths,hash", "--format", "csv"];
    let text = place.check(&[&["scan", "-q", "--hash", kind, "image"][..], &fields].concat());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|it| it == name).unwrap();
    let (hash, path) = (column("hash"), column("paths"));
    let records = reader.records().map(Result::unwrap);
    records.map(|row| (row[path].to_owned(), row[hash].to_owned())).collect()
}

fn expected(kind: &str, contents: &[u8]) -> String {
    let hash = digest(&SHA256, contents);
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("{kind}:{}", digits.collect::<String>())
}

#[test]
fn head_is_hashed_of_files_whose_size_occurs_twice() {
    let long = bytes(300_000, 3);
    let mut middle = long.clone();
    middle[150_000] ^= 1;
    let mut end = long.clone();
    end[299_999] ^= 1;
    let place = volume(&[
        ("long", long.clone()),
        ("middle", middle),
        ("end", end),
        ("alone", bytes(299_999, 3)),
        ("short", b"twelve bytes".to_vec()),
        ("other", b"other twelve".to_vec()),
        ("empty", Vec::new()),
        ("void", Vec::new()),
    ]);
    let found = hashes(&place, "head");
    let ends = [&long[..HEAD_BYTES], &long[long.len() - HEAD_BYTES..]].concat();
    assert_eq!(found["/long"], expected("head", &ends));
    assert_eq!(found["/middle"], found["/long"], "the middle is not read");
    assert_ne!(found["/end"], found["/long"]);
    assert_eq!(found["/short"], expected("head", b"twelve bytes"));
    assert_eq!(found["/other"], expected("head", b"other twelve"));
    for path in ["/alone", "/empty", "/void", "/"] {
        assert_eq!(found[path], "", "{path}");
    }
}

#[test]
fn full_hash_is_that_of_sha256sum() {
    let long = bytes(700_001, 5);
    let place = volume(&[("long", long.clone()), ("short", b"x".to_vec())]);
    let sparse = fs::File::create(place.path("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    place.check(&["cp", "-q", "sparse", "image:/sparse"]);
    let found = hashes(&place, "full");
    assert_eq!(found["/long"], expected("sha256", &long));
    assert_eq!(found["/short"], expected("sha256", b"x"));
    assert_eq!(found["/sparse"], expected("sha256", &vec![0; 1 << 20]));
}

#[test]
fn hashes_do_not_depend_on_threads_or_formats() {
    let files: Vec<_> = (0..300)
        .map(|number| (format!("file-{number}"), bytes(number % 40 * 700, number)))
        .collect();
    let files: Vec<_> = files.iter().map(|(name, it)| (name.as_str(), it.clone())).collect();
    let place = volume(&files);
    let rows = |threads: &str, format: &str| {
        let options = ["--threads", threads, "--format", format, "--fields", "ino,hash"];
        place.check(&[&["scan", "-q", "--hash", "head", "image"][..], &options].concat())
    };
    assert_eq!(rows("1", "csv"), rows("4", "csv"));
    let hash_of = |line: &str| {
        let rest = line.split("head:").nth(1)?;
        rest.split(['"', ',']).next().map(str::to_owned)
    };
    let [csv, ndjson] = ["csv", "ndjson"]
        .map(|format| rows("2", format).lines().filter_map(hash_of).collect::<Vec<_>>());
    assert!(csv.len() > 200, "{} hashes", csv.len());
    assert_eq!(csv, ndjson);
}

#[test]
fn column_of_hashes_needs_the_option() {
    let place = VolumeDir::new();
    let arguments = ["scan", "image", "--fields", "ino,hash"];
    place.check_failure(&arguments, 2, "scan: the field hash needs --hash");
    let arguments = ["scan", "image", "--summary", "--hash", "head"];
    place.check_failure(&arguments, 2, "cannot be used with");
}
