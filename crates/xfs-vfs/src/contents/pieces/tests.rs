use xfs_buffer::{Error, PosixError};

use super::super::buffered::BUFFER_BYTES;
use super::*;

const BUFFER: usize = BUFFER_BYTES as usize;

/// Writes slices of these lengths from byte `offset` on, and checks the bytes of each piece.
/// `taken` stands for the device: it gets the number of a piece, counted from 1, and the length of
/// the piece in bytes, and returns how many of these bytes it has written. Returns the offset and
/// length of each piece, and the result of the write.
fn check_pieces(
    offset: u64,
    lengths: &[usize],
    mut taken: impl FnMut(usize, usize) -> Result<usize>,
) -> (Vec<(u64, usize)>, Result<usize>) {
    let bytes: Vec<u8> = (0..lengths.iter().sum::<usize>()).map(|at| (at % 251) as u8).collect();
    let mut rest = bytes.as_slice();
    let slices = lengths.iter().map(|length| rest.split_off(..*length).unwrap());
    let mut pieces = Vec::new();
    let written = write_pieces(offset, slices, |at, piece| {
        let from = (at - offset) as usize;
        assert!(piece == &bytes[from..from + piece.len()], "wrong bytes at {at}");
        pieces.push((at, piece.len()));
        taken(pieces.len(), piece.len())
    });
    (pieces, written)
}

fn all(_number: usize, length: usize) -> Result<usize> {
    Ok(length)
}

#[test]
fn short_slices_become_one_piece() {
    let (pieces, written) = check_pieces(700, &[3, 0, 1000, 1, 0], all);
    assert_eq!((pieces.as_slice(), written.unwrap()), ([(700, 1004)].as_slice(), 1004));
}

#[test]
fn empty_slices_make_no_piece() {
    let (pieces, written) = check_pieces(700, &[0, 0], all);
    assert_eq!((pieces.as_slice(), written.unwrap()), ([].as_slice(), 0));
}

#[test]
fn single_slice_is_not_cut() {
    let (pieces, _) = check_pieces(5, &[0, 3 * BUFFER], all);
    assert_eq!(pieces, [(5, 3 * BUFFER)]);
}

/// Checks I1 of `xfs_vfs::contents::pieces`: a piece ends where a buffer ends, or where the write
/// ends, never where a slice ends.
#[test]
fn pieces_end_at_buffer_boundaries() {
    let (pieces, written) = check_pieces(5, &[BUFFER / 2, 2 * BUFFER, 9], all);
    assert_eq!(written.unwrap(), 2 * BUFFER + BUFFER / 2 + 9);
    let second = BUFFER_BYTES;
    let third = 2 * BUFFER_BYTES;
    assert_eq!(pieces, [(5, BUFFER - 5), (second, BUFFER), (third, BUFFER / 2 + 14)]);
}

#[test]
fn short_write_ends_the_pieces() {
    let (pieces, written) =
        check_pieces(0, &[BUFFER, BUFFER, BUFFER], |number, length| Ok(length / number));
    assert_eq!((pieces.len(), written.unwrap()), (2, BUFFER + BUFFER / 2));
}

#[test]
fn error_of_the_first_piece_is_returned() {
    let full = |from: usize| {
        move |number, length| match number < from {
            true => Ok(length),
            false => Err(PosixError::NoSpace.into()),
        }
    };
    let (_, written) = check_pieces(0, &[BUFFER, 1], full(2));
    assert_eq!(written.unwrap(), BUFFER);
    let (_, written) = check_pieces(0, &[BUFFER, 1], full(1));
    assert!(matches!(written, Err(Error::Posix(PosixError::NoSpace))));
}

#[test]
fn largest_offset_is_handed_on() {
    for offset in [u64::MAX, u64::MAX - 1, u64::MAX - BUFFER_BYTES] {
        let refuse = |at, _: &[u8]| {
            assert_eq!(at, offset);
            Err(PosixError::FileTooLarge.into())
        };
        let slices = [b"one".as_slice(), b"two"];
        let written = write_pieces(offset, slices.into_iter(), refuse);
        assert!(matches!(written, Err(Error::Posix(PosixError::FileTooLarge))));
    }
}
