//! Shortens a failing history to the operations that the failure needs.

/// Returns the shortest history found for which `fails` returns true. Tries to leave out parts of
/// the history, first halves and finally single operations. Calls `fails` at most `trials` times.
pub fn shrink<T: Clone>(
    history: &[T],
    trials: usize,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut kept = history.to_vec();
    let mut trials = trials;
    let mut part = kept.len() / 2;
    while part > 0 {
        let mut start = 0;
        while start < kept.len() {
            if trials == 0 {
                return kept;
            }
            trials -= 1;
            let end = (start + part).min(kept.len());
            let rest: Vec<T> =
                kept.iter().take(start).chain(kept.iter().skip(end)).cloned().collect();
            if fails(&rest) { kept = rest } else { start = end }
        }
        part /= 2;
    }
    kept
}

#[cfg(test)]
mod tests;
