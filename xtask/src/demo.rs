//! `cargo xtask demo`: the main job, on a volume made here and now.
//!
//! mkfs.xfs makes the volume and fills it with this project's own documents, which needs no root:
//! it copies what a list (a *prototype*) names. Everything after that is the command `ferroxfs`, which
//! then makes and fills volumes by itself.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::Error;
use crate::{oracles, packages};

/// Makes a volume, lists it, takes a file out and compares it, takes the inventory, and fills volumes.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    std::env::set_current_dir(root).map_err(Error::file(root))?;
    command::run(command::cargo().args(["build", "--quiet", "--package", "xfs-cli"]))?;
    let folder = Path::new("target/demo");
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let image = make(root, folder)?;
    let copy = folder.join("ARCHITECTURE.md");
    let inside = format!("{}:/docs/ARCHITECTURE.md", image.display());
    show(&["info", text(&image)])?;
    show(&["ls", "-la", text(&image)])?;
    show(&["tree", text(&image)])?;
    show(&["cp", &inside, text(&copy)])?;
    command::run(Command::new("cmp").arg(&copy).arg("docs/ARCHITECTURE.md"))?;
    println!("the copy is the same as the original");
    let columns = "ino,type,uid,size,blocks,paths";
    show(&["scan", "--format", "table", "--fields", columns, text(&image)])?;
    show(&["scan", "--summary", text(&image)])?;
    fill(folder)
}

/// Makes a volume and puts the documents into it, twice, and takes them out again.
fn fill(folder: &Path) -> Result<(), Error> {
    let images = [folder.join("first.xfs"), folder.join("second.xfs")];
    for image in &images {
        write(&["mkfs", "-q", "-f", "-d", "size=300m", text(image)])?;
        write(&["import", "--all-root", "docs", text(image)])?;
        write(&["mkdir", &format!("{}:/made", image.display())])?;
    }
    let [first, second] = &images;
    command::run(Command::new("cmp").arg(first).arg(second))?;
    println!("\nthe two volumes that were made and filled are the same, byte for byte");
    let back = folder.join("back");
    if back.exists() {
        fs::remove_dir_all(&back).map_err(Error::file(&back))?;
    }
    show(&["cp", "-r", text(first), text(&back)])?;
    command::run(Command::new("diff").args(["-r", "--exclude=made", "docs"]).arg(&back))?;
    println!("what was put in comes out the same");
    Ok(())
}

/// Runs the command line on a volume that is to be the same each time.
fn write(arguments: &[&str]) -> Result<(), Error> {
    let mut ferroxfs = Command::new("target/debug/ferroxfs");
    command::run(ferroxfs.args(arguments).env("SOURCE_DATE_EPOCH", "1700000000"))
}

/// Runs the command line that was just built.
fn show(arguments: &[&str]) -> Result<(), Error> {
    println!();
    command::run(Command::new("target/debug/ferroxfs").args(arguments))
}

fn make(root: &Path, folder: &Path) -> Result<PathBuf, Error> {
    let image = folder.join("demo.xfs");
    let list = folder.join("prototype");
    fs::write(&list, prototype(root)?).map_err(Error::file(&list))?;
    let file = fs::File::create(&image).map_err(Error::file(&image))?;
    file.set_len(300 << 20).map_err(Error::file(&image))?;
    let mut mkfs = mkfs(root)?;
    mkfs.args(["-q", "-f", "-L", "demo", "-p"]).arg(&list).arg(&image);
    command::run(&mut mkfs)?;
    Ok(image)
}

/// mkfs.xfs of this machine, installed if need be; where we may not install it, one that is only
/// unpacked.
fn mkfs(root: &Path) -> Result<Command, Error> {
    if let Some(installed) = installed_mkfs() {
        return Ok(installed);
    }
    if command::is_root() && packages::apt_get_install(&["xfsprogs"]).is_ok() {
        return installed_mkfs().ok_or(Error::NoMkfs);
    }
    oracles::run(root)?;
    Ok(oracles::program(root, "mkfs.xfs"))
}

/// An ordinary user's PATH may not lead to it.
fn installed_mkfs() -> Option<Command> {
    let programs = ["mkfs.xfs", "/usr/sbin/mkfs.xfs"];
    let runs = |program: &&str| command::succeeds(Command::new(program).arg("-V"));
    programs.into_iter().find(runs).map(Command::new)
}

/// The list of what is to stand in the volume: some of the project, and one of each special kind.
fn prototype(root: &Path) -> Result<String, Error> {
    let mut list = String::from("ignored\n0 0\nd--755 0 0\n");
    for name in ["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "STYLE.md"] {
        let _ = writeln!(list, "{name} ---644 1000 1000 {}", root.join(name).display());
    }
    list.push_str("docs d--755 1000 1000\n");
    let documents = root.join("docs");
    let mut names = Vec::new();
    for entry in fs::read_dir(&documents).map_err(Error::file(&documents))? {
        let path = entry.map_err(Error::file(&documents))?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            names.push(path);
        }
    }
    names.sort();
    for path in names {
        let name = path.file_name().unwrap_or_default().display();
        let _ = writeln!(list, "{name} ---644 1000 1000 {}", path.display());
    }
    list.push_str("$\nread-me-first l--777 0 0 docs/ARCHITECTURE.md\n");
    list.push_str("pipe p--600 0 0\nnull c--666 0 0 1 3\n$\n");
    Ok(list)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
