//! The differences between two views of one volume.

mod lines;

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};

use crate::ioctl::{ExtentFlags, FileExtent};
use crate::view::{InodeView, OpenAttributes, Time, Tree};

/// The inodes with an attribute change that was pending in the log at the crash. Each recovery
/// completes this change by itself. The kernel's recovery sets the inode's change time to the time
/// of the recovery. ferroxfs's recovery sets it to the time of the operation. Each recovery also
/// chooses the location of a new attribute block.
#[derive(Debug, Default)]
pub struct Resumed {
    /// The numbers of the inodes whose attribute change was pending.
    pub inodes: BTreeSet<u64>,
    /// The time at which the kernel's recovery began.
    pub since: Time,
}

/// A list of the differences between two views of a volume. Each difference is a sentence.
#[derive(Debug)]
pub struct Differences {
    found: Vec<String>,
    /// The names of the first and the second view.
    sides: [&'static str; 2],
}

impl Default for Differences {
    /// Creates an empty list of differences between the kernel and ferroxfs.
    fn default() -> Self {
        Self::of(["kernel", "we"])
    }
}

impl Differences {
    /// Creates an empty list of differences between two views with these names.
    pub fn of(sides: [&'static str; 2]) -> Self {
        Self { found: Vec::new(), sides }
    }

    /// Compares every inode of the kernel's tree with the same inode of ferroxfs's tree.
    pub fn between(kernel: &Tree, ours: &Tree) -> Self {
        Self::between_recovered(kernel, ours, &Resumed::default())
    }

    /// Compares the trees of a volume that the kernel and ferroxfs have recovered separately. The
    /// inodes in `resumed` may differ in their change time and in the place of attribute blocks.
    pub fn between_recovered(kernel: &Tree, ours: &Tree, resumed: &Resumed) -> Self {
        let mut differences = Self::default();
        differences.field("volume", "root", &kernel.root, &ours.root);
        for (number, node) in &kernel.nodes {
            match ours.nodes.get(number) {
                Some(other) => {
                    let since = resumed.inodes.contains(number).then_some(resumed.since);
                    differences.nodes(&place(*number, node), node, other, since);
                }
                None => {
                    differences.add(format!("{}: only the kernel has it", place(*number, node)))
                }
            }
        }
        for (number, node) in
            ours.nodes.iter().filter(|(number, _)| !kernel.nodes.contains_key(number))
        {
            differences.add(format!("{}: only we have it", place(*number, node)));
        }
        differences
    }

    /// Adds a difference that the caller found.
    pub fn add(&mut self, difference: String) {
        self.found.push(difference);
    }

    /// Adds a difference if the value of the field `name` differs between the kernel's view and
    /// ferroxfs's view. `place` names the inode in the report.
    pub fn field<T: PartialEq + Debug>(&mut self, place: &str, name: &str, kernel: &T, ours: &T) {
        if kernel != ours {
            let [right, other] = self.sides;
            self.add(format!(
                "{place}: {name}: {right} {}, {other} {}",
                short(kernel),
                short(ours)
            ));
        }
    }

    /// Returns the number of differences.
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// Returns success if there are no differences, and otherwise a report of the first ones.
    pub fn into_result(self) -> Result<(), String> {
        const SHOWN: usize = 40;
        if self.found.is_empty() {
            return Ok(());
        }
        let mut report = format!("{} differences from the {}\n", self.found.len(), self.sides[0]);
        for difference in self.found.iter().take(SHOWN) {
            report.push_str(difference);
            report.push('\n');
        }
        Err(report)
    }

    /// Compares two views of one inode. `place` names the inode in reports. `since` is the time at
    /// which the kernel's recovery began, for an inode that this recovery may have changed (see
    /// [`Resumed`]): then a later change time may differ. `since` is `None` for other inodes.
    fn nodes(&mut self, place: &str, kernel: &InodeView, ours: &InodeView, since: Option<Time>) {
        self.field(place, "paths", &escaped(&kernel.paths), &escaped(&ours.paths));
        self.field(place, "mode", &kernel.mode, &ours.mode);
        self.field(place, "links", &kernel.links, &ours.links);
        self.field(place, "uid", &kernel.uid, &ours.uid);
        self.field(place, "gid", &kernel.gid, &ours.gid);
        self.field(place, "size", &kernel.size, &ours.size);
        self.field(place, "blocks", &kernel.blocks, &ours.blocks);
        self.field(place, "access time", &kernel.accessed, &ours.accessed);
        self.field(place, "modification time", &kernel.modified, &ours.modified);
        if since.is_none_or(|since| kernel.changed < since) {
            self.field(place, "change time", &kernel.changed, &ours.changed);
        }
        self.field(place, "birth time", &kernel.born, &ours.born);
        self.field(place, "device", &kernel.device, &ours.device);
        self.field(place, "target", &kernel.target, &ours.target);
        self.field(place, "contents", &kernel.contents, &ours.contents);
        self.field(place, "entries", &kernel.entries, &ours.entries);
        self.field(place, "attributes", &kernel.attributes, &ours.attributes);
        match (&kernel.opened, &ours.opened) {
            (Some(kernel), Some(ours)) => self.opened(place, kernel, ours, since.is_some()),
            (None, None) => {}
            (kernel, ours) => self.field(place, "opened", &kernel.is_some(), &ours.is_some()),
        }
    }

    fn opened(
        &mut self,
        place: &str,
        kernel: &OpenAttributes,
        ours: &OpenAttributes,
        resumed: bool,
    ) {
        self.field(place, "flags", &kernel.flags, &ours.flags);
        self.field(place, "project", &kernel.project_id, &ours.project_id);
        self.field(place, "extent size", &kernel.extent_size, &ours.extent_size);
        self.field(place, "cow extent size", &kernel.cow_extent_size, &ours.cow_extent_size);
        self.field(place, "extent count", &kernel.extent_count, &ours.extent_count);
        let (kernel_map, our_map) = (merged(&kernel.extents), merged(&ours.extents));
        self.field(place, "extents", &kernel_map, &our_map);
        if !resumed {
            let kernel_map = merged(&kernel.attribute_extents);
            let our_map = merged(&ours.attribute_extents);
            self.field(place, "attribute extents", &kernel_map, &our_map);
        }
    }
}

/// Returns the extents, with adjacent extents of one kind joined. So two maps that divide the same
/// mapping differently are equal.
fn merged(extents: &[FileExtent]) -> Vec<FileExtent> {
    let kinds = ExtentFlags::UNWRITTEN | ExtentFlags::SHARED | ExtentFlags::DELAYED;
    let mut merged: Vec<FileExtent> = Vec::new();
    for extent in extents {
        let extent = FileExtent { flags: extent.flags & kinds, ..*extent };
        match merged.last_mut() {
            Some(last)
                if last.offset.checked_add(last.length) == Some(extent.offset)
                    && last.address.checked_add(last.length) == Some(extent.address)
                    && last.flags == extent.flags =>
            {
                last.length += extent.length;
            }
            _ => merged.push(extent),
        }
    }
    merged
}

fn place(number: u64, node: &InodeView) -> String {
    let path = node.paths.first().map(|path| path.escape_ascii().to_string()).unwrap_or_default();
    let mut shown: String = path.chars().take(80).collect();
    let _ = write!(shown, " (inode {number})");
    shown
}

fn escaped(paths: &[Vec<u8>]) -> Vec<String> {
    paths.iter().map(|path| path.escape_ascii().to_string()).collect()
}

/// Returns a value as text, which is cut off if it is very long.
fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(900) {
        Some((end, _)) => text.get(..end).map(|head| format!("{head}…")).unwrap_or_default(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
