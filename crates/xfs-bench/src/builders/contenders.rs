//! The command lines of the compared programs. Each gets the options that its manual names for
//! images that are the same in every run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xfs_oracle::Xfsprogs;

use super::Arguments;
use super::sources::{Source, Workload};
use crate::error::BenchError;

/// A compared program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Contender {
    Ferroxfs,
    FerroxfsMinimize,
    MkfsXfs,
    Fstool,
    SystemdRepart,
    VirtMakeFs,
    Mke2fs,
    MkfsErofs,
}

impl Contender {
    /// All programs: those that make XFS first.
    pub(super) const ALL: [Self; 8] = [
        Self::Ferroxfs,
        Self::FerroxfsMinimize,
        Self::MkfsXfs,
        Self::Fstool,
        Self::SystemdRepart,
        Self::VirtMakeFs,
        Self::Mke2fs,
        Self::MkfsErofs,
    ];

    /// Returns the name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ferroxfs => "ferroxfs mkfs --from",
            Self::FerroxfsMinimize => "ferroxfs mkfs --minimize --from",
            Self::MkfsXfs => "mkfs.xfs -p",
            Self::Fstool => "fstool",
            Self::SystemdRepart => "systemd-repart",
            Self::VirtMakeFs => "virt-make-fs",
            Self::Mke2fs => "mke2fs -d",
            Self::MkfsErofs => "mkfs.erofs",
        }
    }

    /// Returns whether the image has an XFS volume.
    pub(super) fn makes_xfs(self) -> bool {
        !matches!(self, Self::Mke2fs | Self::MkfsErofs)
    }

    /// Returns whether the image is an XFS volume, without a partition table.
    pub(super) fn makes_plain_xfs(self) -> bool {
        self.makes_xfs() && self != Self::SystemdRepart
    }
}

/// The time in the images of all programs that take one.
const TIME: &str = "1700000000";
const UUID: &str = "6f1c0f3e-5f0a-4c5e-9a53-0a6e1d5b7c11";

/// The programs, and what they have in common.
pub(super) struct Programs {
    ferroxfs: PathBuf,
    fstool: PathBuf,
    xfsprogs: Xfsprogs,
    scratch: PathBuf,
    limit_seconds: u32,
}

impl Programs {
    pub(super) fn new(arguments: &Arguments, scratch: &Path) -> Result<Self, BenchError> {
        let Arguments { ferroxfs, fstool, limit, .. } = arguments;
        // Users without rights may be unable to reach the folder of the build.
        let reachable = scratch.join("ferroxfs");
        fs::copy(ferroxfs, &reachable).map_err(BenchError::file(ferroxfs))?;
        Ok(Self {
            ferroxfs: reachable,
            fstool: fstool.clone(),
            xfsprogs: Xfsprogs::newer()?,
            scratch: scratch.to_owned(),
            limit_seconds: *limit,
        })
    }

    /// Returns the folder of the images.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(super) fn ferroxfs(&self) -> &Path {
        &self.ferroxfs
    }

    /// Returns the newest xfs_repair.
    pub(super) fn repair(&self) -> Command {
        self.xfsprogs.command("xfs_repair")
    }

    /// Returns the command that makes the image `output`, or the reason why there is none.
    pub(super) fn command(
        &self,
        contender: Contender,
        workload: &Workload,
        output: &Path,
    ) -> Result<Command, String> {
        let mut command = match contender {
            Contender::Ferroxfs => {
                let size = format!("size={}", workload.volume_bytes);
                self.ferroxfs_from(&["-d", &size], workload, output)
            }
            Contender::FerroxfsMinimize => self.ferroxfs_from(&["--minimize"], workload, output),
            Contender::MkfsXfs => self.mkfs_xfs(workload, output)?,
            Contender::Fstool => self.fstool(workload, output),
            Contender::SystemdRepart => self.systemd_repart(workload, output)?,
            Contender::VirtMakeFs => self.virt_make_fs(workload, output)?,
            Contender::Mke2fs => self.mke2fs(workload, output)?,
            Contender::MkfsErofs => self.mkfs_erofs(workload, output)?,
        };
        command.env("SOURCE_DATE_EPOCH", TIME).env("TMPDIR", &self.scratch);
        Ok(command)
    }

    /// Returns a command that timeout(1) stops at the limit. All time and memory of the program
    /// count, as timeout waits for it.
    fn limited(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("timeout");
        command.arg(self.limit_seconds.to_string()).arg(program);
        command
    }

    fn ferroxfs_from(&self, options: &[&str], workload: &Workload, output: &Path) -> Command {
        let mut mkfs = self.limited(&self.ferroxfs);
        mkfs.args(["mkfs", "-q"]).args(options).arg("--from");
        match &workload.source {
            Source::Directory(path) | Source::Archive(path) => mkfs.arg(path),
            Source::Image { layout, .. } => mkfs.arg(format!("oci:{}", layout.display())),
        };
        mkfs.arg(output);
        mkfs
    }

    fn mkfs_xfs(&self, workload: &Workload, output: &Path) -> Result<Command, String> {
        let tree = directory(workload)?;
        let inner = self.xfsprogs.command("mkfs.xfs");
        let mut mkfs = self.limited(inner.get_program());
        mkfs.args(inner.get_args()).env("DETERMINISTIC_SEED", "1");
        mkfs.args(["-q", "-m", &format!("uuid={UUID}"), "-d"]);
        mkfs.arg(format!("file,name={},size={}", output.display(), workload.volume_bytes));
        mkfs.arg("-p").arg(tree);
        Ok(mkfs)
    }

    fn fstool(&self, workload: &Workload, output: &Path) -> Command {
        let mut fstool = self.limited(&self.fstool);
        let size = workload.volume_bytes.to_string();
        match &workload.source {
            Source::Directory(tree) => {
                fstool.args(["create", "-t", "xfs", "--size", &size]);
                fstool.arg(tree).arg("-o").arg(output);
            }
            Source::Archive(archive) => {
                fstool.args(["repack", "-t", "xfs", "--size", &size]).arg(archive).arg(output);
            }
            // It takes the layers one by one, and no layout.
            Source::Image { layers, .. } => {
                fstool.args(["repack", "-t", "xfs", "--size", &size]).args(layers).arg(output);
            }
        }
        fstool
    }

    fn systemd_repart(&self, workload: &Workload, output: &Path) -> Result<Command, String> {
        let tree = fs::canonicalize(directory(workload)?).map_err(|error| error.to_string())?;
        let definitions = output.with_extension("repart.d");
        fs::create_dir_all(&definitions).map_err(|error| error.to_string())?;
        let definition = format!(
            "[Partition]\nType=linux-generic\nFormat=xfs\nSizeMinBytes={}\nCopyFiles={}:/\n",
            workload.volume_bytes,
            tree.display()
        );
        fs::write(definitions.join("root.conf"), definition).map_err(|error| error.to_string())?;
        let mut repart = self.limited("systemd-repart");
        repart.arg(format!("--definitions={}", definitions.display()));
        repart.args(["--empty=create", "--size=auto", "--dry-run=no", "--discard=no"]);
        repart.arg(format!("--seed={UUID}")).arg(output);
        Ok(repart)
    }

    fn virt_make_fs(&self, workload: &Workload, output: &Path) -> Result<Command, String> {
        let source = match &workload.source {
            Source::Directory(path) | Source::Archive(path) => path,
            Source::Image { .. } => return Err(NO_IMAGE.to_owned()),
        };
        let mut make = self.limited("virt-make-fs");
        make.args(["--type=xfs", "--format=raw"]);
        make.arg(format!("--size={}", workload.volume_bytes)).arg(source).arg(output);
        // The virtual machine that it starts is built there, once.
        make.env("LIBGUESTFS_CACHEDIR", &self.scratch).env("LIBGUESTFS_TMPDIR", &self.scratch);
        make.env("LIBGUESTFS_BACKEND", "direct");
        Ok(make)
    }

    fn mke2fs(&self, workload: &Workload, output: &Path) -> Result<Command, String> {
        let tree = directory(workload)?;
        let mut mke2fs = self.limited("mke2fs");
        mke2fs.args(["-q", "-t", "ext4", "-U", UUID, "-E", &format!("hash_seed={UUID}")]);
        mke2fs.args(["-N", &(workload.names + workload.names / 10 + 64).to_string()]);
        mke2fs.arg("-d").arg(tree).arg(output).arg(format!("{}k", workload.volume_bytes >> 10));
        mke2fs.env("E2FSPROGS_FAKE_TIME", TIME);
        Ok(mke2fs)
    }

    fn mkfs_erofs(&self, workload: &Workload, output: &Path) -> Result<Command, String> {
        let tree = directory(workload)?;
        let mut mkfs = self.limited("mkfs.erofs");
        mkfs.args(["--quiet", "-U", UUID]).arg(output).arg(tree);
        Ok(mkfs)
    }
}

const NO_IMAGE: &str = "reads no container images";

/// Returns the directory of a workload, for programs that read nothing else.
fn directory(workload: &Workload) -> Result<&Path, String> {
    match &workload.source {
        Source::Directory(tree) => Ok(tree),
        Source::Archive(_) => Err("reads no archives".to_owned()),
        Source::Image { .. } => Err(NO_IMAGE.to_owned()),
    }
}
