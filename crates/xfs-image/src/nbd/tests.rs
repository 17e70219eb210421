//! Tests of the client: against qemu-nbd, and against a server in the test that can be slow, wrong
//! or killed.

mod server;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, FileOptions};

use super::{Address, NbdDevice, NbdError};
use server::{Behaviour, TestServer};

const LENGTH: u64 = 4 << 20;

/// A running qemu-nbd. The process is killed when this value is dropped.
struct QemuNbd {
    child: Child,
    directory: tempfile::TempDir,
}

impl QemuNbd {
    /// Serves a file of zeros as the export "disk". If qemu-nbd is not installed, prints a message
    /// and returns `None`.
    fn start(options: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("raw"), vec![0; LENGTH as usize]).unwrap();
        let socket = directory.path().join("socket");
        let child = Command::new("qemu-nbd")
            .current_dir(directory.path())
            .args(["-f", "raw", "-x", "disk", "--persistent", "--shared=8", "-k"])
            .arg(&socket)
            .args(options)
            .arg("raw")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                eprintln!("skipped: qemu-nbd cannot be run ({error})");
                return None;
            }
        };
        let server = Self { child, directory };
        xfs_testkit::wait_until_listening(&socket);
        Some(server)
    }

    fn open(&self, export: &str, options: FileOptions) -> Result<NbdDevice, NbdError> {
        let socket = self.directory.path().join("socket");
        let address = format!("nbd+unix:///{export}?socket={}", socket.display());
        NbdDevice::open(&Address::parse(Path::new(&address))?, options)
    }

    fn contents(&self) -> Vec<u8> {
        std::fs::read(self.directory.path().join("raw")).unwrap()
    }
}

impl Drop for QemuNbd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn export_of_qemu_nbd_is_read_and_written_like_its_file() {
    let Some(server) = QemuNbd::start(&["--discard=unmap"]) else { return };
    let device = server.open("disk", FileOptions::read_write()).unwrap();
    assert_eq!((device.length_bytes(), device.is_read_only()), (LENGTH, false));
    let mut expected = vec![0; LENGTH as usize];
    let pieces = [(0, 512), (513, 1000), (1 << 20, (2 << 20) + 77), (LENGTH - 3, 3)];
    for (index, (offset, length)) in pieces.into_iter().enumerate() {
        let bytes = vec![index as u8 + 1; length as usize];
        let durability = [Durability::Cached, Durability::Durable][index % 2];
        device.write_at(&bytes, offset, durability).unwrap();
        expected[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    device.write_zeros(1_100_000, 300_000).unwrap();
    expected[1_100_000..1_400_000].fill(0);
    device.discard(2 << 20, 4096).unwrap();
    device.flush().unwrap();
    let mut read = vec![0; LENGTH as usize];
    device.read_at(&mut read, 0).unwrap();
    // A discarded range has undefined bytes.
    expected[2 << 20..(2 << 20) + 4096].copy_from_slice(&read[2 << 20..(2 << 20) + 4096]);
    assert!(read == expected);
    assert!(server.contents() == expected);
    assert!(device.read_at(&mut [0; 2], LENGTH - 1).is_err());
    assert!(device.write_at(&[0; 2], LENGTH - 1, Durability::Cached).is_err());
}

#[test]
fn many_threads_have_requests_in_flight() {
    let Some(server) = QemuNbd::start(&[]) else { return };
    let device = server.open("disk", FileOptions::read_write()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let device = &device;
            scope.spawn(move || {
                let start = thread * (LENGTH / 8);
                for round in 0..40_u64 {
                    let offset = start + (round * 7919) % (LENGTH / 8 - 8192);
                    let bytes = vec![(thread * 40 + round) as u8; 1 + (round * 97) as usize];
                    device.write_at(&bytes, offset, Durability::Cached).unwrap();
                    let mut read = vec![0; bytes.len()];
                    device.read_at(&mut read, offset).unwrap();
                    assert!(read == bytes);
                }
            });
        }
    });
}

#[test]
fn exports_that_cannot_be_used_are_refused_by_name() {
    let Some(server) = QemuNbd::start(&["--read-only"]) else { return };
    let unknown = server.open("other", FileOptions::read_only()).err().unwrap();
    assert!(matches!(unknown, NbdError::UnknownExport(ref name) if name == "other"), "{unknown}");
    let refused = server.open("disk", FileOptions::read_write()).err().unwrap();
    assert!(matches!(refused, NbdError::ReadOnly), "{refused}");
    let device = server.open("disk", FileOptions::read_only()).unwrap();
    assert!(device.is_read_only());
    assert!(device.write_at(&[0; 512], 0, Durability::Cached).is_err());
    let nowhere = Address::parse(Path::new("nbd+unix:///x?socket=/nowhere/socket")).unwrap();
    let nowhere = NbdDevice::open(&nowhere, FileOptions::read_only()).err().unwrap();
    assert!(matches!(nowhere, NbdError::Connect(_)), "{nowhere}");
}

/// Kills the server after a flush and while writes are in flight. Checks that every later request
/// fails, and that the flushed bytes are in the file.
#[test]
fn killed_server_gives_errors_and_keeps_flushed_bytes() {
    let Some(mut server) = QemuNbd::start(&[]) else { return };
    let device = Arc::new(server.open("disk", FileOptions::read_write()).unwrap());
    device.write_at(&[7; 64 << 10], 0, Durability::Cached).unwrap();
    device.flush().unwrap();
    let writers: Vec<_> = (1..4_u64)
        .map(|thread| {
            let device = Arc::clone(&device);
            std::thread::spawn(move || {
                let offset = thread << 20;
                loop {
                    if let Err(error) = device.write_at(&[9; 65536], offset, Durability::Cached) {
                        return error;
                    }
                }
            })
        })
        .collect();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    for writer in writers {
        let error = writer.join().unwrap();
        assert!(error.to_string().contains("NBD server"), "{error}");
    }
    for result in [device.flush(), device.read_at(&mut [0; 512], 0)] {
        assert!(result.unwrap_err().to_string().contains("NBD server"));
    }
    assert!(server.contents()[..64 << 10].iter().all(|byte| *byte == 7));
}

/// Kills a server that keeps unflushed writes in memory. Checks that each byte that the client has
/// reported as durable is still on the disk: the client must have sent FLUSH or FUA for it.
#[test]
fn flush_and_durable_writes_survive_a_server_that_loses_its_cache() {
    for has_fua in [true, false] {
        let server = TestServer::start(Behaviour { has_fua, ..Behaviour::default() });
        let device = server.open(FileOptions::read_write()).unwrap();
        device.write_at(&[1; 1024], 0, Durability::Cached).unwrap();
        device.flush().unwrap();
        device.write_at(&[2; 1024], 4096, Durability::Durable).unwrap();
        device.write_at(&[3; 1024], 8192, Durability::Cached).unwrap();
        let mut read = [0; 1024];
        device.read_at(&mut read, 8192).unwrap();
        assert_eq!(read, [3; 1024]);
        let stable = server.stable();
        assert_eq!(stable[..1024], [1; 1024], "FUA: {has_fua}");
        assert_eq!(stable[4096..5120], [2; 1024], "FUA: {has_fua}");
        assert_eq!(stable[8192..9216], [0; 1024], "FUA: {has_fua}");
    }
}

#[test]
fn blocks_of_the_server_are_respected() {
    let server = TestServer::start(Behaviour { block_bytes: 4096, ..Behaviour::default() });
    let device = server.open(FileOptions::read_write()).unwrap();
    assert_eq!(device.sector_size(), 4096);
    device.write_at(&[5; 8192], 4096, Durability::Cached).unwrap();
    device.write_at(&[6; 512], 4096 + 512, Durability::Cached).unwrap();
    device.write_zeros(8000, 600).unwrap();
    let mut read = vec![0; 8192];
    device.read_at(&mut read, 4096).unwrap();
    let mut expected = vec![5; 8192];
    expected[512..1024].fill(6);
    expected[8000 - 4096..8600 - 4096].fill(0);
    assert!(read == expected);
    // The server refuses requests in other units, so all of them were whole blocks.
    device.flush().unwrap();
    assert!(server.stable()[4096..12288] == expected);
}

#[test]
fn old_server_without_go_is_used() {
    let server = TestServer::start(Behaviour { knows_go: false, ..Behaviour::default() });
    let device = server.open(FileOptions::read_write()).unwrap();
    device.write_at(&[4; 512], 0, Durability::Cached).unwrap();
    let mut read = [0; 512];
    device.read_at(&mut read, 0).unwrap();
    assert_eq!(read, [4; 512]);
}

#[test]
fn server_without_flush_is_read_only() {
    let server = TestServer::start(Behaviour { has_flush: false, ..Behaviour::default() });
    let refused = server.open(FileOptions::read_write()).err().unwrap();
    assert!(matches!(refused, NbdError::NoFlush), "{refused}");
    server.open(FileOptions::read_only()).unwrap();
}

/// Connects to servers that do not follow the protocol. Checks that the client gets an error from
/// each, without a long wait, and without allocating as much memory as a server claims.
#[test]
fn wrong_servers_give_errors() {
    let hello = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    let reply = |kind: u32, length: u32, contents: &[u8]| {
        let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
        bytes.extend_from_slice(&7_u32.to_be_bytes());
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(contents);
        bytes
    };
    let export = reply(3, 12, &[0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0xff]);
    let ack = reply(1, 0, &[]);
    let info = |size: u8, block: u8| {
        let contents = [0, 3, 0, 0, 0, block, 0, 0, size, 0, 0, size, 0, 0];
        [hello.clone(), export.clone(), reply(3, 14, &contents), ack.clone()].concat()
    };
    for (bytes, named) in [
        (Vec::new(), "closes the connection"),
        (b"SSH-2.0-OpenSSH_9.2 and more".to_vec(), "greeting"),
        (b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\x03".to_vec(), "greeting"),
        (b"NBDMAGICIHAVEOPT\0\0".to_vec(), "fixed newstyle"),
        ([hello.clone(), reply(3, u32::MAX, &[])].concat(), "too long"),
        ([hello.clone(), ack.clone()].concat(), "states no size"),
        ([hello.clone(), reply(0x8000_0005, 0, &[])].concat(), "TLS"),
        ([hello.clone(), reply(0x8000_0002, 4, b"n\x1bot")].concat(), "n\\u{1b}ot"),
        ([hello.clone(), vec![0; 20]].concat(), "another option"),
        ([hello.clone(), ack.repeat(0), reply(3, 2, &[0, 9]).repeat(70)].concat(), "too many"),
        (info(0, 1), "impossible"),
        (info(1, 3), "impossible"),
    ] {
        let address = server::serve_bytes(bytes);
        let error = NbdDevice::open(&address, FileOptions::read_only()).err().unwrap();
        assert!(error.to_string().contains(named), "{named}: {error}");
    }
    // After the handshake.
    let hello = [hello.clone(), export, ack].concat();
    let wrong = |magic: u32, cookie: u64| {
        let mut bytes = hello.clone();
        bytes.extend_from_slice(&magic.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes
    };
    for bytes in [hello.clone(), wrong(0, 1), wrong(0x6744_6698, 99), wrong(0x6744_6698, 1)] {
        let address = server::serve_bytes(bytes);
        let device = NbdDevice::open(&address, FileOptions::read_only()).unwrap();
        for _ in 0..2 {
            assert!(device.read_at(&mut [0; 512], 0).is_err());
        }
    }
}
