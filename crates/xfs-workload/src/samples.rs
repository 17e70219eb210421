//! Sample reports for tests, with invented figures.

use crate::counted::Counted;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::{Measurement, Report, SCHEMA_VERSION};
use crate::variant::Variant;

/// Returns a measurement of 1,000 operations. Its time is shorter with more threads, and longer for
/// the kernel.
pub(crate) fn measurement(step: &str, variant: Variant, threads: usize) -> Measurement {
    let slowness = match variant {
        Variant::Ours => 1.0,
        Variant::Kernel => 4.0,
        _ => 1.5,
    };
    let seconds = slowness / (100.0 * threads.min(4) as f64);
    Measurement {
        section: "files".to_owned(),
        step: step.to_owned(),
        variant,
        threads,
        processors: threads.min(4),
        operations: 1000,
        worked_seconds: seconds * 0.9,
        drained_seconds: seconds,
        runs: 2,
        is_cold: true,
        digest: Some("00c0ffee00c0ffee".to_owned()),
        counted: Counted { transactions: Some(1030), ..Counted::default() },
        latency: None,
        pending: None,
        inodes_bytes: None,
    }
}

/// Returns a report with measurements of two steps by three variants.
pub(crate) fn report() -> Report {
    let mut measurements = Vec::new();
    for threads in [1, 2, 4, 64] {
        for variant in [Variant::Ours, Variant::OneList, Variant::Kernel] {
            for step in ["create", "walk"] {
                measurements.push(measurement(step, variant, threads));
            }
        }
    }
    Report {
        schema_version: SCHEMA_VERSION,
        version: "0.0.0".to_owned(),
        counts_writes: false,
        is_optimised: true,
        machine: Machine {
            kernel: "Linux 6.18".to_owned(),
            architecture: "x86_64".to_owned(),
            processor: Some("A <fast> one".to_owned()),
            processors: 4,
            memory_bytes: Some(8 << 30),
            load: Some("0.10".to_owned()),
        },
        plan: Plan { threads: vec![1, 2, 4, 64], ..Plan::usual(4) },
        kernel_volume: None,
        measurements,
        not_measured: vec![crate::NotMeasured {
            what: "bulkstat of the kernel".to_owned(),
            why: "only root may".to_owned(),
        }],
    }
}
