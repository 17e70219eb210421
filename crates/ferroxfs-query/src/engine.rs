//! The engine: DataFusion with the two tables of a dataset, a bound on memory, and queries that can
//! only read.
//!
//! Owns: tables, limits, and the translation of errors. Does **not** own: formats of answers.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tempfile::TempDir;

use crate::dataset::{Dataset, SCHEMA_VERSION};
use crate::failure::{Exit, Failure, shown};
use crate::tables;

/// Limits on what the engine uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<'a> {
    pub(crate) memory_bytes: u64,
    pub(crate) threads: usize,
    /// The directory for temporary files, or `None` for that of the system.
    pub(crate) scratch: Option<&'a Path>,
}

/// A session on one dataset.
pub(crate) struct Session<'a> {
    context: SessionContext,
    set: &'a Dataset,
    /// Removed when the session ends, with everything that the engine left there.
    _scratch: TempDir,
}

impl<'a> Session<'a> {
    /// Opens the tables of a dataset.
    pub(crate) async fn open(set: &'a Dataset, limits: Limits<'_>) -> Result<Self, Failure> {
        let parent = limits.scratch.map_or_else(std::env::temp_dir, Path::to_owned);
        let scratch = tempfile::Builder::new().prefix("ferroxfs-query-").tempdir_in(&parent);
        let scratch = scratch.map_err(Failure::file(&parent))?;
        let place = DiskManagerMode::Directories(vec![scratch.path().to_owned()]);
        let memory = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(memory)))
            .with_disk_manager_builder(
                // The filesystem is the limit.
                DiskManagerBuilder::default()
                    .with_mode(place)
                    .with_max_temp_directory_size(u64::MAX),
            )
            .build_arc();
        let config = SessionConfig::new()
            .with_target_partitions(limits.threads)
            .with_information_schema(true)
            .set_bool("datafusion.execution.parquet.pushdown_filters", true)
            .set_bool("datafusion.execution.parquet.reorder_filters", true);
        let runtime = runtime.map_err(|error| translate(&error, set))?;
        let session = Self {
            context: SessionContext::new_with_config_rt(config, runtime),
            set,
            _scratch: scratch,
        };
        session.register("inode_files", "inodes", tables::inodes())?;
        session.register("scans", "scans", tables::scans())?;
        let view = "CREATE VIEW inodes AS SELECT *, paths[1] AS path, \
                    CAST(mtime AS DATE) AS modified, CAST(atime AS DATE) AS accessed \
                    FROM inode_files";
        session.context.sql(view).await.map_err(|error| translate(&error, set))?;
        Ok(session)
    }

    fn register(&self, name: &str, table: &str, schema: SchemaRef) -> Result<(), Failure> {
        let folder = self.set.table(table);
        let url = url::Url::from_directory_path(&folder)
            .map_err(|()| Failure::new(Exit::Failed, format!("{}: not a path", shown(&folder))))?;
        let translated = |error| translate(&error, self.set);
        let url = ListingTableUrl::try_new(url, None).map_err(translated)?;
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
            .with_file_extension(".parquet")
            .with_table_partition_cols(tables::partitions());
        let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
        let table = ListingTable::try_new(config).map_err(translated)?;
        self.context.register_table(name, Arc::new(table)).map(drop).map_err(translated)
    }

    /// Starts a query that only reads.
    pub(crate) async fn query(&self, sql: &str) -> Result<Answer<'a>, Failure> {
        let options = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let frame = self.context.sql_with_options(sql, options).await;
        let stream = match frame {
            Ok(frame) => frame.execute_stream().await,
            Err(error) => Err(error),
        };
        let stream = stream.map_err(|error| translate(&error, self.set))?;
        Ok(Answer { stream, set: self.set })
    }

    /// Refuses a dataset whose newest scans have a schema that this program does not know.
    pub(crate) async fn check_version(&self) -> Result<(), Failure> {
        let date = self.set.newest()?;
        let sql = format!(
            "SELECT volume_uuid FROM scans WHERE scan_date = CAST('{date}' AS DATE) \
             AND schema_version <> {SCHEMA_VERSION} LIMIT 1"
        );
        let mut answer = self.query(&sql).await?;
        while let Some(batch) = answer.next().await? {
            if batch.num_rows() > 0 {
                let directory = shown(self.set.directory());
                return Err(Failure::new(
                    Exit::Refused,
                    format!("{directory}: scans of {date} have another schema than version {SCHEMA_VERSION}"),
                )
                .hint("use the ferroxfs-query of the same version as the ferroxfs that scanned"));
            }
        }
        Ok(())
    }
}

/// The rows of an answer, in batches.
pub(crate) struct Answer<'a> {
    stream: SendableRecordBatchStream,
    set: &'a Dataset,
}

impl Answer<'_> {
    /// Returns the columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// Returns the next batch of rows.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let next = self.stream.next().await.transpose();
        next.map_err(|error| translate(&error, self.set))
    }
}

/// Returns the failure for an error of the engine.
fn translate(error: &DataFusionError, set: &Dataset) -> Failure {
    let directory = shown(set.directory());
    let message = || crate::failure::escaped(&error.strip_backtrace().replace('\n', " "));
    match error.find_root() {
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_) => Failure::usage(message()),
        DataFusionError::ResourcesExhausted(_) => {
            Failure::usage(format!("{directory}: {}", message()))
                .hint("give more memory with --memory, or fewer threads with --threads")
        }
        DataFusionError::ParquetError(_) | DataFusionError::ArrowError(..) => {
            damaged(set, &message())
        }
        DataFusionError::IoError(error) => {
            Failure::new(Exit::Failed, format!("{directory}: {error}"))
        }
        _ => Failure::new(Exit::Failed, format!("{directory}: {}", message())),
    }
}

/// Returns the failure for an error of a reader, with the file that is damaged.
fn damaged(set: &Dataset, message: &str) -> Failure {
    match set.damaged_file() {
        Some(file) => Failure::new(Exit::Corrupt, format!("{}: {message}", shown(&file)))
            .hint("scan this volume again with the same --scan-date"),
        // The engine also reports values that cannot be computed, such as an overflow, in this way.
        None => Failure::new(Exit::Failed, format!("{}: {message}", shown(set.directory()))),
    }
}
