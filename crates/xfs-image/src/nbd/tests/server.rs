//! An NBD server in the test, which loses unflushed writes when it ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use xfs_device::FileOptions;

use super::LENGTH;
use crate::bytes::big;
use crate::nbd::address::Server;
use crate::nbd::{Address, NbdDevice, NbdError};

/// The features of a test server: the flags FUA and FLUSH, the option GO, and the size of a block
/// in bytes.
#[derive(Clone, Copy)]
pub(super) struct Behaviour {
    pub(super) has_fua: bool,
    pub(super) has_flush: bool,
    pub(super) knows_go: bool,
    pub(super) block_bytes: u32,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { has_fua: true, has_flush: true, knows_go: true, block_bytes: 1 }
    }
}

/// The bytes of the served disk: as a reader sees them, and as they would be after a crash of the
/// server.
struct Disk {
    cached: Vec<u8>,
    stable: Vec<u8>,
}

pub(super) struct TestServer {
    address: Address,
    disk: Arc<Mutex<Disk>>,
}

/// Starts a server that sends only `bytes` to its first client, whatever the client requests.
/// Returns its address.
pub(super) fn serve_bytes(bytes: Vec<u8>) -> Address {
    let (listener, address) = listen();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        // The client must be able to send.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    address
}

fn listen() -> (TcpListener, Address) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server::Tcp { host: "127.0.0.1".to_owned(), port };
    (listener, Address { server, export: b"disk".to_vec() })
}

impl TestServer {
    pub(super) fn start(behaviour: Behaviour) -> Self {
        let (listener, address) = listen();
        let bytes = vec![0; LENGTH as usize];
        let disk = Arc::new(Mutex::new(Disk { cached: bytes.clone(), stable: bytes }));
        let served = Arc::clone(&disk);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut session = Session { stream: stream.unwrap(), behaviour, disk: &served };
                // The client ends the connection.
                let _ = session.serve();
            }
        });
        Self { address, disk }
    }

    pub(super) fn open(&self, options: FileOptions) -> Result<NbdDevice, NbdError> {
        NbdDevice::open(&self.address, options)
    }

    /// Returns the bytes of the disk that are left after the server was killed.
    pub(super) fn stable(&self) -> Vec<u8> {
        self.disk.lock().unwrap().stable.clone()
    }
}

struct Session<'a> {
    stream: TcpStream,
    behaviour: Behaviour,
    disk: &'a Mutex<Disk>,
}

impl Session<'_> {
    fn serve(&mut self) -> std::io::Result<()> {
        self.stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
        self.take(4)?;
        while !self.option()? {}
        while self.request()? {}
        Ok(())
    }

    fn take(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn flags(&self) -> u16 {
        let flush = if self.behaviour.has_flush { 4 } else { 0 };
        let fua = if self.behaviour.has_fua { 8 } else { 0 };
        1 | flush | fua | 32 | 64
    }

    /// Answers an option of the client. Returns whether the handshake is over.
    fn option(&mut self) -> std::io::Result<bool> {
        let head = self.take(16)?;
        let (option, length) = (big(&head, 8, 4), big(&head, 12, 4));
        self.take(length as usize)?;
        if option == 1 {
            self.stream.write_all(&LENGTH.to_be_bytes())?;
            self.stream.write_all(&self.flags().to_be_bytes())?;
            return Ok(true);
        }
        if !self.behaviour.knows_go {
            self.reply(option, 0x8000_0001, &[])?;
            return Ok(false);
        }
        let export = [&[0, 0][..], &LENGTH.to_be_bytes(), &self.flags().to_be_bytes()].concat();
        self.reply(option, 3, &export)?;
        let block = self.behaviour.block_bytes.to_be_bytes();
        let sizes = [&[0, 3][..], &block, &4096_u32.to_be_bytes(), &65536_u32.to_be_bytes()];
        self.reply(option, 3, &sizes.concat())?;
        self.reply(option, 1, &[])?;
        Ok(true)
    }

    fn reply(&mut self, option: u64, kind: u32, contents: &[u8]) -> std::io::Result<()> {
        let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
        bytes.extend_from_slice(&(option as u32).to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&(contents.len() as u32).to_be_bytes());
        bytes.extend_from_slice(contents);
        self.stream.write_all(&bytes)
    }

    /// Serves a request. Returns `false` at the end of the connection.
    fn request(&mut self) -> std::io::Result<bool> {
        let head = self.take(28)?;
        let (flags, kind) = (big(&head, 4, 2), big(&head, 6, 2));
        let (offset, length) = (big(&head, 16, 8) as usize, big(&head, 24, 4) as usize);
        let block = self.behaviour.block_bytes as usize;
        let is_aligned = offset.is_multiple_of(block) && length.is_multiple_of(block);
        let mut error = if is_aligned && length <= LENGTH as usize { 0_u32 } else { 22 };
        let payload = if kind == 1 { self.take(length)? } else { Vec::new() };
        let mut disk = self.disk.lock().unwrap();
        let mut answer = Vec::new();
        let range = offset..offset + length;
        match kind {
            0 if error == 0 => answer = disk.cached[range].to_vec(),
            1 | 6 if error == 0 => {
                let bytes = if kind == 1 { payload } else { vec![0; length] };
                disk.cached[range.clone()].copy_from_slice(&bytes);
                if flags & 1 != 0 {
                    assert!(self.behaviour.has_fua, "FUA was not offered");
                    disk.stable[range].copy_from_slice(&bytes);
                }
            }
            2 => return Ok(false),
            3 => disk.stable = disk.cached.clone(),
            4 => {}
            _ => error = 22,
        }
        drop(disk);
        let mut bytes = 0x6744_6698_u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&error.to_be_bytes());
        bytes.extend_from_slice(&head[8..16]);
        bytes.extend_from_slice(&answer);
        self.stream.write_all(&bytes)?;
        Ok(true)
    }
}
