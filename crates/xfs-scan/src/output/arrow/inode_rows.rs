//! The columns of inodes that are one number, one time or one word.
//!
//! Owns: the collected rows, and the value of each such column. Does **not** own: lists of names,
//! and columns that are the same for a whole volume.

use std::sync::Arc;

use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, StringArray, new_null_array};
use arrow_schema::DataType;

#[cfg(feature = "parquet")]
use super::ROWS_PER_STEP;
use crate::Field;
use crate::row::{Moment, Row};

/// Number of rows of a step for which a column may have one more run of equal values, to be encoded
/// run by run. With shorter runs, the delta encoding is smaller.
#[cfg(feature = "parquet")]
const ROWS_PER_RUN: usize = 16;

/// The collected rows of inodes, column by column, before they are encoded.
#[derive(Default)]
pub(super) struct InodeRows {
    pub(super) rows: Vec<Row>,
    pub(super) ags: Vec<u32>,
    pub(super) blocks: Vec<u64>,
    pub(super) realtime_blocks: Vec<u64>,
    pub(super) orphans: Vec<bool>,
}

impl InodeRows {
    /// Returns the runs of equal values of a column of numbers or types, if there are few.
    #[cfg(feature = "parquet")]
    pub(super) fn runs(&self, field: Field) -> Option<Vec<(RunValue, usize)>> {
        match field {
            Field::Type => {
                runs_of(self.rows.iter().map(Row::type_name), |name| RunValue::Text(name.into()))
            }
            // They change from row to row.
            Field::Ino | Field::Generation => None,
            _ => self.numbers(field, AsRuns)?,
        }
    }

    /// Returns a column. One that these rows do not have is null.
    pub(super) fn column(&self, field: Field) -> ArrayRef {
        let rows = self.rows.as_slice();
        match field {
            Field::Type => Arc::new(StringArray::from_iter_values(rows.iter().map(Row::type_name))),
            Field::Atime => moments(rows, |row| row.atime),
            Field::Mtime => moments(rows, |row| row.mtime),
            Field::Ctime => moments(rows, |row| row.ctime),
            Field::Btime => moments(rows, |row| row.btime),
            _ => self
                .numbers(field, AsArray)
                .unwrap_or_else(|| new_null_array(&DataType::Null, rows.len())),
        }
    }

    /// Passes the values of a column of numbers to `form`. Returns `None` if the column is not one
    /// of numbers.
    fn numbers<F: NumberForm>(&self, field: Field, form: F) -> Option<F::Column> {
        let rows = self.rows.as_slice();
        let wide = |value: fn(&Row) -> u64| form.wide(rows.iter().map(value));
        let narrow = |value: fn(&Row) -> u32| form.narrow(rows.iter().map(value));
        Some(match field {
            Field::Ino => wide(|row| row.ino),
            Field::Generation => narrow(|row| row.generation),
            Field::Ag => form.narrow(self.ags.iter().copied()),
            Field::Mode => narrow(|row| row.mode),
            Field::Nlink => narrow(|row| row.nlink),
            Field::Uid => narrow(|row| row.uid),
            Field::Gid => narrow(|row| row.gid),
            Field::ProjectId => narrow(|row| row.project_id),
            Field::Size => wide(|row| row.size),
            Field::Blocks => form.wide(self.blocks.iter().copied()),
            Field::RealtimeBlocks => form.wide(self.realtime_blocks.iter().copied()),
            Field::Extents => wide(|row| row.extents),
            Field::AttrExtents => narrow(|row| row.attr_extents),
            Field::Xflags => narrow(|row| row.xflags),
            Field::Rdev => wide(Row::rdev),
            Field::ChangeCount => wide(|row| row.change_count),
            Field::Lsn => wide(|row| row.lsn),
            Field::Flags => narrow(|row| row.flags),
            Field::Flags2 => wide(|row| row.flags2),
            Field::Type
            | Field::Atime
            | Field::Mtime
            | Field::Ctime
            | Field::Btime
            | Field::VolumeUuid
            | Field::VolumeLabel
            | Field::Owner
            | Field::Group
            | Field::Hash
            | Field::Symlink
            | Field::Xattrs
            | Field::Paths
            | Field::Parents
            | Field::ParentGenerations => return None,
        })
    }
}

/// A form of a column of numbers.
trait NumberForm {
    type Column;

    fn wide(&self, values: impl Iterator<Item = u64>) -> Self::Column;
    fn narrow(&self, values: impl Iterator<Item = u32>) -> Self::Column;
}

/// An array with a value for each row.
struct AsArray;

impl NumberForm for AsArray {
    type Column = ArrayRef;

    fn wide(&self, values: impl Iterator<Item = u64>) -> ArrayRef {
        array::<UInt64Type>(values)
    }

    fn narrow(&self, values: impl Iterator<Item = u32>) -> ArrayRef {
        array::<UInt32Type>(values)
    }
}

/// Runs of equal values, if there are few.
#[cfg(feature = "parquet")]
struct AsRuns;

#[cfg(feature = "parquet")]
impl NumberForm for AsRuns {
    type Column = Option<Vec<(RunValue, usize)>>;

    fn wide(&self, values: impl Iterator<Item = u64>) -> Self::Column {
        runs_of(values, RunValue::Wide)
    }

    fn narrow(&self, values: impl Iterator<Item = u32>) -> Self::Column {
        runs_of(values, RunValue::Narrow)
    }
}

/// The value of a run of rows.
#[cfg(feature = "parquet")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::output) enum RunValue {
    Narrow(u32),
    Wide(u64),
    Text(Arc<str>),
}

#[cfg(feature = "parquet")]
impl RunValue {
    /// Returns a column of `count` rows with this value.
    pub(in crate::output) fn to_array(&self, count: usize) -> ArrayRef {
        match self {
            Self::Narrow(number) => array::<UInt32Type>(std::iter::repeat_n(*number, count)),
            Self::Wide(number) => array::<UInt64Type>(std::iter::repeat_n(*number, count)),
            Self::Text(text) => constant(text, count),
        }
    }
}

/// Returns the runs of equal values among `values`. Returns `None` if there are more than one run
/// for each [`ROWS_PER_RUN`] rows of a step.
#[cfg(feature = "parquet")]
fn runs_of<I: PartialEq + Copy>(
    mut values: impl Iterator<Item = I>,
    wrap: fn(I) -> RunValue,
) -> Option<Vec<(RunValue, usize)>> {
    let mut runs = Vec::new();
    let (mut last, mut count) = (values.next()?, 1);
    for value in values {
        if value == last {
            count += 1;
            continue;
        }
        if runs.len() == ROWS_PER_STEP / ROWS_PER_RUN {
            return None;
        }
        runs.push((wrap(last), count));
        (last, count) = (value, 1);
    }
    runs.push((wrap(last), count));
    Some(runs)
}

fn array<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

pub(super) fn constant(text: &str, count: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, count)))
}

fn moments(rows: &[Row], moment: impl Fn(&Row) -> Moment) -> ArrayRef {
    let values = rows.iter().map(|row| moment(row).nanoseconds());
    let array: PrimitiveArray<TimestampNanosecondType> =
        if rows.iter().all(|row| moment(row).nanoseconds().is_some()) {
            PrimitiveArray::from_iter_values(values.map(Option::unwrap_or_default))
        } else {
            values.collect::<PrimitiveArray<Int64Type>>().reinterpret_cast()
        };
    Arc::new(array.with_timezone("UTC"))
}
