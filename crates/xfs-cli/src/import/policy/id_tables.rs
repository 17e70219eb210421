//! The tables in which `--owner` looks up names: those of this host, of the user, or of the image.
//!
//! Owns: the choice among them. Does **not** own: the format of a table ([`owners`]), or finding
//! the tables of an image ([`tables_of_image`](fn@crate::import::tables_of_image)).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::cli::PolicyOptions;
use crate::failure::Failure;
use crate::text::owners;

/// The longest table that is read, in bytes.
pub(crate) const MOST_TABLE_BYTES: u64 = 64 << 20;

/// The tables of users and groups. Without a table, the one of this host is used.
#[derive(Debug, Default)]
pub(crate) struct IdTables {
    pub(crate) users: Option<Vec<u8>>,
    pub(crate) groups: Option<Vec<u8>>,
}

impl IdTables {
    /// Reads the tables that the options name.
    ///
    /// # Errors
    ///
    /// A table that cannot be read, or that is too long.
    pub(crate) fn of_options(options: &PolicyOptions) -> Result<Self, Failure> {
        let read = |path: Option<&Path>| path.map(read).transpose();
        let (users, groups) = (read(options.passwd.as_deref())?, read(options.group.as_deref())?);
        Ok(Self { users, groups })
    }

    /// Returns the id of a user from a name or a number. `None` if the table has no such name.
    pub(super) fn user(&self, name: &[u8]) -> Option<u32> {
        self.users.as_ref().map_or_else(|| owners::user(name), |table| owners::id_in(table, name))
    }

    /// Works as [`user`](Self::user), for a group.
    pub(super) fn group(&self, name: &[u8]) -> Option<u32> {
        self.groups.as_ref().map_or_else(|| owners::group(name), |table| owners::id_in(table, name))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::host(path.as_os_str(), &error);
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(failed)?.take(MOST_TABLE_BYTES + 1);
    file.read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 <= MOST_TABLE_BYTES {
        true => Ok(bytes),
        false => Err(failed(std::io::Error::other("is longer than a table, of at most 64 MiB"))),
    }
}
