//! Compares the bytes and the extended attributes of a file in two images.

use std::io;

use ferroxfs::raw::format::inode::FileType;
use ferroxfs::{File, InodeNumber, Node};
use xfs_scan::{ContentsAnswer, DiffFinding, FindingCode, State};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::node;
use crate::image::ImageVolume;
use crate::interrupt;

/// Number of bytes that are read from each image at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Two volumes, and a buffer for the contents of each.
pub(super) struct ContentsPair<'a> {
    volumes: [&'a ferroxfs::Volume; 2],
    buffers: [Vec<u8>; 2],
}

/// An error, and the state in which it happened.
type StateError = (State, Failure);

impl<'a> ContentsPair<'a> {
    pub(super) fn new(a: &'a ImageVolume, b: &'a ImageVolume) -> Self {
        let buffers = [vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]];
        Self { volumes: [a.inner(), b.inner()], buffers }
    }

    /// Compares the contents and the attributes of the inode `ino` of both volumes.
    pub(super) fn compare(&mut self, ino: u64) -> Result<ContentsAnswer, (State, DiffFinding)> {
        self.answer(ino).map_err(|(state, failure)| {
            let code = match failure.exit() {
                Exit::Corrupt => FindingCode::Corrupt,
                _ => FindingCode::Io,
            };
            let message = format!("its contents were not compared: {}", failure.message());
            (state, DiffFinding { code, ino: Some(ino), inode_count: 0, message })
        })
    }

    fn answer(&mut self, ino: u64) -> Result<ContentsAnswer, StateError> {
        let [a, b] = self.volumes;
        let number = InodeNumber(ino);
        let of = |state| move |error: ferroxfs::Error| (state, Failure::from(error));
        let old = a.node_trusted(number).map_err(of(State::A))?;
        let new = b.node_trusted(number).map_err(of(State::B))?;
        let has_same_attributes = attributes(&old, State::A)? == attributes(&new, State::B)?;
        let has_same_bytes = match new.file_type() {
            FileType::Regular => {
                let old = old.open_read_only().map_err(of(State::A))?;
                let new = new.open_read_only().map_err(of(State::B))?;
                self.has_same_bytes(&old, &new)?
            }
            _ => true,
        };
        Ok(ContentsAnswer { has_same_bytes, has_same_attributes })
    }

    /// Compares the bytes of two files. Ranges that are holes in both are not read.
    fn has_same_bytes(&mut self, old: &File, new: &File) -> Result<bool, StateError> {
        let size = new.metadata().size;
        if old.metadata().size != size {
            return Ok(false);
        }
        let mut offset = 0;
        while let Some(start) = next_data(old, new, offset)? {
            interrupt::check().map_err(|stopped| (State::A, stopped))?;
            let [one, other] = &mut self.buffers;
            let length = (size - start).min(BUFFER_BYTES as u64) as usize;
            let (Some(one), Some(other)) = (one.get_mut(..length), other.get_mut(..length)) else {
                unreachable!("the length is at most that of the buffers");
            };
            read_exact(old, one, start).map_err(|failure| (State::A, failure))?;
            read_exact(new, other, start).map_err(|failure| (State::B, failure))?;
            if one != other {
                return Ok(false);
            }
            offset = start + length as u64;
        }
        Ok(true)
    }
}

/// Returns the first offset from `offset` on where one of the files has data; `None` if only holes
/// follow.
fn next_data(old: &File, new: &File, offset: u64) -> Result<Option<u64>, StateError> {
    if offset >= new.metadata().size {
        return Ok(None);
    }
    let of = |state| move |error: ferroxfs::Error| (state, Failure::from(error));
    let one = old.seek_data(offset).map_err(of(State::A))?;
    let other = new.seek_data(offset).map_err(of(State::B))?;
    Ok(one.into_iter().chain(other).min())
}

fn read_exact(file: &File, buffer: &mut [u8], offset: u64) -> Result<(), Failure> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let read = file.read_at(rest, offset + done as u64)?;
        if read == 0 {
            let end = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(Failure::new(Exit::Failed, end.to_string()));
        }
        done += read;
    }
    Ok(())
}

/// The name and the value of an extended attribute.
type NamedValue = (Vec<u8>, Vec<u8>);

/// Returns the names and values of the attributes of a node, sorted by name.
fn attributes(node: &Node, state: State) -> Result<Vec<NamedValue>, StateError> {
    let all = node::attributes(node).into_iter();
    let all = all.map(|it| it.map(|attribute| (attribute.name, attribute.value)));
    let mut all: Vec<_> = all.collect::<Result<_, _>>().map_err(|failure| (state, failure))?;
    all.sort();
    Ok(all)
}
