//! `info --mountable-by`: the readers that can mount a volume, and the features that prevent the
//! others.
//!
//! Owns: the form of the report. Does **not** own: the table of readers and features
//! (`xfs_mkfs::Reader`).

use std::fmt::Write as _;

use ferroxfs::raw::Superblock;
use ferroxfs::raw::format::FormatVersion;
use serde_json::Value;
use xfs_mkfs::{Access, FirstKernels, MissingFeature, Reader, ReaderVersion};

use crate::json::Object;

/// Returns the report as lines of text: a line for mainline kernels, and a line for each reader.
pub(super) fn text(superblock: &Superblock) -> String {
    let mut text = String::new();
    let mut line = |reader: &str, access: &str, rest: &str| {
        let line = format!("{reader:<14}{access:<12}{rest}");
        // Writing to a String does not fail.
        _ = writeln!(text, "{}", line.trim_end());
    };
    line("reader", "access", "missing features (known since)");
    let first = FirstKernels::of(superblock);
    let version = |version: Option<ReaderVersion>| {
        version.map_or_else(|| "no version".to_owned(), |version| version.to_string())
    };
    for reader in Reader::listed() {
        let verdict = reader.verdict(superblock);
        let missing: Vec<_> = verdict.missing.iter().map(missing_text).collect();
        line(reader.name(), access_name(verdict.access), &missing.join(", "));
    }
    let (read, write) = (version(first.read_only), version(first.read_write));
    _ = writeln!(text, "first Linux that reads the volume: {read}, that writes it: {write}");
    if superblock.geometry.version == FormatVersion::V4 {
        text.push_str("kernels mount version 4 only if built with CONFIG_XFS_SUPPORT_V4\n");
    }
    text
}

/// Returns the report as a JSON object.
pub(super) fn object(superblock: &Superblock) -> Object {
    let readers = Reader::listed().into_iter().map(|reader| {
        let verdict = reader.verdict(superblock);
        let mut object = Object::new();
        object.insert("reader".to_owned(), reader.name().into());
        object.insert("access".to_owned(), access_name(verdict.access).into());
        let missing: Vec<_> = verdict.missing.iter().map(missing_object).collect();
        object.insert("missing".to_owned(), missing.into());
        Value::from(object)
    });
    let first = FirstKernels::of(superblock);
    let version = |version: Option<ReaderVersion>| {
        version.map_or(Value::Null, |version| version.to_string().into())
    };
    let mut object = Object::new();
    object.insert("mountable_by".to_owned(), readers.collect());
    object.insert("linux_reads_since".to_owned(), version(first.read_only));
    object.insert("linux_writes_since".to_owned(), version(first.read_write));
    object
}

const fn access_name(access: Access) -> &'static str {
    match access {
        Access::None => "none",
        Access::ReadOnly => "read-only",
        Access::ReadWrite => "read-write",
    }
}

fn missing_text(feature: &MissingFeature) -> String {
    match feature.since {
        Some(version) => format!("{} ({version})", feature.name),
        None => feature.name.clone(),
    }
}

fn missing_object(feature: &MissingFeature) -> Value {
    let mut object = Object::new();
    object.insert("feature".to_owned(), feature.name.as_str().into());
    let since = feature.since.map_or(Value::Null, |version| version.to_string().into());
    object.insert("since".to_owned(), since);
    object.into()
}
