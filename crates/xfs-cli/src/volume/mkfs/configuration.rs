//! Configuration files of mkfs.xfs: `-c options=FILE`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;

use xfs_mkfs::Options;

use super::option_failure;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::names;

/// The limit on the size of a configuration file, in bytes. A few options take a few hundred.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the file that an argument of `-c` names, and adds its options to `options`.
pub(super) fn read(argument: &str, options: &mut Options) -> Result<(), Failure> {
    let path = match argument.split_once('=') {
        Some(("options", path)) if !path.is_empty() => OsStr::new(path),
        Some(("defaults" | "makecfg", _)) => {
            let message = format!("-c {argument} is not supported: only options=FILE is");
            return Err(Failure::new(Exit::Refused, message));
        }
        _ => {
            return Err(Failure::usage(format!("-c {argument}: there is no such option"))
                .hint("a configuration file is read with -c options=FILE"));
        }
    };
    let mut text = Vec::new();
    let file = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text));
    file.map_err(|error| Failure::host(path, &error))?;
    let shown = names::in_message(path.as_encoded_bytes());
    let text = String::from_utf8(text).ok().filter(|text| text.len() as u64 <= MAX_BYTES);
    let text =
        text.ok_or_else(|| Failure::usage(format!("{shown}: is not a configuration file")))?;
    options.parse_configuration(&text).map_err(|error| option_failure(&error).about(&shown))
}
