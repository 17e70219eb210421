//! Configuration files of mkfs.xfs: `-c FILE`, `-c options=FILE` and `-c defaults=FILE`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;

use xfs_mkfs::Options;

use super::asked::option_failure;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::names;

/// The limit on the size of a configuration file, in bytes. A few options take a few hundred.
const MAX_BYTES: u64 = 1 << 20;

/// The file that an argument of `-c` names.
enum Source<'a> {
    /// Options as on the command line.
    Options(&'a str),
    /// Options to which all others take precedence.
    Defaults(&'a str),
}

/// Reads the files that the arguments of `-c` name with `defaults=`, into options that are still
/// empty.
pub(super) fn read_defaults(arguments: &[String], options: &mut Options) -> Result<(), Failure> {
    for argument in arguments {
        if let Source::Defaults(path) = source(argument)? {
            let (text, shown) = read_text(path)?;
            let parsed = options.parse_default_configuration(&text);
            parsed.map_err(|error| option_failure(&error).about(&shown))?;
        }
    }
    Ok(())
}

/// Reads the files that the arguments of `-c` name without `defaults=`, and adds their options to
/// `options`.
pub(super) fn read(arguments: &[String], options: &mut Options) -> Result<(), Failure> {
    for argument in arguments {
        if let Source::Options(path) = source(argument)? {
            let (text, shown) = read_text(path)?;
            let parsed = options.parse_configuration(&text);
            parsed.map_err(|error| option_failure(&error).about(&shown))?;
        }
    }
    Ok(())
}

fn source(argument: &str) -> Result<Source<'_>, Failure> {
    match argument.split_once('=') {
        Some(("options", path)) if !path.is_empty() => Ok(Source::Options(path)),
        Some(("defaults", path)) if !path.is_empty() => Ok(Source::Defaults(path)),
        Some(("makecfg", _)) => {
            let message = format!("-c {argument} is not supported: no configuration is written");
            Err(Failure::new(Exit::Refused, message))
        }
        None if !argument.is_empty() => Ok(Source::Options(argument)),
        _ => Err(Failure::usage(format!("-c {argument}: there is no such option"))
            .hint("a configuration file is read with -c options=FILE")),
    }
}

/// Returns the contents of a configuration file, and the name of the file for messages.
fn read_text(path: &str) -> Result<(String, String), Failure> {
    let path = OsStr::new(path);
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    file.map_err(|error| Failure::host(path, &error))?;
    let shown = names::in_message(path.as_encoded_bytes()).into_owned();
    let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= MAX_BYTES);
    let text =
        text.ok_or_else(|| Failure::usage(format!("{shown}: is not a configuration file")))?;
    Ok((text, shown))
}
