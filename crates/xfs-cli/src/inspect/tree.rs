//! `tree`: draws a directory tree.

use std::collections::HashSet;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use ferroxfs::{DirEntry, Node};

use crate::cli::{GlobalOptions, TreeArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::node;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::colour;
use crate::terminal::console::Console;
use crate::terminal::names::NameStyle;
use crate::terminal::plural::counted;
use crate::terminal::tally::{Measure, Tally, Work};

struct Tree {
    arguments: TreeArguments,
    targets: ImagePaths,
}

/// Opens the image and returns the command, ready to run.
pub(crate) fn open(
    arguments: TreeArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if arguments.level == Some(0) {
        return Err(Failure::usage("tree: invalid level, must be greater than 0"));
    }
    let targets = ImagePaths::open(arguments.address.as_slice(), options)?;
    Ok(Box::new(Tree { arguments, targets }))
}

/// A directory whose entries are being drawn.
struct TreeLevel {
    /// The entries that are still to be drawn, in reverse order.
    entries: Vec<DirEntry>,
    /// Two lengths in bytes for the enclosing directory: those of its path and of its indent.
    outer: (usize, usize),
}

/// The facts about an entry that decide how it is drawn.
struct TreeEntry {
    kind: FileKind,
    /// Whether the entry is the last one of its directory.
    is_last: bool,
    depth: usize,
}

impl Run for Tree {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let targets = self.targets.read(console);
        let measure = Measure::of_targets(&targets, Measure::files_of_volume);
        let tally = console.begin_rows(Work::reading("listing", measure));
        for target in targets {
            let mut list = match self.arguments.json.json {
                true => Some(List::begin(console.out(), "entries")?),
                false => None,
            };
            match target.node(true) {
                Err(failure) => console.report(&failure),
                Ok(node) => {
                    let mut drawing = Drawing {
                        arguments: &self.arguments,
                        target: &target,
                        style: console.name_style(false),
                        list: list.as_mut(),
                        path: target.shown(),
                        indent: String::new(),
                        entered: HashSet::new(),
                        tally: &tally,
                        directories: 0,
                        files: 0,
                    };
                    drawing.draw(&node, console)?;
                }
            }
            if let Some(list) = list {
                list.end(console.out())?;
            }
        }
        console.end();
        Ok(())
    }
}

struct Drawing<'a> {
    arguments: &'a TreeArguments,
    target: &'a ImagePath,
    style: NameStyle,
    list: Option<&'a mut List>,
    /// The path of the innermost open directory. All levels share one path: with a path for each
    /// level, memory would grow with the square of the depth.
    path: Vec<u8>,
    /// The text before each line of the innermost open directory.
    indent: String,
    entered: HashSet<u64>,
    tally: &'a Tally,
    directories: u64,
    files: u64,
}

impl Drawing<'_> {
    fn draw(&mut self, root: &Node, console: &mut Console) -> Result<(), Failure> {
        if self.list.is_none() {
            let paint = paint(node::kind(root.file_type()), console);
            colour::write(console.out(), paint, &self.style.show(&self.path))?;
            writeln!(console.out())?;
        }
        let mut open = Vec::new();
        let outer = self.outer();
        open.extend(self.enter(root, console).map(|entries| TreeLevel { entries, outer }));
        loop {
            let depth = open.len();
            let Some(level) = open.last_mut() else { break };
            let Some(entry) = level.entries.pop() else {
                let (path, indent) = level.outer;
                self.leave(path, indent);
                open.pop();
                continue;
            };
            let is_last = level.entries.is_empty();
            let kind = entry.file_type().map_or(FileKind::Unknown, node::kind);
            self.line(&entry, TreeEntry { kind, is_last, depth }, console)?;
            self.tally.add_file();
            let below = self.arguments.level.is_none_or(|limit| depth < limit);
            if kind != FileKind::Directory {
                self.files += 1;
                continue;
            }
            self.directories += 1;
            if !below {
                continue;
            }
            let outer = self.outer();
            self.path = join(&self.path, entry.name().as_bytes());
            self.indent.push_str(if is_last { "    " } else { "│   " });
            let entries = match entry.node() {
                Ok(node) => self.enter(&node, console),
                Err(error) => {
                    console.report(&self.target.volume.failure(&self.path, error));
                    None
                }
            };
            match entries {
                Some(entries) => open.push(TreeLevel { entries, outer }),
                None => self.leave(outer.0, outer.1),
            }
        }
        if self.list.is_none() {
            let (directories, files) = (self.directories, self.files);
            writeln!(
                console.out(),
                "\n{}, {}",
                counted(directories, "directory"),
                counted(files, "file")
            )?;
        }
        Ok(())
    }

    fn outer(&self) -> (usize, usize) {
        (self.path.len(), self.indent.len())
    }

    /// Leaves the current directory: shortens the path to `path` bytes and the indent to `indent`
    /// bytes, which are the lengths for the enclosing directory.
    fn leave(&mut self, path: usize, indent: usize) {
        self.path.truncate(path);
        self.indent.truncate(indent);
    }

    /// Reads and sorts the entries of the directory at the current path. Returns `None` after a
    /// failure, which is reported.
    fn enter(&mut self, node: &Node, console: &mut Console) -> Option<Vec<DirEntry>> {
        let volume = &self.target.volume;
        if !self.entered.insert(node.number().0) {
            let failure = Failure::new(Exit::Corrupt, "the directory is its own ancestor");
            console.report(&volume.failure(&self.path, failure));
            return None;
        }
        let found = match node.entries() {
            Ok(found) => found,
            Err(error) => {
                console.report(&volume.failure(&self.path, error));
                return None;
            }
        };
        let mut entries = Vec::new();
        for entry in found {
            match entry {
                Ok(entry) if self.is_shown(&entry) => entries.push(entry),
                Ok(_) => {}
                Err(error) => console.report(&volume.failure(&self.path, error)),
            }
        }
        entries.sort_by(|a, b| b.name().cmp(a.name()));
        Some(entries)
    }

    fn is_shown(&self, entry: &DirEntry) -> bool {
        let is_hidden = entry.name().as_bytes().starts_with(b".");
        let is_directory = entry.file_type().map(node::kind) == Some(FileKind::Directory);
        (self.arguments.all || !is_hidden) && (is_directory || !self.arguments.directories)
    }

    fn line(
        &mut self,
        entry: &DirEntry,
        TreeEntry { kind, is_last, depth }: TreeEntry,
        console: &mut Console,
    ) -> io::Result<()> {
        let name = entry.name().as_bytes();
        if let Some(list) = &mut self.list {
            let mut object = Object::new();
            json::insert_name(&mut object, "path", &join(&self.path, name));
            object.insert("ino".to_owned(), entry.number().0.into());
            object.insert("type".to_owned(), json::kind_name(kind).into());
            object.insert("depth".to_owned(), depth.into());
            return list.push(console.out(), &object);
        }
        let paint = paint(kind, console);
        let out = console.out();
        write!(out, "{}{}", self.indent, if is_last { "└── " } else { "├── " })?;
        colour::write(out, paint, &self.style.show(name))?;
        out.write_all(b"\n")
    }
}

/// Returns the path of a name in a directory.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    [directory.strip_suffix(b"/").unwrap_or(directory), b"/", name].concat()
}

fn paint(kind: FileKind, console: &Console) -> &'static str {
    if console.is_coloured() { colour::of(kind, None) } else { "" }
}
