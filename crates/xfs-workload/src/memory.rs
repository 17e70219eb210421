//! Memory cgroups, which limit the memory that the kernel uses for a process, including inodes.
//!
//! Owns: finding a parent directory for a memory cgroup, for version 1 and 2 of cgroups, setting
//! the limit of the group, and removing the group. Does **not** own: the processes in the group
//! ([`mod@crate::worker`]), or the choice of the limit's size.
//!
//! The kernel charges an inode to the group of the process that brought it into memory, and evicts
//! it when that group reaches its limit. It charges cached metadata blocks to no group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Time for which the removal of a group is repeated. The kernel may report the group as busy for a
/// moment after its last process has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// A memory cgroup: a group of processes with a common memory limit. Dropping it removes the group
/// (I4 of the crate).
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
    version: CgroupVersion,
}

/// The version of the kernel's cgroup interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

/// The memory that the processes of a group use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryUse {
    /// Number of bytes of memory, of all kinds, that the group uses.
    pub(crate) total_bytes: u64,
    /// Number of bytes that kernel objects such as inodes use.
    pub(crate) objects_bytes: u64,
}

impl MemoryGroup {
    /// Creates a memory cgroup without a limit.
    ///
    /// # Errors
    ///
    /// The reason, for the report, why the group cannot be created.
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
        // A missing controller shows here.
        group.memory_use()?;
        Ok(group)
    }

    /// Limits the memory of all processes in the group.
    ///
    /// No process is killed for exceeding the limit. The kernel frees evicted objects with a delay,
    /// during which it finds nothing to free in the group. So with version 1 of cgroups, killing is
    /// turned off. With version 2, the limit that only slows processes down is set.
    ///
    /// With version 1, a system call over the limit fails with ENOMEM, and a process that needs a
    /// page for itself sleeps until memory is free, which may never happen. A thread that waits for
    /// such a process needs a timeout.
    ///
    /// # Errors
    ///
    /// The error of the system.
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

    /// Moves a process into the group. From then on, the group is charged for the memory that the
    /// kernel allocates for the process.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(crate) fn admit(&self, process: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), process.to_string())
    }

    /// Returns how much memory the group uses now.
    ///
    /// # Errors
    ///
    /// The error of the system.
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

/// Returns the directories in which a group may be created, in the order in which to try them.
/// `groups` is the text of /proc/self/cgroup, and `mounts` that of /proc/self/mountinfo. The first
/// directory is the group of this process. With version 2, the directories above it follow, because
/// version 2 permits no group inside one that has processes.
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
        // If the group lies outside of the mounted part, only the top is visible.
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

/// A mount of the cgroup filesystem that has the memory controller.
struct CgroupMount<'a> {
    version: CgroupVersion,
    root: &'a Path,
    point: &'a Path,
}

impl<'a> CgroupMount<'a> {
    /// Parses a line of mountinfo. Returns `None` for any other mount than that of a cgroup
    /// filesystem with the memory controller.
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
