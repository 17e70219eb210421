//! Quota of a new volume: `--quota` and `--limit`.
//!
//! The volume is filled with quota on, so each file is counted as it is written. The limits are set
//! after the last file: files that exceed a limit are kept, and a note names the limit.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::quota::{Limits, QuotaMode, QuotaOptions, QuotaType};
use xfs_mkfs::QuotaChoice;

use crate::cli::MkfsArguments;
use crate::failure::Failure;
use crate::image::ImageVolume;
use crate::terminal::names;
use crate::text::{owners, size};

/// The quota of a new volume.
pub(super) struct NewQuota {
    /// The types of which usage is counted while the volume is filled.
    pub(super) options: QuotaOptions,
    limits: Vec<OwnerLimits>,
}

/// The limits of one owner; 0 for none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnerLimits {
    kind: QuotaType,
    id: u32,
    soft_bytes: u64,
    hard_bytes: u64,
    soft_inodes: u64,
    hard_inodes: u64,
}

impl NewQuota {
    /// Parses the options. `planned` has the types of `-m uquota` and others.
    pub(super) fn parse(
        arguments: &MkfsArguments,
        planned: &xfs_mkfs::QuotaOptions,
    ) -> Result<Self, Failure> {
        let limits: Result<Vec<_>, _> = arguments.limits.iter().map(OwnerLimits::parse).collect();
        let limits = limits?;
        if arguments.quota.is_empty() && limits.is_empty() {
            // The superblock decides.
            return Ok(Self { options: QuotaOptions::new(), limits });
        }
        let planned = [planned.user, planned.group, planned.project].map(|choice| match choice {
            QuotaChoice { enforced: true, .. } => QuotaMode::Enforce,
            QuotaChoice { accounted: true, .. } => QuotaMode::NoEnforce,
            QuotaChoice { .. } => QuotaMode::Off,
        });
        let mut options = with_modes(planned);
        for word in &arguments.quota {
            let (kind, mode) = parse_type(word)?;
            let chosen = options.mode(kind);
            if !matches!(chosen, QuotaMode::Off) && chosen != mode {
                let name = kind.name();
                return Err(Failure::usage(format!("quota of the type {name} is given twice")));
            }
            options = with_mode(options, kind, mode);
        }
        for OwnerLimits { kind, .. } in &limits {
            if matches!(options.mode(*kind), QuotaMode::Off) {
                options = with_mode(options, *kind, QuotaMode::Enforce);
            }
        }
        Ok(Self { options, limits })
    }

    /// Returns whether the options ask for quota of a volume that may be empty.
    pub(super) fn is_asked(&self) -> bool {
        self.options != QuotaOptions::new()
    }

    /// Sets the limits. Returns a note for each limit that the files exceed.
    pub(super) fn set_limits(&self, volume: &ImageVolume) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        for owner in &self.limits {
            notes.extend(owner.set(volume).map_err(|error| volume.whole_failure(error))?);
        }
        Ok(notes)
    }
}

fn with_modes([user, group, project]: [QuotaMode; 3]) -> QuotaOptions {
    QuotaOptions::new().user(user).group(group).project(project)
}

fn with_mode(options: QuotaOptions, kind: QuotaType, mode: QuotaMode) -> QuotaOptions {
    match kind {
        QuotaType::User => options.user(mode),
        QuotaType::Group => options.group(mode),
        QuotaType::Project => options.project(mode),
    }
}

/// Parses the name of a type as an option of mount(8).
fn parse_type(word: &str) -> Result<(QuotaType, QuotaMode), Failure> {
    Ok(match word {
        "uquota" | "usrquota" => (QuotaType::User, QuotaMode::Enforce),
        "gquota" | "grpquota" => (QuotaType::Group, QuotaMode::Enforce),
        "pquota" | "prjquota" => (QuotaType::Project, QuotaMode::Enforce),
        "uqnoenforce" => (QuotaType::User, QuotaMode::NoEnforce),
        "gqnoenforce" => (QuotaType::Group, QuotaMode::NoEnforce),
        "pqnoenforce" => (QuotaType::Project, QuotaMode::NoEnforce),
        _ => {
            let shown = names::printable(word);
            return Err(Failure::usage(format!("--quota: {shown} is not a type of quota"))
                .hint("uquota, gquota, pquota, uqnoenforce, gqnoenforce, pqnoenforce are"));
        }
    })
}

impl OwnerLimits {
    /// Parses `TYPE=OWNER:LIMIT=VALUE,…`, with the limits of xfs_quota(8).
    fn parse(text: &OsString) -> Result<Self, Failure> {
        let usage = |message: &str| {
            Failure::usage(format!("--limit {}: {message}", names::in_message(text.as_bytes())))
        };
        let not_one = || usage("is not OWNER:LIMITS, such as project=42:bhard=10m,ihard=1000");
        let text = text.to_str().ok_or_else(not_one)?;
        let (owner, limits) = text.split_once(':').ok_or_else(not_one)?;
        let (kind, name) = owner.split_once('=').ok_or_else(not_one)?;
        let name = name.as_bytes();
        let (kind, id) = match kind {
            "user" => (QuotaType::User, owners::user(name)),
            "group" => (QuotaType::Group, owners::group(name)),
            "project" => (QuotaType::Project, owners::project(name)),
            _ => return Err(usage("the owner is none of user=, group= and project=")),
        };
        let id = id.ok_or_else(|| {
            usage(&format!("the {} is neither known to this host nor a number", kind.name()))
        })?;
        let (soft_bytes, hard_bytes, soft_inodes, hard_inodes) = (0, 0, 0, 0);
        let mut parsed = Self { kind, id, soft_bytes, hard_bytes, soft_inodes, hard_inodes };
        for limit in limits.split(',') {
            let (name, value) = limit.split_once('=').ok_or_else(not_one)?;
            let bytes = || size::parse(value).map_err(|error| usage(&error));
            let inodes = || value.parse().map_err(|_| usage("a number of inodes is invalid"));
            match name {
                "bsoft" => parsed.soft_bytes = bytes()?,
                "bhard" => parsed.hard_bytes = bytes()?,
                "isoft" => parsed.soft_inodes = inodes()?,
                "ihard" => parsed.hard_inodes = inodes()?,
                _ => return Err(usage("the limits are bsoft=, bhard=, isoft= and ihard=")),
            }
        }
        let is_below = |hard: u64, soft: u64| hard != 0 && hard < soft;
        match is_below(parsed.hard_bytes, parsed.soft_bytes)
            || is_below(parsed.hard_inodes, parsed.soft_inodes)
        {
            true => Err(usage("the hard limit is below the soft limit")),
            false => Ok(parsed),
        }
    }

    /// Sets the limits of the owner. Returns a note if its usage exceeds a hard limit.
    fn set(&self, volume: &ImageVolume) -> ferroxfs::Result<Option<String>> {
        let quotas = volume.inner().quota();
        let block_bytes = u64::from(volume.inner().geometry().block_size);
        let mut limits = Limits::new();
        limits.blocks.soft = Some(self.soft_bytes.div_ceil(block_bytes));
        limits.blocks.hard = Some(self.hard_bytes.div_ceil(block_bytes));
        limits.inodes.soft = Some(self.soft_inodes);
        limits.inodes.hard = Some(self.hard_inodes);
        quotas.set(self.kind, self.id, &limits)?;
        let Some(quota) = quotas.get(self.kind, self.id)? else { return Ok(None) };
        let is_above = |usage: &ferroxfs::quota::Usage| usage.hard != 0 && usage.used > usage.hard;
        let is_exceeded = self.id != 0 && (is_above(&quota.blocks) || is_above(&quota.inodes));
        Ok(is_exceeded.then(|| {
            let (kind, id) = (self.kind.name(), self.id);
            let used = size::human(quota.blocks.used * block_bytes);
            let inodes = quota.inodes.used;
            format!(
                "the files of {kind} {id} exceed its limit: {used} and {inodes} inodes are used"
            )
        }))
    }
}

#[cfg(test)]
mod tests;
