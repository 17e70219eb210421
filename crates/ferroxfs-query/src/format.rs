//! The formats of an answer.

mod table;

use std::io::Write;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::arrow::json::{Writer as JsonWriter, WriterBuilder};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::properties::WriterProperties;

use self::table::TableWriter;
use crate::cli::Format;
use crate::engine::Answer;
use crate::failure::{Exit, Failure};
use crate::html;
use crate::output::Output;
use crate::rows::Rows;

/// The number of rows that a page shows of one answer.
const ROWS_OF_PAGE: usize = 10_000;

/// Writes an answer.
pub(crate) async fn write(
    mut answer: Answer<'_>,
    format: Format,
    title: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    if format == Format::Html {
        let rows = Rows::read(answer, ROWS_OF_PAGE).await?;
        return output.write(html::report(title, &rows).as_bytes());
    }
    let mut writer = RowWriter::new(format, &answer.schema(), output)?;
    while let Some(batch) = answer.next().await? {
        writer.write(&batch)?;
    }
    writer.finish()
}

/// A writer of one format, behind which the output is.
enum RowWriter<'o> {
    Table(TableWriter<'o>),
    Json(JsonWriter<&'o mut Output, JsonArray>),
    Ndjson(JsonWriter<&'o mut Output, LineDelimited>),
    Csv(Box<csv::Writer<&'o mut Output>>),
    Parquet(Box<ArrowWriter<&'o mut Output>>),
}

impl<'o> RowWriter<'o> {
    fn new(format: Format, schema: &SchemaRef, output: &'o mut Output) -> Result<Self, Failure> {
        // Each row has each column.
        let json = || WriterBuilder::new().with_explicit_nulls(true);
        Ok(match format {
            Format::Table | Format::Html => Self::Table(TableWriter::new(schema, output)),
            Format::Json => Self::Json(json().build(output)),
            Format::Ndjson => Self::Ndjson(json().build(output)),
            Format::Csv => {
                let mut writer = csv::WriterBuilder::new().with_header(true).build(output);
                // An answer without rows has a header line, too.
                writer.write(&RecordBatch::new_empty(schema.clone())).map_err(failed_csv)?;
                Self::Csv(Box::new(writer))
            }
            Format::Parquet => {
                let zstd = Compression::ZSTD(ZstdLevel::default());
                let properties = WriterProperties::builder().set_compression(zstd).build();
                let writer = ArrowWriter::try_new(output, schema.clone(), Some(properties));
                Self::Parquet(Box::new(writer.map_err(failed_parquet)?))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        match self {
            Self::Table(writer) => writer.write(batch),
            Self::Json(writer) => writer.write(batch).map_err(failed),
            Self::Ndjson(writer) => writer.write(batch).map_err(failed),
            Self::Csv(writer) => writer.write(batch).map_err(failed_csv),
            Self::Parquet(writer) => writer.write(batch).map_err(failed_parquet),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Table(writer) => writer.finish(),
            Self::Json(mut writer) => {
                writer.finish().map_err(failed)?;
                writer.into_inner().write(b"\n")
            }
            Self::Ndjson(mut writer) => writer.finish().map_err(failed),
            Self::Csv(writer) => writer.into_inner().flush().map_err(failed_output),
            Self::Parquet(writer) => writer.close().map(drop).map_err(failed_parquet),
        }
    }
}

fn failed_output(error: std::io::Error) -> Failure {
    Failure::file("the output".as_ref())(error)
}

fn failed(error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, error) => failed_output(error),
        error => Failure::new(Exit::Failed, format!("a row cannot be written: {error}")),
    }
}

/// Returns the failure of a writer of CSV, which has no lists.
fn failed_csv(error: ArrowError) -> Failure {
    let message = error.to_string();
    match error {
        ArrowError::IoError(..) => failed(error),
        _ if message.contains("os error 32") => Failure::new(Exit::Unread, message),
        _ => Failure::usage(format!("csv: {message}"))
            .hint("lists and bytes need --format ndjson, json or parquet"),
    }
}

fn failed_parquet(error: ParquetError) -> Failure {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) => failed_output(*error),
            Err(error) => Failure::new(Exit::Failed, format!("parquet: {error}")),
        },
        error => Failure::new(Exit::Failed, format!("parquet: {error}")),
    }
}
