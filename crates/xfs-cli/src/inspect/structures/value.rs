//! The values of fields, and their two printed forms: text and JSON.

use std::fmt;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::terminal::names;

/// Fields with their names and values, in the order in which they are on disk.
pub(crate) type Fields = Vec<(&'static str, Value)>;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A number. `is_null` says whether this number means "none", as a number with all bits set
    /// does in most fields.
    Number { value: u64, is_null: bool },
    /// A number whose bits have meanings. It is printed in hexadecimal.
    Bits(u64),
    /// A mode: type and permissions.
    Mode(u64),
    /// A magic number.
    Magic(u64),
    /// A flag, printed as true or false.
    Flag(bool),
    /// A log sequence number.
    Lsn(u64),
    /// Text that this program has made.
    Text(String),
    /// Bytes that a user has chosen, such as a name or a label.
    Name(Vec<u8>),
    /// A list of values of one kind.
    List(Vec<Self>),
    /// A group of fields.
    Record(Fields),
}

impl Value {
    /// Creates the value of a number that does not stand for "none".
    pub(crate) fn number(value: impl Into<u64>) -> Self {
        Self::Number { value: value.into(), is_null: false }
    }

    /// Returns the value as JSON. A number stays a number; "none" becomes null.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Number { is_null: true, .. } => serde_json::Value::Null,
            Self::Number { value, .. }
            | Self::Bits(value)
            | Self::Mode(value)
            | Self::Magic(value) => (*value).into(),
            Self::Flag(value) => (*value).into(),
            Self::Lsn(_) | Self::Text(_) => self.to_string().into(),
            Self::Name(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.into(),
                Err(_) => {
                    let mut object = serde_json::Map::new();
                    object.insert("base64".to_owned(), STANDARD.encode(bytes).into());
                    object.into()
                }
            },
            Self::List(values) => values.iter().map(Self::to_json).collect(),
            Self::Record(fields) => fields_to_json(fields).into(),
        }
    }
}

/// Returns fields as a JSON object.
pub(crate) fn fields_to_json(fields: &Fields) -> serde_json::Map<String, serde_json::Value> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_json())).collect()
}

/// Prints fields, one per line. A list is printed with one element per line.
pub(crate) fn print_fields(out: &mut impl Write, fields: &Fields) -> io::Result<()> {
    for (name, value) in fields {
        match value {
            Value::List(values) => {
                for (index, value) in values.iter().enumerate() {
                    writeln!(out, "{name}[{index}] = {value}")?;
                }
            }
            _ => writeln!(out, "{name} = {value}")?,
        }
    }
    Ok(())
}

/// Formats the value on one line, with bytes escaped for a terminal.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { is_null: true, .. } => f.write_str("null"),
            Self::Number { value, .. } => write!(f, "{value}"),
            Self::Bits(value) => write!(f, "{value:#x}"),
            Self::Flag(value) => write!(f, "{value}"),
            Self::Mode(value) => write!(f, "{value:o}"),
            Self::Magic(value) => write!(f, "{value:#x} {}", magic_text(*value)),
            Self::Lsn(u64::MAX) => f.write_str("null"),
            Self::Lsn(value) => write!(f, "{}:{}", value >> 32, value & 0xffff_ffff),
            Self::Text(text) => f.write_str(text),
            Self::Name(bytes) => f.write_str(&names::in_message(bytes)),
            Self::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Record(fields) => {
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name} {value}", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

/// Returns the characters of a magic number in quotes; an empty text if a byte is not a printable
/// character.
fn magic_text(value: u64) -> String {
    let bytes = value.to_be_bytes();
    let text: Vec<u8> = bytes.into_iter().skip_while(|&byte| byte == 0).collect();
    if text.iter().all(u8::is_ascii_graphic) {
        return format!("\"{}\"", String::from_utf8_lossy(&text));
    }
    String::new()
}
