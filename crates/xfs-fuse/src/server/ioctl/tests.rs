use rustix::io::Errno;
use xfs_trans::testing::make_with;
use zerocopy::{FromBytes, IntoBytes};

use super::{FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR, FileFlags};
use crate::server::Server;
use crate::server::tests::{ask, put, server};
use crate::transport::wire::{EntryOut, IoctlIn, IoctlOut, Opcode, ROOT_NODE};

const EXTSIZE: u32 = 0x800;
const COWEXTSIZE: u32 = 0x1_0000;

fn call(server: &Server, node: u64, command: u32, argument: &[u8]) -> Result<Vec<u8>, Errno> {
    let call = IoctlIn {
        command,
        in_size: argument.len() as u32,
        out_size: size_of::<FileFlags>() as u32,
        ..IoctlIn::default()
    };
    let body = [call.as_bytes(), argument].concat();
    ask(server, Opcode::Ioctl, node, &body).map(|answer| answer[size_of::<IoctlOut>()..].to_vec())
}

/// Checks two rules of the kernel's XFS: an extent size hint without its flag is refused, and a
/// flag without its hint is dropped.
#[test]
fn hint_without_its_flag_is_refused_or_dropped() {
    let server = server(make_with("-l size=16m -m reflink=0"));
    put(&server, "file", "");
    let entry = ask(&server, Opcode::Lookup, ROOT_NODE, b"file\0").unwrap();
    let node = EntryOut::read_from_bytes(&entry).unwrap().node;
    for (xflags, extent_size_bytes, copy_extent_size_bytes, is_set) in [
        (EXTSIZE, 8192, 0, Ok(8192)),
        (0, 8192, 0, Err(Errno::INVAL)),
        (EXTSIZE, 0, 0, Ok(0)),
        (COWEXTSIZE, 0, 0, Ok(0)),
        (0, 0, 8192, Err(Errno::INVAL)),
        (COWEXTSIZE, 0, 8192, Err(Errno::INVAL)),
        (EXTSIZE, 4096, 0, Ok(4096)),
        (0, 0, 0, Ok(0)),
    ] {
        let wanted = FileFlags {
            xflags,
            extent_size_bytes,
            extents: 0,
            project_id: 0,
            copy_extent_size_bytes,
            padding: [0; 8],
        };
        let set = call(&server, node, FS_IOC_FSSETXATTR, wanted.as_bytes());
        let found = set.and_then(|_| call(&server, node, FS_IOC_FSGETXATTR, &[]));
        let found = found.map(|bytes| FileFlags::read_from_bytes(&bytes).unwrap());
        assert_eq!(found.map(|found| found.extent_size_bytes), is_set, "{wanted:?}");
        if let Ok(hint) = is_set {
            assert_eq!(found.unwrap().xflags & EXTSIZE != 0, hint != 0, "{wanted:?}");
        }
    }
}
