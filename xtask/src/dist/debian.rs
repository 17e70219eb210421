//! Tries the Debian package as its users do: in a minimal Debian, with apt-get, man, bash and
//! mount(8), and with systemd in a container of systemd-nspawn.
//!
//! Owns: that Debian, and what happens in it. mmdebstrap makes it from the machine's mirror. The
//! folder is removed at the end, also after a failure. A mount exists only in a mount namespace of
//! its own, which ends with the shell in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{Dist, write};
use crate::command;
use crate::error::Error;
use crate::oracles;
use crate::packages;

/// The release of Debian. Its udevadm can check rules.
const RELEASE: &str = "trixie";
/// Packages beyond the smallest Debian: for the manual, completion, mount(8) and the examples.
const PACKAGES: &str = "bash-completion,dbus,man-db,mount,systemd-sysv,udev";
const EXAMPLES: &str = "/usr/share/doc/ferroxfs/examples";

/// Prints a man page as a terminal shows it. A message of the formatter is a fault.
const MANUAL: &str = "\
set -e
man -w ferroxfs > /dev/null
MANWIDTH=80 man ferroxfs | grep -q 'Read, check and change XFS images'
man mount.fuse.ferroxfs | grep -q 'Mount a volume'
for page in /usr/share/man/man1/ferroxfs*.1.gz; do
  said=$(MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z \"$page\" 2>&1 > /dev/null)
  test -z \"$said\" || { echo \"$page: $said\" >&2; exit 1; }
done";

/// Completes `ferroxfs mk` as the key TAB does, and prints the completions.
const COMPLETION: &str = "\
. /usr/share/bash-completion/bash_completion
_comp_load ferroxfs
set -- $(complete -p ferroxfs)
while test $# -gt 1 && test \"$1\" != -F; do shift; done
COMP_WORDS=(ferroxfs mk) COMP_CWORD=1 COMP_LINE='ferroxfs mk' COMP_POINT=11
\"$2\" ferroxfs mk ferroxfs
printf '%s\\n' \"${COMPREPLY[@]}\"";

/// Checks the examples of the package.
const VERIFIED: &str = "\
set -e
cp *.service *.timer *.mount /etc/systemd/system/
systemd-analyze verify --man=yes mnt-disk.mount ferroxfs-nfs@srv-disk.img.service \
  ferroxfs-scan@srv-disk.img.service ferroxfs-scan@srv-disk.img.timer
udevadm verify --no-summary --resolve-names=never *.rules";

/// Mounts by the line for fstab. The shell has its own mount namespace, and the Debian as its
/// current directory. The kernel's interfaces are mounted there only.
const FSTAB: &str = "\
set -e
mount -t proc none proc
touch dev/fuse
mount --bind /dev/fuse dev/fuse
trap 'umount -l mnt/disk 2> /dev/null || true' EXIT
chroot . sh -e << 'end'
mkdir -p /mnt/disk
ferroxfs mkfs -q -d size=300m /srv/disk.img
cat /usr/share/doc/ferroxfs/examples/fstab >> /etc/fstab
mount /mnt/disk
test \"$(findmnt --noheadings --output FSTYPE /mnt/disk)\" = fuse.ferroxfs
echo kept > /mnt/disk/file
# umount(8) of FUSE returns before the image is closed.
ferroxfs umount /mnt/disk
! findmnt /mnt/disk
test \"$(ferroxfs cat /srv/disk.img:/file)\" = kept
end
trap - EXIT";

/// Runs in the Debian after its start: the units mount an image, serve it to root and scan it. The
/// numbers are a call of NFS that does nothing, and its answer.
const SERVICES: &str = r#"
set -ex
systemctl start mnt-disk.mount
findmnt --types fuse.ferroxfs /mnt/disk
echo again > /mnt/disk/second
systemctl stop mnt-disk.mount
test "$(ferroxfs cat /srv/disk.img:/second)" = again
systemctl start ferroxfs-nfs@srv-disk.img.service
for try in 1 2 3 4 5 6 7 8 9; do (: 3<> /dev/tcp/127.0.0.1/2049) && break || sleep 1; done
exec 3<> /dev/tcp/127.0.0.1/2049
printf '\200\0\0\50\0\0\0\1\0\0\0\0\0\0\0\2\0\1\206\243\0\0\0\3' >&3
printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >&3
answer=$(timeout 10 head -c 28 <&3 | od -An -v -tx1 | tr -d ' \n')
test "$answer" = 80000018000000010000000100000000000000000000000000000000
systemctl start ferroxfs-scan@srv-disk.img.service ferroxfs-scan@srv-disk.img.timer
test -n "$(find /var/lib/ferroxfs/ -name '*.parquet')"
systemctl is-active ferroxfs-nfs@srv-disk.img.service ferroxfs-scan@srv-disk.img.timer
echo passed > /opt/result
"#;

/// The unit that runs the script, and ends the Debian after it.
const TRIAL: &str = "\
[Unit]
After=basic.target
SuccessAction=poweroff
FailureAction=poweroff
[Service]
Type=oneshot
ExecStart=/bin/bash /opt/trial.sh
StandardOutput=file:/opt/trial.log
StandardError=file:/opt/trial.log
";

/// A minimal Debian in a folder.
struct Debian {
    root: PathBuf,
}

impl Drop for Debian {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.root) {
            eprintln!("{}: {error}", self.root.display());
        }
    }
}

/// Programs for the trial, each with its Debian package: one makes the Debian, one starts it.
const PROGRAMS: [(&str, &str); 2] =
    [("mmdebstrap", "mmdebstrap"), ("systemd-nspawn", "systemd-container")];

/// Installs the programs for the trial.
pub(crate) fn install() -> Result<(), Error> {
    if !command::is_root() {
        return Err(Error::NotRoot("to make a Debian for the trial of the package"));
    }
    let missing = PROGRAMS.into_iter().filter(|(program, _)| !command::is_in_path(program));
    let missing: Vec<&str> = missing.map(|(_, package)| package).collect();
    if missing.is_empty() { Ok(()) } else { packages::apt_get_install(&missing) }
}

/// Installs the package in a minimal Debian and uses it there.
pub(crate) fn run(dist: &Dist) -> Result<(), Error> {
    let debian = Debian { root: dist.folder.join("debian") };
    debian.make()?;
    let package = dist.package.file_name().unwrap_or_default();
    let copy = debian.root.join("root").join(package);
    fs::copy(&dist.package, &copy).map_err(Error::file(&copy))?;
    let path = format!("./{}", package.to_string_lossy());
    debian.shell(&format!("cd /root && apt-get install --yes --no-install-recommends {path}"))?;
    debian.shell(MANUAL)?;
    debian.completes()?;
    debian.silent(&format!("cd {EXAMPLES}\n{VERIFIED}"))?;
    if Path::new("/dev/fuse").exists() {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-c", FSTAB]);
        command::run(unshare.current_dir(&debian.root))?;
        debian.boot()?;
    } else {
        println!("left out: the mount by fstab, and the units: there is no /dev/fuse");
    }
    debian.shell("apt-get purge --yes ferroxfs && ! command -v ferroxfs")
}

impl Debian {
    fn make(&self) -> Result<(), Error> {
        let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let source = format!("deb [signed-by={key}] {} {RELEASE} main", oracles::mirror()?);
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--quiet", "--variant=apt", &format!("--include={PACKAGES}"), RELEASE]);
        command::run(mmdebstrap.arg(&self.root).arg(source))
    }

    /// Returns a command that runs a script of bash with this Debian as its root.
    fn bash(&self, script: &str) -> Command {
        let mut chroot = Command::new("chroot");
        chroot.arg(&self.root).args(["/usr/bin/env", "-i", "HOME=/root", "LC_ALL=C.UTF-8"]);
        chroot.args(["DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin"]);
        chroot.args(["bash", "-c", script]);
        chroot
    }

    fn shell(&self, script: &str) -> Result<(), Error> {
        command::run(&mut self.bash(script))
    }

    /// Runs a script that prints its findings, and nothing if there are none.
    fn silent(&self, script: &str) -> Result<(), Error> {
        let Output { status, stdout, stderr } = command::whole_output(&mut self.bash(script))?;
        let printed = [stdout, stderr].concat();
        if status.success() && printed.is_empty() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&printed).trim().to_owned();
        Err(Error::Dist(format!("the examples in a Debian: {status}: {printed}")))
    }

    /// Starts the Debian as a container of systemd and uses the units of the package there.
    fn boot(&self) -> Result<(), Error> {
        let folder = self.root.join("opt");
        write(&folder.join("trial.sh"), SERVICES)?;
        write(&self.root.join("etc/systemd/system/trial.service"), TRIAL)?;
        self.shell("systemctl add-wants multi-user.target trial.service")?;
        let mut nspawn = Command::new("timeout");
        nspawn.args(["--kill-after=30", "300", "systemd-nspawn", "--quiet", "--register=no"]);
        nspawn.args(["--keep-unit", "--private-network", "--bind=/dev/fuse", "--boot"]);
        nspawn.arg("--directory").arg(&self.root).stdin(Stdio::null());
        let booted = command::whole_output(&mut nspawn)?;
        if folder.join("result").exists() {
            return Ok(());
        }
        let log = fs::read(folder.join("trial.log")).unwrap_or(booted.stdout);
        print!("{}", String::from_utf8_lossy(&log));
        Err(Error::Dist(format!("the units of the package do not work: {}", booted.status)))
    }

    /// Checks that bash completes the names of commands.
    fn completes(&self) -> Result<(), Error> {
        let printed = command::output(&mut self.bash(COMPLETION))?;
        let words: Vec<&str> = printed.lines().collect();
        if words.contains(&"mkfs") && words.contains(&"mkdir") && !words.contains(&"ls") {
            return Ok(());
        }
        Err(Error::Dist(format!("bash completes `ferroxfs mk` by {words:?}")))
    }
}
