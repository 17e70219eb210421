//! Starting quota on a volume that is opened for writing.
//!
//! Owns: the options, the order of steps, and making quota inodes. Does **not** own: counting all
//! inodes ([`quotacheck`]).
//!
//! The options decide which types are counted, as in the kernel on a volume without a metadata
//! directory. The steps and what a crash leaves:
//!
//! 1. [`Attachment::begin`] is the first transaction. It sets the flags of each type. Accounted and
//!    enforced are set as the options say. Checked stays set only if it was set before, the type is
//!    still counted, and the default limits of the type can be read. After a crash the same types
//!    are still checked, and every change was counted.
//! 2. Recovery finishes the intents of the log. Its changes count in the types that are checked.
//! 3. [`Attachment::finish`] makes missing quota inodes, and counts the types that are not checked.
//!    After a crash these types are counted again.
//! 4. The last transaction marks all types as checked.

use std::sync::Arc;

use xfs_alloc::{InodePurpose, allocate_inode, inode_blocks};
use xfs_buffer::{BufferCache, Error, PosixError, Result};
use xfs_format::dquot::{QuotaFlags, QuotaKind};
use xfs_format::inode::{FileType, ForkFormat, InodeCheck, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::SuperblockCheck;
use xfs_format::{Corruption, DiskAddr, FormatVersion, InodeNumber, Structure, StructureAddress};
use xfs_inode::{InitialInode, LiveInode};
use xfs_trans::{Journal, QuotaLedger, Transaction};

use crate::engine::{QuotaClock, QuotaEngine};
use crate::state::QuotaState;
use crate::{quotacheck, superblock};

/// Whether the usage of a type of owner is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaMode {
    /// The usage is not counted.
    #[default]
    Off,
    /// The usage is counted. Limits are not enforced.
    NoEnforce,
    /// The usage is counted, and limits are enforced.
    Enforce,
    /// The type is counted, and its limits are enforced, if the superblock says so after the replay
    /// of the log.
    Keep,
    /// The same as [`Keep`](Self::Keep) for a type that was counted. Any other type is counted from
    /// now on, and its limits are enforced.
    KeepOrEnforce,
}

impl QuotaMode {
    /// Returns the mode that this mode stands for on a volume whose superblock has `state`. Only
    /// modes that depend on the volume change.
    const fn resolve(self, state: &QuotaState, kind: QuotaKind) -> Self {
        let kept = match (state.is_accounted(kind), state.is_enforced(kind)) {
            (false, _) => Self::Off,
            (true, false) => Self::NoEnforce,
            (true, true) => Self::Enforce,
        };
        match (self, kept) {
            (Self::Keep, kept)
            | (Self::KeepOrEnforce, kept @ (Self::NoEnforce | Self::Enforce)) => kept,
            (Self::KeepOrEnforce, _) => Self::Enforce,
            (fixed, _) => fixed,
        }
    }
}

/// The types of owners whose usage is counted. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaOptions {
    /// Users.
    #[doc(alias = "uquota")]
    pub user: QuotaMode,
    /// Groups.
    #[doc(alias = "gquota")]
    pub group: QuotaMode,
    /// Projects.
    #[doc(alias = "pquota")]
    pub project: QuotaMode,
}

impl QuotaOptions {
    /// Returns options that count nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self::all(QuotaMode::Off)
    }

    /// Sets the mode of users.
    #[must_use]
    pub const fn user(mut self, mode: QuotaMode) -> Self {
        self.user = mode;
        self
    }

    /// Sets the mode of groups.
    #[must_use]
    pub const fn group(mut self, mode: QuotaMode) -> Self {
        self.group = mode;
        self
    }

    /// Sets the mode of projects.
    #[must_use]
    pub const fn project(mut self, mode: QuotaMode) -> Self {
        self.project = mode;
        self
    }

    /// Returns options that count users, groups and projects in the same way.
    #[must_use]
    pub const fn all(mode: QuotaMode) -> Self {
        Self { user: mode, group: mode, project: mode }
    }

    /// Returns the mode for owners of the type `kind`.
    #[must_use]
    pub const fn mode(&self, kind: QuotaKind) -> QuotaMode {
        match kind {
            QuotaKind::User => self.user,
            QuotaKind::Group => self.group,
            QuotaKind::Project => self.project,
        }
    }

    /// Returns whether any type is counted. A type whose mode depends on the volume counts as
    /// counted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        *self != Self::default()
    }

    fn flags_of(&self, kind: QuotaKind) -> QuotaFlags {
        match self.mode(kind) {
            QuotaMode::Off | QuotaMode::Keep | QuotaMode::KeepOrEnforce => QuotaFlags::empty(),
            QuotaMode::NoEnforce => kind.accounted_flag(),
            QuotaMode::Enforce => kind.accounted_flag() | kind.enforced_flag(),
        }
    }

    fn kinds(&self) -> impl Iterator<Item = QuotaKind> + use<> {
        let options = *self;
        QuotaKind::ALL.into_iter().filter(move |kind| options.mode(*kind) != QuotaMode::Off)
    }
}

/// Replaces the modes that depend on the volume by the modes that the superblock of the volume
/// gives. The caller has replayed the log before.
///
/// # Errors
///
/// Returns the device's error.
pub fn resolve_modes(options: QuotaOptions, cache: &BufferCache) -> Result<QuotaOptions> {
    if !options.is_on() {
        return Ok(options);
    }
    let state = QuotaState::read(cache)?;
    let mode = |kind| options.mode(kind).resolve(&state, kind);
    Ok(QuotaOptions {
        user: mode(QuotaKind::User),
        group: mode(QuotaKind::Group),
        project: mode(QuotaKind::Project),
    })
}

/// The start of quota on a volume, half done: the types whose counts are right are counted already,
/// the others not yet.
#[must_use = "the types that are not checked are not counted yet"]
pub struct Attachment {
    engine: Arc<QuotaEngine>,
    options: QuotaOptions,
    /// The types whose counts are not right yet.
    unchecked: Vec<QuotaKind>,
}

impl Attachment {
    /// Writes the quota flags into the superblock, and starts to count the types whose counts were
    /// checked before. This must be the first transaction of the journal.
    ///
    /// # Errors
    ///
    /// Returns the device's error, also if it prevents reading the default limits of a type.
    /// Returns the failed check of a quota inode, or the error that stopped the log. After an error
    /// before the first transaction, the volume is as it was.
    ///
    /// # Panics
    ///
    /// Panics if a mode depends on the volume: the caller has resolved all modes.
    pub fn begin(journal: &Arc<Journal>, options: QuotaOptions, clock: QuotaClock) -> Result<Self> {
        let is_open =
            |kind| matches!(options.mode(kind), QuotaMode::Keep | QuotaMode::KeepOrEnforce);
        assert!(!QuotaKind::ALL.into_iter().any(is_open), "the modes are resolved");
        let state = QuotaState::read(journal.cache())?;
        let engine = Arc::new(QuotaEngine::new(clock, &state));
        let mut unchecked = Vec::new();
        let mut flags = QuotaFlags::empty();
        for kind in options.kinds() {
            flags |= options.flags_of(kind);
            let checked = kind.checked_flag(FormatVersion::V5);
            match state.inode(kind) {
                Some(number) => {
                    check_belongs_to_one(&state, kind, number)?;
                    let file = load_file(journal, number)?;
                    set_file(&engine, kind, file);
                    let was_checked = state.flags().contains(checked | kind.accounted_flag());
                    if was_checked && load_defaults(&engine, journal, kind)? {
                        flags |= checked;
                    } else {
                        unchecked.push(kind);
                    }
                }
                None => unchecked.push(kind),
            }
        }
        superblock::change_flags(journal, |_| flags)?;
        let this = Self { engine, options, unchecked };
        for kind in options.kinds().filter(|kind| !this.unchecked.contains(kind)) {
            this.engine.start(options.flags_of(kind));
        }
        journal.set_ledger(Arc::clone(&this.engine) as Arc<dyn QuotaLedger>);
        Ok(this)
    }

    /// Makes the missing quota inodes. Reads all inodes to count the usage of the types that are
    /// not checked, and then starts to count changes of these types. No other thread may use the
    /// volume yet.
    ///
    /// # Errors
    ///
    /// Returns ENOSPC if the volume has no space for dquots, the errors of reading all inodes, or
    /// the error that stopped the log.
    pub fn finish(self, journal: &Arc<Journal>) -> Result<Arc<QuotaEngine>> {
        let Self { engine, options, unchecked } = self;
        // The recovery may have met damaged dquots, and its transactions do not wait for others.
        engine.give_up_damaged(journal)?;
        for kind in &unchecked {
            if engine.kind(*kind).file.value().is_none() {
                make_file(&engine, journal, *kind)?;
            }
        }
        if !unchecked.is_empty() {
            quotacheck::run(&engine, journal, &unchecked)?;
            let checked = unchecked
                .iter()
                .fold(QuotaFlags::empty(), |all, kind| all | kind.checked_flag(FormatVersion::V5));
            superblock::change_flags(journal, |flags| flags | checked)?;
            unchecked.iter().for_each(|kind| engine.start(options.flags_of(*kind)));
        }
        Ok(engine)
    }
}

/// Loads the default limits of a type. Returns `false` if the block that holds the limits is
/// damaged. The counts of this type are then not right either, and the caller has them counted
/// again.
///
/// # Errors
///
/// Returns the device's error. Such an error is not treated as damage, because it may be temporary,
/// and counting again would write the block without its limits.
fn load_defaults(engine: &QuotaEngine, journal: &Journal, kind: QuotaKind) -> Result<bool> {
    match engine.load_defaults(journal, kind) {
        Ok(()) => Ok(true),
        Err(Error::Corrupt(damage)) => {
            tracing::warn!(kind = kind.name(), %damage, "quota: the default limits are damaged");
            Ok(false)
        }
        Err(error) => {
            tracing::warn!(kind = kind.name(), %error, "quota: the default limits cannot be read");
            Err(error)
        }
    }
}

fn set_file(engine: &QuotaEngine, kind: QuotaKind, file: Arc<LiveInode>) {
    let set = engine.kind(kind).file.set(file);
    assert!(set.is_ok(), "the quota inode of a type is loaded once");
}

/// Checks that no other type has the same quota inode. If two types shared an inode, each would log
/// a map of its own for it.
fn check_belongs_to_one(state: &QuotaState, kind: QuotaKind, number: InodeNumber) -> Result<()> {
    let mut others = QuotaKind::ALL.into_iter().filter(|other| *other != kind);
    if others.any(|other| state.inode(other) == Some(number)) {
        let place = StructureAddress::Disk(DiskAddr(0));
        let check = SuperblockCheck::SharedQuotaInode { inode: number.0 };
        return Err(Corruption::new(Structure::Superblock, place, check).into());
    }
    Ok(())
}

/// Loads a quota inode. Checks that the inode is a regular file of size 0 whose blocks are in an
/// extent map, as every quota inode is.
fn load_file(journal: &Arc<Journal>, number: InodeNumber) -> Result<Arc<LiveInode>> {
    let live = Arc::new(LiveInode::load(journal, number)?);
    let check = {
        let inode = live.inode();
        let core = inode.core();
        let is_map = matches!(core.data_format, ForkFormat::Extents | ForkFormat::Btree);
        let is_plain = inode.file_type() == FileType::Regular && !core.is_realtime();
        let has_name = core.nlink != 0;
        match is_map && is_plain && has_name && core.size == 0 && core.project_id == 0 {
            true => None,
            false => Some(InodeCheck::Mode { mode: core.mode }),
        }
    };
    match check {
        None => Ok(live),
        Some(check) => {
            let place = StructureAddress::Inode(number);
            Err(Corruption::new(Structure::Inode, place, check).into())
        }
    }
}

/// Makes the quota inode of a type, and stores its number in the superblock, in one transaction.
#[doc(alias = "xfs_qm_qino_alloc")]
fn make_file(engine: &QuotaEngine, journal: &Arc<Journal>, kind: QuotaKind) -> Result<()> {
    let tx = journal.begin(TransactionKind::Create, inode_blocks(journal.geometry()))?;
    let is_made = tx.commit_or_cancel(|tx| match allocate_file(tx, engine, kind) {
        // The search may have refilled free lists, which is committed.
        Err(Error::Posix(PosixError::NoSpace)) => Ok(false),
        made => made.map(|()| true),
    })?;
    if is_made { Ok(()) } else { Err(PosixError::NoSpace.into()) }
}

fn allocate_file(tx: &mut Transaction<'_>, engine: &QuotaEngine, kind: QuotaKind) -> Result<()> {
    let root = tx.journal().superblock().root_inode;
    let inode = allocate_inode(tx, root, InodePurpose::File)?;
    let file = LiveInode::create(
        tx,
        InitialInode {
            inode,
            mode: FileType::Regular.mode_bits(),
            uid: 0,
            gid: 0,
            project_id: 0,
            nlink: 1,
            now: engine.now(),
            flags: InodeFlags::empty(),
            flags2: InodeFlags2::empty(),
            extent_size_hint_blocks: 0,
            cow_extent_size_hint_blocks: 0,
            rdev: None,
            attr_room: false,
            attributes: None,
        },
    )?;
    superblock::set_inode(tx, kind, file.number())?;
    // Before the commit, which must not charge the inode to any owner.
    set_file(engine, kind, Arc::new(file));
    Ok(())
}
