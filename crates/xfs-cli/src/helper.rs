//! The program as a helper of mount(8), which calls it `mount.TYPE DEVICE DIR [-sfnv] [-N namespace]
//! [-o options] [-t type]`.
//!
//! Owns: saying that in the words of the command `mount`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What the program is called as a helper begins so.
const PREFIX: &[u8] = b"mount.";

/// The arguments of the program, those of a helper in the words of the command `mount`.
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
            // The type is known, being verbose is not; another namespace is left to fail by its name.
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
