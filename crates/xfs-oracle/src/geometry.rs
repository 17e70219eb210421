//! The kinds of volumes that tests compare with the kernel, as options of mkfs.xfs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use xfs_device::{FileDevice, FileOptions, SharedDevice};

use crate::checked::{CheckerVerdict, VolumeDevices, check_devices};
use crate::error::{Context, OracleError};
use crate::mount::Mount;
use crate::populate::{age, fill, populate};
use crate::run::run;
use crate::xfsprogs::Xfsprogs;

/// The seed with which all volumes are filled, so that they differ only by their geometry.
const SEED: u64 = 1;

/// The version of mkfs.xfs that makes volumes of a geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MkfsVersion {
    /// The version installed on the machine.
    System,
    /// A version that supports parent pointers.
    Newer,
}

/// The treatment that a volume gets after mkfs.xfs, in addition to its mkfs options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeometryFeature {
    /// The volume stays as mkfs.xfs made it, apart from the files with which it is filled.
    Plain,
    /// The log has a device of its own.
    ExternalLog,
    /// Files are created and removed until the free space is fragmented.
    Aged,
    /// The volume is filled until no space is left, so that partial inode chunks are allocated.
    Full,
    /// The volume was grown, so its last group is shorter than the others.
    Grown,
    /// The volume's UUID was changed, so it differs from the UUID in the metadata.
    Renamed,
    /// The free space consists of small pieces before any operation.
    Fragmented,
    /// ferroxfs counts the usage of users, groups and projects.
    Quota,
    /// The contents of files lie in a realtime section, on a device of its own.
    RealtimeDevice,
    /// The contents of files lie in zones after the data section, on the same device.
    InternalZones,
}

/// Options that leave out all btrees for which each group reserves space, so that the volume can be
/// filled completely.
const NOTHING_RESERVED: &str = "-m rmapbt=0,reflink=0,finobt=0,inobtcount=0";
const PARENT_NOTHING_RESERVED: &str = "-n parent=1 -m rmapbt=0,reflink=0,finobt=0,inobtcount=0";

/// Size of a realtime device in bytes.
const REALTIME_BYTES: u64 = 256 << 20;
/// Size of all zones of a volume in bytes.
const ZONES_BYTES: u64 = 24 << 20;

const FRAGMENTED: &str = "-b size=4096 -n parent=1 -m rmapbt=1,reflink=1 -i exchange=1";

/// A kind of volume.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Name of the kind for reports.
    pub name: &'static str,
    /// The treatment of the volume after mkfs.xfs, in addition to filling it.
    pub feature: GeometryFeature,
    mkfs: MkfsVersion,
    options: &'static str,
}

/// The image files of a volume that mkfs.xfs has made.
#[derive(Debug)]
pub struct Image {
    /// Path of the data device's image file.
    pub data: PathBuf,
    /// Path of the log device's image file, if the log has a device of its own.
    pub log: Option<PathBuf>,
    /// Path of the realtime device's image file, if there is such a device.
    pub realtime: Option<PathBuf>,
}

const fn system(name: &'static str, options: &'static str) -> Geometry {
    Geometry { name, feature: GeometryFeature::Plain, mkfs: MkfsVersion::System, options }
}

const fn realtime(name: &'static str, options: &'static str) -> Geometry {
    Geometry { feature: GeometryFeature::RealtimeDevice, ..newer(name, options) }
}

const fn newer(name: &'static str, options: &'static str) -> Geometry {
    Geometry { name, feature: GeometryFeature::Plain, mkfs: MkfsVersion::Newer, options }
}

impl Geometry {
    /// All kinds of volumes that tests compare with the kernel.
    pub const ALL: [Self; 32] = [
        system("default", ""),
        system("block-1k", "-b size=1024"),
        system("block-2k", "-b size=2048 -m rmapbt=1"),
        system(
            "block-1k-no-features",
            "-b size=1024 -m finobt=0,inobtcount=0,rmapbt=0,reflink=0,bigtime=0 -i sparse=0,nrext64=0",
        ),
        system("block-16k", "-b size=16384"),
        system("block-64k", "-b size=65536"),
        system("directory-64k", "-n size=65536"),
        system("directory-64k-block-1k", "-b size=1024 -n size=65536"),
        system("inode-1k", "-i size=1024"),
        system("inode-2k", "-i size=2048"),
        system("sector-4k", "-s size=4096"),
        system("rmapbt", "-m rmapbt=1"),
        system("no-reflink", "-m reflink=0"),
        system("no-finobt", "-m finobt=0,inobtcount=0"),
        system("no-inobtcount", "-m inobtcount=0"),
        system("no-sparse", "-i sparse=0"),
        system("no-bigtime", "-m bigtime=0"),
        system("nrext64", "-i nrext64=1"),
        system("stripe", "-d su=64k,sw=4 -l su=64k"),
        system("many-groups", "-d agcount=16"),
        Geometry { feature: GeometryFeature::ExternalLog, ..system("external-log", "") },
        Geometry { feature: GeometryFeature::Grown, ..system("grown", "-d agcount=5,size=700m") },
        Geometry { feature: GeometryFeature::Renamed, ..system("renamed", "") },
        Geometry { feature: GeometryFeature::Aged, ..system("aged", "-m rmapbt=1") },
        Geometry { feature: GeometryFeature::Full, ..system("full", NOTHING_RESERVED) },
        newer("newest", ""),
        newer("parent", "-n parent=1 -m rmapbt=1"),
        newer("parent-exchange", "-n parent=1 -m rmapbt=1 -i exchange=1"),
        newer("parent-block-1k", "-b size=1024 -i size=512 -n parent=1"),
        newer("parent-block-64k", "-b size=65536 -n parent=1"),
        newer("parent-inode-2k-directory-64k", "-i size=2048 -n parent=1,size=65536"),
        Geometry {
            feature: GeometryFeature::Full,
            ..newer("parent-full", PARENT_NOTHING_RESERVED)
        },
    ];

    /// Kinds of volumes for tests that fragment the free space themselves. One of them reserves no
    /// space in its groups, so all of its free space is fragmented. A directory block of these
    /// volumes is one filesystem block: a larger one could consist of several extents, and the
    /// kernel's recovery refuses a log that changes such a block.
    pub const FRAGMENTED: [Self; 2] = [
        Self { feature: GeometryFeature::Fragmented, ..system("fragmented", NOTHING_RESERVED) },
        Self { feature: GeometryFeature::Fragmented, ..newer("parent-fragmented", FRAGMENTED) },
    ];

    /// The kind of volume on which histories run with quota of all three types.
    pub const QUOTA: Self = Self {
        feature: GeometryFeature::Quota,
        ..newer("quota", "-n parent=1 -m rmapbt=1 -i exchange=1")
    };

    /// Kinds of volumes whose files lie in a realtime section: without groups, with realtime
    /// extents of one block and of several, with groups, and with zones. This machine's kernel need
    /// not know realtime sections. The zones are few, so that a history has to collect them.
    pub const REALTIME: [Self; 5] = [
        realtime(
            "realtime",
            "-m metadir=0 -d rtinherit=1 -r extsize=4096 -n parent=1 -i exchange=1",
        ),
        realtime("realtime-16k", "-m metadir=0 -d rtinherit=1 -r extsize=16k -n parent=1"),
        realtime("realtime-groups", "-m metadir=1,rmapbt=1,reflink=1 -d rtinherit=1 -r rgsize=16m"),
        realtime("zones", "-r zoned=1,rgsize=1m"),
        Self {
            feature: GeometryFeature::InternalZones,
            ..newer("internal-zones", "-d size=300m -r zoned=1,rgsize=1m")
        },
    ];

    /// Kinds of volumes with a realtime section that has room for long histories.
    pub const ROOMY_SECTIONS: [Self; 4] = [
        Self::REALTIME[0],
        Self::REALTIME[1],
        Self::REALTIME[2],
        realtime("large-zones", "-r zoned=1,rgsize=4m"),
    ];

    /// Returns whether the volume has zones.
    pub fn has_zones(&self) -> bool {
        self.options.contains("zoned=1")
    }

    /// Makes a volume of this kind in `folder` and fills it through the kernel. Returns
    /// [`OracleError::Unavailable`] if this kernel cannot mount the volume.
    pub fn make_and_fill(&self, folder: &Path) -> Result<Image, OracleError> {
        let image = self.make(folder)?;
        let mount = image.mount_if_possible()?;
        if self.feature == GeometryFeature::Grown {
            run(Command::new("xfs_growfs").arg(mount.path()))?;
        }
        populate(mount.path(), SEED)?;
        match self.feature {
            GeometryFeature::Aged | GeometryFeature::Fragmented => age(mount.path(), SEED)?,
            GeometryFeature::Full => fill(mount.path(), SEED)?,
            GeometryFeature::Plain
            | GeometryFeature::ExternalLog
            | GeometryFeature::Grown
            | GeometryFeature::Renamed
            | GeometryFeature::Quota
            | GeometryFeature::RealtimeDevice
            | GeometryFeature::InternalZones => {}
        }
        mount.unmount()?;
        Ok(image)
    }

    /// Makes an empty volume of this kind in `folder`.
    pub fn make(&self, folder: &Path) -> Result<Image, OracleError> {
        let xfsprogs = match self.mkfs {
            MkfsVersion::System => Xfsprogs::system()?,
            MkfsVersion::Newer => Xfsprogs::newer()?,
        };
        let data = sparse(folder.join(format!("{}.xfs", self.name)), self.size_bytes())?;
        let mut mkfs = xfsprogs.command("mkfs.xfs");
        mkfs.arg("-q").args(self.options.split_whitespace());
        let log = if self.feature == GeometryFeature::ExternalLog {
            let log = sparse(folder.join(format!("{}.log", self.name)), 64 << 20)?;
            let mut option = std::ffi::OsString::from("logdev=");
            option.push(&log);
            mkfs.arg("-l").arg(option);
            Some(log)
        } else {
            None
        };
        let realtime = self.add_realtime_device(&mut mkfs, folder)?;
        run(mkfs.arg(&data))?;
        if self.feature == GeometryFeature::Renamed {
            let mut rename = xfsprogs.command("xfs_db");
            run(rename.args(["-x", "-p", "xfs_admin", "-c", "uuid generate"]).arg(&data))?;
        }
        Ok(Image { data, log, realtime })
    }

    /// Makes the image of the realtime device, if the volume has one, and adds it to the arguments
    /// of mkfs.xfs.
    fn add_realtime_device(
        &self,
        mkfs: &mut Command,
        folder: &Path,
    ) -> Result<Option<PathBuf>, OracleError> {
        if matches!(self.feature, GeometryFeature::InternalZones) {
            mkfs.arg("--unsupported");
        }
        if self.feature != GeometryFeature::RealtimeDevice {
            return Ok(None);
        }
        let has_few = self.options.contains("zoned=1,rgsize=1m");
        let size_bytes = if has_few { ZONES_BYTES } else { REALTIME_BYTES };
        let path = sparse(folder.join(format!("{}.realtime", self.name)), size_bytes)?;
        let mut option = std::ffi::OsString::from("rtdev=");
        option.push(&path);
        mkfs.arg("--unsupported").arg("-r").arg(option);
        Ok(Some(path))
    }

    /// Returns the size of the volumes in bytes. Large blocks need more space for the same number
    /// of files. A volume that will be filled completely has the smallest size that mkfs.xfs
    /// accepts.
    fn size_bytes(&self) -> u64 {
        match self.feature {
            GeometryFeature::Full | GeometryFeature::Fragmented => 320 << 20,
            GeometryFeature::RealtimeDevice => 300 << 20,
            GeometryFeature::InternalZones => (300 << 20) + ZONES_BYTES,
            _ if self.options.contains("65536") || self.options.contains("agcount=16") => 2 << 30,
            _ => 1 << 30,
        }
    }
}

impl Image {
    /// Makes a sparse copy of the image in `folder`.
    pub fn copy(&self, folder: &Path) -> Result<Self, OracleError> {
        let copy = |from: &Path| -> Result<PathBuf, OracleError> {
            let to = folder.join(from.file_name().unwrap_or_default());
            run(Command::new("cp").args(["--sparse=always", "--"]).arg(from).arg(&to))?;
            Ok(to)
        };
        let log = self.log.as_deref().map(copy).transpose()?;
        let realtime = self.realtime.as_deref().map(copy).transpose()?;
        Ok(Self { data: copy(&self.data)?, log, realtime })
    }

    /// Returns the complaints of `xfs_repair -n` and of our own checker, or `None` if they have
    /// none. The xfs_repair is that of `cargo xtask oracles`.
    ///
    /// # Errors
    ///
    /// xfs_repair cannot be run, or the image cannot be read.
    pub fn findings(&self) -> Result<Option<String>, OracleError> {
        let findings = [self.findings_of_repair()?, self.findings_of_checker()?];
        let findings: Vec<String> = findings.into_iter().flatten().collect();
        Ok((!findings.is_empty()).then(|| findings.join("\n")))
    }

    /// Returns the findings of our own checker, without those of the lowest level (`preen`).
    /// Returns `None` for a volume with a dirty log, because the checker looks only at recovered
    /// volumes.
    fn findings_of_checker(&self) -> Result<Option<String>, OracleError> {
        // Nothing is locked: the image is that of a test.
        let open = |path: &Path| -> Result<SharedDevice, OracleError> {
            let device = FileDevice::open(path, FileOptions::read_only().live());
            let device = device.map_err(|error| OracleError::Unavailable(error.to_string()))?;
            Ok(Arc::new(device))
        };
        let device = open(&self.data)?;
        let log = match &self.log {
            Some(log) => open(log)?,
            None => Arc::clone(&device),
        };
        let realtime = self.realtime.as_deref().map(open).transpose()?;
        let devices = VolumeDevices { data: &device, log: &log, realtime: realtime.as_ref() };
        Ok(match check_devices(devices) {
            CheckerVerdict::DirtyLog | CheckerVerdict::Refused(_) => None,
            CheckerVerdict::Unreadable(what) => Some(format!("check: {what}")),
            CheckerVerdict::Findings(findings) => {
                (!findings.is_empty()).then(|| findings.join("\n"))
            }
        })
    }

    /// Returns the complaints of `xfs_repair -n`, in the version that `cargo xtask oracles` has
    /// unpacked, or `None` if it has none.
    fn findings_of_repair(&self) -> Result<Option<String>, OracleError> {
        let mut repair = Xfsprogs::newer()?.command("xfs_repair");
        repair.arg("-n");
        if let Some(log) = &self.log {
            repair.arg("-l").arg(log);
        }
        if let Some(realtime) = &self.realtime {
            repair.arg("-r").arg(realtime);
        }
        let output = repair.arg(&self.data).output().context(|| "xfs_repair".to_owned())?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok((!output.status.success()).then_some(said))
    }

    /// Returns the number of transactions and the number of their items that xfs_logprint finds in
    /// the log, in the version that `cargo xtask oracles` has unpacked.
    pub fn logged(&self) -> Result<(usize, usize), OracleError> {
        let mut logprint = Xfsprogs::newer()?.command("xfs_logprint");
        logprint.args(["-t", "-i"]);
        if let Some(log) = &self.log {
            logprint.arg("-l").arg(log);
        }
        let said = run(logprint.arg(&self.data))?;
        let transactions = said.lines().filter(|line| line.starts_with("TRANS: tid:"));
        Ok((transactions.count(), said.lines().filter(|line| is_item(line)).count()))
    }

    /// Returns the output of xfs_logprint, called with `options`, in the version that `cargo xtask
    /// oracles` has unpacked.
    ///
    /// # Errors
    ///
    /// The failure of xfs_logprint, or its complaint about the log.
    pub fn printed_log(&self, options: &[&str]) -> Result<String, OracleError> {
        let mut logprint = Xfsprogs::newer()?.command("xfs_logprint");
        logprint.args(options);
        if let Some(log) = &self.log {
            logprint.arg("-l").arg(log);
        }
        let output = logprint.arg(&self.data).output();
        let output = output.context(|| "xfs_logprint".to_owned())?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let last = said.lines().last().filter(|_| !output.status.success());
        match said.lines().find(|line| is_complaint(line)).or(last) {
            None => Ok(said),
            Some(line) => Err(OracleError::Command {
                line: format!("{logprint:?}"),
                status: output.status,
                stderr: line.to_owned(),
            }),
        }
    }

    /// Mounts the image in the kernel. Returns [`OracleError::Unavailable`] if this kernel cannot
    /// mount such a volume.
    pub fn mount_if_possible(&self) -> Result<Mount, OracleError> {
        self.mount(&[]).map_err(|error| match error {
            OracleError::Command { stderr, .. } => {
                OracleError::Unavailable(format!("the kernel does not mount it: {}", stderr.trim()))
            }
            other => other,
        })
    }

    /// Mounts the image in the kernel.
    ///
    /// # Errors
    ///
    /// [`OracleError::Unavailable`] for a volume with a realtime device, which only guests mount.
    pub fn mount(&self, options: &[&str]) -> Result<Mount, OracleError> {
        if self.realtime.is_some() {
            let reason = "only a guest mounts a realtime device".to_owned();
            return Err(OracleError::Unavailable(reason));
        }
        Mount::new(&self.data, self.log.as_deref(), options)
    }
}

/// Returns whether a line of xfs_logprint begins an item of the log, such as `INO: cnt:3` or
/// `ATTRI: cnt:5`. Lines of details are indented.
fn is_item(line: &str) -> bool {
    let name = line.split_once(": cnt:").map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Returns whether a line of xfs_logprint is a complaint. A number may spell a word, such as
/// 0x6bad, so only whole words count.
fn is_complaint(line: &str) -> bool {
    let line = line.to_lowercase();
    // The digits of a UUID may also spell a word.
    let line = line.split("uuid:").next().unwrap_or_default();
    let words = ["error", "bad", "unknown", "illegal", "invalid", "warning", "corrupt", "mismatch"];
    line.split(|character: char| !character.is_ascii_alphanumeric())
        .any(|found| words.contains(&found) || found.starts_with("corrupt"))
}

pub(crate) fn sparse(path: PathBuf, size_bytes: u64) -> Result<PathBuf, OracleError> {
    let file = File::create(&path).context(|| path.display().to_string())?;
    file.set_len(size_bytes).context(|| path.display().to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::is_item;

    #[test]
    fn item_has_a_name_of_any_length() {
        assert!(is_item("INO: cnt:3 total:3 a:0x55 len:56 "));
        assert!(is_item("ATTRI: cnt:5 total:5 a:0x55 len:40 "));
        assert!(!is_item("\t      cnt: 64  isize: 512    gen: 0x1008fc9d"));
        assert!(!is_item("\tBUF:  #regs:1   start blkno:0x3c   len:2"));
        assert!(!is_item("TRANS: tid:0xeb826a11  #items:123"));
    }
}
