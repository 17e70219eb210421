//! The tables in which `--owner` looks up names: those of this host, of the user, or of the image.
//!
//! Owns: the choice among them, and finding them in the sources. Does **not** own: the format of a
//! table ([`owners`]).

use std::fs;
use std::path::Path;

use crate::cli::PolicyOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::sources::ImportSources;
use crate::text::owners;

/// The tables of users and groups. Without a table, the one of this host is used.
#[derive(Debug, Default)]
pub(crate) struct IdTables {
    users: Option<Vec<u8>>,
    groups: Option<Vec<u8>>,
}

impl IdTables {
    /// Reads the tables that the options name. `open` opens the sources, if the tables are those of
    /// the image.
    ///
    /// # Errors
    ///
    /// A table that cannot be read, or that the sources do not have.
    pub(crate) fn open(
        options: &PolicyOptions,
        open: impl Fn() -> Result<ImportSources, Failure>,
    ) -> Result<Self, Failure> {
        if options.passwd_from_image {
            let read = |path: &str| {
                let found = open()?.read_last(path.as_bytes())?;
                found.map(Some).ok_or_else(|| {
                    let message = format!("--passwd-from-image: the sources have no file /{path}");
                    Failure::new(Exit::Failed, message).placed()
                })
            };
            return Ok(Self { users: read("etc/passwd")?, groups: read("etc/group")? });
        }
        let read = |path: Option<&Path>| {
            let read = |path: &Path| {
                fs::read(path).map_err(|error| Failure::host(path.as_os_str(), &error))
            };
            path.map(read).transpose()
        };
        Ok(Self {
            users: read(options.passwd.as_deref())?,
            groups: read(options.group.as_deref())?,
        })
    }

    /// Returns the place of the names, for messages.
    pub(super) fn place(&self) -> &'static str {
        if self.users.is_none() && self.groups.is_none() { "this host" } else { "the tables" }
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
