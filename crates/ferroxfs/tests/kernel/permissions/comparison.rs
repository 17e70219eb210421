//! Comparison of the results of all test cases on a volume that the kernel mounts and on one that
//! ferroxfs opens.

use std::fmt::Debug;
use std::fs;
use std::io;
use std::iter::zip;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;

/// The largest number of differences that the error shows.
const SHOWN: usize = 10;

/// The output of an operation, or its errno.
pub(crate) type Answer = Result<String, i32>;

/// The results of all cases on one volume.
pub(crate) struct Outcomes {
    pub(crate) answers: Vec<Answer>,
    /// For each case, the attributes of its files after the operation, as the kernel shows them.
    pub(crate) facts: Vec<String>,
}

/// Checks that two volumes have the same outcomes. The error lists the differences. `agree` decides
/// whether the two answers of a case agree.
pub(crate) fn compare<C: Debug>(
    cases: &[C],
    found: &Outcomes,
    expected: &Outcomes,
    agree: impl Fn(&C, &Answer, &Answer) -> bool,
) -> Result<(), String> {
    let lengths = [&found.answers, &expected.answers].map(Vec::len);
    let lengths_of_facts = [&found.facts, &expected.facts].map(Vec::len);
    if lengths != [cases.len(); 2] || lengths_of_facts != [cases.len(); 2] {
        return Err(format!("{lengths:?} answers and {lengths_of_facts:?} facts"));
    }
    let answers = zip(&found.answers, &expected.answers);
    let facts = zip(&found.facts, &expected.facts);
    let mut differences = Vec::new();
    for (case, ((ours, theirs), (left, left_there))) in zip(cases, zip(answers, facts)) {
        if !agree(case, ours, theirs) || left != left_there {
            differences.push(format!(
                "{case:?}\nours:   {ours:?}\nkernel: {theirs:?}\nleft by us:\n{left}left by the \
                 kernel:\n{left_there}",
            ));
        }
    }
    let refused = expected.answers.iter().filter(|answer| answer.is_err()).count();
    // A run in which nearly everything is refused, or nothing, proves little.
    if cases.len() > 100 && !(cases.len() / 10..cases.len() * 9 / 10).contains(&refused) {
        return Err(format!("{refused} of {} are refused", cases.len()));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let shown = differences.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    Err(format!("{} of {} differ, among them:\n{shown}", differences.len(), cases.len()))
}

/// Returns the state of a directory as the kernel shows it, with a line for each file.
pub(crate) fn facts(folder: &Path) -> io::Result<String> {
    let mut lines = String::new();
    add_facts(folder, Path::new(""), &mut lines)?;
    Ok(lines)
}

fn add_facts(root: &Path, below: &Path, lines: &mut String) -> io::Result<()> {
    let full = root.join(below);
    let metadata = fs::symlink_metadata(&full)?;
    let (mode, uid, gid) = (metadata.mode(), metadata.uid(), metadata.gid());
    let (links, size) = (metadata.nlink(), if metadata.is_dir() { 0 } else { metadata.size() });
    let attributes = attributes(&full)?;
    let path = below.display();
    lines.push_str(&format!("{path} {mode:o} {uid}:{gid} {links} {size} {attributes:?}\n"));
    if metadata.is_dir() {
        let names = fs::read_dir(&full)?.map(|entry| Ok(entry?.file_name()));
        let mut names = names.collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            add_facts(root, &below.join(name), lines)?;
        }
    }
    Ok(())
}

/// Returns the names and values of all attributes of a file.
fn attributes(path: &Path) -> Result<Vec<(String, Vec<u8>)>, Errno> {
    let (mut names, mut value) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let length = rustix::fs::llistxattr(path, &mut names)?;
    names.truncate(length);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut found = Vec::new();
    for name in names {
        let length = rustix::fs::lgetxattr(path, name, &mut value)?;
        let bytes = value.iter().take(length).copied().collect();
        found.push((String::from_utf8_lossy(name).into_owned(), bytes));
    }
    found.sort();
    Ok(found)
}
