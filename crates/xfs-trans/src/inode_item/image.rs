//! The image of an inode in memory.

use xfs_format::inode::{InodeCore, InodeDisk};
use xfs_format::{Corruption, InodeNumber, VerifyContext};

use super::ForkBytes;

/// The bytes of an inode in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeImage {
    /// The core. Its `next_unlinked` is not logged with the inode: that field is changed and logged
    /// in the buffer of the cluster.
    pub core: InodeCore,
    /// The data fork as it lies in the inode: its contents, its extent records, or the root of its
    /// btree. A root fills the whole fork. Empty if there is nothing.
    pub data: ForkBytes,
    /// The attribute fork, in the same form.
    pub attr: ForkBytes,
}

/// An image, and the core as the log has it.
pub(super) struct CachedImage {
    pub(super) image: InodeImage,
    /// The core as it was last logged.
    pub(super) core: Option<InodeDisk>,
}

impl CachedImage {
    pub(super) fn of(image: InodeImage) -> Box<Self> {
        Box::new(Self { image, core: None })
    }
}

/// Decodes and verifies an inode.
pub(super) fn decode(
    bytes: &[u8],
    number: InodeNumber,
    verify: &VerifyContext<'_>,
) -> Result<InodeImage, Corruption> {
    let core = InodeCore::decode(bytes, number, verify.geometry)?;
    core.verify(bytes, verify)?;
    let (data, attr) = super::fork::read(bytes, &core);
    Ok(InodeImage { core, data, attr })
}
