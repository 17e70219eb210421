//! The format of `-printf`: its parser, and the output for a file.

use super::{ExaminedFile, Stamp};
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::terminal::names::{self, NameStyle};
use crate::text::time::Clock;

/// A parsed format of `-printf`.
#[derive(Debug)]
pub(crate) struct PrintfFormat {
    pieces: Vec<FormatPart>,
}

#[derive(Debug)]
enum FormatPart {
    Literal(Vec<u8>),
    Directive {
        layout: Layout,
        what: Directive,
    },
    /// The escape `\c`, which ends the output.
    Stop,
}

/// Flags, width and precision of a directive.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    is_left: bool,
    is_zero_filled: bool,
    /// Whether octal numbers start with a zero (the flag `#`).
    is_alternate: bool,
    width: usize,
    precision: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Directive {
    /// A directive that prints a property of the file, such as `%s`. This is its letter.
    Letter(u8),
    /// A directive that prints a time in the form of ctime(3), such as `%t`.
    Time(Stamp),
    /// A directive that prints one field of a time, such as the year or the hour. The letter says
    /// which field.
    TimePart(Stamp, u8),
}

/// The limit on the width of a directive. Each width takes that many bytes of memory, and no
/// terminal is wider.
const WIDTH_LIMIT: usize = 4096;

impl PrintfFormat {
    /// Parses a format of `-printf`.
    pub(crate) fn parse(format: &[u8]) -> Result<Self, Failure> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut rest = format;
        while let Some((&byte, after)) = rest.split_first() {
            match byte {
                b'\\' => match escape(after) {
                    Some((Some(byte), after)) => {
                        literal.push(byte);
                        rest = after;
                    }
                    Some((None, _)) => {
                        pieces.push(FormatPart::Literal(std::mem::take(&mut literal)));
                        pieces.push(FormatPart::Stop);
                        rest = b"";
                    }
                    None => {
                        literal.push(b'\\');
                        rest = after;
                    }
                },
                b'%' if after.first() == Some(&b'%') => {
                    literal.push(b'%');
                    rest = after.get(1..).unwrap_or_default();
                }
                b'%' => {
                    let (piece, after) = directive(after)?;
                    pieces.push(FormatPart::Literal(std::mem::take(&mut literal)));
                    pieces.push(piece);
                    rest = after;
                }
                _ => {
                    literal.push(byte);
                    rest = after;
                }
            }
        }
        pieces.push(FormatPart::Literal(literal));
        Ok(Self { pieces })
    }

    /// Returns the bytes to print for a file.
    pub(crate) fn expand(
        &self,
        entry: &dyn ExaminedFile,
        style: NameStyle,
        clock: &Clock,
    ) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        for piece in &self.pieces {
            match piece {
                FormatPart::Literal(literal) => bytes.extend_from_slice(literal),
                FormatPart::Stop => break,
                FormatPart::Directive { layout, what } => {
                    let value = match what {
                        Directive::Letter(b'm') => mode(entry, *layout),
                        Directive::Letter(letter) => letter_value(*letter, entry, style)?,
                        Directive::Time(stamp) => whole_time(*stamp, entry, clock).into_bytes(),
                        Directive::TimePart(stamp, part) => {
                            time_part(*stamp, *part, entry, clock).into_bytes()
                        }
                    };
                    layout.push(&mut bytes, &value);
                }
            }
        }
        Ok(bytes)
    }
}

impl Layout {
    fn push(self, bytes: &mut Vec<u8>, value: &[u8]) {
        let value = value.get(..self.precision.unwrap_or(value.len())).unwrap_or(value);
        let padding = self.width.saturating_sub(value.len());
        if self.is_left {
            bytes.extend_from_slice(value);
        }
        let fill = if self.is_zero_filled && !self.is_left { b'0' } else { b' ' };
        bytes.resize(bytes.len() + padding, fill);
        if !self.is_left {
            bytes.extend_from_slice(value);
        }
    }
}

/// Parses the text after a backslash. Returns the byte that the escape means, or no byte for `\c`,
/// and the text after the escape. Returns `None` if the escape is unknown.
fn escape(text: &[u8]) -> Option<(Option<u8>, &[u8])> {
    let (&letter, after) = text.split_first()?;
    let byte = match letter {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' => b'\\',
        b'c' => return Some((None, after)),
        b'0'..=b'7' => {
            let digits = text.iter().take(3).take_while(|digit| matches!(digit, b'0'..=b'7'));
            let (mut value, mut length) = (0u32, 0);
            for digit in digits {
                value = value * 8 + u32::from(digit - b'0');
                length += 1;
            }
            return Some((Some((value & 0xff) as u8), text.get(length..)?));
        }
        _ => return None,
    };
    Some((Some(byte), after))
}

/// Parses a directive, from the text after its `%` on. Returns the directive and the text after it.
fn directive(text: &[u8]) -> Result<(FormatPart, &[u8]), Failure> {
    let mut layout = Layout::default();
    let mut rest = text;
    while let Some((flag @ (b'-' | b'0' | b'+' | b' ' | b'#'), after)) = rest.split_first() {
        layout.is_left |= *flag == b'-';
        layout.is_zero_filled |= *flag == b'0';
        layout.is_alternate |= *flag == b'#';
        rest = after;
    }
    (layout.width, rest) = number(rest);
    if let Some(after) = rest.strip_prefix(b".") {
        let (precision, after) = number(after);
        layout.precision = Some(precision);
        rest = after;
    }
    let flags = text.len() - rest.len();
    let unknown = |letters: usize| {
        let directive = text.get(..flags + letters).unwrap_or(text);
        let directive = [b"%", directive].concat();
        let shown = names::in_message(&directive);
        Failure::usage(format!("find: -printf does not know the directive {shown}"))
    };
    let (&letter, after) = rest.split_first().ok_or_else(|| unknown(0))?;
    let stamp = match letter {
        b'a' | b'A' => Stamp::Accessed,
        b'c' | b'C' => Stamp::Changed,
        b't' | b'T' => Stamp::Modified,
        b'B' => Stamp::Born,
        b'p' | b'P' | b'f' | b'h' | b'H' | b'd' | b's' | b'k' | b'b' | b'm' | b'M' | b'n'
        | b'i' | b'u' | b'U' | b'g' | b'G' | b'l' | b'y' | b'F' | b'S' => {
            // As in find(1), which prints the other numbers as text.
            layout.is_zero_filled &= matches!(letter, b'd' | b'm');
            return Ok((FormatPart::Directive { layout, what: Directive::Letter(letter) }, after));
        }
        _ => return Err(unknown(1)),
    };
    layout.is_zero_filled = false;
    if letter.is_ascii_lowercase() {
        return Ok((FormatPart::Directive { layout, what: Directive::Time(stamp) }, after));
    }
    let (&part, after) = after.split_first().ok_or_else(|| unknown(1))?;
    if !b"@+aAbBcdDeFgGhHIjklmMnprRsSTuUVwWxXyYzZ".contains(&part) {
        return Err(unknown(2));
    }
    Ok((FormatPart::Directive { layout, what: Directive::TimePart(stamp, part) }, after))
}

fn number(text: &[u8]) -> (usize, &[u8]) {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    let value = digits.iter().fold(0usize, |value, digit| {
        value.saturating_mul(10).saturating_add(usize::from(digit - b'0')).min(WIDTH_LIMIT)
    });
    (value, rest)
}

fn letter_value(
    letter: u8,
    entry: &dyn ExaminedFile,
    style: NameStyle,
) -> Result<Vec<u8>, Failure> {
    let facts = entry.facts();
    let name = |bytes: &[u8]| style.show(bytes).into_owned();
    Ok(match letter {
        b'p' => name(entry.path()),
        b'P' => name(entry.path_below_start()),
        b'f' => name(entry.name()),
        b'h' => name(leading_directories(entry.path())),
        b'H' => name(start(entry)),
        b'l' => entry.target()?.map(|target| name(&target)).unwrap_or_default(),
        b'M' => facts.mode_text().into_bytes(),
        b'y' => match facts.kind() {
            FileKind::Unknown => vec![b'U'],
            kind => vec![kind.find_letter() as u8],
        },
        b'F' => b"xfs".to_vec(),
        b'S' => sparseness(facts.size, facts.blocks).into_bytes(),
        b'd' => entry.depth().to_string().into_bytes(),
        b's' => facts.size.to_string().into_bytes(),
        b'k' => facts.blocks.div_ceil(2).to_string().into_bytes(),
        b'b' => facts.blocks.to_string().into_bytes(),
        b'n' => facts.links.to_string().into_bytes(),
        b'i' => facts.inode.to_string().into_bytes(),
        b'u' | b'U' => facts.uid.to_string().into_bytes(),
        _ => facts.gid.to_string().into_bytes(),
    })
}

fn mode(entry: &dyn ExaminedFile, layout: Layout) -> Vec<u8> {
    let bits = entry.facts().mode & 0o7777;
    let zero = if layout.is_alternate && bits != 0 { "0" } else { "" };
    format!("{zero}{bits:o}").into_bytes()
}

/// Returns the path without its last component, or `.` if it has only one.
fn leading_directories(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        None => b".",
        Some(slash) => path.get(..slash).unwrap_or_default(),
    }
}

/// Returns the first part of the path of a file: the argument of the command line.
fn start(entry: &dyn ExaminedFile) -> &[u8] {
    let path = entry.path();
    match entry.path_below_start().len() {
        0 => path,
        below => {
            let end = path.len().saturating_sub(below);
            let start = path.get(..end).unwrap_or_default();
            if start.len() > 1 { start.strip_suffix(b"/").unwrap_or(start) } else { start }
        }
    }
}

fn sparseness(size: u64, blocks: u64) -> String {
    if size == 0 {
        return if blocks == 0 { "1" } else { "inf" }.to_owned();
    }
    let value = blocks as f64 * 512.0 / size as f64;
    // As %g prints: six significant digits, without zeros at the end.
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (5 - value.abs().log10().floor() as i32).clamp(0, 300) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats a time as ctime(3) does, with a fraction of the second. Like find(1), it prints ten
/// digits of the fraction.
fn whole_time(stamp: Stamp, entry: &dyn ExaminedFile, clock: &Clock) -> String {
    let time = stamp.of(entry.facts());
    let before = clock.format("%a %b %e %H:%M:%S", time);
    let after = clock.format("%Y", time);
    format!("{before}.{:09}0 {after}", time.nanoseconds)
}

fn time_part(stamp: Stamp, part: u8, entry: &dyn ExaminedFile, clock: &Clock) -> String {
    let time = stamp.of(entry.facts());
    let fraction = format!(".{:09}0", time.nanoseconds);
    match part {
        // The fraction counts upwards, also before 1970, as in find(1).
        b'@' => format!("{}{fraction}", time.seconds),
        b'+' => clock.format("%Y-%m-%d+%H:%M:%S", time) + &fraction,
        b'S' => clock.format("%S", time) + &fraction,
        b'T' => clock.format("%H:%M:%S", time) + &fraction,
        b'c' => clock.format("%a %b %e %H:%M:%S %Y", time),
        b'x' | b'D' => clock.format("%m/%d/%y", time),
        b'X' => clock.format("%H:%M:%S", time) + &fraction,
        b'r' => clock.format("%I:%M:%S", time) + &fraction + &clock.format(" %p", time),
        b's' => time.seconds.to_string(),
        _ => clock.format(&format!("%{}", char::from(part)), time),
    }
}
