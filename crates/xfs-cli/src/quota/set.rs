//! `quota set`: sets limits and grace periods of an owner.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::quota::{Limit, Limits, QuotaMode, QuotaOptions, QuotaType, Usage};

use super::project;
use crate::cli::{GlobalOptions, QuotaSetArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Image, ImageVolume};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::text::owners;
use crate::text::time::Clock;

struct Set {
    arguments: QuotaSetArguments,
    image: Image,
    kind: QuotaType,
    id: u32,
    clock: Clock,
}

/// Opens the image for writing, so that usage is counted, and returns the command, ready to run.
pub(crate) fn open(
    arguments: QuotaSetArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let (kind, id) = owner(&arguments)?;
    if options.live || options.no_recovery {
        return Err(Failure::usage("--live and --no-recovery are for reading"));
    }
    let image = Image::open_counting(&arguments.image, options, counted(kind))?;
    Ok(Box::new(Set { arguments, image, kind, id, clock: Clock::open() }))
}

/// Returns the owner that the command line names.
fn owner(arguments: &QuotaSetArguments) -> Result<(QuotaType, u32), Failure> {
    let find = |kind: QuotaType, name: &OsStr, find: fn(&[u8]) -> Option<u32>| {
        let id = find(name.as_bytes()).ok_or_else(|| {
            let shown = names::in_message(name.as_bytes());
            let kind = kind.name();
            Failure::usage(format!(
                "quota set: {shown} is neither a {kind} of this host nor a number"
            ))
        });
        id.map(|id| (kind, id))
    };
    match (&arguments.user, &arguments.group, &arguments.project) {
        (Some(name), None, None) => find(QuotaType::User, name, owners::user),
        (None, Some(name), None) => find(QuotaType::Group, name, owners::group),
        (None, None, Some(name)) => Ok((QuotaType::Project, project::parse(name)?)),
        _ => Err(Failure::usage("quota set: name one user, group or project")),
    }
}

/// Returns options with which the volume counts the types that it already counts, and also the type
/// of the owner.
const fn counted(of_owner: QuotaType) -> QuotaOptions {
    let mut quota = QuotaOptions::all(QuotaMode::Keep);
    let own = match of_owner {
        QuotaType::User => &mut quota.user,
        QuotaType::Group => &mut quota.group,
        QuotaType::Project => &mut quota.project,
    };
    *own = QuotaMode::KeepOrEnforce;
    quota
}

impl Run for Set {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let volume = self.image.volume(console)?;
        let set = self.set(&volume);
        volume.close_after(set, console)?;
        Ok(console.conclude()?)
    }
}

impl Set {
    fn set(&self, volume: &ImageVolume) -> Result<(), Failure> {
        let quotas = volume.inner().quota();
        let failed = |error| volume.whole_failure(error);
        let before = quotas.get(self.kind, self.id).map_err(failed)?;
        let (blocks, inodes, rt_blocks) = before
            .map_or_else(Default::default, |quota| (quota.blocks, quota.inodes, quota.rt_blocks));
        let arguments = &self.arguments;
        let block_bytes = u64::from(volume.inner().geometry().block_size);
        let in_blocks = |bytes: Option<u64>| bytes.map(|bytes| bytes.div_ceil(block_bytes));
        let mut limits = Limits::new();
        limits.blocks.soft = in_blocks(arguments.block_soft);
        limits.blocks.hard = in_blocks(arguments.block_hard);
        limits.blocks.timer = arguments.block_grace.map(|seconds| self.timer(seconds));
        limits.inodes.soft = arguments.inode_soft;
        limits.inodes.hard = arguments.inode_hard;
        limits.inodes.timer = arguments.inode_grace.map(|seconds| self.timer(seconds));
        limits.rt_blocks.soft = in_blocks(arguments.realtime_soft);
        limits.rt_blocks.hard = in_blocks(arguments.realtime_hard);
        limits.rt_blocks.timer = arguments.realtime_grace.map(|seconds| self.timer(seconds));
        let changes = [
            ("blocks", &blocks, &limits.blocks),
            ("inodes", &inodes, &limits.inodes),
            ("realtime blocks", &rt_blocks, &limits.rt_blocks),
        ];
        for (resource, before, change) in changes {
            check_order(resource, before, change).map_err(|error| volume.whole_failure(error))?;
        }
        quotas.set(self.kind, self.id, &limits).map_err(failed)
    }

    /// Returns the timer for a grace period. For ID 0, the timer is the length of the period; for
    /// any other ID, the time at which it ends.
    fn timer(&self, seconds: u64) -> u64 {
        let now = u64::try_from(self.clock.now().seconds).unwrap_or(0);
        if self.id == 0 { seconds } else { now.saturating_add(seconds) }
    }
}

/// Refuses a hard limit below the soft limit. The library would leave both limits unchanged.
fn check_order(resource: &str, before: &Usage, change: &Limit) -> Result<(), Failure> {
    let (soft, hard) = (change.soft.unwrap_or(before.soft), change.hard.unwrap_or(before.hard));
    if hard == 0 || hard >= soft {
        return Ok(());
    }
    let message = format!(
        "quota set: the hard limit of {resource}, {hard}, would be below the soft limit, {soft}: \
         nothing was changed"
    );
    Err(Failure::new(Exit::Usage, message).hint("set both limits"))
}
