//! `setfacl`: changes access control lists.

use ferroxfs::attr::{Acl, AclKind};
use ferroxfs::{FileType, Node};

use super::chmod::{TreeReach, change_trees};
use crate::cli::{GlobalOptions, SetfaclArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::ImagePaths;
use crate::run::Run;
use crate::terminal::console::Console;
use crate::text::acl::{AclBuilder, GivenEntry, InvalidEntry};

/// The changes to the access control lists of a file.
struct Plan {
    removes_all: bool,
    removes_default: bool,
    set: Vec<GivenEntry>,
    remove: Vec<GivenEntry>,
    modify: Vec<GivenEntry>,
    keeps_mask: bool,
    is_recursive: bool,
}

struct Setfacl {
    targets: ImagePaths,
    plan: Plan,
}

/// Parses the entries of access control lists, and opens the images for writing. Returns the
/// command, ready to run.
pub(crate) fn open(
    arguments: &SetfaclArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let read = |texts: &[String], has_permissions: bool| -> Result<Vec<GivenEntry>, Failure> {
        let mut all = Vec::new();
        for text in texts {
            let mut given = GivenEntry::parse_all(text).map_err(|why| wrong(&why))?;
            if given.iter().any(|given| given.has_permissions() != has_permissions) {
                return Err(wrong(&InvalidEntry::Entry(text.clone())));
            }
            given.iter_mut().for_each(|given| given.is_default |= arguments.default);
            all.append(&mut given);
        }
        Ok(all)
    };
    let plan = Plan {
        removes_all: arguments.remove_all,
        removes_default: arguments.remove_default,
        set: read(&arguments.set, true)?,
        remove: read(&arguments.remove, false)?,
        modify: read(&arguments.modify, true)?,
        keeps_mask: arguments.no_mask,
        is_recursive: arguments.recursive,
    };
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    Ok(Box::new(Setfacl { targets, plan }))
}

fn wrong(why: &InvalidEntry) -> Failure {
    const NUMBERS: &str = "names are those of this host; any number is valid";
    let unknown = |what: &str, name: &str| {
        Failure::usage(format!("setfacl: \"{name}\" is not a {what} of this host")).hint(NUMBERS)
    };
    match why {
        InvalidEntry::User(name) => unknown("user", name),
        InvalidEntry::Group(name) => unknown("group", name),
        InvalidEntry::Entry(entry) => Failure::usage(format!(
            "setfacl: \"{entry}\" is not a valid entry"
        ))
        .hint(
            "an entry is [d:]u:USER:rwx, g:GROUP:rwx, m::rwx or o::rwx; -x takes them without rwx",
        ),
    }
}

impl Run for Setfacl {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, plan } = *self;
        let reach = TreeReach { is_recursive: plan.is_recursive, follows: true };
        change_trees(targets, reach, console, |node| plan.apply(node))
    }
}

impl Plan {
    fn apply(&self, node: &Node) -> Result<(), Failure> {
        let file_type = node.file_type();
        if file_type == FileType::Symlink && self.is_recursive {
            return Ok(());
        }
        let is_directory = file_type == FileType::Directory;
        let access = node.acl(AclKind::Access)?;
        let access = access.unwrap_or_else(|| Acl::from_mode(node.metadata().mode));
        let default = node.acl(AclKind::Default)?;
        let mut lists = [
            (AclKind::Access, AclBuilder::of(Some(&access))),
            (AclKind::Default, AclBuilder::of(default.as_ref())),
        ];
        for (kind, builder) in &mut lists {
            self.change(*kind, builder, is_directory);
        }
        let [(_, access_draft), (_, default_draft)] = &mut lists;
        if !default_draft.is_empty() {
            default_draft.complete_from(access_draft);
        }
        let mut finished = Vec::new();
        for (kind, mut builder) in lists {
            // The mask of a list without named entries stays as chmod has set it.
            if self.names_entries_of(kind) {
                builder.set_mask(self.keeps_mask);
            }
            let list = builder.finish().map_err(|check| {
                Failure::new(Exit::Failed, format!("the list would have {check}"))
            })?;
            finished.push((kind, list));
        }
        // Both lists are validated before one is set.
        for (kind, list) in finished {
            let old = if kind == AclKind::Access { Some(&access) } else { default.as_ref() };
            // In a tree, default lists are skipped for files that are no directories, as in
            // setfacl(1).
            let is_passed_over = kind == AclKind::Default && !is_directory && self.is_recursive;
            if list.as_ref() != old && !is_passed_over {
                set_list(node, kind, list.as_ref())?;
            }
        }
        Ok(())
    }

    /// Returns whether the command line names entries of this kind of access control list (access
    /// or default).
    fn names_entries_of(&self, kind: AclKind) -> bool {
        let is_default = kind == AclKind::Default;
        let mut given = self.set.iter().chain(&self.remove).chain(&self.modify);
        given.any(|given| given.is_default == is_default)
    }

    fn change(&self, kind: AclKind, builder: &mut AclBuilder, is_directory: bool) {
        let is_default = kind == AclKind::Default;
        let of_kind = |given: &[GivenEntry]| -> Vec<GivenEntry> {
            given.iter().filter(|given| given.is_default == is_default).copied().collect()
        };
        if self.removes_all || (is_default && self.removes_default) {
            if is_default { *builder = AclBuilder::default() } else { builder.remove_extended() }
        }
        let set = of_kind(&self.set);
        if !set.is_empty() {
            *builder = AclBuilder::given(&set, is_directory);
        }
        builder.remove(&of_kind(&self.remove));
        builder.modify(&of_kind(&self.modify), is_directory);
    }
}

fn set_list(node: &Node, kind: AclKind, list: Option<&Acl>) -> Result<(), Failure> {
    node.set_acl(kind, list).map_err(|error| {
        let failure = Failure::from(error);
        match kind == AclKind::Default && node.file_type() != FileType::Directory {
            true => failure.hint("only a directory has a default list (d:, -d)"),
            false => failure,
        }
    })
}
