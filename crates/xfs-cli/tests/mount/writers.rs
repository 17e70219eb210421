//! Tests of two programs that open one image in different ways: a second writer is always refused,
//! and a reader is warned.
//!
//! Each trial holds an image open in one way, and tries to open it in the other ways. The table is
//! in docs/internals/image-locks.md.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::fs::{CWD, FileType, Mode};
use tempfile::TempDir;
use xfs_oracle::harness::{Trial, TrialError, patiently};
use xfs_oracle::{OracleError, ready};

use crate::mounted::{await_end, ferroxfs, needs, run, said, umount};

const VOLUME_BYTES: u64 = 300 << 20;
const MIB: u64 = 1 << 20;

/// Returns the trials of this file.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new("two_writers_one_of_the_file", two_writers_one_of_the_file),
        Trial::new("two_writers_one_of_them_an_output", two_writers_one_of_them_an_output),
        Trial::new("two_writers_one_of_a_loop_device", two_writers_one_of_a_loop_device),
        Trial::new("two_writers_one_of_a_partition", two_writers_one_of_a_partition),
        Trial::new("two_writers_one_of_them_the_kernel", two_writers_one_of_them_the_kernel),
        Trial::new("two_writers_one_of_an_overlay", two_writers_one_of_an_overlay),
        Trial::new("two_writers_share_a_log", two_writers_share_a_log),
        Trial::new("two_writers_one_of_them_qemu", two_writers_one_of_them_qemu),
        Trial::new("readers_share_an_image_by_every_way", readers_share_an_image_by_every_way),
        Trial::new("killed_writer_leaves_no_lock", killed_writer_leaves_no_lock),
        Trial::new("umount_finds_an_image_below_its_loop_device", umount_finds_an_image),
    ]
}

/// A folder for images and mount points, which is removed on drop.
pub(crate) struct ImageDir(TempDir);

impl ImageDir {
    pub(crate) fn new() -> Result<Self, TrialError> {
        ready()?;
        if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
            let message = "the machine has no /dev/fuse or no loop devices".to_owned();
            return Err(OracleError::Unavailable(message).into());
        }
        Ok(Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()))
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Makes a new volume in the file `name` of this folder.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        let path = self.at(name);
        File::create(&path).unwrap().set_len(VOLUME_BYTES).unwrap();
        run(ferroxfs(&["mkfs", "-q"]).arg(&path));
        path
    }
}

/// The path of a loop device, which is detached on drop.
pub(crate) struct Loop(pub(crate) PathBuf);

impl Loop {
    pub(crate) fn over(file: &Path, options: &[&str]) -> Self {
        let mut attach = Command::new("losetup");
        let device = run(attach.args(["--find", "--show"]).args(options).arg(file));
        Self(PathBuf::from(device.trim_end()))
    }

    fn partition(&self, number: u32) -> PathBuf {
        PathBuf::from(format!("{}p{number}", self.0.display()))
    }

    /// Returns whether the two partitions of an image of [`partitioned`] are block devices. If the
    /// kernel reads no partition tables, the function adds the partitions first.
    fn has_partitions(&self) -> bool {
        for number in 1..=2 {
            if self.partition(number).exists() {
                continue;
            }
            let start = (MIB + u64::from(number - 1) * VOLUME_BYTES) / 512;
            let numbers = [number.into(), start, VOLUME_BYTES / 512].map(|word| word.to_string());
            let _ = Command::new("addpart").arg(&self.0).args(numbers).status();
        }
        let is_there = |number| {
            fs::metadata(self.partition(number))
                .is_ok_and(|found| found.file_type().is_block_device())
        };
        is_there(1) && is_there(2)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").arg("--detach").arg(&self.0).status());
        let name = self.0.file_name().unwrap_or_default();
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let _ = patiently(|| if backing.exists() { Err(()) } else { Ok(()) });
    }
}

/// The path of a mount, which is unmounted on drop.
pub(crate) struct MountPoint(pub(crate) PathBuf);

impl MountPoint {
    /// Mounts this image on `folder` with the program. `options` are global options of the program.
    pub(crate) fn by_us(options: &[&str], image: &Path, folder: PathBuf) -> Self {
        run(ferroxfs(options).arg("mount").arg(image).arg(&folder));
        Self(folder)
    }

    pub(crate) fn by_mount(arguments: &[&str], from: &Path, folder: PathBuf) -> Self {
        run(Command::new("mount").args(arguments).arg(from).arg(&folder));
        Self(folder)
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // It may be unmounted already.
        drop(Command::new("umount").arg(&self.0).stderr(Stdio::null()).status());
    }
}

/// Counts the ways in which a second program has tried to open an image, and collects those ways
/// that were not refused.
#[derive(Default)]
struct Ways {
    tried: usize,
    faults: Vec<String>,
}

impl Ways {
    fn refused(&mut self, way: &str, output: &Output) {
        self.tried += 1;
        let text = said(output);
        // The message is about use, and not about an unrelated failure.
        let words = ["open", "in use", "mounted", "attached", "writing", "busy"];
        let is_right = !output.status.success() && words.iter().any(|word| text.contains(word));
        eprintln!("  {way}: {}", if is_right { "refused" } else { "NOT REFUSED" });
        if !is_right {
            self.faults.push(format!("{way}: {text}"));
        }
    }

    /// Tries to write to an image through the path `image`, and records whether the attempt was
    /// refused. `way` names the attempt in messages.
    fn written(&mut self, way: &str, image: &Path) {
        self.refused(way, &write(&[], image));
    }

    fn end(self, at_least: usize) {
        assert!(self.faults.is_empty(), "{:#?}", self.faults);
        assert!(self.tried >= at_least, "{} ways were tried", self.tried);
    }
}

/// Creates a directory in an image with `mkdir`, and returns the output of the command.
fn write(options: &[&str], image: &Path) -> Output {
    let target = format!("{}:/second", image.display());
    ferroxfs(options).args(["mkdir", &target]).output().unwrap()
}

fn list(options: &[&str], image: &Path) -> Output {
    ferroxfs(options).arg("ls").arg(image).output().unwrap()
}

/// Checks that a command refuses an output whose path leads to the image that it reads, or to an
/// image that is mounted.
fn two_writers_one_of_them_an_output() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    run(ferroxfs(&["touch"]).arg(format!("{}:/f", image.display())));
    let device = Loop::over(&image, &[]);
    let outputs = |from: &Path, to: &Path| {
        let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
        let file = format!("{from}:/f");
        [
            ferroxfs(&["get", "-o", to, &file]).output().unwrap(),
            ferroxfs(&["cp", &file, to]).output().unwrap(),
            ferroxfs(&["tar", "-o", to, from]).output().unwrap(),
            ferroxfs(&["scan", "-o", to, from]).output().unwrap(),
        ]
    };
    for (from, to) in [(&image, &device.0), (&device.0, &image)] {
        for output in outputs(from, to) {
            assert!(said(&output).contains("is the image that is read"), "{}", said(&output));
        }
    }
    let mut ways = Ways::default();
    let other = ground.volume("other");
    let second = Loop::over(&other, &[]);
    let kernel = MountPoint::by_mount(&["-t", "xfs"], &second.0, ground.folder("kernel"));
    // `cp` refuses a file that holds a volume in any case.
    let without_cp = |[get, _, tar, scan]: [Output; 4]| [get, tar, scan];
    let by_device = outputs(&image, &second.0);
    by_device
        .iter()
        .for_each(|output| ways.refused("a mount of the kernel, by its device", output));
    let by_file = without_cp(outputs(&image, &other));
    by_file.iter().for_each(|output| ways.refused("a mount of the kernel, by its file", output));
    drop(kernel);
    drop(second);
    let held = MountPoint::by_us(&[], &other, ground.folder("mnt"));
    let by_file = without_cp(outputs(&image, &other));
    by_file.iter().for_each(|output| ways.refused("a mount of ours", output));
    umount(&held.0);
    assert!(list(&[], &other).status.success() && list(&[], &image).status.success());
    ways.end(10);
    Ok(())
}

/// Checks that a second writer is refused while the image is open as a file. The second writers
/// reach the same file by other names, mounts, descriptors and loop devices.
fn two_writers_one_of_the_file() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let held = MountPoint::by_us(&[], &image, ground.folder("mnt"));
    let mut ways = Ways::default();

    ways.written("the same path", &image);
    symlink(&image, ground.at("link")).unwrap();
    ways.written("a symbolic link", &ground.at("link"));
    fs::hard_link(&image, ground.at("hard")).unwrap();
    ways.written("a hard link", &ground.at("hard"));
    let bound = MountPoint::by_mount(&["--bind"], ground.0.path(), ground.folder("bound"));
    ways.written("a bind mount of its folder", &bound.0.join("image"));
    drop(bound);
    File::create(ground.at("over")).unwrap();
    let bound = MountPoint::by_mount(&["--bind"], &image, ground.at("over"));
    ways.written("a bind mount of the file", &bound.0);
    drop(bound);
    let file = File::open(&image).unwrap();
    let by_descriptor = |program: &str| {
        let mut shell = Command::new("sh");
        let program = format!("exec \"$0\" mkdir {program}:/second");
        shell.args(["-c", &program, env!("CARGO_BIN_EXE_ferroxfs")]);
        shell.stdin(file.try_clone().unwrap()).output().unwrap()
    };
    ways.refused("a descriptor", &by_descriptor("/proc/self/fd/0"));
    ways.refused("a descriptor by /dev/fd", &by_descriptor("/dev/fd/0"));
    let mut apart = Command::new("unshare");
    apart.args(["--mount", env!("CARGO_BIN_EXE_ferroxfs"), "mkdir"]);
    apart.arg(format!("{}:/second", image.display()));
    ways.refused("another mount namespace", &apart.output().unwrap());
    ways.refused("a place in it", &write(&["--offset", "0"], &image));
    ways.refused("mkfs", &ferroxfs(&["mkfs", "-f", "-q"]).arg(&image).output().unwrap());

    let device = Loop::over(&image, &[]);
    ways.written("a loop device", &device.0);
    let reader = list(&[], &device.0);
    assert!(!reader.status.success() && said(&reader).contains("open"), "{}", said(&reader));
    assert!(list(&["--live"], &device.0).status.success());
    let above = Loop::over(&device.0, &[]);
    ways.written("a loop device over a loop device", &above.0);
    drop((above, device));
    let part = Loop::over(&image, &["--sizelimit", "314572800"]);
    ways.written("a loop device with a limit", &part.0);
    drop(part);

    fs::rename(&image, ground.at("renamed")).unwrap();
    ways.written("another name", &ground.at("renamed"));
    let device = Loop::over(&ground.at("renamed"), &[]);
    for name in ["renamed", "hard"] {
        fs::remove_file(ground.at(name)).unwrap();
    }
    ways.written("a loop device over a file without a name", &device.0);
    drop(device);
    umount(&held.0);
    ways.end(15);
    Ok(())
}

/// Checks that a second writer is refused while the image is open as a loop device.
fn two_writers_one_of_a_loop_device() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let (first, second) = (Loop::over(&image, &[]), Loop::over(&image, &[]));
    let held = MountPoint::by_us(&[], &first.0, ground.folder("mnt"));
    let mut ways = Ways::default();

    ways.written("the same device", &first.0);
    ways.written("the file", &image);
    ways.written("a second loop device", &second.0);
    let number = fs::metadata(&first.0).unwrap().rdev();
    rustix::fs::mknodat(CWD, ground.at("node"), FileType::BlockDevice, Mode::RUSR, number).unwrap();
    ways.written("another node of the device", &ground.at("node"));
    let later = Loop::over(&image, &[]);
    ways.written("a loop device that came later", &later.0);
    let above = Loop::over(&first.0, &[]);
    ways.written("a loop device over the device", &above.0);
    let reader = list(&[], &second.0);
    assert!(!reader.status.success(), "{}", said(&reader));
    let mut kernel = Command::new("mount");
    kernel.args(["-t", "xfs"]).arg(&second.0).arg(ground.folder("kernel"));
    ways.refused("a mount of the kernel by a second loop device", &kernel.output().unwrap());
    fs::remove_file(&image).unwrap();
    ways.written("a second loop device, of a file without a name", &second.0);
    let reader = list(&[], &second.0);
    assert!(!reader.status.success(), "{}", said(&reader));
    drop((above, later));
    umount(&held.0);
    assert!(write(&[], &second.0).status.success(), "nothing holds it any more");
    ways.end(8);
    Ok(())
}

/// Makes a disk image whose MBR has two partitions, of which the first holds a volume.
fn partitioned(ground: &ImageDir) -> PathBuf {
    // First sector and number of sectors of both, in the byte order of the table.
    const FIRST_SECTORS: [[u8; 4]; 2] = [[0x00, 0x08, 0x00, 0x00], [0x00, 0x68, 0x09, 0x00]];
    const SECTORS: [u8; 4] = [0x00, 0x60, 0x09, 0x00];
    let path = ground.at("disk");
    let disk = File::create(&path).unwrap();
    disk.set_len(2 * VOLUME_BYTES + 2 * MIB).unwrap();
    let mut table = [0; 512];
    for (index, start) in FIRST_SECTORS.iter().enumerate() {
        let entry = &mut table[446 + 16 * index..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(start);
        entry[12..].copy_from_slice(&SECTORS);
    }
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    disk.write_all_at(&table, 0).unwrap();
    path
}

/// Checks that a second writer is refused while the image is open as a partition of a loop device.
/// The other partition can be used.
fn two_writers_one_of_a_partition() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let disk = partitioned(&ground);
    let first = Loop::over(&disk, &["--partscan"]);
    let partition = first.partition(1);
    if !first.has_partitions() {
        let message = "the kernel makes no partitions of loop devices".to_owned();
        return Err(OracleError::Unavailable(message).into());
    }
    run(ferroxfs(&["mkfs", "-q"]).arg(&partition));
    run(ferroxfs(&["mkfs", "-q"]).arg(first.partition(2)));
    let second = Loop::over(&disk, &["--partscan"]);
    assert!(second.has_partitions());
    let held = MountPoint::by_us(&[], &partition, ground.folder("mnt"));
    let mut ways = Ways::default();

    ways.written("the same partition", &partition);
    ways.refused("the disk, and --partition", &write(&["--partition", "1"], &first.0));
    ways.refused("the file, and --partition", &write(&["--partition", "1"], &disk));
    ways.refused("the file, and --offset", &write(&["--offset", "1048576"], &disk));
    ways.written("the partition by a second loop device", &second.partition(1));
    ways.refused("a second disk, and --partition", &write(&["--partition", "1"], &second.0));
    let offset = Loop::over(&disk, &["--offset", "1048576"]);
    ways.written("a loop device with an offset", &offset.0);
    let mut kernel = Command::new("mount");
    kernel.args(["-t", "xfs"]).arg(second.partition(1)).arg(ground.folder("kernel"));
    ways.refused("a mount of the kernel of the second partition node", &kernel.output().unwrap());
    drop(offset);

    let beside = write(&[], &first.partition(2));
    assert!(beside.status.success(), "the partition beside it: {}", said(&beside));
    let beside = MountPoint::by_us(&[], &second.partition(2), ground.folder("beside"));
    umount(&beside.0);
    umount(&held.0);
    ways.end(8);
    Ok(())
}

/// Checks that a second writer is refused while the kernel has mounted the image through a loop
/// device.
fn two_writers_one_of_them_the_kernel() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let (first, second) = (Loop::over(&image, &[]), Loop::over(&image, &[]));
    let held = MountPoint::by_mount(&["-t", "xfs"], &first.0, ground.folder("mnt"));
    let mut ways = Ways::default();

    ways.written("the device", &first.0);
    ways.written("the file", &image);
    ways.written("a second loop device", &second.0);
    let above = Loop::over(&first.0, &[]);
    ways.written("a loop device over the device", &above.0);
    for path in [&image, &first.0, &second.0, &above.0] {
        let reader = list(&[], path);
        let text = said(&reader);
        assert!(!reader.status.success() && text.contains("is mounted at"), "{text}");
        assert!(list(&["--live"], path).status.success(), "{}", path.display());
    }
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "sh", "-c", "umount \"$1\" && \"$0\" mkdir \"$2:/second\""]);
    apart.arg(env!("CARGO_BIN_EXE_ferroxfs")).arg(&held.0).arg(&second.0);
    ways.refused("a mount that is not seen from here", &apart.output().unwrap());
    drop(above);
    drop(held);
    assert!(write(&[], &second.0).status.success(), "nothing holds it any more");
    ways.end(5);
    Ok(())
}

/// Checks that a second writer is refused while the image is open in a layer of overlayfs, whose
/// files have locks of their own.
fn two_writers_one_of_an_overlay() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    // Not every filesystem can be an upper layer; the kernel's tmpfs can.
    let layers =
        MountPoint::by_mount(&["-t", "tmpfs"], Path::new("tmpfs"), ground.folder("layers"));
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(layers.0.join(name)).unwrap();
    }
    let upper = layers.0.join("upper/image");
    File::create(&upper).unwrap().set_len(VOLUME_BYTES).unwrap();
    run(ferroxfs(&["mkfs", "-q"]).arg(&upper));
    let base = layers.0.display();
    let options = format!("lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work");
    let mut overlay = Command::new("mount");
    overlay.args(["-t", "overlay", "-o", &options, "overlay"]).arg(layers.0.join("merged"));
    if !overlay.status().is_ok_and(|status| status.success()) {
        let message = "overlayfs cannot be mounted here".to_owned();
        return Err(OracleError::Unavailable(message).into());
    }
    let merged = MountPoint(layers.0.join("merged"));
    let mut ways = Ways::default();
    for (first, second) in
        [(merged.0.join("image"), upper.clone()), (upper, merged.0.join("image"))]
    {
        let held = MountPoint::by_us(&[], &first, ground.folder("mnt"));
        ways.written("the file of the other layer", &second);
        let device = Loop::over(&second, &[]);
        ways.written("a loop device over the file of the other layer", &device.0);
        drop(device);
        umount(&held.0);
    }
    drop(merged);
    ways.end(4);
    Ok(())
}

/// Checks that a second writer of an external log is refused: the log is locked like the volume.
fn two_writers_share_a_log() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let (one, two, log) = (ground.at("one"), ground.at("two"), ground.at("log"));
    for (path, bytes) in [(&one, VOLUME_BYTES), (&two, VOLUME_BYTES), (&log, 64 * MIB)] {
        File::create(path).unwrap().set_len(bytes).unwrap();
    }
    for volume in [&one, &two] {
        let mut mkfs = ferroxfs(&["mkfs", "-q", "-f", "-l"]);
        run(mkfs.arg(format!("logdev={}", log.display())).arg(volume));
    }
    let log_option = |path: &Path| ["--log-device".to_owned(), path.display().to_string()];
    let options = log_option(&log);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let held = MountPoint::by_us(&options, &two, ground.folder("mnt"));
    let mut ways = Ways::default();
    ways.refused("the log of another volume", &write(&options, &one));
    let device = Loop::over(&log, &[]);
    let by_loop = log_option(&device.0);
    let by_loop: Vec<&str> = by_loop.iter().map(String::as_str).collect();
    ways.refused("the same by a loop device", &write(&by_loop, &one));
    drop(device);
    umount(&held.0);
    ways.end(2);
    Ok(())
}

/// A tool of QEMU that serves an image until this value is dropped.
struct Qemu(Child);

impl Qemu {
    fn serve(image: &Path, socket: &Path, options: &[&str]) -> Self {
        let mut serve = Command::new("qemu-nbd");
        serve.args(["--format=raw", "--persistent", "--socket"]).arg(socket).args(options);
        let child = serve.arg(image).stderr(Stdio::null()).spawn().unwrap();
        let _ = patiently(|| if socket.exists() { Ok(()) } else { Err(()) });
        Self(child)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Checks that a second writer is refused while a virtual machine uses the image.
fn two_writers_one_of_them_qemu() -> Result<(), TrialError> {
    needs("qemu-nbd", "qemu-utils")?;
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let mut ways = Ways::default();
    let device = Loop::over(&image, &[]);
    {
        let _writer = Qemu::serve(&image, &ground.at("writer"), &[]);
        ways.written("a loop device over the image of a machine", &device.0);
        assert!(!list(&[], &image).status.success(), "a reader of what a machine writes");
        assert!(list(&["--live"], &image).status.success());
    }
    drop(device);
    {
        let _writer = Qemu::serve(&image, &ground.at("second"), &[]);
        ways.written("the image of a machine", &image);
    }
    {
        let _reader = Qemu::serve(&image, &ground.at("reader"), &["--read-only"]);
        ways.written("the image that a machine reads", &image);
        assert!(list(&[], &image).status.success(), "readers share");
    }
    let held = MountPoint::by_us(&[], &image, ground.folder("mnt"));
    let mut machine = Command::new("qemu-nbd");
    machine.args(["--format=raw", "--socket"]).arg(ground.at("third")).arg(&image);
    let mut machine = machine.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(machine.stderr.take().unwrap()).read_line(&mut line).unwrap();
    drop(machine.kill());
    drop(machine.wait());
    assert!(line.contains("lock"), "a machine over what is mounted: {line}");
    umount(&held.0);
    ways.end(3);
    Ok(())
}

/// Checks that readers do not exclude each other, however they open the image.
fn readers_share_an_image_by_every_way() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let (first, second) = (Loop::over(&image, &[]), Loop::over(&image, &[]));
    let folder = ground.folder("mnt");
    run(ferroxfs(&["mount", "-o", "ro"]).arg(&first.0).arg(&folder));
    let held = MountPoint(folder);
    let mut ways = Ways::default();
    for path in [&image, &first.0, &second.0] {
        let reader = list(&[], path);
        assert!(reader.status.success(), "{}", said(&reader));
        ways.written("a writer beside a reader", path);
    }
    umount(&held.0);
    ways.end(3);
    Ok(())
}

/// Checks that a killed server leaves no lock behind, however it had opened the image.
fn killed_writer_leaves_no_lock() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let (first, second) = (Loop::over(&image, &[]), Loop::over(&image, &[]));
    let held = MountPoint::by_us(&[], &first.0, ground.folder("mnt"));
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(&held.0, "ferroxfs.pid", &mut value).unwrap();
    let pid = String::from_utf8_lossy(&value[..length]).into_owned();
    run(Command::new("kill").args(["-KILL", &pid]));
    await_end(&pid);
    run(Command::new("umount").arg("--lazy").arg(&held.0));
    let output = write(&[], &second.0);
    assert!(output.status.success(), "{}", said(&output));
    Ok(())
}

/// Checks that `umount` finds the mount of a loop device by its image. If the kernel has mounted
/// the image, `umount` must report this.
fn umount_finds_an_image() -> Result<(), TrialError> {
    let ground = ImageDir::new()?;
    let image = ground.volume("image");
    let device = Loop::over(&image, &[]);
    let held = MountPoint::by_us(&[], &device.0, ground.folder("mnt"));
    run(ferroxfs(&["umount"]).arg(&image));
    assert!(write(&[], &device.0).status.success(), "nothing holds it any more");
    drop(held);
    let readers = ground.volume("readers");
    // Other mounts of this machine are listed too.
    let lines = || {
        let list = run(&mut ferroxfs(&["mounts"]));
        let is_own = |line: &&str| line.contains(&readers.display().to_string());
        list.lines().filter(is_own).map(str::to_owned).collect::<Vec<_>>()
    };
    let read = |folder: &str| {
        run(ferroxfs(&["mount", "-o", "ro"]).arg(&readers).arg(ground.folder(folder)));
        MountPoint(ground.at(folder))
    };
    let one = read("one");
    assert!(lines().iter().all(|line| line.contains("process ")), "{:?}", lines());
    let two = read("two");
    // Both processes hold the lock.
    assert_eq!(lines().len(), 2);
    assert!(!lines().iter().any(|line| line.contains("process ")), "{:?}", lines());
    drop((one, two));
    let kernel = MountPoint::by_mount(&["-t", "xfs"], &device.0, ground.folder("kernel"));
    let output = ferroxfs(&["umount"]).arg(&image).output().unwrap();
    let text = said(&output);
    assert!(!output.status.success() && text.contains("and not by ferroxfs"), "{text}");
    assert!(text.contains(&format!("hint: umount {}", kernel.0.display())), "{text}");
    Ok(())
}
