//! Generates random flags and extent size hints of files.

use super::{Generator, WantedNode};
use crate::ioctl::FileFlags;
use crate::model::operation::{NodeSettings, Operation, SLOTS};
use crate::model::{Body, Model, Node};

/// Flags that any file may have.
const FLAGS: [FileFlags; 7] = [
    FileFlags::NODUMP,
    FileFlags::NOATIME,
    FileFlags::NODEFRAG,
    FileFlags::SYNC,
    FileFlags::APPEND,
    FileFlags::IMMUTABLE,
    FileFlags::empty(),
];

/// Returns whether a file certainly has extents, because some of its bytes are not zero.
fn has_extents(node: &Node) -> bool {
    node.contents().is_some_and(|bytes| bytes.sectors().next().is_some())
}

impl Generator {
    pub(super) fn set_flags(&mut self, model: &Model) -> Option<Operation> {
        let path = self.existing(model, WantedNode::Openable)?;
        let id = model.lookup(&path).ok()?;
        let node = model.node(id).ok()?;
        if matches!(node.body, Body::Symlink(_)) {
            return None;
        }
        let mut settings = NodeSettings { flags: self.choose(&FLAGS)?, ..NodeSettings::default() };
        // An open file ignores new flags, and a fixed file must soon be changeable again.
        let is_open = (0..SLOTS).any(|slot| model.slot(slot) == Some(id));
        if is_open || node.is_fixed() {
            settings.flags = FileFlags::empty();
        }
        if self.chance(3) {
            settings.project_id = self.random.below(3) as u32;
        }
        if node.is_directory() {
            self.directory_settings(model, &mut settings);
        }
        self.realtime_flags(model, node, &mut settings);
        // Volumes without reflink refuse the flag, unless the hint is 0.
        if self.chance(6) {
            settings.flags |= FileFlags::COW_EXTENT_SIZE;
            settings.cow_extent_size = self.hint(model, 20);
        }
        if matches!(node.body, Body::File(_)) {
            self.file_hint(model, node, &mut settings);
        }
        // A hint without its flag is refused.
        if self.chance(40) {
            settings.flags -= FileFlags::COW_EXTENT_SIZE
                | FileFlags::EXTENT_SIZE
                | FileFlags::EXTENT_SIZE_INHERIT;
        }
        Some(Operation::SetFlags { path, settings })
    }

    /// Returns an extent size hint in bytes, of fewer than `blocks` blocks. In most cases it is a
    /// multiple of the block size.
    fn hint(&mut self, model: &Model, blocks: u64) -> u32 {
        let hint = self.random.below(blocks) * model.features().block_bytes;
        if self.chance(15) { hint as u32 + 1 } else { hint as u32 }
    }

    /// Sets the flags for the realtime section. Without a section, directories may have the inherit
    /// flag, and files may not have the flag.
    fn realtime_flags(&mut self, model: &Model, node: &Node, settings: &mut NodeSettings) {
        if model.features().section.is_none() {
            if self.chance(10) {
                settings.flags |= FileFlags::REALTIME_INHERIT;
            }
            if self.chance(40) {
                settings.flags |= FileFlags::REALTIME;
            }
            return;
        }
        if node.is_directory() {
            // Most files lie in the section.
            settings.flags.set(FileFlags::REALTIME_INHERIT, !self.chance(5));
            return;
        }
        let may_change = if has_extents(node) { self.chance(20) } else { !node.has_space };
        let moves = may_change && self.chance(3);
        settings.flags.set(FileFlags::REALTIME, node.is_realtime() != moves);
    }

    fn file_hint(&mut self, model: &Model, node: &Node, settings: &mut NodeSettings) {
        let flag = FileFlags::EXTENT_SIZE;
        // A file with extents keeps its hint. A file that lost its contents may have none.
        let may_change = if has_extents(node) { self.chance(20) } else { !node.has_space };
        if may_change && self.chance(2) {
            settings.flags |= flag;
            settings.extent_size = self.hint(model, 40);
        } else if node.settings.flags.contains(flag) {
            settings.flags |= flag;
            settings.extent_size = node.settings.extent_size;
        }
    }

    fn directory_settings(&mut self, model: &Model, settings: &mut NodeSettings) {
        if self.chance(6) {
            settings.flags |= FileFlags::PROJECT_INHERIT;
        }
        if self.chance(8) {
            settings.flags |= FileFlags::NOSYMLINKS;
        }
        if self.chance(4) {
            settings.flags |= FileFlags::EXTENT_SIZE_INHERIT;
            settings.extent_size = self.hint(model, 40);
        }
    }
}
