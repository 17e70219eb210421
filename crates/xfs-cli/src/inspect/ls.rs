//! `ls`: lists directories.

mod damaged;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use ferroxfs::Node;
use ferroxfs::attr::AclKind;

use crate::cli::{GlobalOptions, LsArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};
use crate::file::node;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::colour;
use crate::terminal::console::Console;
use crate::terminal::names::NameStyle;
use crate::terminal::tally::Work;
use crate::text::size;
use crate::text::time::Clock;

struct Ls {
    arguments: LsArguments,
    targets: ImagePaths,
    clock: Clock,
}

/// Opens the images and returns the command, ready to run.
pub(crate) fn open(
    mut arguments: LsArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    arguments.long |= arguments.numeric_uid_gid;
    if arguments.damaged {
        return damaged::open(arguments, options);
    }
    let targets = ImagePaths::open(&arguments.addresses, options)?;
    Ok(Box::new(Ls { arguments, targets, clock: Clock::open() }))
}

/// A line of a listing, for one entry of a directory.
struct ListingRow {
    name: Vec<u8>,
    inode: u64,
    /// The type of the file: from the directory entry, or from the inode if the inode has been
    /// read.
    kind: FileKind,
    facts: Option<Facts>,
    /// Whether the file has an access control list that its mode cannot express.
    has_list: bool,
    target: Option<Vec<u8>>,
}

/// A directory that is still to be listed.
struct Pending {
    path: Vec<u8>,
    node: Node,
}

impl Run for Ls {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { arguments, targets, clock } = *self;
        let targets = targets.read(console);
        console.begin_rows(Work::step("listing"));
        let needs_headings = arguments.recursive || targets.len() > 1;
        let style = console.name_style(arguments.list.null);
        let is_human = arguments.human_readable || console.is_terminal();
        let mut list = match arguments.list.json.json {
            true => Some(List::begin(console.out(), "entries")?),
            false => None,
        };
        let mut listing =
            Listing { arguments: &arguments, clock: &clock, style, is_human, list: list.as_mut() };
        let mut has_printed = false;
        for target in &targets {
            // As in ls(1), the long format shows a symbolic link itself, unless a slash follows.
            let node = match arguments.metadir {
                true => target.metadata_node(),
                false => target.node(!arguments.directory && !arguments.long),
            };
            match node {
                Err(failure) => console.report(&failure),
                Ok(node) if arguments.directory || !is_directory(&node) => {
                    let row = listing.row_of(target.shown(), &node, target, console);
                    listing.print(&[row], None, console)?;
                    has_printed = true;
                }
                Ok(node) => {
                    let heading = needs_headings.then_some(&mut has_printed);
                    listing.tree(target, node, heading, console)?;
                }
            }
        }
        console.end();
        match list {
            Some(list) => Ok(list.end(console.out())?),
            None => Ok(()),
        }
    }
}

/// The options of a listing, and its output.
struct Listing<'a> {
    arguments: &'a LsArguments,
    clock: &'a Clock,
    style: NameStyle,
    /// Whether sizes are shown with units, such as `1.5K`.
    is_human: bool,
    list: Option<&'a mut List>,
}

impl Listing<'_> {
    /// Lists a directory and, with `-R`, everything below it. `heading` is `None` if no path is
    /// printed above each list. Otherwise it says whether something was printed before, so that an
    /// empty line must come first.
    fn tree(
        &mut self,
        target: &ImagePath,
        node: Node,
        mut heading: Option<&mut bool>,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let mut pending = vec![Pending { path: target.shown(), node }];
        let mut entered = HashSet::new();
        while let Some(next) = pending.pop() {
            if !entered.insert(next.node.number()) {
                let failure = Failure::new(Exit::Corrupt, "the directory is its own ancestor");
                console.report(&target.volume.failure(&next.path, failure));
                continue;
            }
            if let Some(has_printed) = heading.as_deref_mut().filter(|_| self.list.is_none()) {
                self.print_heading(&next.path, *has_printed, console)?;
                *has_printed = true;
            }
            let below = self.directory(target, &next, console)?;
            if self.arguments.recursive {
                pending.extend(below.into_iter().rev());
            }
        }
        Ok(())
    }

    fn print_heading(
        &self,
        path: &[u8],
        has_printed: bool,
        console: &mut Console,
    ) -> io::Result<()> {
        let end = self.line_end();
        let shown = self.style.show(path);
        if has_printed {
            console.out().write_all(end)?;
        }
        console.out().write_all(&shown)?;
        console.out().write_all(b":")?;
        console.out().write_all(end)
    }

    /// Lists one directory. Returns the directories in it.
    fn directory(
        &mut self,
        target: &ImagePath,
        at: &Pending,
        console: &mut Console,
    ) -> Result<Vec<Pending>, Failure> {
        let entries = match at.node.entries() {
            Ok(entries) => entries,
            Err(error) => {
                console.report(&target.volume.failure(&at.path, error));
                return Ok(Vec::new());
            }
        };
        let (mut rows, mut below) = (self.dots(target, at, console), Vec::new());
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    console.report(&target.volume.failure(&at.path, error));
                    continue;
                }
            };
            let name = entry.name().as_bytes();
            if name.starts_with(b".") && !self.arguments.all && !self.arguments.almost_all {
                continue;
            }
            let kind = entry.file_type().map_or(FileKind::Unknown, node::kind);
            let mut row = ListingRow {
                name: name.to_vec(),
                inode: entry.number().0,
                kind,
                facts: None,
                has_list: false,
                target: None,
            };
            if self.needs_inodes(kind, console) {
                let path = join(&at.path, name);
                match entry.node() {
                    Err(error) => console.report(&target.volume.failure(&path, error)),
                    Ok(node) => {
                        row = self.row_of(row.name, &node, target, console);
                        if self.arguments.recursive && is_directory(&node) {
                            below.push(Pending { path, node });
                        }
                    }
                }
            }
            rows.push(row);
            if self.arguments.unsorted {
                self.print(&rows, Some(&at.path), console)?;
                rows.clear();
            }
        }
        if !self.arguments.unsorted {
            let row = |row: &ListingRow| self.key(|| row.facts);
            rows.sort_by(|a, b| row(a).cmp(&row(b)).then_with(|| a.name.cmp(&b.name)));
            let inner = |at: &Pending| self.key(|| Some(node::facts(&at.node)));
            below.sort_by(|a, b| inner(a).cmp(&inner(b)).then_with(|| a.path.cmp(&b.path)));
            if self.arguments.reverse {
                rows.reverse();
                below.reverse();
            }
            self.print_total(&rows, console)?;
            self.print(&rows, Some(&at.path), console)?;
        }
        Ok(below)
    }

    /// Returns the first sort key of a file. It is reversed, because times and sizes are sorted in
    /// descending order. Files with the same key are sorted by name.
    fn key(&self, facts: impl FnOnce() -> Option<Facts>) -> Reverse<i128> {
        let LsArguments { by_time, by_size, .. } = self.arguments;
        let facts = if *by_time || *by_size { facts() } else { None };
        Reverse(match facts {
            Some(facts) if *by_time => facts.modified.total_nanoseconds(),
            Some(facts) => i128::from(facts.size),
            None => 0,
        })
    }

    /// Returns whether the inode of an entry must be read to print the line of the entry.
    fn needs_inodes(&self, kind: FileKind, console: &Console) -> bool {
        self.arguments.long
            || self.list.is_some()
            || self.arguments.by_time
            || self.arguments.by_size
            || (self.arguments.recursive && kind == FileKind::Directory)
            || kind == FileKind::Unknown
            || (console.is_coloured() && kind == FileKind::Regular)
    }

    /// Returns the rows of `.` and `..`, which an XFS directory does not always store.
    fn dots(&self, target: &ImagePath, at: &Pending, console: &mut Console) -> Vec<ListingRow> {
        let mut rows = Vec::new();
        if !self.arguments.all || self.arguments.almost_all {
            return rows;
        }
        rows.push(self.row_of(b".".to_vec(), &at.node, target, console));
        match at.node.parent() {
            Ok(parent) => rows.push(self.row_of(b"..".to_vec(), &parent, target, console)),
            Err(error) => console.report(&target.volume.failure(&at.path, error)),
        }
        rows
    }

    fn row_of(
        &self,
        name: Vec<u8>,
        node: &Node,
        target: &ImagePath,
        console: &mut Console,
    ) -> ListingRow {
        let facts = node::facts(node);
        let mut link = None;
        if facts.kind() == FileKind::Symlink && (self.arguments.long || self.list.is_some()) {
            match node.read_link() {
                Ok(found) => link = Some(found.into_vec()),
                Err(error) => console.report(&target.volume.failure(&name, error)),
            }
        }
        let has_list = self.arguments.long && has_list(node);
        let (inode, kind) = (facts.inode, facts.kind());
        ListingRow { name, inode, kind, facts: Some(facts), has_list, target: link }
    }

    fn line_end(&self) -> &'static [u8] {
        if self.arguments.list.null { b"\0" } else { b"\n" }
    }

    /// Prints the space that the listed files use, as ls(1) does above a long listing.
    fn print_total(&self, rows: &[ListingRow], console: &mut Console) -> io::Result<()> {
        if !self.arguments.long || self.list.is_some() || self.arguments.list.null {
            return Ok(());
        }
        let blocks: u128 =
            rows.iter().flat_map(|row| row.facts).map(|f| u128::from(f.blocks)).sum();
        writeln!(console.out(), "total {}", blocks.div_ceil(2))
    }

    fn print(
        &mut self,
        rows: &[ListingRow],
        directory: Option<&[u8]>,
        console: &mut Console,
    ) -> io::Result<()> {
        if let Some(list) = &mut self.list {
            for row in rows {
                list.push(console.out(), &row_object(row, directory))?;
            }
            return Ok(());
        }
        let is_coloured = console.is_coloured();
        let widths = Widths::of(rows, self.is_human);
        for row in rows {
            let out = console.out();
            if self.arguments.inode {
                write!(out, "{:>1$} ", row.inode, widths.inode)?;
            }
            if self.arguments.long {
                out.write_all(self.long_columns(row, &widths).as_bytes())?;
            }
            let paint = if is_coloured { colour::of(row.kind, row.facts.as_ref()) } else { "" };
            colour::write(out, paint, &self.style.show(&row.name))?;
            if let Some(target) = row.target.as_ref().filter(|_| self.arguments.long) {
                out.write_all(b" -> ")?;
                out.write_all(&self.style.show(target))?;
            }
            out.write_all(self.line_end())?;
        }
        Ok(())
    }

    fn long_columns(&self, row: &ListingRow, widths: &Widths) -> String {
        let Some(facts) = &row.facts else {
            let mark = row.kind.ls_letter();
            return format!(
                "{mark}?????????{5} {0:>1$} {0:<2$} {0:<3$} {0:>4$} {0:>12} ",
                "?",
                widths.links,
                widths.uid,
                widths.gid,
                widths.size,
                widths.list_mark(false)
            );
        };
        format!(
            "{}{} {:>7$} {:<8$} {:<9$} {:>10$} {:>12} ",
            facts.mode_text(),
            widths.list_mark(row.has_list),
            facts.links,
            facts.uid,
            facts.gid,
            size_column(facts, self.is_human),
            self.clock.format_short(facts.modified),
            widths.links,
            widths.uid,
            widths.gid,
            widths.size,
        )
    }
}

/// The widths of the columns of a listing, in characters.
#[derive(Default)]
struct Widths {
    /// Whether some line has the mark of an access control list.
    has_lists: bool,
    inode: usize,
    links: usize,
    uid: usize,
    gid: usize,
    size: usize,
}

impl Widths {
    /// Returns the mark of an access control list after the permissions, as in ls(1).
    fn list_mark(&self, has_list: bool) -> &'static str {
        match (has_list, self.has_lists) {
            (true, _) => "+",
            (false, true) => " ",
            (false, false) => "",
        }
    }

    fn of(rows: &[ListingRow], human_readable: bool) -> Self {
        let mut widths = Self::default();
        let widen = |width: &mut usize, text: String| *width = text.len().max(*width);
        for row in rows {
            widths.has_lists |= row.has_list;
            widen(&mut widths.inode, row.inode.to_string());
            if let Some(facts) = &row.facts {
                widen(&mut widths.links, facts.links.to_string());
                widen(&mut widths.uid, facts.uid.to_string());
                widen(&mut widths.gid, facts.gid.to_string());
                widen(&mut widths.size, size_column(facts, human_readable));
            }
        }
        widths
    }
}

/// Returns whether a file has an access control list that its mode cannot express. A list that
/// cannot be read counts as missing here, because the command `getfacl` reports the failure.
fn has_list(node: &Node) -> bool {
    let is_there = |kind| matches!(node.acl(kind), Ok(Some(_)));
    is_there(AclKind::Access) || (is_directory(node) && is_there(AclKind::Default))
}

fn size_column(facts: &Facts, human_readable: bool) -> String {
    match facts.kind() {
        FileKind::BlockDevice | FileKind::CharDevice => {
            format!("{}, {}", facts.device.0, facts.device.1)
        }
        _ if human_readable => size::short(facts.size),
        _ => facts.size.to_string(),
    }
}

fn row_object(row: &ListingRow, directory: Option<&[u8]>) -> Object {
    let mut object = Object::new();
    match directory {
        None => json::insert_name(&mut object, "path", &row.name),
        Some(directory) => {
            json::insert_name(&mut object, "path", &join(directory, &row.name));
            json::insert_name(&mut object, "name", &row.name);
        }
    }
    match &row.facts {
        Some(facts) => object.extend(json::facts(facts)),
        None => _ = object.insert("ino".to_owned(), row.inode.into()),
    }
    if let Some(target) = &row.target {
        json::insert_name(&mut object, "target", target);
    }
    object
}

fn is_directory(node: &Node) -> bool {
    node::kind(node.file_type()) == FileKind::Directory
}

/// Returns the path of the entry `name` of a directory.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory.ends_with(b"/") {
        true => [directory, name].concat(),
        false => [directory, b"/", name].concat(),
    }
}
