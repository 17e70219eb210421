//! Checks that a recovered volume has a state of its history, as ferroxfs, xfs_repair and the
//! kernel see it.

use std::path::Path;
use std::sync::Arc;

use ferroxfs::Volume;
use ferroxfs::device::SharedDevice;
use xfs_oracle::harness::TrialError;
use xfs_oracle::model::Bytes;
use xfs_oracle::{CrashHistory, Differences, Image, OracleError, Tree};
use xfs_testkit::CowDevice;

use crate::disks::VolumeDisks;
use crate::history::{materialise, open, recover};
use crate::ours;
use crate::resumed::resumed;
use crate::sections::check_sums;

/// A power cut of a history, and the data with which its recovery is compared.
pub(crate) struct CrashCase<'a> {
    pub(crate) states: &'a CrashHistory,
    /// Number of requests that the device had recorded at the power failure.
    pub(crate) point: usize,
    /// The image from which the history started.
    pub(crate) image: &'a Image,
    /// The folder in which images are saved.
    pub(crate) folder: &'a Path,
}

impl CrashCase<'_> {
    /// Judges a recovered device by its history. Returns the index of the state of the history that
    /// the device has, and the device's tree.
    pub(crate) fn state(&self, recovered: CowDevice) -> Result<(usize, Tree), String> {
        let volume = open(recovered)?;
        let tree = ours::walk(&volume).map_err(|error| format!("our tree: {error}"))?;
        let read = |path: &str| contents(&volume, path);
        let state = self.states.judge(&tree, self.point, read)?;
        Ok((state, tree))
    }

    /// Judges a recovered device by its history, and also with xfs_repair and the kernel.
    /// xfs_repair must find nothing after ferroxfs's recovery. The kernel's recovery of `crashed`
    /// must give the same tree. Returns the index of the state of the history that the device has.
    pub(crate) fn with_witnesses(
        &self,
        crashed: &CowDevice,
        recovered: &CowDevice,
    ) -> Result<usize, String> {
        let (state, ours) = self.state(recovered.fork())?;
        self.repair(recovered)?;
        let compared = self.witnesses().compare(crashed, &ours);
        compared.map_err(|what| format!("state {state}: {what}"))?;
        Ok(state)
    }

    /// Checks that xfs_repair and our checker find nothing on a recovered device.
    pub(crate) fn repair(&self, recovered: &CowDevice) -> Result<(), String> {
        self.witnesses().repair(recovered)
    }

    /// Recovers a device after a power cut, and judges the result by its history, xfs_repair and
    /// the kernel. Returns the index of the state of the history that the device has.
    pub(crate) fn recovers(&self, crashed: &CowDevice) -> Result<usize, String> {
        let recovery = recover(crashed.fork())?;
        self.with_witnesses(crashed, &recovery.replay(usize::MAX))
    }

    fn witnesses(&self) -> Witnesses<'_> {
        Witnesses { image: self.image, folder: self.folder }
    }
}

/// Saves devices as images, and checks them with xfs_repair and the kernel.
pub(crate) struct Witnesses<'a> {
    /// The image from which the history started.
    pub(crate) image: &'a Image,
    /// The folder in which images are saved.
    pub(crate) folder: &'a Path,
}

impl Witnesses<'_> {
    /// Checks that xfs_repair and our checker find nothing on a device that ferroxfs has recovered,
    /// and that the counters of its realtime groups are right.
    pub(crate) fn repair(&self, recovered: &CowDevice) -> Result<(), String> {
        check_sums(recovered.fork()).map_err(|what| format!("after our recovery: {what}"))?;
        match self.place(recovered, "ours")?.findings().map_err(words)? {
            Some(findings) => Err(format!("after our recovery xfs_repair -n says:\n{findings}")),
            None => Ok(()),
        }
    }

    /// Checks that the kernel recovers `crashed` to the tree of ferroxfs's recovery, and that
    /// xfs_repair finds nothing after the kernel's recovery. This machine's kernel need not know
    /// realtime sections, so it is not asked about them: [`guest`](crate::guest) asks another one.
    pub(crate) fn compare(&self, crashed: &CowDevice, ours: &Tree) -> Result<(), String> {
        if VolumeDisks::inside(Arc::new(crashed.fork())).have_section() {
            return Ok(());
        }
        let other = self.place(crashed, "kernel")?;
        let crashed: SharedDevice = Arc::new(crashed.fork());
        let resumed = resumed(&crashed);
        let theirs =
            recovered_by_kernel(&other).map_err(|what| format!("the kernel's recovery: {what}"))?;
        Differences::between_recovered(&theirs, ours, &resumed).into_result()
    }

    fn place(&self, device: &CowDevice, name: &str) -> Result<Image, String> {
        let image = materialise(self.image, device, &self.folder.join(name));
        image.map_err(|error: TrialError| error.to_string())
    }
}

fn words(error: OracleError) -> String {
    error.to_string()
}

fn recovered_by_kernel(image: &Image) -> Result<Tree, String> {
    image.mount(&[]).map_err(words)?.unmount().map_err(words)?;
    if let Some(findings) = image.findings().map_err(words)? {
        return Err(format!("xfs_repair -n says:\n{findings}"));
    }
    let mount = image.mount(&["ro"]).map_err(words)?;
    let tree = Tree::walk(mount.path()).map_err(words)?;
    mount.unmount().map_err(words)?;
    Ok(tree)
}

/// Reads the whole contents of a file. Holes are skipped.
fn contents(volume: &Volume, path: &str) -> Result<Bytes, String> {
    let words = |error: ferroxfs::Error| format!("{path}: {error}");
    let file = volume.lookup_no_follow(path).and_then(|node| node.open()).map_err(words)?;
    let mut bytes = Bytes::new(volume.geometry().block_size.into());
    let size = file.metadata().size;
    let mut at = 0;
    while let Some(start) = file.seek_data(at).map_err(words)?.filter(|start| *start < size) {
        let end = file.seek_hole(start).map_err(words)?.unwrap_or(size).min(size);
        let mut part = vec![0; (end - start) as usize];
        let read = file.read_at(&mut part, start).map_err(words)?;
        bytes.write(start, part.get(..read).unwrap_or_default());
        at = end;
    }
    bytes.resize(size);
    Ok(bytes)
}
