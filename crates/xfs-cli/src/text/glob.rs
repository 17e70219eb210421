//! Shell patterns over bytes, as fnmatch(3) reads them without flags: `*`, `?` and `[…]` also match
//! slashes and leading dots.

/// A parsed shell pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    parts: Vec<Part>,
    ignores_case: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    AnyCharacter,
    AnyRun,
    Set { ranges: Vec<(u8, u8)>, is_negated: bool },
}

impl Glob {
    /// Parses a pattern. Every pattern is valid: a `[` without its `]` stands for itself.
    pub(crate) fn new(pattern: &[u8], ignores_case: bool) -> Self {
        let mut parts = Vec::with_capacity(pattern.len());
        let mut rest = pattern;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            let part = match (first, after.split_first()) {
                (b'*', _) => Part::AnyRun,
                (b'?', _) => Part::AnyCharacter,
                (b'\\', Some((&escaped, after))) => {
                    rest = after;
                    Part::Byte(fold(escaped, ignores_case))
                }
                (b'[', _) => match parse_set(after, ignores_case) {
                    None => Part::Byte(b'['),
                    Some((set, after)) => {
                        rest = after;
                        set
                    }
                },
                _ => Part::Byte(fold(first, ignores_case)),
            };
            if part != Part::AnyRun || parts.last() != Some(&Part::AnyRun) {
                parts.push(part);
            }
        }
        Self { parts, ignores_case }
    }

    /// Returns whether the pattern matches the whole of `text`.
    ///
    /// Backtracks only to the last `*`, so the work is at most the product of the lengths of
    /// pattern and text.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let (mut part, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let step = match (self.parts.get(part), text.get(at..)) {
                (Some(Part::AnyRun), _) => {
                    retry = Some((part + 1, at));
                    part += 1;
                    continue;
                }
                (None, Some([])) => return true,
                (Some(wanted), Some(rest)) => self.matched_bytes(wanted, rest),
                _ => None,
            };
            match (step, &mut retry) {
                (Some(length), _) => {
                    part += 1;
                    at += length;
                }
                (None, Some((after_star, from))) if *from < text.len() => {
                    *from += 1;
                    (part, at) = (*after_star, *from);
                }
                (None, _) => return false,
            }
        }
    }

    /// Returns how many bytes at the start of `text` one part of the pattern matches; `None` if the
    /// part does not match the start.
    fn matched_bytes(&self, part: &Part, text: &[u8]) -> Option<usize> {
        let &first = text.first()?;
        match part {
            Part::Byte(byte) => (fold(first, self.ignores_case) == *byte).then_some(1),
            Part::AnyRun => None,
            Part::AnyCharacter => Some(character_length(text)),
            Part::Set { ranges, is_negated } => {
                let byte = fold(first, self.ignores_case);
                let is_member = ranges.iter().any(|&(low, high)| low <= byte && byte <= high);
                let length = if *is_negated { character_length(text) } else { 1 };
                (is_member != *is_negated).then_some(length)
            }
        }
    }
}

/// Returns the length in bytes of the UTF-8 character at the start of `text`; 1 for an invalid
/// byte.
fn character_length(text: &[u8]) -> usize {
    let length = match text.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    match text.get(..length) {
        Some(character) if std::str::from_utf8(character).is_ok() => length,
        _ => 1,
    }
}

fn fold(byte: u8, ignores_case: bool) -> u8 {
    if ignores_case { byte.to_ascii_lowercase() } else { byte }
}

/// Parses a set, from the text after its `[` on. Returns the set and the text after its `]`; `None`
/// if no `]` follows.
fn parse_set(text: &[u8], ignores_case: bool) -> Option<(Part, &[u8])> {
    let (is_negated, mut rest) = match text.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut ranges = Vec::new();
    let mut is_first = true;
    loop {
        let (&low, after) = rest.split_first()?;
        if low == b']' && !is_first {
            return Some((Part::Set { ranges, is_negated }, after));
        }
        is_first = false;
        if let Some((class, after)) = parse_class(rest) {
            ranges.extend_from_slice(class);
            rest = after;
            continue;
        }
        let (low, after) = unescape(low, after)?;
        let (high, after) = match after {
            [b'-', high, after @ ..] if *high != b']' => unescape(*high, after)?,
            _ => (low, after),
        };
        ranges.push((fold(low, ignores_case), fold(high, ignores_case)));
        rest = after;
    }
}

fn unescape(byte: u8, after: &[u8]) -> Option<(u8, &[u8])> {
    if byte != b'\\' {
        return Some((byte, after));
    }
    after.split_first().map(|(&byte, after)| (byte, after))
}

/// Ranges of bytes; each pair holds the first and the last byte.
type Ranges = &'static [(u8, u8)];

/// Parses a class `[:name:]` inside a set. Returns its ranges and the text after the class; `None`
/// if the text does not start with a known class.
fn parse_class(text: &[u8]) -> Option<(Ranges, &[u8])> {
    let after = text.strip_prefix(b"[:")?;
    let end = after.windows(2).position(|pair| pair == b":]")?;
    let (name, after) = after.split_at_checked(end)?;
    let ranges: Ranges = match name {
        b"alpha" => &[(b'a', b'z'), (b'A', b'Z')],
        b"digit" => &[(b'0', b'9')],
        b"alnum" => &[(b'a', b'z'), (b'A', b'Z'), (b'0', b'9')],
        b"upper" => &[(b'A', b'Z')],
        b"lower" => &[(b'a', b'z')],
        b"space" => &[(b' ', b' '), (b'\t', b'\r')],
        b"punct" => &[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')],
        b"xdigit" => &[(b'0', b'9'), (b'a', b'f'), (b'A', b'F')],
        b"cntrl" => &[(0, 31), (127, 127)],
        _ => return None,
    };
    Some((ranges, after.get(2..)?))
}

#[cfg(test)]
mod tests;
