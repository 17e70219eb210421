//! The disk inside a VMDK image of VMware.
//!
//! Owns: the extents of a disk, in one file or several. Does **not** own the text that describes
//! them ([`descriptor`]), or the grains of a sparse extent ([`sparse`]).
//!
//! | form (as qemu-img names it) | files | read | written |
//! |---|---|---|---|
//! | monolithicSparse | one, with the descriptor in it | yes | no |
//! | streamOptimized | one, compressed | yes | no |
//! | monolithicFlat | descriptor, and the raw disk | yes | yes, in place |
//! | twoGbMaxExtentSparse | descriptor, and sparse parts | yes | no |
//! | twoGbMaxExtentFlat | descriptor, and raw parts | yes | yes, in place |
//!
//! Other kinds of extents (COWD, SESPARSE) and differencing disks are refused by name.

mod descriptor;
mod sparse;

use std::io;
use std::sync::Arc;

use xfs_device::{BlockDevice, Contents, SharedDevice};

use crate::device::{BlockMap, ImageDevice, Location, Run};
use crate::error::{FileRole, ImageError, ImageRefusal};
use crate::neighbour::Surroundings;
use descriptor::{Descriptor, ExtentKind, MAX_DESCRIPTOR_BYTES};
use sparse::SparseExtent;

const SECTOR_BYTES: u64 = 512;

/// A range of the disk, and the place of its bytes.
struct VmdkExtent {
    start: u64,
    length_bytes: u64,
    source: VmdkSource,
}

/// Where the bytes of an extent are stored.
enum VmdkSource {
    Zeros,
    Flat { file: SharedDevice, offset: u64 },
    Sparse(Box<SparseExtent>),
}

/// The extents of a VMDK image, in the order of the disk, without gaps.
pub(crate) struct VmdkExtents {
    extents: Vec<VmdkExtent>,
    length_bytes: u64,
}

fn damaged(part: &'static str) -> ImageError {
    ImageError::damaged(Contents::Vmdk, part)
}

const fn refused(refusal: ImageRefusal) -> ImageError {
    ImageError::refused(Contents::Vmdk, refusal)
}

/// Opens the disk inside the image.
///
/// # Errors
///
/// See [`ImageError`].
pub(crate) fn open(
    file: SharedDevice,
    surroundings: Option<&Surroundings>,
) -> Result<ImageDevice<VmdkExtents>, ImageError> {
    let mut magic = [0; 4];
    if file.length_bytes() < SECTOR_BYTES {
        // A descriptor can be shorter than a sector, but then it describes no extent.
        return Err(damaged("descriptor"));
    }
    file.read_at(&mut magic, 0)?;
    match &magic {
        b"KDMV" => {
            let extent = SparseExtent::open(file)?;
            match extent.descriptor()? {
                None => return Err(refused(ImageRefusal::PartOfSplit)),
                Some(text) => drop(Descriptor::parse(&text)?),
            }
            Ok(ImageDevice::read_only(VmdkExtents::of([VmdkSource::sparse(extent)])?))
        }
        b"COWD" => Err(refused(ImageRefusal::ExtentKind("COWD".to_owned()))),
        _ => open_described(&*file, surroundings),
    }
}

/// Opens the extents that the text in `file` describes.
fn open_described(
    file: &dyn BlockDevice,
    surroundings: Option<&Surroundings>,
) -> Result<ImageDevice<VmdkExtents>, ImageError> {
    let mut text = vec![0; file.length_bytes().min(MAX_DESCRIPTOR_BYTES) as usize];
    file.read_at(&mut text, 0)?;
    let descriptor = Descriptor::parse(&text)?;
    let is_flat = descriptor.extents.iter().all(|extent| extent.kind == ExtentKind::Flat);
    let sources = descriptor.extents.into_iter().map(|extent| match extent.kind {
        ExtentKind::Zero => Ok((VmdkSource::Zeros, extent.length_bytes)),
        ExtentKind::Flat | ExtentKind::Sparse => {
            let surroundings = surroundings.ok_or_else(|| refused(ImageRefusal::ExternalData))?;
            let options = if is_flat { surroundings.options() } else { surroundings.reading() };
            let opened = surroundings.open(&extent.file, FileRole::Extent, options)?;
            let file: SharedDevice = Arc::new(opened.file);
            let source = match extent.kind {
                ExtentKind::Sparse => VmdkSource::sparse(SparseExtent::open(file)?).0,
                _ => VmdkSource::Flat { file, offset: extent.offset },
            };
            Ok((source, extent.length_bytes))
        }
    });
    let map = VmdkExtents::of(sources.collect::<Result<Vec<_>, ImageError>>()?)?;
    Ok(if is_flat { ImageDevice::in_place(map) } else { ImageDevice::read_only(map) })
}

impl VmdkSource {
    fn sparse(extent: SparseExtent) -> (Self, u64) {
        let length_bytes = extent.length_bytes();
        (Self::Sparse(Box::new(extent)), length_bytes)
    }
}

impl VmdkExtents {
    /// Creates a map of extents, each given with its length, that follow one another on the disk.
    fn of(sources: impl IntoIterator<Item = (VmdkSource, u64)>) -> Result<Self, ImageError> {
        let mut extents = Vec::new();
        let mut start = 0_u64;
        for (source, length_bytes) in sources {
            if let VmdkSource::Sparse(sparse) = &source
                && sparse.length_bytes() < length_bytes
            {
                return Err(damaged("extent: it is shorter than the descriptor says"));
            }
            extents.push(VmdkExtent { start, length_bytes, source });
            start = start.checked_add(length_bytes).ok_or_else(|| damaged("descriptor"))?;
        }
        Ok(Self { extents, length_bytes: start })
    }

    /// Returns the extent with the byte at `offset` of the disk.
    fn extent(&self, offset: u64) -> io::Result<&VmdkExtent> {
        let after = self.extents.partition_point(|extent| extent.start <= offset);
        let found = after.checked_sub(1).and_then(|index| self.extents.get(index));
        found
            .filter(|extent| offset - extent.start < extent.length_bytes)
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl BlockMap for VmdkExtents {
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn find(&self, offset: u64) -> io::Result<Run<'_>> {
        let extent = self.extent(offset)?;
        let within = offset - extent.start;
        let rest = extent.length_bytes - within;
        match &extent.source {
            VmdkSource::Zeros => Ok(Run { location: Location::Zeros, length_bytes: rest }),
            VmdkSource::Flat { file, offset } => {
                let at = offset.checked_add(within).ok_or(io::ErrorKind::UnexpectedEof)?;
                Ok(Run { location: Location::Stored(file, at), length_bytes: rest })
            }
            VmdkSource::Sparse(sparse) => {
                let run = sparse.find(within)?;
                Ok(Run { length_bytes: run.length_bytes.min(rest), ..run })
            }
        }
    }

    fn read_encoded(&self, offset: u64, encoded: u64, piece: &mut [u8]) -> io::Result<()> {
        let extent = self.extent(offset)?;
        match &extent.source {
            VmdkSource::Sparse(sparse) => sparse.read_grain(offset - extent.start, encoded, piece),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn files(&self) -> Vec<&SharedDevice> {
        self.extents
            .iter()
            .filter_map(|extent| match &extent.source {
                VmdkSource::Flat { file, .. } => Some(file),
                VmdkSource::Zeros | VmdkSource::Sparse(_) => None,
            })
            .collect()
    }
}
