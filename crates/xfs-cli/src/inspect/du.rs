//! `du`: adds up the space that files use.
//!
//! A block counts once, at the first name that leads to the block. So a file with several names
//! counts at the first name, and a shared block counts at the first file that has it. With
//! `--shared`, the space that was left out for these reasons is also shown. With `--apparent-size`,
//! lengths are added up.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use ferroxfs::contents::ForkKind;
use ferroxfs::raw::format::inode::InodeFlags2;
use ferroxfs::{Node, Walk, WalkEntry};

use crate::cli::{DuArguments, GlobalOptions};
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::node;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::tally::{Measure, Tally, Work};
use crate::text::size;

struct Du {
    arguments: DuArguments,
    targets: ImagePaths,
}

/// Opens the images and returns the command, ready to run.
pub(crate) fn open(
    arguments: DuArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = ImagePaths::open(&arguments.addresses, options)?;
    Ok(Box::new(Du { arguments, targets }))
}

/// The space of one file, or of everything below a directory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    /// The bytes that are counted at this file. Bytes that were counted at an earlier file, such as
    /// those of a hard link, are left out.
    used: u64,
    /// The part of `used` that is shared with another file.
    shared: u64,
    /// Bytes that are not counted at this file, because their shared blocks were counted at an
    /// earlier file.
    shared_before: u64,
    /// Bytes that are not counted here, because the file was counted at another of its names.
    linked_before: u64,
}

impl Usage {
    fn add(&mut self, other: Self) {
        self.used = self.used.saturating_add(other.used);
        self.shared = self.shared.saturating_add(other.shared);
        self.shared_before = self.shared_before.saturating_add(other.shared_before);
        self.linked_before = self.linked_before.saturating_add(other.linked_before);
    }
}

impl Run for Du {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { arguments, targets } = *self;
        let mut list = match arguments.list.json.json {
            true => Some(List::begin(console.out(), "usage")?),
            false => None,
        };
        let mut volumes: HashMap<PathBuf, CountedSpace> = HashMap::new();
        let targets = targets.read(console);
        let measure = Measure::of_targets(&targets, Measure::files_of_volume);
        let work = Work::reading("adding up", measure);
        // With -s nothing is printed until the end.
        let tally = match arguments.summarize {
            true => console.begin(work),
            false => console.begin_rows(work),
        };
        for target in targets {
            match target.volume.inner().walk(&target.path) {
                Err(error) => console.report(&target.failure(error)),
                Ok(walk) => {
                    let image = target.volume.path().to_owned();
                    let counted = volumes.entry(image).or_default();
                    let (arguments, target) = (&arguments, &target);
                    let tally = Arc::clone(&tally);
                    let mut count = Count { arguments, target, below: Vec::new(), counted, tally };
                    count.run(walk.contents_first(), list.as_mut(), console)?;
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

/// The inodes and the shared space of one volume that have already been counted, so that they are
/// not counted again.
#[derive(Default)]
struct CountedSpace {
    /// Inodes with several names that have been counted.
    inodes: HashSet<u64>,
    /// Shared space that has been counted, as ranges of bytes on the device.
    ranges: RangeSet,
}

/// The count of everything below one address (`IMAGE:/path`) of the command line.
struct Count<'a> {
    arguments: &'a DuArguments,
    target: &'a ImagePath,
    /// The usage below each open directory so far, by the depth of the directory.
    below: Vec<Usage>,
    counted: &'a mut CountedSpace,
    tally: Arc<Tally>,
}

impl Count<'_> {
    fn run(
        &mut self,
        walk: Walk,
        mut list: Option<&mut List>,
        console: &mut Console,
    ) -> Result<(), Failure> {
        for item in walk {
            match item {
                Err(error) => {
                    let path = error.path.as_os_str().as_bytes();
                    console.report(&self.target.volume.failure(path, error.source));
                }
                Ok(entry) => {
                    let usage = self.count(&entry, console);
                    self.tally.add_file();
                    let is_directory = node::kind(entry.node.file_type()) == FileKind::Directory;
                    if self.is_shown(&entry, is_directory) {
                        self.print(&entry, usage, list.as_deref_mut(), console)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the usage of this file and everything below it, and adds it to the usage of the
    /// enclosing directory.
    fn count(&mut self, entry: &WalkEntry, console: &mut Console) -> Usage {
        let mut usage = self.own(&entry.node, entry, console);
        if let Some(below) = self.below.get_mut(entry.depth + 1) {
            usage.add(std::mem::take(below));
        }
        if self.below.len() <= entry.depth {
            self.below.resize(entry.depth + 1, Usage::default());
        }
        if let Some(above) = self.below.get_mut(entry.depth) {
            above.add(usage);
        }
        usage
    }

    fn own(&mut self, node: &Node, entry: &WalkEntry, console: &mut Console) -> Usage {
        let facts = node::facts(node);
        let is_apparent = self.arguments.apparent_size;
        let used = if is_apparent { facts.size } else { facts.blocks.saturating_mul(512) };
        let is_directory = facts.kind() == FileKind::Directory;
        if facts.links > 1 && !is_directory && !self.counted.inodes.insert(facts.inode) {
            return Usage { linked_before: used, ..Usage::default() };
        }
        let mut usage = Usage { used, ..Usage::default() };
        // Sharing does not affect lengths.
        if is_apparent || !node.inode().core().flags2.contains(InodeFlags2::REFLINK) {
            return usage;
        }
        for extent in node.extents(ForkKind::Data) {
            match extent {
                Err(error) => {
                    let path = entry.path.as_os_str().as_bytes();
                    console.report(&self.target.volume.failure(path, error));
                }
                Ok(extent) if extent.shared => {
                    let start = extent.device_offset_bytes;
                    let end = start.saturating_add(extent.length_bytes);
                    let new = self.counted.ranges.insert(start, end);
                    usage.shared += new;
                    usage.shared_before += extent.length_bytes.saturating_sub(new);
                }
                Ok(_) => {}
            }
        }
        usage.used = usage.used.saturating_sub(usage.shared_before);
        usage
    }

    fn is_shown(&self, entry: &WalkEntry, is_directory: bool) -> bool {
        let limit = if self.arguments.summarize { Some(0) } else { self.arguments.max_depth };
        entry.depth == 0
            || ((is_directory || self.arguments.all)
                && limit.is_none_or(|limit| entry.depth <= limit))
    }

    fn print(
        &self,
        entry: &WalkEntry,
        usage: Usage,
        list: Option<&mut List>,
        console: &mut Console,
    ) -> io::Result<()> {
        let path = [&self.target.prefix, entry.path.as_os_str().as_bytes()].concat();
        if let Some(list) = list {
            let mut object = Object::new();
            json::insert_name(&mut object, "path", &path);
            if self.arguments.apparent_size {
                object.insert("size_bytes".to_owned(), usage.used.into());
                return list.push(console.out(), &object);
            }
            object.insert("used_bytes".to_owned(), usage.used.into());
            object.insert("shared_bytes".to_owned(), usage.shared.into());
            object.insert("shared_before_bytes".to_owned(), usage.shared_before.into());
            object.insert("linked_before_bytes".to_owned(), usage.linked_before.into());
            return list.push(console.out(), &object);
        }
        let (null, bytes) = (self.arguments.list.null, self.arguments.bytes);
        let human_readable = self.arguments.human_readable || console.is_terminal();
        let unit = |size: u64| match (bytes, human_readable) {
            (true, _) => size.to_string(),
            (_, true) => size::short(size),
            _ => size.div_ceil(1024).to_string(),
        };
        let style = console.name_style(null);
        let out = console.out();
        write!(out, "{}", unit(usage.used))?;
        if self.arguments.shared {
            let columns = [usage.shared, usage.shared_before, usage.linked_before].map(unit);
            let [shared, shared_before, linked_before] = columns;
            write!(out, "\t{shared}\t{shared_before}\t{linked_before}")?;
        }
        out.write_all(b"\t")?;
        out.write_all(&style.show(&path))?;
        out.write_all(if null { b"\0" } else { b"\n" })
    }
}

/// A set of numbers as disjoint ranges, from the start of each range to its end.
#[derive(Debug, Default)]
struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds a range to the set. Returns how many numbers of the range were not in the set before.
    fn insert(&mut self, start: u64, end: u64) -> u64 {
        let (mut joined_start, mut joined_end, mut known) = (start, end, 0u64);
        // Ranges are disjoint. So going back from the end, the first range that ends before the
        // start is past all ranges that touch the new one.
        while let Some((&other_start, &other_end)) = self.0.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            let overlap_end = other_end.min(end);
            known = known.saturating_add(overlap_end.saturating_sub(other_start.max(start)));
            joined_start = joined_start.min(other_start);
            joined_end = joined_end.max(other_end);
            self.0.remove(&other_start);
        }
        self.0.insert(joined_start, joined_end);
        end.saturating_sub(start).saturating_sub(known)
    }
}

#[cfg(test)]
mod tests;
