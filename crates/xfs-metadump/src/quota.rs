//! Recognises quota records, so that nothing else of a quota file gets into an image.
//!
//! Owns: the form of a quota record. Does **not** own: the choice of the file.

/// Length of a quota record on disk, in bytes.
#[doc(alias = "xfs_dqblk")]
const RECORD_BYTES: usize = 136;
/// The magic number and the version of a quota record.
#[doc(alias = "XFS_DQUOT_MAGIC")]
const START: &[u8] = b"DQ\x01";
/// Offset of the UUID of the volume in a quota record.
const UUID_OFFSET: usize = 120;

/// Overwrites a block with zeros, except the quota records of the volume with this UUID. Returns
/// `true` if the other bytes were zeros already, so that nothing was lost.
pub(crate) fn keep_records(block: &mut [u8], uuid: &[u8; 16]) -> bool {
    let mut is_whole = true;
    for record in block.chunks_mut(RECORD_BYTES) {
        let is_record =
            record.starts_with(START) && record.get(UUID_OFFSET..) == Some(uuid.as_slice());
        if !is_record && record.iter().any(|byte| *byte != 0) {
            record.fill(0);
            is_whole = false;
        }
    }
    is_whole
}

#[cfg(test)]
mod tests;
