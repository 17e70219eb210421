//! The kernel as a subject of the quota script, inside of the guest.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use xfs_format::dquot::QuotaKind;
use xfs_oracle::model::Operation;
use xfs_oracle::{Kernel, KernelQuota, QuotaRecord, QuotaSetting, Subject, freeze_and_thaw};

use super::step::Actor;
use super::{DirectorySpace, QuotaSubject};

/// A volume that the kernel of the guest mounts.
pub(super) struct MountedVolume {
    device: PathBuf,
    folder: PathBuf,
    kernel: Kernel,
    quota: KernelQuota,
}

impl MountedVolume {
    /// Mounts a volume with these options.
    pub(super) fn mount(device: &Path, folder: &Path, options: &str) -> Result<Self, Errno> {
        let (kernel, quota) = (Kernel::new(folder), KernelQuota::of(device));
        let (device, folder) = (device.to_owned(), folder.to_owned());
        let mut volume = Self { device, folder, kernel, quota };
        volume.attach(options)?;
        Ok(volume)
    }

    fn attach(&mut self, options: &str) -> Result<(), Errno> {
        run(Command::new("mount").args(["-o", options]).arg(&self.device).arg(&self.folder))
    }
}

impl QuotaSubject for MountedVolume {
    fn perform(&mut self, actor: &Actor, operation: &Operation) -> Result<(), Errno> {
        become_user(actor)?;
        let result = self.kernel.perform(operation);
        become_root()?;
        result.map(drop)
    }

    fn record(&mut self, kind: QuotaKind, id: u32) -> Result<Option<QuotaRecord>, Errno> {
        self.quota.get(kind, id)
    }

    fn set(&mut self, kind: QuotaKind, id: u32, settings: &[QuotaSetting]) -> Result<(), Errno> {
        self.quota.set(kind, id, settings)
    }

    fn space(&mut self, path: &str) -> Result<DirectorySpace, Errno> {
        let space = rustix::fs::statvfs(self.folder.join(path))?;
        Ok(DirectorySpace {
            blocks: space.f_blocks,
            free_blocks: space.f_bavail,
            files: space.f_files,
            free_files: space.f_ffree,
        })
    }

    fn state(&mut self) -> Result<BTreeSet<(QuotaKind, &'static str)>, Errno> {
        let mut state = BTreeSet::new();
        for (kind, (is_accounted, is_enforced)) in
            QuotaKind::ALL.into_iter().zip(self.quota.state()?)
        {
            if is_accounted {
                state.insert((kind, "accounted"));
            }
            if is_enforced {
                state.insert((kind, "enforced"));
            }
        }
        Ok(state)
    }

    fn remount(&mut self, options: &str) -> Result<(), Errno> {
        run(Command::new("umount").arg(&self.folder))?;
        self.attach(options)
    }

    /// Sets the clock of the guest, unless it already shows this second.
    fn set_clock(&mut self, seconds: u64) -> Result<(), Errno> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| Errno::RANGE)?;
        if now.as_secs() == seconds {
            return Ok(());
        }
        run(Command::new("date").args(["-s", &format!("@{seconds}")]))
    }

    fn settle(&mut self) -> Result<(), Errno> {
        freeze_and_thaw(File::open(&self.folder).map_err(|_| Errno::IO)?)
    }
}

/// Gives this thread the rights of a user. The saved IDs stay those of root.
fn become_user(actor: &Actor) -> Result<(), Errno> {
    if actor.id == 0 {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(actor.id), Gid::from_raw(actor.id));
    let groups: Vec<_> = actor.group.into_iter().map(Gid::from_raw).collect();
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, group, Gid::ROOT)?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, user, Uid::ROOT)
}

fn become_root() -> Result<(), Errno> {
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    rustix::thread::set_thread_groups(&[])
}

/// Runs a program. If the program fails, prints its messages and returns EIO.
fn run(command: &mut Command) -> Result<(), Errno> {
    let output = command.output().map_err(|_| Errno::NOEXEC)?;
    if output.status.success() {
        return Ok(());
    }
    println!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Err(Errno::IO)
}
