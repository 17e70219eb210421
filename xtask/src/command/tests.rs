use std::process::Command;

use super::{is_in_path, line};

#[test]
fn program_is_shown_as_it_can_be_typed() {
    assert!(is_in_path("sh") && !is_in_path("no-such-program"));
    assert_eq!(line(Command::new("/somewhere/bin/sh").arg("-c")), "sh -c");
    assert_eq!(line(&Command::new("/somewhere/no-such-program")), "/somewhere/no-such-program");
    assert_eq!(line(&Command::new("target/debug/sh")), "target/debug/sh");
}
