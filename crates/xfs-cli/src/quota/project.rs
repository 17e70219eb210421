//! `quota project`: shows, sets or clears the project of directory trees.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::{FileType, Node, SetAttributes};

use crate::cli::{GlobalOptions, QuotaProjectArguments};
use crate::edit::chmod::{TreeReach, change_trees};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::text::owners;

/// The new project for trees, and whether new files inherit it. Project 0 without inheritance takes
/// the trees out of their project.
struct SetProject {
    targets: ImagePaths,
    project: u32,
    inherits: bool,
}

struct ShowProject {
    targets: ImagePaths,
}

/// Opens the images and returns the command, ready to run. The images are opened for writing only
/// if the command line asks for a change.
pub(crate) fn open(
    arguments: &QuotaProjectArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let project = match &arguments.set {
        Some(project) => parse(project)?,
        None if arguments.clear => 0,
        None => {
            let targets = ImagePaths::open(&arguments.addresses, options)?;
            return Ok(Box::new(ShowProject { targets }));
        }
    };
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    Ok(Box::new(SetProject { targets, project, inherits: !arguments.clear }))
}

/// Returns the ID of a project: a number, or a name of the host.
pub(super) fn parse(project: &OsStr) -> Result<u32, Failure> {
    owners::project(project.as_bytes()).ok_or_else(|| {
        let shown = names::in_message(project.as_bytes());
        Failure::usage(format!("quota: {shown} is neither a project of this host nor a number"))
    })
}

impl Run for SetProject {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, project, inherits } = *self;
        let reach = TreeReach::tree();
        change_trees(targets, reach, console, |node| {
            let mut changes = SetAttributes::new().project_id(project);
            if node.file_type() == FileType::Directory {
                let mut flags = node.metadata().xflags;
                flags.set(ExtendedFlags::PROJINHERIT, inherits);
                changes = changes.xflags(flags);
            }
            Ok(node.set_attributes(&changes)?)
        })
    }
}

/// The project of a file or directory, and whether new files in the directory inherit the project.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileProject {
    id: u32,
    inherits: bool,
}

impl FileProject {
    fn of(node: &Node) -> Self {
        let metadata = node.metadata();
        let inherits = metadata.xflags.contains(ExtendedFlags::PROJINHERIT);
        Self { id: metadata.project_id, inherits }
    }

    /// Returns whether a file below a directory of the project `top` belongs to the tree: it has
    /// that project, and a directory also has the same inheritance as `top`.
    fn agrees(self, top: Self, file_type: FileType) -> bool {
        let is_directory = file_type == FileType::Directory;
        self.id == top.id && (!is_directory || self.inherits == top.inherits)
    }
}

impl Run for ShowProject {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut list = match console.is_json() {
            true => Some(List::begin(console.out(), "files")?),
            false => None,
        };
        let mut has_strangers = false;
        for target in self.targets.read(console) {
            match show_tree(&target, &mut list, console) {
                Ok(strangers) => has_strangers |= strangers > 0,
                Err(failure) => console.report(&failure),
            }
        }
        if let Some(list) = list {
            list.end(console.out())?;
        }
        if has_strangers { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
    }
}

/// Shows the project of the top of a tree, and of all files of the tree that have another project.
/// Returns the number of these files.
fn show_tree(
    target: &ImagePath,
    list: &mut Option<List>,
    console: &mut Console,
) -> Result<u64, Failure> {
    let (mut top, mut strangers) = (None, 0);
    let walk = target.volume.inner().walk(&target.path);
    for item in walk.map_err(|error| target.failure(error))? {
        let entry = match item {
            Ok(entry) => entry,
            Err(error) => {
                let path = error.path.as_os_str().as_bytes();
                console.report(&target.volume.failure(path, error.source));
                continue;
            }
        };
        let project = FileProject::of(&entry.node);
        let top = *top.get_or_insert(project);
        let is_stranger = !project.agrees(top, entry.node.file_type());
        strangers += u64::from(is_stranger);
        if is_stranger || entry.depth == 0 {
            let path = [&target.prefix, entry.path.as_os_str().as_bytes()].concat();
            show(&path, project, list, console)?;
        }
    }
    Ok(strangers)
}

fn show(
    path: &[u8],
    project: FileProject,
    list: &mut Option<List>,
    console: &mut Console,
) -> io::Result<()> {
    let FileProject { id, inherits } = project;
    if let Some(list) = list {
        let mut object = Object::new();
        json::insert_name(&mut object, "path", path);
        object.insert("project_id".to_owned(), id.into());
        object.insert("inherits".to_owned(), inherits.into());
        return list.push(console.out(), &object);
    }
    let shown = console.name_style(false).show(path).into_owned();
    let word = if inherits { "inherit" } else { "-" };
    let out = console.out();
    write!(out, "{id:>10} {word:<7} ")?;
    out.write_all(&shown)?;
    out.write_all(b"\n")
}
