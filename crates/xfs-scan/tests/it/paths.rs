//! Checks that parent pointers, directory blocks and a walk of the directories give the same paths.

use xfs_format::{BlockKind, DiskAddr, IncompatFeatures};
use xfs_scan::{AccountBy, Field, ScanError, ScanOptions, scan};
use xfs_testkit::{Image, golden};

use crate::support::{Scanned, options, scan_image, source};

/// Returns the golden image without the feature bit of parent pointers, so that a scan reads
/// directory blocks.
fn without_parents() -> Image {
    let mut image = golden();
    image.edit(DiskAddr(0), 512, BlockKind::Superblock, |sector| {
        let bits = sector.get_mut(216..220).unwrap();
        let value = u32::from_be_bytes(bits.try_into().unwrap());
        bits.copy_from_slice(&(value & !IncompatFeatures::PARENT.bits()).to_be_bytes());
    });
    image
}

#[track_caller]
fn check_rows(scanned: &Scanned) {
    assert_eq!(scanned.codes(), Vec::<String>::new());
    let rows = scanned.of_kind("inode").count() as u64;
    assert_eq!(scanned.report.inodes, rows);
    let end = scanned.rows.last().unwrap();
    assert_eq!((end["row"].as_str(), end["inodes"].as_u64()), (Some("end"), Some(rows)));
    for row in scanned.of_kind("inode") {
        let links = row["paths"].as_array().unwrap().len()
            + row["paths_bytes"].as_array().map_or(0, Vec::len);
        let expected = if row["type"] == "directory" { 1 } else { row["nlink"].as_u64().unwrap() };
        assert_eq!(links as u64, expected, "{row}");
    }
}

#[test]
fn every_link_has_its_path() {
    check_rows(&scan_image(&golden(), &options(2)));
    check_rows(&scan_image(&without_parents(), &options(2)));
}

#[test]
fn parent_pointers_and_directories_give_the_same_paths() {
    let by_parents = scan_image(&golden(), &options(2)).paths();
    let by_entries = scan_image(&without_parents(), &options(2)).paths();
    assert!(by_parents.len() > 600);
    assert_eq!(by_parents, by_entries);
}

#[test]
fn output_does_not_depend_on_threads_or_memory() {
    for image in [golden(), without_parents()] {
        let one = scan_image(&image, &options(1));
        let many = scan_image(&image, &options(5));
        assert_eq!(one.text, many.text);
        // Little more than the threads need, so that all waiting data is spilled.
        let memory_bytes = (24 << 20) + 60_000;
        let spilled = scan_image(&image, &ScanOptions { memory_bytes, ..options(1) });
        assert!(spilled.report.spilled_bytes > 50_000, "{}", spilled.report.spilled_bytes);
        assert_eq!(one.text, spilled.text);
    }
}

#[test]
fn insufficient_memory_is_an_error() {
    for memory_bytes in [0, 24 << 20, (24 << 20) + 100] {
        let options = ScanOptions { memory_bytes, ..options(1) };
        assert!(scan(&[source(&golden())], &options, None).is_err_and(|error| matches!(
            error,
            ScanError::MemoryTooSmall { .. } | ScanError::TablesTooLarge { .. }
        )));
    }
}

#[test]
fn cancelled_scan_has_no_last_line() {
    let cancel = Some(std::sync::Arc::new(|| true) as std::sync::Arc<_>);
    let options = ScanOptions { cancel, ..options(2) };
    let result = scan(&[source(&golden())], &options, None);
    assert!(matches!(result, Err(ScanError::Cancelled)));
}

#[test]
fn scan_without_paths_has_the_same_inodes() {
    let all = scan_image(&golden(), &options(2));
    let fields = [Field::Ino, Field::Size].into_iter().collect();
    let short = scan_image(&golden(), &ScanOptions { fields, ..options(3) });
    assert_eq!(all.report.inodes, short.report.inodes);
    let first = short.of_kind("inode").next().unwrap();
    assert_eq!(first.as_object().unwrap().len(), 3, "{first}");
}

#[test]
fn targets_and_attribute_names_appear_on_request() {
    let fields = [Field::Ino, Field::Symlink, Field::Xattrs, Field::Paths].into_iter().collect();
    let scanned = scan_image(&golden(), &ScanOptions { fields, ..options(2) });
    let row = |path: &str| {
        let found = scanned.of_kind("inode").find(|row| row["paths"][0] == path);
        found.unwrap_or_else(|| panic!("no row for {path}"))
    };
    assert_eq!(row("/links-inline")["symlink"], "target");
    assert_eq!(row("/links-remote")["symlink"].as_str().unwrap().len(), 1000);
    assert_eq!(row("/attr-short")["xattrs"][0], "user.one");
    assert_eq!(row("/attr-leaf")["xattrs"].as_array().unwrap().len(), 12);
    assert_eq!(row("/attr-node")["xattrs"].as_array().unwrap().len(), 120);
    let names = row("/acl")["xattrs"].as_array().unwrap();
    assert_eq!(names, &["system.posix_acl_access", "trusted.SGI_ACL_FILE"]);
    assert!(scanned.of_kind("inode").all(|row| row["symlink"].is_null() || row["ino"].is_u64()));
}

#[test]
fn shared_blocks_are_counted_once() {
    let accounts = vec![AccountBy::Owner, AccountBy::Directory];
    let scanned = scan_image(&golden(), &ScanOptions { accounts, ..options(2) });
    let blocks = |row: &serde_json::Value| row["blocks"].as_u64().unwrap();
    let total: u64 = scanned.of_kind("inode").map(blocks).sum();
    let owners: Vec<_> = scanned.of_kind("account").filter(|row| row["by"] == "owner").collect();
    let charged: u64 = owners.iter().map(|row| blocks(row)).sum();
    let shared: u64 = owners.iter().map(|row| row["shared_blocks"].as_u64().unwrap()).sum();
    // Two files share 40 KiB.
    assert_eq!((total - charged, shared), (80, 80));
    let root = scanned.of_kind("account").find(|row| row["paths"][0] == "/").unwrap();
    assert_eq!(blocks(root), charged);
    assert_eq!(root["inodes"].as_u64(), Some(scanned.report.inodes));
}

#[test]
fn summary_counts_every_inode() {
    let scanned = scan_image(&golden(), &ScanOptions { summary: true, ..options(2) });
    let summary = scanned.report.summary.as_ref().unwrap();
    assert_eq!(summary.total().inodes, scanned.report.inodes);
    let longest = summary.biggest_files();
    assert_eq!(longest.first().map(|big| big.path.as_slice()), Some(&b"/files/long"[..]));
    let fullest = summary.biggest_directories();
    assert_eq!(fullest.first().map(|big| big.path.as_slice()), Some(&b"/node"[..]));
    assert!(summary.to_string().contains("/files/long"));
}
