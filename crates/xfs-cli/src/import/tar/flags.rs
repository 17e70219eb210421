//! File flags as text in the record `SCHILY.fflags`, as libarchive and star write them.

use ferroxfs::attr::ExtendedFlags;

/// The names of flags in archives, with the flags of XFS. libarchive writes the names of BSD where
/// they exist.
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

/// Parses a list of flag names. Returns the flags, and the names that are not flags of XFS.
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
