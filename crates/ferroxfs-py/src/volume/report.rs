//! The report of a check, as values that Python makes its classes of.

use std::time::Duration;

use ferroxfs::check::{CheckOptions, Finding, Report};

use crate::errors::Failure;

/// A finding: code, severity, place, found, expected, path, meaning; then group, block, inode and
/// byte of its place.
pub(super) type FindingTuple = (
    (String, String, String, String, String, Option<Vec<u8>>, String),
    (Option<u32>, Option<u32>, Option<u64>, Option<u64>),
);

/// A report: findings, unchecked parts, the coverage (groups, inodes, directories, bytes), whether
/// it is clean and complete, dropped findings, seconds.
pub(super) type ReportTuple =
    (Vec<FindingTuple>, Vec<String>, (u32, u64, u64, u64), (bool, bool), u64, f64);

pub(super) fn check(volume: &ferroxfs::Volume) -> Result<ReportTuple, Failure> {
    let report = volume.check(CheckOptions::default(), &()).map_err(Failure::Check)?;
    Ok(tuple_of(&report))
}

fn tuple_of(report: &Report) -> ReportTuple {
    let it = report.coverage;
    (
        report.findings.iter().chain(&report.consequences).map(finding_of).collect(),
        report.unchecked.iter().map(|part| part.what.clone()).collect(),
        (it.groups, it.inodes, it.directories, it.bytes),
        (report.is_clean(), report.is_complete()),
        report.dropped,
        Duration::as_secs_f64(&report.elapsed),
    )
}

fn finding_of(finding: &Finding) -> FindingTuple {
    let place = &finding.place;
    (
        (
            finding.code.to_string(),
            finding.severity().name().to_owned(),
            place.to_string(),
            finding.found.clone(),
            finding.expected.clone(),
            finding.path.clone(),
            finding.code.meaning().to_owned(),
        ),
        (
            place.group.map(|group| group.0),
            place.block.map(|block| block.0),
            place.inode.map(|inode| inode.0),
            place.byte_offset(),
        ),
    )
}
