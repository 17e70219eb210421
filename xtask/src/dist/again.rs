//! A second build of everything, from a copy of the sources at another path and into another target
//! folder. Both builds must make the same bytes.
//!
//! Owns: the copy and its removal, and the comparison. The copy holds the files that git knows and
//! those that it does not ignore, so changes that are not committed are built too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{Dist, Options, build, guide};
use crate::command;
use crate::error::Error;

/// The copy of the sources. It is longer than the path of the checkout, and removed by the drop.
struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// Builds again and compares the files with those of `first`.
pub(super) fn run(root: &Path, first: &Dist, options: Options) -> Result<(), Error> {
    let began = Instant::now();
    let copy = Copy(root.join("target/second-build/of-ferroxfs"));
    copy.fill(root)?;
    let is_guided = !options.quick && !options.unguided;
    if is_guided {
        guide::copy(root, &copy.0)?;
    }
    let options = Options { same_profile: is_guided, ..options };
    let second = build(&copy.0, options, first.epoch.clone())?;
    let different = different(first, &second)?;
    if !different.is_empty() {
        let names = different.join(", ");
        return Err(Error::Dist(format!("two builds differ in {names}")));
    }
    let (count, seconds) = (first.names()?.len(), began.elapsed().as_secs());
    println!("the second build made the same {count} files, in {seconds} s");
    Ok(())
}

impl Copy {
    fn fill(&self, root: &Path) -> Result<(), Error> {
        if self.0.exists() {
            fs::remove_dir_all(&self.0).map_err(Error::file(&self.0))?;
        }
        fs::create_dir_all(&self.0).map_err(Error::file(&self.0))?;
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]);
        let names = command::output(git.current_dir(root))?;
        // Files that are deleted and not committed are still listed.
        let names = names.split_terminator('\0').filter(|name| root.join(name).exists());
        let list = self.0.join("list");
        super::write(&list, &names.collect::<Vec<_>>().join("\0"))?;
        let mut tar = Command::new("tar");
        tar.args(["--null", "--no-recursion", "--create", "--file=-", "--files-from"]).arg(&list);
        let mut tar = tar
            .current_dir(root)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| Error::Start { program: "tar".to_owned(), source })?;
        let mut unpack = Command::new("tar");
        unpack.args(["--extract", "--file=-"]).current_dir(&self.0);
        let unpacked =
            command::run(unpack.stdin(tar.stdout.take().map_or_else(Stdio::null, Stdio::from)));
        let packed = tar.wait().map_err(Error::file(&list))?;
        unpacked?;
        if !packed.success() {
            return Err(Error::Dist(format!("the sources were not copied: {packed}")));
        }
        fs::remove_file(&list).map_err(Error::file(&list))
    }
}

/// Returns the names of the files that only one build made, or that differ.
fn different(first: &Dist, second: &Dist) -> Result<Vec<String>, Error> {
    let mut names = first.names()?;
    names.extend(second.names()?);
    names.sort();
    names.dedup();
    let is_same = |name: &String| {
        let read = |dist: &Dist| fs::read(dist.folder.join(name));
        matches!((read(first), read(second)), (Ok(one), Ok(two)) if one == two)
    };
    names.retain(|name| !is_same(name));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::Dist;
    use super::different;

    fn dist(folder: &Path, files: &[(&str, &str)]) -> Dist {
        fs::create_dir_all(folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        let file = |name| folder.join(name);
        let (program, package, image) = (file("ferroxfs"), file("a.deb"), file("a.tar"));
        Dist { program, folder: folder.to_owned(), package, image, epoch: "0".to_owned() }
    }

    #[test]
    fn files_of_one_build_alone_and_other_bytes_are_differences() {
        let place = tempfile::tempdir().unwrap();
        let one = dist(&place.path().join("1"), &[("same", "a"), ("other", "a"), ("first", "")]);
        let two = dist(&place.path().join("2"), &[("same", "a"), ("other", "b"), ("second", "")]);
        assert_eq!(different(&one, &two).unwrap(), ["first", "other", "second"]);
        assert_eq!(different(&one, &one).unwrap(), [] as [&str; 0]);
    }
}
