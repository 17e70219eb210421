use std::path::Path;

use super::{row, unescape};

const TABLE: &str = "\
30 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
40 30 0:5 / /mnt/a\\040b rw,nosuid,nodev - fuse.ferroxfs /srv/an\\040image rw,user_id=0
41 30 0:6 / /mnt/b rw,nosuid shared:1 - fuse.ferroxfs image ro,user_id=0
42 30 0:7 / /mnt/c ro,nosuid - fuse.ferroxfs image rw,user_id=0
43 41 0:8 / /mnt/b rw - tmpfs none rw
";

#[test]
fn mount_table_shows_a_mount_made_read_only() {
    let seen = |folder| row(TABLE, Path::new(folder)).is_some_and(|row| row.is_read_only());
    assert_eq!(
        ["/mnt/a b", "/mnt/b", "/mnt/c", "/", "/mnt"].map(seen),
        [false, true, true, false, false]
    );
}

#[test]
fn mount_table_yields_unescaped_sources() {
    let source = |folder| row(TABLE, Path::new(folder)).map(|row| unescape(row.source));
    assert_eq!(source("/mnt/a b"), Some(b"/srv/an image".to_vec()));
    assert_eq!(source("/"), None);
    for (escaped, bytes) in [("a\\134b", "a\\b"), ("\\04", "\\04"), ("\\899", "\\899")] {
        assert_eq!(unescape(escaped), bytes.as_bytes(), "{escaped}");
    }
}
