//! Making a failing history short: what is left is what the failure needs.

/// The shortest history that was found which still fails. Parts of the history are left out, half of
/// it first and single operations at last, as long as `fails` says that the rest still does; at most
/// `trials` times.
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
