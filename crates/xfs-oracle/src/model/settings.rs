//! The model's rules for mode, owner, times, flags and hints.

use rustix::fs::FileType;
use rustix::io::Errno;

use super::operation::{Abilities, NodeSettings, Operation, Outcome};
use super::{Answer, Model, NodeId, Stamp};
use crate::ioctl::FileFlags;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;
const PERMISSIONS: u32 = 0o7777;

impl Model {
    pub(super) fn perform_on_settings(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::ChangeMode { path, mode } => {
                let id = self.changeable(path)?;
                if self.node(id)?.kind() == FileType::Symlink {
                    return Err(Errno::OPNOTSUPP);
                }
                let node = self.change(id)?;
                node.mode = node.mode & !PERMISSIONS | mode & PERMISSIONS;
                node.limit_list();
            }
            Operation::ChangeOwner { path, uid, gid } => {
                let id = self.changeable(path)?;
                let node = self.change(id)?;
                (node.uid, node.gid) = (*uid, *gid);
                if !node.is_directory() {
                    node.mode &= !SET_USER_ID;
                    if node.mode & GROUP_EXECUTE != 0 {
                        node.mode &= !SET_GROUP_ID;
                    }
                }
            }
            Operation::SetTimes { path, accessed, modified } => {
                let id = self.lookup(path)?;
                if accessed.is_none() && modified.is_none() {
                    return Ok(Outcome::Done);
                }
                if self.node(id)?.is_fixed() {
                    return Err(Errno::PERM);
                }
                let node = self.change(id)?;
                node.accessed = accessed.map_or(node.accessed, Stamp::Set);
                node.modified = modified.map_or(node.modified, Stamp::Set);
            }
            Operation::SetFlags { path, settings } => return self.set_flags(path, settings),
            _ => return Err(Errno::INVAL),
        }
        Ok(Outcome::Done)
    }

    fn changeable(&self, path: &str) -> Result<NodeId, Errno> {
        let id = self.lookup(path)?;
        if self.node(id)?.is_fixed() { Err(Errno::PERM) } else { Ok(id) }
    }

    fn set_flags(&mut self, path: &str, settings: &NodeSettings) -> Answer {
        let id = self.lookup(path)?;
        let node = self.node(id)?;
        match node.kind() {
            FileType::RegularFile | FileType::Directory => {}
            FileType::Symlink => return Err(Errno::LOOP),
            _ => return Err(Errno::NOTTY),
        }
        let settings = self.checked(*settings, node)?;
        self.change(id)?.settings = settings;
        Ok(Outcome::Done)
    }

    /// Returns the settings to store: an extent size hint becomes 0 if the flag for it is missing.
    /// Returns an error if the node may not have these settings.
    fn checked(
        &self,
        mut settings: NodeSettings,
        node: &super::Node,
    ) -> Result<NodeSettings, Errno> {
        let is_directory = node.is_directory();
        let flags = settings.flags;
        let for_directories = FileFlags::EXTENT_SIZE_INHERIT
            | FileFlags::PROJECT_INHERIT
            | FileFlags::REALTIME_INHERIT
            | FileFlags::NOSYMLINKS;
        let is_realtime = flags.contains(FileFlags::REALTIME);
        if is_realtime && (is_directory || self.features.section.is_none()) {
            return Err(Errno::INVAL);
        }
        // Only a file without extents can move to the realtime section, or back.
        if is_realtime != node.is_realtime() && node.has_space {
            return Err(Errno::INVAL);
        }
        if flags.contains(FileFlags::EXTENT_SIZE) && is_directory
            || flags.contains(FileFlags::EXTENT_SIZE_INHERIT) && !is_directory
        {
            return Err(Errno::INVAL);
        }
        let copies = self.features.abilities.contains(Abilities::REFLINK);
        let has_flags = [
            flags.intersects(FileFlags::EXTENT_SIZE | FileFlags::EXTENT_SIZE_INHERIT),
            flags.contains(FileFlags::COW_EXTENT_SIZE) && copies,
        ];
        let hints = [settings.extent_size, settings.cow_extent_size];
        if hints.iter().any(|hint| u64::from(*hint) % self.features.block_bytes != 0) {
            return Err(Errno::INVAL);
        }
        if hints.iter().zip(has_flags).any(|(hint, has_flag)| *hint != 0 && !has_flag) {
            return Err(Errno::INVAL);
        }
        if node.has_space && settings.extent_size != node.settings.extent_size {
            return Err(Errno::INVAL);
        }
        let hands_on = is_directory && flags.contains(FileFlags::REALTIME_INHERIT);
        let is_misfit = |hint: u32| {
            (hands_on || is_realtime)
                && !u64::from(hint).is_multiple_of(self.features.realtime_extent_bytes())
        };
        if is_misfit(settings.extent_size) {
            return Err(Errno::INVAL);
        }
        if settings.extent_size == 0 {
            settings.flags -= FileFlags::EXTENT_SIZE | FileFlags::EXTENT_SIZE_INHERIT;
        }
        // A misfit is not an error.
        if is_misfit(settings.cow_extent_size) {
            settings.cow_extent_size = 0;
        }
        if settings.cow_extent_size == 0 {
            settings.flags -= FileFlags::COW_EXTENT_SIZE;
        }
        if !is_directory {
            settings.flags -= for_directories;
        }
        // Only fallocate sets this flag.
        settings.flags -= FileFlags::PREALLOCATED;
        settings.flags |= node.settings.flags & FileFlags::PREALLOCATED;
        Ok(settings)
    }
}
