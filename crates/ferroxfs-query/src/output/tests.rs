use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::Output;

fn write(path: &Path, dataset: &Path) -> Result<(), crate::failure::Failure> {
    let mut output = Output::open(Some(path), dataset)?;
    output.write(b"new")?;
    output.finish()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

#[test]
fn file_appears_when_it_is_complete() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("report");
    let mut output = Output::open(Some(&path), Path::new("/nowhere")).expect("an output");
    output.write(b"half").expect("a write");
    assert!(!path.exists());
    drop(output);
    assert_eq!(
        names(folder.path()),
        Vec::<String>::new(),
        "an output that is dropped leaves nothing"
    );
    write(&path, Path::new("/nowhere")).expect("an output");
    assert_eq!(names(folder.path()), ["report"]);
    assert_eq!(fs::read(path).expect("a file"), b"new");
}

#[test]
fn existing_file_keeps_its_mode_and_its_link() {
    let folder = TempDir::new().expect("a folder");
    let (path, link) = (folder.path().join("report"), folder.path().join("link"));
    fs::write(&path, b"old").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
    symlink("report", &link).expect("a link");
    write(&link, Path::new("/nowhere")).expect("an output");
    assert!(link.is_symlink());
    assert_eq!(fs::read(&path).expect("a file"), b"new");
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o640);
}

#[test]
fn destination_other_than_a_file_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let other = folder.path().join("other");
    fs::write(&other, b"old").expect("a file");
    fs::hard_link(&other, folder.path().join("second")).expect("a link");
    symlink("nothing", folder.path().join("dangling")).expect("a link");
    fs::create_dir_all(folder.path().join("data/inodes/x")).expect("a dataset");
    let data = folder.path().join("data");
    for path in ["other", "dangling", "data", "data/inodes/x/new.parquet"] {
        write(&folder.path().join(path), &data).expect_err(path);
    }
    write(Path::new("/dev/null"), &data).expect_err("a device");
    assert_eq!(fs::read(&other).expect("a file"), b"old");
}
