//! Kernels for the guests of `xfs_oracle::guest`: the kernel's image and the modules that a guest
//! loads, in the order of loading.
//!
//! ```text
//! guest-new/vmlinuz           the kernel
//! guest-new/modules/xfs.ko    one file for each module, unpacked
//! guest-new/modules.list      the modules that every guest loads, one name a line
//! guest-new/null_blk.list     the modules for a null_blk device
//! guest-new/version           the version of the kernel
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::suite::Suite;
use crate::command;
use crate::error::Error;

/// The modules that every guest loads. The checksum modules come first, because XFS needs them
/// although its modules do not declare that. A kernel may have any of these modules built in.
const MODULES: [&str; 8] = [
    "crc32c_generic",
    "crc32c",
    "libcrc32c",
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "loop",
    "xfs",
];

/// Unpacks the cloud kernel of a suite into the folder `unpacked`.
pub(super) fn unpack_kernel(suite: &Suite, unpacked: &Path) -> Result<(), Error> {
    let root = unpacked.join("root");
    suite.unpack_alone(&kernel_packages(suite)?, &root)?;
    let modules = ["usr/lib/modules", "lib/modules"].map(|folder| root.join(folder));
    let modules = modules.into_iter().find(|folder| folder.is_dir());
    let modules = modules.ok_or_else(|| Error::Kernel("it has no modules".to_owned()))?;
    let version = entries(&modules)?.pop().ok_or(Error::Kernel("it has no version".to_owned()))?;
    let name = version.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let images = [version.join("vmlinuz"), root.join(format!("boot/vmlinuz-{name}"))];
    let image = images.iter().find(|image| image.is_file());
    let image = image.ok_or_else(|| Error::Kernel("it has no vmlinuz".to_owned()))?;
    copy(image, &unpacked.join("vmlinuz"))?;
    write(&unpacked.join("version"), name.as_bytes())?;
    let folder = unpacked.join("modules");
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let mut chosen = Modules { files: module_files(&version)?, folder, order: Vec::new() };
    chosen.add_all(&MODULES)?;
    if !chosen.order.iter().any(|name| name == "xfs") {
        return Err(Error::Kernel("it has no module xfs".to_owned()));
    }
    write(&unpacked.join("modules.list"), chosen.take_list().as_bytes())?;
    chosen.add_all(&["null_blk"])?;
    write(&unpacked.join("null_blk.list"), chosen.take_list().as_bytes())?;
    fs::remove_dir_all(&root).map_err(Error::file(&root))
}

/// Returns the packages with the newest cloud kernel of the suite. Newer suites have the kernel and
/// its modules in two packages, older suites in one.
fn kernel_packages(suite: &Suite) -> Result<Vec<String>, Error> {
    let newest = suite.dependencies("linux-image-cloud-amd64")?;
    let image = newest.into_iter().find(|name| name.starts_with("linux-image-"));
    let image = image.ok_or_else(|| Error::Kernel("the suite has no kernel".to_owned()))?;
    let mut packages = suite.dependencies(&image)?;
    packages.retain(|name| name.starts_with("linux-binary-") || name.starts_with("linux-modules-"));
    if packages.is_empty() {
        packages.push(image);
    }
    Ok(packages)
}

/// The modules that are chosen from those of a kernel.
struct Modules {
    /// The modules of the kernel by name.
    files: BTreeMap<String, PathBuf>,
    /// The folder that receives the chosen modules.
    folder: PathBuf,
    /// The chosen modules, each after the modules that it needs.
    order: Vec<String>,
}

impl Modules {
    /// Adds modules, each after the modules that it needs. If the kernel has no file for a module,
    /// the module is built into the kernel and is left out.
    fn add_all(&mut self, names: &[&str]) -> Result<(), Error> {
        let mut open: Vec<String> = names.iter().rev().map(|name| (*name).to_owned()).collect();
        while let Some(name) = open.last().cloned() {
            let Some(file) = self.files.get(&name).cloned() else {
                open.pop();
                continue;
            };
            let target = self.folder.join(format!("{name}.ko"));
            if !target.exists() {
                unpack_module(&file, &target)?;
                let module = fs::read(&target).map_err(Error::file(&target))?;
                open.extend(needed(&module));
                continue;
            }
            open.pop();
            if !self.order.contains(&name) {
                self.order.push(name);
            }
        }
        Ok(())
    }

    /// Returns the names that were added since the last call, one a line.
    fn take_list(&mut self) -> String {
        std::mem::take(&mut self.order).iter().map(|name| format!("{name}\n")).collect()
    }
}

/// Returns the names of the modules that a module needs, from its section `.modinfo`.
fn needed(module: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"depends=";
    let mut strings = module.split(|byte| *byte == 0);
    let Some(names) = strings.find_map(|string| string.strip_prefix(FIELD)) else {
        return Vec::new();
    };
    let names = String::from_utf8_lossy(names);
    names.split(',').filter(|name| !name.is_empty()).map(module_name).collect()
}

/// Writes a module without its compression.
fn unpack_module(file: &Path, target: &Path) -> Result<(), Error> {
    let program = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return copy(file, target),
    };
    let output = fs::File::create(target).map_err(Error::file(target))?;
    command::run(Command::new(program).args(["-d", "-c", "-q"]).arg(file).stdout(output))
}

/// Finds the kernel modules below `folder`. Returns the path of each module's file, by the module's
/// name.
fn module_files(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in entries(&folder)? {
            if entry.is_dir() && !entry.is_symlink() {
                open.push(entry);
                continue;
            }
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some((name, _)) = name.split_once(".ko") {
                files.insert(module_name(name), entry);
            }
        }
    }
    Ok(files)
}

/// Returns the name of a module in the form that the kernel uses.
fn module_name(name: &str) -> String {
    name.replace('-', "_")
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file(folder))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    paths.map_err(Error::file(folder))
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map(drop).map_err(Error::file(from))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(Error::file(path))
}
