//! Fragments the free space of a volume, so that files and btrees get many extents.
//!
//! One file allocates all blocks, and then frees some of them at many offsets. Then the file
//! becomes immutable, so that no later operation changes it. In the model the file is empty.

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{CreateOptions, Error, File, NewKind, PosixError, SetAttributes, Volume};
use xfs_oracle::FileFlags;
use xfs_oracle::model::{AllocationMode, FileTarget, Model, NodeSettings, Operation};

/// Number of pieces of free space.
const PIECES: u64 = 1500;
/// Size of a piece in bytes. It is large enough that some pieces have room for an inode chunk,
/// which must be contiguous.
const PIECE_BYTES: u64 = 32 << 10;
const BALLAST: &str = "ballast";
const MODE: u32 = 0o600;

/// Fragments the free space of a volume, and closes it.
pub(crate) fn make(volume: Volume, model: &mut Model) -> Result<(), String> {
    take_and_give_back(volume).map_err(|error| error.to_string())?;
    let path = || BALLAST.to_owned();
    let flags = NodeSettings { flags: FileFlags::IMMUTABLE, ..NodeSettings::default() };
    let done = [
        Operation::Create { path: path(), mode: MODE },
        Operation::Allocate {
            file: FileTarget::Path(path()),
            mode: AllocationMode::AllocateKeepSize,
            offset: 0,
            length: PIECE_BYTES,
        },
        Operation::SetFlags { path: path(), settings: flags },
    ];
    done.iter().try_for_each(|operation| match model.perform(operation) {
        Ok(_) => Ok(()),
        Err(errno) => Err(format!("{operation:?} is refused by the model: {errno}")),
    })
}

fn take_and_give_back(volume: Volume) -> ferroxfs::Result<()> {
    let creation = CreateOptions::new(MODE as u16);
    let node = volume.root()?.create(BALLAST, &NewKind::Regular, &creation)?;
    let file = node.open()?;
    let taken = take_all(&file, volume.geometry().block_size.into())?;
    let apart = taken / PIECES / PIECE_BYTES * PIECE_BYTES;
    for start in (0..PIECES).map(|piece| piece * apart) {
        file.change_range(start..start + PIECE_BYTES, RangeMode::Punch)?;
    }
    file.close()?;
    let fixed = SetAttributes::new().xflags(ExtendedFlags::IMMUTABLE);
    node.set_attributes(&fixed)?;
    drop(node);
    volume.close()
}

/// Allocates space to `file` until none is left. Returns the number of allocated bytes.
fn take_all(file: &File, block_bytes: u64) -> ferroxfs::Result<u64> {
    const LARGEST_STEP_BYTES: u64 = 256 << 20;
    let (mut taken, mut step) = (0, LARGEST_STEP_BYTES);
    while step >= block_bytes {
        let range = taken..taken + step;
        match file.change_range(range, RangeMode::Allocate(AllocateMode::KeepSize)) {
            Ok(()) => taken += step,
            Err(Error::Posix(PosixError::NoSpace)) => step /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}
