use super::{DirectoryPart, DirectoryTable, MAX_PATH_BYTES, NoPath, PathWriter};
use crate::batch::Link;
use crate::row::ByteList;

const ROOT: u64 = 128;

/// Builds a table of directories. Each is given as its number, the number of its parent, and its
/// name. Every generation is 1.
fn table(directories: &[(u64, u64, &str)]) -> DirectoryTable {
    let mut part = DirectoryPart::default();
    part.push(ROOT, 1, None);
    for &(ino, parent, name) in directories {
        let link = Link { parent, parent_generation: 1, name: name.as_bytes() };
        part.push(ino, 1, Some(link));
    }
    DirectoryTable::new(vec![part], ROOT)
}

#[track_caller]
fn check_path(directories: &[(u64, u64, &str)], parent: u64, expected: Result<&str, NoPath>) {
    let table = table(directories);
    let mut paths = ByteList::default();
    let link = Link { parent, parent_generation: 1, name: b"x" };
    let mut writer = PathWriter::new(&table);
    for _ in 0..2 {
        paths.clear();
        let result = writer.push_path(&link, &mut paths);
        let path = paths.iter().next().map(|path| String::from_utf8(path.to_vec()).unwrap());
        assert_eq!(result.map(|_| path.unwrap()), expected.map(str::to_owned));
    }
}

#[test]
fn paths_start_at_the_root() {
    check_path(&[], ROOT, Ok("/x"));
    check_path(&[(200, ROOT, "a")], 200, Ok("/a/x"));
    check_path(&[(200, 201, "b"), (201, 202, "cc"), (202, ROOT, "d")], 200, Ok("/d/cc/b/x"));
    check_path(&[(200, ROOT, "a"), (201, 200, "b"), (202, 201, "ccc")], 202, Ok("/a/b/ccc/x"));
}

#[test]
fn broken_chains_have_no_path() {
    check_path(&[], 7, Err(NoPath::Missing));
    check_path(&[(200, 7, "a")], 200, Err(NoPath::Unreachable));
    check_path(&[(200, 7, "a"), (201, 200, "b")], 201, Err(NoPath::Unreachable));
}

/// Checks I2 of `xfs_scan::paths`: if the parents of directories form a cycle, the walk up from
/// them ends and reports the cycle.
#[test]
fn cycles_are_detected() {
    check_path(&[(200, 200, "a")], 200, Err(NoPath::Cycle));
    check_path(&[(200, 201, "a"), (201, 200, "b")], 201, Err(NoPath::Cycle));
    let below = [(200, 201, "a"), (201, 202, "b"), (202, 201, "c"), (203, 200, "d")];
    check_path(&below, 201, Err(NoPath::Cycle));
    check_path(&below, 202, Err(NoPath::Cycle));
    check_path(&below, 200, Err(NoPath::Unreachable));
    check_path(&below, 203, Err(NoPath::Unreachable));
}

#[test]
fn link_to_another_generation_is_stale() {
    let table = table(&[(200, ROOT, "a")]);
    let mut writer = PathWriter::new(&table);
    let mut push = |parent_generation| {
        let link = Link { parent: 200, parent_generation, name: b"x" };
        writer.push_path(&link, &mut ByteList::default())
    };
    assert_eq!(push(2), Err(NoPath::Stale));
    assert_eq!(push(1), Ok(1));
    assert_eq!(push(0), Ok(1), "the generation of the directory itself");
}

#[test]
fn chain_that_is_too_deep_is_refused_without_a_walk() {
    let name = "n".repeat(255);
    let count = u64::from(MAX_PATH_BYTES) / 256 + 10;
    let chain: Vec<_> =
        (0..count).map(|depth| (ROOT + 1 + depth, ROOT + depth, name.as_str())).collect();
    let deepest = ROOT + count;
    check_path(&chain, deepest, Err(NoPath::TooLong));
    let last_shown = ROOT + u64::from(MAX_PATH_BYTES) / 256;
    let table = table(&chain);
    let mut paths = ByteList::default();
    let link = Link { parent: last_shown, parent_generation: 0, name: b"x" };
    PathWriter::new(&table).push_path(&link, &mut paths).unwrap();
    assert_eq!(paths.iter().next().unwrap().len(), MAX_PATH_BYTES as usize + 2);
}
