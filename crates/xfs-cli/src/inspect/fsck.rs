//! The program as a checker of fsck(8), which calls it as `fsck.TYPE [-a|-p|-n|-y] [-C FD] DEVICE`.
//!
//! Owns: the conversion to arguments of the command `check`, and the exit codes of fsck(8).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::cli::{self, Command};
use crate::exit::Exit;

/// The prefix of the program's name as a checker.
const PREFIX: &[u8] = b"fsck.";

/// Returns the arguments of the program, with those of fsck(8) converted to the command `check`.
/// The options that ask for a repair are dropped: `check` never changes a volume.
pub(crate) fn arguments(given: Vec<OsString>) -> Vec<OsString> {
    let name = given.first().and_then(|program| Path::new(program).file_name());
    if !name.is_some_and(|name| name.as_bytes().starts_with(PREFIX)) {
        return given;
    }
    let mut words = vec![OsString::from("ferroxfs"), "check".into()];
    let mut rest = given.into_iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_bytes() {
            b"-C" | b"-t" => drop(rest.next()),
            b"-a" | b"-p" | b"-n" | b"-y" | b"-f" | b"-v" | b"-T" | b"-M" => {}
            [b'-', b'C', ..] => {}
            _ => words.push(word),
        }
    }
    words
}

/// Returns whether a command has the exit codes of fsck(8).
pub(crate) fn has_codes_of_fsck(command: &Command) -> bool {
    matches!(command, Command::Check(_) | Command::Repair(_))
}

/// Returns whether these arguments, which are not valid, name a command with the exit codes of
/// fsck(8).
pub(crate) fn names_command_of_fsck(arguments: &[OsString]) -> bool {
    cli::command_word(arguments).is_some_and(|word| word == "check" || word == "repair")
}

/// Converts the exit code of a check or a repair to that of fsck(8).
pub(crate) fn code_of(exit: Exit) -> u8 {
    match exit {
        Exit::Fine => 0,
        Exit::Repaired => 1,
        Exit::Corrupt => 4,
        Exit::Failed | Exit::Different | Exit::Refused | Exit::LogDirty => 8,
        Exit::Usage => 16,
        Exit::HungUp | Exit::Interrupted | Exit::Unread | Exit::Terminated => 32,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{arguments, names_command_of_fsck};

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn options_of_fsck_are_dropped() {
        let given = words("/sbin/fsck.ferroxfs -a -C0 -C 3 -T disk.img");
        assert_eq!(arguments(given), words("ferroxfs check disk.img"));
    }

    #[test]
    fn arguments_of_another_name_stay() {
        let given = words("ferroxfs check -a disk.img");
        assert_eq!(arguments(given.clone()), given);
    }

    #[test]
    fn command_is_the_first_word_that_is_not_an_option() {
        assert!(names_command_of_fsck(&words("ferroxfs -q check disk.img")));
        assert!(names_command_of_fsck(&words("ferroxfs repair --plan disk.img")));
        assert!(names_command_of_fsck(&words("ferroxfs --color never check disk.img")));
        assert!(names_command_of_fsck(&words("ferroxfs --offset 1m repair --no-such disk.img")));
        assert!(names_command_of_fsck(&words("ferroxfs --color=never -q check disk.img")));
        assert!(!names_command_of_fsck(&words("ferroxfs --image check ls /")));
        assert!(!names_command_of_fsck(&words("ferroxfs ls check")));
        assert!(!names_command_of_fsck(&words("ferroxfs")));
    }
}
