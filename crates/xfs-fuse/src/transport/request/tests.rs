use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::Request;
use crate::transport::wire::{InHeader, Opcode, Rename2In};

fn bytes(opcode: u32, extensions: u16, body: &[u8]) -> Vec<u8> {
    let length = (size_of::<InHeader>() + body.len()) as u32;
    let header = InHeader { length, opcode, node: 7, uid: 3, extensions, ..InHeader::default() };
    [header.as_bytes(), body].concat()
}

#[test]
fn rename_request_is_parsed() {
    let rename = Rename2In { directory: 9, flags: 1, padding: 0 };
    let bytes = bytes(45, 0, &[rename.as_bytes(), b"old\0new\0"].concat());
    let request = Request::decode(&bytes).expect("a request");
    assert_eq!((request.opcode(), request.node()), (Some(Opcode::Rename2), 7));
    let (argument, old, new) = request.argument_and_names::<Rename2In>().expect("names");
    assert_eq!((argument.directory, argument.flags), (9, 1));
    assert_eq!((old.to_str(), new.to_str()), (Some("old"), Some("new")));
}

#[test]
fn extensions_after_the_arguments_are_ignored() {
    let bytes = bytes(1, 1, b"name\0\0\0\0extended");
    let request = Request::decode(&bytes).expect("a request");
    assert_eq!(request.name().expect("a name"), "name");
    assert_eq!(request.body, b"name\0\0\0\0");
}

#[test]
fn truncated_request_is_refused() {
    let bytes = bytes(45, 0, b"short");
    let request = Request::decode(&bytes).expect("a request");
    assert_eq!(request.argument::<Rename2In>().err(), Some(Errno::IO));
    assert_eq!(request.name().err(), Some(Errno::IO));
    for length in 0..bytes.len() {
        assert!(Request::decode(&bytes[..length]).is_none(), "{length} bytes");
    }
}
