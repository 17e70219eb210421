//! The leases of one file. Before an operation that conflicts with a lease continues, the holder of
//! the lease is notified and gets some time to release it.
//!
//! ```text
//!            set                break_for                  set (lower), release, or the deadline
//!  nothing ──────► held ─────────────────────► breaking ──────────────────────► lower, or nothing
//! ```
//!
//! # Invariants
//!
//! - **I1** A write lease is the only lease of its file, except for leases that are being broken.
//! - **I2** A lease that is being broken is not broken again, unless a stronger break is needed.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::LockError;
use crate::opens::{OpenMode, Opens};

/// The kind of a lease. The operations that break a lease depend on its kind; see [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseKind {
    /// The lease of a program: `F_SETLEASE`.
    Lease,
    /// A lease of a file server for its client. Changes of names and attributes also break it.
    Delegation,
    /// A lease on the location of a file's data on the device, for a holder that accesses the
    /// device directly. Only operations that use or move the blocks break this lease.
    Layout,
}

/// The mode of a lease: the guarantee that the lease gives to its holder.
///
/// Not `#[non_exhaustive]`, because fcntl(2) has no other modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseMode {
    /// A read lease. As long as it is held, no program has the file open for writing.
    Read,
    /// A write lease. As long as it is held, the file has no other open.
    Write,
}

/// An operation that may break leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breaker {
    /// The operation opens the file. Truncating by path counts as an open for writing.
    Open(OpenMode),
    /// The operation changes the names, owner, mode or attributes of the file.
    Change,
    /// The operation reads or changes data of blocks whose location the holder of a layout lease
    /// knows.
    Layout(OpenMode),
}

impl Breaker {
    /// Returns the downgrade that the operation forces on a lease of this kind and mode. `None` if
    /// the operation does not break the lease.
    fn leaves(self, kind: LeaseKind, mode: LeaseMode) -> Option<Downgrade> {
        let access = match (self, kind) {
            (Self::Open(access), LeaseKind::Lease | LeaseKind::Delegation)
            | (Self::Layout(access), LeaseKind::Layout) => access,
            (Self::Change, LeaseKind::Delegation) => OpenMode::Write,
            _ => return None,
        };
        match (access, mode) {
            (OpenMode::Write, _) => Some(Downgrade::ToNone),
            (OpenMode::Read, LeaseMode::Write) => Some(Downgrade::ToRead),
            (OpenMode::Read, LeaseMode::Read) => None,
        }
    }
}

/// The outcome of breaking a lease: a lease of a lower mode, or no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Downgrade {
    ToRead,
    ToNone,
}

impl Downgrade {
    const fn mode(self) -> Option<LeaseMode> {
        match self {
            Self::ToRead => Some(LeaseMode::Read),
            Self::ToNone => None,
        }
    }
}

/// The function that notifies the holder of a lease that is being broken. The argument is the mode
/// that the holder can keep, or `None` if it can keep no lease. The caller holds no internal locks.
/// The function may call functions of this crate, but must not wait.
pub type Notify = Arc<dyn Fn(Option<LeaseMode>) + Send + Sync>;

/// The downgrade of a lease that is being broken, and the time at which it happens if its holder
/// does not release the lease before.
type Breaking = (Downgrade, Instant);

struct Lease {
    holder: u64,
    kind: LeaseKind,
    mode: LeaseMode,
    breaking: Option<Breaking>,
    notify: Notify,
}

/// A request for a lease.
pub struct LeaseRequest {
    /// The open file description that holds the lease.
    pub holder: u64,
    /// The mode in which the holder itself has the file open.
    pub own: OpenMode,
    /// The kind of the lease.
    pub kind: LeaseKind,
    /// The requested mode.
    pub mode: LeaseMode,
    /// The function that notifies the holder when the lease is being broken.
    pub notify: Notify,
}

/// The result of breaking leases: the holders to notify, and how long to wait.
#[derive(Default)]
pub struct Break {
    /// The earliest time at which a conflicting lease expires. `None` if no lease conflicts.
    pub until: Option<Instant>,
    /// The notification functions of the holders, each with the mode that the holder can keep.
    pub notices: Vec<(Notify, Option<LeaseMode>)>,
}

/// The leases of one file.
#[derive(Default)]
pub struct LeaseTable {
    leases: Vec<Lease>,
}

impl LeaseTable {
    /// Creates the table of a file without leases.
    #[must_use]
    pub const fn new() -> Self {
        Self { leases: Vec::new() }
    }

    /// Returns whether the file has no leases.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Grants a lease, or changes the mode of the holder's lease of this kind. `opens` has all
    /// opens of the file, including that of the holder.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] if an open or another lease conflicts with the request.
    pub fn set(&mut self, request: LeaseRequest, opens: Opens) -> Result<(), LockError> {
        let LeaseRequest { holder, own, kind, mode, notify } = request;
        let others = match own {
            OpenMode::Read => Opens { reads: opens.reads.saturating_sub(1), ..opens },
            OpenMode::Write => Opens { writes: opens.writes.saturating_sub(1), ..opens },
        };
        let goes_with_opens = match (kind, mode) {
            (LeaseKind::Layout, _) => true,
            (_, LeaseMode::Read) => opens.writes == 0,
            (_, LeaseMode::Write) => others == Opens::default(),
        };
        let stands_against = |lease: &Lease| {
            let is_leaving = matches!(lease.breaking, Some((Downgrade::ToNone, _)));
            let is_mine = lease.holder == holder && lease.kind == kind;
            let alone = mode == LeaseMode::Write || lease.mode == LeaseMode::Write;
            if is_mine {
                lease.breaking.is_some() && mode == LeaseMode::Write
            } else {
                alone || is_leaving
            }
        };
        if !goes_with_opens || self.leases.iter().any(stands_against) {
            return Err(LockError::WouldBlock);
        }
        match self.leases.iter_mut().find(|lease| lease.holder == holder && lease.kind == kind) {
            Some(mine) => {
                (mine.mode, mine.notify) = (mode, notify);
                mine.breaking = mine.breaking.filter(|(left, _)| left.mode() != Some(mode));
            }
            None => self.leases.push(Lease { holder, kind, mode, breaking: None, notify }),
        }
        Ok(())
    }

    /// Returns the mode of the holder's lease of this kind, or `None` if the holder has none. While
    /// the lease is being broken, returns the mode after the break.
    #[must_use]
    pub fn mode(&self, holder: u64, kind: LeaseKind) -> Option<LeaseMode> {
        let mine = self.leases.iter().find(|lease| lease.holder == holder && lease.kind == kind)?;
        mine.breaking.map_or(Some(mine.mode), |(left, _)| left.mode())
    }

    /// Releases the leases of a holder: those of `kind`, or of all kinds if `kind` is `None`.
    /// Returns whether the holder had any of them.
    pub fn release(&mut self, holder: u64, kind: Option<LeaseKind>) -> bool {
        let before = self.leases.len();
        let goes = |lease: &Lease| lease.holder == holder && kind.is_none_or(|k| k == lease.kind);
        self.leases.retain(|lease| !goes(lease));
        self.leases.len() < before
    }

    /// Returns whether a lease may conflict with the operation. A lease whose deadline has passed
    /// conflicts until [`break_for`](Self::break_for) downgrades or removes it.
    #[must_use]
    pub fn stands_against(&self, breaker: Breaker) -> bool {
        self.leases.iter().any(|lease| breaker.leaves(lease.kind, lease.mode).is_some())
    }

    /// Downgrades or removes the leases whose deadline has passed at `now`. Then begins to break
    /// the leases that conflict with an operation. From its first notification on, a holder has the
    /// time `grace` to release its lease.
    pub fn break_for(&mut self, breaker: Breaker, now: Instant, grace: Duration) -> Break {
        self.expire(now);
        let mut due = Break::default();
        for lease in &mut self.leases {
            let Some(left) = breaker.leaves(lease.kind, lease.mode) else { continue };
            let deadline = match lease.breaking {
                Some((before, deadline))
                    if before == Downgrade::ToNone || left == Downgrade::ToRead =>
                {
                    deadline
                }
                _ => {
                    let deadline = now + grace;
                    lease.breaking = Some((left, deadline));
                    due.notices.push((Arc::clone(&lease.notify), left.mode()));
                    deadline
                }
            };
            due.until = Some(due.until.map_or(deadline, |until| until.min(deadline)));
        }
        due
    }

    fn expire(&mut self, now: Instant) {
        for lease in &mut self.leases {
            if let Some((Downgrade::ToRead, deadline)) = lease.breaking
                && deadline <= now
            {
                (lease.mode, lease.breaking) = (LeaseMode::Read, None);
            }
        }
        let is_over = |breaking: &Breaking| breaking.1 <= now;
        self.leases.retain(|lease| !lease.breaking.as_ref().is_some_and(is_over));
    }
}

impl fmt::Debug for LeaseTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leases = self.leases.iter();
        f.debug_list()
            .entries(leases.map(|lease| (lease.holder, lease.kind, lease.mode, lease.breaking)))
            .finish()
    }
}

#[cfg(test)]
mod tests;
