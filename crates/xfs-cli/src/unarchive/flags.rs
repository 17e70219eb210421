//! File flags as text: `SCHILY.fflags`, as libarchive and star write them.

use ferroxfs::format::inode::ExtendedFlags;

/// Names of flags that XFS has. libarchive writes the names of BSD where there are some.
const FLAGS: [(&str, ExtendedFlags); 13] = [
    ("sappnd", ExtendedFlags::APPEND),
    ("sappend", ExtendedFlags::APPEND),
    ("uappnd", ExtendedFlags::APPEND),
    ("uappend", ExtendedFlags::APPEND),
    ("schg", ExtendedFlags::IMMUTABLE),
    ("schange", ExtendedFlags::IMMUTABLE),
    ("simmutable", ExtendedFlags::IMMUTABLE),
    ("uchg", ExtendedFlags::IMMUTABLE),
    ("uchange", ExtendedFlags::IMMUTABLE),
    ("uimmutable", ExtendedFlags::IMMUTABLE),
    ("nodump", ExtendedFlags::NODUMP),
    ("noatime", ExtendedFlags::NOATIME),
    ("sync", ExtendedFlags::SYNC),
];

/// The flags of a list, and the names that are no flag of XFS.
pub(super) fn parse(text: &[u8]) -> (u32, Vec<String>) {
    let text = String::from_utf8_lossy(text);
    let mut flags = ExtendedFlags::empty();
    let mut unknown = Vec::new();
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        match FLAGS.iter().find(|(known, _)| *known == name) {
            Some((_, flag)) => flags |= *flag,
            None => unknown.push(name.to_owned()),
        }
    }
    (flags.bits(), unknown)
}
