use std::ffi::OsString;

use super::arguments;

fn check(given: &str, expected: &str) {
    let words = arguments(given.split(' ').map(OsString::from));
    let words: Vec<_> = words.iter().filter_map(|word| word.to_str()).collect();
    assert_eq!(words.join(" "), expected);
}

#[test]
fn helper_mounts() {
    check(
        "/sbin/mount.fuse.ferroxfs /a /b -sv -n -o rw,noatime -t fuse.ferroxfs",
        "ferroxfs mount /a /b -o rw,noatime",
    );
    check("mount.ferroxfs /a /b -f", "ferroxfs --version");
}

#[test]
fn program_itself_is_left_alone() {
    check("/bin/ferroxfs mount -f /a /b", "/bin/ferroxfs mount -f /a /b");
    check("mount", "mount");
}
