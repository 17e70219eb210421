//! Rows in a few bytes each, while they wait for the paths of directories.
//!
//! Owns: packing rows and unpacking them. Does **not** own: the items of the rows.
//!
//! A row is 18 words, most of which are those of the row before. Only the other words are stored:
//!
//! ```text
//! row:  map of the stored words (8)  stored words (8 each)
//! ```
//!
//! So that more words repeat, some fields are stored as the difference to the expected value: the
//! inode number after the last one, the place after the last row's items, and the access time for
//! the other times. A row of 144 bytes becomes 20 to 60 bytes. Memory of which half is never used
//! saves more time than packing takes, because the system must clear each new page.
//!
//! # Invariants
//!
//! - **I1** Unpacking gives the rows that were packed, whatever their fields are.

use zerocopy::transmute;

use crate::row::{Moment, Row};

const ROW_WORDS: usize = size_of::<Row>() / size_of::<u64>();
/// The longest form of a row: the map and all words.
const MOST_WORDS: usize = 1 + ROW_WORDS;

type RowWords = [u64; ROW_WORDS];

/// The row before the first one, and the words that are stored for it.
#[derive(Default)]
struct LastRow {
    ino: u64,
    items_end: u32,
    words: RowWords,
}

/// Returns the packed form of the rows.
pub(crate) fn pack(rows: &[Row]) -> Vec<u64> {
    let mut packed = Vec::with_capacity(rows.len() * 6);
    let mut last = LastRow::default();
    for row in rows {
        let words = last.differences(row);
        let mut stored = [0; MOST_WORDS];
        let mut count = 1;
        let mut map = 0;
        for (index, (word, before)) in words.iter().zip(&last.words).enumerate() {
            let is_stored = word != before;
            map |= u64::from(is_stored) << index;
            // A word that repeats is overwritten by the next one.
            *stored.get_mut(count).expect("a row has no more words than its longest form") = *word;
            count += usize::from(is_stored);
        }
        let [first, ..] = &mut stored;
        *first = map;
        packed.extend_from_slice(stored.get(..count).expect("a row has its longest form at most"));
        last.step_to(row, words);
    }
    packed.shrink_to_fit();
    packed
}

/// Appends the rows of a packed form to `rows`.
///
/// # Panics
///
/// Panics if `packed` is not a form that [`pack`] has returned.
pub(crate) fn unpack(packed: &[u64], rows: &mut Vec<Row>) {
    let mut last = LastRow::default();
    let mut rest = packed.iter();
    while let Some(&map) = rest.next() {
        let mut words = last.words;
        let mut left = map;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            let place = words.get_mut(index).expect("a map has a bit for each word of a row (I1)");
            *place = *rest.next().expect("a packed row has the words of its map (I1)");
        }
        let row = last.row(words);
        last.step_to(&row, words);
        rows.push(row);
    }
}

impl LastRow {
    /// Returns the words that are stored for the row after this one.
    fn differences(&self, row: &Row) -> RowWords {
        let from_access = |time: Moment| time.wrapping_sub(row.atime);
        transmute!(Row {
            ino: row.ino.wrapping_sub(self.ino),
            mtime: from_access(row.mtime),
            ctime: from_access(row.ctime),
            btime: from_access(row.btime),
            items_start: row.items_start.wrapping_sub(self.items_end),
            ..row.clone()
        })
    }

    /// Returns the row after this one, for which `words` are stored.
    fn row(&self, words: RowWords) -> Row {
        let row: Row = transmute!(words);
        let from_access = |time: Moment| time.wrapping_add(row.atime);
        Row {
            ino: row.ino.wrapping_add(self.ino),
            mtime: from_access(row.mtime),
            ctime: from_access(row.ctime),
            btime: from_access(row.btime),
            items_start: row.items_start.wrapping_add(self.items_end),
            ..row
        }
    }

    fn step_to(&mut self, row: &Row, words: RowWords) {
        let items_end = row.items_start.wrapping_add(row.items_length);
        *self = Self { ino: row.ino, items_end, words };
    }
}

#[cfg(test)]
mod tests {
    use super::{pack, unpack};
    use crate::row::{Moment, Row};

    fn moment(nanoseconds: i64) -> Moment {
        Moment::from_nanoseconds(nanoseconds).unwrap()
    }

    fn row(ino: u64) -> Row {
        Row { ino, atime: moment(7), mtime: moment(5), items_length: 20, ..Row::default() }
    }

    fn check_round_trip(rows: &[Row]) -> usize {
        let packed = pack(rows);
        let mut unpacked = Vec::new();
        unpack(&packed, &mut unpacked);
        assert_eq!(unpacked, rows);
        packed.len()
    }

    /// Checks I1 for rows in which each word in turn has the largest and the least value.
    #[test]
    fn rows_with_any_words_are_the_same_after_unpacking() {
        let mut rows = Vec::new();
        for index in 0..super::ROW_WORDS {
            for word in [u64::MAX, 0, 1 << 63, u64::from(u32::MAX)] {
                let mut words: super::RowWords = zerocopy::transmute!(row(128));
                words[index] = word;
                rows.push(zerocopy::transmute!(words));
            }
        }
        check_round_trip(&rows);
        check_round_trip(&[]);
    }

    #[test]
    fn neighbours_that_differ_only_as_expected_take_one_word_each() {
        let rows: Vec<Row> =
            (0..1000).map(|at| Row { items_start: at * 20, ..row(128 + u64::from(at)) }).collect();
        assert!(check_round_trip(&rows) < rows.len() + 2 * super::MOST_WORDS);
    }
}
