//! Helpers that scan an image in memory, and that walk its directories to get the expected result.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use xfs_buffer::BufferCache;
use xfs_device::BlockDevice;
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_scan::{Format, Header, Output, ScanOptions, ScanReport, ScanSource, scan};
use xfs_testkit::Image;

/// The parsed output of a scan, and its report.
pub(crate) struct Scanned {
    pub(crate) report: ScanReport,
    pub(crate) text: String,
    pub(crate) rows: Vec<Value>,
}

pub(crate) fn source(image: &Image) -> ScanSource {
    let sector = image.bytes(DiskAddr(0), 512).unwrap();
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let device: Arc<dyn BlockDevice> = Arc::new(image.clone());
    let geometry = Arc::new(superblock.geometry.clone());
    ScanSource::new(Arc::new(BufferCache::new(device, geometry, 1 << 20)), &superblock)
}

pub(crate) fn scan_image(image: &Image, options: &ScanOptions) -> Scanned {
    let mut bytes = Vec::new();
    let header = Header { scan_time: 0 };
    let output =
        Output::begin(Format::Ndjson, options.fields, header, Box::new(&mut bytes)).unwrap();
    let report = scan(&[source(image)], options, Some(output)).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Scanned { report, text, rows }
}

pub(crate) fn options(threads: usize) -> ScanOptions {
    ScanOptions { threads, ..ScanOptions::default() }
}

impl Scanned {
    /// Returns the rows whose `row` key is `kind`.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.rows.iter().filter(move |row| row["row"] == kind)
    }

    /// Returns the sorted paths of each inode, by inode number. Paths that are not UTF-8 are left
    /// out.
    pub(crate) fn paths(&self) -> BTreeMap<u64, Vec<String>> {
        let mut all = BTreeMap::new();
        for row in self.of_kind("inode") {
            let paths = row["paths"].as_array().unwrap().iter();
            let mut paths: Vec<_> = paths.map(|path| path.as_str().unwrap().to_owned()).collect();
            paths.sort();
            all.insert(row["ino"].as_u64().unwrap(), paths);
        }
        all
    }

    /// Returns the codes of all findings, sorted.
    pub(crate) fn codes(&self) -> Vec<String> {
        let codes = self.of_kind("error").map(|row| row["code"].as_str().unwrap().to_owned());
        let mut codes: Vec<_> = codes.collect();
        codes.sort();
        codes
    }
}
