//! The smallest volume that holds the files that it is filled with: `--minimize`.
//!
//! Owns: the search for that size. Does **not** own: the geometry of such a volume (`Options` of
//! `xfs_mkfs`), or making the volume again if it was too small.
//!
//! The files are written to a trial volume, which counts their blocks exactly: after each layer, as
//! a later one may remove files, and the most counts. Then the size is
//! searched whose empty volume has that many blocks for files. The trial volume always has the same
//! size, so the result follows from the files alone (I2), and not from a first estimate, which
//! would depend on the filesystem of the source.
//!
//! # Invariants
//!
//! - **I1** The volume holds all files: it is filled before it gets its name, and made again, a
//!   little larger, if it was too small. An operation reserves more blocks than it uses in the end,
//!   so the last files can need a few more blocks than the trial has counted.
//! - **I2** With a fixed time, the sizes that are tried depend on the files and the options only.

use xfs_mkfs::{Plan, Size};

use super::fill::{Fill, check_fillable};
use super::free_space::FreeSpace;
use super::sizing::{MOST_BYTES, Sizing};
use crate::failure::Failure;
use crate::image::ImageVolume;
use crate::import::writer::ImageWriter;

/// The sizes of the trial volume in bytes. The next one is tried if the files do not fit.
const TRIAL_BYTES: [u64; 3] = [1 << 40, 1 << 44, 1 << 48];
/// Sizes are multiples of this number of bytes, which is a multiple of every block size.
const STEP_BYTES: u64 = 64 << 10;
/// The smallest size that is tried, in bytes: two groups of 16 MiB.
const SMALLEST_BYTES: u64 = 32 << 20;
/// The blocks in addition to those that the files have in the end, for what operations reserve.
const MARGIN_BLOCKS: u64 = 32;
/// The same as a part of the blocks of the files. It saves large volumes a second attempt.
const MARGIN_DIVISOR: u64 = 512;
/// A volume that was too small is made again with a size that is larger by one part in this many.
const RETRY_DIVISOR: u64 = 400;
/// The number of retries after which the steps double.
const EVEN_RETRIES: u32 = 8;
const MOST_RETRIES: u32 = 20;
/// The largest number of empty volumes that are measured.
const MOST_MEASURED: usize = 60;

/// Returns the size to try after a volume of `bytes` bytes was too small. `None` after too many
/// retries.
pub(super) fn larger(bytes: u64, retries: u32) -> Option<u64> {
    let step = (bytes / RETRY_DIVISOR) << retries.saturating_sub(EVEN_RETRIES);
    (retries < MOST_RETRIES).then(|| (bytes + step.max(1)).next_multiple_of(STEP_BYTES))
}

impl Sizing<'_> {
    /// Returns the smallest size in bytes of a volume that holds the files of the sources and has
    /// `free` space left. Reads the sources once, and writes their files to a temporary file.
    ///
    /// # Errors
    ///
    /// No sources, sources that cannot be read, or options that are impossible.
    pub(super) fn smallest_bytes(&self, free: FreeSpace) -> Result<u64, Failure> {
        if self.options.data.agcount == Some(Size::bytes(1)) {
            let why = "--minimize makes at least two allocation groups, for a second superblock";
            return Err(Failure::usage(why));
        }
        let used = self.used_blocks()?;
        let wanted = used + MARGIN_BLOCKS.max(used / MARGIN_DIVISOR);
        let mut bytes = SMALLEST_BYTES;
        for _ in 0..MOST_MEASURED {
            bytes = self.next_possible(bytes)?;
            let Some(short) = self.lacking_bytes(bytes, wanted, free)? else {
                // A last group that is too short is left out of the volume.
                let plan = self.plan(bytes)?;
                let geometry = &plan.superblock().geometry;
                return Ok(geometry.data_blocks << geometry.block_log);
            };
            bytes = (bytes + short).next_multiple_of(STEP_BYTES);
            if bytes > MOST_BYTES {
                break;
            }
        }
        Err(Failure::usage("--minimize: no size holds the files with these options"))
    }

    /// Returns the number of blocks that the files take in a volume.
    fn used_blocks(&self) -> Result<u64, Failure> {
        for bytes in TRIAL_BYTES {
            if let Some(blocks) = self.blocks_in_trial(&self.plan(bytes)?, bytes)? {
                return Ok(blocks);
            }
        }
        Err(Failure::usage("--minimize: the files are too many for a volume"))
    }

    /// Fills the trial volume `plan` of `bytes` bytes, and returns the number of blocks that the
    /// files take. `None` if the files do not fit.
    pub(super) fn blocks_in_trial(&self, plan: &Plan, bytes: u64) -> Result<Option<u64>, Failure> {
        let fill = Fill::of_sources(self.arguments, self.options, self.standard_input.clone())?;
        check_fillable(self.path, plan)?;
        let volume = self.trial_volume(plan, bytes, fill.filling)?;
        let before = available(&volume)?;
        let Fill { sources, policy, writer_options, quota, .. } = fill;
        let replaced = self.path.is_file().then_some(self.path);
        let sources = sources.without(replaced.as_slice());
        // The volume with the name gets the same reports.
        let mut forget = drop::<Failure>;
        // A later layer may remove files of earlier ones. The volume must hold them until then.
        let mut least = before;
        let mut note_space = || {
            least = least.min(available(&volume)?);
            Ok(())
        };
        let mut writer = ImageWriter::new(writer_options, &mut forget)
            .governed_by(&policy)
            .watched_by(&mut note_space);
        let root = volume.inner().root().map_err(Failure::from);
        let filled = root.and_then(|root| sources.fill(&root, &mut writer));
        drop(writer);
        let filled = filled.and_then(|()| quota.set_limits(&volume).map(drop));
        match filled {
            Ok(()) => Ok(Some(before.saturating_sub(least.min(available(&volume)?)))),
            Err(failure) if failure.is_of_room() => Ok(None),
            Err(failure) => Err(volume.whole_failure(failure)),
        }
    }

    /// Returns the bytes by which an empty volume of `bytes` bytes must grow for `wanted` blocks,
    /// and for the free space. `None` if it is large enough.
    fn lacking_bytes(
        &self,
        bytes: u64,
        wanted: u64,
        free: FreeSpace,
    ) -> Result<Option<u64>, Failure> {
        let plan = self.plan(bytes)?;
        let space = |takes_pool| {
            let volume = self.trial_volume(&plan, bytes, self.filling(takes_pool)?)?;
            volume.inner().space().map_err(|error| volume.whole_failure(error))
        };
        let all = space(true)?;
        let block = u64::from(all.block_size);
        let mut short = wanted.saturating_sub(all.available_blocks);
        let asked = free.blocks(&all);
        if asked != 0 {
            // A mount shows the free space without the pool.
            short = short.max((wanted + asked).saturating_sub(space(false)?.available_blocks));
        }
        Ok((short != 0).then_some(free.step(short * block)))
    }
}

/// Returns the number of blocks that files can still take.
fn available(volume: &ImageVolume) -> Result<u64, Failure> {
    let space = volume.inner().space().map_err(|error| volume.whole_failure(error))?;
    Ok(space.available_blocks)
}

#[cfg(test)]
mod tests {
    use super::larger;

    #[test]
    fn sizes_to_try_grow_by_a_four_hundredth_at_first() {
        let first = 100 << 20;
        let second = larger(first, 0).unwrap();
        assert_eq!(second - first, 256 << 10);
        assert!(larger(second, 8).unwrap() - second < 512 << 10);
        assert!(larger(second, 12).unwrap() - second > 4 << 20);
        assert_eq!(larger(first, 20), None);
        assert_eq!(larger(32 << 20, 0).unwrap() % (64 << 10), 0);
    }
}
