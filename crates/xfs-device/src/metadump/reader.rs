//! Reads the extents of a metadata image in their order.

use std::io::{self, Read};

use super::{
    METADUMP_DEVICE_SHIFT, METADUMP_INDEX_ADDRESSES, METADUMP_MAGIC_1, METADUMP_MAGIC_2,
    METADUMP_UNIT, MetadumpError, MetadumpHeader, MetadumpVersion,
};

/// Length of an index of version 1, in bytes.
const INDEX_BYTES: usize = 512;
/// Length of the header of version 2, in bytes.
const HEADER_BYTES: usize = 24;
/// The size, in bytes, of the address and the length that come before the contents of each extent
/// of version 2.
const EXTENT_BYTES: usize = 12;

/// The bytes of a metadata image, in order.
pub trait MetadumpSource {
    /// Reads at most `buffer.len()` bytes. Returns 0 only at the end.
    ///
    /// # Errors
    ///
    /// The error of the host.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Skips `count` bytes.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::UnexpectedEof`] if fewer bytes are left; the error of the host.
    fn skip(&mut self, count: u64) -> io::Result<()>;
}

/// A metadata image in a stream, which cannot seek: bytes to be skipped are read and dropped.
pub struct StreamSource<R>(pub R);

impl<R: Read> MetadumpSource for StreamSource<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.0.by_ref().take(count), &mut io::sink())?;
        if skipped == count { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// Adjacent blocks of the volume that also follow each other in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadumpExtent {
    /// The first byte of the extent in the volume.
    pub start: u64,
    /// Length of the extent in bytes.
    pub length_bytes: u64,
    /// The byte of the image where the contents of the extent start.
    pub place: u64,
}

/// A reader of a metadata image.
pub struct MetadumpReader<S> {
    source: S,
    header: MetadumpHeader,
    /// The number of bytes of the image that have been read or skipped so far.
    place: u64,
    /// The number of bytes of the current extent that have not been read yet.
    left: u64,
    /// The addresses from the current index of version 1 whose blocks have not been returned yet.
    addresses: Vec<u64>,
    is_last_index: bool,
}

impl<S: MetadumpSource> MetadumpReader<S> {
    /// Opens a metadata image: reads its header.
    ///
    /// # Errors
    ///
    /// A [`MetadumpError`].
    pub fn open(source: S) -> Result<Self, MetadumpError> {
        let header = MetadumpHeader::from_flags(MetadumpVersion::One, false, 0);
        let (addresses, is_last_index) = (Vec::new(), false);
        let mut reader = Self { source, header, place: 0, left: 0, addresses, is_last_index };
        let mut magic = [0; 4];
        if reader.fill(&mut magic)? < magic.len() {
            return Err(MetadumpError::NotMetadump);
        }
        match magic {
            METADUMP_MAGIC_1 => reader.read_index(&magic)?,
            METADUMP_MAGIC_2 => reader.read_header(&magic)?,
            _ => return Err(MetadumpError::NotMetadump),
        }
        Ok(reader)
    }

    /// Returns the description of the image, which its header holds.
    #[must_use]
    pub const fn header(&self) -> MetadumpHeader {
        self.header
    }

    /// Returns the next extent, or `None` at the end of the image. Bytes of the extent before it
    /// that were not read are skipped.
    ///
    /// # Errors
    ///
    /// A [`MetadumpError`].
    pub fn next_extent(&mut self) -> Result<Option<MetadumpExtent>, MetadumpError> {
        let left = std::mem::take(&mut self.left);
        self.place = self.place.saturating_add(left);
        self.source.skip(left).map_err(|error| self.cut(error))?;
        match self.header.version {
            MetadumpVersion::One => self.next_run(),
            MetadumpVersion::Two => self.next_of_version_2(),
        }
    }

    /// Reads the next bytes of the current extent.
    ///
    /// # Errors
    ///
    /// A [`MetadumpError`].
    ///
    /// # Panics
    ///
    /// Panics if the extent has fewer bytes left: a mistake of the caller.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<(), MetadumpError> {
        let left = self.left.checked_sub(buffer.len() as u64);
        self.left = left.expect("no more bytes are read than the extent has");
        self.read_whole(buffer)
    }

    /// Fills as much of `buffer` as the source has. Returns the number of bytes.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, MetadumpError> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.source.read(rest) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.place = self.place.saturating_add(done as u64);
        Ok(done)
    }

    fn read_whole(&mut self, buffer: &mut [u8]) -> Result<(), MetadumpError> {
        if self.fill(buffer)? < buffer.len() {
            return Err(MetadumpError::CutOff(self.place));
        }
        Ok(())
    }

    fn cut(&self, error: io::Error) -> MetadumpError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => MetadumpError::CutOff(self.place),
            _ => error.into(),
        }
    }

    fn read_header(&mut self, magic: &[u8]) -> Result<(), MetadumpError> {
        let mut bytes = [0; HEADER_BYTES];
        let (head, rest) = bytes.split_at_mut(magic.len());
        head.copy_from_slice(magic);
        self.read_whole(rest)?;
        let word = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
        let word = |at| u32::from_be_bytes(word(at).expect("the header has six words"));
        if word(4) != 2 {
            return Err(MetadumpError::Version(word(4)));
        }
        if word(12) != 0 {
            return Err(MetadumpError::Incompatible(word(12)));
        }
        self.header = MetadumpHeader::from_flags(MetadumpVersion::Two, true, word(8));
        Ok(())
    }

    fn next_of_version_2(&mut self) -> Result<Option<MetadumpExtent>, MetadumpError> {
        let (mut bytes, at) = ([0; EXTENT_BYTES], self.place);
        // The image ends where no byte follows. Otherwise the step consumes an extent (I2).
        match self.fill(&mut bytes)? {
            0 => return Ok(None),
            EXTENT_BYTES => {}
            _ => return Err(MetadumpError::CutOff(self.place)),
        }
        let (address, length) = bytes.split_at(size_of::<u64>());
        let address = address.first_chunk().copied().map(u64::from_be_bytes);
        let length = length.first_chunk().copied().map(u32::from_be_bytes);
        let (address, length) = address.zip(length).expect("an extent has both numbers");
        match address >> METADUMP_DEVICE_SHIFT {
            0 => {}
            1 => return Err(MetadumpError::OtherDevice("an external log")),
            2 => return Err(MetadumpError::OtherDevice("a realtime device")),
            _ => return Err(MetadumpError::Extent { at, address, length }),
        }
        if length == 0 {
            return Err(MetadumpError::Extent { at, address, length });
        }
        Ok(Some(self.begin(address, length.into())))
    }

    /// Begins to read an extent. `address` and `count` (its length) are in units of 512 bytes.
    /// `address` is below 2^54, so it has no bits that name a device.
    fn begin(&mut self, address: u64, count: u64) -> MetadumpExtent {
        self.left = count * METADUMP_UNIT;
        let start = address * METADUMP_UNIT;
        MetadumpExtent { start, length_bytes: self.left, place: self.place }
    }

    /// Reads the rest of an index. `read` holds its first bytes, which have been read already.
    fn read_index(&mut self, read: &[u8]) -> Result<(), MetadumpError> {
        let at = self.place - read.len() as u64;
        let mut bytes = [0; INDEX_BYTES];
        let (head, rest) = bytes.split_at_mut(read.len());
        head.copy_from_slice(read);
        self.read_whole(rest)?;
        let (head, addresses) = bytes.split_at(8);
        let &[m0, m1, m2, m3, high, low, log, flags] = head else {
            unreachable!("the head of an index has eight bytes");
        };
        let count = u16::from_be_bytes([high, low]);
        if log != 9 {
            return Err(MetadumpError::BlockLog { at, log });
        }
        let listed = usize::from(count);
        if [m0, m1, m2, m3] != METADUMP_MAGIC_1 || listed > METADUMP_INDEX_ADDRESSES {
            return Err(MetadumpError::Index { at, count });
        }
        let (words, _) = addresses.as_chunks();
        self.addresses = words.iter().take(listed).rev().map(|w| u64::from_be_bytes(*w)).collect();
        self.is_last_index = listed < METADUMP_INDEX_ADDRESSES;
        if at == 0 {
            let (is_described, flags) = (flags & 1 != 0, u32::from(flags >> 1));
            let flags = if is_described { flags } else { 0 };
            self.header = MetadumpHeader::from_flags(MetadumpVersion::One, is_described, flags);
        }
        Ok(())
    }

    fn next_run(&mut self) -> Result<Option<MetadumpExtent>, MetadumpError> {
        if self.addresses.is_empty() {
            if self.is_last_index {
                return Ok(None);
            }
            let mut magic = [0; 4];
            // The image ends where no byte follows. Otherwise the step consumes an index (I2).
            match self.fill(&mut magic)? {
                // Writers may leave out an index without blocks.
                0 => return Ok(None),
                4 => self.read_index(&magic)?,
                _ => return Err(MetadumpError::CutOff(self.place)),
            }
        }
        let Some(first) = self.addresses.pop() else { return Ok(None) };
        if first >> METADUMP_DEVICE_SHIFT != 0 {
            return Err(MetadumpError::Extent { at: self.place, address: first, length: 1 });
        }
        let mut count = 1;
        while self.addresses.pop_if(|next| *next == first + count).is_some() {
            count += 1;
        }
        Ok(Some(self.begin(first, count)))
    }
}
