//! Operations on ranges of files: allocating, punching, moving and sharing blocks.

use std::ops::Range;
use std::sync::Arc;

use xfs_buffer::PosixError;
use xfs_format::IncompatFeatures;
use xfs_format::inode::ForkKind;
use xfs_format::reservation::TransactionKind;
use xfs_inode::{ExchangedRange, KeepSize, LiveInode, SharedRange};
use xfs_sync::RwLockWriteGuard;
use xfs_vfs::{
    CachedInode, ContentsState, Mount, OpenContents, WatchEvents, check_mutable,
    check_not_immutable,
};

use super::File;
use crate::Result;

/// Number of bytes that a deduplication reads from each of its two ranges, and compares, at a time.
const COMPARE_BYTES: usize = 256 << 10;

/// Whether an allocation past the end extends the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocateMode {
    /// If the file ends before the end of the range, it is extended to the end of the range.
    #[default]
    Extend,
    /// The length of the file does not change.
    #[doc(alias = "FALLOC_FL_KEEP_SIZE")]
    KeepSize,
}

/// The kind of change of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeMode {
    /// Space is allocated for the range, and its contents stay.
    #[doc(alias = "fallocate")]
    Allocate(AllocateMode),
    /// The range reads as zeros, and its space is freed.
    #[doc(alias = "FALLOC_FL_PUNCH_HOLE")]
    Punch,
    /// The range reads as zeros, and space is allocated for it.
    #[doc(alias = "FALLOC_FL_ZERO_RANGE")]
    Zero(AllocateMode),
    /// The range is removed, and later bytes move to lower offsets. It must consist of whole blocks
    /// and end before the end of the file.
    #[doc(alias = "FALLOC_FL_COLLAPSE_RANGE")]
    Collapse,
    /// A hole as long as the range is inserted at the start of the range, and later bytes move to
    /// higher offsets. The range must consist of whole blocks and start before the end of the file.
    #[doc(alias = "FALLOC_FL_INSERT_RANGE")]
    Insert,
    /// Space is allocated for the range, and the range no longer shares its blocks with another
    /// file.
    #[doc(alias = "FALLOC_FL_UNSHARE_RANGE")]
    Unshare(AllocateMode),
}

impl File {
    /// Changes a range of the file.
    ///
    /// The change is durable with the next [`sync_all`](Self::sync_all) of the file, or any other
    /// force of the log. A long range is changed in steps of one extent or a few. A crash before
    /// the sync leaves the first steps done: a part of the range has space, reads as zeros or is
    /// not shared any more. When extents move, those on one side of some offset have moved and
    /// those on the other side have not. Zeros that do not fill a block are written in place, and
    /// may be on disk without the rest of the change. Steps that were done before an error also
    /// stay.
    ///
    /// # Errors
    ///
    /// - EBADF for a file that is not open for writing.
    /// - EINVAL for an empty range, and for one that the mode forbids.
    /// - EPERM for an immutable file, and for an append-only one unless space is allocated.
    /// - EFBIG past the largest file, in bytes or in extents.
    /// - ENOSPC; with [`RangeMode::Allocate`] nothing has changed then.
    /// - The errors of writing [buffered bytes](Self#buffered-bytes), and of [every
    ///   change](crate#errors).
    pub fn change_range(&self, range: Range<u64>, mode: RangeMode) -> Result<()> {
        if range.is_empty() {
            return Err(PosixError::InvalidArgument.into());
        }
        let (guard, entry) = self.changing()?;
        let mount = guard.mount();
        let _contents = mount.contents(entry).settle_to_change()?;
        // Allocating space overwrites nothing, so an append-only file allows it.
        match mode {
            RangeMode::Allocate(_) => check_not_immutable(&entry.core())?,
            _ => check_mutable(&entry.core())?,
        }
        self.shed_privileges(mount)?;
        let (live, journal, now) = (entry.live(), &mount.journal, mount.clock.now());
        let size = |mode| match mode {
            AllocateMode::Extend => KeepSize::No,
            AllocateMode::KeepSize => KeepSize::Yes,
        };
        let range = || range.clone();
        let changed = match mode {
            RangeMode::Allocate(mode) => {
                mount.with_room(|| live.allocate(journal, range(), size(mode), now))
            }
            RangeMode::Punch => mount.with_room(|| live.punch(journal, range(), now)),
            RangeMode::Zero(mode) => {
                mount.with_room(|| live.zero(journal, range(), size(mode), now))
            }
            RangeMode::Collapse => {
                make_room_to_move(mount)?;
                live.collapse(journal, range(), now)
            }
            RangeMode::Insert => {
                make_room_to_move(mount)?;
                live.insert(journal, range(), now)
            }
            RangeMode::Unshare(mode) => {
                let shared = range().start..range().end.min(entry.core().size);
                if !shared.is_empty() {
                    mount.with_room(|| live.unshare(journal, shared.clone(), now))?;
                }
                mount.with_room(|| live.allocate_unshared(journal, range(), size(mode), now))
            }
        };
        changed.inspect(|()| mount.notify(entry, WatchEvents::MODIFY))
    }

    /// Makes `length_bytes` of this file from `to` on share the blocks of `source` from `from` on.
    /// A length of 0 means up to the end of `source`. A later write to either file copies the
    /// blocks that it changes.
    ///
    /// The shared blocks are durable with the next [`sync_all`](Self::sync_all) of this file. A
    /// crash before that, and an error on the way, leave the first extents shared and the rest as
    /// it was; the length changes last.
    ///
    /// # Errors
    ///
    /// - EBADF unless this file is open for writing and `source` for reading.
    /// - EOPNOTSUPP on a volume without reference counts; EXDEV for files of two volumes.
    /// - EINVAL for ranges that are not whole blocks (except at the end of both files), that
    ///   overlap, or that are past the end of `source`.
    /// - EPERM if this file is immutable or append-only.
    /// - EFBIG past the largest file, in bytes or in extents.
    /// - ENOSPC; the errors of writing [buffered bytes](Self#buffered-bytes) of either file, and of
    ///   [every change](crate#errors).
    #[doc(alias = "FICLONERANGE")]
    pub fn clone_range(&self, to: u64, source: &Self, from: u64, length_bytes: u64) -> Result<()> {
        self.with_settled(source, |TwoFiles { mount, here, there }| {
            let length_bytes = match length_bytes {
                0 => there.core().size.saturating_sub(from),
                length_bytes => length_bytes,
            };
            let range = SharedRange { from, to, length_bytes };
            self.shed_privileges_for(mount, || {
                LiveInode::check_share(&mount.journal, there.live(), here.live(), range)
            })?;
            let (journal, now) = (&mount.journal, mount.clock.now());
            mount
                .with_room(|| LiveInode::reflink(journal, there.live(), here.live(), range, now))?;
            mount.notify(here, WatchEvents::MODIFY);
            Ok(())
        })
    }

    /// Shares blocks as [`clone_range`](Self::clone_range) does, but only if both ranges hold the
    /// same bytes. Returns whether they did. A length of 0 is an empty range. Neither bytes nor
    /// times change, so the effect of a crash is invisible: some extents are shared.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`clone_range`](Self::clone_range). Also returns EINVAL for a range
    /// that extends past the end of this file.
    #[doc(alias = "FIDEDUPERANGE")]
    pub fn deduplicate(
        &self,
        to: u64,
        source: &Self,
        from: u64,
        length_bytes: u64,
    ) -> Result<bool> {
        self.with_settled(source, |TwoFiles { mount, here, there }| {
            let range = SharedRange { from, to, length_bytes };
            LiveInode::check_share(&mount.journal, there.live(), here.live(), range)?;
            // Unlike a clone it changes nothing, so both ranges must exist.
            if to.checked_add(length_bytes).is_none_or(|end| end > here.core().size) {
                return Err(PosixError::InvalidArgument.into());
            }
            let mine = ContentsAt { entry: here, offset: to };
            let other = ContentsAt { entry: there, offset: from };
            if !is_same(mount, mine, other, length_bytes)? {
                return Ok(false);
            }
            let journal = &mount.journal;
            mount
                .with_room(|| LiveInode::share_equal(journal, there.live(), here.live(), range))?;
            Ok(true)
        })
    }

    /// Exchanges ranges of the contents of two files. After a crash, the whole exchange has
    /// happened or nothing of it. A length of 0 means everything from both offsets to the ends of
    /// the files, whose lengths are then exchanged too. The exchange is durable on return, with all
    /// earlier changes of the volume.
    ///
    /// # Errors
    ///
    /// - EBADF unless both are open for reading and writing.
    /// - EOPNOTSUPP on a volume without the feature; EXDEV for files of two volumes.
    /// - EINVAL for ranges that are not whole blocks (except at the end of both files), that extend
    ///   past the end of a file, or that overlap; also for a length of 0 if both ranges are in one
    ///   file.
    /// - EPERM if either is immutable or append-only.
    /// - EFBIG past the largest file.
    /// - ENOSPC; the errors of writing [buffered bytes](Self#buffered-bytes) of either file, and of
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
        // Before `with_settled`, for the reason that `changing` gives.
        other.check_writable()?;
        self.with_settled(other, |TwoFiles { mount, here, there }| {
            check_mutable(&there.core())?;
            self.shed_privileges_for(mount, || check_exchangeable(mount))?;
            other.shed_privileges_for(mount, || check_exchangeable(mount))?;
            let length_bytes = (length_bytes > 0).then_some(length_bytes);
            let range = ExchangedRange { starts: [here_at, there_at], length_bytes };
            let files = [here.live(), there.live()];
            let now = mount.clock.now();
            mount.with_room(|| LiveInode::exchange(&mount.journal, files, range, now))?;
            mount.notify(here, WatchEvents::MODIFY);
            mount.notify(there, WatchEvents::MODIFY);
            Ok(())
        })
    }

    /// Runs `operation`, which changes this file, on this file and another file of the volume. The
    /// contents of both are locked, and their buffered bytes are on the device.
    ///
    /// # Errors
    ///
    /// EBADF unless this file is open for writing and the other one for reading; EXDEV if the other
    /// file is on another volume; EPERM if this file is immutable or append-only; the errors of
    /// writing buffered bytes, and of `operation`.
    fn with_settled<R>(
        &self,
        other: &Self,
        operation: impl FnOnce(TwoFiles<'_>) -> Result<R>,
    ) -> Result<R> {
        let (guard, here) = self.changing()?;
        other.check_readable()?;
        let (others, there) = other.node.writable()?;
        let mount = guard.mount();
        if !std::ptr::eq(mount, others) {
            return Err(PosixError::CrossDevice.into());
        }
        let _contents = settle_both(mount, here, there)?;
        check_mutable(&here.core())?;
        operation(TwoFiles { mount, here, there })
    }
}

/// Two files of one volume whose contents are locked.
#[derive(Clone, Copy)]
struct TwoFiles<'a> {
    mount: &'a Mount,
    here: &'a Arc<CachedInode>,
    there: &'a Arc<CachedInode>,
}

/// A file, and an offset in its contents in bytes.
#[derive(Clone, Copy)]
struct ContentsAt<'a> {
    entry: &'a CachedInode,
    offset: u64,
}

fn is_same(
    mount: &Mount,
    left: ContentsAt<'_>,
    right: ContentsAt<'_>,
    length_bytes: u64,
) -> Result<bool> {
    let cache = mount.journal.cache();
    let (mut mine, mut other) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < length_bytes {
        let wanted = (length_bytes - done).min(COMPARE_BYTES as u64) as usize;
        mine.resize(wanted, 0);
        other.resize(wanted, 0);
        let read = left.entry.live().inode().read_at(cache, left.offset + done, &mut mine)?;
        let read_other =
            right.entry.live().inode().read_at(cache, right.offset + done, &mut other)?;
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

/// Checks that the volume has the feature by which files exchange contents.
fn check_exchangeable(mount: &Mount) -> Result<()> {
    match mount.geometry().has_incompat(IncompatFeatures::EXCHRANGE) {
        true => Ok(()),
        false => Err(PosixError::NotSupported.into()),
    }
}

/// Checks, before the first step of a move of extents, that there is space for a step. A move that
/// has stopped half way cannot be repeated, so it must not begin if its steps would fail with
/// ENOSPC. Each step reserves the same number of blocks, and gives back those that it has not used.
fn make_room_to_move(mount: &Mount) -> Result<()> {
    let blocks = LiveInode::grow_blocks(mount.geometry(), ForkKind::Data, 2);
    mount.begin(TransactionKind::Write, blocks)?.cancel();
    Ok(())
}

/// Locks the contents of two files exclusively, the one with the lower inode number first. If both
/// are the same file, locks it once. On return, buffered bytes of both are on the device, and
/// neither file has a layout lease. Both conditions are needed even for a file that keeps its
/// contents and only shares its blocks.
fn settle_both<'a>(
    mount: &'a Mount,
    left: &'a Arc<CachedInode>,
    right: &'a Arc<CachedInode>,
) -> Result<(RwLockWriteGuard<'a, ContentsState>, Option<RwLockWriteGuard<'a, ContentsState>>)> {
    let (first, second) =
        if left.number() <= right.number() { (left, right) } else { (right, left) };
    let is_same = first.number() == second.number();
    let both = [mount.contents(first), mount.contents(second)];
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
