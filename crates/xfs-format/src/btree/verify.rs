//! Functions that check one btree block by itself, without reading other blocks.

use core::mem::offset_of;

use super::{
    BtreeBlock, BtreeFormat, BtreeKind, Extents, LongHeaderDisk, PointerForm, ShortHeaderDisk,
};
use crate::addr::{AgBlock, AgNumber, DiskAddr, FsBlock};
use crate::checks::btree::BtreeCheck;
use crate::corruption::Check;
use crate::envelope::{self, Envelope};
use crate::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use crate::geometry::Geometry;
use crate::group::Group;
use crate::inode_chunk::{FreeInodeChunks, InodeChunks};
use crate::realtime::{RealtimeRefcounts, RealtimeReverseMap};
use crate::refcount::Refcounts;
use crate::rmap::ReverseMap;
use crate::verify_context::VerifyContext;

const SHORT_ENVELOPE: Envelope = Envelope {
    crc: offset_of!(ShortHeaderDisk, crc),
    uuid: offset_of!(ShortHeaderDisk, uuid),
    lsn: offset_of!(ShortHeaderDisk, lsn),
    block: Some(offset_of!(ShortHeaderDisk, address)),
};

const LONG_ENVELOPE: Envelope = Envelope {
    crc: offset_of!(LongHeaderDisk, crc),
    uuid: offset_of!(LongHeaderDisk, uuid),
    lsn: offset_of!(LongHeaderDisk, lsn),
    block: Some(offset_of!(LongHeaderDisk, address)),
};

pub(crate) const fn envelope_of(form: PointerForm) -> &'static Envelope {
    match form {
        PointerForm::Short => &SHORT_ENVELOPE,
        PointerForm::Long => &LONG_ENVELOPE,
    }
}

/// Checks a whole block of `kind` that was read from `at`.
pub(crate) fn verify(
    bytes: &[u8],
    kind: BtreeKind,
    at: DiskAddr,
    context: &VerifyContext<'_>,
) -> Result<(), Check> {
    let block = BtreeBlock::view(bytes, kind)?;
    envelope::verify_version(block.layout().version, context)?;
    envelope_of(block.layout().form).verify(bytes, at, context)?;
    let geometry = context.geometry;
    let (number, own) = geometry.split_disk_addr(at).ok_or(BtreeCheck::Outside)?;
    let group = Group::new(geometry, number).ok_or(BtreeCheck::Outside)?;
    let max = kind.max_levels(geometry);
    if block.level() >= max {
        return Err(BtreeCheck::Level { level: block.level(), max: max - 1 }.into());
    }
    verify_siblings(&block, &group, own)?;
    verify_pointers(&block, &group)?;
    match kind {
        BtreeKind::FreeSpaceByBlock => verify_entries::<FreeSpaceByBlock>(&block, &group),
        BtreeKind::FreeSpaceBySize => verify_entries::<FreeSpaceBySize>(&block, &group),
        BtreeKind::Inode => verify_entries::<InodeChunks>(&block, &group),
        BtreeKind::FreeInode => verify_entries::<FreeInodeChunks>(&block, &group),
        BtreeKind::ReverseMap => verify_entries::<ReverseMap>(&block, &group),
        BtreeKind::Refcount => verify_entries::<Refcounts>(&block, &group),
        BtreeKind::Extent => verify_entries::<Extents>(&block, &group),
        BtreeKind::RealtimeReverseMap => verify_entries::<RealtimeReverseMap>(&block, &group),
        BtreeKind::RealtimeRefcount => verify_entries::<RealtimeRefcounts>(&block, &group),
    }
}

fn block_exists(form: PointerForm, pointer: u64, group: &Group<'_>) -> bool {
    match form {
        PointerForm::Short => {
            u32::try_from(pointer).is_ok_and(|block| group.contains_block(AgBlock(block)))
        }
        PointerForm::Long => {
            let geometry = group.geometry();
            let split = geometry.split_block(FsBlock(pointer));
            split.is_some_and(|(_, block)| block.0 >= geometry.header_blocks())
        }
    }
}

fn verify_siblings(
    block: &BtreeBlock<'_>,
    group: &Group<'_>,
    own: AgBlock,
) -> Result<(), BtreeCheck> {
    let form = block.layout().form;
    let own = match form {
        PointerForm::Short => own.0.into(),
        PointerForm::Long => group.geometry().join_block(group.number(), own).0,
    };
    for sibling in [block.left_sibling(), block.right_sibling()].into_iter().flatten() {
        if sibling == own || !block_exists(form, sibling, group) {
            return Err(BtreeCheck::Sibling { sibling });
        }
    }
    Ok(())
}

fn verify_pointers(block: &BtreeBlock<'_>, group: &Group<'_>) -> Result<(), BtreeCheck> {
    if block.is_leaf() {
        return Ok(());
    }
    if block.count() == 0 {
        return Err(BtreeCheck::EmptyNode);
    }
    for index in 0..block.count() {
        let pointer = block.pointer(index).unwrap_or(u64::MAX);
        if !block_exists(block.layout().form, pointer, group) {
            return Err(BtreeCheck::Pointer { index, pointer });
        }
    }
    Ok(())
}

/// Checks the entries of the root of a btree of a realtime group, which lies in an inode. `root`
/// has the form of a whole block.
pub(crate) fn verify_root<F: BtreeFormat>(root: &[u8], geometry: &Geometry) -> Result<(), Check> {
    let block = BtreeBlock::view(root, F::KIND)?;
    let max = F::KIND.max_levels(geometry);
    if block.level() >= max {
        return Err(BtreeCheck::Level { level: block.level(), max: max - 1 }.into());
    }
    let group = Group::new(geometry, AgNumber(0)).ok_or(BtreeCheck::Outside)?;
    verify_pointers(&block, &group)?;
    verify_entries::<F>(&block, &group)
}

/// Checks every record of a leaf, or every key of a node, and their order.
fn verify_entries<F: BtreeFormat>(block: &BtreeBlock<'_>, group: &Group<'_>) -> Result<(), Check> {
    if !block.is_leaf() {
        return verify_keys::<F>(block).map_err(Check::from);
    }
    let mut previous: Option<F::Record> = None;
    for (index, bytes) in block.records().enumerate() {
        let record = F::decode_record(bytes, group)?;
        if previous.is_some_and(|previous| !F::may_follow(&record, &previous)) {
            return Err(BtreeCheck::Order { index }.into());
        }
        previous = Some(record);
    }
    Ok(())
}

fn verify_keys<F: BtreeFormat>(block: &BtreeBlock<'_>) -> Result<(), BtreeCheck> {
    let mut previous = None;
    for index in 0..block.count() {
        let key = block.key(index).and_then(F::decode_key);
        if previous >= key {
            return Err(BtreeCheck::Order { index });
        }
        let high = block.high_key(index).and_then(F::decode_key);
        if high.is_some() && high < key {
            return Err(BtreeCheck::HighKey { index });
        }
        previous = key;
    }
    Ok(())
}
