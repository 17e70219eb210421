//! Compares metadata images of ferroxfs with those of xfs_metadump, and the volumes that ferroxfs
//! and xfs_mdrestore restore from them.
//!
//! Each trial makes a volume of one geometry and fills it through the kernel. Names, attribute
//! values and link targets contain [`MARKER`]; some of these files are removed again. Then images
//! are written with each set of options, restored by both tools, and compared.

mod files;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use files::{Target, contains, first_difference, first_loss};
use xfs_device::{FileDevice, FileOptions, MetadumpVersion, SharedDevice, StreamSource};
use xfs_metadump::{DumpOptions, DumpProgress, DumpReport, dump, restore};
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Geometry, Image, Mount, Xfsprogs, populate, ready};

/// A string that occurs on a volume only if a test has written it.
const MARKER: &str = "qzMARKERzq";

/// The geometries whose volumes are dumped.
const GEOMETRIES: [&str; 5] = [
    "default",
    "block-1k-no-features",
    "directory-64k-block-1k",
    "newest",
    "parent-inode-2k-directory-64k",
];
/// The geometries whose volumes are also dumped if `FERROXFS_LONG` is set.
const MORE_GEOMETRIES: [&str; 8] = [
    "block-1k",
    "block-64k",
    "inode-2k",
    "sector-4k",
    "renamed",
    "full",
    "parent",
    "parent-block-1k",
];

fn main() -> ExitCode {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let more = MORE_GEOMETRIES.iter().filter(|_| is_long);
    let trials = GEOMETRIES.iter().chain(more).map(|name| {
        Trial::new(format!("same_as_xfs_metadump::{name}"), move || {
            let found = Geometry::ALL.into_iter().find(|geometry| geometry.name == *name);
            check_geometry(&found.expect("the geometry is in the list"))
        })
    });
    run(trials.collect())
}

fn failed(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

/// Progress functions that ignore all reports, and never stop the dump.
struct Silent;

impl DumpProgress for Silent {
    fn advance(&self, _done: u64, _total: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// A filled volume, and the folder for its metadata images and the restored volumes.
struct Case {
    folder: tempfile::TempDir,
    image: Image,
}

fn check_geometry(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = geometry.make(folder.path())?;
    let mount = Mount::new(&image.data, None, &[])?;
    populate(mount.path(), 7)?;
    files::mark(mount.path(), MARKER).map_err(failed)?;
    mount.unmount()?;
    let case = Case { folder, image };
    case.expect_clean(&case.image.data, "the volume itself")?;
    for version in [MetadumpVersion::One, MetadumpVersion::Two] {
        case.check_obfuscated(version)?;
        case.check_plain(version)?;
    }
    case.check_whole()?;
    case.check_theirs()
}

impl Case {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns an error, which begins with `what`, if xfs_repair or the checker of ferroxfs finds
    /// anything in the image.
    fn expect_clean(&self, data: &Path, what: &str) -> Result<(), TrialError> {
        let image = Image { data: data.to_owned(), log: None, realtime: None };
        match image.findings()? {
            None => Ok(()),
            Some(findings) => Err(failed(format!("{what}: {findings}"))),
        }
    }

    /// Writes a metadata image of the volume with ferroxfs. Returns an error if the report has
    /// omissions.
    fn dump(&self, options: DumpOptions) -> Result<(PathBuf, DumpReport), TrialError> {
        let path = self.path("ours.metadump");
        let device = FileDevice::open(&self.image.data, FileOptions::read_only().live());
        let device: SharedDevice = Arc::new(device.map_err(failed)?);
        let mut out = std::io::BufWriter::new(std::fs::File::create(&path).map_err(failed)?);
        let report = dump(&device, options, &Silent, &mut out).map_err(failed)?;
        if report.omission_count != 0 {
            return Err(failed(format!("a sound volume is damaged: {:?}", report.omissions)));
        }
        Ok((path, report))
    }

    /// Restores a metadata image with ferroxfs and with xfs_mdrestore, and compares the two
    /// volumes. Returns the path of the volume that ferroxfs restored.
    fn restore(&self, metadump: &Path) -> Result<PathBuf, TrialError> {
        let (ours, theirs) = (self.path("ours.img"), self.path("theirs.img"));
        let source = std::fs::File::open(metadump).map_err(failed)?;
        let mut target = Target::create(&ours).map_err(failed)?;
        let source = StreamSource(std::io::BufReader::new(source));
        restore(source, &mut target, &|| false).map_err(failed)?;
        // Their program writes over what is there.
        let _ = std::fs::remove_file(&theirs);
        output(Xfsprogs::newer()?.command("xfs_mdrestore").arg(metadump).arg(&theirs))?;
        match first_difference(&ours, &theirs).map_err(failed)? {
            None => Ok(ours),
            Some(at) => Err(failed(format!("xfs_mdrestore has other bytes at {at}"))),
        }
    }

    fn check_obfuscated(&self, version: MetadumpVersion) -> Result<(), TrialError> {
        let (metadump, _) = self.dump(DumpOptions { version, ..DumpOptions::default() })?;
        if contains(&metadump, MARKER).map_err(failed)? {
            return Err(failed("the obfuscated image has a name"));
        }
        let restored = self.restore(&metadump)?;
        self.expect_clean(&restored, "the obfuscated volume")
    }

    fn check_plain(&self, version: MetadumpVersion) -> Result<(), TrialError> {
        let options = DumpOptions { version, obfuscates: false, ..DumpOptions::default() };
        let (metadump, _) = self.dump(options)?;
        if !contains(&metadump, MARKER).map_err(failed)? {
            return Err(failed("the image that keeps names has none"));
        }
        let restored = self.restore(&metadump)?;
        self.expect_clean(&restored, "the restored volume")
    }

    /// Writes metadata images of whole blocks with ferroxfs and with xfs_metadump. Checks that the
    /// image of ferroxfs has each block that is not zero in the other image, with the same bytes.
    fn check_whole(&self) -> Result<(), TrialError> {
        let options =
            DumpOptions { obfuscates: false, whole_blocks: true, ..DumpOptions::default() };
        let (metadump, _) = self.dump(options)?;
        let ours = self.restore(&metadump)?;
        let theirs = self.dump_theirs("-a -o")?;
        let restored = self.path("whole.img");
        output(Xfsprogs::newer()?.command("xfs_mdrestore").arg(theirs).arg(&restored))?;
        match first_loss(&restored, &ours).map_err(failed)? {
            None => Ok(()),
            Some(at) => Err(failed(format!("xfs_metadump has the block at {at}, we do not"))),
        }
    }

    /// Writes metadata images with xfs_metadump. Checks that ferroxfs and xfs_mdrestore restore the
    /// same volume from each.
    fn check_theirs(&self) -> Result<(), TrialError> {
        for options in ["", "-v 2 -o"] {
            let metadump = self.dump_theirs(options)?;
            self.restore(&metadump)?;
        }
        Ok(())
    }

    fn dump_theirs(&self, options: &str) -> Result<PathBuf, TrialError> {
        let path = self.path("theirs.metadump");
        let command = format!("metadump {options} {}", path.display());
        let mut db = Xfsprogs::newer()?.command("xfs_db");
        output(db.args(["-i", "-p", "xfs_metadump", "-c", &command]).arg(&self.image.data))?;
        Ok(path)
    }
}

/// Runs a program. Returns an error if it fails.
fn output(command: &mut Command) -> Result<(), TrialError> {
    let output = command.output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}
