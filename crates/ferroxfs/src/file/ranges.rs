//! Ranges of files: allocating, punching, moving, sharing.

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_format::IncompatFeatures;
use xfs_format::inode::ForkKind;
use xfs_format::reservation::TransactionKind;
use xfs_inode::{ExchangedRange, KeepSize, Live, SharedRange};
use xfs_sync::RwLockWriteGuard;

use super::File;
use super::contents::{OpenContents, State};
use crate::Result;
use crate::kind::CachedInode;
use crate::watch::WatchEvents;
use crate::writing::{Parts, Writer, check_mutable, check_not_immutable};

/// Bytes that two ranges are compared by at a time.
const COMPARE_BYTES: usize = 256 << 10;

/// Whether an allocation past the end makes the file longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocateMode {
    /// The file ends at the end of the range, if it ended before.
    #[default]
    Extend,
    /// The length stays.
    #[doc(alias = "FALLOC_FL_KEEP_SIZE")]
    KeepSize,
}

/// What becomes of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeMode {
    /// Space is set aside for it; what is there stays.
    #[doc(alias = "fallocate")]
    Allocate(AllocateMode),
    /// It reads as zeros, and its space is freed.
    #[doc(alias = "FALLOC_FL_PUNCH_HOLE")]
    Punch,
    /// It reads as zeros, and has space.
    #[doc(alias = "FALLOC_FL_ZERO_RANGE")]
    Zero(AllocateMode),
    /// It goes, and what is behind it moves up. In whole blocks, and before the end.
    #[doc(alias = "FALLOC_FL_COLLAPSE_RANGE")]
    Collapse,
    /// A hole of this length comes there, and what is behind moves down. In whole blocks, and before
    /// the end.
    #[doc(alias = "FALLOC_FL_INSERT_RANGE")]
    Insert,
    /// It has space, and no other file shares its blocks any more.
    #[doc(alias = "FALLOC_FL_UNSHARE_RANGE")]
    Unshare(AllocateMode),
}

impl File {
    /// Changes a range of the file.
    ///
    /// It is durable with the next [`sync_all`](Self::sync_all) of the file, or whatever else makes the log
    /// durable. A long range is changed in steps, one extent or a few at a time, and a crash before that leaves
    /// the first of them done: a part of the range has space, reads as zeros or is shared no more; of a
    /// file that is moved, the extents on one side of some place are where they were to go and those on the other side
    /// where they were. Zeros that do not fill a block are written in place, and may be there without the rest. So
    /// are steps that were done when an error is returned.
    ///
    /// # Errors
    ///
    /// - EBADF for a file that is not open for writing.
    /// - EINVAL for an empty range, and for one that the mode forbids.
    /// - EPERM for an immutable file, and for an append-only one unless space is set aside.
    /// - EFBIG past what a file can have, in bytes or in extents.
    /// - ENOSPC; with [`RangeMode::Allocate`] nothing has changed then.
    /// - What the write of what [waits in memory](Self#what-waits-in-memory) meets, and those of
    ///   [every change](crate#errors).
    pub fn change_range(&self, range: Range<u64>, mode: RangeMode) -> Result<()> {
        if range.is_empty() {
            return Err(PosixError::InvalidArgument.into());
        }
        let (parts, entry) = self.changing()?;
        let _contents = parts.contents(entry).settle_to_change()?;
        // Setting space aside overwrites nothing, so an append-only file allows it.
        match mode {
            RangeMode::Allocate(_) => check_not_immutable(&entry.core())?,
            _ => check_mutable(&entry.core())?,
        }
        self.shed_privileges(&parts)?;
        let (live, journal, now) = (entry.live(), &parts.journal, parts.clock.now());
        let size = |mode| match mode {
            AllocateMode::Extend => KeepSize::No,
            AllocateMode::KeepSize => KeepSize::Yes,
        };
        let range = || range.clone();
        let allocate = |mode| parts.with_room(|| live.allocate(journal, range(), size(mode), now));
        let changed = match mode {
            RangeMode::Allocate(mode) => allocate(mode),
            RangeMode::Punch => parts.with_room(|| live.punch(journal, range(), now)),
            RangeMode::Zero(mode) => {
                parts.with_room(|| live.zero(journal, range(), size(mode), now))
            }
            RangeMode::Collapse => {
                make_room_to_move(&parts)?;
                live.collapse(journal, range(), now)
            }
            RangeMode::Insert => {
                make_room_to_move(&parts)?;
                live.insert(journal, range(), now)
            }
            RangeMode::Unshare(mode) => {
                let shared = range().start..range().end.min(entry.core().size);
                if !shared.is_empty() {
                    parts.with_room(|| live.unshare(journal, shared.clone(), now))?;
                }
                allocate(mode)
            }
        };
        changed.inspect(|()| parts.notify(entry, WatchEvents::MODIFY))
    }

    /// Makes `length_bytes` of this file from `to` on share the blocks of `source` from `from` on;
    /// 0 means up to the end of `source`. A later write to either copies what it changes.
    ///
    /// It is durable with the next [`sync_all`](Self::sync_all) of this file. A crash before that, and an error on the
    /// way, leave the first extents shared and the rest as it was; the length changes last.
    ///
    /// # Errors
    ///
    /// - EBADF unless this file is open for writing and `source` for reading.
    /// - EOPNOTSUPP on a volume without reference counts; EXDEV for files of two volumes.
    /// - EINVAL for ranges that are not whole blocks (but for the end of both files), that overlap, or that lie
    ///   behind the end of `source`.
    /// - EPERM if this file is immutable or append-only.
    /// - EFBIG past what a file can have, in bytes or in extents.
    /// - ENOSPC; what the write of what [waits in memory](Self#what-waits-in-memory) of either meets; those of
    ///   [every change](crate#errors).
    #[doc(alias = "FICLONERANGE")]
    pub fn clone_range(&self, to: u64, source: &Self, from: u64, length_bytes: u64) -> Result<()> {
        let (parts, here, there) = self.with(source)?;
        let _contents = settle_both(&parts, here, there)?;
        check_mutable(&here.core())?;
        let length_bytes = match length_bytes {
            0 => there.core().size.saturating_sub(from),
            length_bytes => length_bytes,
        };
        let range = SharedRange { from, to, length_bytes };
        self.shed_privileges_for(&parts, || {
            Live::check_share(&parts.journal, there.live(), here.live(), range)
        })?;
        let (journal, now) = (&parts.journal, parts.clock.now());
        parts.with_room(|| Live::reflink(journal, there.live(), here.live(), range, now))?;
        parts.notify(here, WatchEvents::MODIFY);
        Ok(())
    }

    /// The same if both ranges hold the same bytes. Returns whether they did. A length of 0 is an empty range. Neither
    /// bytes nor times change, so a crash leaves nothing that could be seen: some extents are shared.
    ///
    /// # Errors
    ///
    /// As [`clone_range`](Self::clone_range); EINVAL also for a range that goes past the end of this file.
    #[doc(alias = "FIDEDUPERANGE")]
    pub fn deduplicate(
        &self,
        to: u64,
        source: &Self,
        from: u64,
        length_bytes: u64,
    ) -> Result<bool> {
        let (parts, here, there) = self.with(source)?;
        let _contents = settle_both(&parts, here, there)?;
        check_mutable(&here.core())?;
        let range = SharedRange { from, to, length_bytes };
        Live::check_share(&parts.journal, there.live(), here.live(), range)?;
        // Unlike a clone it changes nothing, so both ranges must be there.
        if to.checked_add(length_bytes).is_none_or(|end| end > here.core().size) {
            return Err(PosixError::InvalidArgument.into());
        }
        if !self.is_same(&parts, (here, to), (there, from), length_bytes)? {
            return Ok(false);
        }
        let journal = &parts.journal;
        parts.with_room(|| Live::share_equal(journal, there.live(), here.live(), range))?;
        Ok(true)
    }

    /// Exchanges contents of two files, all or nothing also in a crash; a length of 0 means all from both places
    /// on, lengths included. Durable on return, with everything that was done to the volume before.
    ///
    /// # Errors
    ///
    /// - EBADF unless both are open for reading and writing.
    /// - EOPNOTSUPP on a volume without the feature; EXDEV for files of two volumes.
    /// - EINVAL for ranges that are not whole blocks (but for the end of both files), that go past an end, or that
    ///   overlap; in one file also for a length of 0.
    /// - EPERM if either is immutable or append-only.
    /// - EFBIG past what a file can have.
    /// - ENOSPC; what the write of what [waits in memory](Self#what-waits-in-memory) of either meets; those of
    ///   [every change](crate#errors).
    #[doc(alias = "XFS_IOC_EXCHANGE_RANGE")]
    pub fn exchange_range(
        &self,
        here_at: u64,
        other: &Self,
        there_at: u64,
        length_bytes: u64,
    ) -> Result<()> {
        self.check_readable()?;
        // Before `with`, for the reason that `changing` gives.
        other.check_writable()?;
        let (parts, here, there) = self.with(other)?;
        let _contents = settle_both(&parts, here, there)?;
        check_mutable(&here.core())?;
        check_mutable(&there.core())?;
        self.shed_privileges_for(&parts, || check_exchangeable(&parts))?;
        other.shed_privileges_for(&parts, || check_exchangeable(&parts))?;
        let length_bytes = (length_bytes > 0).then_some(length_bytes);
        let range = ExchangedRange { starts: [here_at, there_at], length_bytes };
        let files = [here.live(), there.live()];
        let now = parts.clock.now();
        parts.with_room(|| Live::exchange(&parts.journal, files, range, now))?;
        parts.notify(here, WatchEvents::MODIFY);
        parts.notify(there, WatchEvents::MODIFY);
        Ok(())
    }

    /// This file and another of the same volume.
    fn with<'a>(
        &'a self,
        other: &'a Self,
    ) -> Result<(Writer<'a>, &'a Arc<CachedInode>, &'a Arc<CachedInode>)> {
        let (parts, here) = self.changing()?;
        other.check_readable()?;
        let (others, there) = other.node.writable()?;
        if !std::ptr::eq(std::ptr::from_ref::<Parts>(&parts), others) {
            return Err(PosixError::CrossDevice.into());
        }
        Ok((parts, here, there))
    }

    fn is_same(
        &self,
        parts: &Parts,
        (left, left_at): (&CachedInode, u64),
        (right, right_at): (&CachedInode, u64),
        length_bytes: u64,
    ) -> Result<bool> {
        let cache = parts.journal.cache();
        let (mut mine, mut other) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < length_bytes {
            let wanted = (length_bytes - done).min(COMPARE_BYTES as u64) as usize;
            mine.resize(wanted, 0);
            other.resize(wanted, 0);
            let read = left.live().inode().read_at(cache, left_at + done, &mut mine)?;
            let read_other = right.live().inode().read_at(cache, right_at + done, &mut other)?;
            if read != wanted || read_other != wanted {
                return Err(PosixError::InvalidArgument.into());
            }
            if mine != other {
                return Ok(false);
            }
            done += wanted as u64;
        }
        Ok(true)
    }
}

/// Whether files of this volume can exchange contents.
fn check_exchangeable(parts: &Parts) -> Result<()> {
    match parts.geometry().has_incompat(IncompatFeatures::EXCHRANGE) {
        true => Ok(()),
        false => Err(PosixError::NotSupported.into()),
    }
}

/// Sees that the steps of a move have room. It cannot be done again as a whole: each step reserves the
/// same, and gives back what it has not used.
fn make_room_to_move(parts: &Parts) -> Result<()> {
    let blocks = Live::grow_blocks(parts.geometry(), ForkKind::Data, 2);
    parts.begin(TransactionKind::Write, blocks)?.cancel();
    Ok(())
}

/// Locks the contents of two files, the lower number first; of one file, once. What was written is on
/// the device then, and where they lie is given to nobody: also of a file of which only blocks are shared.
fn settle_both<'a>(
    parts: &'a Parts,
    left: &'a Arc<CachedInode>,
    right: &'a Arc<CachedInode>,
) -> Result<(RwLockWriteGuard<'a, State>, Option<RwLockWriteGuard<'a, State>>)> {
    let (first, second) =
        if left.number() <= right.number() { (left, right) } else { (right, left) };
    let is_same = first.number() == second.number();
    let both = [parts.contents(first), parts.contents(second)];
    let [first, second] = &both;
    loop {
        let first_guard = first.settle()?;
        let second_guard = if is_same { None } else { Some(second.settle()?) };
        if !both.iter().any(OpenContents::is_given_away) {
            return Ok((first_guard, second_guard));
        }
        drop((first_guard, second_guard));
        for contents in &both {
            contents.take_back()?;
        }
    }
}
