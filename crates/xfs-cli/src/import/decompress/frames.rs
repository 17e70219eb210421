//! The frames of a compressed stream, one after another, read as gzip(1), xz(1) and similar
//! programs read them.
//!
//! Each format lets frames (members, streams) follow each other. Zeros may follow each frame: tapes
//! and xz pad with zeros. Any other bytes after a frame are an error, so that no appended archive
//! is lost silently.

use std::io::{self, Read};

use super::counted::CountingReader;
use super::{CHUNK_BYTES, Compression, Emit, Input, MAX_WINDOW_BYTES};

/// The number of first bytes of a frame that are enough to recognise its format.
const MAGIC_BYTES: usize = 10;
/// The memory in bytes that an xz decoder needs in addition to the largest dictionary.
const XZ_DECODER_BYTES: u64 = 16 << 20;
/// The first bytes of a frame in the older format of lz4. Such a frame ends with the input.
const LZ4_LEGACY: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

/// Decompresses all frames, and sends their contents to the reader.
///
/// # Errors
///
/// The message for the user.
pub(super) fn decompress(
    input: &mut CountingReader<Input>,
    emit: &mut Emit<'_>,
) -> Result<(), String> {
    let mut known = None;
    loop {
        let magic = peek(input)?;
        match Compression::of(&magic) {
            Some(Compression::Skippable) => skip_frame(input)?,
            Some(found) if known.is_none_or(|known| known == found) => {
                known = Some(found);
                if !frame(found, magic.starts_with(&LZ4_LEGACY), input, emit)? {
                    return Ok(());
                }
            }
            // Padding may follow a stream of xz, and then another stream. Padded archives of the
            // other formats follow each other in an initramfs.
            _ => {
                let compression = known.unwrap_or(Compression::Skippable);
                if skip_zeros(input)? {
                    return Ok(());
                }
                let next = Compression::of(&peek(input)?);
                if magic.first() != Some(&0) || next.is_none_or(|next| next != compression) {
                    let (name, offset) = (compression.name(), input.offset());
                    return Err(format!(
                        "its {name} data ends, and other bytes follow at byte {offset}"
                    ));
                }
            }
        }
    }
}

fn peek(input: &mut CountingReader<Input>) -> Result<Vec<u8>, String> {
    input.peek(MAGIC_BYTES).map(<[u8]>::to_vec).map_err(|error| error.to_string())
}

/// Skips zeros. Returns true if the input ends after them.
fn skip_zeros(input: &mut CountingReader<Input>) -> Result<bool, String> {
    loop {
        let rest = input.peek(CHUNK_BYTES).map_err(|error| error.to_string())?;
        let zeros = rest.iter().take_while(|byte| **byte == 0).count();
        let (is_over, length) = (rest.is_empty(), rest.len());
        let skipped = input.skip(zeros as u64);
        skipped.map_err(|error| error.to_string())?;
        if is_over || zeros < length {
            return Ok(is_over);
        }
    }
}

/// Skips a skippable frame, which has no contents.
fn skip_frame(input: &mut CountingReader<Input>) -> Result<(), String> {
    let offset = input.offset();
    let failed = |error: io::Error| error.to_string();
    let length = match *input.peek(8).map_err(failed)? {
        [_, _, _, _, a, b, c, d] => {
            u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16 | u64::from(d) << 24
        }
        _ => 0,
    };
    match input.skip(8 + length).map_err(failed)? {
        true => Ok(()),
        false => Err(format!("its skippable frame at byte {offset} is cut off")),
    }
}

/// Decompresses one frame, and sends its contents to the reader. `is_legacy` is set for a frame in
/// the older format of lz4. Returns false if the reader has stopped.
fn frame(
    compression: Compression,
    is_legacy: bool,
    input: &mut CountingReader<Input>,
    emit: &mut Emit<'_>,
) -> Result<bool, String> {
    let copied = copy(compression, input, emit);
    // The lz4 crate treats the end of the input as the end of the frame.
    let is_cut = compression == Compression::Lz4 && input.has_ended() && !is_legacy;
    match copied {
        Ok(true) if is_cut => Err(cut_off(compression, input)),
        Ok(continues) => Ok(continues),
        Err(error) => Err(message(compression, input, &error)),
    }
}

fn copy(
    compression: Compression,
    input: &mut CountingReader<Input>,
    emit: &mut Emit<'_>,
) -> io::Result<bool> {
    let mut decoder = decoder(compression, input)?;
    loop {
        let mut buffer = emit.buffer();
        let mut filled = 0;
        let mut result = Ok(());
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match decoder.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // The bytes before an error are correct, and belong to complete members.
        let continues = emit.send(buffer, filled);
        result?;
        if !continues || filled < CHUNK_BYTES {
            return Ok(continues);
        }
    }
}

/// Returns a decoder of one frame. The decoder consumes no byte after the frame.
fn decoder<'a>(
    compression: Compression,
    input: &'a mut CountingReader<Input>,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match compression {
        Compression::Gzip => Box::new(flate2::bufread::GzDecoder::new(input)),
        Compression::Bzip2 => Box::new(bzip2::bufread::BzDecoder::new(input)),
        Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(input)),
        Compression::Xz => {
            let limit = MAX_WINDOW_BYTES + XZ_DECODER_BYTES;
            let stream = liblzma::stream::Stream::new_stream_decoder(limit, 0)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
        }
        Compression::Zstd | Compression::Skippable => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?.single_frame();
            decoder.window_log_max(MAX_WINDOW_BYTES.ilog2())?;
            Box::new(decoder)
        }
    })
}

fn cut_off(compression: Compression, input: &CountingReader<Input>) -> String {
    let (name, offset) = (compression.name(), input.offset());
    format!("its {name} data is cut off: it ends at byte {offset}")
}

/// Returns the message for the user about an error of a decoder. It replaces the decoder's own
/// wording (I3 of the parent module).
fn message(compression: Compression, input: &CountingReader<Input>, error: &io::Error) -> String {
    let (name, offset) = (compression.name(), input.offset());
    // I3: the message is ours.
    if let Some(failure) = input.failure() {
        return failure.to_owned();
    }
    let inner = error.get_ref();
    let lzma = inner.and_then(|inner| inner.downcast_ref::<liblzma::stream::Error>());
    let text = error.to_string();
    let is_too_large = lzma == Some(&liblzma::stream::Error::MemLimit)
        || compression == Compression::Zstd && text.contains("too much memory");
    if is_too_large {
        let mebibytes = MAX_WINDOW_BYTES >> 20;
        return format!(
            "its {name} data at byte {offset} needs a window of more than {mebibytes} MiB, which is not supported; decompress it first"
        );
    }
    if text.to_ascii_lowercase().contains("dictionary") && compression != Compression::Xz {
        return format!(
            "its {name} data at byte {offset} needs a dictionary, which is not supported"
        );
    }
    match input.has_ended() || error.kind() == io::ErrorKind::UnexpectedEof {
        true => cut_off(compression, input),
        false => format!("its {name} data is damaged at byte {offset}"),
    }
}
