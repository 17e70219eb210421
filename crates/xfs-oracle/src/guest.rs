//! Kernels in a virtual machine as oracles, for volumes that this machine's kernel cannot mount and
//! for kernels that differ from it.
//!
//! A guest boots with images as `/dev/vda`, `/dev/vdb` and so on, runs a script of busybox's shell
//! as root, and powers off. A boot takes some seconds, so that the cases of a test share one script
//! where they can. Writes of the guest stay in the images. No other program may use an image while
//! a guest has it.
//!
//! ```text
//! Guest ── archive of the root and the script ──> qemu ── virtio ports ──> GuestOutput
//! ```
//!
//! The script finds `mkfs.xfs`, `xfs_repair`, `xfs_db`, `xfs_io`, `xfs_quota`, `xfs_growfs`,
//! `xfs_spaceman`, `xfs_logprint`, `setfattr` and the programs of busybox in PATH, the users
//! `u1000` to `u1009` with groups `g1000` to `g1009`, and the folders `/mnt`, `/mnt2` and `/in`.
//!
//! With [`Guest::firmware`], a guest boots from its first image, as a machine does: firmware, a
//! boot loader in the EFI system partition, kernel. [`Guest::boot_files`] has the files for the
//! loader.
//!
//! Owns: the choice of the kernel, the virtual machine and its result. Does **not** own: fetching
//! kernels and programs, which `cargo xtask oracles` does.

mod archive;
mod root;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::error::{Context, OracleError};
use archive::Archive;

/// A kernel that a guest can boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestKernel {
    /// The newest kernel: quota, realtime groups, metadata directories, zoned volumes and online
    /// checks. It does not mount version 4 of XFS.
    New,
    /// Linux 6.1: version 4 of XFS, case-insensitive names, quota and classic realtime volumes. It
    /// mounts no volumes with exchange-range, parent pointers or metadata directories.
    V4,
}

impl GuestKernel {
    /// Returns the name of the folder that `cargo xtask oracles` makes for the kernel.
    fn folder(self) -> &'static str {
        match self {
            Self::New => "guest-new",
            Self::V4 => "guest-v4",
        }
    }
}

/// The description of a virtual machine, which boots when `run` is called.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The folder with the kernels and programs that `cargo xtask oracles` has unpacked.
    oracles: PathBuf,
    kernel: GuestKernel,
    /// The options of each drive for qemu: those of the image file, and those of the block device
    /// that the guest sees.
    drives: Vec<Drive>,
    files: Vec<(String, Vec<u8>)>,
    /// Programs of this machine, each with its name in `/in`.
    programs: Vec<(String, PathBuf)>,
    null_block: Option<String>,
    /// The firmware that boots from the first image. Without it, qemu loads the kernel.
    firmware: Option<PathBuf>,
    memory_mib: u32,
    limit: Duration,
    script: String,
}

/// An image that the guest sees as a block device.
#[derive(Debug, Clone)]
struct Drive {
    path: PathBuf,
    /// The format of the image, as qemu names it.
    format: String,
    /// Properties of the device, in qemu's form.
    properties: String,
}

/// The files with which a boot loader starts a guest.
#[derive(Debug, Clone)]
pub struct BootFiles {
    /// The path of the kernel, which firmware can run.
    pub kernel: PathBuf,
    /// The initramfs. It has the script and the files of the guest.
    pub initramfs: Vec<u8>,
    /// The options of the kernel.
    pub options: &'static str,
}

/// The result of a guest.
#[derive(Debug, Clone)]
pub struct GuestOutput {
    /// The exit status of the script.
    pub status: i32,
    /// Everything that the script printed, on both of its outputs.
    pub text: String,
    /// The kernel's messages about XFS, and its warnings.
    pub kernel_log: String,
}

impl Guest {
    /// Prepares a guest with this kernel.
    ///
    /// # Errors
    ///
    /// [`OracleError::Unavailable`] if the machine lacks qemu or the unpacked kernel.
    pub fn new(kernel: GuestKernel) -> Result<Self, OracleError> {
        let unavailable = |reason: &str| OracleError::Unavailable(reason.to_owned());
        if !cfg!(target_arch = "x86_64") {
            return Err(unavailable("the kernels of the guests need an x86_64 machine"));
        }
        let needs = "needs the kernels of `cargo xtask oracles`";
        let oracles = std::env::var_os("FERROXFS_ORACLES").ok_or_else(|| unavailable(needs))?;
        let oracles = PathBuf::from(oracles);
        let all = [kernel.folder(), "guest-programs", "xfsprogs-sid"];
        if all.iter().any(|folder| !oracles.join(folder).is_dir()) {
            return Err(unavailable(needs));
        }
        let version = Command::new(QEMU).arg("--version").stdout(Stdio::null()).status();
        version.map_err(|error| {
            OracleError::Unavailable(format!("cannot run {QEMU}, of qemu-system-x86: {error}"))
        })?;
        Ok(Self {
            oracles,
            kernel,
            drives: Vec::new(),
            files: Vec::new(),
            programs: Vec::new(),
            null_block: None,
            firmware: None,
            memory_mib: 512,
            limit: Duration::from_secs(120),
            script: String::new(),
        })
    }

    /// Adds an image. The first one is `/dev/vda`, the second one `/dev/vdb`.
    #[must_use]
    pub fn image(self, path: &Path) -> Self {
        self.image_with(path, "")
    }

    /// Adds an image with properties of qemu's device, for example
    /// `logical_block_size=4096,physical_block_size=4096`.
    #[must_use]
    pub fn image_with(mut self, path: &Path, properties: &str) -> Self {
        let (path, format) = (path.to_path_buf(), "raw".to_owned());
        self.drives.push(Drive { path, format, properties: properties.to_owned() });
        self
    }

    /// Adds an image of this format, as qemu names it.
    #[must_use]
    pub fn image_in_format(mut self, path: &Path, format: &str) -> Self {
        let (path, format) = (path.to_path_buf(), format.to_owned());
        self.drives.push(Drive { path, format, properties: String::new() });
        self
    }

    /// Boots from the first image by firmware. The image needs the boot files of this guest.
    ///
    /// # Errors
    ///
    /// [`OracleError::Unavailable`] if the machine lacks the firmware.
    pub fn firmware(mut self) -> Result<Self, OracleError> {
        let path = PathBuf::from(FIRMWARE);
        if !path.is_file() {
            return Err(OracleError::Unavailable(format!("{FIRMWARE}, of ovmf, is missing")));
        }
        self.firmware = Some(path);
        Ok(self)
    }

    /// Returns the files that start this guest, with its script. Files and a script that are added
    /// later are not in them.
    ///
    /// # Errors
    ///
    /// The error of reading the programs and modules.
    pub fn boot_files(&self) -> Result<BootFiles, OracleError> {
        let kernel = self.oracles.join(self.kernel.folder()).join("vmlinuz");
        Ok(BootFiles { kernel, initramfs: self.initramfs()?, options: KERNEL_OPTIONS })
    }

    /// Adds a file that the script finds as `/in/NAME`.
    #[must_use]
    pub fn file(mut self, name: &str, bytes: &[u8]) -> Self {
        self.files.push((name.to_owned(), bytes.to_vec()));
        self
    }

    /// Adds a program of this machine, with the libraries that it needs. The script finds it as
    /// `/in/NAME`.
    #[must_use]
    pub fn program(mut self, name: &str, path: &Path) -> Self {
        self.programs.push((name.to_owned(), path.to_path_buf()));
        self
    }

    /// Gives the guest a block device in memory, `/dev/nullb0`, with parameters of the module
    /// null_blk, for example `zoned=1 zone_size=16 gb=1 memory_backed=1 bs=4096`.
    #[must_use]
    pub fn null_block(mut self, parameters: &str) -> Self {
        self.null_block = Some(parameters.to_owned());
        self
    }

    /// Sets the size of the guest's memory. The default is 512 MiB.
    #[must_use]
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// Sets the time after which the guest is ended. The default is 2 minutes.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the script, for the shell of busybox.
    #[must_use]
    pub fn script(mut self, script: &str) -> Self {
        script.clone_into(&mut self.script);
        self
    }

    /// Boots the guest and waits until the script has ended and the guest is off. Mounted volumes
    /// are unmounted after the script.
    ///
    /// # Errors
    ///
    /// [`OracleError::Guest`] if the guest did not boot or exceeded its time.
    pub fn run(&self) -> Result<GuestOutput, OracleError> {
        let folder = tempfile::tempdir().context(|| "temporary folder".to_owned())?;
        if self.firmware.is_none() {
            let initramfs = folder.path().join("initramfs");
            fs::write(&initramfs, self.initramfs()?).context(|| "initramfs".to_owned())?;
        }
        for _ in 1..BOOTS {
            let ended = self.boot(&folder)?;
            // A guest that has not begun has written nothing, so it can boot again.
            if has_begun(folder.path())? {
                return read_output(folder.path(), ended);
            }
        }
        let ended = self.boot(&folder)?;
        read_output(folder.path(), ended)
    }

    /// Returns the archive of the guest's first root.
    fn initramfs(&self) -> Result<Vec<u8>, OracleError> {
        let mut archive = Archive::default();
        root::add(&mut archive, &self.oracles, self.kernel)?;
        archive.add_file("in/script", 0o755, self.script.as_bytes());
        for (name, bytes) in &self.files {
            archive.add_file(&format!("in/{name}"), 0o755, bytes);
        }
        root::add_host_programs(&mut archive, &self.programs)?;
        if let Some(parameters) = &self.null_block {
            archive.add_file("null_blk.parameters", 0o644, parameters.as_bytes());
        }
        Ok(archive.finish())
    }

    /// Runs qemu to its end. Returns whether qemu ended before the limit.
    fn boot(&self, folder: &TempDir) -> Result<bool, OracleError> {
        let messages = folder.path().join("qemu");
        let output = fs::File::create(&messages).context(|| "messages of qemu".to_owned())?;
        let errors = output.try_clone().context(|| "messages of qemu".to_owned())?;
        let mut qemu = self.command(folder.path());
        qemu.stdin(Stdio::null()).stdout(output).stderr(errors);
        let mut child = qemu.spawn().context(|| QEMU.to_owned())?;
        let began = Instant::now();
        while began.elapsed() < self.limit {
            if child.try_wait().context(|| QEMU.to_owned())?.is_some() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().context(|| QEMU.to_owned())?;
        child.wait().context(|| QEMU.to_owned())?;
        Ok(false)
    }

    /// Returns the command line of qemu. Results arrive in files of the folder: the script's output
    /// in `out`, the status in `control`, and the kernel's console in `console`.
    fn command(&self, folder: &Path) -> Command {
        let mut qemu = Command::new(QEMU);
        let kernel = self.oracles.join(self.kernel.folder()).join("vmlinuz");
        qemu.args(["-machine", "pc,graphics=off", "-accel", "tcg,thread=multi"]);
        qemu.args(["-cpu", "Nehalem", "-smp", "1", "-m", &self.memory_mib.to_string()]);
        qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        match &self.firmware {
            Some(firmware) => qemu.arg("-bios").arg(firmware),
            None => {
                qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(folder.join("initramfs"));
                qemu.args(["-append", KERNEL_OPTIONS])
            }
        };
        let port = |name: &str| format!("file,id={name},path={}", folder.join(name).display());
        qemu.args(["-chardev", &port("console"), "-serial", "chardev:console"]);
        qemu.args(["-device", "virtio-serial-pci"]);
        for name in ["out", "control"] {
            let device = format!("virtserialport,chardev={name},name={name}");
            qemu.args(["-chardev", &port(name), "-device", &device]);
        }
        for (index, drive) in self.drives.iter().enumerate() {
            let format = &drive.format;
            let mut backend =
                format!("id=d{index},format={format},if=none,cache=unsafe,discard=unmap");
            // qemu takes two commas for one in a path.
            let path = drive.path.to_string_lossy().replace(',', ",,");
            backend.push_str(&format!(",file={path}"));
            let mut device = format!("virtio-blk-pci,drive=d{index}");
            if !drive.properties.is_empty() {
                device.push_str(&format!(",{}", drive.properties));
            }
            qemu.args(["-drive", &backend, "-device", &device]);
        }
        qemu
    }
}

impl GuestOutput {
    /// Returns the text of a script that ended with status 0.
    ///
    /// # Errors
    ///
    /// [`OracleError::Guest`], with the text, for another status.
    pub fn checked(self) -> Result<String, OracleError> {
        if self.status == 0 {
            return Ok(self.text);
        }
        let Self { status, text, kernel_log } = self;
        Err(OracleError::Guest(format!("script ended with {status}: {text}\n{kernel_log}")))
    }
}

/// Returns whether the guest has started its first process.
fn has_begun(folder: &Path) -> Result<bool, OracleError> {
    let control = fs::read(folder.join("control")).context(|| "control of a guest".to_owned())?;
    Ok(control.starts_with(b"begun\n"))
}

/// Reads the results of a guest from the folder to which qemu wrote them. `ended` tells whether
/// qemu ended before the limit.
fn read_output(folder: &Path, ended: bool) -> Result<GuestOutput, OracleError> {
    let read = |name: &str| {
        let bytes = fs::read(folder.join(name)).context(|| format!("{name} of a guest"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (text, control) = (read("out")?, read("control")?);
    let status = control.lines().find_map(|line| line.strip_prefix("status "));
    let Some(status) = status.and_then(|status| status.parse().ok()) else {
        let (console, qemu) = (read("console")?, read("qemu")?);
        let end = if ended { "ended without a status" } else { "exceeded its time" };
        let message = format!("the guest {end}\n{qemu}{text}\n{control}\n{console}");
        return Err(OracleError::Guest(message));
    };
    let is_log = |line: &&str| !line.starts_with("status ") && *line != "begun";
    let kernel_log: Vec<&str> = control.lines().filter(is_log).collect();
    Ok(GuestOutput { status, text, kernel_log: kernel_log.join("\n") })
}

/// The program that runs guests.
const QEMU: &str = "qemu-system-x86_64";

/// The firmware of guests that boot from an image.
const FIRMWARE: &str = "/usr/share/ovmf/OVMF.fd";

/// The greatest number of times that a guest is booted until its first process starts. On a busy
/// machine, the clock of an emulated processor may stand still for so long that the kernel gives
/// up.
const BOOTS: u32 = 3;

/// Options of the kernel. Without a random layout and mitigations, the guest boots faster. Without
/// the check of the timer, it also boots on a busy machine.
const KERNEL_OPTIONS: &str = "console=ttyS0 quiet panic=-1 nokaslr mitigations=off tsc=unstable \
                              random.trust_cpu=on no_timer_check";
