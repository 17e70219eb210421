//! Joins the slices of a vectored write into larger pieces, which go to the device.
//!
//! Owns: where pieces begin and end. Does **not** own: what happens to a piece.
//!
//! # Invariants
//!
//! - **I1** A piece ends where a buffer ends ([`BUFFER_BYTES`](super::buffered::BUFFER_BYTES)), or
//!   where the write ends, never where a slice ends. If a slice that ends inside a sector were
//!   written by itself, a crash could leave bytes in that sector that the file held neither before
//!   the write nor after it.

use xfs_buffer::Result;

use super::buffered::end_of_buffer;

/// Calls `write` with each piece of a write that begins at byte `offset`, and returns the number of
/// bytes written. A single slice is one piece, and is not copied.
///
/// # Errors
///
/// Returns the error of `write`, if it fails before any byte was written.
pub(crate) fn write_pieces<'b>(
    offset: u64,
    slices: impl Iterator<Item = &'b [u8]>,
    mut write: impl FnMut(u64, &[u8]) -> Result<usize>,
) -> Result<usize> {
    let mut slices = slices.filter(|slice| !slice.is_empty()).peekable();
    let Some(mut rest) = slices.next() else { return Ok(0) };
    if slices.peek().is_none() {
        return write(offset, rest);
    }
    let (mut piece, mut done) = (Vec::new(), 0);
    loop {
        let at = offset + done as u64;
        // `write` refuses an offset that no file can have.
        let length = usize::try_from(end_of_buffer(at) - at).unwrap_or(usize::MAX).max(1);
        rest = fill(&mut piece, length, rest, &mut slices);
        if piece.is_empty() {
            return Ok(done);
        }
        match write(at, &piece) {
            Ok(written) => done += written,
            Err(_) if done > 0 => return Ok(done),
            Err(error) => return Err(error),
        }
        if at + piece.len() as u64 != offset + done as u64 {
            return Ok(done);
        }
        piece.clear();
    }
}

/// Fills `piece` up to `length` bytes: first from `rest`, the unused part of a slice, and then from
/// later slices. Returns the unused part of the last slice.
fn fill<'b>(
    piece: &mut Vec<u8>,
    length: usize,
    mut rest: &'b [u8],
    slices: &mut impl Iterator<Item = &'b [u8]>,
) -> &'b [u8] {
    loop {
        let (head, after) = rest.split_at(rest.len().min(length - piece.len()));
        piece.extend_from_slice(head);
        rest = after;
        if piece.len() == length {
            return rest;
        }
        let Some(next) = slices.next() else { return rest };
        rest = next;
    }
}

#[cfg(test)]
mod tests;
