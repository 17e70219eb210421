//! The encoding of arguments and results: XDR, as RFC 4506 describes it.
//!
//! A decoder borrows the bytes of a call. No length of the call leads to an allocation (I1 of the
//! crate). That is why the codec is our own.

/// The arguments of a call do not have the encoding of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbage;

/// The bytes of arguments that are not decoded yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Garbage> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Garbage)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbage> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Garbage)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Garbage> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Garbage> {
        self.array().map(u64::from_be_bytes)
    }

    /// Decodes a boolean: the discriminant of every optional value.
    pub(crate) fn flag(&mut self) -> Result<bool, Garbage> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbage),
        }
    }

    /// Decodes a value that may be absent.
    pub(crate) fn optional<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<T, Garbage>,
    ) -> Result<Option<T>, Garbage> {
        self.flag()?.then(|| decode(self)).transpose()
    }

    /// Decodes bytes of a fixed length, which is a multiple of 4.
    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Garbage> {
        const { assert!(N.is_multiple_of(4)) };
        self.array()
    }

    /// Decodes bytes with their length. The names of NFS are such bytes, too.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Garbage> {
        let length = self.u32()? as usize;
        let bytes = self.take(length)?;
        self.take(length.next_multiple_of(4) - length)?;
        Ok(bytes)
    }
}

/// The bytes of a reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn flag(&mut self, value: bool) -> &mut Self {
        self.u32(value.into())
    }

    /// Encodes bytes of a fixed length, which is a multiple of 4.
    pub(crate) fn fixed<const N: usize>(&mut self, bytes: [u8; N]) -> &mut Self {
        const { assert!(N.is_multiple_of(4)) };
        self.0.extend_from_slice(&bytes);
        self
    }

    /// Encodes bytes with their length.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let length = u32::try_from(bytes.len()).expect("a reply is shorter than 4 GiB");
        self.u32(length);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn append(&mut self, other: &Self) -> &mut Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    pub(crate) fn length(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the number of bytes of an encoded name of this length.
pub(crate) const fn encoded_length(length: usize) -> usize {
    4 + length.next_multiple_of(4)
}

#[cfg(test)]
mod tests;
