//! The rows of an answer as cells, for people: the table and the page.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::engine::Answer;
use crate::failure::{Exit, Failure, escaped};
use crate::size;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Number(i128),
    Text(String),
}

/// The meaning of a column, from its name and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number of bytes: the name of the column ends with `bytes`, or with `bytes_change`.
    Bytes,
    /// A number that is counted.
    Count,
    /// A number that names something: an inode, a user.
    Identity,
    Text,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// Rows with their columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Whether the answer had more rows than were kept.
    pub(crate) is_cut: bool,
}

/// Columns whose numbers name something.
const IDENTITIES: [&str; 14] = [
    "ino",
    "inode",
    "uid",
    "gid",
    "user_id",
    "group_id",
    "project_id",
    "generation",
    "inode_generation",
    "ag",
    "rdev",
    "lsn",
    "mode",
    "schema_version",
];

impl Rows {
    /// Reads an answer of at most `limit` rows. Rows after that are counted as cut off.
    pub(crate) async fn read(mut answer: Answer<'_>, limit: usize) -> Result<Self, Failure> {
        let mut rows = Self::new(&answer.schema());
        while let Some(batch) = answer.next().await? {
            rows.add(&batch)?;
            if rows.rows.len() > limit {
                rows.rows.truncate(limit);
                rows.is_cut = true;
                break;
            }
        }
        Ok(rows)
    }

    /// Creates rows without a row.
    pub(crate) fn new(schema: &SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|field| {
            let kind = kind(field.name(), field.data_type());
            Column { name: field.name().clone(), kind }
        });
        Self { columns: columns.collect(), rows: Vec::new(), is_cut: false }
    }

    /// Adds the rows of a batch.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let first = self.rows.len();
        self.rows.resize_with(first + batch.num_rows(), Vec::new);
        for array in batch.columns() {
            let cells = cells(array)?;
            for (row, cell) in self.rows.iter_mut().skip(first).zip(cells) {
                row.push(cell);
            }
        }
        Ok(())
    }

    /// Returns the position of a column.
    pub(crate) fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|it| it.name == column)
    }

    /// Returns the numbers of a column; 0 for null.
    pub(crate) fn numbers(&self, column: &str) -> Vec<i128> {
        let position = self.position(column);
        self.rows.iter().map(|row| number(position.and_then(|it| row.get(it)))).collect()
    }

    /// Returns the texts of a column.
    pub(crate) fn texts(&self, column: &str) -> Vec<String> {
        let position = self.position(column);
        let cell = |row: &Vec<Cell>| position.and_then(|it| row.get(it)).map(Cell::plain);
        self.rows.iter().map(|row| cell(row).unwrap_or_default()).collect()
    }
}

fn number(cell: Option<&Cell>) -> i128 {
    match cell {
        Some(Cell::Number(number)) => *number,
        _ => 0,
    }
}

impl Cell {
    /// Returns the value for people.
    pub(crate) fn shown(&self, kind: Kind) -> String {
        match (self, kind) {
            (Self::Null, _) => String::new(),
            (Self::Number(number), Kind::Bytes) => size::human(*number),
            (Self::Number(number), Kind::Count) => size::grouped(*number),
            (Self::Number(number), _) => number.to_string(),
            (Self::Text(text), _) => escaped(text),
        }
    }

    /// Returns the value without units.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

fn kind(name: &str, data_type: &DataType) -> Kind {
    let is_number = data_type.is_integer() || matches!(data_type, DataType::Decimal128(_, 0));
    match name {
        _ if !is_number => Kind::Text,
        _ if IDENTITIES.contains(&name) => Kind::Identity,
        _ if name.ends_with("bytes") || name.ends_with("bytes_change") || name == "size" => {
            Kind::Bytes
        }
        _ => Kind::Count,
    }
}

fn cells(array: &ArrayRef) -> Result<Vec<Cell>, Failure> {
    let failed = |error: datafusion::arrow::error::ArrowError| {
        Failure::new(Exit::Failed, format!("a value cannot be shown: {error}"))
    };
    let is_number = array.data_type().is_integer();
    if is_number || matches!(array.data_type(), DataType::Decimal128(_, 0)) {
        let wide = cast(array, &DataType::Decimal128(38, 0)).map_err(failed)?;
        let numbers = wide.as_primitive::<Decimal128Type>();
        return Ok(numbers.iter().map(|it| it.map_or(Cell::Null, Cell::Number)).collect());
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options).map_err(failed)?;
    let cell = |row: usize| match array.is_null(row) {
        true => Ok(Cell::Null),
        false => formatter.value(row).try_to_string().map(Cell::Text).map_err(failed),
    };
    (0..array.len()).map(cell).collect()
}
