//! `getfattr`: shows extended attributes, as getfattr(1) does.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferroxfs::Node;
use regex::bytes::Regex;

use crate::cli::{GetfattrArguments, GlobalOptions, ValueEncoding};
use crate::failure::Failure;
use crate::file::node;
use crate::file::source::NamedValue;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names::{self, NameStyle};
use crate::text::{hexadecimal, pattern};

struct Getfattr {
    arguments: GetfattrArguments,
    pattern: Option<Regex>,
    targets: ImagePaths,
}

/// Opens the images, and parses the pattern for the names of attributes. Returns the command, ready
/// to run.
pub(crate) fn open(
    arguments: GetfattrArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let pattern = match arguments.r#match.as_str() {
        "-" => None,
        text => Some(Regex::new(text).map_err(|error| {
            let (pattern, reason) = (names::in_message(text.as_bytes()), pattern::reason(&error));
            Failure::usage(format!("--match: {pattern} is not a regular expression: {reason}"))
        })?),
    };
    let targets = ImagePaths::open(&arguments.addresses, options)?;
    Ok(Box::new(Getfattr { arguments, pattern, targets }))
}

impl Run for Getfattr {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { arguments, pattern, targets } = *self;
        let mut list = match arguments.json.json {
            true => Some(List::begin(console.out(), "files")?),
            false => None,
        };
        for target in targets.read(console) {
            let node = match target.node(!arguments.no_dereference) {
                Ok(node) => node,
                Err(failure) => {
                    console.report(&failure);
                    continue;
                }
            };
            let wanted = select(&target, &node, &arguments, pattern.as_ref(), console);
            if let Some(list) = &mut list {
                list.push(console.out(), &describe(&target, &wanted))?;
            } else if !wanted.is_empty() {
                print(&target, &wanted, &arguments, console)?;
            }
        }
        match list {
            Some(list) => Ok(list.end(console.out())?),
            None => Ok(()),
        }
    }
}

/// Returns the attributes that the arguments select, sorted by name. Reports each attribute that
/// cannot be read.
fn select(
    target: &ImagePath,
    node: &Node,
    arguments: &GetfattrArguments,
    pattern: Option<&Regex>,
    console: &mut Console,
) -> Vec<NamedValue> {
    if let Some(name) = &arguments.name {
        return match node.attribute(name) {
            Ok(value) => vec![NamedValue { name: name.as_bytes().to_vec(), value }],
            Err(error) => {
                let error = Failure::from(error).about(&names::in_message(name.as_bytes()));
                console.report(&target.failure(error));
                Vec::new()
            }
        };
    }
    let mut wanted = Vec::new();
    for attribute in node::attributes(node) {
        match attribute {
            Ok(attribute) if pattern.is_none_or(|p| p.is_match(&attribute.name)) => {
                wanted.push(attribute);
            }
            Ok(_) => {}
            Err(failure) => console.report(&target.failure(failure)),
        }
    }
    wanted.sort_by(|a, b| a.name.cmp(&b.name));
    wanted
}

fn print(
    target: &ImagePath,
    attributes: &[NamedValue],
    arguments: &GetfattrArguments,
    console: &mut Console,
) -> io::Result<()> {
    let with_values = arguments.dump || arguments.name.is_some();
    let style = console.name_style(false);
    let out = console.out();
    out.write_all(b"# file: ")?;
    out.write_all(&relative(&target.shown()))?;
    out.write_all(b"\n")?;
    for NamedValue { name, value } in attributes {
        match style {
            NameStyle::Raw => out.write_all(&escape(name, b"\n\r\\="))?,
            NameStyle::Quoted => out.write_all(&style.show(name))?,
        }
        if with_values {
            out.write_all(b"=")?;
            out.write_all(&encode(value, arguments.encoding))?;
        }
        out.write_all(b"\n")?;
    }
    out.write_all(b"\n")
}

/// Returns a path without its leading slash, so that the output can be restored below any
/// directory.
pub(crate) fn relative(path: &[u8]) -> Vec<u8> {
    let path = path.strip_prefix(b"/").filter(|path| !path.is_empty()).unwrap_or(b".");
    escape(path, b"\n\r\\")
}

fn encode(value: &[u8], encoding: Option<ValueEncoding>) -> Vec<u8> {
    let encoding = encoding.unwrap_or(match is_text(value) {
        true => ValueEncoding::Text,
        false => ValueEncoding::Base64,
    });
    match encoding {
        ValueEncoding::Base64 => format!("0s{}", STANDARD.encode(value)).into_bytes(),
        ValueEncoding::Hex => format!("0x{}", hexadecimal::digits(value)).into_bytes(),
        ValueEncoding::Text => {
            let mut text = vec![b'"'];
            for &byte in value {
                match byte {
                    b'"' | b'\\' => text.extend_from_slice(&[b'\\', byte]),
                    b' '..=b'~' => text.push(byte),
                    _ => text.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
                }
            }
            text.push(b'"');
            text
        }
    }
}

/// Returns whether a value is mostly text: at most one byte in eight is unprintable. A zero byte at
/// the end is ignored.
fn is_text(value: &[u8]) -> bool {
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    let odd = value.iter().filter(|byte| !matches!(byte, b' '..=b'~')).count();
    odd * 8 <= value.len()
}

/// Replaces the bytes `special` in a name with octal escapes, as getfattr(1) does.
fn escape(name: &[u8], special: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for &byte in name {
        if special.contains(&byte) {
            escaped.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        } else {
            escaped.push(byte);
        }
    }
    escaped
}

fn describe(target: &ImagePath, attributes: &[NamedValue]) -> Object {
    let mut object = Object::new();
    json::insert_name(&mut object, "path", &target.shown());
    let attributes: Vec<serde_json::Value> = attributes
        .iter()
        .map(|attribute| {
            let mut entry = Object::new();
            json::insert_name(&mut entry, "name", &attribute.name);
            json::insert_name(&mut entry, "value", &attribute.value);
            entry.into()
        })
        .collect();
    object.insert("attributes".to_owned(), attributes.into());
    object
}
