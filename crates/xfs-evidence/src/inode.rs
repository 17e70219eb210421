//! One inode of a damaged volume.
//!
//! Owns: reading an inode and checking it. Does **not** own: the forks.

use xfs_format::inode::{
    self, CORE_BYTES, ForkKind, INODE_MAGIC, INODE_VERSION, InodeCore, InodeDisk,
};
use xfs_format::{Corruption, DiskAddr, InodeNumber};
use zerocopy::FromBytes;

use crate::volume::{Damage, Evidence};

/// An inode as it was found: its raw bytes, and the result of the checks.
#[derive(Clone, Debug)]
pub struct InodeEvidence {
    /// The number under which the inode was read.
    pub number: InodeNumber,
    /// The raw bytes of the inode; empty if they could not be read.
    pub bytes: Vec<u8>,
    /// The result of the checks: whether the inode is sound, doubtful, free or gone.
    pub state: InodeState,
}

/// The result of the checks of an inode.
#[derive(Clone, Debug)]
pub enum InodeState {
    /// The inode is in use and passed all checks.
    Sound(InodeCore),
    /// The core fails the given check, but can be decoded (if the magic number is wrong, as if it
    /// were right). Its mode may be 0.
    Doubtful(InodeCore, Corruption),
    /// The inode is free and passed all checks.
    Free(InodeCore),
    /// There is no readable inode under this number.
    Gone(Absence),
}

/// The reason why there is no inode under a number.
#[derive(Clone, Debug)]
pub enum Absence {
    /// The number is outside the volume.
    OutsideVolume,
    /// The device could not read the inode.
    Unread(Damage),
    /// The bytes are not this inode: the magic number and another field that names the inode are
    /// wrong, a format byte is wrong, or the bytes are a copy of another inode.
    NotAnInode(Corruption),
}

impl InodeEvidence {
    /// Returns the core of an inode that is in use, whether the core passed its checks or not.
    /// Returns `None` for a free inode.
    #[must_use]
    pub const fn core(&self) -> Option<&InodeCore> {
        match &self.state {
            InodeState::Sound(core) => Some(core),
            InodeState::Doubtful(core, _) if core.mode != 0 => Some(core),
            _ => None,
        }
    }

    /// Returns the core of an inode, in use or free. Returns `None` if the core cannot be decoded.
    #[must_use]
    pub const fn any_core(&self) -> Option<&InodeCore> {
        match &self.state {
            InodeState::Sound(core) | InodeState::Doubtful(core, _) | InodeState::Free(core) => {
                Some(core)
            }
            InodeState::Gone(_) => None,
        }
    }

    /// Returns whether the inode is in use and passed all checks.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        matches!(self.state, InodeState::Sound(_))
    }

    /// Returns the bytes of a fork, or no bytes if the core cannot be decoded.
    #[must_use]
    pub fn fork(&self, kind: ForkKind) -> &[u8] {
        // Evidence is gathered on v5 volumes only. The version in a damaged inode says nothing.
        let fork = |core| inode::fork_after(CORE_BYTES, &self.bytes, core, kind);
        self.any_core().map_or(&[], fork)
    }
}

impl Evidence<'_> {
    /// Reads and checks one inode.
    #[must_use]
    pub fn inode(&self, number: InodeNumber) -> InodeEvidence {
        let geometry = self.geometry();
        let gone =
            |absence| InodeEvidence { number, bytes: Vec::new(), state: InodeState::Gone(absence) };
        let Some((group, in_group)) = geometry.split_inode(number) else {
            return gone(Absence::OutsideVolume);
        };
        let block = geometry.ag_block_disk_addr(group, geometry.ag_inode_block(in_group));
        let sectors = u64::from(geometry.inode_offset_in_block(in_group)) / 512;
        let mut bytes = vec![0; geometry.inode_size as usize];
        match self.read(DiskAddr(block.0 + sectors), &mut bytes) {
            Ok(()) => self.judge_inode(number, bytes),
            Err(damage) => gone(Absence::Unread(damage)),
        }
    }

    /// Checks the bytes of an inode, which the caller has read. Returns the bytes with the result.
    #[must_use]
    pub fn judge_inode(&self, number: InodeNumber, bytes: Vec<u8>) -> InodeEvidence {
        let state = match InodeCore::decode(&bytes, number, self.geometry()) {
            Err(corruption) => match self.decode_past_magic(number, &bytes) {
                Some(core) => InodeState::Doubtful(core, corruption),
                None => InodeState::Gone(Absence::NotAnInode(corruption)),
            },
            Ok(core) => match core.verify(&bytes, &self.context()) {
                Err(corruption) if self.is_copy_of_another(number, &bytes) => {
                    InodeState::Gone(Absence::NotAnInode(corruption))
                }
                Err(corruption) => InodeState::Doubtful(core, corruption),
                Ok(()) if core.is_free() => InodeState::Free(core),
                Ok(()) => InodeState::Sound(core),
            },
        };
        InodeEvidence { number, bytes, state }
    }

    /// Returns whether the contents of an inode are on a realtime device. On a volume without such
    /// a device, the realtime flag of an inode is an error and is ignored.
    #[must_use]
    pub fn is_realtime(&self, core: &InodeCore) -> bool {
        core.is_realtime() && self.superblock().has_realtime()
    }

    /// Returns whether `bytes`, which were read as inode `number`, are a copy of another inode, for
    /// example from a misdirected write. They are if their checksum is right, they state another
    /// number, and the inode with that number is in use and has the same (random) generation.
    #[must_use]
    pub fn is_copy_of_another(&self, number: InodeNumber, bytes: &[u8]) -> bool {
        let Ok((disk, _)) = InodeDisk::ref_from_prefix(bytes) else { return false };
        let other = InodeNumber(disk.number.get());
        if other == number || inode::verify_checksum(bytes).is_err() {
            return false;
        }
        let geometry = self.geometry();
        let Some(place) = geometry.inode_location(other) else { return false };
        let mut original = vec![0; geometry.inode_size as usize];
        let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
        let is_read = self.read(at, &mut original).is_ok();
        let core = InodeCore::decode(&original, other, geometry).ok();
        is_read
            && core.is_some_and(|core| {
                core.generation == disk.generation.get()
                    && !core.is_free()
                    && core.verify(&original, &self.context()).is_ok()
            })
    }

    /// Decodes an inode with a wrong magic number. Returns `None` unless the inode states its own
    /// number and the UUID of the volume.
    fn decode_past_magic(&self, number: InodeNumber, bytes: &[u8]) -> Option<InodeCore> {
        let mut bytes = bytes.to_vec();
        let (disk, _) = InodeDisk::mut_from_prefix(&mut bytes).ok()?;
        let is_this = disk.version == INODE_VERSION
            && disk.number.get() == number.0
            && disk.uuid == self.geometry().meta_uuid.into_bytes();
        disk.magic = INODE_MAGIC.into();
        if is_this { InodeCore::decode(&bytes, number, self.geometry()).ok() } else { None }
    }
}
