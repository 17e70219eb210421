//! Memory cgroups: a bound on what the kernel keeps in memory for a process, inodes among that.
//!
//! Owns: where such a group can be made, in which of the two versions, and that it goes again. Does **not**
//! own who is put into it ([`mod@crate::worker`]), or how much it may have.
//!
//! An inode counts in the group of the process for which it came into memory, and goes when that group
//! reaches its bound. What the kernel keeps of blocks of metadata counts in none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long a group is given until it is empty after the last process in it has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// A group of processes that share a bound of memory. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
    version: CgroupVersion,
}

/// Of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

/// What a group has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryUse {
    /// All of it, in bytes.
    pub(crate) total_bytes: u64,
    /// Of that, bytes of objects of the kernel such as inodes.
    pub(crate) objects_bytes: u64,
}

impl MemoryGroup {
    /// A new group without a bound.
    ///
    /// # Errors
    ///
    /// Why there can be none here, for a reader.
    pub(crate) fn create(name: &str) -> Result<Self, String> {
        let read =
            |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let places = places(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?);
        let mut why = "this system has no memory cgroups".to_owned();
        for (version, above) in places {
            match Self::create_in(version, &above, name) {
                Ok(group) => return Ok(group),
                Err(error) => why = format!("no memory cgroup in {}: {error}", above.display()),
            }
        }
        Err(why)
    }

    fn create_in(version: CgroupVersion, above: &Path, name: &str) -> io::Result<Self> {
        if version == CgroupVersion::Two {
            let controllers = fs::read_to_string(above.join("cgroup.subtree_control"))?;
            if !controllers.split_whitespace().any(|controller| controller == "memory") {
                return Err(io::Error::other("groups in it have no bound of memory"));
            }
        }
        let path = above.join(name);
        fs::create_dir(&path)?;
        let group = Self { path, version };
        // Whatever is missing shows now.
        group.memory_use()?;
        Ok(group)
    }

    /// Bounds what its processes have in memory together. Nothing is ended for having too little: what the kernel
    /// lets go of comes back with a delay, in which it takes its group for one that has nothing left to give.
    /// So version 1 is told to end nobody, and of version 2 the bound is one that slows down. With version 1 a
    /// system call then fails (ENOMEM), and who needs a page for itself sleeps until there is memory, which may
    /// be never: whoever waits for such a process has to give up at some time.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn limit(&self, bytes: u64) -> io::Result<()> {
        let set = |file: &str, value: &str| fs::write(self.path.join(file), value);
        match self.version {
            CgroupVersion::One => {
                set("memory.oom_control", "1")?;
                set("memory.limit_in_bytes", &bytes.to_string())
            }
            CgroupVersion::Two => set("memory.high", &bytes.to_string()),
        }
    }

    /// Puts a process into it: what comes into memory for it counts here from then on.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn admit(&self, process: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), process.to_string())
    }

    /// What it has in memory now.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn memory_use(&self) -> io::Result<MemoryUse> {
        let number = |file: &str| parse(&fs::read_to_string(self.path.join(file))?);
        Ok(match self.version {
            CgroupVersion::One => MemoryUse {
                total_bytes: number("memory.usage_in_bytes")?,
                objects_bytes: number("memory.kmem.usage_in_bytes")?,
            },
            CgroupVersion::Two => {
                let statistics = fs::read_to_string(self.path.join("memory.stat"))?;
                let line =
                    statistics.lines().find_map(|line| line.strip_prefix("slab_reclaimable "));
                MemoryUse {
                    total_bytes: number("memory.current")?,
                    objects_bytes: parse(line.unwrap_or_default())?,
                }
            }
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that has just ended may still be in it.
        let start = Instant::now();
        while fs::remove_dir(&self.path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
            && start.elapsed() < PATIENCE
        {
            thread::yield_now();
        }
    }
}

fn parse(text: &str) -> io::Result<u64> {
    text.trim().parse().map_err(io::Error::other)
}

/// Where a group can perhaps be made, by what /proc/self/cgroup and /proc/self/mountinfo say: in the group of
/// this process, which version 2 refuses while there are processes in it; then above that.
fn places(groups: &str, mounts: &str) -> Vec<(CgroupVersion, PathBuf)> {
    let mut places = Vec::new();
    for mount in mounts.lines().filter_map(CgroupMount::parse) {
        let own = groups.lines().find_map(|line| {
            let (_, line) = line.split_once(':')?;
            let (controllers, path) = line.split_once(':')?;
            let is_it = match mount.version {
                CgroupVersion::One => {
                    controllers.split(',').any(|controller| controller == "memory")
                }
                CgroupVersion::Two => controllers.is_empty(),
            };
            is_it.then_some(Path::new(path))
        });
        let Some(own) = own else { continue };
        // Of a group that lies outside of what is mounted here, the top is all that can be seen.
        let below = own.strip_prefix(mount.root).unwrap_or(Path::new(""));
        let below = if below.starts_with("..") { Path::new("") } else { below };
        let above = match mount.version {
            CgroupVersion::One => 1,
            CgroupVersion::Two => usize::MAX,
        };
        let folders = below.ancestors().take(above);
        places.extend(folders.map(|folder| (mount.version, folder_in(mount.point, folder))));
    }
    places
}

fn folder_in(mount: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { mount.to_owned() } else { mount.join(below) }
}

/// Where groups with a bound of memory are mounted.
struct CgroupMount<'a> {
    version: CgroupVersion,
    root: &'a Path,
    point: &'a Path,
}

impl<'a> CgroupMount<'a> {
    /// From a line of mountinfo; `None` for anything else.
    fn parse(line: &'a str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut back = back.split(' ');
        let (kind, options) = (back.next()?, back.nth(1)?);
        let version = match kind {
            "cgroup2" => CgroupVersion::Two,
            "cgroup" if options.split(',').any(|option| option == "memory") => CgroupVersion::One,
            _ => return None,
        };
        let mut front = front.split(' ').skip(3).map(Path::new);
        Some(Self { version, root: front.next()?, point: front.next()? })
    }
}

#[cfg(test)]
mod tests;
