//! Checks that the judges of a volume with quota compare its counts with the inodes.

use std::sync::Arc;

use ferroxfs::OpenOptions;
use xfs_device::{BlockDevice, Durability};
use xfs_format::BlockKind;
use xfs_format::dquot::DquotDisk;
use xfs_format::inode::ForkKind;
use xfs_testkit::{CowDevice, reseal};
use zerocopy::FromBytes;

use crate::disks::VolumeDisks;

/// Adds 1 to the number of inodes that the first dquot of users counts: that of root.
pub(crate) fn forge_usage(device: &CowDevice) -> Result<(), String> {
    let words = |error: ferroxfs::Error| error.to_string();
    let disks = VolumeDisks::inside(Arc::new(device.fork()));
    let volume = disks.with(&OpenOptions::new()).open().map_err(|error| error.to_string())?;
    let superblock = volume.superblock().clone();
    let [users, ..] = superblock.quota_inodes;
    let node = volume.node(users.ok_or("no quota of users")?).map_err(words)?;
    let extent = node.extents(ForkKind::Data).next().ok_or("no dquots of users")?.map_err(words)?;
    let at = extent.device_offset_bytes;
    let mut block = vec![0; superblock.geometry.block_size as usize];
    device.read_at(&mut block, at).map_err(|error| error.to_string())?;
    let (dquot, _) = DquotDisk::mut_from_prefix(&mut block).map_err(|error| error.to_string())?;
    dquot.inodes = (dquot.inodes.get() + 1).into();
    reseal(&mut block, BlockKind::Dquots, &superblock.geometry);
    device.write_at(&block, at, Durability::Cached).map_err(|error| error.to_string())
}
