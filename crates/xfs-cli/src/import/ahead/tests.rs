use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use super::AheadSource;
use crate::file::facts::FileKind;
use crate::file::memory::{MemoryFile, directory, facts, file};
use crate::file::source::Source;
use crate::import::chunks::{self, CHUNK_BYTES, Holes, ReadFailure};
use crate::import::host::HostSource;

struct Unread(String);

impl From<ReadFailure> for Unread {
    fn from(ReadFailure(failure): ReadFailure) -> Self {
        Self(failure.message().to_owned())
    }
}

/// Lists everything that a writer would ask for, in the order of the walk. Directories named `skip`
/// are not entered, and the contents of files named `skip` are not read.
fn list<S: Source>(source: &S, name: &str, holes: Holes, lines: &mut Vec<String>) {
    let facts = source.facts();
    lines.push(format!("{name} {:o} {:?}", facts.mode, source.length()));
    lines.extend(source.attributes().into_iter().map(|attribute| match attribute {
        Ok(attribute) => format!("{name} {attribute:?}"),
        Err(failure) => failure.message().to_owned(),
    }));
    match facts.kind() {
        _ if name.ends_with("skip") => {}
        FileKind::Symlink => {
            let target = String::from_utf8(source.target().unwrap_or_default()).unwrap();
            lines.push(format!("{name} target {target}"));
        }
        FileKind::Regular => {
            let read = chunks::read(source, holes, &mut Vec::new(), |offset, bytes| {
                let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
                lines.push(format!("{name} {offset} {} {sum}", bytes.len()));
                Ok::<_, Unread>(())
            });
            lines.push(match read {
                Ok(end) => format!("{name} ends at {end}"),
                Err(Unread(message)) => format!("{name}: {message}"),
            });
        }
        FileKind::Directory => match source.entries() {
            Err(failure) => lines.push(failure.message().to_owned()),
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok((below, source)) => {
                            let below = String::from_utf8(below).unwrap();
                            list(&source, &format!("{name}/{below}"), holes, lines);
                        }
                        Err(failure) => lines.push(failure.message().to_owned()),
                    }
                }
                lines.push(format!("{name} ends"));
            }
        },
        _ => {}
    }
}

/// Checks that a tree read ahead is the tree, and returns its lines.
fn check<S>(open: impl Fn() -> S, holes: Holes) -> Vec<String>
where
    S: Source<Entries: Send> + Send + 'static,
{
    let (mut direct, mut ahead) = (Vec::new(), Vec::new());
    list(&open(), "", holes, &mut direct);
    list(&AheadSource::start(open(), holes).unwrap(), "", holes, &mut ahead);
    assert_eq!(ahead, direct);
    ahead
}

fn sparse(path: &Path) {
    let sparse = File::create(path).unwrap();
    sparse.write_at(&[1; 100], 3 << 20).unwrap();
    sparse.write_at(&[2; 5000], (5 << 20) - 1000).unwrap();
    sparse.set_len(9 << 20).unwrap();
}

/// Checks I1 and I3: what the writer is given is what it would have read, also where it leaves out
/// a directory or contents, and of a file with two names.
#[test]
fn tree_of_the_host_is_the_same_when_it_is_read_ahead() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path();
    for name in ["a/empty", "a/deep/er", "b/skip/below", "c"] {
        fs::create_dir_all(top.join(name)).unwrap();
    }
    for number in 0..300 {
        fs::write(top.join(format!("c/{number}")), vec![number as u8; number * 7]).unwrap();
    }
    fs::write(top.join("a/deep/er/large"), vec![7; (3 << 20) + 5]).unwrap();
    fs::write(top.join("b/skip/below/large"), vec![7; 2 << 20]).unwrap();
    fs::write(top.join("c/large.skip"), vec![9; 2 << 20]).unwrap();
    fs::write(top.join("c/none"), []).unwrap();
    fs::hard_link(top.join("c/17"), top.join("linked")).unwrap();
    symlink("c/none", top.join("symlink")).unwrap();
    sparse(&top.join("sparse"));
    for holes in [Holes::OfSource, Holes::OfZeros] {
        let lines = check(|| HostSource::open(top, false).unwrap(), holes);
        let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
        // 300 files, and large, none, linked and sparse; not what was skipped.
        assert_eq!(count(" ends at "), 304);
        assert_eq!(lines.iter().filter(|line| line.ends_with(" ends")).count(), 7);
        assert_eq!(count("/symlink target c/none"), 1);
    }
}

#[test]
fn contents_that_fail_midway_end_with_their_failure() {
    let bytes = 2 * CHUNK_BYTES as u64 + 9;
    let failing = MemoryFile {
        facts: crate::file::facts::Facts { size: bytes, ..facts(2, 0o100_644) },
        contents: [(0, vec![1; bytes as usize])].into(),
        fails_at: Some(CHUNK_BYTES as u64 + 1),
        ..MemoryFile::default()
    };
    let top = directory(1, &[(b"bad", failing.into()), (b"good", file(3, b"good"))]);
    let lines = check(|| top.clone(), Holes::OfSource);
    assert!(lines.contains(&"/bad: bad block".to_owned()), "{lines:?}");
    assert!(lines.contains(&"/good ends at 4".to_owned()), "{lines:?}");
}

#[test]
fn thread_ends_when_the_writer_stops() {
    let large = file(2, &vec![1; 64 * CHUNK_BYTES]);
    let top = directory(1, &[(b"large", large.clone())]);
    drop(AheadSource::start(top.clone(), Holes::OfSource).unwrap());
    drop(top);
    // Only the thread may still have the file. It ends without reading the rest.
    while std::sync::Arc::strong_count(&large) > 1 {
        std::thread::yield_now();
    }
}
