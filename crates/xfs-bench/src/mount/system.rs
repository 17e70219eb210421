//! The systems that the mount benchmark compares.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use xfs_fuse::{ChannelKind, FuseMount, MountFacts, Null, Service, WaitOutcome};
use xfs_oracle::{FuseRings, LoopDevice, Xfsprogs};

use super::Arguments;
use crate::error::BenchError;

/// The longest time that the benchmark waits after an unmount for the server process to end.
const PATIENCE: Duration = Duration::from_secs(10);
const MEGABYTE: u64 = 1 << 20;
/// Space of an image in bytes in addition to the data that clients write.
const IMAGE_BYTES: u64 = 1 << 30;
/// Size in bytes of the writes that allocate the memory of an image.
const PIECE_BYTES: usize = 1 << 20;

/// A filesystem on an image, which can be mounted repeatedly.
pub(super) trait System {
    fn name(&self) -> &'static str;

    /// Makes a new volume in `folder`.
    fn make(&mut self, folder: &Path) -> Result<(), BenchError>;

    fn mount(&mut self, root: &Path) -> Result<(), BenchError>;

    /// Unmounts, and waits until the volume can be mounted again.
    fn unmount(&mut self, root: &Path) -> Result<(), BenchError>;
}

/// Returns the systems that the arguments select.
pub(super) fn systems(arguments: &Arguments) -> Vec<Box<dyn System>> {
    let image_bytes = IMAGE_BYTES + arguments.clients as u64 * arguments.megabytes * MEGABYTE;
    let image = TestImage { path: PathBuf::new(), bytes: image_bytes };
    let null = Null::new(arguments.clients, arguments.megabytes * MEGABYTE);
    let ours = |channel| FerroxfsMount {
        image: image.clone(),
        program: arguments.ferroxfs.clone(),
        options: arguments.options.clone(),
        channel,
    };
    let nothing = |channel| NullMount {
        clients: arguments.clients,
        server: null.clone(),
        channel,
        mount: None,
    };
    let kept = |channel| KeptMount {
        arguments: ServerArguments {
            clients: arguments.clients,
            megabytes: arguments.megabytes,
            rings: channel == ChannelKind::IoUring,
        },
        process: None,
    };
    let all: [Box<dyn System>; 8] = [
        Box::new(ours(ChannelKind::Device)),
        Box::new(kept(ChannelKind::Device)),
        Box::new(nothing(ChannelKind::Device)),
        Box::new(ours(ChannelKind::IoUring)),
        Box::new(kept(ChannelKind::IoUring)),
        Box::new(nothing(ChannelKind::IoUring)),
        Box::new(KernelMount { image: image.clone(), device: None }),
        Box::new(Fuse2fsMount { image }),
    ];
    let is_asked =
        |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| o == name);
    all.into_iter().filter(|system| is_asked(system.name())).collect()
}

#[derive(Clone)]
struct TestImage {
    path: PathBuf,
    bytes: u64,
}

impl TestImage {
    fn make(&mut self, folder: &Path, mut mkfs: Command) -> Result<(), BenchError> {
        self.path = folder.join("image");
        self.fill().map_err(BenchError::file(&self.path))?;
        run(mkfs.arg(&self.path))
    }

    /// Writes all bytes of an image, so that its memory is allocated also where mkfs does not
    /// write.
    fn fill(&self) -> std::io::Result<()> {
        let mut file = File::create(&self.path)?;
        let piece = vec![0; PIECE_BYTES];
        let pieces = self.bytes / PIECE_BYTES as u64;
        (0..pieces).try_for_each(|_| file.write_all(&piece))
    }

    fn make_xfs(&mut self, folder: &Path) -> Result<(), BenchError> {
        let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
        mkfs.args(["-q", "-f", "-K", "-l", "size=256m", "-n", "parent=1"]);
        self.make(folder, mkfs)
    }
}

struct FerroxfsMount {
    image: TestImage,
    program: PathBuf,
    options: String,
    channel: ChannelKind,
}

/// Enables FUSE over io_uring in the kernel until the returned guard is dropped. Returns `None` if
/// `channel` does not use io_uring.
fn offered(channel: ChannelKind) -> Result<Option<FuseRings>, BenchError> {
    Ok(match channel {
        ChannelKind::Device => None,
        ChannelKind::IoUring => Some(FuseRings::on()?),
    })
}

impl System for FerroxfsMount {
    fn name(&self) -> &'static str {
        match self.channel {
            ChannelKind::Device => "ours",
            ChannelKind::IoUring => "ours-rings",
        }
    }

    fn make(&mut self, folder: &Path) -> Result<(), BenchError> {
        self.image.make_xfs(folder)
    }

    fn mount(&mut self, root: &Path) -> Result<(), BenchError> {
        let _offered = offered(self.channel)?;
        let mut options = self.options.clone();
        if self.channel == ChannelKind::IoUring {
            options.push_str(",io_uring");
        }
        let mut mount = Command::new(&self.program);
        run(mount.args(["mount", "-o", &options]).arg(&self.image.path).arg(root))
    }

    fn unmount(&mut self, root: &Path) -> Result<(), BenchError> {
        run(Command::new(&self.program).arg("umount").arg(root))
    }
}

/// The mount of a FUSE server that has no volume and answers each request at once. It shows the
/// limit of the transport.
struct NullMount {
    clients: usize,
    server: Null,
    channel: ChannelKind,
    mount: Option<FuseMount<Null>>,
}

impl System for NullMount {
    fn name(&self) -> &'static str {
        match self.channel {
            ChannelKind::Device => "null",
            ChannelKind::IoUring => "null-rings",
        }
    }

    fn make(&mut self, _: &Path) -> Result<(), BenchError> {
        self.server = self.server.without_files();
        Ok(())
    }

    fn mount(&mut self, root: &Path) -> Result<(), BenchError> {
        let _offered = offered(self.channel)?;
        let facts = MountFacts {
            source: PathBuf::from("null"),
            read_only: false,
            allow_other: false,
            suid: false,
            dev: false,
            exec: true,
            symlinks: true,
        };
        // Use as many threads as ours does by default.
        let default = xfs_fuse::FuseMountOptions::default().service();
        let threads = default.threads.max(self.clients);
        let service = Service { threads, channel: self.channel, ..default };
        let failed = |error: xfs_fuse::MountError| {
            BenchError::file(root)(std::io::Error::other(error.to_string()))
        };
        self.mount =
            Some(FuseMount::new(self.server.clone(), root, &facts, service).map_err(failed)?);
        Ok(())
    }

    fn unmount(&mut self, root: &Path) -> Result<(), BenchError> {
        let Some(mount) = self.mount.take() else { return Ok(()) };
        mount.unmount().map_err(BenchError::file(root))?;
        if mount.wait(PATIENCE) != WaitOutcome::Ended {
            return Err(BenchError::file(root)(std::io::ErrorKind::TimedOut.into()));
        }
        mount.finish();
        Ok(())
    }
}

/// Arguments of the process of a server that keeps what is written.
#[derive(clap::Args)]
pub(crate) struct ServerArguments {
    /// Number of clients, each with a directory
    #[arg(long)]
    clients: usize,
    /// Megabytes of data for each client
    #[arg(long)]
    megabytes: u64,
    /// Use FUSE over io_uring
    #[arg(long)]
    rings: bool,
}

/// Runs a server that keeps what is written. Each line of standard input is a command: `make`,
/// `mount PATH` or `unmount PATH`. Answers each with a line: `done`, or the error. Unmounts at the
/// end of the input.
pub(crate) fn serve_kept(arguments: &ServerArguments) -> Result<(), BenchError> {
    let ServerArguments { clients, megabytes, rings } = *arguments;
    let channel = if rings { ChannelKind::IoUring } else { ChannelKind::Device };
    let server = Null::keeping(clients, megabytes * MEGABYTE);
    let mut mount = NullMount { clients, server, channel, mount: None };
    for line in std::io::stdin().lines() {
        let line = line.map_err(BenchError::file(Path::new("standard input")))?;
        let (command, path) = line.split_once(' ').unwrap_or((&line, ""));
        let outcome = match command {
            "make" => mount.make(Path::new(path)),
            "mount" => mount.mount(Path::new(path)),
            _ => mount.unmount(Path::new(path)),
        };
        match outcome {
            Ok(()) => println!("done"),
            Err(error) => println!("{}", error.to_string().replace('\n', " ")),
        }
    }
    mount.unmount(Path::new("the server"))
}

/// The mount of a server that keeps what is written in memory, and has no filesystem. It runs in a
/// process of its own, as ours does.
struct KeptMount {
    arguments: ServerArguments,
    process: Option<KeptProcess>,
}

struct KeptProcess {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl KeptMount {
    fn start(&self) -> std::io::Result<KeptProcess> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("kept-server");
        command.args(["--clients", &self.arguments.clients.to_string()]);
        command.args(["--megabytes", &self.arguments.megabytes.to_string()]);
        if self.arguments.rings {
            command.arg("--rings");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let commands = child.stdin.take().expect("standard input is a pipe");
        let answers = child.stdout.take().expect("standard output is a pipe");
        Ok(KeptProcess { child, commands, answers: BufReader::new(answers) })
    }

    /// Sends the server a command with a path, and waits for the answer.
    fn command(&mut self, command: &str, path: &Path) -> Result<(), BenchError> {
        self.try_command(command, path).map_err(BenchError::file(path))
    }

    fn try_command(&mut self, command: &str, path: &Path) -> std::io::Result<()> {
        if self.process.is_none() {
            self.process = Some(self.start()?);
        }
        let process = self.process.as_mut().expect("the process was started");
        writeln!(process.commands, "{command} {}", path.display())?;
        let mut answer = String::new();
        if process.answers.read_line(&mut answer)? == 0 {
            let status = process.child.wait()?;
            return Err(std::io::Error::other(format!("the server has ended: {status}")));
        }
        match answer.trim_end() {
            "done" => Ok(()),
            error => Err(std::io::Error::other(error.to_owned())),
        }
    }
}

impl Drop for KeptMount {
    fn drop(&mut self) {
        if let Some(KeptProcess { mut child, commands, .. }) = self.process.take() {
            // The end of its input ends the process.
            drop(commands);
            _ = child.wait();
        }
    }
}

impl System for KeptMount {
    fn name(&self) -> &'static str {
        if self.arguments.rings { "kept-rings" } else { "kept" }
    }

    fn make(&mut self, folder: &Path) -> Result<(), BenchError> {
        self.command("make", folder)
    }

    fn mount(&mut self, root: &Path) -> Result<(), BenchError> {
        self.command("mount", root)
    }

    fn unmount(&mut self, root: &Path) -> Result<(), BenchError> {
        self.command("unmount", root)
    }
}

struct KernelMount {
    image: TestImage,
    device: Option<LoopDevice>,
}

impl System for KernelMount {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn make(&mut self, folder: &Path) -> Result<(), BenchError> {
        self.image.make_xfs(folder)
    }

    fn mount(&mut self, root: &Path) -> Result<(), BenchError> {
        let device = LoopDevice::attach(&self.image.path)?;
        run(Command::new("mount").args(["-o", "noatime"]).arg(device.path()).arg(root))?;
        self.device = Some(device);
        Ok(())
    }

    fn unmount(&mut self, root: &Path) -> Result<(), BenchError> {
        run(Command::new("umount").arg(root))?;
        self.device = None;
        Ok(())
    }
}

/// A mount of an ext4 image by fuse2fs, as Debian packages it.
struct Fuse2fsMount {
    image: TestImage,
}

impl System for Fuse2fsMount {
    fn name(&self) -> &'static str {
        "fuse2fs"
    }

    fn make(&mut self, folder: &Path) -> Result<(), BenchError> {
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-F", "-E", "nodiscard"]);
        self.image.make(folder, mkfs)
    }

    fn mount(&mut self, root: &Path) -> Result<(), BenchError> {
        let mut mount = Command::new("fuse2fs");
        run(mount.args(["-o", "noatime"]).arg(&self.image.path).arg(root))?;
        // It exits successfully whether or not it has mounted.
        let is_mounted = Command::new("mountpoint").arg("-q").arg(root).status();
        match is_mounted.map_err(BenchError::file(root))? {
            status if status.success() => Ok(()),
            status => Err(BenchError::Failed { name: "fuse2fs".to_owned(), status }),
        }
    }

    fn unmount(&mut self, root: &Path) -> Result<(), BenchError> {
        run(Command::new("umount").arg(root))?;
        // It closes the image after the unmount, and only its lock shows when.
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    }
}

fn run(command: &mut Command) -> Result<(), BenchError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status();
    match status.map_err(BenchError::file(Path::new(&name)))? {
        status if status.success() => Ok(()),
        status => Err(BenchError::Failed { name, status }),
    }
}
