//! The first root of a guest: its programs, its modules and its first process.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::GuestKernel;
use super::archive::Archive;
use crate::error::{Context, OracleError};
use crate::run::run;

/// The programs of xfsprogs that a script can use.
const PROGRAMS: [&str; 8] = [
    "mkfs.xfs",
    "xfs_repair",
    "xfs_db",
    "xfs_io",
    "xfs_quota",
    "xfs_logprint",
    "xfs_growfs",
    "xfs_spaceman",
];
/// The folder of the unpacked libraries, below `usr`.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
/// The loader of the unpacked C library.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// Adds the whole first root to the archive, except the script.
pub(super) fn add(
    archive: &mut Archive,
    oracles: &Path,
    kernel: GuestKernel,
) -> Result<(), OracleError> {
    for folder in FOLDERS {
        archive.add_folder(folder);
    }
    archive.add_file("init", 0o755, INIT.as_bytes());
    add_etc(archive);
    let busybox = oracles.join("guest-programs/usr/bin/busybox");
    archive.add_file("bin/busybox", 0o755, &read(&busybox)?);
    archive.add_link("bin/sh", "busybox");
    add_modules(archive, &oracles.join(kernel.folder()))?;
    add_programs(archive, oracles)
}

/// Adds the folder `etc`: the users and groups that scripts use, and the files of xfs_quota.
fn add_etc(archive: &mut Archive) {
    let mut users = "root:x:0:0::/:/bin/sh\n".to_owned();
    let mut groups = "root:x:0:\n".to_owned();
    for id in 1000..1010 {
        users.push_str(&format!("u{id}:x:{id}:{id}::/:/bin/sh\n"));
        groups.push_str(&format!("g{id}:x:{id}:\n"));
    }
    archive.add_file("etc/passwd", 0o644, users.as_bytes());
    archive.add_file("etc/group", 0o644, groups.as_bytes());
    archive.add_file("etc/projects", 0o644, b"");
    archive.add_file("etc/projid", 0o644, b"");
    archive.add_link("etc/mtab", "/proc/mounts");
}

/// Adds the kernel's modules, and a list of them in the order in which the guest loads them.
fn add_modules(archive: &mut Archive, kernel: &Path) -> Result<(), OracleError> {
    for list in ["modules.list", "null_blk.list"] {
        let names = read(&kernel.join(list))?;
        archive.add_file(list, 0o644, &names);
        for name in String::from_utf8_lossy(&names).lines() {
            let module = read(&kernel.join(format!("modules/{name}.ko")))?;
            archive.add_file(&format!("modules/{name}.ko"), 0o644, &module);
        }
    }
    Ok(())
}

/// Adds programs that run with the unpacked C library, each with a script that starts it.
fn add_programs(archive: &mut Archive, oracles: &Path) -> Result<(), OracleError> {
    let unpacked = oracles.join("xfsprogs-sid/usr");
    let more = oracles.join("guest-programs/usr");
    let folders = [&unpacked, &more].map(|folder| folder.join(LIBRARIES));
    let mut libraries = BTreeSet::new();
    let loader = unpacked.join(LIBRARIES).join(LOADER);
    archive.add_file("unpacked/lib/loader", 0o755, &read(&loader)?);
    let programs = PROGRAMS.map(|name| (name, unpacked.join("sbin").join(name)));
    for (name, path) in programs.into_iter().chain([("setfattr", more.join("bin/setfattr"))]) {
        archive.add_file(&format!("unpacked/{name}"), 0o755, &read(&path)?);
        let start = format!(
            "#!/bin/sh\n\
             exec /unpacked/lib/loader --library-path /unpacked/lib /unpacked/{name} \"$@\"\n"
        );
        archive.add_file(&format!("sbin/{name}"), 0o755, start.as_bytes());
        libraries.extend(needed_libraries(&folders, &path)?);
    }
    for library in libraries {
        let name = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
        archive.add_file(&format!("unpacked/lib/{name}"), 0o755, &read(&library)?);
    }
    Ok(())
}

/// Returns the paths of the libraries that a program needs, as the loader finds them in `folders`.
fn needed_libraries(folders: &[PathBuf; 2], program: &Path) -> Result<Vec<PathBuf>, OracleError> {
    let [first, second] = folders;
    let path = format!("{}:{}", first.display(), second.display());
    let mut loader = std::process::Command::new(first.join(LOADER));
    let output = run(loader.args(["--library-path", &path, "--list"]).arg(program))?;
    let paths = output.lines().filter_map(|line| line.split_once(" => ")?.1.split(' ').next());
    Ok(paths.map(PathBuf::from).filter(|path| !path.ends_with(LOADER)).collect())
}

/// Adds programs of this machine to the folder `in`, with the libraries that they need. A library
/// has the same path in the guest as on this machine, so that the program's own loader finds it.
pub(super) fn add_host_programs(
    archive: &mut Archive,
    programs: &[(String, PathBuf)],
) -> Result<(), OracleError> {
    let mut libraries = BTreeSet::new();
    for (name, path) in programs {
        archive.add_file(&format!("in/{name}"), 0o755, &read(path)?);
        // With this variable, the loader lists the libraries and does not run the program.
        let mut list = std::process::Command::new(path);
        let output = run(list.env("LD_TRACE_LOADED_OBJECTS", "1"))?;
        let paths = output.lines().filter_map(|line| {
            let (_, found) = line.split_once("=> ").unwrap_or(("", line.trim_start()));
            found.split(' ').next().filter(|path| path.starts_with('/'))
        });
        libraries.extend(paths.map(str::to_owned));
    }
    let mut folders = BTreeSet::new();
    for library in &libraries {
        for folder in Path::new(library).ancestors().skip(1) {
            folders.insert(folder.to_string_lossy().trim_start_matches('/').to_owned());
        }
    }
    // A folder is less than everything in it, so each folder comes after its parent.
    for folder in folders.iter().filter(|folder| !FOLDERS.contains(&folder.as_str())) {
        if !folder.is_empty() {
            archive.add_folder(folder);
        }
    }
    for library in &libraries {
        archive.add_file(library.trim_start_matches('/'), 0o755, &read(Path::new(library))?);
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, OracleError> {
    fs::read(path).context(|| path.display().to_string())
}

/// The folders that the guest's first root has.
const FOLDERS: [&str; 14] = [
    "bin",
    "sbin",
    "proc",
    "sys",
    "dev",
    "tmp",
    "etc",
    "in",
    "mnt",
    "mnt2",
    "modules",
    "usr",
    "unpacked",
    "unpacked/lib",
];

/// The script of the guest's first process. It loads the modules, finds the ports of qemu, runs the
/// script and reports its status. `grep` keeps the kernel's lines about XFS and its warnings.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/sbin:/bin HOME=/ TERM=dumb TZ=UTC
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read -r name; do insmod /modules/$name.ko 2>/dev/null; done </modules.list
out= control=
for attempt in $(seq 50); do
  for port in /sys/class/virtio-ports/*; do
    case "$(cat $port/name 2>/dev/null)" in
      out) out=/dev/${port##*/} ;;
      control) control=/dev/${port##*/} ;;
    esac
  done
  [ -n "$out" ] && [ -n "$control" ] && break
  usleep 100000
done
[ -n "$out" ] && [ -n "$control" ] || poweroff -f
if [ -f /null_blk.parameters ]; then
  while read -r name; do
    [ $name = null_blk ] && set -- $(cat /null_blk.parameters) || set --
    insmod /modules/$name.ko "$@"
  done </null_blk.list
fi
cd /tmp
echo begun >$control
sh /in/script >$out 2>&1; status=$?
cd /
grep ' xfs ' /proc/mounts | awk '{print $2}' | sort -r | while read -r folder; do
  umount "$folder"
done
sync
{ dmesg | grep -E 'XFS|BUG|WARN|Oops|Call Trace'; echo "status $status"; } >$control
poweroff -f
"#;
