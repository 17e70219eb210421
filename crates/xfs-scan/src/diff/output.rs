//! Writes changes: as text for people, as JSON, or as Parquet.
//!
//! Owns: the formats. Does **not** own: file names. Changes are written as they are found, in the
//! order of inode numbers, so memory does not grow with their number.

#[cfg(feature = "parquet")]
mod parquet;

use std::io::Write;

use super::changes::{Aspects, Change, ChangeKind};
use super::entries::EntryView;
use super::{DiffFinding, DiffReport, State};
use crate::ScanError;
use crate::output::json::{self, ListKeys, push_moment, push_number, push_string};
use crate::output::table::push_escaped;
use crate::row::{ByteList, Row};

/// Version of the schema of the rows. It is raised when a reader written for the old schema would
/// misunderstand the new one.
pub const DIFF_SCHEMA_VERSION: u32 = 1;

/// The format of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffFormat {
    /// One line for each change, for people.
    Text,
    /// One JSON object per line.
    Ndjson,
    /// One JSON document, whose rows are those of NDJSON.
    Json,
    /// Apache Parquet, one row for each change.
    Parquet,
}

/// An output of changes whose first part is written already.
pub struct DiffWriter<'w>(Inner<'w>);

enum Inner<'w> {
    Lines {
        format: DiffFormat,
        writer: Box<dyn Write + Send + 'w>,
        line: Vec<u8>,
        has_rows: bool,
    },
    #[cfg(feature = "parquet")]
    Parquet(Box<self::parquet::ParquetChanges<'w>>),
}

impl<'w> DiffWriter<'w> {
    /// Starts the output. Findings have rows only in the JSON formats. In text, each finding is a
    /// line. With Parquet, the report counts them, and the metadata of the file has them up to a
    /// limit.
    ///
    /// # Errors
    ///
    /// The writer's error, or [`ScanError::FormatNotBuilt`] for Parquet without the feature.
    pub fn begin(
        format: DiffFormat,
        mut writer: Box<dyn Write + Send + 'w>,
    ) -> Result<Self, ScanError> {
        let head = match format {
            DiffFormat::Text => String::new(),
            DiffFormat::Ndjson => {
                format!("{{\"row\":\"diff\",\"schema_version\":{DIFF_SCHEMA_VERSION}}}\n")
            }
            DiffFormat::Json => {
                format!("{{\"schema_version\": {DIFF_SCHEMA_VERSION}, \"rows\": [")
            }
            #[cfg(feature = "parquet")]
            DiffFormat::Parquet => {
                let changes = self::parquet::ParquetChanges::begin(writer)?;
                return Ok(Self(Inner::Parquet(Box::new(changes))));
            }
            #[cfg(not(feature = "parquet"))]
            DiffFormat::Parquet => return Err(ScanError::FormatNotBuilt("Parquet")),
        };
        writer.write_all(head.as_bytes()).map_err(ScanError::Output)?;
        Ok(Self(Inner::Lines { format, writer, line: Vec::new(), has_rows: false }))
    }

    pub(super) fn change(&mut self, change: &Change<'_>) -> Result<(), ScanError> {
        self.row(
            |format, line| match format {
                DiffFormat::Text => push_text(line, change),
                _ => push_object(line, change),
            },
            #[cfg(feature = "parquet")]
            |parquet| parquet.change(change),
        )
    }

    pub(super) fn finding(&mut self, state: State, finding: &DiffFinding) -> Result<(), ScanError> {
        self.row(
            |format, line| match format {
                DiffFormat::Text => push_finding_text(line, state, finding),
                _ => push_finding(line, state, finding),
            },
            #[cfg(feature = "parquet")]
            |parquet| {
                parquet.finding(state, finding);
                Ok(())
            },
        )
    }

    /// Writes one row: as a line with `push`, or as a row of Parquet.
    fn row(
        &mut self,
        push: impl FnOnce(DiffFormat, &mut Vec<u8>),
        #[cfg(feature = "parquet")] parquet: impl FnOnce(
            &mut self::parquet::ParquetChanges<'w>,
        ) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        match &mut self.0 {
            Inner::Lines { format, writer, line, has_rows } => {
                line.clear();
                if *format == DiffFormat::Json {
                    line.extend_from_slice(if *has_rows { b",\n" } else { b"\n" });
                }
                *has_rows = true;
                push(*format, line);
                if *format != DiffFormat::Json {
                    line.push(b'\n');
                }
                writer.write_all(line).map_err(ScanError::Output)
            }
            #[cfg(feature = "parquet")]
            Inner::Parquet(changes) => parquet(changes),
        }
    }

    pub(super) fn finish(self, report: &DiffReport) -> Result<(), ScanError> {
        match self.0 {
            Inner::Lines { format, mut writer, .. } => {
                let mut tail = Vec::new();
                match format {
                    DiffFormat::Ndjson => {
                        tail.extend_from_slice(b"{\"row\":\"end\"");
                        push_totals(&mut tail, report);
                        tail.extend_from_slice(b"}\n");
                    }
                    DiffFormat::Json => {
                        tail.extend_from_slice(b"\n]");
                        push_totals(&mut tail, report);
                        tail.extend_from_slice(b"}\n");
                    }
                    DiffFormat::Text | DiffFormat::Parquet => {}
                }
                writer.write_all(&tail).map_err(ScanError::Output)?;
                writer.flush().map_err(ScanError::Output)
            }
            #[cfg(feature = "parquet")]
            Inner::Parquet(changes) => changes.finish(report),
        }
    }
}

/// Returns the totals of a comparison with their names in the output.
fn totals(report: &DiffReport) -> impl Iterator<Item = (&'static str, u64)> {
    let counts = ChangeKind::ALL.into_iter().map(|kind| (kind.name(), report.count(kind)));
    counts.chain([("common", report.common), ("errors", report.findings)])
}

fn push_totals(out: &mut Vec<u8>, report: &DiffReport) {
    for (name, count) in totals(report) {
        out.extend_from_slice(format!(",\"{name}\":{count}").as_bytes());
    }
}

/// A value of a row that the output shows for both states of a changed inode: its name, and the
/// function that returns it. The names of the first state have the prefix `old_`.
type Value = (&'static str, fn(&Row) -> u64);

const VALUES: [Value; 8] = [
    ("mode", |row| row.mode.into()),
    ("nlink", |row| row.nlink.into()),
    ("uid", |row| row.uid.into()),
    ("gid", |row| row.gid.into()),
    ("project_id", |row| row.project_id.into()),
    ("size", |row| row.size),
    ("xflags", |row| row.xflags.into()),
    ("change_count", |row| row.change_count),
];

fn push_object(out: &mut Vec<u8>, change: &Change<'_>) {
    let row = change.latest().row();
    out.extend_from_slice(b"{\"row\":\"change\",\"change\":");
    push_string(out, change.kind.name());
    out.extend_from_slice(b",\"ino\":");
    push_number(out, row.ino);
    out.extend_from_slice(b",\"generation\":");
    push_number(out, row.generation);
    out.extend_from_slice(b",\"type\":");
    push_string(out, row.type_name());
    out.extend_from_slice(b",\"aspects\":[");
    for (index, aspect) in change.aspects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_string(out, aspect.name());
    }
    out.push(b']');
    push_values(out, "old_", change.old);
    push_values(out, "", change.new);
    if let Some(old) = change.old {
        json::push_list(out, &OLD_PATHS, &list(old.paths()));
    }
    if let Some(new) = change.new {
        json::push_list(out, &json::PATHS, &list(new.paths()));
    }
    if !change.removed_paths.is_empty() {
        json::push_list(out, &REMOVED_PATHS, &list(change.removed_paths.iter().copied()));
    }
    if !change.added_paths.is_empty() {
        json::push_list(out, &ADDED_PATHS, &list(change.added_paths.iter().copied()));
    }
    out.push(b'}');
}

const OLD_PATHS: ListKeys = ListKeys { text: b",\"old_paths\":", bytes: b",\"old_paths_bytes\":" };
const REMOVED_PATHS: ListKeys =
    ListKeys { text: b",\"removed_paths\":", bytes: b",\"removed_paths_bytes\":" };
const ADDED_PATHS: ListKeys =
    ListKeys { text: b",\"added_paths\":", bytes: b",\"added_paths_bytes\":" };

fn list<'a>(items: impl Iterator<Item = &'a [u8]>) -> ByteList {
    let mut list = ByteList::default();
    items.for_each(|item| list.push(item));
    list
}

fn push_values(out: &mut Vec<u8>, prefix: &str, entry: Option<EntryView<'_>>) {
    let Some(row) = entry.map(EntryView::row) else { return };
    for (name, value) in VALUES {
        out.extend_from_slice(format!(",\"{prefix}{name}\":").as_bytes());
        push_number(out, value(row));
    }
    for (name, moment) in [("mtime", row.mtime), ("ctime", row.ctime)] {
        out.extend_from_slice(format!(",\"{prefix}{name}\":").as_bytes());
        match moment.nanoseconds() {
            Some(_) => push_moment(out, moment),
            // Parquet cannot hold a later time, so one state may have it and the other not.
            None => out.extend_from_slice(b"null"),
        }
    }
}

fn push_finding(out: &mut Vec<u8>, state: State, finding: &DiffFinding) {
    out.extend_from_slice(b"{\"row\":\"error\",\"state\":");
    push_string(out, state.name());
    out.extend_from_slice(b",\"code\":");
    push_string(out, finding.code.name());
    if let Some(ino) = finding.ino {
        out.extend_from_slice(b",\"ino\":");
        push_number(out, ino);
    }
    out.extend_from_slice(b",\"inode_count\":");
    push_number(out, finding.inode_count);
    out.extend_from_slice(b",\"message\":");
    push_string(out, &finding.message);
    out.push(b'}');
}

/// Width, in characters, of the text column with the kind of a change.
const KIND_WIDTH: usize = 10;

fn push_text(out: &mut Vec<u8>, change: &Change<'_>) {
    out.extend_from_slice(
        format!("{:<KIND_WIDTH$}", format!("{}:", change.kind.name())).as_bytes(),
    );
    let (old, new) = (change.old, change.new);
    match change.kind {
        ChangeKind::Renamed => {
            push_paths(out, change.removed_paths.iter().copied());
            out.extend_from_slice(b" -> ");
            push_paths(out, change.added_paths.iter().copied());
        }
        ChangeKind::Linked => {
            push_paths(out, change.added_paths.iter().copied());
            push_others(out, ", also ", new, &change.added_paths);
        }
        ChangeKind::Unlinked => {
            push_paths(out, change.removed_paths.iter().copied());
            push_others(out, ", still ", new, &[]);
        }
        ChangeKind::Moved => {
            push_all(out, old);
            out.extend_from_slice(b" -> ");
            push_all(out, new);
        }
        ChangeKind::Created | ChangeKind::Removed | ChangeKind::Changed => {
            push_all(out, new.or(old));
        }
    }
    push_aspects(out, change.aspects);
}

fn push_aspects(out: &mut Vec<u8>, aspects: Aspects) {
    if aspects.is_empty() {
        return;
    }
    let names: Vec<&str> = aspects.iter().map(super::Aspect::name).collect();
    out.extend_from_slice(format!(" ({})", names.join(", ")).as_bytes());
}

/// Appends all paths of an inode, or its number if it has none.
fn push_all(out: &mut Vec<u8>, entry: Option<EntryView<'_>>) {
    let Some(entry) = entry else { return };
    if entry.parents().is_empty() {
        out.extend_from_slice(format!("inode {}, which has no path", entry.row().ino).as_bytes());
        return;
    }
    push_paths(out, entry.paths());
}

/// Appends `words` and the paths of `entry` that are not in `known`. Appends nothing if there are
/// no such paths.
fn push_others(out: &mut Vec<u8>, words: &str, entry: Option<EntryView<'_>>, known: &[&[u8]]) {
    let Some(entry) = entry else { return };
    let mut others = entry.paths().filter(|path| !known.contains(path)).peekable();
    if others.peek().is_some() {
        out.extend_from_slice(words.as_bytes());
        push_paths(out, others);
    }
}

fn push_paths<'a>(out: &mut Vec<u8>, paths: impl Iterator<Item = &'a [u8]>) {
    for (index, path) in paths.enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        push_escaped(out, path);
    }
}

fn push_finding_text(out: &mut Vec<u8>, state: State, finding: &DiffFinding) {
    out.extend_from_slice(format!("{:<KIND_WIDTH$}", "error:").as_bytes());
    out.extend_from_slice(format!("{}: {}: ", state.name(), finding.code.name()).as_bytes());
    if let Some(ino) = finding.ino {
        out.extend_from_slice(format!("inode {ino}").as_bytes());
        if finding.inode_count > 1 {
            let more = finding.inode_count - 1;
            out.extend_from_slice(format!(" and the {more} after it").as_bytes());
        }
        out.extend_from_slice(b": ");
    }
    push_escaped(out, finding.message.as_bytes());
}
