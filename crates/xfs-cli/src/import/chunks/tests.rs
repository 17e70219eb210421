use std::fs::File;
use std::iter::{Empty, empty};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{CHUNK_BYTES, Holes, ReadFailure, read};
use crate::failure::Failure;
use crate::file::facts::Facts;
use crate::file::memory::facts;
use crate::file::source::{NamedValue, Source};
use crate::import::host::HostSource;

/// A file of ones that returns at most a few bytes at a time.
struct Trickle {
    length: u64,
    is_known: bool,
}

impl Source for Trickle {
    type Entries = Empty<Result<(Vec<u8>, Self), Failure>>;

    fn facts(&self) -> Facts {
        facts(1, 0o100_644)
    }
    fn length(&self) -> Option<u64> {
        self.is_known.then_some(self.length)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
        let length = buffer.len().min(70_001).min((self.length - offset) as usize);
        buffer[..length].fill(1);
        Ok(length)
    }
    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        Ok((offset < self.length).then_some(offset..u64::MAX))
    }
    fn target(&self) -> Result<Vec<u8>, Failure> {
        Ok(Vec::new())
    }
    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        Vec::new()
    }
    fn entries(&self) -> Result<Self::Entries, Failure> {
        Ok(empty())
    }
}

/// Returns the offset and the length of each chunk, and the end.
fn chunks<S: Source>(source: &S, holes: Holes) -> (Vec<(u64, usize)>, u64) {
    let mut found = Vec::new();
    let end = read(source, holes, &mut Vec::new(), |offset, chunk| {
        found.push((offset, chunk.len()));
        Ok::<_, ReadFailure>(())
    });
    (found, end.unwrap_or_else(|failure| panic!("{}", failure.0.message())))
}

/// Checks I1: the boundaries of reads have no effect.
#[test]
fn chunks_of_a_slow_source_are_full() {
    let length = 2 * CHUNK_BYTES as u64 + 5;
    let full = |at: usize| ((at * CHUNK_BYTES) as u64, CHUNK_BYTES);
    let expected = (vec![full(0), full(1), (length - 5, 5)], length);
    for (holes, is_known) in
        [(Holes::OfSource, true), (Holes::OfSource, false), (Holes::OfZeros, true)]
    {
        assert_eq!(chunks(&Trickle { length, is_known }, holes), expected, "{holes:?} {is_known}");
    }
}

/// Checks I2: the chunks of a file with holes are those of the same contents without any, except
/// the chunks of a hole.
#[test]
fn chunks_of_contents_have_the_same_boundaries_with_and_without_holes() {
    let place = tempfile::tempdir().unwrap();
    let make = |name: &str, is_sparse: bool| {
        let path = place.path().join(name);
        let file = File::create(&path).unwrap();
        if is_sparse {
            file.set_len(5 << 20).unwrap();
        } else {
            file.write_at(&vec![0; 5 << 20], 0).unwrap();
        }
        file.write_at(&[1; 9], (3 << 20) + 77_777).unwrap();
        path
    };
    let chunks = |path: &Path| chunks(&HostSource::open(path, false).unwrap(), Holes::OfZeros);
    let (sparse, dense) = (chunks(&make("sparse", true)), chunks(&make("dense", false)));
    assert_eq!(dense.0, (0..5).map(|at| (at << 20, CHUNK_BYTES)).collect::<Vec<_>>());
    assert!(sparse.0.iter().all(|chunk| dense.0.contains(chunk)), "{sparse:?}");
    assert!(sparse.0.contains(&(3 << 20, CHUNK_BYTES)), "{sparse:?}");
}
