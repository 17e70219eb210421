//! Checks how often the operations of each step write memory that all threads share, in a build
//! that counts such writes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Mutex, PoisonError};

use xfs_workload::{Measurement, Plan, Report, Variant, Watcher, Workload, run, text};

/// The number of operations for each of which one write of volume-wide memory is permitted on
/// average.
const BUDGET: u64 = 64;

/// Number of files per thread. It is so large that the fixed cost per volume does not matter, and
/// so small that the files do not fill the log.
const FILES: u64 = 10_000;
const LOG_BYTES: u64 = 256 << 20;

/// A watcher that never ends a run.
struct ToTheEnd;

impl Watcher for ToTheEnd {
    fn begin(&mut self, _what: &str) {}

    fn is_over(&self) -> bool {
        false
    }
}

fn small(workloads: &[Workload]) -> Plan {
    Plan {
        workloads: workloads.to_vec(),
        threads: vec![1, 3],
        files: 30,
        runs: 1,
        inodes: 100,
        log_bytes: 64 << 20,
        ..Plan::usual(4)
    }
}

/// Runs a plan. The counters in its report are those of the whole process, so only one run is
/// active at a time.
fn report_of(plan: &Plan) -> Report {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    run(plan, &mut ToTheEnd).unwrap()
}

#[test]
fn every_operation_counts_writes() {
    let report = report_of(&small(&[Workload::Create, Workload::Open, Workload::Commit]));
    for one in &report.measurements {
        let shared = one.counted.shared.as_ref().unwrap();
        assert!(shared.slot.total() + shared.object.total() > 0, "{one:?}");
        assert_eq!(shared.volume.total(), shared.volume_places.values().sum::<u64>(), "{one:?}");
    }
    assert!(text(&report, true).contains("atomic writes and locks per operation"));
}

fn many(workloads: &[Workload]) -> Report {
    report_of(&Plan { files: FILES, log_bytes: LOG_BYTES, before: false, ..small(workloads) })
}

fn check_within_budget(one: &Measurement) {
    let shared = one.counted.shared.as_ref().unwrap();
    let Measurement { section, step, threads, operations, .. } = one;
    let most = operations / BUDGET;
    let (written, places) = (shared.volume.total(), &shared.volume_places);
    assert!(
        written <= most,
        "{section}, {step}, {threads} threads: {written} of {most}, {places:#?}"
    );
}

fn check_steps(report: &Report, section: &str, steps: &[&str]) {
    for threads in [1, 3] {
        for step in steps {
            let one = report.find(section, step, Variant::Ours, threads);
            check_within_budget(one.unwrap_or_else(|| panic!("no {step} of {section}")));
        }
    }
}

#[test]
fn file_steps_write_shared_memory_once_in_64_operations() {
    let report = many(&[
        Workload::Create,
        Workload::Walk,
        Workload::Chmod,
        Workload::Bulkstat,
        Workload::Unlink,
    ]);
    let steps = [
        "create",
        "walk",
        "walk through memory",
        "chmod",
        "bulkstat past memory",
        "bulkstat",
        "unlink",
    ];
    check_steps(&report, "files", &steps);
}

#[test]
fn small_directories_write_shared_memory_once_in_64_operations() {
    check_steps(&many(&[Workload::Fsmark]), "fsmark", &["create", "unlink"]);
}

#[test]
fn open_writes_no_shared_memory() {
    // Writes of a log thread that goes to sleep meanwhile, once or twice.
    const BESIDE: u64 = 4;
    let report = report_of(&small(&[Workload::Open]));
    assert!(!report.measurements.is_empty());
    for one in &report.measurements {
        let shared = one.counted.shared.as_ref().unwrap();
        assert!(one.operations >= 100 * BESIDE, "{one:?}");
        assert!(shared.volume.total() <= BESIDE, "{one:?}");
    }
}
