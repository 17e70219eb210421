//! Rule *symlink*: writes the blocks of a symbolic link's target again.
//!
//! The target has no second copy. If the header of a block shows that it belongs to the link, the
//! bytes of the block are kept, even if the checksum is wrong; the report then says so. Otherwise
//! the target is lost from that block on.

use xfs_check::{Area, Code, Place};
use xfs_evidence::is_block_of_symlink;
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore};
use xfs_format::symlink::{MAX_TARGET_BYTES, SYMLINK_HEADER_BYTES, SymlinkBlock, encode_header};
use xfs_format::{BlockKind, Geometry, InodeNumber};

use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::model::Model;
use crate::patient::Patient;

/// The target that a symbolic link gets if no byte of its target is left.
const NOTHING_LEFT: &[u8] = b"target-lost";

/// The most bytes that one block of a target takes on disk: a header and 1024 bytes, rounded up to
/// whole filesystem blocks.
const MOST_PART_BYTES: u64 = 64 << 10;

/// Writes the symbolic links with findings again.
///
/// # Errors
///
/// The error of the overlay, in which a repair collects its writes.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    let mut model = None;
    for inode in damage.inodes.keys() {
        let codes: Vec<Code> = damage.codes_of(*inode);
        if codes.iter().any(|code| code.area() == Area::Symlink) {
            // No link depends on another one, so one model does for all.
            let known = match model.take() {
                Some(known) => known,
                None => patient.model()?,
            };
            let model = model.insert(known).clone();
            patient.attempt(|patient| repair(patient, &model, *inode, codes))?;
        }
    }
    Ok(())
}

fn repair(
    patient: &mut Patient,
    model: &Model,
    inode: InodeNumber,
    codes: Vec<Code>,
) -> Result<(), RepairError> {
    let Some(core) = model.core(inode) else { return Ok(()) };
    if core.file_type() != Some(FileType::Symlink) {
        return Ok(());
    }
    let extents = model.inodes.get(&inode).map_or(&[][..], |known| &known.data.extents);
    let target = LinkTarget::read(patient, core, extents);
    // Sound blocks know the length of the target too. The size of the inode may be wrong.
    let has_length = target.bytes.len() as u64 == core.size || target.is_sound;
    let is_whole = has_length && !target.bytes.is_empty();
    if !is_whole && !patient.allows_loss() {
        return Ok(());
    }
    let size = target.length();
    if core.data_format == ForkFormat::Local
        && size > patient.fork_room(inode, ForkKind::Data) as u64
    {
        return Ok(());
    }
    let freed = match put_target(patient, inode, extents, &target)? {
        true => &[][..],
        false => extents,
    };
    patient.set_inode(inode, |core| core.size = size)?;
    let place = Place::of_inode(inode, patient.geometry());
    let action = Action::new("symlink", place, codes, target.describe());
    patient.act(match is_whole {
        true => action,
        false => action
            .losing(Some(inode), "the rest of the target of the link")
            .losing_extents(patient.geometry(), freed),
    });
    Ok(())
}

/// Writes a target into an inode, whose size the caller sets. The target is stored in the fork if
/// it fits, and otherwise in the blocks `extents`. Returns whether it was stored in these blocks.
///
/// # Errors
///
/// [`RepairError::NoSpace`] if the map of the blocks needs a block and none is free.
pub(super) fn put_target(
    patient: &mut Patient,
    inode: InodeNumber,
    extents: &[Extent],
    target: &LinkTarget,
) -> Result<bool, RepairError> {
    let bytes = target.bytes_or_mark();
    if bytes.len() <= patient.fork_room(inode, ForkKind::Data) {
        let contents = ForkContents::Local(bytes.to_vec());
        patient.set_fork(inode, ForkKind::Data, contents)?;
        return Ok(false);
    }
    let found = patient.evidence().inode(inode);
    if patient.evidence().extents(&found, ForkKind::Data).extents != extents {
        let contents = ForkContents::Extents(extents.to_vec());
        patient.set_fork(inode, ForkKind::Data, contents)?;
    }
    write_blocks(patient, inode, extents, bytes)?;
    Ok(true)
}

/// The part of a link's target that can still be read.
pub(super) struct LinkTarget {
    bytes: Vec<u8>,
    /// Whether the target is in blocks outside of the inode, and all these blocks pass their
    /// checks.
    is_sound: bool,
}

impl LinkTarget {
    fn read(patient: &Patient, core: &InodeCore, extents: &[Extent]) -> Self {
        let mut target = Self { bytes: Vec::new(), is_sound: !extents.is_empty() };
        if core.data_format == ForkFormat::Local {
            let found = patient.evidence().inode(core.number);
            let size = usize::try_from(core.size).unwrap_or(usize::MAX);
            target.bytes = found.fork(ForkKind::Data).iter().copied().take(size).collect();
        }
        target.read_blocks(patient, core.number, extents, core.size);
        target
    }

    /// Reads the target of a link whose inode is destroyed, from the blocks that the reverse map
    /// knows. The length is in the headers of these blocks.
    pub(super) fn of_lost_inode(
        patient: &Patient,
        number: InodeNumber,
        extents: &[Extent],
    ) -> Self {
        let mut target = Self { bytes: Vec::new(), is_sound: !extents.is_empty() };
        target.read_blocks(patient, number, extents, MAX_TARGET_BYTES.into());
        target
    }

    /// Reads the parts of the target in `extents`. `size` is the length of the whole target, or the
    /// greatest possible one.
    fn read_blocks(
        &mut self,
        patient: &Patient,
        owner: InodeNumber,
        extents: &[Extent],
        size: u64,
    ) {
        for extent in extents {
            let rest = size.saturating_sub(self.bytes.len() as u64);
            let Some(part) = self.part(patient, owner, extent, rest) else {
                self.is_sound = false;
                break;
            };
            self.bytes.extend(part);
        }
        let end = self.bytes.iter().position(|byte| *byte == 0);
        self.bytes.truncate(end.unwrap_or(self.bytes.len()).min(MAX_TARGET_BYTES as usize));
    }

    /// Returns the bytes that the link gets: those that are left of its target, or the text
    /// [`NOTHING_LEFT`] if there are none.
    fn bytes_or_mark(&self) -> &[u8] {
        if self.bytes.is_empty() { NOTHING_LEFT } else { &self.bytes }
    }

    /// Returns the size that the inode of the link gets.
    pub(super) fn length(&self) -> u64 {
        self.bytes_or_mark().len() as u64
    }

    /// Returns whether the whole target is known, because all its blocks are sound.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_sound && !self.bytes.is_empty()
    }

    /// Returns the part of the target that is kept, in words.
    pub(super) fn describe(&self) -> String {
        let is_doubtful = !self.is_sound && !self.bytes.is_empty();
        let doubt = if is_doubtful { "; their block is damaged, so they may be wrong" } else { "" };
        format!("{} bytes of the target{doubt}", self.bytes.len())
    }

    /// Returns the next bytes of the target, those in the block at the start of `extent`. `rest` is
    /// the number of bytes that are still missing. Returns `None` if the block does not belong to
    /// the link.
    fn part(
        &mut self,
        patient: &Patient,
        owner: InodeNumber,
        extent: &Extent,
        rest: u64,
    ) -> Option<Vec<u8>> {
        let geometry = patient.geometry();
        let at = geometry.block_disk_addr(extent.start)?;
        let mut bytes = vec![0; buffer_bytes(geometry, extent)?];
        if !patient.can_read(at, &mut bytes) || !is_block_of_symlink(&bytes, owner, at, geometry) {
            return None;
        }
        if BlockKind::Symlink.verify(&bytes, at, &patient.context()).is_ok()
            && let Ok(block) = SymlinkBlock::decode(&bytes, at)
        {
            return Some(block.target.to_vec());
        }
        self.is_sound = false;
        let rest = usize::try_from(rest).ok()?;
        Some(bytes.into_iter().skip(SYMLINK_HEADER_BYTES).take(rest).collect())
    }
}

fn buffer_bytes(geometry: &Geometry, extent: &Extent) -> Option<usize> {
    let bytes = geometry.blocks_to_bytes(extent.length_blocks.into())?;
    usize::try_from(bytes).ok().filter(|_| bytes <= MOST_PART_BYTES)
}

/// Writes a target into the blocks that the link has.
fn write_blocks(
    patient: &mut Patient,
    owner: InodeNumber,
    extents: &[Extent],
    target: &[u8],
) -> Result<(), RepairError> {
    let geometry = patient.geometry().clone();
    let mut done = 0;
    for extent in extents {
        let (Some(at), Some(length)) =
            (geometry.block_disk_addr(extent.start), buffer_bytes(&geometry, extent))
        else {
            return Ok(());
        };
        let part: Vec<u8> =
            target.iter().copied().skip(done).take(length - SYMLINK_HEADER_BYTES).collect();
        let field = |value: usize| u32::try_from(value).expect("a target has at most 1024 bytes");
        let head = encode_header(&geometry, owner, at, field(done), field(part.len()));
        done += part.len();
        let mut bytes = head.to_vec();
        bytes.extend(part);
        bytes.resize(length, 0);
        BlockKind::Symlink.seal(&mut bytes, patient.lsn());
        patient.write(at, &bytes)?;
    }
    Ok(())
}
