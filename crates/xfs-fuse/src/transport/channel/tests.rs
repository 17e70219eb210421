use rustix::io::Errno;
use zerocopy::{FromZeros, IntoBytes};

use super::{
    InHeader, MAX_WRITE_BYTES, Opcode, Reply, Request, RingHeader, WriteIn, answer, request_pages,
};
use crate::transport::Handler;
use crate::transport::session::PAGE_BYTES;
use crate::transport::wire::{InitFlags, ReadIn};

#[test]
fn write_data_starts_at_a_page_boundary() {
    let mut pages = request_pages();
    let length = size_of::<InHeader>() + size_of::<WriteIn>() + MAX_WRITE_BYTES as usize;
    let header = InHeader { length: length as u32, ..InHeader::new_zeroed() };
    let message = pages.bytes_mut().get_mut(..length).expect("room for the largest request");
    header.write_to_prefix(message).expect("room for the header");
    let request = Request::decode(message).expect("a request");
    let (_, written) = request.argument::<WriteIn>().expect("the arguments of a write");
    assert_eq!(written.len(), MAX_WRITE_BYTES as usize);
    assert_eq!(written.as_ptr().addr() % PAGE_BYTES as usize, 0);
}

/// A handler that answers a READ with bytes of value 7. It answers any other request with the bytes
/// that follow the request's arguments, in reverse order.
struct Mirror;

impl Handler for Mirror {
    fn wishes(&self) -> InitFlags {
        InitFlags::empty()
    }

    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, rest) = request.argument::<ReadIn>()?;
        if request.opcode() == Some(Opcode::Read) {
            return reply.fill_with(wanted.size as usize, |room| {
                let most = room.len().min(wanted.offset as usize);
                room[..most].fill(7);
                Ok(most)
            });
        }
        rest.iter().rev().for_each(|byte| reply.add_bytes(&[*byte]));
        Ok(())
    }
}

/// Returns the header of a ring request with these arguments and with `contents` bytes of contents.
fn message(opcode: u32, arguments: ReadIn, contents: usize) -> RingHeader {
    let mut message = RingHeader::new_zeroed();
    let length = (size_of::<InHeader>() + size_of::<ReadIn>() + contents) as u32;
    let header = InHeader { length, opcode, unique: 9, ..InHeader::default() };
    header.write_to_prefix(&mut message.head).unwrap();
    arguments.write_to_prefix(&mut message.arguments).unwrap();
    message.entry.length = contents as u32;
    message
}

fn read(size: u32, there: u64) -> RingHeader {
    message(15, ReadIn { size, offset: there, ..ReadIn::default() }, 0)
}

#[test]
fn ring_answer_is_written_over_the_contents() {
    let mut contents = [0; 64];
    let (header, _) = answer(&Mirror, &read(64, 64), &mut contents, &mut Reply::default()).unwrap();
    assert_eq!((header.length, header.error, header.unique), (80, 0, 9));
    assert_eq!(contents, [7; 64]);
}

#[test]
fn ring_contents_are_read_before_the_answer_replaces_them() {
    let mut contents = *b"abcdef..";
    let request = message(16, ReadIn::default(), 6);
    let mut separate = Reply::default();
    for expected in [b"fedcba..", b"abcdef.."] {
        let (header, _) = answer(&Mirror, &request, &mut contents, &mut separate).unwrap();
        assert_eq!((header.length, header.error), (22, 0));
        assert_eq!(&contents, expected);
    }
}

#[test]
fn ring_answer_that_does_not_fit_becomes_an_error() {
    let mut contents = [0; 8];
    let mut ask = |message| answer(&Mirror, &message, &mut contents, &mut Reply::default());
    let (header, _) = ask(read(100, 100)).unwrap();
    assert_eq!((header.length, header.error), (16, -Errno::IO.raw_os_error()));
    // An answer that was given more room than it needs fits.
    let (header, _) = ask(read(100, 3)).unwrap();
    assert_eq!((header.length, header.error), (19, 0));
    assert_eq!(contents, [7, 7, 7, 0, 0, 0, 0, 0]);
}

#[test]
fn ring_message_that_is_not_a_request_is_rejected() {
    for (length, contents) in [(39, 0), (1000, 0), (40, 1), (40 + 129, 0)] {
        let mut message = read(0, 0);
        let header = InHeader { length, opcode: 15, ..InHeader::default() };
        header.write_to_prefix(&mut message.head).unwrap();
        message.entry.length = contents;
        let refused = answer(&Mirror, &message, &mut [0; 8], &mut Reply::default());
        assert_eq!(refused.err().and_then(|error| error.raw_os_error()), Some(71), "{length}");
    }
}
