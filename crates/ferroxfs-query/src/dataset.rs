//! A dataset on disk: the dates and volumes that its directories name.
//!
//! ```text
//!  DIR/inodes/scan_date=2026-11-30/volume_uuid=…/part-00000.parquet
//!  DIR/scans/scan_date=2026-11-30/volume_uuid=…/part-00000.parquet
//! ```
//!
//! Owns: the names of directories, which scans exist. Does **not** own: the contents of files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};
use jiff::civil::Date;

use crate::failure::{Exit, Failure, shown};

/// The volumes of each date.
type Partitions = BTreeMap<Date, BTreeSet<String>>;

/// The newest version of the schema that this program knows.
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// A dataset on disk.
#[derive(Debug)]
pub(crate) struct Dataset {
    directory: PathBuf,
    scans: Partitions,
    inodes: Partitions,
}

impl Dataset {
    /// Reads the names of the directories of a dataset.
    pub(crate) fn open(directory: &Path) -> Result<Self, Failure> {
        let directory = directory.canonicalize().map_err(Failure::file(directory))?;
        let scans = partitions(&directory, "scans")?;
        let inodes = partitions(&directory, "inodes")?;
        Ok(Self { directory, scans, inodes })
    }

    /// Returns the absolute path of the dataset.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory of a table.
    pub(crate) fn table(&self, table: &str) -> PathBuf {
        self.directory.join(table)
    }

    /// Returns the dates with a complete scan, the oldest first.
    pub(crate) fn dates(&self) -> impl DoubleEndedIterator<Item = Date> {
        self.scans.keys().copied()
    }

    /// Returns the newest date.
    pub(crate) fn newest(&self) -> Result<Date, Failure> {
        self.dates().next_back().ok_or_else(|| {
            Failure::new(Exit::Refused, format!("{}: has no scans", shown(&self.directory)))
                .hint("`ferroxfs scan --dataset DIR IMAGE` adds one")
        })
    }

    /// Returns the date if there is a scan of it.
    pub(crate) fn require(&self, date: Date) -> Result<Date, Failure> {
        if self.scans.contains_key(&date) {
            return Ok(date);
        }
        let near: Vec<String> = self.dates().rev().take(5).map(|date| date.to_string()).collect();
        Err(Failure::usage(format!("{}: has no scan of {date}", shown(&self.directory)))
            .hint(format!("the newest dates are {}", near.join(", "))))
    }

    /// Returns the UUID of a volume in the form of the dataset.
    pub(crate) fn volume(&self, text: &str) -> Result<String, Failure> {
        let wanted = text.to_ascii_lowercase();
        match self.volumes().contains(wanted.as_str()) {
            true => Ok(wanted),
            false => Err(Failure::usage(format!(
                "{}: has no volume {}",
                shown(&self.directory),
                crate::failure::escaped(text)
            ))),
        }
    }

    fn volumes(&self) -> BTreeSet<&str> {
        self.scans.values().flatten().map(String::as_str).collect()
    }

    /// Returns a sentence for each way in which the scans of a date are not all scans.
    pub(crate) fn gaps(&self, date: Date) -> Vec<String> {
        let none = BTreeSet::new();
        let scanned = self.scans.get(&date).unwrap_or(&none);
        let rows = self.inodes.get(&date).unwrap_or(&none);
        let mut gaps = Vec::new();
        let missing = self.volumes().len().saturating_sub(scanned.len());
        if missing > 0 {
            let all = self.volumes().len();
            gaps.push(format!("{missing} of {all} volumes have no scan of {date}"));
        }
        let early = rows.difference(scanned).count();
        if early > 0 {
            gaps.push(format!(
                "{early} volumes have rows of inodes for {date} and no row in scans: their scan \
                 was stopped between the two, or is still running"
            ));
        }
        gaps
    }

    /// Returns the first file of the dataset that is no Parquet file.
    pub(crate) fn damaged_file(&self) -> Option<PathBuf> {
        let mut folders = vec![self.table("scans"), self.table("inodes")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension() == Some(OsStr::new("parquet")) && !is_sound(&path) {
                    return Some(path);
                }
            }
        }
        None
    }

    /// Returns whether a file of any date has this column of inodes. It reads the newest files
    /// first, and all of them if none has the column.
    pub(crate) fn has_column(&self, column: &str) -> bool {
        let table = self.table("inodes");
        let partitions = self.inodes.iter().rev().flat_map(|(date, volumes)| {
            volumes.iter().map(move |volume| format!("scan_date={date}/volume_uuid={volume}"))
        });
        partitions.map(|partition| table.join(partition)).any(|folder| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.into_iter().any(|entry| file_has_column(&entry.path(), column))
        })
    }
}

/// Returns whether a file of Parquet has this column. A damaged file has none.
fn file_has_column(path: &Path, column: &str) -> bool {
    let reader = fs::File::open(path).ok().and_then(|file| SerializedFileReader::new(file).ok());
    reader.is_some_and(|reader| {
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        schema.root_schema().get_fields().iter().any(|field| field.name() == column)
    })
}

/// Returns whether the footer of a Parquet file, and each page of it, can be read.
fn is_sound(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else { return true };
    let Ok(reader) = SerializedFileReader::new(file) else { return false };
    (0..reader.num_row_groups()).all(|number| {
        reader.get_row_group(number).is_ok_and(|group| {
            (0..group.num_columns()).all(|column| {
                group
                    .get_column_page_reader(column)
                    .is_ok_and(|mut pages| pages.all(|it| it.is_ok()))
            })
        })
    })
}

/// Reads the names of the directories of one table.
fn partitions(directory: &Path, table: &str) -> Result<Partitions, Failure> {
    let folder = directory.join(table);
    let refused = |path: &Path, why: &str| {
        Failure::new(Exit::Refused, format!("{}: {why}", shown(path)))
            .hint("a dataset is a directory that `ferroxfs scan --dataset` made")
    };
    let mut partitions = Partitions::new();
    for (path, name) in directories(&folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refused(directory, &format!("not a dataset: no {table} in it")),
        _ => Failure::file(&folder)(error),
    })? {
        let date = name.strip_prefix("scan_date=").and_then(|text| text.parse::<Date>().ok());
        // Other forms of a date would be another name.
        let date = date.filter(|date| name == format!("scan_date={date}"));
        let Some(date) = date else { return Err(refused(&path, "not scan_date=YYYY-MM-DD")) };
        let volumes: &mut BTreeSet<String> = partitions.entry(date).or_default();
        for (path, name) in directories(&path).map_err(Failure::file(&path))? {
            let uuid = name.strip_prefix("volume_uuid=").filter(|text| is_uuid(text));
            let Some(uuid) = uuid else { return Err(refused(&path, "not volume_uuid=UUID")) };
            // A run creates the directory before it moves the file there.
            if fs::read_dir(&path).map_err(Failure::file(&path))?.next().is_some() {
                volumes.insert(uuid.to_owned());
            }
        }
    }
    partitions.retain(|_, volumes| !volumes.is_empty());
    Ok(partitions)
}

/// Returns the directories in a directory, without hidden ones.
fn directories(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(['.', '_']) && entry.path().is_dir() {
            found.push((entry.path(), name));
        }
    }
    Ok(found)
}

fn is_uuid(text: &str) -> bool {
    let hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.split('-').all(hex)
}

#[cfg(test)]
mod tests;
