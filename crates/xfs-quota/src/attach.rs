//! Starting quota on a volume that is opened for writing.
//!
//! Owns: the options and the order of steps. Does **not** own: making quota inodes
//! ([`files`](super::files)), or counting all inodes ([`quotacheck`]).
//!
//! The options decide which types are counted, as in the kernel. On a volume with a metadata
//! directory, the superblock decides if no option is given. The steps and what a crash leaves:
//!
//! 1. [`Attachment::begin`] is the first transaction. It sets three flags for each type. The flags
//!    "accounted" and "enforced" follow from the options. The flag "checked" stays set only if it
//!    was set before, the type is still counted, and the default limits of the type can be read.
//!    After a crash the same types are still checked, and every change was counted.
//! 2. Recovery finishes the intents of the log. Its changes count in the types that are checked.
//! 3. [`Attachment::finish`] makes missing quota inodes, and counts the types that are not checked.
//!    After a crash these types are counted again.
//! 4. The last transaction marks all types as checked.

use std::sync::Arc;

use xfs_buffer::{Error, Result};
use xfs_format::dquot::{QuotaFlags, QuotaKind};
use xfs_format::superblock::Unsupported;
use xfs_format::{FormatVersion, IncompatFeatures};
use xfs_trans::{Journal, QuotaLedger};

use crate::engine::{QuotaClock, QuotaEngine};
use crate::files::QuotaInodes;
use crate::state::QuotaState;
use crate::{quotacheck, superblock};

/// Whether the usage of a type of owner is counted, and its limits are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaMode {
    /// No mode is chosen. If none is chosen for any type, the superblock of a volume with a
    /// metadata directory decides, as with [`Keep`](Self::Keep). Otherwise the usage is not counted.
    #[default]
    Unset,
    /// The usage is not counted.
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
            (Self::Unset, _) => Self::Off,
            (fixed, _) => fixed,
        }
    }
}

/// The quota mode of each type of owner. The default chooses no mode for any type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaOptions {
    /// The mode of users.
    #[doc(alias = "uquota")]
    pub user: QuotaMode,
    /// The mode of groups.
    #[doc(alias = "gquota")]
    pub group: QuotaMode,
    /// The mode of projects.
    #[doc(alias = "pquota")]
    pub project: QuotaMode,
}

impl QuotaOptions {
    /// Returns options that choose no mode for any type.
    #[must_use]
    pub const fn new() -> Self {
        Self::all(QuotaMode::Unset)
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

    /// Returns options with the same mode for users, groups and projects.
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

    /// Returns whether any type is counted. If the chosen mode of a type depends on the volume, the
    /// type counts as counted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.kinds().next().is_some()
    }

    fn flags_of(&self, kind: QuotaKind) -> QuotaFlags {
        match self.mode(kind) {
            QuotaMode::Unset | QuotaMode::Off | QuotaMode::Keep | QuotaMode::KeepOrEnforce => {
                QuotaFlags::empty()
            }
            QuotaMode::NoEnforce => kind.accounted_flag(),
            QuotaMode::Enforce => kind.accounted_flag() | kind.enforced_flag(),
        }
    }

    fn kinds(&self) -> impl Iterator<Item = QuotaKind> + use<> {
        let options = *self;
        let is_counted = |mode| !matches!(mode, QuotaMode::Unset | QuotaMode::Off);
        QuotaKind::ALL.into_iter().filter(move |kind| is_counted(options.mode(*kind)))
    }
}

/// Replaces the modes that depend on the volume by the modes that the superblock of the volume
/// gives. The flags of a zoned volume count as absent, because writes to zones are not counted. The
/// caller has replayed the log before.
///
/// # Errors
///
/// Returns [`Unsupported::ZonedQuota`] if a mode is chosen for a zoned volume; the device's error.
pub fn resolve_modes(options: QuotaOptions, journal: &Journal) -> Result<QuotaOptions> {
    let superblock = journal.superblock();
    let is_zoned = superblock.has_incompat(IncompatFeatures::ZONED);
    if is_zoned && options.is_on() {
        return Err(Unsupported::ZonedQuota.into());
    }
    let has_directory = superblock.metadata_directory_inode.is_some() && !is_zoned;
    let options = match has_directory && options == QuotaOptions::default() {
        true => QuotaOptions::all(QuotaMode::Keep),
        false => options,
    };
    let state = QuotaState::read(journal.cache())?;
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
    inodes: QuotaInodes,
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
        let is_open = |kind| {
            let mode = options.mode(kind);
            matches!(mode, QuotaMode::Unset | QuotaMode::Keep | QuotaMode::KeepOrEnforce)
        };
        assert!(!QuotaKind::ALL.into_iter().any(is_open), "the modes are resolved");
        let state = QuotaState::read(journal.cache())?;
        let root = journal.superblock().metadata_directory_inode;
        let inodes = QuotaInodes::find(journal.cache(), &state, root)?;
        let engine = Arc::new(QuotaEngine::new(clock, inodes.numbers()));
        let mut unchecked = Vec::new();
        let mut flags = QuotaFlags::empty();
        for kind in options.kinds() {
            flags |= options.flags_of(kind);
            let checked = kind.checked_flag(FormatVersion::V5);
            match inodes.number(kind) {
                Some(number) => {
                    engine.set_file(kind, inodes.load(journal, kind, number)?);
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
        let this = Self { engine, options, inodes, unchecked };
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
        let Self { engine, options, mut inodes, unchecked } = self;
        // The recovery may have met damaged dquots, and its transactions do not wait for others.
        engine.give_up_damaged(journal)?;
        for kind in &unchecked {
            if engine.kind(*kind).file.value().is_none() {
                inodes.make(journal, *kind, engine.now(), |file| engine.set_file(*kind, file))?;
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
