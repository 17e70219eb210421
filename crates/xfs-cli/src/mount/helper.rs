//! Calls of the program by mount(8), which calls a helper as `mount.TYPE DEVICE DIR [-sfnv] [-N
//! namespace] [-o options] [-t type]`.
//!
//! Owns: the conversion of these arguments to arguments of the command `mount`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The prefix of the program's name when mount(8) calls it.
const PREFIX: &[u8] = b"mount.";

/// Returns the arguments of the program. If mount(8) has called the program, the arguments are
/// converted to those of the command `mount`.
pub(crate) fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let given: Vec<_> = given.into_iter().collect();
    let name = given.first().and_then(|program| Path::new(program).file_name());
    if !name.is_some_and(|name| name.as_bytes().starts_with(PREFIX)) {
        return given;
    }
    let mut words = vec![OsString::from("ferroxfs"), "mount".into()];
    let mut rest = given.into_iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_bytes() {
            // The type is known, and -v means something else here. Another namespace fails as an
            // unknown option.
            b"-t" => drop(rest.next()),
            [b'-', letters @ ..]
                if !letters.is_empty() && letters.iter().all(|l| b"snv".contains(l)) => {}
            b"-f" => return vec!["ferroxfs".into(), "--version".into()],
            _ if word == OsStr::new("-o") => words.extend([word].into_iter().chain(rest.next())),
            _ => words.push(word),
        }
    }
    words
}

#[cfg(test)]
mod tests;
