//! The names of users and groups for the columns `owner` and `group` of a scan.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use xfs_scan::{Field, Fields, OwnerNames};

use crate::cli::ScanArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::ImageVolume;
use crate::text::owners::NameTable;

/// The largest table that is read from an image, in bytes.
const LARGEST_TABLE: u64 = 64 << 20;

/// The tables that the command line names.
pub(super) enum OwnerTables {
    /// Tables of the host, with the columns that they fill.
    Host(Arc<OwnerNames>, Fields),
    /// The tables `/etc/passwd` and `/etc/group` of each image.
    Image,
}

impl OwnerTables {
    /// Reads the tables of the host.
    pub(super) fn open(arguments: &ScanArguments) -> Result<Self, Failure> {
        if arguments.passwd_from_image {
            return Ok(Self::Image);
        }
        let mut fields = Fields::EMPTY;
        let mut names = OwnerNames::default();
        if let Some(path) = &arguments.passwd {
            names.users = read(path)?;
            fields = fields.with(Field::Owner);
        }
        if let Some(path) = &arguments.group {
            names.groups = read(path)?;
            fields = fields.with(Field::Group);
        }
        Ok(Self::Host(Arc::new(names), fields))
    }

    /// Adds the columns that the tables fill. Fails if the user asked for a column without a table.
    pub(super) fn select(&self, fields: Fields) -> Result<Fields, Failure> {
        let filled = match self {
            Self::Host(_, filled) => *filled,
            Self::Image => Fields::EMPTY.with(Field::Owner).with(Field::Group),
        };
        for (field, option) in [(Field::Owner, "--passwd"), (Field::Group, "--group")] {
            if fields.contains(field) && !filled.contains(field) {
                let name = field.name();
                return Err(Failure::usage(format!("scan: the field {name} needs a table"))
                    .hint(format!("name it with {option} FILE, or use --passwd-from-image")));
            }
        }
        Ok(filled.iter().fold(fields, Fields::with))
    }

    /// Returns the names for the rows of a volume; `None` if no table was named.
    pub(super) fn names(&self, volume: &ImageVolume) -> Result<Option<Arc<OwnerNames>>, Failure> {
        match self {
            Self::Host(_, filled) if *filled == Fields::EMPTY => Ok(None),
            Self::Host(names, _) => Ok(Some(Arc::clone(names))),
            Self::Image => {
                let users = read_from(volume, "/etc/passwd")?;
                let groups = read_from(volume, "/etc/group")?;
                Ok(Some(Arc::new(OwnerNames { users, groups })))
            }
        }
    }
}

type Names = std::collections::HashMap<u32, String>;

fn read(path: &Path) -> Result<Names, Failure> {
    let table = fs::read(path).map_err(|error| Failure::host(path.as_os_str(), &error))?;
    Ok(NameTable::parse(&table).into_texts())
}

fn read_from(volume: &ImageVolume, path: &str) -> Result<Names, Failure> {
    let failed = |failure: Failure| volume.whole_failure(failure.about(path));
    let file = volume.inner().open_file_read_only(path);
    let file = file.map_err(|error| failed(Failure::from(error)))?;
    let size = file.metadata().size;
    if size > LARGEST_TABLE {
        let message = format!("the table has {size} bytes, and at most {LARGEST_TABLE} are read");
        return Err(failed(Failure::new(Exit::Failed, message)));
    }
    let mut table = Vec::new();
    let read = file.take(LARGEST_TABLE).read_to_end(&mut table);
    read.map_err(|error| failed(Failure::new(Exit::Failed, error.to_string())))?;
    Ok(NameTable::parse(&table).into_texts())
}
