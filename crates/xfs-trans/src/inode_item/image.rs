//! The image of an inode in memory.

use xfs_format::inode::InodeCore;
use xfs_format::{Corruption, InodeNumber, VerifyContext};
use xfs_sync::{AtomicU64, Object, Ordering};

use super::ForkBytes;
use super::fork::LoggedShape;

/// An inode in memory: its core, and the used bytes of its forks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeImage {
    /// The core. Its `next_unlinked` is not logged with the inode: that field is changed and logged
    /// in the buffer of the cluster.
    pub core: InodeCore,
    /// The data fork as it lies in the inode: its contents, its extent records, or the root of its
    /// btree. A root takes the whole fork. Empty if the fork has no bytes.
    pub data: ForkBytes,
    /// The attribute fork, in the same form as `data`.
    pub attr: ForkBytes,
}

/// The image of an inode, and the regions with which it was last logged.
pub(super) struct CachedImage {
    pub(super) image: InodeImage,
    /// The regions with which the image was last formatted for the log, packed; 0 if its log entry
    /// must not be updated in place.
    formatted: AtomicU64<Object>,
}

impl CachedImage {
    #[inline]
    pub(super) fn of(image: InodeImage) -> Box<Self> {
        Box::new(Self { image, formatted: AtomicU64::new(0) })
    }

    /// Records the regions with which the image was formatted for the log, or `None` if its log
    /// entry must not be updated in place.
    pub(super) fn note_formatted(&self, shape: Option<LoggedShape>) {
        self.formatted.store(shape.map_or(0, LoggedShape::pack), Ordering::Relaxed);
    }

    /// Returns the regions with which the image was last formatted, if its log entry may be updated
    /// in place while it keeps them.
    pub(super) fn formatted(&self) -> Option<LoggedShape> {
        let word = self.formatted.load(Ordering::Relaxed);
        (word != 0).then(|| LoggedShape::unpack(word))
    }
}

/// Decodes and verifies the inode in `bytes`. The image passes through many hands, so it is in a
/// box: to move its bytes each time takes longer than to allocate them once.
#[inline]
pub(super) fn decode(
    bytes: &[u8],
    number: InodeNumber,
    verify: &VerifyContext<'_>,
) -> Result<Box<InodeImage>, Corruption> {
    let core = InodeCore::decode(bytes, number, verify.geometry)?;
    core.verify(bytes, verify)?;
    let (data, attr) = super::fork::read(bytes, &core);
    Ok(Box::new(InodeImage { core, data, attr }))
}
