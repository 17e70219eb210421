//! A disk that one command has made from a container image boots: firmware finds the boot loader in
//! the EFI system partition, the loader the kernel and its initramfs, and the initramfs the root,
//! by the name of its partition. There it compares every file with a list that was made before the
//! disk. The upper layer of the image replaces a file and hides another one.
//!
//! The disk is a qcow2 image, so qemu also reads and writes what ferroxfs has packed. An emulated
//! processor runs the firmware for most of a minute, so it does with `FERROXFS_LONG=1`. Otherwise,
//! and on a machine without the firmware or the boot loader, qemu loads the kernel, and the rest is
//! the same.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::TrialError;

use crate::layers::oci::{Layout, Packing};
use crate::{check, ferroxfs};

/// The boot loader, of the Debian package systemd-boot-efi.
const LOADER: &str = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi";

/// The time limit of the guest: an emulated processor on a busy machine runs the firmware for
/// minutes.
const LIMIT: Duration = Duration::from_secs(900);

/// The recipe of the disk.
const RECIPE: &str = "\
output = 'disk.qcow2'
from = 'oci:app'
platform = 'linux/amd64'
size = 'auto'
free = '20m'
format = 'qcow2'
all-root = true

[disk]
kind = 'gpt'
esp = 'boot'
partition-type = 'linux-root-x86-64'
partition-name = 'the root'
";

/// The script of the guest. The last line of its output is the verdict.
const SCRIPT: &str = "
for attempt in $(seq 50); do
  place=$(grep -l '^PARTNAME=the root$' /sys/class/block/*/uevent) && break
  usleep 100000
done
place=${place%/uevent}
[ -n \"$place\" ] || { echo 'no partition has the name'; exit 1; }
mount -t xfs /dev/${place##*/} /mnt || exit 1
cd /mnt && sha256sum -c etc/sums >/tmp/sums || { cat /tmp/sums; exit 1; }
[ -e usr/hidden ] && { echo 'a hidden file is there'; exit 1; }
[ $(grep -c ': OK$' /tmp/sums) = $(wc -l <etc/sums) ] || exit 1
mkdir written && cp usr/noise written/copy && sync || exit 1
grep -o 'initrd=[^ ]*' /proc/cmdline
echo \"verdict: $(wc -l <etc/sums) files are good on ${place##*/}\"
";

/// The script of the first boot on a larger device: the volume takes the device, and files go into
/// the space that is new.
const GROWING: &str = "
mount -t xfs /dev/vda /mnt || exit 1
size() { df -k /mnt | awk 'END {print int($2 / 1024)}'; }
before=$(size)
xfs_growfs /mnt >/tmp/grown || { cat /tmp/grown; exit 1; }
cd /mnt && sha256sum -c etc/sums >/tmp/sums || { cat /tmp/sums; exit 1; }
for number in $(seq 60); do cp usr/noise copy-$number || exit 1; done
sync && sha256sum copy-60 | cut -c -64 >/mnt/sum || exit 1
echo \"verdict: $(wc -l <etc/sums) files are good, $((before < 40)) $(($(size) / 100)) hundred MiB\"
";

/// Makes the files of the root, and the list of their checksums.
fn make_root(root: &Path) {
    fs::create_dir_all(root.join("usr/lib/deep/er")).unwrap();
    fs::create_dir(root.join("etc")).unwrap();
    fs::write(root.join("etc/hostname"), "a-guest\n").unwrap();
    fs::write(root.join("usr/empty"), "").unwrap();
    let noise: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    fs::write(root.join("usr/noise"), noise).unwrap();
    for number in 0..200 {
        let text = format!("file {number}\n").repeat(number * 10);
        fs::write(root.join(format!("usr/lib/deep/er/{number}")), text).unwrap();
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "find . -type f ! -name sums | LC_ALL=C sort | xargs sha256sum > etc/sums"]);
    assert!(shell.current_dir(root).status().unwrap().success());
}

/// Makes a container image of two layers, which together are the tree `root`.
fn make_app(place: &Path) {
    for (path, contents) in [
        ("lower/usr/noise", "replaced"),
        ("lower/usr/hidden", "not in the root"),
        ("upper/usr/.wh.hidden", ""),
    ] {
        let path = place.join("layers").join(path);
        fs::create_dir_all(path.parent().expect("it is below the place")).unwrap();
        fs::write(path, contents).unwrap();
    }
    let archive = |parts: [(&str, &[&str]); 2]| {
        let mut tar = Command::new("tar");
        tar.args(["--format=pax", "-cf", "-"]);
        for (folder, names) in parts {
            tar.arg("-C").arg(place.join(folder)).args(names);
        }
        let output = tar.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let lower = [
        ("layers/lower", &["usr/noise", "usr/hidden"] as &[_]),
        ("root", &["usr/lib", "usr/empty"]),
    ];
    let upper = [("layers/upper", &["usr/.wh.hidden"] as &[_]), ("root", &["usr/noise", "etc"])];
    let layers = [(Packing::Gzip, archive(lower)), (Packing::Zstd, archive(upper))];
    let app = place.join("app");
    let mut layout = Layout::new(&app);
    layout.add(layout.image(("linux", "amd64"), &layers));
    layout.finish();
}

/// Makes the files of the EFI system partition.
fn make_boot(boot: &Path, guest: &Guest) -> Result<(), TrialError> {
    let files = guest.boot_files()?;
    fs::create_dir_all(boot.join("EFI/BOOT")).unwrap();
    fs::create_dir_all(boot.join("loader/entries")).unwrap();
    fs::copy(&files.kernel, boot.join("vmlinuz")).unwrap();
    fs::write(boot.join("initramfs"), &files.initramfs).unwrap();
    fs::write(boot.join("loader/loader.conf"), "timeout 0\n").unwrap();
    let entry =
        format!("title guest\nlinux /vmlinuz\ninitrd /initramfs\noptions {}\n", files.options);
    fs::write(boot.join("loader/entries/guest.conf"), entry).unwrap();
    if Path::new(LOADER).is_file() {
        fs::copy(LOADER, boot.join("EFI/BOOT/BOOTX64.EFI")).unwrap();
    }
    Ok(())
}

pub(crate) fn disk_boots() -> Result<(), TrialError> {
    let guest = Guest::new(GuestKernel::New)?.script(SCRIPT).limit(LIMIT);
    let place = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    make_root(&place.path().join("root"));
    make_app(place.path());
    make_boot(&place.path().join("boot"), &guest)?;
    let (recipe, disk) = (place.path().join("disk.toml"), place.path().join("disk.qcow2"));
    fs::write(&recipe, RECIPE).unwrap();
    check(&["build"], &ferroxfs(&["build", "-q"], &recipe), &[0])?;
    let guest = guest.image_in_format(&disk, "qcow2");
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let is_whole = is_long && Path::new(LOADER).is_file();
    let (guest, by) = match guest.clone().firmware() {
        Ok(guest) if is_whole => (guest, "firmware"),
        _ => (guest, "qemu"),
    };
    let text = guest.run()?.checked()?;
    println!("booted by {by}: {}", text.trim_end());
    assert!(text.ends_with("verdict: 203 files are good on vda2\n"), "{text}");
    // Only the boot loader names the file of the initramfs.
    assert_eq!(text.contains("initrd=\\initramfs"), by == "firmware", "{text}");
    check_written(&disk)
}

/// Checks that a volume of the smallest size grows when it first boots on a larger device.
pub(crate) fn smallest_volume_grows_at_first_boot() -> Result<(), TrialError> {
    const DEVICE_BYTES: u64 = 512 << 20;
    let guest = Guest::new(GuestKernel::New)?.script(GROWING).limit(LIMIT);
    let place = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (root, image) = (place.path().join("root"), place.path().join("image"));
    make_root(&root);
    let arguments = ["mkfs", "-q", "--minimize", "--from", root.to_str().expect("a path")];
    check(&arguments, &ferroxfs(&arguments, &image), &[0])?;
    let smallest = fs::metadata(&image).unwrap().len();
    assert!(smallest < 40 << 20, "{smallest} bytes");
    fs::File::options().write(true).open(&image).unwrap().set_len(DEVICE_BYTES).unwrap();
    let text = guest.image(&image).run()?.checked()?;
    assert_eq!(text, "verdict: 203 files are good, 1 5 hundred MiB\n");
    check(&["check"], &ferroxfs(&["check", "-q"], &image), &[0])
}

/// Checks the image after the guest has written to it.
fn check_written(disk: &Path) -> Result<(), TrialError> {
    match Command::new("qemu-img").args(["check", "-q", "-f", "qcow2"]).arg(disk).status() {
        Ok(status) => assert!(status.success(), "qemu-img check"),
        Err(error) => println!("skipped: qemu-img cannot be run ({error})"),
    }
    check(&["check"], &ferroxfs(&["check", "-q", "--partition", "the root"], disk), &[0])?;
    let copied = format!("{}:/written/copy", disk.display());
    let original = format!("{}:/usr/noise", disk.display());
    let (copy, original) =
        (ferroxfs(&["cat"], Path::new(&copied)), ferroxfs(&["cat"], Path::new(&original)));
    check(&["cat"], &copy, &[0])?;
    assert!(copy.stdout.len() == 3_000_000 && copy.stdout == original.stdout);
    Ok(())
}
