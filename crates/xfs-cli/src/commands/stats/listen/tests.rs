use std::io::{Read, Write};
use std::net::TcpStream;

use super::{Answer, BAD_REQUEST, Listener, MOST_BYTES, NOT_ALLOWED, NOT_FOUND, answer, read_head};
use crate::exit::Exit;
use crate::failure::Failure;

fn check(head: &str, expected: &Answer) {
    assert_eq!(&answer(head.as_bytes()), expected, "{head:?}");
}

#[test]
fn figures_alone_are_answered() {
    check("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9187\r\nAccept: */*", &Answer::Figures);
    check("GET /metrics?a=b HTTP/1.0", &Answer::Figures);
    check("GET /metrics HTTP/1.1\r\nContent-Length: 0", &Answer::Figures);
    check("GET / HTTP/1.1", &NOT_FOUND);
    check("GET /metrics/ HTTP/1.1", &NOT_FOUND);
    check("POST /metrics HTTP/1.1\r\nContent-Length: 5", &NOT_ALLOWED);
    for bad in [
        "",
        "GET",
        "GET /metrics",
        "GET /metrics HTTP/2",
        "GET  /metrics HTTP/1.1",
        "GET /metrics HTTP/1.1 more",
        "GET /metrics HTTP/1.1\r\nno colon",
        "GET /metrics HTTP/1.1\r\n: no name",
        "GET /metrics HTTP/1.1\r\nA : space",
        "GET /metrics HTTP/1.1\r\nA: b\r\n folded: c",
        "GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked",
        "GET /metrics HTTP/1.1\r\nContent-Length: 1",
    ] {
        check(bad, &BAD_REQUEST);
    }
    assert_eq!(answer(b"GET /\xff HTTP/1.1"), BAD_REQUEST);
}

/// Gives what it has in pieces of this size.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let size = self.1.min(bytes.len());
        self.0.read(&mut bytes[..size])
    }
}

#[test]
fn a_request_ends_with_its_empty_line() {
    let request = b"GET / HTTP/1.1\r\nA: b\r\n\r\nmore";
    for size in 1..=request.len() {
        let head = read_head(&mut Pieces(request, size)).expect("a head");
        assert_eq!(head.as_deref(), Some(&b"GET / HTTP/1.1\r\nA: b"[..]), "{size}");
    }
    assert!(read_head(&mut Pieces(b"GET / HTTP/1.1\r\n", 7)).is_err(), "it ended early");
    let long = vec![b'a'; MOST_BYTES * 2];
    assert_eq!(read_head(&mut Pieces(&long, 1000)).expect("read"), None);
}

#[test]
fn other_machines_are_not_listened_to() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let refused = Listener::bind(address.parse().expect("an address")).err();
        assert_eq!(refused.map(|failure| failure.exit()), Some(Exit::Refused), "{address}");
    }
}

#[test]
fn one_connection_after_the_other_is_answered() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind(address).unwrap_or_else(|failure| panic!("{failure}"));
    let address = listener.address().expect("a port");
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(request).expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        text
    };
    // The thread listens until the tests end.
    std::thread::spawn(move || {
        let asked = std::cell::Cell::new(0);
        listener.serve(|| {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 => Ok(b"a 1\n".to_vec()),
                _ => Err(Failure::new(Exit::Failed, "the mount is gone")),
            }
        })
    });
    drop(TcpStream::connect(address).expect("connected"));
    let text = ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("\r\nContent-Length: 4\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\na 1\n"), "{text}");
    let text = ask(b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(text.ends_with("the mount is gone\n"), "{text}");
    assert!(ask(b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
}
