//! Tests of connections: their end, their bound, and calls of several clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use ferroxfs::{OpenOptions, Volume};

use super::{MOST_CONNECTIONS, NfsOptions, NfsServer, Stopper};
use crate::record;
use crate::xdr::{Decoder, Encoder};

/// A server in a thread.
struct Served {
    address: SocketAddr,
    stopper: Stopper,
    thread: thread::JoinHandle<std::io::Result<Volume>>,
}

impl Served {
    fn start() -> Self {
        let volume =
            OpenOptions::new().write(true).open_device(xfs_trans::testing::make()).unwrap();
        volume.write("/file", b"contents").unwrap();
        let options =
            NfsOptions { address: "127.0.0.1:0".parse().unwrap(), ..NfsOptions::default() };
        let server = NfsServer::bind(volume, options).unwrap();
        let (address, stopper) = (server.address().unwrap(), server.stopper());
        Self { address, stopper, thread: thread::spawn(move || server.run()) }
    }

    fn stop(self) -> Volume {
        self.stopper.stop();
        self.thread.join().unwrap().unwrap()
    }
}

/// Makes a call without arguments, and returns the words of the reply.
fn call(stream: &mut TcpStream, program: u32, version: u32, procedure: u32) -> Vec<u32> {
    let mut bytes = Encoder::default();
    bytes.u32(9).u32(0).u32(2).u32(program).u32(version).u32(procedure);
    bytes.u32(0).bytes(&[]).u32(0).bytes(&[]);
    record::write(stream, bytes.as_slice()).unwrap();
    let mut reply = Vec::new();
    assert!(record::read(stream, &mut reply).unwrap());
    let mut words = Decoder::new(&reply);
    std::iter::from_fn(|| words.u32().ok()).collect()
}

#[test]
fn both_programs_answer_on_one_port() {
    let served = Served::start();
    let mut stream = TcpStream::connect(served.address).unwrap();
    assert_eq!(call(&mut stream, 100_003, 3, 0), [9, 1, 0, 0, 0, 0]);
    assert_eq!(call(&mut stream, 100_005, 3, 0), [9, 1, 0, 0, 0, 0]);
    assert_eq!(call(&mut stream, 100_003, 4, 0), [9, 1, 0, 0, 0, 2, 3, 3]);
    assert_eq!(call(&mut stream, 100_000, 2, 0), [9, 1, 0, 0, 0, 1]);
    assert_eq!(call(&mut stream, 100_003, 3, 22), [9, 1, 0, 0, 0, 3]);
    assert_eq!(call(&mut stream, 100_003, 3, 1), [9, 1, 0, 0, 0, 4], "no handle");
    served.stop().close().unwrap();
}

#[test]
fn stop_ends_idle_connections_and_returns_the_volume() {
    let served = Served::start();
    let mut idle: Vec<_> = (0..5).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    for stream in &mut idle {
        call(stream, 100_003, 3, 0);
    }
    let volume = served.stop();
    assert_eq!(volume.read("/file").unwrap(), b"contents");
    volume.close().unwrap();
    for stream in &mut idle {
        assert_eq!(stream.read(&mut [0; 4]).unwrap_or(0), 0);
    }
}

#[test]
fn connections_are_bounded_and_make_room_when_they_end() {
    let served = Served::start();
    let mut streams: Vec<_> = (0..MOST_CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(served.address).unwrap();
            call(&mut stream, 100_003, 3, 0);
            stream
        })
        .collect();
    let mut more = TcpStream::connect(served.address).unwrap();
    assert_eq!(more.read(&mut [0; 1]).unwrap_or(0), 0, "closed at once");
    streams.clear();
    // The threads of closed connections end soon, but not at once.
    let answered = (0..200).any(|_| {
        thread::sleep(std::time::Duration::from_millis(10));
        let mut stream = TcpStream::connect(served.address).unwrap();
        let mut bytes = Encoder::default();
        bytes.u32(9).u32(0).u32(2).u32(100_003).u32(3).u32(0);
        bytes.u32(0).bytes(&[]).u32(0).bytes(&[]);
        record::write(&mut stream, bytes.as_slice()).is_ok()
            && record::read(&mut stream, &mut Vec::new()).unwrap_or(false)
    });
    assert!(answered);
    served.stop().close().unwrap();
}

#[test]
fn stream_that_is_not_rpc_is_closed() {
    let served = Served::start();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x80, 0, 0, 4, 0, 0, 0, 1], &[0xff; 8]] {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(bytes).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0, "{bytes:?}");
    }
    let mut stream = TcpStream::connect(served.address).unwrap();
    assert_eq!(call(&mut stream, 100_003, 3, 0), [9, 1, 0, 0, 0, 0]);
    served.stop().close().unwrap();
}
