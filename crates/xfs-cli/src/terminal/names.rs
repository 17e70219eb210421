//! The printed form of names: raw in pipes, escaped on a terminal.
//!
//! A name from an image may hold any byte except `/` and NUL. Sent to a terminal unchanged, such a
//! name can move the cursor, rename the window or look like another name. So a terminal gets names
//! quoted, as ls(1) does, in the form in which a shell reads them.
//!
//! Owns: the choice of the characters that a terminal may get. [`printable`] and its variants
//! escape text other than names.

use std::borrow::Cow;
use std::fmt::Write;

/// How an output shows names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameStyle {
    /// Names are unchanged, byte for byte.
    Raw,
    /// A name is in quotes if a shell or a terminal would misread it without them.
    Quoted,
}

impl NameStyle {
    /// Returns the bytes to print for `name` in this style.
    pub(crate) fn show(self, name: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Raw => Cow::Borrowed(name),
            Self::Quoted => match quote(name) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
        }
    }
}

/// Returns a name for a message: quoted if necessary, and safe on any terminal.
pub(crate) fn in_message(name: &[u8]) -> Cow<'_, str> {
    quote(name)
}

/// Returns the text in a form that is safe on any terminal: unprintable characters are written in
/// octal, except line ends.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| is_printable(c) || c == '\n') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if is_printable(c) || c == '\n' => shown.push(c),
            c => push_octal(&mut shown, c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(shown)
}

/// Does the same as [`printable`], for bytes that may not be UTF-8. Tabs are also kept, because
/// columns use them.
pub(crate) fn printable_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_shown = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
    if std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_shown)) {
        return Cow::Borrowed(bytes);
    }
    let mut shown = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                c if is_shown(c) => shown.push(c),
                c => push_octal(&mut shown, c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        push_octal(&mut shown, chunk.invalid());
    }
    Cow::Owned(shown.into_bytes())
}

/// Escapes unprintable characters in a part of a JSON text, as JSON strings do. In valid JSON, such
/// characters occur only in strings.
pub(crate) fn printable_json(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_shown = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
    // JSON is UTF-8. Other bytes cannot be escaped in it.
    let Ok(text) = std::str::from_utf8(bytes) else { return printable_bytes(bytes) };
    if text.chars().all(is_shown) {
        return Cow::Borrowed(bytes);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_shown(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String does not fail.
            _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown.into_bytes())
}

/// Quotes a name for a shell, if a shell or a terminal would misread the unquoted name.
fn quote(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if text.chars().all(is_plain) && !text.is_empty() => Cow::Borrowed(text),
        Ok(text) if text.chars().all(is_printable) && !text.contains('\'') => {
            Cow::Owned(format!("'{text}'"))
        }
        Ok(text) if text.chars().all(|c| is_printable(c) && !needs_escape_in_double_quotes(c)) => {
            Cow::Owned(format!("\"{text}\""))
        }
        _ => Cow::Owned(quote_in_pieces(name)),
    }
}

/// Quotes a name that contains bytes that a terminal must not get, as in `'text'$'\033''text'`.
fn quote_in_pieces(name: &[u8]) -> String {
    let mut quoted = String::with_capacity(name.len() + 16);
    let mut open = Quoting::None;
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\'' {
                open.change(Quoting::None, &mut quoted);
                quoted.push_str("\\'");
            } else if is_printable(c) {
                open.change(Quoting::Plain, &mut quoted);
                quoted.push(c);
            } else {
                open.change(Quoting::Octal, &mut quoted);
                push_octal(&mut quoted, c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        if !chunk.invalid().is_empty() {
            open.change(Quoting::Octal, &mut quoted);
            push_octal(&mut quoted, chunk.invalid());
        }
    }
    open.change(Quoting::None, &mut quoted);
    quoted
}

/// The kind of quotes that are open while a name is quoted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    None,
    Plain,
    Octal,
}

impl Quoting {
    fn change(&mut self, to: Self, quoted: &mut String) {
        if *self == to {
            return;
        }
        if *self != Self::None {
            quoted.push('\'');
        }
        match to {
            Self::None => {}
            Self::Plain => quoted.push('\''),
            Self::Octal => quoted.push_str("$'"),
        }
        *self = to;
    }
}

fn push_octal(quoted: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\n' => quoted.push_str("\\n"),
            b'\t' => quoted.push_str("\\t"),
            b'\r' => quoted.push_str("\\r"),
            // Writing to a String does not fail.
            _ => _ = write!(quoted, "\\{byte:03o}"),
        }
    }
}

/// Returns whether a character stands for itself in an unquoted word of a shell.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "%+,-./:=@_^".contains(c) || (!c.is_ascii() && is_printable(c))
}

/// Returns whether a terminal shows a character as itself and does nothing else.
///
/// Format characters are invisible or change the direction of the text after them. Fillers show
/// nothing. Neither is printable.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn needs_escape_in_double_quotes(c: char) -> bool {
    matches!(c, '"' | '$' | '`' | '\\' | '!')
}

#[cfg(test)]
mod tests;
