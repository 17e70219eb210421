//! A volume that gets more blocks.
//!
//! Owns: which sizes are refused, by name. Does **not** own what is changed (`xfs-alloc`).

use thiserror::Error;

use crate::{Capabilities, Error, Volume};

/// Why a volume does not grow.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GrowError {
    /// Fewer blocks than it has were asked for.
    #[error("the volume has {has} blocks and cannot shrink to {wanted}")]
    Shrinks {
        /// Blocks that it has.
        has: u64,
        /// Blocks that were asked for.
        wanted: u64,
    },
    /// What would be added makes no allocation group: one has at least 64 blocks.
    #[error("{added} blocks more are too few for another allocation group")]
    TooLittle {
        /// Blocks by which the volume would grow.
        added: u64,
    },
    /// No volume with such allocation groups has so many blocks.
    #[error("{wanted} blocks are more than a volume with such allocation groups can have")]
    TooLarge {
        /// Blocks that were asked for.
        wanted: u64,
    },
    /// The device ends before the volume would.
    #[error("{wanted} blocks do not fit the device, which has {has}")]
    DeviceTooShort {
        /// Blocks that were asked for.
        wanted: u64,
        /// Blocks of the device.
        has: u64,
    },
    /// It was tried, or the volume is open for reading, or it is frozen.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Volume {
    /// Makes the volume larger: `blocks` in all or, without that, as many as the device had when the volume was
    /// opened. Returns how many it has then. A last allocation group of fewer than 64 blocks is left
    /// out, so they may be fewer than asked for. Others can work on the volume meanwhile: who changes
    /// something waits for a moment, as for [`freeze`](Self::freeze). Durable on return; a crash leaves the size that it
    /// had or the one that it gets.
    ///
    /// # Errors
    ///
    /// [`GrowError`]. EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading, EBUSY on
    /// one that is frozen; the error of a write that was [lost](crate::File#what-waits-in-memory). What the device says
    /// before the volume changes leaves it as it was; what stops the log then shuts it down. Where a copy of the
    /// superblock is damaged the volume has grown, and the copies have followed as far as they can.
    #[doc(alias = "XFS_IOC_FSGROWFSDATA")]
    #[doc(alias = "xfs_growfs")]
    pub fn grow(&self, blocks: Option<u64>) -> Result<u64, GrowError> {
        self.require(Capabilities::SYS_ADMIN)?;
        let parts = self.share().parts()?;
        let geometry = self.geometry();
        let has = self.device().length_bytes() >> geometry.block_log;
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
        parts.grow(&grown)?;
        Ok(grown.data_blocks)
    }
}
