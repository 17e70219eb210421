//! `quota`: shows, checks and limits the usage and the limits of users, groups and projects.
//!
//! Owns: the dispatch to the subcommands, and the names of owners. Does **not** own: quota itself
//! ([`ferroxfs::quota`]).

pub(crate) mod check;
pub(crate) mod project;
pub(crate) mod report;
pub(crate) mod set;

use std::fs;

use ferroxfs::quota::QuotaType;

use crate::cli::{GlobalOptions, QuotaArguments, QuotaCommand, QuotaTypeOptions};
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::run::Run;
use crate::text::owners;

/// All types of quota, in the order in which they are shown.
const TYPES: [QuotaType; 3] = QuotaType::ALL;

/// Opens the image and returns the subcommand, ready to run.
pub(crate) fn open(
    arguments: QuotaArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    match arguments.command {
        None => {
            let image = arguments.image.expect("the image is required without a subcommand");
            report::open(&image, arguments.shown, options)
        }
        Some(QuotaCommand::Check(arguments)) => check::open(&arguments, options),
        Some(QuotaCommand::Set(arguments)) => set::open(arguments, options),
        Some(QuotaCommand::Project(arguments)) => project::open(&arguments, options),
        Some(QuotaCommand::Report(arguments)) => {
            report::open(&arguments.image, arguments.shown, options)
        }
    }
}

/// Returns the types of quota that the command line chooses.
fn chosen(options: QuotaTypeOptions) -> impl Iterator<Item = QuotaType> {
    let QuotaTypeOptions { user, group, project } = options;
    let is_every = !(user || group || project);
    let is_chosen = [user, group, project].map(|is_chosen| is_chosen || is_every);
    TYPES.into_iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen).map(|(kind, _)| kind)
}

/// The names that this host has for owners. The tables are read before the process gives up its
/// rights.
struct OwnerNames {
    tables: [owners::NameTable; 3],
}

impl OwnerNames {
    /// Reads the tables of the host. With `is_numeric`, no owner has a name.
    fn open(is_numeric: bool) -> Self {
        let read = |table: &str| match is_numeric {
            true => owners::NameTable::default(),
            // A host without the table has no names.
            false => owners::NameTable::parse(&fs::read(table).unwrap_or_default()),
        };
        Self { tables: ["/etc/passwd", "/etc/group", "/etc/projid"].map(read) }
    }

    fn find(&self, kind: QuotaType, id: u32) -> Option<&[u8]> {
        let mut tables = TYPES.into_iter().zip(&self.tables);
        let (_, table) = tables.find(|(of, _)| *of == kind).expect("each type has a table");
        table.find(id)
    }

    /// Returns the name of an owner, or its number.
    fn show(&self, kind: QuotaType, id: u32) -> Vec<u8> {
        self.find(kind, id).map_or_else(|| id.to_string().into_bytes(), <[u8]>::to_vec)
    }

    /// Adds the type, the ID and the name of an owner to a JSON object.
    fn describe(&self, kind: QuotaType, id: u32, object: &mut Object) {
        object.insert("type".to_owned(), kind.name().into());
        object.insert("id".to_owned(), id.into());
        if let Some(name) = self.find(kind, id) {
            json::insert_name(object, "name", name);
        }
    }
}
