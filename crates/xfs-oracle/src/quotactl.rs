//! Quota of a mounted volume, as the kernel shows and sets it: the calls of quotactl(2) for XFS.
//!
//! Each call passes the kernel a structure whose layout is fixed by the user-space interface. The
//! kernel reads or writes only plain integers in the structure.

#![allow(unsafe_code, reason = "no library wraps quotactl for projects")]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::{Errno, Result};
use xfs_format::dquot::QuotaKind;

/// The quota of a volume that is mounted in the kernel.
#[derive(Debug)]
pub struct KernelQuota {
    device: CString,
}

/// The usage, the limits and the timer of an owner for one resource: blocks or inodes. A setting
/// has new limits and a new timer in the same form. Space is in basic blocks of 512 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaUsage {
    /// The usage, which includes open reservations.
    pub used: u64,
    /// The soft limit, or 0.
    pub soft: u64,
    /// The hard limit, or 0.
    pub hard: u64,
    /// The time at which the soft limit becomes a hard one, in seconds since 1970, or 0. For the
    /// ID 0, the grace period in seconds.
    pub timer: u64,
}

/// The quota of one owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaRecord {
    /// The blocks of the data device.
    pub blocks: QuotaUsage,
    /// The inodes.
    pub inodes: QuotaUsage,
}

/// A value that [`KernelQuota::set`] changes. Space is in basic blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the limits")]
pub enum QuotaSetting {
    BlockSoft(u64),
    BlockHard(u64),
    InodeSoft(u64),
    InodeHard(u64),
    BlockTimer(u64),
    InodeTimer(u64),
}

/// The kernel's `struct fs_disk_quota`: the quota of one owner.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct RawQuota {
    version: i8,
    kind: i8,
    fields: u16,
    id: u32,
    block_hard: u64,
    block_soft: u64,
    inode_hard: u64,
    inode_soft: u64,
    blocks: u64,
    inodes: u64,
    inode_timer: u32,
    block_timer: u32,
    warnings: [u16; 2],
    inode_timer_high: i8,
    block_timer_high: i8,
    realtime_timer_high: i8,
    padding: i8,
    realtime: [u64; 3],
    realtime_timer: u32,
    realtime_warnings: u16,
    padding_2: [u16; 5],
}

const _: () = assert!(size_of::<RawQuota>() == 112);

/// The kernel's `struct fs_quota_stat`: the types of quota that are on, as flags. Its other fields
/// are not used.
#[repr(C)]
#[derive(Default)]
struct RawState {
    version: i8,
    flags: u16,
    rest: [u64; 9],
}

const _: () = assert!(size_of::<RawState>() == 80);

/// The number of the command Q_XGETQUOTA of quotactl. Those of Q_XSETQLIM and Q_XGETQSTAT follow.
const GET: i32 = 0x5803;
const SET: i32 = 0x5804;
const STATE: i32 = 0x5805;

impl KernelQuota {
    /// Returns the quota of the mounted volume on a block device.
    ///
    /// # Panics
    ///
    /// Panics if the path has a zero byte, which is a mistake of the caller.
    #[must_use]
    pub fn of(device: &Path) -> Self {
        let device = device.as_os_str().as_bytes();
        Self { device: CString::new(device).expect("a path has no zero byte") }
    }

    /// Returns the quota of an owner, or `None` if the owner has neither usage nor limits.
    ///
    /// # Errors
    ///
    /// The errno of the call.
    pub fn get(&self, kind: QuotaKind, id: u32) -> Result<Option<QuotaRecord>> {
        let mut raw = RawQuota::default();
        match self.call(GET, kind, id, &mut raw) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        }
        let whole = |low: u32, high: i8| u64::from(low) | u64::from(high as u8) << 32;
        let (block_timer, inode_timer) = (
            whole(raw.block_timer, raw.block_timer_high),
            whole(raw.inode_timer, raw.inode_timer_high),
        );
        let (used, soft, hard) = (raw.blocks, raw.block_soft, raw.block_hard);
        let blocks = QuotaUsage { used, soft, hard, timer: block_timer };
        let (used, soft, hard) = (raw.inodes, raw.inode_soft, raw.inode_hard);
        let inodes = QuotaUsage { used, soft, hard, timer: inode_timer };
        Ok(Some(QuotaRecord { blocks, inodes }))
    }

    /// Sets limits and timers of an owner in one call.
    ///
    /// # Errors
    ///
    /// The errno of the call.
    pub fn set(&self, kind: QuotaKind, id: u32, settings: &[QuotaSetting]) -> Result<()> {
        let mut raw = RawQuota { version: 1, kind: kind.bits() as i8, id, ..RawQuota::default() };
        for setting in settings {
            let (field, place, value) = match setting {
                QuotaSetting::InodeSoft(value) => (1 << 0, &mut raw.inode_soft, *value),
                QuotaSetting::InodeHard(value) => (1 << 1, &mut raw.inode_hard, *value),
                QuotaSetting::BlockSoft(value) => (1 << 2, &mut raw.block_soft, *value),
                QuotaSetting::BlockHard(value) => (1 << 3, &mut raw.block_hard, *value),
                QuotaSetting::BlockTimer(value) => {
                    (raw.block_timer, raw.block_timer_high) = split(*value);
                    raw.fields |= 1 << 6 | BIG_TIMERS;
                    continue;
                }
                QuotaSetting::InodeTimer(value) => {
                    (raw.inode_timer, raw.inode_timer_high) = split(*value);
                    raw.fields |= 1 << 7 | BIG_TIMERS;
                    continue;
                }
            };
            *place = value;
            raw.fields |= field;
        }
        self.call(SET, kind, id, &mut raw)
    }

    /// Returns which types of quota are accounted and enforced, as pairs in the order of
    /// [`QuotaKind::ALL`].
    ///
    /// # Errors
    ///
    /// The errno of the call.
    pub fn state(&self) -> Result<[(bool, bool); 3]> {
        let mut raw = RawState { version: 1, ..RawState::default() };
        self.call(STATE, QuotaKind::User, 0, &mut raw)?;
        let bit = |index: u32| raw.flags & 1 << index != 0;
        Ok([0, 2, 4].map(|index| (bit(index), bit(index + 1))))
    }

    fn call<T>(&self, number: i32, kind: QuotaKind, id: u32, raw: &mut T) -> Result<()> {
        let kind = match kind {
            QuotaKind::User => libc::USRQUOTA,
            QuotaKind::Group => libc::GRPQUOTA,
            QuotaKind::Project => PROJECT_QUOTA,
        };
        let address = std::ptr::from_mut(raw).cast();
        // SAFETY: the callers pass the structure that belongs to the number. The path ends with a
        // zero byte. The kernel uses neither of them after the call.
        let result = unsafe {
            libc::quotactl(libc::QCMD(number, kind), self.device.as_ptr(), id as i32, address)
        };
        if result == 0 {
            return Ok(());
        }
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Returns the low 32 bits and the high 8 bits of a time.
fn split(time: u64) -> (u32, i8) {
    (time as u32, (time >> 32) as i8)
}

/// The number of the quota type of projects, PRJQUOTA.
const PROJECT_QUOTA: i32 = 2;
/// FS_DQ_BIGTIME: the high bits of the timers are valid.
const BIG_TIMERS: u16 = 1 << 15;
