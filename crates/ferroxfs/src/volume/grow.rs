//! Growing a volume to the size of its device, or to a number of blocks.
//!
//! Owns: which sizes are refused, and why. Does **not** own the changes on disk (`xfs-alloc`).

use std::io;

use xfs_vfs::Capabilities;

use thiserror::Error;

use crate::{Error, Volume};

/// Why a volume does not grow.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GrowError {
    /// Fewer blocks were requested than the volume has.
    #[error("the volume has {has} blocks and cannot shrink to {wanted}")]
    Shrinks {
        /// Number of blocks of the volume.
        has: u64,
        /// Number of blocks that were requested.
        wanted: u64,
    },
    /// The added blocks are too few for an allocation group, which has at least 64 blocks.
    #[error("{added} more blocks are too few: another allocation group needs at least 64")]
    TooLittle {
        /// Number of blocks by which the volume would grow.
        added: u64,
    },
    /// No volume with allocation groups of this size can have that many blocks.
    #[error("{wanted} blocks are too many for a volume with allocation groups of this size")]
    TooLarge {
        /// Number of blocks that were requested.
        wanted: u64,
    },
    /// The device ends before the end that the volume would have.
    #[error("{wanted} blocks do not fit the device, which has {has}")]
    DeviceTooShort {
        /// Number of blocks that were requested.
        wanted: u64,
        /// Number of blocks of the device.
        has: u64,
    },
    /// Growing failed, or the volume is open for reading, or it is frozen.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Makes an `io::Error` that keeps this error as its source. A refused size becomes
/// [`InvalidInput`](io::ErrorKind::InvalidInput).
impl From<GrowError> for io::Error {
    fn from(error: GrowError) -> Self {
        let kind = match &error {
            GrowError::Failed(source) => Self::from_raw_os_error(source.errno()).kind(),
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl Volume {
    /// Grows the volume to `blocks`, or to the size that the device had when the volume was opened.
    /// Returns the number of blocks that the volume then has. A last allocation group of fewer than
    /// 64 blocks is left out, so that the result may be smaller than requested. The volume stays in
    /// use: changes wait for a moment, as for [`freeze`](Self::freeze). The new size is durable on
    /// return; a crash leaves the old size or the new one.
    ///
    /// # Errors
    ///
    /// [`GrowError`]. EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for
    /// reading, EBUSY on a frozen one; the error of a [lost](crate::File#buffered-bytes) write.
    /// After an error of the device before the first change, the volume is as it was. A later error
    /// of the log shuts the volume down. If a copy of the superblock is damaged, the volume has
    /// grown, and the other copies have the new size.
    #[doc(alias = "XFS_IOC_FSGROWFSDATA")]
    #[doc(alias = "xfs_growfs")]
    pub fn grow(&self, blocks: Option<u64>) -> Result<u64, GrowError> {
        self.require(Capabilities::SYS_ADMIN)?;
        let mount = self.volume_ref().mount()?;
        let geometry = self.geometry();
        let has = self.device().length_bytes() >> geometry.block_log;
        // Zones may follow the data section on its device.
        let zones = Some(geometry.realtime.start).filter(|start| *start != 0);
        let has = has.min(zones.unwrap_or(u64::MAX));
        let wanted = blocks.unwrap_or(has.max(geometry.data_blocks));
        if wanted < geometry.data_blocks {
            return Err(GrowError::Shrinks { has: geometry.data_blocks, wanted });
        }
        if wanted > has {
            return Err(GrowError::DeviceTooShort { wanted, has });
        }
        let grown = geometry.grown_to(wanted).ok_or(GrowError::TooLarge { wanted })?;
        if grown.data_blocks == geometry.data_blocks {
            let added = wanted - geometry.data_blocks;
            return match blocks {
                Some(_) if added > 0 => Err(GrowError::TooLittle { added }),
                _ => Ok(geometry.data_blocks),
            };
        }
        mount.grow(&grown)?;
        Ok(grown.data_blocks)
    }
}
