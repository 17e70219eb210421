//! The programs that fill volumes and extract trees.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use wait4::Wait4;
use xfs_oracle::{Mount, Xfsprogs};

use super::{Arguments, Cost, clear};
use crate::error::BenchError;

/// One job, such as filling a volume from a tree, as one of the compared programs does it.
pub(super) struct PopulateJob<'a> {
    pub(super) job: &'static str,
    pub(super) name: String,
    pub(super) run: Box<dyn FnMut() -> Result<Cost, BenchError> + 'a>,
}

/// The inputs of the benchmark. They are the same for all compared programs.
pub(super) struct PopulateInputs<'a> {
    arguments: &'a Arguments,
    /// The path of the image or tree that a compared program creates.
    made: PathBuf,
    /// The path of a volume that contains the tree, for the jobs that extract it.
    filled: PathBuf,
    /// The tree as archives, one plain and others compressed.
    archives: Vec<Archive>,
    mkfs: Xfsprogs,
}

struct Archive {
    job: &'static str,
    path: PathBuf,
    /// The program that decompresses the archive. `None` for an archive that is not compressed.
    decompressor: Option<&'static str>,
}

impl<'a> PopulateInputs<'a> {
    pub(super) fn prepare(arguments: &'a Arguments, folder: &Path) -> Result<Self, BenchError> {
        let plain = folder.join("tree.tar");
        let mut tar = Command::new("tar");
        measure(tar.arg("-cf").arg(&plain).arg("-C").arg(&arguments.tree).arg("."))?;
        let compressed = |compressor: &[&str], job, suffix: &str, decompressor| {
            let path = folder.join(format!("tree.tar.{suffix}"));
            let file = fs::File::create(&path).map_err(BenchError::file(&path))?;
            let (program, options) = compressor.split_first().unwrap_or((&"", &[]));
            let mut command = Command::new(program);
            measure(command.args(options).arg("-c").arg(&plain).stdout(file))?;
            Ok::<_, BenchError>(Archive { job, path, decompressor: Some(decompressor) })
        };
        let gzip = compressed(&["gzip", "-6"], "fill from .tar.gz", "gz", "gzip")?;
        let zstd = compressed(&["zstd", "-q", "-3"], "fill from .tar.zst", "zst", "zstd")?;
        let plain = Archive { job: "fill from .tar", path: plain, decompressor: None };
        let filled = folder.join("filled.img");
        let mkfs = Xfsprogs::newer()?;
        let inputs = Self {
            arguments,
            made: folder.join("made"),
            filled,
            archives: vec![plain, gzip, zstd],
            mkfs,
        };
        inputs.fill(&arguments.ferroxfs, &arguments.tree, &inputs.filled)?;
        Ok(inputs)
    }

    /// Makes an image with ferroxfs, which fills it from a tree or an archive.
    fn fill(&self, ferroxfs: &Path, from: &Path, image: &Path) -> Result<Cost, BenchError> {
        let size = format!("size={}", self.arguments.size);
        let mut mkfs = Command::new(ferroxfs);
        measure(mkfs.args(["mkfs", "-q", "-d", &size, "--from"]).arg(from).arg(image))
    }

    /// Makes a volume with the newest mkfs.xfs. If there is a prototype file, mkfs.xfs fills the
    /// volume from it.
    fn peer(&self, prototype: Option<&Path>) -> Result<Cost, BenchError> {
        let mut mkfs = self.mkfs.command("mkfs.xfs");
        mkfs.args(["-q", "-n", "parent=1", "-d"]);
        mkfs.arg(format!("file,name={},size={}", self.made.display(), self.arguments.size));
        if let Some(tree) = prototype {
            mkfs.arg("-p").arg(tree);
        }
        measure(&mut mkfs)
    }

    /// Fills a new volume through the kernel's mount. The time includes the unmount.
    fn through_kernel(&self, fill: impl Fn(&Path) -> Command) -> Result<Cost, BenchError> {
        let began = Instant::now();
        let made = self.peer(None)?;
        let mount = Mount::new(&self.made, None, &[])?;
        let filled = measure(&mut fill(mount.path()))?;
        mount.unmount()?;
        Ok(Cost { wall: began.elapsed(), processor: made.processor + filled.processor, ..filled })
    }

    /// Extracts the tree through the kernel's mount, with cold caches.
    fn out_of_kernel(&self, take: impl Fn(&Path) -> Command) -> Result<Cost, BenchError> {
        let began = Instant::now();
        let mount = Mount::new(&self.filled, None, &["ro"])?;
        let taken = measure(&mut take(mount.path()))?;
        mount.unmount()?;
        Ok(Cost { wall: began.elapsed(), ..taken })
    }

    /// Returns the ferroxfs binaries to measure, each with its name in the table.
    fn binaries(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let before = self.arguments.before.iter().map(|path| ("ferroxfs before", path.as_path()));
        std::iter::once(("ferroxfs", self.arguments.ferroxfs.as_path())).chain(before)
    }
}

/// Returns all contenders (compared programs) of all jobs. In each job ferroxfs comes first.
pub(super) fn contenders<'a>(inputs: &'a PopulateInputs<'a>) -> Vec<PopulateJob<'a>> {
    let mut all = Vec::new();
    filling(inputs, &mut all);
    from_archives(inputs, &mut all);
    taking_out(inputs, &mut all);
    all
}

/// Adds a contender (compared program) for the job `job` to `all`. The image or tree that the
/// program creates is removed before each run.
fn add<'a>(
    all: &mut Vec<PopulateJob<'a>>,
    inputs: &'a PopulateInputs<'a>,
    job: &'static str,
    name: impl Into<String>,
    run: impl Fn() -> Result<Cost, BenchError> + 'a,
) {
    let run = move || clear(&inputs.made).and_then(|()| run());
    all.push(PopulateJob { job, name: name.into(), run: Box::new(run) });
}

fn filling<'a>(inputs: &'a PopulateInputs<'a>, all: &mut Vec<PopulateJob<'a>>) {
    let job = "fill from a tree";
    let tree = inputs.arguments.tree.as_path();
    for (name, binary) in inputs.binaries() {
        let name = format!("{name} mkfs --from");
        add(all, inputs, job, name, move || inputs.fill(binary, tree, &inputs.made));
    }
    add(all, inputs, job, "mkfs.xfs -p", move || inputs.peer(Some(tree)));
    add(all, inputs, job, "tar | tar into the kernel's mount", move || {
        inputs.through_kernel(|mount| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "tar -C \"$1\" -c . | tar -C \"$2\" -x", "sh"]).arg(tree).arg(mount);
            shell
        })
    });
    add(all, inputs, job, "cp -a into the kernel's mount", move || {
        inputs.through_kernel(|mount| {
            let mut cp = Command::new("cp");
            cp.arg("-a").arg(tree.join(".")).arg(mount);
            cp
        })
    });
}

fn from_archives<'a>(inputs: &'a PopulateInputs<'a>, all: &mut Vec<PopulateJob<'a>>) {
    for &Archive { job, ref path, ref decompressor } in &inputs.archives {
        for (name, binary) in inputs.binaries() {
            if decompressor.is_some() && name != "ferroxfs" {
                // Earlier binaries cannot read compressed archives.
                continue;
            }
            let name = format!("{name} mkfs --from");
            add(all, inputs, job, name, move || inputs.fill(binary, path, &inputs.made));
        }
        if let Some(program) = decompressor {
            add(all, inputs, job, format!("{program} -dc alone"), move || {
                let mut command = Command::new(program);
                measure(command.args(["-dc"]).arg(path).stdout(Stdio::null()))
            });
        }
        add(all, inputs, job, "tar -x into the kernel's mount", move || {
            inputs.through_kernel(|mount| {
                let mut tar = Command::new("tar");
                tar.arg("-xf").arg(path).arg("-C").arg(mount);
                tar
            })
        });
    }
}

fn taking_out<'a>(inputs: &'a PopulateInputs<'a>, all: &mut Vec<PopulateJob<'a>>) {
    let job = "take out as a tree";
    for (name, binary) in inputs.binaries() {
        add(all, inputs, job, format!("{name} cp -a"), move || {
            let mut source = inputs.filled.clone().into_os_string();
            source.push(":/");
            let mut cp = Command::new(binary);
            measure(cp.args(["cp", "-a"]).arg(source).arg(&inputs.made))
        });
    }
    add(all, inputs, job, "cp -a from the kernel's mount", move || {
        inputs.out_of_kernel(|mount| {
            let mut cp = Command::new("cp");
            cp.arg("-a").arg(mount).arg(&inputs.made);
            cp
        })
    });
    let job = "take out as an archive";
    for (name, binary) in inputs.binaries() {
        add(all, inputs, job, format!("{name} tar"), move || {
            let mut tar = Command::new(binary);
            measure(tar.arg("tar").arg("-o").arg(&inputs.made).arg(&inputs.filled))
        });
    }
    add(all, inputs, job, "tar -c from the kernel's mount", move || {
        inputs.out_of_kernel(|mount| {
            let mut tar = Command::new("tar");
            tar.args(["--xattrs", "--acls", "-cf"]).arg(&inputs.made).arg("-C").arg(mount).arg(".");
            tar
        })
    });
}

/// Runs a command to its end, and returns its cost.
fn measure(command: &mut Command) -> Result<Cost, BenchError> {
    let program = PathBuf::from(command.get_program());
    let began = Instant::now();
    let child = command.stdin(Stdio::null()).spawn().map_err(BenchError::file(&program))?;
    let usage = child.wait4().map_err(BenchError::file(&program))?;
    let wall = began.elapsed();
    if !usage.status.success() {
        let name = program.display().to_string();
        return Err(BenchError::Failed { name, status: usage.status });
    }
    let processor = usage.rusage.utime + usage.rusage.stime;
    Ok(Cost { wall, processor, peak_bytes: usage.rusage.maxrss })
}
