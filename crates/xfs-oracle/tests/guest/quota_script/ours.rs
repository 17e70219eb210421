//! ferroxfs as a subject of the quota script.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use ferroxfs::quota::{Limits, Quota, QuotaMode, QuotaOptions, Usage};
use ferroxfs::{Credentials, Error, OpenOptions, Timestamp, Volume};
use rustix::io::Errno;
use xfs_format::dquot::QuotaKind;
use xfs_oracle::model::Operation;
use xfs_oracle::{QuotaRecord, QuotaSetting, QuotaUsage, Subject};

use super::step::{Actor, BASIC_BLOCKS};
use super::{DirectorySpace, MOUNT_OPTIONS, QuotaSubject, START};
use crate::library::Library;

/// A volume that ferroxfs has open for writing.
pub(super) struct OpenVolume {
    image: PathBuf,
    clock: u64,
    quota: QuotaOptions,
    /// The open volume. `None` after it was closed and before it is opened again.
    volume: Option<Volume>,
    /// For each user, the volume with the permissions of that user.
    users: HashMap<Actor, Library>,
    /// The user that has a file open. `None` if no file is open.
    holder: Option<Actor>,
}

impl OpenVolume {
    /// Opens a volume with the mount options at the beginning of the script.
    pub(super) fn open(image: &Path) -> Result<Self, Errno> {
        let mut volume = Self {
            image: image.to_owned(),
            clock: START,
            quota: options(MOUNT_OPTIONS),
            volume: None,
            users: HashMap::new(),
            holder: None,
        };
        volume.open_again()?;
        Ok(volume)
    }

    fn volume(&self) -> &Volume {
        self.volume.as_ref().expect("the volume is open between the calls")
    }

    /// Closes the volume, if it is open, and opens it with the current options and time.
    fn open_again(&mut self) -> Result<(), Errno> {
        self.close()?;
        let now = Timestamp::new(self.clock.cast_signed(), 0).ok_or(Errno::RANGE)?;
        let options = OpenOptions::new().write(true).quota(self.quota).fixed_time(now);
        self.volume = Some(options.open(&self.image).map_err(|error| {
            eprintln!("cannot open the volume: {error}");
            Errno::IO
        })?);
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<(), Errno> {
        self.users.clear();
        self.holder = None;
        self.volume.take().map_or(Ok(()), Volume::close).map_err(number)
    }

    fn is_counted(&self, kind: QuotaKind) -> bool {
        !matches!(self.quota.mode(kind), QuotaMode::Off | QuotaMode::Unset)
    }
}

impl QuotaSubject for OpenVolume {
    fn perform(&mut self, actor: &Actor, operation: &Operation) -> Result<(), Errno> {
        // The file that is open belongs to the user that has opened it.
        let is_of_open_file =
            matches!(operation, Operation::LinkSlot { .. } | Operation::Close { .. });
        let user = self.holder.clone().filter(|_| is_of_open_file).unwrap_or(actor.clone());
        let volume = self.volume().clone();
        let library = self.users.entry(user.clone()).or_insert_with(|| {
            Library::new(match user.id {
                0 => volume,
                id => volume.as_user(Credentials::new(id, id).groups(user.group)),
            })
        });
        let result = library.perform(operation).map(drop);
        let opens = matches!(operation, Operation::Open { .. } | Operation::MakeTemporary { .. });
        match operation {
            Operation::Close { .. } => self.holder = None,
            _ if opens && result.is_ok() => self.holder = Some(user),
            _ => {}
        }
        result
    }

    fn record(&mut self, kind: QuotaKind, id: u32) -> Result<Option<QuotaRecord>, Errno> {
        if !self.is_counted(kind) {
            return Err(Errno::SRCH);
        }
        let quota = self.volume().quota().get(kind, id).map_err(number)?;
        // The kernel shows timers only while it enforces limits.
        let has_timers = self.quota.mode(kind) == QuotaMode::Enforce;
        let usage = |usage: Usage, unit: u64| QuotaUsage {
            used: usage.used * unit,
            soft: usage.soft * unit,
            hard: usage.hard * unit,
            timer: if has_timers { usage.timer } else { 0 },
        };
        let record = |Quota { blocks, inodes, .. }| QuotaRecord {
            blocks: usage(blocks, BASIC_BLOCKS),
            inodes: usage(inodes, 1),
        };
        Ok(quota.map(record))
    }

    fn set(&mut self, kind: QuotaKind, id: u32, settings: &[QuotaSetting]) -> Result<(), Errno> {
        let mut limits = Limits::default();
        let Limits { blocks, inodes, .. } = &mut limits;
        for setting in settings {
            match *setting {
                QuotaSetting::BlockSoft(limit) => blocks.soft = Some(limit / BASIC_BLOCKS),
                QuotaSetting::BlockHard(limit) => blocks.hard = Some(limit / BASIC_BLOCKS),
                QuotaSetting::InodeSoft(limit) => inodes.soft = Some(limit),
                QuotaSetting::InodeHard(limit) => inodes.hard = Some(limit),
                QuotaSetting::BlockTimer(end) => *blocks = blocks.timer(end),
                QuotaSetting::InodeTimer(end) => *inodes = inodes.timer(end),
            }
        }
        self.volume().quota().set(kind, id, &limits).map_err(number)
    }

    fn space(&mut self, path: &str) -> Result<DirectorySpace, Errno> {
        let space = self.volume().lookup(path).and_then(|node| node.space()).map_err(number)?;
        Ok(DirectorySpace {
            blocks: space.total_blocks,
            free_blocks: space.available_blocks,
            files: space.files,
            free_files: space.free_files(),
        })
    }

    fn state(&mut self) -> Result<BTreeSet<(QuotaKind, &'static str)>, Errno> {
        if !self.quota.is_on() {
            return Err(Errno::NOSYS);
        }
        let state = self.volume().quota().state().map_err(number)?;
        let mut words = BTreeSet::new();
        for kind in QuotaKind::ALL {
            if state.is_accounted(kind) {
                words.insert((kind, "accounted"));
            }
            if state.is_enforced(kind) {
                words.insert((kind, "enforced"));
            }
        }
        Ok(words)
    }

    fn remount(&mut self, mount_options: &str) -> Result<(), Errno> {
        self.quota = options(mount_options);
        self.open_again()
    }

    /// Opens the volume again at another time.
    fn set_clock(&mut self, seconds: u64) -> Result<(), Errno> {
        if self.clock == seconds {
            return Ok(());
        }
        self.clock = seconds;
        self.open_again()
    }

    fn settle(&mut self) -> Result<(), Errno> {
        let volume = self.volume();
        volume.freeze().and_then(|()| volume.thaw()).map_err(number)
    }
}

/// Returns the options that these mount options stand for.
fn options(mount_options: &str) -> QuotaOptions {
    let mut quota = QuotaOptions::default();
    for word in mount_options.split(',') {
        match word {
            "uquota" => quota.user = QuotaMode::Enforce,
            "gquota" => quota.group = QuotaMode::Enforce,
            "pquota" => quota.project = QuotaMode::Enforce,
            "uqnoenforce" => quota.user = QuotaMode::NoEnforce,
            other => assert_eq!(other, "noquota", "the script has no other mount options"),
        }
    }
    quota
}

fn number(error: Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}
