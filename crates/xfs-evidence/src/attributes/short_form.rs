//! Records of a damaged attribute fork in short form.
//!
//! Owns: the division of the form into records. A record has the lengths of its name and of its
//! value, so a wrong length hides where all later records begin. Does **not** own: the meaning of
//! flags, names and values ([`namespace`](super::namespace)).
//!
//! The header states the number of records and the end of the last one. Together with the records
//! these are three statements, and one damaged field contradicts only one of them:
//!
//! 1. All records fill the form: the form is divided as it is.
//! 2. Sound records reach the stated end, or are as many as stated: the other field is damaged.
//! 3. Sound records before and after one gap are one fewer than stated and reach the stated end:
//!    the gap is the damaged record.
//! 4. Else only the records before the damage are known.

use xfs_format::attr::short_form::{AttrShortFormEntryDisk, AttrShortFormHeaderDisk};
use zerocopy::FromBytes;

use super::namespace;

/// A record, with its lengths as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) flags: u8,
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
}

/// The records of a form, as far as they could be told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Records<'a> {
    pub(super) records: Vec<Record<'a>>,
    /// The number of further records, whose bounds are not known.
    pub(super) unreadable: u64,
    /// Whether the last record or the stated end of the form is damaged: the length of the last
    /// value is not certain.
    pub(super) has_doubtful_end: bool,
}

/// Divides an attribute fork in short form into records. `fork` may be longer than the form.
pub(super) fn records(fork: &[u8]) -> Records<'_> {
    let Ok((header, body)) = AttrShortFormHeaderDisk::ref_from_prefix(fork) else {
        return Records { unreadable: 1, ..Records::default() };
    };
    let count = usize::from(header.count);
    let size = usize::from(header.size.get()).checked_sub(size_of::<AttrShortFormHeaderDisk>());
    let form = size.and_then(|size| body.get(..size));
    let all = form.map(|form| read(form, count, record_at)).filter(|all| {
        let used: usize = all.iter().map(length_of).sum();
        all.len() == count && form.is_some_and(|form| form.len() == used)
    });
    all.map(|records| Records { records, ..Records::default() })
        .or_else(|| by_one_statement(body, form, count))
        .or_else(|| around_one_record(form?, count))
        .unwrap_or_else(|| {
            let records = read(form.unwrap_or(body), count, record_at);
            // A damaged count can state more records than there is room for.
            let room = body.len() / SHORTEST;
            let unreadable = count.min(room).saturating_sub(records.len()).max(1);
            Records { records, unreadable: unreadable as u64, has_doubtful_end: false }
        })
}

/// Length of the shortest record: its head, and a name of one byte.
const SHORTEST: usize = size_of::<AttrShortFormEntryDisk>() + 1;

/// Returns the length of a record in bytes.
fn length_of(record: &Record<'_>) -> usize {
    size_of::<AttrShortFormEntryDisk>() + record.name.len() + record.value.len()
}

/// A reader of the record that begins at an offset.
type ReadRecord = for<'a> fn(&'a [u8], usize) -> Option<Record<'a>>;

/// Returns the record at an offset, if its name is not empty and it lies inside `bytes`.
fn record_at(bytes: &[u8], at: usize) -> Option<Record<'_>> {
    let (head, rest) = AttrShortFormEntryDisk::ref_from_prefix(bytes.get(at..)?).ok()?;
    let (name, rest) = rest.split_at_checked(head.name_length.into())?;
    let value = rest.get(..head.value_length.into())?;
    (!name.is_empty()).then_some(Record { flags: head.flags, name, value })
}

/// As [`record_at`], for a record whose flags and name are possible.
fn sound_record_at(bytes: &[u8], at: usize) -> Option<Record<'_>> {
    let record = record_at(bytes, at)?;
    let is_sound = namespace::of_short_flags(record.flags).is_some() && !record.name.contains(&0);
    is_sound.then_some(record)
}

/// Reads up to `count` records from the start of `bytes`.
fn read(bytes: &[u8], count: usize, record_at: ReadRecord) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(record) = (records.len() < count).then(|| record_at(bytes, at)).flatten() {
        at += length_of(&record);
        records.push(record);
    }
    records
}

/// Returns sound records that reach the end of the form, or are as many as the header states. If
/// both are possible, the larger number is right: bytes after the form are no records.
fn by_one_statement<'a>(
    body: &'a [u8],
    form: Option<&'a [u8]>,
    count: usize,
) -> Option<Records<'a>> {
    let by_count = read(body, count, sound_record_at);
    let by_count = Some(by_count).filter(|records| records.len() == count && count > 0);
    let by_end = form.and_then(|form| {
        let number = sound_tails(form).first().copied().flatten()?;
        Some(read(form, number, sound_record_at))
    });
    let by_end = by_end.filter(|records| !records.is_empty());
    // A stated end outside of the fork is the damaged field itself.
    let has_doubtful_end = form.is_some();
    let of_count = by_count.map(|records| Records { records, unreadable: 0, has_doubtful_end });
    let of_end = by_end.map(|records| Records { records, ..Records::default() });
    of_end.into_iter().chain(of_count).max_by_key(|records| records.records.len())
}

/// Returns, for each offset of a form, how many sound records fill the bytes from there to its end.
fn sound_tails(form: &[u8]) -> Vec<Option<usize>> {
    let mut tails = vec![None; form.len()];
    tails.push(Some(0));
    for at in (0..form.len()).rev() {
        let next = sound_record_at(form, at).map(|record| at + length_of(&record));
        let after = next.and_then(|next| tails.get(next).copied().flatten());
        if let Some(tail) = tails.get_mut(at) {
            *tail = after.map(|number: usize| number + 1);
        }
    }
    tails
}

/// Returns the sound records before and after one that is damaged. The first gap that makes this
/// possible is taken: from a damaged length on, other bytes can look like records.
fn around_one_record(form: &[u8], count: usize) -> Option<Records<'_>> {
    let tails = sound_tails(form);
    let before = read(form, count, sound_record_at);
    let mut start = 0;
    for index in 0..count {
        let after = count - index - 1;
        let is_end = |at: &usize| tails.get(*at).copied().flatten() == Some(after);
        if let Some(end) = (start + SHORTEST..=form.len()).find(is_end) {
            let mut records: Vec<Record<'_>> = before.iter().take(index).copied().collect();
            records.extend(read(form.get(end..)?, after, sound_record_at));
            return Some(Records { records, unreadable: 1, has_doubtful_end: false });
        }
        start += length_of(before.get(index)?);
    }
    None
}

#[cfg(test)]
mod tests;
