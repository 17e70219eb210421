//! Files whose names, lengths and data are kept in memory.
//!
//! A write past the end of a file leaves bytes of other files between the two.
//!
//! The memory of data has been written before, because the first write of a page takes longer than
//! the copy. Images of real servers are prepared in the same way.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use rustix::io::Errno;
use xfs_sync::{Mutex, Object, RwLock, Volume};

use super::{FileFacts, FilePlace, FileStore, FileVisitor};

/// Length of a piece of memory for data.
const PIECE_BYTES: usize = 1 << 20;

type Piece = Box<[u8]>;

/// Pieces of memory that no file has.
type Pool = Arc<Mutex<Vec<Piece>, Volume>>;

/// Directories of files that are kept.
pub(super) struct Kept {
    directories: Box<[RwLock<Directory, Object>]>,
    pool: Pool,
}

#[derive(Default)]
struct Directory {
    numbers: HashMap<OsString, u64>,
    files: BTreeMap<u64, KeptFile>,
    next_number: u64,
}

struct KeptFile {
    name: OsString,
    bytes: u64,
    pieces: Vec<Piece>,
}

impl Kept {
    pub(super) fn new(directories: usize, file_bytes: u64) -> Self {
        let pieces = directories * (file_bytes.div_ceil(PIECE_BYTES as u64) as usize);
        let pool = (0..pieces).map(|_| vec![1; PIECE_BYTES].into_boxed_slice()).collect();
        Self::with_pool(directories, Arc::new(Mutex::new(pool)))
    }

    fn with_pool(directories: usize, pool: Pool) -> Self {
        Self { directories: (0..directories).map(|_| RwLock::default()).collect(), pool }
    }

    fn directory(&self, index: usize) -> Result<&RwLock<Directory, Object>, Errno> {
        self.directories.get(index).ok_or(Errno::NOENT)
    }
}

impl FileStore for Kept {
    fn emptied(&self) -> Arc<dyn FileStore> {
        for directory in &self.directories {
            let files = std::mem::take(&mut *directory.write()).files;
            self.pool.lock().extend(files.into_values().flat_map(|file| file.pieces));
        }
        Arc::new(Self::with_pool(self.directories.len(), Arc::clone(&self.pool)))
    }

    fn directories(&self) -> usize {
        self.directories.len()
    }

    fn find(&self, directory: usize, name: &OsStr) -> Option<FileFacts> {
        let directory = self.directory(directory).ok()?.read();
        let number = *directory.numbers.get(name)?;
        Some(FileFacts { number, bytes: directory.files.get(&number)?.bytes })
    }

    fn make(&self, directory: usize, name: &OsStr) -> Result<FileFacts, Errno> {
        let mut directory = self.directory(directory)?.write();
        let number = directory.next_number;
        if directory.numbers.contains_key(name) {
            return Err(Errno::EXIST);
        }
        directory.next_number += 1;
        directory.numbers.insert(name.to_owned(), number);
        let file = KeptFile { name: name.to_owned(), bytes: 0, pieces: Vec::new() };
        directory.files.insert(number, file);
        Ok(FileFacts { number, bytes: 0 })
    }

    fn remove(&self, directory: usize, name: &OsStr) -> Result<(), Errno> {
        let mut directory = self.directory(directory)?.write();
        let number = directory.numbers.remove(name).ok_or(Errno::NOENT)?;
        let file = directory.files.remove(&number).expect("a name is that of a file");
        drop(directory);
        if !file.pieces.is_empty() {
            self.pool.lock().extend(file.pieces);
        }
        Ok(())
    }

    fn list(&self, directory: usize, from: u64, each: &mut FileVisitor<'_>) {
        let Ok(directory) = self.directory(directory) else { return };
        let directory = directory.read();
        _ = directory.files.range(from..).try_for_each(|(number, file)| {
            each(FileFacts { number: *number, bytes: file.bytes }, &file.name)
        });
    }

    fn file_bytes(&self, file: FilePlace) -> u64 {
        let Ok(directory) = self.directory(file.directory) else { return 0 };
        directory.read().files.get(&file.number).map_or(0, |file| file.bytes)
    }

    fn read(&self, file: FilePlace, offset: u64, room: &mut [u8]) -> usize {
        let Ok(directory) = self.directory(file.directory) else { return 0 };
        let directory = directory.read();
        let Some(file) = directory.files.get(&file.number) else { return 0 };
        let length = room.len().min(file.bytes.saturating_sub(offset) as usize);
        let mut done = 0;
        while done < length {
            let at = offset as usize + done;
            let piece = file.pieces.get(at / PIECE_BYTES).expect("a byte of a file has memory");
            let source = piece.get(at % PIECE_BYTES..).expect("an offset in a piece");
            let count = source.len().min(length - done);
            let target = room.get_mut(done..done + count).expect("the length fits the room");
            target.copy_from_slice(source.get(..count).expect("no more than the source"));
            done += count;
        }
        length
    }

    fn write(&self, file: FilePlace, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut directory = self.directory(file.directory)?.write();
        let file = directory.files.get_mut(&file.number).ok_or(Errno::NOENT)?;
        let end = offset + bytes.len() as u64;
        while (file.pieces.len() * PIECE_BYTES) < end as usize {
            file.pieces.push(self.pool.lock().pop().ok_or(Errno::NOSPC)?);
        }
        let mut rest = bytes;
        let mut at = offset as usize;
        while !rest.is_empty() {
            let piece = file.pieces.get_mut(at / PIECE_BYTES).expect("a piece was added");
            let target = piece.get_mut(at % PIECE_BYTES..).expect("an offset in a piece");
            let (now, later) = rest.split_at(target.len().min(rest.len()));
            target.get_mut(..now.len()).expect("no more than the piece").copy_from_slice(now);
            (at, rest) = (at + now.len(), later);
        }
        file.bytes = file.bytes.max(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use rustix::io::Errno;

    use super::{FilePlace, FileStore, Kept, PIECE_BYTES};

    fn names(store: &dyn FileStore, from: u64) -> Vec<(u64, String)> {
        let mut names = Vec::new();
        store.list(0, from, &mut |file, name| {
            names.push((file.number, name.to_string_lossy().into_owned()));
            ControlFlow::Continue(())
        });
        names
    }

    #[test]
    fn written_data_is_read_back_across_pieces() {
        let store = Kept::new(1, 3 * PIECE_BYTES as u64);
        let file = FilePlace { directory: 0, number: store.make(0, "f".as_ref()).unwrap().number };
        let bytes: Vec<u8> = (0..2 * PIECE_BYTES).map(|index| (index % 251) as u8).collect();
        store.write(file, 1000, &bytes).unwrap();
        assert_eq!(store.file_bytes(file), 1000 + bytes.len() as u64);
        let mut room = vec![0; bytes.len() + 10];
        assert_eq!(store.read(file, 1000, &mut room), bytes.len());
        assert_eq!(room[..bytes.len()], bytes);
    }

    #[test]
    fn memory_of_a_removed_file_is_used_again() {
        let store = Kept::new(1, PIECE_BYTES as u64);
        for _ in 0..2 {
            let file =
                FilePlace { directory: 0, number: store.make(0, "f".as_ref()).unwrap().number };
            store.write(file, 0, &[1]).unwrap();
            assert_eq!(store.write(file, PIECE_BYTES as u64, &[1]), Err(Errno::NOSPC));
            store.remove(0, "f".as_ref()).unwrap();
        }
        let emptied = store.emptied();
        let file =
            FilePlace { directory: 0, number: emptied.make(0, "f".as_ref()).unwrap().number };
        emptied.write(file, 0, &[1]).unwrap();
    }

    #[test]
    fn names_are_listed_in_the_order_of_creation() {
        let store = Kept::new(1, 0);
        for name in ["b", "a", "c"] {
            store.make(0, name.as_ref()).unwrap();
        }
        assert_eq!(store.make(0, "a".as_ref()), Err(Errno::EXIST));
        store.remove(0, "b".as_ref()).unwrap();
        assert_eq!(store.find(0, "b".as_ref()), None);
        assert_eq!(names(&store, 0), [(1, "a".to_owned()), (2, "c".to_owned())]);
        assert_eq!(names(&store, 2), [(2, "c".to_owned())]);
    }
}
