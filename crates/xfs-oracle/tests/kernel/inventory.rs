//! Compares the rows of a scan with the kernel's tree: every inode once, every field, every path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferroxfs::Volume;
use serde_json::Value;
use xfs_oracle::{Differences, InodeView, Time, Tree};
use xfs_scan::{Field, Fields, Format, Header, Output, ScanOptions, ScanSource, scan};

/// A memory limit for scans, in bytes. It is so low that a scan with two threads moves rows to its
/// spill file.
const SPILLING_BYTES: u64 = 49 << 20;

pub(crate) fn check(
    volume: &Volume,
    kernel: &Tree,
    differences: &mut Differences,
) -> Result<(), String> {
    let roomy = ScanOptions::default();
    let tight = ScanOptions { threads: 2, memory_bytes: SPILLING_BYTES, ..ScanOptions::default() };
    let lines = rows(volume, roomy)?;
    if rows(volume, tight)? != lines {
        differences.add("scan: threads and memory change the rows".to_owned());
    }
    let mut seen = BTreeSet::new();
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        match row.get("row").and_then(Value::as_str) {
            Some("inode") => {
                let number = row.get("ino").and_then(Value::as_u64).unwrap_or_default();
                match kernel.nodes.get(&number) {
                    Some(node) if seen.insert(number) => check_row(number, node, &row, differences),
                    Some(_) => differences.add(format!("scan: two rows of inode {number}")),
                    None => differences.add(format!("scan: the kernel has no inode: {line}")),
                }
            }
            Some("scan" | "volume" | "end") => {}
            // Findings, and unexpected rows.
            _ => differences.add(format!("scan: {line}")),
        }
    }
    for number in kernel.nodes.keys().filter(|number| !seen.contains(number)) {
        differences.add(format!("scan: no row of inode {number}"));
    }
    Ok(())
}

/// Returns the output of a scan of the whole volume: one line of JSON for each inode, with every
/// field.
fn rows(volume: &Volume, options: ScanOptions) -> Result<String, String> {
    let fields = Field::ALL.into_iter().fold(Fields::EMPTY, Fields::with);
    let options = ScanOptions { fields, ..options };
    let source = ScanSource::new(Arc::clone(volume.cache()), volume.superblock());
    let mut bytes = Vec::new();
    let header = Header { scan_time: 0 };
    let output = Output::begin(Format::Ndjson, fields, header, Box::new(&mut bytes));
    let output = output.map_err(|error| error.to_string())?;
    scan(&[source], &options, Some(output)).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn check_row(number: u64, node: &InodeView, row: &Value, differences: &mut Differences) {
    let place = format!("scan: inode {number}");
    let mut numbers: BTreeMap<&str, u64> = BTreeMap::from([
        ("mode", node.mode.into()),
        ("nlink", node.links.into()),
        ("uid", node.uid.into()),
        ("gid", node.gid.into()),
        ("size", node.size),
        ("blocks", node.blocks),
        ("rdev", rustix::fs::makedev(node.device.0, node.device.1)),
    ]);
    if let Some(opened) = &node.opened {
        numbers.insert("project_id", opened.project_id.into());
        numbers.insert("xflags", opened.flags.bits().into());
        // For a short-form directory the kernel's number is not a count of extents. The size of
        // such a directory is hardly ever that of blocks. Its attributes may have blocks.
        if node.entries.is_empty() || (node.blocks > 0 && node.size.is_multiple_of(512)) {
            numbers.insert("extents", opened.extent_count.into());
        }
    }
    for (name, expected) in numbers {
        differences.field(&place, name, &Some(expected), &row.get(name).and_then(Value::as_u64));
    }
    let times = [
        ("atime", node.accessed),
        ("mtime", node.modified),
        ("ctime", node.changed),
        ("btime", node.born),
    ];
    for (name, time) in times {
        differences.field(&place, name, &Some(nanoseconds(time)), &integer(row.get(name)));
    }
    let target: BTreeSet<_> = node.target.iter().map(|target| escaped(target)).collect();
    differences.field(&place, "symlink", &target, &strings(row, "symlink"));
    let names: BTreeSet<_> = node.attributes.keys().map(|name| escaped(name)).collect();
    differences.field(&place, "xattrs", &names, &strings(row, "xattrs"));
    let paths: BTreeSet<_> = node.paths.iter().map(|path| format!("/{}", escaped(path))).collect();
    differences.field(&place, "paths", &paths, &strings(row, "paths"));
}

fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn nanoseconds(time: Time) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

fn integer(value: Option<&Value>) -> Option<i128> {
    let value = value?;
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

/// Returns all strings of a row: the string or list under `key`, and the strings under `key_bytes`,
/// which has those that are not UTF-8.
fn strings(row: &Value, key: &str) -> BTreeSet<String> {
    let list = |key: &str| match row.get(key) {
        None => Vec::new(),
        Some(Value::Array(list)) => list.clone(),
        Some(one) => vec![one.clone()],
    };
    let text = |value: &Value| value.as_str().map(|text| escaped(text.as_bytes()));
    let bytes = |value: &Value| STANDARD.decode(value.as_str()?).ok().map(|bytes| escaped(&bytes));
    let texts = list(key);
    let others = list(&format!("{key}_bytes"));
    texts.iter().filter_map(text).chain(others.iter().filter_map(bytes)).collect()
}
