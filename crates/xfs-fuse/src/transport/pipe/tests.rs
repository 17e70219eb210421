use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};

use zerocopy::FromBytes;

use super::Pipe;
use crate::transport::reply::Reply;
use crate::transport::wire::OutHeader;

/// Bytes of contents.
const LENGTH: usize = 200_000;

/// Something that takes answers as a device does.
fn target() -> std::fs::File {
    tempfile::tempfile().expect("a file")
}

fn sent(target: &mut std::fs::File) -> Vec<u8> {
    let mut bytes = Vec::new();
    target.rewind().expect("its start");
    target.read_to_end(&mut bytes).expect("what was sent");
    bytes
}

fn put(pipe: BorrowedFd<'_>, length: usize) -> io::Result<usize> {
    let mut pipe = std::fs::File::from(pipe.try_clone_to_owned()?);
    pipe.write_all(&vec![7; length])?;
    Ok(length)
}

#[test]
fn an_answer_goes_through_it_with_its_header() {
    let mut target = target();
    {
        let mut reply = Reply::through_pipe(Pipe::open().unwrap(), target.as_fd());
        for unique in [9, 10] {
            reply.begin(unique);
            assert!(reply.send_through_pipe(LENGTH, |pipe| put(pipe, LENGTH)));
            assert!(reply.is_sent());
            reply.begin(0);
            assert!(!reply.is_sent());
        }
    }
    let sent = sent(&mut target);
    assert_eq!(sent.len(), 2 * (16 + LENGTH));
    for (answer, unique) in sent.chunks(16 + LENGTH).zip([9_u64, 10]) {
        let (header, contents) = OutHeader::read_from_prefix(answer).unwrap();
        let expected = (16 + LENGTH as u32, 0, unique);
        assert_eq!((header.length, header.error, header.unique), expected);
        assert!(contents.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn one_that_was_not_emptied_is_not_used_again() {
    let mut target = target();
    let fails = |_: BorrowedFd<'_>| Err(io::Error::other("the image"));
    let puts_less = |pipe: BorrowedFd<'_>| put(pipe, LENGTH / 2);
    {
        let mut reply = Reply::through_pipe(Pipe::open().unwrap(), target.as_fd());
        assert!(reply.takes_pipe(LENGTH));
        assert!(!reply.send_through_pipe(LENGTH, puts_less));
        assert!(!reply.is_sent() && !reply.takes_pipe(LENGTH));
        let mut reply = Reply::through_pipe(Pipe::open().unwrap(), target.as_fd());
        assert!(!reply.send_through_pipe(LENGTH, fails));
        assert!(!reply.send_through_pipe(LENGTH, |pipe| put(pipe, LENGTH)));
    }
    assert!(sent(&mut target).is_empty());
}

#[test]
fn what_is_small_or_begun_or_has_a_message_before_it_is_copied() {
    let target = target();
    let mut reply = Reply::through_pipe(Pipe::open().unwrap(), target.as_fd());
    assert!(!reply.takes_pipe(4096));
    assert!(!reply.takes_pipe(1 << 30));
    reply.add_bytes(b"begun");
    assert!(!reply.takes_pipe(LENGTH));
    reply.begin(1);
    reply.outdate(128);
    assert!(!reply.takes_pipe(LENGTH));
    reply.begin(2);
    assert!(reply.takes_pipe(LENGTH));
    assert!(!Reply::default().takes_pipe(LENGTH));
}
