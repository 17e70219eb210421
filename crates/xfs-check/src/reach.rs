//! The check of reachability: each directory must be below a root.
//!
//! The balances prove that each directory has one name and that its `..` is right. A ring of
//! directories that name each other satisfies both, and is found here.

use xfs_format::{Geometry, InodeNumber};

use crate::blocks::Findings;
use crate::code::Code;
use crate::finding::{Finding, Place};

/// The reachability of a directory, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    /// The directory is one of those that the present walk upwards has passed. If the walk meets it
    /// again, the directories form a ring.
    OnPath,
    /// The directory is below a root.
    Reached,
    /// The directory is in or below a ring of directories, or below a directory that does not
    /// exist.
    Lost,
}

/// Follows each directory up to a root. `directories` has each directory and its parent.
pub(crate) fn check(
    mut directories: Vec<(InodeNumber, InodeNumber)>,
    geometry: &Geometry,
    findings: &mut Findings,
) {
    directories.sort_unstable();
    directories.dedup_by_key(|(directory, _)| *directory);
    let mut states = vec![State::Unknown; directories.len()];
    let index_of = |inode: InodeNumber| {
        directories.binary_search_by_key(&inode, |(directory, _)| *directory).ok()
    };
    let mut path = Vec::new();
    for start in 0..directories.len() {
        let mut at = Some(start);
        path.clear();
        let outcome = loop {
            let Some(index) = at else { break State::Lost };
            let state = states.get_mut(index).expect("the index was found in the list");
            match *state {
                State::Unknown => {}
                State::OnPath => {
                    let (directory, _) = *directories.get(index).expect("the index was found");
                    let place = Place::of_inode(directory, geometry);
                    let found = "the directory is below itself".to_owned();
                    findings.push(Finding::new(Code::DirRing, place, found));
                    break State::Lost;
                }
                known => break known,
            }
            *state = State::OnPath;
            path.push(index);
            let (directory, parent) = *directories.get(index).expect("the index was found");
            if directory == parent {
                break State::Reached;
            }
            at = index_of(parent);
        };
        for index in &path {
            *states.get_mut(*index).expect("the index was found in the list") = outcome;
        }
    }
}

#[cfg(test)]
mod tests {
    use xfs_device::BlockDevice;
    use xfs_format::{DiskAddr, Geometry, InodeNumber, StructureAddress, Superblock};

    use super::check;
    use crate::blocks::Findings;
    use crate::code::Code;

    fn golden_geometry() -> Geometry {
        let image = xfs_testkit::golden();
        let mut sector = [0; 512];
        image.read_at(&mut sector, 0).unwrap();
        Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
    }

    fn findings_of(pairs: &[(u64, u64)]) -> Vec<Code> {
        let geometry = golden_geometry();
        let pairs = pairs.iter().map(|(a, b)| (InodeNumber(*a), InodeNumber(*b))).collect();
        let mut findings = Findings::default();
        check(pairs, &geometry, &mut findings);
        findings.into_parts().0.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn tree_below_a_root_has_no_finding() {
        assert_eq!(findings_of(&[(128, 128), (131, 128), (140, 131), (150, 140)]), []);
    }

    #[test]
    fn ring_with_paths_into_it_is_found_once() {
        let ring = [(128, 128), (131, 132), (132, 133), (133, 131), (140, 131), (141, 140)];
        assert_eq!(findings_of(&ring), [Code::DirRing]);
    }
}
