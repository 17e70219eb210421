use super::Collected;
use crate::WorkloadError;
use crate::samples::measurement;
use crate::variant::Variant;

#[test]
fn best_run_is_kept() {
    let mut collected = Collected::default();
    for seconds in [3.0, 1.0, 2.0] {
        let mut one = measurement("create", Variant::Ours, 1);
        one.drained_seconds = seconds;
        collected.add(one).unwrap();
    }
    let [best] = &collected.measurements[..] else { panic!("one measurement") };
    assert_eq!((best.drained_seconds, best.runs), (1.0, 6));
}

/// Checks I1 of the crate: it is an error if runs of one step did different work. So figures for
/// different work are never shown together.
#[test]
fn different_work_is_a_disagreement() {
    let mut collected = Collected::default();
    collected.add(measurement("create", Variant::Ours, 1)).unwrap();
    let with = |step: &str, threads| {
        let mut other = measurement(step, Variant::Kernel, threads);
        other.digest = Some("another".to_owned());
        other
    };
    collected.add(with("walk", 1)).unwrap();
    collected.add(with("create", 2)).unwrap();
    let refused = collected.add(with("create", 1));
    assert!(matches!(refused, Err(WorkloadError::Disagreement(_))));
}

#[test]
fn note_is_kept_once() {
    let mut collected = Collected::default();
    collected.note("a", "b");
    collected.note("a", "b");
    collected.note("a", "c");
    assert_eq!(collected.not_measured.len(), 2);
}

#[test]
fn run_with_fewer_operations_is_a_disagreement() {
    let mut collected = Collected::default();
    collected.add(measurement("bulkstat", Variant::Ours, 1)).unwrap();
    let half = |variant| {
        let mut half = measurement("bulkstat", variant, 1);
        half.operations /= 2;
        half
    };
    // The kernel's volume may have more inodes.
    collected.add(half(Variant::Kernel)).unwrap();
    let refused = collected.add(half(Variant::OneList));
    assert!(matches!(refused, Err(WorkloadError::Disagreement(_))));
}
