//! Ranges of IDs in the words of a plan.

/// The greatest number of ranges that a text names.
const MOST_RANGES: usize = 8;

/// Returns ranges of IDs in words, such as `0 to 29 and 60`. The ranges are in order; adjacent ones
/// are joined. Further ranges are counted.
pub(super) fn ranges(ranges: impl Iterator<Item = (u32, u32)>) -> String {
    let mut joined: Vec<(u32, u32)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
            _ => joined.push((first, last)),
        }
    }
    let more = joined.len().saturating_sub(MOST_RANGES);
    joined.truncate(MOST_RANGES);
    let mut words: Vec<String> = joined
        .into_iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        })
        .collect();
    if more > 0 {
        words.push(format!("{more} more ranges"));
    }
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
