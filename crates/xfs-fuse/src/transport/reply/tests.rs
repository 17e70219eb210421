use rustix::io::Errno;
use zerocopy::FromBytes;

use super::Reply;
use crate::transport::wire::{OutHeader, WriteOut};

fn header(bytes: &[u8]) -> OutHeader {
    OutHeader::read_from_prefix(bytes).expect("a header").0
}

#[test]
fn answer_header_has_its_length() {
    let mut reply = Reply::default();
    reply.clear();
    reply.add(&WriteOut { size: 5, padding: 0 });
    let bytes = reply.finish(42, Ok(())).to_vec();
    assert_eq!(bytes.len(), 24);
    let header = header(&bytes);
    assert_eq!((header.length, header.error, header.unique), (24, 0, 42));
}

#[test]
fn error_answer_has_no_body() {
    let mut reply = Reply::default();
    reply.clear();
    reply.add_bytes(b"half an answer");
    let bytes = reply.finish(1, Err(Errno::NOENT)).to_vec();
    assert_eq!(bytes.len(), 16);
    assert_eq!(header(&bytes).error, -2);
}

#[test]
fn invalidation_is_sent_with_success_and_with_errors() {
    let mut reply = Reply::default();
    reply.clear();
    assert!(reply.notice().is_none());
    reply.invalidate_attributes(128);
    reply.finish(1, Err(Errno::NOSPC));
    let notice = reply.notice().expect("attributes have changed");
    let told = (notice.header.error, notice.header.unique, notice.node, notice.offset);
    assert_eq!(told, (2, 0, 128, -1));
    reply.clear();
    assert!(reply.notice().is_none());
}

#[test]
fn unfilled_room_is_not_sent() {
    let mut reply = Reply::default();
    reply.clear();
    let filled = reply.fill_with(100, |room| {
        room[..3].copy_from_slice(b"abc");
        Ok(3)
    });
    filled.expect("filled");
    assert_eq!(&reply.finish(1, Ok(()))[16..], b"abc");
}

#[test]
fn read_data_starts_at_a_page_boundary() {
    let mut reply = Reply::default();
    reply.clear();
    for most in [1, 4096, 1 << 20] {
        reply.clear();
        let at_start = |room: &mut [u8]| {
            assert_eq!(room.as_ptr().addr() % 4096, 0, "room for {most}");
            Ok(0)
        };
        reply.fill_with(most, at_start).expect("filled");
    }
}

#[test]
fn growing_answer_keeps_its_bytes() {
    let mut reply = Reply::default();
    reply.clear();
    let body: Vec<u8> = (0..100_000).map(|index| index as u8).collect();
    for part in body.chunks(777) {
        reply.add_bytes(part);
    }
    assert_eq!(&reply.finish(1, Ok(()))[16..], body);
}
