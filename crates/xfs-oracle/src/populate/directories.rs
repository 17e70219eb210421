//! Creates directories in every format. Each format is reached once by growing and once by
//! shrinking.

use std::fs;

use super::Populate;
use crate::error::{Context, OracleError};

/// Numbers of entries of the directories that are created. With blocks of 4 KiB, they give each
/// directory format: in the inode, one block, blocks with one leaf, and blocks with a tree of
/// leaves. Larger blocks need more entries for each format.
const SIZES: [u32; 9] = [0, 1, 3, 12, 60, 200, 700, 2500, 9000];

/// Number of entries of the directory with names of 250 bytes. With directory blocks of 1 KiB, it
/// then needs a second free-space block. If other files allocate in between, it also needs an
/// extent btree.
const LONG_NAMES: u32 = 3000;

pub(super) fn populate(here: &mut Populate) -> Result<(), OracleError> {
    for size in SIZES {
        let folder = here.inside(&format!("grown-{size}"))?;
        for index in 0..size {
            folder.touch(format!("entry {index}"))?;
        }
    }
    shrunk(here)?;
    holes(here)?;
    names(here)?;
    collisions(here)?;
    long_names(here)?;
    nested(here)?;
    renamed(here)
}

/// Creates directories and removes most of their entries. A format reached by shrinking differs
/// from one reached by growing, and XFS does not return to the smallest format.
fn shrunk(here: &mut Populate) -> Result<(), OracleError> {
    for (from, to) in [(60, 2), (700, 30), (2500, 300), (9000, 1), (9000, 0), (3, 0)] {
        let folder = here.inside(&format!("shrunk-{from}-{to}"))?;
        for index in 0..from {
            folder.touch(format!("entry {index}"))?;
        }
        for index in to..from {
            folder.remove(format!("entry {index}"))?;
        }
    }
    Ok(())
}

/// Creates a large directory with free space in all blocks, and reuses some of that space.
fn holes(here: &mut Populate) -> Result<(), OracleError> {
    let mut folder = here.inside("holes")?;
    for index in 0..4000 {
        folder.touch(format!("entry {index:0>8}"))?;
    }
    for index in (0..4000).filter(|index| index % 3 != 0 || (1000..2000).contains(index)) {
        folder.remove(format!("entry {index:0>8}"))?;
    }
    for index in 0..500 {
        let length = 1 + folder.random.below(60) as usize;
        folder.touch(format!("again {index} {}", "x".repeat(length)))?;
    }
    Ok(())
}

/// Creates names of every length and of every allowed byte.
fn names(here: &mut Populate) -> Result<(), OracleError> {
    let folder = here.inside("names")?;
    for length in 1..=255 {
        folder.touch("n".repeat(length))?;
    }
    for byte in (1..=255).filter(|&byte| byte != b'/' && byte != b'.' && byte != b'n') {
        folder.touch([byte])?;
        folder.touch([b'n', byte, byte])?;
    }
    folder.touch("...")?;
    folder.touch(" leading and trailing ")?;
    folder.touch("line\nbreak")?;
    folder.touch("größe 大きさ 📁")?;
    Ok(())
}

/// Creates many names with the same hash, so that a lookup must compare all of them.
///
/// The hash is rotated by 7 bits per byte, and so by 28 bits in four bytes. So bit `b` of a byte
/// and bit `b - 4` of the byte that is four bytes later cancel each other.
fn collisions(here: &mut Populate) -> Result<(), OracleError> {
    let folder = here.inside("collisions")?;
    for prefix in 0..60 {
        for flips in 0..4_u8 {
            let mut name = format!("{prefix:0>4}").into_bytes();
            name.extend([b'a', b'b', b'c', b'A' ^ (flips << 4), b'd', b'e', b'f', b'D' ^ flips]);
            folder.touch(name)?;
        }
    }
    Ok(())
}

fn long_names(here: &mut Populate) -> Result<(), OracleError> {
    let folder = here.inside("long-names")?;
    let beside = here.inside("long-names-beside")?;
    for index in 0..LONG_NAMES {
        folder.touch(format!("{index:l>250}"))?;
        // Blocks of another file in between keep the directory from being one extent.
        if index % 16 == 0 {
            beside.write(format!("{index}"), b"in between")?;
        }
    }
    Ok(())
}

fn nested(here: &mut Populate) -> Result<(), OracleError> {
    let mut folder = here.inside("nested")?;
    for depth in 0..40 {
        folder = folder.inside(&format!("depth {depth}"))?;
        folder.touch("leaf")?;
    }
    Ok(())
}

/// Creates hard links in several directories. Renames files to existing names and to other
/// directories.
fn renamed(here: &mut Populate) -> Result<(), OracleError> {
    let mut folder = here.inside("links")?;
    let others: Vec<_> =
        (0..5).map(|index| folder.inside(&format!("d{index}"))).collect::<Result<_, _>>()?;
    for index in 0..30 {
        let file = folder.write(format!("file {index}"), b"linked")?;
        for (count, other) in others.iter().enumerate() {
            let links = if index == 0 { 40 } else { (index + count) % 4 };
            for link in 0..links {
                let path = other.path(format!("link {index} {link}"));
                fs::hard_link(&file, &path).context(|| path.display().to_string())?;
            }
        }
    }
    for (from, to) in others.iter().zip(others.iter().skip(1)) {
        let from = from.path("link 0 1");
        let to = to.path("moved");
        fs::rename(&from, &to).context(|| from.display().to_string())?;
    }
    if let [first, second, ..] = others.as_slice() {
        let inner = second.path("moved folder");
        fs::rename(&first.folder, &inner).context(|| inner.display().to_string())?;
    }
    Ok(())
}
