//! Installs the Debian packages that the tests need.

use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::report::Report;

/// The Debian packages of the programs that the tests call or use as oracles.
const PACKAGES: [&str; 32] = [
    "acl",
    "attr",
    "bzip2",
    "cpio",
    "dosfstools",
    "dpkg",
    "fdisk",
    "fuse3",
    "gcc",
    "gdisk",
    "git",
    "kmod",
    "libarchive-tools",
    "libnfs-utils",
    "lvm2",
    "lz4",
    "mtools",
    "musl-tools",
    "ovmf",
    "pkg-config",
    "postgresql",
    "python3-venv",
    "qemu-system-x86",
    "qemu-utils",
    "rsync",
    "sqlite3",
    "systemd-boot-efi",
    "util-linux",
    "valgrind",
    "xfsprogs",
    "xz-utils",
    "zstd",
];

/// Installs the missing packages, as root. Without root, reports the missing packages and the tests
/// that are skipped without them.
pub(crate) fn install(report: &mut Report) {
    let missing = missing_packages();
    if missing.is_empty() {
        return;
    }
    if !command::is_root() {
        report.skip(
            "tests that need Debian packages",
            &format!("not root, so cannot install {}", missing.join(" ")),
        );
    } else if let Err(error) = apt_get_install(&missing) {
        report.skip("tests that need Debian packages", &error.to_string());
    }
}

/// Installs Debian packages, as root.
pub(crate) fn apt_get_install(packages: &[&str]) -> Result<(), Error> {
    command::run(apt_get().arg("update"))?;
    let options = ["install", "--yes", "--no-install-recommends"];
    command::run(apt_get().args(options).args(packages))
}

fn apt_get() -> Command {
    let mut apt_get = Command::new("apt-get");
    apt_get.env("DEBIAN_FRONTEND", "noninteractive");
    apt_get
}

fn missing_packages() -> Vec<&'static str> {
    let mut installed = Vec::new();
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat", "${Package} ${db:Status-Abbrev}\n"]).args(PACKAGES);
    // Where there is no dpkg at all, everything is missing.
    let _ = command::run_lines(&mut query, |line| {
        installed.extend(line.trim_end().strip_suffix(" ii").map(str::to_owned));
    });
    PACKAGES.into_iter().filter(|package| installed.iter().all(|name| name != package)).collect()
}
