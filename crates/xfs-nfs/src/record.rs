//! Records: the frames of calls and replies in a TCP stream (RFC 5531, section 11).
//!
//! A record is a sequence of fragments. Each has a header of 4 bytes: its length, and in the
//! highest bit whether it is the last one.

use std::io::{self, Read, Write};

/// The most bytes of contents that one READ or WRITE carries.
pub(crate) const MOST_CONTENTS_BYTES: u32 = 1 << 20;
/// The most bytes of a record: contents, and more than enough for everything around them.
pub(crate) const MOST_BYTES: usize = MOST_CONTENTS_BYTES as usize + (8 << 10);

const LAST: u32 = 1 << 31;

/// Reads a record into `record`, whose memory is used again. Returns `false` at the end of the
/// stream. A record of more than [`MOST_BYTES`] is an error, since the rest of the stream then has
/// no known frames.
pub(crate) fn read(stream: &mut impl Read, record: &mut Vec<u8>) -> io::Result<bool> {
    record.clear();
    loop {
        let mut header = [0; 4];
        if record.is_empty() && !starts(stream, &mut header)? {
            return Ok(false);
        } else if !record.is_empty() {
            stream.read_exact(&mut header)?;
        }
        let header = u32::from_be_bytes(header);
        let length = (header & !LAST) as usize;
        let before = record.len();
        if before + length > MOST_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the record is too long"));
        }
        record.resize(before + length, 0);
        stream.read_exact(record.get_mut(before..).expect("was resized"))?;
        if header & LAST != 0 {
            return Ok(true);
        }
    }
}

/// Reads the header of the first fragment. Returns `false` if the stream ends before it.
fn starts(stream: &mut impl Read, header: &mut [u8; 4]) -> io::Result<bool> {
    let (first, rest) = header.split_at_mut(1);
    loop {
        match stream.read(first) {
            Ok(0) => return Ok(false),
            Ok(_) => return stream.read_exact(rest).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes `bytes` as a record of one fragment.
pub(crate) fn write(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).expect("a reply is shorter than 2 GiB");
    assert!(length & LAST == 0, "a reply is shorter than 2 GiB");
    // One write: two small ones would wait for each other's acknowledgement.
    let mut frame = Vec::with_capacity(4 + bytes.len());
    frame.extend_from_slice(&(length | LAST).to_be_bytes());
    frame.extend_from_slice(bytes);
    stream.write_all(&frame)
}

#[cfg(test)]
mod tests;
