use xfs_format::Lsn;
use xfs_format::log_record::OperationFlags;
use xfs_testkit::Prng;

use super::{StreamCut, VectorStream};
use crate::unit::RecordLayout;
use crate::vector::RegionWriter;
use crate::writer::record::{OpenRecord, operation};

fn vector(lengths: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut regions = RegionWriter::new(&mut bytes);
    lengths.iter().for_each(|length| regions.region(&vec![7; *length]));
    bytes
}

#[track_caller]
fn check_cut(lengths: &[usize], room: usize, expected: Option<(usize, usize)>) {
    let vector = vector(lengths);
    let cut = VectorStream::new([vector.as_slice()].into_iter()).cut(room);
    assert_eq!(cut.map(|cut| (cut.bytes, cut.left.len())), expected);
}

#[test]
fn cut_takes_whole_regions_and_part_of_one() {
    check_cut(&[40, 40], 104, None);
    // The second region fits neither whole nor with all of its few bytes.
    check_cut(&[40, 40], 103, Some((52, 0)));
    check_cut(&[40, 400], 52 + 12 + 127, Some((52, 0)));
    check_cut(&[40, 400], 52 + 12 + 128, Some((52 + 12 + 128, 272)));
    check_cut(&[4000], 1000, Some((1000, 4000 - 988)));
}

/// Checks that a record is filled exactly up to its computed cut, whatever the record held before.
#[test]
fn record_is_filled_exactly_up_to_its_cut() {
    let layout = RecordLayout { buffer_bytes: 32 << 10, roundoff_bytes: 512 };
    let mut prng = Prng::new(7);
    for _ in 0..300 {
        let vectors: Vec<_> = (0..200)
            .map(|_| {
                let lengths = [4 << prng.within(0..9), 8 * prng.within(1..60), 24];
                vector(&lengths[..prng.within(1..4)])
            })
            .collect();
        let mut stream = VectorStream::new(vectors.iter().map(Vec::as_slice));
        let mut left: &[u8] = &[];
        let mut filled = 0;
        loop {
            let mut record = OpenRecord::open(Vec::new(), &layout, Lsn::new(1, 0));
            if !left.is_empty() {
                assert_eq!(record.append(operation(1, OperationFlags::empty()), left, true), None);
            }
            let (before, begin) = (record.room(), stream.clone());
            let cut = stream.cut(before);
            record.fill(1, begin);
            let bytes = before - record.room();
            filled += bytes;
            let Some(StreamCut { bytes: expected, left: rest }) = cut else { break };
            assert_eq!(bytes, expected);
            assert!(record.room() < 12 + 128, "{} bytes lost", record.room());
            // The rest is in the next record before the bytes filled in there are counted.
            filled += rest.len();
            left = rest;
        }
        assert_eq!(filled, vectors.iter().map(Vec::len).sum::<usize>());
    }
}
