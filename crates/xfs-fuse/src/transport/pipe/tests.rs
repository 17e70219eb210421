use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use xfs_sync::{AtomicUsize, Ordering, Volume};
use zerocopy::FromBytes;

use super::{LEAST_BYTES, MOST_PIPES, PipeState, Pipes};
use crate::transport::reply::Reply;
use crate::transport::wire::OutHeader;

/// Length in bytes of the contents that the tests send through a pipe.
const LENGTH: usize = 200_000;

/// Creates a file to which answers are sent in place of the FUSE device.
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

fn pipes() -> Pipes {
    Pipes::new(|| {})
}

/// Sends an answer with `length` bytes of contents through a pipe. Returns `false` if that was not
/// possible.
fn send(reply: &mut Reply<'_>, length: usize) -> bool {
    let Some(pipe) = reply.pipe_for(length) else { return false };
    reply.send_through_pipe(pipe, length, |pipe| put(pipe, length))
}

/// Returns the number of open pipes.
fn open(pipes: &Pipes) -> usize {
    pipes.slots.iter().filter(|slot| matches!(slot.lock().state, PipeState::Open(_))).count()
}

#[test]
fn pipe_sends_an_answer_with_its_header() {
    let (mut target, pipes) = (target(), pipes());
    {
        let mut reply = Reply::through_pipes(pipes.of(0), target.as_fd());
        for unique in [9, 10] {
            reply.begin(unique);
            assert!(send(&mut reply, LENGTH));
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

/// Checks I1 of `xfs_fuse::transport::pipe`: a pipe that may be non-empty gets no answer.
#[test]
fn pipe_that_may_not_be_empty_is_not_used_again() {
    let mut target = target();
    let fails = |_: BorrowedFd<'_>| Err(io::Error::other("the image"));
    let puts_less = |pipe: BorrowedFd<'_>| put(pipe, LENGTH / 2);
    let pipes = pipes();
    for index in 0..pipes.slots.len() {
        let mut reply = Reply::through_pipes(pipes.of(index), target.as_fd());
        let pipe = reply.pipe_for(LENGTH).unwrap();
        let is_sent = if index % 2 == 0 {
            reply.send_through_pipe(pipe, LENGTH, puts_less)
        } else {
            reply.send_through_pipe(pipe, LENGTH, fails)
        };
        assert!(!is_sent && !reply.is_sent());
    }
    // It is not replaced either, now or later.
    pipes.rest();
    pipes.rest();
    assert!(!send(&mut Reply::through_pipes(pipes.of(0), target.as_fd()), LENGTH));
    assert!(sent(&mut target).is_empty());
}

#[test]
fn small_started_or_notifying_answers_are_copied() {
    let (target, pipes) = (target(), pipes());
    let mut reply = Reply::through_pipes(pipes.of(0), target.as_fd());
    assert!(send(&mut reply, LENGTH));
    assert!(reply.pipe_for(LENGTH).is_none());
    reply.begin(0);
    assert!(reply.pipe_for(4096).is_none());
    assert!(!send(&mut reply, 1 << 30));
    reply.add_bytes(b"begun");
    assert!(reply.pipe_for(LENGTH).is_none());
    reply.begin(1);
    reply.invalidate_attributes(128);
    assert!(reply.pipe_for(LENGTH).is_none());
    reply.begin(2);
    assert!(reply.pipe_for(LENGTH).is_some());
    assert!(Reply::default().pipe_for(LENGTH).is_none());
}

#[test]
fn pipe_is_opened_only_for_an_answer_that_uses_it() {
    let (target, pipes) = (target(), pipes());
    let mut reply = Reply::through_pipes(pipes.of(0), target.as_fd());
    // Nothing is sent for a hole, past the end of the file, or from an image without a descriptor.
    drop(reply.pipe_for(LENGTH));
    let pipe = reply.pipe_for(LENGTH).unwrap();
    assert!(!reply.send_through_pipe(pipe, LEAST_BYTES - 1, |pipe| put(pipe, LEAST_BYTES - 1)));
    assert_eq!(open(&pipes), 0);
    // One after the other, all workers use the same pipe, including those that prefer another slot.
    for index in 0..2 * MOST_PIPES {
        let mut reply = Reply::through_pipes(pipes.of(index), target.as_fd());
        assert!(send(&mut reply, LENGTH));
        reply.begin(1);
        assert!(!send(&mut reply, 1 << 30));
        assert_eq!(open(&pipes), 1);
    }
}

#[test]
fn worker_without_a_free_pipe_copies() {
    let (target, pipes) = (target(), pipes());
    let replies: Vec<_> = (0..3 * MOST_PIPES)
        .map(|index| Reply::through_pipes(pipes.of(index), target.as_fd()))
        .collect();
    // A worker reaches all pipes, whatever its index.
    let taken: Vec<_> = replies.iter().filter_map(|_| pipes.of(1).take(LENGTH)).collect();
    assert_eq!(taken.len(), pipes.slots.len());
    assert!(taken.len() <= MOST_PIPES);
    assert!(replies.iter().all(|reply| reply.pipe_for(LENGTH).is_none()));
    drop(taken);
    assert!(replies.iter().all(|reply| reply.pipe_for(LENGTH).is_some()));
}

#[test]
fn idle_pipes_are_closed() {
    let opened = Arc::new(AtomicUsize::<Volume>::new(0));
    let told = Arc::clone(&opened);
    let pipes = Pipes::new(move || {
        told.fetch_add(1, Ordering::Relaxed);
    });
    let target = target();
    assert!(!pipes.rest());
    for round in 1..3 {
        let mut reply = Reply::through_pipes(pipes.of(0), target.as_fd());
        for _ in 0..2 {
            reply.begin(1);
            assert!(send(&mut reply, LENGTH));
            assert!(pipes.rest());
            assert_eq!(open(&pipes), 1);
        }
        assert_eq!(opened.load(Ordering::Relaxed), round);
        assert!(!pipes.rest());
        assert_eq!(open(&pipes), 0);
    }
    let taken = pipes.of(0).take(LENGTH);
    assert!(pipes.rest());
    drop(taken);
}
