//! The handshake with an NBD server: the fixed newstyle, with GO, or EXPORT_NAME for old servers.
//!
//! ```text
//! server: "NBDMAGIC" "IHAVEOPT" u16 flags            client: u32 flags
//! option: "IHAVEOPT" u32 option  u32 length  contents
//! reply:  u64 0x3e889045565a9  u32 option  u32 kind  u32 length  contents
//! ```
//!
//! Numbers are big-endian.

use std::io::{self, Read, Write};

use xfs_device::printable;

use super::connection::Stream;
use super::error::NbdError;
use crate::bytes::big;

const MAGIC: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FIXED_NEWSTYLE: u64 = 1;
const NO_ZEROES: u64 = 2;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_GO: u32 = 7;
const INFO_BLOCK_SIZE: u16 = 3;

const REPLY_ACK: u64 = 1;
const REPLY_INFO: u64 = 3;
const ERROR: u64 = 1 << 31;
const ERROR_UNSUPPORTED: u64 = ERROR + 1;
const ERROR_TLS: u64 = ERROR + 5;
const ERROR_UNKNOWN: u64 = ERROR + 6;

/// The most bytes that the client reads of one reply of the server to an option.
const MAX_REPLY_BYTES: u64 = 64 << 10;
/// The most replies to one option that the client reads.
const MAX_REPLIES: usize = 64;
/// Number of zero bytes after the reply to EXPORT_NAME, if the server does not omit them.
const EXPORT_PADDING: usize = 124;
/// The largest payload of a request in bytes. A server can only lower this limit.
const DEFAULT_PAYLOAD: u64 = 32 << 20;

/// The sizes and the flags of an export, from the server's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) size_bytes: u64,
    /// The transmission flags, which say what the server offers.
    pub(super) flags: u64,
    /// The unit of offsets and lengths in bytes: a power of two.
    pub(super) block_bytes: u64,
    /// The largest payload of a request in bytes, a multiple of `block_bytes`.
    pub(super) max_payload: u64,
}

/// The reply to an option.
struct Reply {
    kind: u64,
    contents: Vec<u8>,
}

/// Negotiates the use of the export called `name`.
///
/// # Errors
///
/// See [`NbdError`].
pub(super) fn negotiate(stream: &Stream, name: &[u8]) -> Result<Export, NbdError> {
    let mut hello = [0; 18];
    read(stream, &mut hello)?;
    let Some((magic, flags)) = hello.split_first_chunk::<16>() else {
        return Err(NbdError::Protocol("its greeting is too short"));
    };
    if magic != MAGIC {
        return Err(NbdError::Protocol("its greeting is another one, or that of an old version"));
    }
    let flags = big(flags, 0, 2);
    if flags & FIXED_NEWSTYLE == 0 {
        return Err(NbdError::Protocol("it lacks the fixed newstyle"));
    }
    let ours = (flags & (FIXED_NEWSTYLE | NO_ZEROES)) as u32;
    write(stream, &ours.to_be_bytes())?;
    match go(stream, name)? {
        Some(export) => check(export),
        None => check(export_name(stream, name, flags)?),
    }
}

/// Requests the export with the option GO. Returns `None` if the server does not know that option.
fn go(stream: &Stream, name: &[u8]) -> Result<Option<Export>, NbdError> {
    let length = u32::try_from(name.len()).expect("the name of an export is short");
    let mut request = length.to_be_bytes().to_vec();
    request.extend_from_slice(name);
    request.extend_from_slice(&1_u16.to_be_bytes());
    request.extend_from_slice(&INFO_BLOCK_SIZE.to_be_bytes());
    send_option(stream, OPTION_GO, &request)?;
    let mut export =
        Export { size_bytes: 0, flags: 0, block_bytes: 1, max_payload: DEFAULT_PAYLOAD };
    let mut has_size = false;
    for _ in 0..MAX_REPLIES {
        let reply = receive_reply(stream, OPTION_GO)?;
        match reply.kind {
            REPLY_ACK if has_size => return Ok(Some(export)),
            REPLY_ACK => return Err(NbdError::Protocol("it states no size of the export")),
            REPLY_INFO => match big(&reply.contents, 0, 2) {
                0 if reply.contents.len() >= 12 => {
                    export.size_bytes = big(&reply.contents, 2, 8);
                    export.flags = big(&reply.contents, 10, 2);
                    has_size = true;
                }
                3 if reply.contents.len() >= 14 => {
                    export.block_bytes = big(&reply.contents, 2, 4);
                    export.max_payload = big(&reply.contents, 10, 4).min(DEFAULT_PAYLOAD);
                }
                _ => {}
            },
            ERROR_UNSUPPORTED => return Ok(None),
            ERROR_TLS => return Err(NbdError::Tls),
            ERROR_UNKNOWN => {
                let name = printable(&String::from_utf8_lossy(name));
                return Err(NbdError::UnknownExport(name));
            }
            kind if kind & ERROR != 0 => {
                let text = printable(&String::from_utf8_lossy(&reply.contents));
                let text: String = text.chars().take(256).collect();
                return Err(NbdError::Refused { code: (kind & !ERROR) as u32, text });
            }
            _ => {}
        }
    }
    Err(NbdError::Protocol("it sends too many replies"))
}

/// Requests the export with the option EXPORT_NAME. A server that refuses closes the connection.
fn export_name(stream: &Stream, name: &[u8], flags: u64) -> Result<Export, NbdError> {
    send_option(stream, OPTION_EXPORT_NAME, name)?;
    let mut reply = [0; 10];
    read(stream, &mut reply)?;
    if flags & NO_ZEROES == 0 {
        read(stream, &mut [0; EXPORT_PADDING])?;
    }
    Ok(Export {
        size_bytes: big(&reply, 0, 8),
        flags: big(&reply, 8, 2),
        block_bytes: 1,
        max_payload: DEFAULT_PAYLOAD,
    })
}

/// Checks that the sizes that the server sent for an export are possible. Returns the export with
/// its size and its largest payload rounded down to whole blocks.
fn check(export: Export) -> Result<Export, NbdError> {
    let is_unit = export.block_bytes.is_power_of_two() && export.block_bytes <= 64 << 10;
    if !is_unit || export.max_payload < export.block_bytes.max(512) {
        return Err(NbdError::Protocol("its block sizes are impossible"));
    }
    let max_payload = export.max_payload / export.block_bytes * export.block_bytes;
    let size_bytes = export.size_bytes / export.block_bytes * export.block_bytes;
    if size_bytes > i64::MAX as u64 {
        return Err(NbdError::Protocol("the size of the export is impossible"));
    }
    Ok(Export { size_bytes, max_payload, ..export })
}

fn send_option(stream: &Stream, option: u32, contents: &[u8]) -> Result<(), NbdError> {
    let length = u32::try_from(contents.len()).expect("an option is short");
    let mut bytes = OPTION_MAGIC.to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(contents);
    write(stream, &bytes)
}

fn receive_reply(stream: &Stream, option: u32) -> Result<Reply, NbdError> {
    let mut head = [0; 20];
    read(stream, &mut head)?;
    let length = big(&head, 16, 4);
    if big(&head, 0, 8) != REPLY_MAGIC || big(&head, 8, 4) != u64::from(option) {
        return Err(NbdError::Protocol("it replies to another option"));
    }
    // I3 of `xfs_image::nbd`
    if length > MAX_REPLY_BYTES {
        return Err(NbdError::Protocol("its reply is too long"));
    }
    let mut contents = vec![0; length as usize];
    read(stream, &mut contents)?;
    Ok(Reply { kind: big(&head, 12, 4), contents })
}

fn read(mut stream: &Stream, bytes: &mut [u8]) -> Result<(), NbdError> {
    stream.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => NbdError::Protocol("it closes the connection"),
        _ => NbdError::Io(error),
    })
}

fn write(mut stream: &Stream, bytes: &[u8]) -> Result<(), NbdError> {
    stream.write_all(bytes).map_err(NbdError::Io)
}
