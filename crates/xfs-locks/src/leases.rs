//! The leases of one file: promises to be told, and to be given time, before somebody else does what
//! does not go with them.
//!
//! ```text
//!            set                break_for                  set (lower), release, or the deadline
//!  nothing ──────► held ─────────────────────► breaking ──────────────────────► lower, or nothing
//! ```
//!
//! # Invariants
//!
//! - **I1** A lease for writing has its file to itself, but for what breaks it just now.
//! - **I2** What is being broken is not broken a second time, unless more is asked for.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::LockError;
use crate::opens::{OpenMode, Opens};

/// What a lease is for. Each kind is broken by other things; see [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseKind {
    /// Of a program: `F_SETLEASE`.
    Lease,
    /// Of a file server for its client: broken by changes of names and attributes as well.
    Delegation,
    /// Where the data lies was given away: broken by what moves it, and by nothing else.
    Layout,
}

/// What the holder of a lease may count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseMode {
    /// Nobody has the file open for writing.
    Read,
    /// Nobody else has the file open.
    Write,
}

/// What somebody is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breaker {
    /// Open the file; for writing also where it is cut off by name.
    Open(OpenMode),
    /// Change its names, owner, mode or attributes.
    Change,
    /// Read or change blocks whose place was given away.
    Layout(OpenMode),
}

impl Breaker {
    /// What is left of a lease that it breaks; `None` if it goes with the lease.
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

/// What a lease comes down to when it is broken.
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

/// Told to the holder of a lease that is being broken: what it can keep. Called without locks held;
/// it may call back, but must not wait.
pub type Notify = Arc<dyn Fn(Option<LeaseMode>) + Send + Sync>;

/// What is left, and when it is taken if it is not given.
type Breaking = (Downgrade, Instant);

struct Lease {
    holder: u64,
    kind: LeaseKind,
    mode: LeaseMode,
    breaking: Option<Breaking>,
    notify: Notify,
}

/// Somebody who asks for a lease.
pub struct LeaseRequest {
    /// The open file description.
    pub holder: u64,
    /// What the holder has the file open for.
    pub own: OpenMode,
    /// What it is for.
    pub kind: LeaseKind,
    /// What it promises.
    pub mode: LeaseMode,
    /// How the holder is told.
    pub notify: Notify,
}

/// What has to happen before somebody can go on.
#[derive(Default)]
pub struct Break {
    /// Until when holders have time; `None` if nothing is in the way.
    pub until: Option<Instant>,
    /// Whom to tell, and what they can keep.
    pub notices: Vec<(Notify, Option<LeaseMode>)>,
}

/// The leases of one file.
#[derive(Default)]
pub struct LeaseTable {
    leases: Vec<Lease>,
}

impl LeaseTable {
    /// A file without leases.
    #[must_use]
    pub const fn new() -> Self {
        Self { leases: Vec::new() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Gives a lease, or changes the one that the holder has of this kind. `opens` are all opens of
    /// the file, the holder's own with them.
    ///
    /// # Errors
    ///
    /// [`LockError::WouldBlock`] if the file is open in a way that does not go with it, or if another
    /// lease stands against it.
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

    /// What the holder has of this kind: where it is being broken, what will be left of it.
    #[must_use]
    pub fn mode(&self, holder: u64, kind: LeaseKind) -> Option<LeaseMode> {
        let mine = self.leases.iter().find(|lease| lease.holder == holder && lease.kind == kind)?;
        mine.breaking.map_or(Some(mine.mode), |(left, _)| left.mode())
    }

    /// Takes back what the holder has, of one kind or of all. Returns whether that was anything.
    pub fn release(&mut self, holder: u64, kind: Option<LeaseKind>) -> bool {
        let before = self.leases.len();
        let goes = |lease: &Lease| lease.holder == holder && kind.is_none_or(|k| k == lease.kind);
        self.leases.retain(|lease| !goes(lease));
        self.leases.len() < before
    }

    /// Whether anything may stand in somebody's way. Also what has run out does, until
    /// [`break_for`](Self::break_for) takes it.
    #[must_use]
    pub fn stands_against(&self, breaker: Breaker) -> bool {
        self.leases.iter().any(|lease| breaker.leaves(lease.kind, lease.mode).is_some())
    }

    /// Begins to break what stands in somebody's way, and takes what was to be given by `now`. A
    /// holder has `grace` from when it is first told.
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
