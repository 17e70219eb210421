//! The processes that use a mount, as far as /proc shows them.
//!
//! Owns: the search, which sends no request to the mount. Does **not** own: uses that no process
//! stands for, such as a mount or a loop device on top of the mount.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::terminal::names;

/// The largest number of processes that a message names.
const MOST_NAMED: usize = 5;

/// Describes the processes that use the mount at `folder`: the PID and the name of each. Returns an
/// empty text if none is visible. The path of the folder must be absolute and without links.
pub(super) fn describe(folder: &Path) -> String {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let uses = |process: &fs::DirEntry| {
        let is_process = process.file_name().as_bytes().iter().all(u8::is_ascii_digit);
        is_process && uses(&process.path(), folder)
    };
    let mut found: Vec<_> = processes.filter(uses).map(|process| shown(&process.path())).collect();
    let left_out = found.len().saturating_sub(MOST_NAMED);
    found.truncate(MOST_NAMED);
    if left_out > 0 {
        found.push(format!("{left_out} more"));
    }
    found.join(", ")
}

/// Returns whether a process, a directory of /proc, has a directory, a program, an open file or a
/// mapped file below `folder`. Reading such a link sends no request to the mount.
fn uses(process: &Path, folder: &Path) -> bool {
    let is_below = |link: &Path| fs::read_link(link).is_ok_and(|path| path.starts_with(folder));
    ["cwd", "root", "exe"].iter().any(|name| is_below(&process.join(name)))
        || ["fd", "map_files"].iter().any(|name| {
            let links = fs::read_dir(process.join(name)).into_iter().flatten().flatten();
            links.into_iter().any(|link| is_below(&link.path()))
        })
}

/// Returns the PID of a process and its name.
fn shown(process: &Path) -> String {
    let number = process.file_name().map_or_else(String::new, |name| name.display().to_string());
    let name = fs::read(process.join("comm")).unwrap_or_default();
    format!("{number} ({})", names::in_message(name.trim_ascii_end()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::describe;

    #[test]
    fn process_with_an_open_file_is_named() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().canonicalize().expect("a path");
        assert_eq!(describe(&path), "");
        let file = File::create(path.join("file")).expect("a file");
        let found = describe(&path);
        assert!(found.contains(&format!("{} (", std::process::id())), "{found}");
        drop(file);
        assert_eq!(describe(&path), "");
    }
}
