//! Replay of buffers and roots that belong to the realtime section: bitmap, summary, and the btrees
//! of realtime groups.
//!
//! Owns: writing the logged bytes over these blocks, and the roots of these btrees in their inodes.
//! Does **not** own: the meaning of the records in these btrees. Reading files does not need these
//! records.

use xfs_buffer::Result;
use xfs_format::log_item::{BufferType, LogItemCheck, LoggedBuffer};
use xfs_format::realtime::RealtimeBlockKind;
use xfs_format::{BASIC_BLOCK_BYTES, IncompatFeatures, VerifyContext};

use super::refusal::RecoveryError;
use super::store::RecoveryStore;

/// The length in bytes of the header of a btree block. A root has the same header in the kernel's
/// memory, and so in the log.
const MEMORY_ROOT_BYTES: usize = 72;
/// The length in bytes of the header of a root in a fork on disk. The header holds the level and
/// the number of records.
const DISK_ROOT_BYTES: usize = 4;
const POINTER_BYTES: usize = 8;

/// The value of `di_metatype` in the inode that holds the reverse map of a realtime group.
const RMAP_METATYPE: u16 = 7;
/// The value of `di_metatype` in the inode that holds the reference count btree of a realtime
/// group.
const REFCOUNT_METATYPE: u16 = 8;

/// Replays a buffer if it belongs to the realtime section. Returns whether it was changed, or
/// `None` for another buffer.
///
/// A block is stamped at once. A change is replayed also onto a block that already has the LSN of
/// the transaction: several transactions may have one LSN, and the log holds all their changes in
/// order.
pub(super) fn replay(
    store: &RecoveryStore,
    item: &LoggedBuffer<'_>,
    buffer_type: BufferType,
) -> Result<Option<bool>, RecoveryError> {
    let is_file = matches!(buffer_type, BufferType::RealtimeBitmap | BufferType::RealtimeSummary);
    if !is_file && buffer_type != BufferType::Btree {
        return Ok(None);
    }
    let format = &item.format;
    let length = usize::from(format.blocks) * BASIC_BLOCK_BYTES as usize;
    let mut bytes = store.read(format.at, length)?;
    let context = VerifyContext { geometry: store.geometry(), log_head: None };
    // Blocks of a section without groups have no header. Their words may look like one.
    let has_groups = store.geometry().has_incompat(IncompatFeatures::METADIR);
    let header_of = |bytes: &[u8]| RealtimeBlockKind::of(bytes).filter(|_| has_groups);
    let logged = header_of(&bytes).and_then(|kind| kind.find_lsn(&bytes, &context));
    for piece in &item.pieces {
        let end = piece.offset_bytes + piece.bytes.len();
        let wrong = || store.corrupt(LogItemCheck::BufferType { raw: buffer_type as u8 });
        bytes.get_mut(piece.offset_bytes..end).ok_or_else(wrong)?.copy_from_slice(piece.bytes);
    }
    let kind = header_of(&bytes);
    if kind.is_none() && !is_file {
        return Ok(None);
    }
    if logged.is_some_and(|logged| logged > store.lsn()) {
        return Ok(Some(false));
    }
    // The block may hold file data by now, or a newer state without an LSN.
    if store.is_cut && logged.is_none() {
        return Ok(Some(false));
    }
    // The bitmap and the summary of a section without groups have no header.
    if let Some(kind) = kind {
        kind.seal(&mut bytes, store.lsn());
        kind.verify(&bytes, format.at, &context)?;
    }
    store.write(format.at, 0, &bytes)?;
    Ok(Some(true))
}

/// The sizes in bytes that determine the layout of a btree root in a fork.
struct RootLayout {
    record_bytes: usize,
    key_bytes: usize,
    /// The room in bytes that a root in a fork has for each child: a key and a pointer. The root of
    /// a reference count btree has room for twice the size of its keys.
    disk_child_bytes: usize,
}

impl RootLayout {
    fn of(metatype: u16) -> Option<Self> {
        match metatype {
            RMAP_METATYPE => Some(Self { record_bytes: 24, key_bytes: 40, disk_child_bytes: 48 }),
            REFCOUNT_METATYPE => {
                Some(Self { record_bytes: 12, key_bytes: 4, disk_child_bytes: 16 })
            }
            _ => None,
        }
    }
}

/// Replays the root of a btree of a realtime group. The log has the root in the kernel's form: the
/// header of a btree block, then records, or keys and pointers.
#[doc(alias = "xfs_rtrmapbt_to_disk")]
pub(super) fn replay_root(
    region: &[u8],
    fork: &mut [u8],
    metatype: u16,
) -> Result<(), LogItemCheck> {
    let (bytes, room) = (region.len(), fork.len());
    let word = |offset: usize| region.get(offset..).and_then(<[u8]>::first_chunk::<2>).copied();
    let records = word(6).map_or(0, u16::from_be_bytes);
    let bad = LogItemCheck::Root { bytes, records, room };
    let layout = RootLayout::of(metatype).ok_or(bad)?;
    let level = u16::from_be_bytes(word(4).ok_or(bad)?);
    let count = usize::from(records);
    let mut copy = |from: usize, to: usize, length: usize| {
        let source = region.get(from..from + length).ok_or(bad)?;
        fork.get_mut(to..to + length).ok_or(bad)?.copy_from_slice(source);
        Ok(())
    };
    copy(4, 0, DISK_ROOT_BYTES)?;
    if level == 0 {
        return copy(MEMORY_ROOT_BYTES, DISK_ROOT_BYTES, count * layout.record_bytes);
    }
    let child_bytes = layout.key_bytes + POINTER_BYTES;
    let logged = bytes.saturating_sub(MEMORY_ROOT_BYTES) / child_bytes;
    let fits = room.saturating_sub(DISK_ROOT_BYTES) / layout.disk_child_bytes;
    if count == 0 || count > logged || count > fits {
        return Err(bad);
    }
    copy(MEMORY_ROOT_BYTES, DISK_ROOT_BYTES, count * layout.key_bytes)?;
    let pointers = MEMORY_ROOT_BYTES + logged * layout.key_bytes;
    copy(pointers, DISK_ROOT_BYTES + fits * layout.key_bytes, count * POINTER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::{LogItemCheck, REFCOUNT_METATYPE, RMAP_METATYPE, replay_root};

    /// Returns a root in the kernel's form with this level and number of records, and `body` after
    /// the header.
    fn logged(level: u16, records: u16, body: &[u8]) -> Vec<u8> {
        let mut root = vec![0xee; 72];
        root[4..6].copy_from_slice(&level.to_be_bytes());
        root[6..8].copy_from_slice(&records.to_be_bytes());
        root.extend_from_slice(body);
        root
    }

    #[test]
    fn leaf_root_keeps_its_records() {
        let mut fork = [0; 192];
        replay_root(&logged(0, 2, &[7; 48]), &mut fork, RMAP_METATYPE).unwrap();
        assert_eq!(fork[..4], [0, 0, 0, 2]);
        assert_eq!(fork[4..52], [7; 48]);
        assert_eq!(fork[52], 0);
    }

    /// Replays logged roots of btrees. Checks that the pointers of a root get another offset in the
    /// inode than in the log: they lie after the space for keys, which has another size there.
    #[test]
    fn node_root_moves_its_pointers() {
        let mut fork = [0; 192];
        let body = [[1; 40].as_slice(), &[2; 8]].concat();
        replay_root(&logged(1, 1, &body), &mut fork, RMAP_METATYPE).unwrap();
        assert_eq!((&fork[4..44], &fork[124..132]), ([1; 40].as_slice(), [2; 8].as_slice()));
        let mut fork = [0; 196];
        let body = [[1; 4].as_slice(), &[2; 8]].concat();
        replay_root(&logged(1, 1, &body), &mut fork, REFCOUNT_METATYPE).unwrap();
        assert_eq!((&fork[4..8], &fork[52..60]), ([1; 4].as_slice(), [2; 8].as_slice()));
    }

    #[test]
    fn root_that_does_not_fit_is_refused() {
        let mut fork = [0; 52];
        for (root, metatype) in [
            (logged(0, 3, &[0; 72]), RMAP_METATYPE),
            (logged(0, 2, &[0; 24]), RMAP_METATYPE),
            (logged(1, 0, &[]), RMAP_METATYPE),
            (logged(1, 2, &[0; 96]), RMAP_METATYPE),
            (logged(0, 1, &[0; 24]), 5),
        ] {
            let error = replay_root(&root, &mut fork, metatype).unwrap_err();
            assert!(matches!(error, LogItemCheck::Root { .. }), "{error:?}");
        }
    }
}
