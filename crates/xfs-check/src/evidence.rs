//! Adds evidence to findings: which two structures disagree. For many findings, the code alone
//! determines this.
//!
//! Owns: the two structures of each such code. Does **not** own: the evidence of differences that
//! the second pass finds, which names the structures itself.

use crate::code::Code;
use crate::finding::Finding;

/// The two structures that disagree about a value.
#[derive(Clone, Copy)]
struct Sides {
    /// The structure that holds the value that the finding reports as found.
    found: &'static str,
    /// The structure that holds the value that the finding reports as expected.
    expected: &'static str,
}

/// Adds to a finding the two structures that disagree, each with its value. Does nothing if the
/// finding has evidence of its own.
pub(crate) fn complete(finding: &mut Finding) {
    if !finding.evidence.is_empty() || finding.expected.is_empty() {
        return;
    }
    if let Some(sides) = sides(finding.code) {
        let bare = Finding::new(finding.code, finding.place, "");
        let both = bare
            .witness(sides.found, finding.found.as_str())
            .witness(sides.expected, finding.expected.as_str());
        finding.evidence = both.evidence;
    }
}

/// Returns the two structures that disagree in findings with this code; `None` if the code does not
/// name them.
const fn sides(code: Code) -> Option<Sides> {
    let (found, expected) = match code {
        Code::SbInodes | Code::SbFreeInodes => ("the superblock", "the inode btrees"),
        Code::SbFreeBlocks => ("the superblock", "the AGFs"),
        Code::SbDeviceShort => ("the device", "the superblock"),
        Code::AgfFreeBlocks | Code::AgfLongest => ("the AGF", "the btree of free space by block"),
        Code::AgfBtreeBlocks => ("the AGF", "the blocks of its btrees"),
        Code::AgfRmapBlocks => ("the AGF", "the blocks of the reverse map"),
        Code::AgfRefcountBlocks => ("the AGF", "the blocks of the reference counts"),
        Code::AgiCount | Code::AgiFreeCount => ("the AGI", "the inode btree"),
        Code::AgiInodeBlocks => ("the AGI", "the blocks of the inode btree"),
        Code::AgiFreeInodeBlocks => ("the AGI", "the blocks of the free-inode btree"),
        Code::InodeBlocks | Code::InodeNextents => ("the inode", "the maps of its forks"),
        Code::RtFreeExtents => ("the superblock", "the bitmaps"),
        Code::RtUsed => ("the inode of the reverse map", "the records of the reverse map"),
        Code::DirIndex => ("the hash index", "the entries"),
        Code::DirBestFree => ("the free-space index", "the data blocks"),
        Code::DirSize => ("the inode", "the data blocks"),
        Code::DirOwner | Code::AttrOwner | Code::LinkOwner => ("the block", "the map of the fork"),
        Code::BtOwner => ("the block", "the pointer that leads to it"),
        _ => return None,
    };
    Some(Sides { found, expected })
}
