use super::WaitGraph;
use crate::LockError;
use crate::waiter::Waiter;

#[test]
fn cycle_of_any_length_is_found_by_its_last_wait() {
    for length in 1..6 {
        let graph = WaitGraph::new();
        let waiters: Vec<_> = (0..length).map(|_| Waiter::new()).collect();
        for (process, waiter) in (0..length - 1).zip(&waiters) {
            assert_eq!(graph.enter(process, vec![99, process + 1], waiter), Ok(()));
        }
        let last = &waiters[waiters.len() - 1];
        let refused = graph.enter(length - 1, vec![0], last);
        assert_eq!(refused, Err(LockError::Deadlock), "the last wait finds the cycle (I2)");
        assert_eq!(graph.waits(), waiters.len() - 1);
        if length > 1 {
            graph.leave(&waiters[0]);
            assert_eq!(graph.enter(length - 1, vec![0], last), Ok(()), "the cycle is broken");
        }
    }
}

#[test]
fn corrected_wait_is_for_its_new_holders() {
    let graph = WaitGraph::new();
    let (first, second) = (Waiter::new(), Waiter::new());
    assert_eq!(graph.enter(1, vec![2], &first), Ok(()));
    graph.correct(&first, vec![3]);
    assert_eq!(graph.enter(2, vec![1], &second), Ok(()));
    graph.correct(&second, vec![]);
    let refused = graph.enter(3, vec![1], &second);
    assert_eq!(refused, Err(LockError::Deadlock), "an edge stands for a present wait (I1)");
}
