//! `setfattr`: changes extended attributes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferroxfs::attr::SetMode;

use crate::cli::{GlobalOptions, SetfattrArguments};
use crate::failure::Failure;
use crate::image::{ImagePaths, change_each};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;

/// The prefixes that the name of an attribute can have.
const NAMESPACES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];

enum AttributeAction {
    Set(OsString, Vec<u8>),
    Remove(OsString),
}

struct Setfattr {
    targets: ImagePaths,
    action: AttributeAction,
    follows: bool,
}

/// Opens the images for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &SetfattrArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let action = match (&arguments.name, &arguments.remove) {
        (Some(name), _) => {
            let value = arguments.value.as_deref().unwrap_or_default();
            let wrong = || Failure::usage("setfattr: the value is invalid");
            AttributeAction::Set(name.clone(), parse_value(value).ok_or_else(wrong)?)
        }
        (None, Some(name)) => AttributeAction::Remove(name.clone()),
        (None, None) => {
            return Err(Failure::usage("setfattr: the name of the attribute is missing"));
        }
    };
    let (AttributeAction::Set(name, _) | AttributeAction::Remove(name)) = &action;
    if !NAMESPACES.iter().any(|namespace| name.as_bytes().starts_with(namespace)) {
        let shown = names::in_message(name.as_bytes());
        return Err(Failure::usage(format!("setfattr: {shown} is not a name of an attribute"))
            .hint("a name is user.NAME, trusted.NAME, security.NAME or system.posix_acl_access"));
    }
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    Ok(Box::new(Setfattr { targets, action, follows: !arguments.no_dereference }))
}

/// Parses an attribute value as setfattr(1) does. Returns `None` if hexadecimal or base64 digits
/// are invalid.
fn parse_value(value: &OsStr) -> Option<Vec<u8>> {
    let bytes = value.as_bytes();
    let (prefix, rest) = bytes.split_at(bytes.len().min(2));
    match prefix {
        b"0x" | b"0X" => {
            let digits = std::str::from_utf8(rest).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            let pairs = digits.as_bytes().chunks(2).map(|pair| {
                let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
                u8::from_str_radix(pair, 16).ok()
            });
            pairs.collect()
        }
        b"0s" | b"0S" => STANDARD.decode(rest).ok(),
        _ => Some(decode_text(bytes)),
    }
}

/// Decodes a value that is given as text. Quotation marks around the text are removed. A backslash
/// escapes a quotation mark, a backslash, or a byte as up to three octal digits. Before any other
/// character, a backslash stands for itself.
fn decode_text(bytes: &[u8]) -> Vec<u8> {
    let inner = bytes.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let mut rest = inner.unwrap_or(bytes);
    let mut text = Vec::with_capacity(rest.len());
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'\\', [b'0'..=b'7', ..]) => {
                let digits = after.iter().take(3).take_while(|digit| matches!(digit, b'0'..=b'7'));
                rest = after.get(digits.clone().count()..).unwrap_or_default();
                // The ninth bit is lost, as in setfattr(1).
                text.push(digits.fold(0, |byte: u8, digit| byte << 3 | (digit - b'0')));
            }
            (b'\\', [escaped @ (b'\\' | b'"'), after @ ..]) => {
                rest = after;
                text.push(*escaped);
            }
            // setfattr(1) uses the closing mark as the escaped one.
            (b'\\', []) if inner.is_some() => text.push(b'"'),
            _ => text.push(*byte),
        }
    }
    text
}

impl Run for Setfattr {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, action, follows } = *self;
        change_each(targets, console, |target| {
            let node = target.node(follows)?;
            let done = match &action {
                AttributeAction::Set(name, value) => {
                    node.set_attribute(name, value, SetMode::Either)
                }
                AttributeAction::Remove(name) => node.remove_attribute(name),
            };
            done.map_err(|error| target.failure(error))
        })
    }
}

#[cfg(test)]
mod tests;
