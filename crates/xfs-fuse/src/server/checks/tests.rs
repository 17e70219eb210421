use ferroxfs::Access;

use super::access_of;

#[test]
fn open_flags_map_to_permissions() {
    const APPEND: u32 = 0o2000;
    for (flags, expected) in [
        (0, Access::READ),
        (APPEND, Access::READ),
        (1, Access::WRITE),
        (1 | APPEND, Access::WRITE),
        (2, Access::READ | Access::WRITE),
        (3, Access::READ | Access::WRITE),
        (0x20, Access::EXECUTE),
    ] {
        assert_eq!(access_of(flags), expected, "{flags:o}");
    }
}
