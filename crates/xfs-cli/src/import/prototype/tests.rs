//! Tests of parsing prototype files: the files that they describe, and the messages about invalid
//! lines.

use super::*;

/// Parses a prototype file. Returns one line for each file: path, mode, owner, and the size and
/// source of its contents, its link target, or its device number.
fn shown(text: &str, reading: PrototypeOptions) -> Result<String, String> {
    let tree = Prototype::parse(text.as_bytes(), reading).map_err(|error| error.to_string())?;
    let mut lines = String::new();
    let mut open = vec![(String::new(), 0)];
    while let Some((path, number)) = open.pop() {
        let PrototypeFile { facts, what } = &tree.files[number];
        let what = match what {
            PrototypeKind::Directory(entries) => {
                let name = |name: &[u8]| format!("{path}/{}", String::from_utf8_lossy(name));
                open.extend(entries.iter().rev().map(|(each, number)| (name(each), *number)));
                String::new()
            }
            PrototypeKind::Contents(path) => format!("{} of {}", facts.size, path.display()),
            PrototypeKind::Target(target) => String::from_utf8_lossy(target).into_owned(),
            PrototypeKind::Nothing => format!("{:?}", facts.device),
        };
        let Facts { uid, gid, .. } = facts;
        lines.push_str(&format!("{path} {} {uid}:{gid} {what}\n", facts.mode_text()));
    }
    Ok(lines)
}

#[test]
fn example_of_the_man_page_is_read() {
    let text = "/stand/diskboot
4872 110
d--777 3 1
usr\td--777 3 1
sh   -ug755 3 1 /dev/../etc/passwd
ken  d--755 6 1
     $
b0   b--644 3 1 0 7
c0   c--644 3 1 5 0
fifo p--644 3 1
a/b: l--644 3 1 /a/symbolic/link
 :  This is a comment line $
$
$
what comes behind the end
";
    let size = fs::metadata("/etc/passwd").unwrap().len();
    let expected = format!(
        " drwxrwxrwx 3:1 
/usr drwxrwxrwx 3:1 
/usr/sh -rwsr-sr-x 3:1 {size} of /dev/../etc/passwd
/usr/ken drwxr-xr-x 6:1 
/usr/b0 brw-r--r-- 3:1 (0, 7)
/usr/c0 crw-r--r-- 3:1 (5, 0)
/usr/fifo prw-r--r-- 3:1 (0, 0)
/usr/a/b: lrw-r--r-- 3:1 /a/symbolic/link
"
    );
    assert_eq!(shown(text, PrototypeOptions::default()).unwrap(), expected);
    let reading = PrototypeOptions { slashes_are_spaces: true, ..PrototypeOptions::default() };
    assert!(shown(text, reading).unwrap().contains("/usr/a b: lrw"));
}

#[test]
fn end_of_text_ends_all_directories() {
    let text = "x 0 0 d--755 0 0 a d--700 1 2 b p--600 1 2";
    let expected = " drwxr-xr-x 0:0 \n/a drwx------ 1:2 \n/a/b prw------- 1:2 (0, 0)\n";
    assert_eq!(shown(text, PrototypeOptions::default()).unwrap(), expected);
}

#[test]
fn deep_prototype_needs_no_stack() {
    let text = format!("x 0 0 d--755 0 0 {}", "d d--755 0 0 ".repeat(100_000));
    let tree = Prototype::parse(text.as_bytes(), PrototypeOptions::default()).unwrap();
    assert_eq!(tree.files.len(), 100_001);
}

#[test]
fn prototype_errors_name_the_line() {
    let refused = |text: &str, why: &str| {
        let said = shown(text, PrototypeOptions::default()).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    };
    refused("", "is empty");
    refused("a b c\n", "line 1: b is not a number");
    refused("/\n0 0\n---755 0 0 /etc/passwd\n", "line 3: begins with a file");
    refused("/\n0 0\nd--755 0 0\na\nx--644", "line 5: x--644 is not a mode");
    for mode in ["-xy644", "---689", "---64", "d--1777", "---+64", "-"] {
        refused(&format!("/ 0 0 d--755 0 0 a {mode} 0 0"), "is not a mode");
    }
    refused("/ 0 0 d--755 0 0 a p--644 0 -1", "-1 is not a number");
    refused("/ 0 0 d--755 0 0 a b--644 0 0 1", "ends in the middle");
    refused("/ 0 0 d--755 0 0 a ---644 0 0 /no/such/file", "/no/such/file: No such file");
    refused("/ 0 0 d--755 0 0 a ---644 0 0 /", "/ is not a regular file");
}
