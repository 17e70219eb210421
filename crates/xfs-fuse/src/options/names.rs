//! The names of mount options that ferroxfs refuses or ignores, and of those that need a value.
//!
//! Owns: the lists, and the reason for each refusal. The refused options are those of mount(8) and
//! of the kernel's XFS that ferroxfs does not support. Does **not** own: the options that have an
//! effect.

use super::OptionError;

/// Options of the kernel's XFS, or of FUSE, that are refused, each with the reason.
const REFUSED: [(&str, &str); 43] = [
    ("strictatime", "access times are relatime or noatime"),
    ("noiversion", "version 5 always counts changes"),
    ("mand", "mandatory locks are not supported"),
    ("context", LABELS),
    ("fscontext", LABELS),
    ("defcontext", LABELS),
    ("rootcontext", LABELS),
    ("loop", "images need no loop device"),
    ("sizelimit", "the superblock gives the size of the volume"),
    ("bind", ELSEWHERE),
    ("rbind", ELSEWHERE),
    ("move", ELSEWHERE),
    ("shared", ELSEWHERE),
    ("rshared", ELSEWHERE),
    ("slave", ELSEWHERE),
    ("rslave", ELSEWHERE),
    ("private", ELSEWHERE),
    ("rprivate", ELSEWHERE),
    ("unbindable", ELSEWHERE),
    ("runbindable", ELSEWHERE),
    ("swalloc", ALIGNMENT),
    ("sunit", ALIGNMENT),
    ("swidth", ALIGNMENT),
    ("noalign", ALIGNMENT),
    ("largeio", ALIGNMENT),
    ("allocsize", ALIGNMENT),
    ("filestreams", ALIGNMENT),
    ("inode32", "inodes may be placed anywhere"),
    ("logbufs", LOG),
    ("logbsize", LOG),
    ("discard", "a mount does not discard free space"),
    ("dax", "images are not mapped into memory"),
    ("lifetime", REALTIME),
    ("nolifetime", REALTIME),
    ("max_open_zones", REALTIME),
    ("max_atomic_write", "atomic writes are not supported"),
    ("errortag", "error injection is not supported"),
    ("ikeep", "unused inode chunks are always freed"),
    ("noattr2", "version 5 always has attr2"),
    ("grpid", "use the set-group-ID bit of directories"),
    ("bsdgroups", "use the set-group-ID bit of directories"),
    ("auto_unmount", "use an entry in fstab, or ferroxfs umount"),
    ("allow_root", "use allow_other"),
];
const ALIGNMENT: &str = "the layout follows the superblock";
const LOG: &str = "log buffers cannot be configured";
const REALTIME: &str = "realtime devices are only read";
const LABELS: &str = "security labels come from the files";
const ELSEWHERE: &str =
    "use the options of mount(8) on the existing mount (--bind, --make-private)";

/// Options that are accepted and ignored: mount(8) handles them itself, they have no effect, or
/// their effect is always present.
pub(super) const IGNORED: [&str; 28] = [
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "silent",
    "loud",
    "nomand",
    "iversion",
    "nostrictatime",
    // This is the kernel's behaviour in any case.
    "norelatime",
    "remount",
    "nouuid",
    "attr2",
    "inode64",
    "noikeep",
    "nolargeio",
    "nogrpid",
    "sysvgroups",
    "nodiscard",
];

/// Options that need a value.
const VALUED: [&str; 10] = [
    "offset",
    "partition",
    "volume",
    "member",
    "logdev",
    "rtdev",
    "cache",
    "threads",
    "uid",
    "gid",
];

/// Returns whether an option is a comment (`x-…`, `X-…`) for other programs that read fstab.
pub(super) fn is_comment(name: &str) -> bool {
    name.starts_with("x-") || name.starts_with("X-")
}

/// Returns the error for an option that is refused, unknown, or given without its value.
pub(super) fn unknown(name: &str) -> OptionError {
    let name = name.to_owned();
    if VALUED.contains(&name.as_str()) {
        return OptionError::ValueMissing { name };
    }
    match REFUSED.iter().find(|(refused, _)| *refused == name) {
        Some((_, reason)) => OptionError::Refused { name, reason },
        None => OptionError::Unknown { name },
    }
}

/// Returns a description of the values of an option, for error messages.
pub(super) fn values(name: &str) -> &'static str {
    match name {
        "offset" => "a number of bytes",
        "volume" => "the name of a logical volume, VG/LV",
        "logdev" | "member" | "rtdev" => "the path of a file or device",
        "cache" => "a number of bytes, at least 1M",
        "threads" => "a number from 1 to 64",
        "uid" | "gid" => "the number of a user or group",
        _ => "a number",
    }
}
