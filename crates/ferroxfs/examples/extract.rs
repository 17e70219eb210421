//! Extracts a tree of a volume (files, directories and links) into a new directory of the host.
//!
//! `cargo run -p ferroxfs --example extract -- IMAGE PATH DIRECTORY`

use std::error::Error;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::ExitCode;

use ferroxfs::{FileType, Node, Volume};

fn main() -> ExitCode {
    // An error that `main` returns is printed with `Debug`, which is not for users.
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("extract: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, path, target] = arguments.as_slice() else {
        return Err("usage: extract IMAGE PATH DIRECTORY".into());
    };
    let problems = run(image.as_ref(), path.as_ref(), target.as_ref())?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    if problems.is_empty() { Ok(()) } else { Err("not everything was extracted".into()) }
}

/// Extracts the tree at `path` of the image into the new directory `target`. Returns a message for
/// each file that could not be extracted.
pub(crate) fn run(image: &Path, path: &Path, target: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let volume = Volume::open(image)?;
    let mut problems = Vec::new();
    let mut walk = volume.walk(path)?;
    while let Some(entry) = walk.next() {
        // An error is an item like any other: the walk continues after it.
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                problems.push(error.to_string());
                continue;
            }
        };
        let to = target.join(entry.path.strip_prefix(path)?);
        // Nothing that exists is followed or replaced. A damaged directory may have a name twice,
        // as a link and as a directory. It leads nowhere outside of the target.
        if let Err(error) = extract(&entry.node, &to) {
            problems.push(format!("{}: {error}", entry.path.display()));
            walk.skip_subtree();
        }
    }
    Ok(problems)
}

fn extract(node: &Node, to: &Path) -> io::Result<()> {
    match node.file_type() {
        FileType::Directory => fs::create_dir(to),
        FileType::Symlink => symlink(node.read_link()?, to),
        FileType::Regular => {
            let mut file = File::create_new(to)?;
            io::copy(&mut node.open_read_only()?, &mut file)?;
            file.set_permissions(Permissions::from_mode(u32::from(node.metadata().mode & 0o777)))
        }
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "a special file")),
    }
}
