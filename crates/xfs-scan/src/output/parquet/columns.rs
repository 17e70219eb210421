//! The encodings of the columns of a Parquet file.

use arrow_schema::DataType;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use crate::Field;
use crate::output::arrow::ArrowColumn;
use crate::output::{Header, SCHEMA_VERSION};

pub(super) fn properties(columns: &[ArrowColumn], header: Header) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("ferroxfs ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![
            KeyValue::new("ferroxfs.schema_version".to_owned(), SCHEMA_VERSION.to_string()),
            KeyValue::new("ferroxfs.scan_time".to_owned(), header.scan_time.to_string()),
        ]));
    for &column in columns {
        let path = ColumnPath::from(column.name());
        builder = match column.data_type() {
            // A directory has many entries, so its number and generation repeat.
            _ if matches!(
                column,
                ArrowColumn::Inode(Field::Parents | Field::ParentGenerations)
            ) =>
            {
                let parts = [column.name(), "list", "item"].map(str::to_owned).to_vec();
                let path = ColumnPath::new(parts);
                builder
                    .set_column_dictionary_enabled(path.clone(), true)
                    .set_column_statistics_enabled(path, EnabledStatistics::None)
            }
            // Minimum and maximum of repeated words cost more than everything else, and are
            // useless.
            DataType::Utf8 => builder
                .set_column_dictionary_enabled(path.clone(), true)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
            DataType::List(_) => {
                let parts = [column.name(), "list", "item"].map(str::to_owned).to_vec();
                let path = ColumnPath::new(parts);
                builder
                    .set_column_compression(path.clone(), Compression::LZ4_RAW)
                    .set_column_statistics_enabled(path, EnabledStatistics::None)
            }
            DataType::Boolean | DataType::Binary => builder,
            // Random numbers do not compress.
            _ if column == ArrowColumn::Inode(Field::Generation) => builder,
            _ => builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        };
    }
    builder.build()
}
