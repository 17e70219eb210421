//! Tests of completing paths in images, by the hidden command and in a shell.

use std::fs;
use std::process::Command;

use crate::changing::VolumeDir;

/// Returns a volume with a few files, directories and a link, whose names are completed.
fn furnished() -> VolumeDir {
    let place = VolumeDir::new();
    place.check(&["mkdir", "-p", "image:/etc/conf.d", "image:/a b"]);
    place.check(&["touch", "image:/etc/hosts", "image:/etc/hostname", "image:/etc/.hidden"]);
    place.check(&["ln", "-s", "etc", "image:/elsewhere"]);
    place
}

#[test]
fn paths_are_completed_from_the_directory_in_the_image() {
    let place = furnished();
    let complete = |words: &[&str]| place.check(&[&["complete", "--"], words].concat());
    let hosts = "image:/etc/hostname\nimage:/etc/hosts\n";
    assert_eq!(complete(&["cat", "image:/etc/ho"]), hosts);
    assert_eq!(complete(&["ls", "image:/etc/c"]), "image:/etc/conf.d/\n");
    assert_eq!(complete(&["ls", "image:/etc/."]), "image:/etc/.hidden\n");
    // A symbolic link to a directory is entered too.
    assert_eq!(complete(&["ls", "image:/e"]), "image:/elsewhere/\nimage:/etc/\n");
    assert_eq!(complete(&["ls", "image:/elsewhere/hosts"]), "image:/elsewhere/hosts\n");
    assert_eq!(complete(&["--image", "image", "cat", "/etc/hostn"]), "/etc/hostname\n");
    assert_eq!(complete(&["--image=image", "cat", "etc/hostn"]), "etc/hostname\n");
}

#[test]
fn incomplete_word_without_image_prints_nothing() {
    let place = furnished();
    fs::write(place.path("text"), "text").unwrap();
    for word in ["image:/none/x", "image:/etc/hosts/x", "none:/", "text:/", "image", "", "--", "-x"]
    {
        let output = place.command(&["complete", "--", "ls", word]).output().unwrap();
        assert!(output.status.success(), "{word}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{word}");
    }
    assert!(!place.check(&["--help"]).contains("complete "), "it is hidden");
}

#[test]
fn bash_completes_paths_in_images() {
    let place = furnished();
    fs::write(place.path("script"), place.check(&["completions", "bash"])).unwrap();
    // As readline calls it: the line, the cursor, and its own division into words.
    let complete = |line: &str, breaks: &str| {
        let script = r#"source ./script
            COMP_WORDBREAKS=$2 COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=${#COMP_WORDS[@]}
            _ferroxfs_in_images ferroxfs "" ""
            printf '%s\n' "${COMPREPLY[@]}""#;
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_ferroxfs")).parent().unwrap();
        let path = format!("{}:/usr/bin:/bin", program.display());
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "bash", line, breaks]).current_dir(place.path("."));
        let output = bash.env("PATH", path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("ferroxfs cat image:/etc/ho", " \t:="), "/etc/hostname\n/etc/hosts\n");
    let whole = "image:/etc/hostname\nimage:/etc/hosts\n";
    assert_eq!(complete("ferroxfs cat image:/etc/ho", " \t"), whole);
    assert_eq!(complete("ferroxfs ls image:/a", " \t:="), "/a\\ b/\n");
    assert_eq!(complete("ferroxfs ls image:/a\\ b", " \t:="), "/a\\ b/\n");
    assert_eq!(complete("ferroxfs --image image cat /etc/hostn", " \t:="), "/etc/hostname\n");
    // Other words are completed as before.
    assert!(complete("ferroxfs umo", " \t:=").contains("umount"));
}

#[test]
fn scripts_of_other_shells_call_the_program() {
    let place = VolumeDir::new();
    for shell in ["zsh", "fish"] {
        let script = place.check(&["completions", shell]);
        assert!(script.contains(" complete -- "), "{shell}");
        fs::write(place.path("script"), script).unwrap();
        // If the shell is installed, it parses the script.
        let syntax = Command::new(shell).arg("-n").arg(place.path("script")).output();
        if let Ok(output) = syntax {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
