//! Creates extended attributes in every namespace and every format. Each format is reached once by
//! growing and once by shrinking.

use std::path::Path;
use std::process::Command;

use rustix::fs::XattrFlags;

use super::Populate;
use crate::error::{Context, OracleError};
use crate::run::run;

/// Length of the longest value that the kernel accepts, in bytes.
const VALUE_BYTES_MAX: usize = 65536;

pub(super) fn populate(here: &mut Populate) -> Result<(), OracleError> {
    for count in [1, 2, 5, 20, 80, 300, 1200] {
        let path = here.touch(format!("grown-{count}"))?;
        add(&path, count, 40)?;
    }
    for (from, to) in [(20, 1), (300, 3), (1200, 20), (1200, 0), (5, 0)] {
        let path = here.touch(format!("shrunk-{from}-{to}"))?;
        add(&path, from, 40)?;
        for index in to..from {
            rustix::fs::lremovexattr(&path, name(index)).context(|| path.display().to_string())?;
        }
    }
    values(here)?;
    replaced(here)?;
    namespaces(here)?;
    names(here)?;
    on_others(here)?;
    beside_extents(here)?;
    scattered(here)?;
    access_lists(here)
}

fn name(index: u32) -> String {
    format!("user.attribute {index}")
}

/// Adds `count` attributes to a file. The names of all attributes of a file must not exceed 64 KiB:
/// the kernel would set more names, but it could not list them.
fn add(path: &Path, count: u32, value_bytes: usize) -> Result<(), OracleError> {
    for index in 0..count {
        let value = vec![index.to_be_bytes()[3]; value_bytes];
        set(path, &name(index), &value)?;
    }
    Ok(())
}

fn set(path: &Path, name: &str, value: &[u8]) -> Result<(), OracleError> {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())
        .context(|| format!("{name} of {}", path.display()))
}

/// Creates values with lengths around every limit: those of the inode, the block and the longest
/// value.
fn values(here: &mut Populate) -> Result<(), OracleError> {
    let borders = [0, 1, 2, 63, 255, 256, 257, 750, 969, 1024, 2048, 3072, 4096, 16384, 65000];
    for border in borders {
        for length in [border, border + 1] {
            let path = here.touch(format!("value-{length}"))?;
            let value = here.random.bytes(length);
            set(&path, "user.value", &value)?;
        }
    }
    let path = here.touch("value-longest")?;
    for index in 0..4 {
        let value = here.random.bytes(VALUE_BYTES_MAX);
        set(&path, &format!("user.longest {index}"), &value)?;
    }
    Ok(())
}

/// Creates values that are replaced by shorter and longer ones, from local to remote and back.
fn replaced(here: &mut Populate) -> Result<(), OracleError> {
    let path = here.touch("replaced")?;
    for index in 0..30 {
        for length in [10, 3000, 60000, 20, 5000].into_iter().take(1 + index as usize % 5) {
            let value = here.random.bytes(length);
            set(&path, &name(index), &value)?;
        }
    }
    Ok(())
}

fn namespaces(here: &mut Populate) -> Result<(), OracleError> {
    let path = here.touch("namespaces")?;
    // One name in three namespaces: three attributes with one hash.
    for namespace in ["user", "trusted", "security"] {
        set(&path, &format!("{namespace}.same"), namespace.as_bytes())?;
        for index in 0..40 {
            set(&path, &format!("{namespace}.{index}"), &here.random.bytes(50))?;
        }
    }
    let path = here.touch("capability")?;
    // Version 2 of a file capability: permitted CAP_NET_BIND_SERVICE, effective.
    let value = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    set(&path, "security.capability", &value)
}

fn names(here: &mut Populate) -> Result<(), OracleError> {
    let path = here.touch("names")?;
    for length in [1, 2, 3, 100, 200, 249, 250] {
        set(&path, &format!("user.{}", "n".repeat(length)), b"value")?;
    }
    set(&path, "user.größe 大きさ", b"")?;
    let path = here.touch("collisions")?;
    for flips in 0..4_u8 {
        let (first, last) = (char::from(b'A' ^ (flips << 4)), char::from(b'D' ^ flips));
        set(&path, &format!("user.abc{first}def{last}"), &[flips])?;
    }
    Ok(())
}

/// Creates attributes of a directory and of symbolic links. Symbolic links cannot have attributes
/// in the namespace `user`, so they get some in `trusted`.
fn on_others(here: &mut Populate) -> Result<(), OracleError> {
    let folder = here.inside("folder")?;
    add(&folder.folder, 100, 60)?;
    let link = here.path("link");
    std::os::unix::fs::symlink("nowhere", &link).context(|| link.display().to_string())?;
    set(&link, "trusted.link", b"on a link")?;
    let long = here.path("long link");
    std::os::unix::fs::symlink("x".repeat(900), &long).context(|| long.display().to_string())?;
    for index in 0..60 {
        set(&long, &format!("trusted.{index}"), &[index; 70])?;
    }
    Ok(())
}

/// Creates attributes and extents that compete for space in the inode, so that the border between
/// the forks moves.
fn beside_extents(here: &mut Populate) -> Result<(), OracleError> {
    for count in [1, 4, 9, 18, 40] {
        let path = here.touch(format!("extents-{count}"))?;
        add(&path, 2, 30)?;
        super::files::scatter(&path, count, here.block_bytes)?;
        add(&path, 6, 30)?;
    }
    Ok(())
}

/// Lets two files allocate attribute blocks in turns. So neither attribute fork is one extent, and
/// each grows into an extent btree.
fn scattered(here: &mut Populate) -> Result<(), OracleError> {
    let files = [here.touch("scattered-1")?, here.touch("scattered-2")?];
    let length = (here.block_bytes as usize).min(VALUE_BYTES_MAX) - 200;
    for index in 0..150 {
        for path in &files {
            let value = here.random.bytes(length);
            set(path, &name(index), &value)?;
        }
    }
    Ok(())
}

fn access_lists(here: &mut Populate) -> Result<(), OracleError> {
    let file = here.touch("access-list")?;
    run(Command::new("setfacl").args(["-m", "u:1000:rw,u:70000:r,g:2000:rx,m::rwx"]).arg(&file))?;
    let folder = here.inside("default-list")?;
    let entries = "d:u:1000:rwx,d:g:70000:rx,u:1001:x";
    run(Command::new("setfacl").args(["-m", entries]).arg(&folder.folder))?;
    folder.touch("inherits")?;
    let many = here.touch("long-list")?;
    let entries: Vec<_> = (0..200).map(|user| format!("u:{}:r", 5000 + user)).collect();
    run(Command::new("setfacl").args(["-m", &entries.join(",")]).arg(&many))?;
    Ok(())
}
