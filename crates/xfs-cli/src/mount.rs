//! The commands that serve a volume through FUSE or NFS, and the commands about running mounts.

mod background;
mod damaged;
pub(crate) mod helper;
#[expect(clippy::module_inception, reason = "the file of a command bears its name")]
pub(crate) mod mount;
pub(crate) mod mounts;
pub(crate) mod nfs;
pub(crate) mod predecessor;
pub(crate) mod process;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod system_log;
pub(crate) mod trace;
pub(crate) mod umount;
mod users;
