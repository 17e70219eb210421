//! Counts with their nouns in text for people.

/// Returns a count with its noun, such as `1 file` or `3 directories`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {}", noun_for(count, noun))
}

/// Returns a noun in the singular for a count of 1, and in the plural otherwise.
pub(crate) fn noun_for(count: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn noun_follows_its_count() {
        let cases = [(0, "0 files"), (1, "1 file"), (2, "2 files")];
        for (count, text) in cases {
            assert_eq!(counted(count, "file"), text);
        }
        assert_eq!(counted(1, "directory"), "1 directory");
        assert_eq!(counted(2, "directory"), "2 directories");
    }
}
