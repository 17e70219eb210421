use super::WorkerPool;
use crate::ScanError;

fn pool(threads: usize) -> WorkerPool<'static> {
    WorkerPool { threads, cancel: None }
}

#[test]
fn results_are_consumed_in_order_for_any_number_of_threads() {
    for threads in [1, 2, 7] {
        let mut seen = Vec::new();
        let run = pool(threads).run(
            500,
            || 0_usize,
            |done, unit| {
                *done += 1;
                if unit.is_multiple_of(17) {
                    std::thread::yield_now();
                }
                Ok(unit * 2)
            },
            |unit, result| {
                assert_eq!(result, unit * 2);
                seen.push(unit);
                Ok(())
            },
        );
        run.unwrap();
        assert_eq!(seen, (0..500).collect::<Vec<_>>());
    }
}

#[test]
fn empty_run_does_nothing() {
    pool(4).run(0, || (), |(), _| Ok(()), |_, ()| Ok(())).unwrap();
}

/// Checks I2 of `xfs_scan::parallel`: if the work on a unit fails, all workers stop and `run`
/// returns the error of that unit.
#[test]
fn failed_unit_ends_the_run() {
    let work = |(): &mut (), unit| {
        if unit == 40 { Err(ScanError::FormatNotBuilt("x")) } else { Ok(unit) }
    };
    let result = pool(3).run(1_000_000, || (), work, |_, _| Ok(()));
    assert!(matches!(result, Err(ScanError::FormatNotBuilt("x"))));
}

#[test]
fn failed_consumer_ends_the_run() {
    let consume = |unit, _| if unit == 9 { Err(ScanError::Cancelled) } else { Ok(()) };
    let result = pool(3).run(1_000_000, || (), |(), unit| Ok(unit), consume);
    assert!(matches!(result, Err(ScanError::Cancelled)));
}

#[test]
fn cancelled_run_returns_cancelled() {
    let pool = WorkerPool { threads: 2, cancel: Some(&|| true) };
    let result = pool.run(1_000_000, || (), |(), _| Ok(()), |_, ()| Ok(()));
    assert!(matches!(result, Err(ScanError::Cancelled)));
}
