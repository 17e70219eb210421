//! The Debian package: program, mount helper, man pages, completions, documents and licences.
//!
//! dpkg-deb makes the package of a tree under `target/`. This module sets the modes of the tree,
//! and dpkg-deb takes the times from `SOURCE_DATE_EPOCH`. The package needs no other package,
//! because the program is static.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::materials::Materials;
use super::{ARCHITECTURE, Dist, VERSION, examples, licences, write};
use crate::command;
use crate::error::Error;

/// The path of the helper that mount(8) calls for the type `fuse.ferroxfs`. The helper is a link to
/// the program, which acts as the helper when it is called by this name.
pub(super) const HELPER: &str = "usr/sbin/mount.fuse.ferroxfs";
/// The folder for documents of the program.
const DOCUMENTS: &str = "usr/share/doc/ferroxfs";
const MAN: &str = "usr/share/man/man1";

/// Each shell, and the path at which it looks for the completions of a package.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/ferroxfs"),
    ("zsh", "usr/share/zsh/vendor-completions/_ferroxfs"),
    ("fish", "usr/share/fish/vendor_completions.d/ferroxfs.fish"),
];

const DESCRIPTION: &str = "\
XFS in user space: make, read, change and mount XFS volumes
 ferroxfs works on XFS images and devices without the kernel's XFS and without
 root: it makes and fills volumes reproducibly, lists and extracts files, lists
 every inode with its paths, recovers the log, and mounts through FUSE. The
 program is static and needs no other package; mounting needs fuse3 for users
 other than root.";

/// The folder tree from which the Debian package is made, and the inputs that fill the tree.
struct Stage<'a> {
    dist: &'a Dist,
    root: PathBuf,
}

/// Makes the Debian package of the program and its documents. `listed` is the path of the bill of
/// materials.
pub(super) fn build(
    root: &Path,
    dist: &Dist,
    materials: &Materials,
    listed: &Path,
) -> Result<(), Error> {
    let stage = Stage { dist, root: dist.folder.join("stage") };
    stage.place(&dist.program, "usr/bin/ferroxfs")?;
    stage.link("../bin/ferroxfs", HELPER)?;
    stage.manual()?;
    for (shell, path) in COMPLETIONS {
        let text = command::output(Command::new(&dist.program).args(["completions", shell]))?;
        stage.write(path, &text)?;
    }
    stage.place(&root.join("README.md"), &format!("{DOCUMENTS}/README.md"))?;
    stage.place(&root.join("CHANGELOG.md"), &format!("{DOCUMENTS}/changelog"))?;
    for example in examples::paths(root)? {
        let name = example.file_name().unwrap_or_default().to_string_lossy();
        stage.place(&example, &format!("{DOCUMENTS}/examples/{name}"))?;
    }
    stage.place(listed, &format!("{DOCUMENTS}/sbom.cdx.json"))?;
    stage.write(&format!("{DOCUMENTS}/licences"), &licences::texts(materials)?)?;
    stage.compress(DOCUMENTS, &["changelog".into(), "licences".into()])?;
    stage.write(&format!("{DOCUMENTS}/copyright"), &licences::ours(root)?)?;
    stage.control()?;
    stage.pack()?;
    fs::remove_dir_all(&stage.root).map_err(Error::file(&stage.root))
}

impl Stage<'_> {
    fn path(&self, path: &str) -> Result<PathBuf, Error> {
        let path = self.root.join(path);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        Ok(path)
    }

    fn write(&self, path: &str, text: &str) -> Result<(), Error> {
        write(&self.path(path)?, text)
    }

    fn place(&self, from: &Path, path: &str) -> Result<(), Error> {
        fs::copy(from, self.path(path)?).map(drop).map_err(Error::file(from))
    }

    fn link(&self, target: &str, path: &str) -> Result<(), Error> {
        let path = self.path(path)?;
        symlink(target, &path).map_err(Error::file(&path))
    }

    /// Compresses files of a folder. The compressed files do not store the original names and
    /// times, because these differ from run to run.
    fn compress(&self, folder: &str, names: &[OsString]) -> Result<(), Error> {
        let mut gzip = Command::new("gzip");
        gzip.args(["-9", "--no-name", "--"]).args(names);
        command::run(gzip.current_dir(self.root.join(folder)))
    }

    /// Writes the man pages of all commands. The page of the mount helper is the page of `mount`.
    fn manual(&self) -> Result<(), Error> {
        let folder = self.root.join(MAN);
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        command::run(Command::new(&self.dist.program).arg("man").arg(&folder))?;
        let mut pages = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
            pages.push(entry.map_err(Error::file(&folder))?.file_name());
        }
        pages.sort();
        self.compress(MAN, &pages)?;
        let page = "usr/share/man/man8/mount.fuse.ferroxfs.8.gz";
        self.link("../man1/ferroxfs-mount.1.gz", page)
    }

    /// Writes the files that describe the package to dpkg.
    fn control(&self) -> Result<(), Error> {
        let files = files(&self.root)?;
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        let mut sums = Command::new("md5sum");
        sums.arg("--").args(files.iter().map(|(path, _)| path)).current_dir(&self.root);
        self.write("DEBIAN/md5sums", &command::output(&mut sums)?)?;
        let installed_kib = bytes.div_ceil(1024);
        let control = format!(
            "Package: ferroxfs\nVersion: {VERSION}\nArchitecture: {ARCHITECTURE}\n\
             Maintainer: The ferroxfs developers\nSection: admin\n\
             Priority: optional\nInstalled-Size: {installed_kib}\nRecommends: fuse3\n\
             Suggests: xfsprogs\nDescription: {DESCRIPTION}\n"
        );
        self.write("DEBIAN/control", &control)
    }

    fn pack(&self) -> Result<(), Error> {
        set_modes(&self.root)?;
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(&self.root);
        command::run(dpkg.arg(&self.dist.package).env("SOURCE_DATE_EPOCH", &self.dist.epoch))
    }
}

/// Returns the regular files below `root`, in the order of their paths, with their sizes.
fn files(root: &Path) -> Result<Vec<(PathBuf, u64)>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
            let path = entry.map_err(Error::file(&folder))?.path();
            let metadata = fs::symlink_metadata(&path).map_err(Error::file(&path))?;
            if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file() {
                let below = path.strip_prefix(root).unwrap_or(&path).to_owned();
                files.push((below, metadata.len()));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Sets the modes that Debian requires of packages on a tree, independent of the umask.
fn set_modes(path: &Path) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(path).map_err(Error::file(path))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    let is_program = path.ends_with("usr/bin/ferroxfs");
    let mode = if metadata.is_dir() || is_program { 0o755 } else { 0o644 };
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(Error::file(path))?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(Error::file(path))? {
            set_modes(&entry.map_err(Error::file(path))?.path())?;
        }
    }
    Ok(())
}
