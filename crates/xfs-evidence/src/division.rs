//! Division of a short form into its records.
//!
//! Owns: finding where the records of attributes or directory entries in a short form begin. A
//! record has its own length, so a wrong length hides where all later records begin. Does **not**
//! own: the fields of a record.
//!
//! The form states the number of records and the end of the last one. Together with the records
//! themselves, these are three statements, and one damaged field makes only one of them wrong:
//!
//! 1. The stated number of records reaches the stated end exactly: the form is divided as it is.
//! 2. Sound records reach the stated end but have another number than stated, or the reverse: the
//!    field that does not fit is damaged.
//! 3. Sound records reach the stated end, except for one gap, and are one fewer than stated: the
//!    gap is the damaged record.
//! 4. Else only the records before the damage are known.
//!
//! A form has at most 64 KiB, and each step reads it once.

/// A record as it was read. Its fields may have impossible values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<T> {
    pub(crate) fields: T,
    pub(crate) length: usize,
    /// Whether all fields are possible.
    pub(crate) is_sound: bool,
}

/// The input of a division: the bytes of a short form, and what the form states about its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortFormBytes<'a> {
    /// The bytes from the first record to the end of the fork.
    pub(crate) body: &'a [u8],
    /// The offset in `body` at which the last record ends according to the form. `None` if that
    /// offset is outside `body`.
    pub(crate) end: Option<usize>,
    /// The number of records that the form states.
    pub(crate) count: usize,
    /// The length of the shortest record.
    pub(crate) shortest: usize,
}

/// The records of a form, as far as they could be told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Division<T> {
    pub(crate) records: Vec<T>,
    /// The number of further records, whose bounds are not known.
    pub(crate) unreadable: u64,
    /// Whether the length of the last record is uncertain, because this record or the stated end of
    /// the form is damaged.
    pub(crate) has_doubtful_end: bool,
}

impl<T> Division<T> {
    fn whole(records: Vec<T>) -> Self {
        Self { records, unreadable: 0, has_doubtful_end: false }
    }
}

/// Divides a short form into records. `read` returns the record at the start of the bytes that it
/// gets, or `None` if the record does not lie inside these bytes.
pub(crate) fn divide<'a, T: Copy>(
    form: ShortFormBytes<'a>,
    read: impl Fn(&'a [u8]) -> Option<Record<T>>,
) -> Division<T> {
    let divider = Divider { form, read };
    divider
        .as_stated()
        .or_else(|| divider.by_one_statement())
        .or_else(|| divider.around_one_record())
        .unwrap_or_else(|| divider.before_the_damage())
}

struct Divider<'a, R> {
    form: ShortFormBytes<'a>,
    read: R,
}

impl<'a, T: Copy, R: Fn(&'a [u8]) -> Option<Record<T>>> Divider<'a, R> {
    /// Returns the bytes of the records, up to the end that the form states. Returns `None` if the
    /// stated end is outside the fork.
    fn stated(&self) -> Option<&'a [u8]> {
        self.form.body.get(..self.form.end?)
    }

    fn sound(&self, bytes: &'a [u8]) -> Option<Record<T>> {
        (self.read)(bytes).filter(|record| record.is_sound)
    }

    /// Reads up to `count` records one after the other.
    fn run(
        bytes: &'a [u8],
        count: usize,
        read: impl Fn(&'a [u8]) -> Option<Record<T>>,
    ) -> Vec<Record<T>> {
        let mut records = Vec::new();
        let mut rest = bytes;
        while let Some(record) = (records.len() < count).then(|| read(rest)).flatten() {
            rest = rest.get(record.length..).unwrap_or_default();
            records.push(record);
        }
        records
    }

    fn as_stated(&self) -> Option<Division<T>> {
        let stated = self.stated()?;
        let records = Self::run(stated, self.form.count, &self.read);
        let used: usize = records.iter().map(|record| record.length).sum();
        let is_full = records.len() == self.form.count && used == stated.len();
        is_full.then(|| Division::whole(fields(&records)))
    }

    /// Divides the form by one of its two statements: into sound records that reach the stated end,
    /// or into as many sound records as stated. If both are possible, returns the division with
    /// more records, because bytes after the end of the form do not look like records.
    fn by_one_statement(&self) -> Option<Division<T>> {
        let ShortFormBytes { body, count, end, .. } = self.form;
        let by_count = Self::run(body, count, |bytes| self.sound(bytes));
        let by_count = Some(by_count).filter(|records| records.len() == count && count > 0);
        let by_end = self.stated().and_then(|stated| {
            let number = self.sound_tails(stated).first().copied().flatten()?;
            Some(Self::run(stated, number, |bytes| self.sound(bytes)))
        });
        let of_end = by_end.filter(|records| !records.is_empty());
        let of_end = of_end.map(|records| Division::whole(fields(&records)));
        let of_count = by_count.map(|records| Division {
            records: fields(&records),
            unreadable: 0,
            // A stated end outside of the fork is the damaged field itself.
            has_doubtful_end: end.is_some(),
        });
        of_end.into_iter().chain(of_count).max_by_key(|division| division.records.len())
    }

    /// Returns, for each offset in the bytes `stated`, how many sound records fill the bytes from
    /// the offset to the end. The number is `None` if sound records do not fill them.
    fn sound_tails(&self, stated: &'a [u8]) -> Vec<Option<usize>> {
        let mut tails = vec![None; stated.len()];
        tails.push(Some(0));
        for at in (0..stated.len()).rev() {
            let record = stated.get(at..).and_then(|bytes| self.sound(bytes));
            let after = record.and_then(|record| *tails.get(at + record.length)?);
            if let Some(tail) = tails.get_mut(at) {
                *tail = after.map(|number: usize| number + 1);
            }
        }
        tails
    }

    /// Returns the sound records before and after a single damaged record. The damaged record is
    /// the first gap between sound records that makes their number one less than stated. Gaps after
    /// the first such gap are not considered, because after a damaged length other bytes can look
    /// like records.
    fn around_one_record(&self) -> Option<Division<T>> {
        let ShortFormBytes { count, shortest, .. } = self.form;
        let stated = self.stated()?;
        let tails = self.sound_tails(stated);
        let before = Self::run(stated, count, |bytes| self.sound(bytes));
        let mut start = 0;
        for index in 0..count {
            let after = count - index - 1;
            let is_end = |at: &usize| tails.get(*at).copied().flatten() == Some(after);
            if let Some(end) = (start + shortest..=stated.len()).find(is_end) {
                let mut records = before.get(..index).unwrap_or_default().to_vec();
                records.extend(Self::run(stated.get(end..)?, after, |bytes| self.sound(bytes)));
                let records = fields(&records);
                return Some(Division { records, unreadable: 1, has_doubtful_end: false });
            }
            start += before.get(index)?.length;
        }
        None
    }

    fn before_the_damage(&self) -> Division<T> {
        let ShortFormBytes { body, count, shortest, .. } = self.form;
        let records = Self::run(self.stated().unwrap_or(body), count, &self.read);
        // A damaged count can state more records than there is room for.
        let room = body.len() / shortest;
        let unreadable = count.min(room).saturating_sub(records.len()).max(1);
        let records = fields(&records);
        Division { records, unreadable: unreadable as u64, has_doubtful_end: false }
    }
}

fn fields<T: Copy>(records: &[Record<T>]) -> Vec<T> {
    records.iter().map(|record| record.fields).collect()
}
