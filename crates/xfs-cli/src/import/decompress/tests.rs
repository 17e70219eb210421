use std::io::{Cursor, Read, Write};

use super::{Compression, Decompressed};

/// Returns `length` bytes that compress only a little, so that they need more than one chunk.
fn plain(length: usize) -> Vec<u8> {
    let mut prng = xfs_testkit::Prng::new(0xdec0);
    (0..length).map(|_| prng.within(0..20) as u8).collect()
}

fn compress(compression: Compression, plain: &[u8]) -> Vec<u8> {
    let bytes = Vec::new();
    match compression {
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(bytes, flate2::Compression::fast());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(bytes, bzip2::Compression::fast());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Xz => {
            let mut encoder = liblzma::write::XzEncoder::new(bytes, 0);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(bytes, 1).unwrap();
            encoder.include_checksum(true).unwrap();
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Lz4 => {
            let mut info = lz4_flex::frame::FrameInfo::new();
            info.content_checksum = true;
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, bytes);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Skippable => [&b"\x53\x2a\x4d\x18\x03\0\0\0"[..], b"abc"].concat(),
    }
}

const ALL: [Compression; 5] =
    [Compression::Gzip, Compression::Xz, Compression::Zstd, Compression::Bzip2, Compression::Lz4];

/// Decompresses bytes. Returns the contents, and the error that ended the stream, if any.
fn decompress(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
    let mut out = Vec::new();
    let mut decompressed = Decompressed::new(Box::new(Cursor::new(bytes.to_vec())), 0).unwrap();
    let error = decompressed.read_to_end(&mut out).err();
    (out, error.map(|error| error.to_string()))
}

#[track_caller]
fn check(bytes: &[u8], expected: &[u8]) {
    let (found, error) = decompress(bytes);
    assert_eq!(error, None);
    assert!(found == expected, "{} bytes, and not {}", found.len(), expected.len());
}

#[test]
fn frames_follow_each_other() {
    let (long, short) = (plain(700_000), plain(10));
    for compression in ALL {
        let frame = compress(compression, &long);
        assert_eq!(Compression::of(&frame), Some(compression));
        check(&frame, &long);
        let two =
            [&frame[..], &compress(compression, b""), &compress(compression, &short)].concat();
        check(&two, &[&long[..], &short].concat());
        check(&[&two[..], &[0; 4096]].concat(), &[&long[..], &short].concat());
        check(&[&frame[..], &[0; 4096], &frame].concat(), &[&long[..], &long].concat());
        let (found, error) = decompress(&[&frame[..], b"PK\x03\x04"].concat());
        let said = format!(
            "its {} data ends, and other bytes follow at byte {}",
            compression.name(),
            frame.len()
        );
        assert_eq!((found == long, error), (true, Some(said)));
    }
}

#[test]
fn skippable_frames_are_skipped() {
    let skippable = compress(Compression::Skippable, b"");
    assert_eq!(Compression::of(&skippable), Some(Compression::Skippable));
    for compression in [Compression::Zstd, Compression::Lz4] {
        let frame = compress(compression, b"contents");
        check(
            &[&skippable[..], &skippable, &frame, &skippable, &frame, &skippable].concat(),
            b"contentscontents",
        );
        let (_, error) = decompress(&[&frame[..], &skippable[..9]].concat());
        assert!(error.unwrap().contains("is cut off"));
    }
}

#[test]
fn truncated_data_is_an_error_at_every_length() {
    let contents = plain(20_000);
    for compression in ALL {
        let frame = compress(compression, &contents);
        let step = frame.len() / 23;
        for end in (12..frame.len()).step_by(step).chain(frame.len() - 12..frame.len()) {
            let (found, error) = decompress(&frame[..end]);
            let said = error.unwrap_or_else(|| panic!("{compression:?} cut at {end}"));
            assert_eq!(
                said,
                format!("its {} data is cut off: it ends at byte {end}", compression.name())
            );
            assert!(contents.starts_with(&found));
        }
    }
}

#[test]
fn damaged_data_is_an_error() {
    let contents = plain(20_000);
    let mut prng = xfs_testkit::Prng::new(0xdada);
    for compression in ALL {
        let frame = compress(compression, &contents);
        for _ in 0..30 {
            let mut damaged = frame.clone();
            let at = prng.within(frame.len() / 8..frame.len());
            damaged[at] ^= 1 << prng.within(0..8);
            let (found, error) = decompress(&damaged);
            // Reserved bits of a trailer may have no effect.
            let said = match error {
                None => {
                    assert!(found == contents, "{compression:?}: wrong bytes are no success, {at}");
                    continue;
                }
                Some(said) => said,
            };
            let name = compression.name();
            let is_named = said.starts_with(&format!("its {name} data"));
            assert!(is_named && said.contains("at byte "), "{said}");
        }
    }
}

/// Checks that decompressing arbitrary bytes after a magic number comes to an end and does not
/// panic.
#[test]
fn any_bytes_end_without_panic() {
    let mut prng = xfs_testkit::Prng::new(0xa11);
    for compression in ALL {
        let frame = compress(compression, &plain(3000));
        for _ in 0..100 {
            let mut bytes = frame.clone();
            for _ in 0..prng.within(1..6) {
                prng.mutate(&mut bytes);
            }
            let (_, error) = decompress(&bytes);
            assert!(error.is_none_or(|said| !said.contains("decompressor has failed")));
        }
    }
}

/// Checks I1 of `xfs_cli::import::decompress`: a stream that needs too large a window is refused.
#[test]
fn windows_are_bounded() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.window_log(30).unwrap();
    encoder.include_contentsize(false).unwrap();
    encoder.write_all(&plain(100_000)).unwrap();
    let zstd = encoder.finish().unwrap();
    // The header of a block with a dictionary of 512 MiB, as xz(1) writes it.
    let mut xz = compress(Compression::Xz, b"contents");
    let header = &mut xz[12..24];
    assert_eq!(header[2..4], [0x21, 1], "LZMA2 is the filter, with one byte of properties");
    header[4] = 34;
    let mut sum = crc32fast::hash(&header[..8]).to_be_bytes();
    sum.reverse();
    header[8..].copy_from_slice(&sum);
    for bytes in [zstd, xz] {
        let said = decompress(&bytes).1.unwrap();
        assert!(said.contains("needs a window of more than 128 MiB"), "{said}");
    }
}

#[test]
fn dropped_reader_ends_the_thread() {
    let bytes = compress(Compression::Zstd, &plain(9 << 20));
    let mut decompressed = Decompressed::new(Box::new(Cursor::new(bytes)), 0).unwrap();
    decompressed.read_exact(&mut [0; 10]).unwrap();
    drop(decompressed);
}
