//! Tests that run small plans of workloads from beginning to end. No test depends on speed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use xfs_workload::{Plan, Report, Variant, Watcher, Workload, WorkloadError, run, text};

/// A watcher that ends the run when this number of parts have begun.
struct Until(usize);

impl Watcher for Until {
    fn begin(&mut self, _what: &str) {
        self.0 -= 1;
    }

    fn is_over(&self) -> bool {
        self.0 == 0
    }
}

const FILES: u64 = 30;

/// The log size of the volumes in these tests in bytes: the least that mkfs accepts for them.
const LOG_BYTES: u64 = 64 << 20;

/// Returns all workloads except `fsync`, which needs many files to fill the log's list of commits
/// and has a test of its own.
fn all_but_fsync() -> Vec<Workload> {
    Workload::ALL.into_iter().filter(|workload| *workload != Workload::Fsync).collect()
}

fn small(workloads: &[Workload]) -> Plan {
    Plan {
        workloads: workloads.to_vec(),
        threads: vec![1, 3],
        files: FILES,
        runs: 1,
        inodes: 100,
        log_bytes: LOG_BYTES,
        ..Plan::usual(4)
    }
}

fn report_of(plan: &Plan) -> Report {
    run(plan, &mut Until(usize::MAX)).unwrap()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn workload_gives_figures() {
    for workload in all_but_fsync() {
        let report = report_of(&small(&[workload]));
        assert!(!report.measurements.is_empty(), "{}", workload.name());
        for one in &report.measurements {
            assert!(one.operations > 0, "{one:?}");
            assert!(one.worked_seconds <= one.drained_seconds, "{one:?}");
        }
        for threads in [1, 3] {
            let has = |variant| {
                report
                    .measurements
                    .iter()
                    .any(|one| one.threads == threads && one.variant == variant)
            };
            assert!(has(Variant::Ours), "{} with {threads} threads", workload.name());
        }
    }
}

#[test]
fn file_step_starts_with_cold_caches() {
    let report = report_of(&small(&[Workload::Walk, Workload::Stream, Workload::Pressure]));
    assert!(report.measurements.iter().all(|one| one.is_cold));
}

/// Checks that a run with one volume per thread ends without an error. The run itself compares the
/// resulting files with those of the other variants.
#[test]
fn volume_per_thread_does_the_same_work() {
    let workloads = [Workload::Create, Workload::Bulkstat];
    let plan = Plan { before: false, threads: vec![1, 2], ..small(&workloads) };
    let report = report_of(&plan);
    let find = |step, variant, threads| report.find("files", step, variant, threads);
    assert!(find("create", Variant::Apart, 1).is_none());
    if report.machine.processors < 2 {
        assert!(find("create", Variant::Apart, 2).is_none());
        return;
    }
    let operations = |step, variant| find(step, variant, 2).unwrap().operations;
    assert_eq!(operations("create", Variant::Apart), operations("create", Variant::Ours));
    // Inodes other than the files and their directory.
    let of_a_volume = find("bulkstat", Variant::Ours, 1).unwrap().operations - FILES - 1;
    let of_one = operations("bulkstat", Variant::Ours);
    assert_eq!(operations("bulkstat", Variant::Apart), of_one + of_a_volume);
    assert!(text(&report, false).contains("a volume for each thread: 2 vs 1"));
}

/// Checks that a listing through the inode cache brings each inode into memory and evicts it, and
/// that a listing that bypasses the cache brings no inode into memory.
#[test]
fn bulkstat_evicts_the_inodes_that_it_brings_in() {
    let report = report_of(&small(&[Workload::Stream]));
    for one in &report.measurements {
        let (came, went) = (one.counted.inodes_in.unwrap(), one.counted.inodes_out.unwrap());
        assert_eq!(came, went, "{one:?}");
        assert_eq!(came, if one.step == "bulkstat" { one.operations } else { 0 }, "{one:?}");
    }
}

/// Checks that a listing with stat data brings no inode into the inode cache, and that a listing
/// that looks each file up brings in all inodes.
#[test]
fn walk_through_memory_brings_each_inode_in() {
    let report = report_of(&small(&[Workload::Walk]));
    for threads in [1, 3] {
        let came = |step| {
            let one = report.find("files", step, Variant::Ours, threads).unwrap();
            (one.counted.inodes_in.unwrap(), one.operations)
        };
        let ((listed, _), (brought_in, files)) = (came("walk"), came("walk through memory"));
        // The root, and one directory per thread.
        let directories = 1 + threads as u64;
        assert_eq!((listed, brought_in), (directories, files + directories));
    }
}

#[test]
fn little_memory_evicts_inodes() {
    let plan = Plan { files: 2000, threads: vec![1], ..small(&[Workload::Pressure]) };
    let report = report_of(&plan);
    let went = |step| {
        let one = report.find("pressure", step, Variant::Ours, 1).unwrap();
        one.counted.inodes_out.unwrap()
    };
    assert_eq!(went("visit, room for all"), 0);
    assert!(went("visit, room for a tenth") > 1000);
}

/// Checks that the measurement of fsync fills the log's list of commits to nine tenths of its limit
/// (an eighth of the log), and that no part of the list is written before the fsync.
#[test]
fn full_list_is_nearly_full() {
    let report = report_of(&small(&[Workload::Fsync]));
    assert_eq!(report.steps("fsync"), ["list empty", "some in the list", "list nearly full"]);
    let limit = LOG_BYTES as f64 / 8.0;
    for variant in [Variant::Ours, Variant::OneSlot] {
        let pending = |step| report.find("fsync", step, variant, 1).unwrap().pending.unwrap();
        let share = |step| pending(step).list_bytes.unwrap() as f64 / limit;
        assert!(share("list empty") < 0.001);
        assert!(
            (0.85..0.95).contains(&share("list nearly full")),
            "{:?}",
            pending("list nearly full")
        );
        let (some, full) = (pending("some in the list"), pending("list nearly full"));
        assert_eq!((pending("list empty").changes, some.changes), (0, 5000));
        assert!(full.changes > 2 * some.changes, "{full:?}");
    }
    let median = |step| {
        let one = report.find("fsync", step, Variant::Ours, 1).unwrap();
        one.latency.unwrap().median_seconds
    };
    assert!(median("list nearly full") > median("list empty"));
}

/// Checks that the report shows fewer transactions for direct updates of parent pointers than for
/// intents.
#[test]
fn parents_by_intents_take_one_more_transaction() {
    let report = report_of(&small(&[Workload::Fsmark]));
    let each = |variant| {
        let one = report.find("fsmark", "create", variant, 1).unwrap();
        one.counted.transactions.unwrap() / one.operations
    };
    assert_eq!(each(Variant::NoParents), each(Variant::Ours));
    assert_eq!(each(Variant::Intents), each(Variant::Ours) + 1);
}

#[test]
fn plan_without_before_reverts_no_decision() {
    let report = report_of(&Plan { before: false, ..small(&all_but_fsync()) });
    assert!(report.measurements.iter().all(|one| !one.variant.is_before()));
    assert!(report.not_measured.iter().any(|note| note.what.contains("reverted")));
}

#[test]
fn files_are_distributed_over_subdirectories() {
    let plan = Plan { directories: 7, ..small(&[Workload::Create, Workload::Unlink]) };
    let (flat, deep) = (report_of(&small(&[Workload::Create])), report_of(&plan));
    let digest = |report: &Report| {
        report.find("files", "create", Variant::Ours, 1).and_then(|one| one.digest.clone()).unwrap()
    };
    assert_ne!(digest(&flat), digest(&deep));
}

/// Checks I4 of the crate: after a run, its folder is empty.
#[test]
fn run_leaves_nothing_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan { folder: Some(folder.path().to_owned()), ..small(&[Workload::Create]) };
    report_of(&plan);
    assert!(is_empty(folder.path()));
}

#[test]
fn cancelled_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan { folder: Some(folder.path().to_owned()), ..small(&Workload::ALL) };
    assert!(matches!(run(&plan, &mut Until(2)), Err(WorkloadError::Interrupted)));
    assert!(is_empty(folder.path()));
}

/// Checks that a directory on a filesystem other than XFS is refused as the directory for
/// measurements of the kernel.
#[test]
fn directory_of_another_filesystem_is_refused() {
    let plan = Plan { kernel: Some("/proc".into()), ..small(&[Workload::Create]) };
    let refused = run(&plan, &mut Until(usize::MAX));
    assert!(matches!(refused, Err(WorkloadError::Unavailable { .. })));
}

#[test]
fn report_round_trips_through_json() {
    let report = report_of(&small(&[Workload::Create, Workload::Bulkstat]));
    let json = serde_json::to_string(&report).unwrap();
    assert!(json.contains(r#""schema_version":1"#));
    let back: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(text(&back, true), text(&report, true));
}
