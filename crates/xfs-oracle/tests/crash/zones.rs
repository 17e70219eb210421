//! Fills the zones of a volume with garbage, so that a history soon has to collect them.

use xfs_oracle::model::{FileTarget, NodeSettings, Operation};
use xfs_oracle::{FileFlags, Geometry};

/// The files of the ballast: the first one stays, and the second one is removed.
const KEPT: &str = "kept-ballast";
const REMOVED: &str = "removed-ballast";
/// Number of pieces of each file. The pieces of both files alternate, so that each zone has some of
/// both.
const PIECES: u64 = 208;
/// Bytes of each piece. Together the files fill 20 zones of 1 MiB. A sixth of these bytes stays.
const KEPT_BYTES: u64 = 16 << 10;
const REMOVED_BYTES: u64 = 80 << 10;

/// Returns the operations that fill the zones of a volume. Returns none for a volume without zones.
pub(crate) fn ballast(geometry: &Geometry) -> Vec<Operation> {
    if !geometry.has_zones() {
        return Vec::new();
    }
    let create = |path: &str| Operation::Create { path: path.to_owned(), mode: 0o600 };
    let write = |path: &str, length: u64, piece: u64| {
        let (file, offset) = (FileTarget::Path(path.to_owned()), piece * length);
        Operation::Write { file, offset, length, number: piece + 1 }
    };
    let pieces = (0..PIECES)
        .flat_map(|piece| [write(KEPT, KEPT_BYTES, piece), write(REMOVED, REMOVED_BYTES, piece)]);
    let flags = FileFlags::IMMUTABLE | FileFlags::REALTIME;
    let settings = NodeSettings { flags, ..NodeSettings::default() };
    let files = [create(KEPT), create(REMOVED)].into_iter();
    let end = [
        Operation::Unlink { path: REMOVED.to_owned() },
        Operation::SetFlags { path: KEPT.to_owned(), settings },
    ];
    files.chain(pieces).chain(end).collect()
}
