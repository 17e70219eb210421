//! The scene of a test case: its files, with random permissions and flags.
//!
//! ```text
//!  case-N ─┬─ d ─┬─ f      the target of most operations
//!          │     └─ s      a directory
//!          └─ e ─── g      the file that is replaced, shared, exchanged
//! ```

use ferroxfs::attr::Acl;
use ferroxfs::attr::{AclEntry, AclTag};
use ferroxfs::raw::format::acl::encode_posix_xattr;
use xfs_oracle::Random;

use super::actor::{GROUPS, USERS, pick};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Regular,
    Directory,
    Fifo,
    /// A symbolic link to `../e/g`.
    Symlink,
}

/// The flag that keeps a file from being changed: none, immutable or append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    None,
    Immutable,
    Append,
}

/// A file of a scene, with its permissions.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: &'static str,
    pub(super) kind: Kind,
    pub(super) mode: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The access list, and in the next field the default list, both in the format of
    /// `system.posix_acl_access`.
    pub(super) access: Option<Vec<u8>>,
    pub(super) default: Option<Vec<u8>>,
    pub(super) guard: Guard,
    pub(super) is_capable: bool,
}

/// All files of a scene, each directory before its entries.
#[derive(Debug)]
pub(super) struct Scene(pub(super) Vec<Found>);

impl Scene {
    pub(super) fn random(random: &mut Random) -> Self {
        use Kind::{Directory, Fifo, Regular, Symlink};
        let mut kind = || match random.below(12) {
            0..7 => Regular,
            7..10 => Directory,
            10 => Fifo,
            _ => Symlink,
        };
        let (file, other) = (kind(), kind());
        let mut found = vec![
            Found::random("d", Directory, random),
            Found::random("e", Directory, random),
            Found::random("d/f", file, random),
            Found::random("d/s", Directory, random),
        ];
        if random.below(3) > 0 {
            let other = if other == Symlink { Regular } else { other };
            found.push(Found::random("e/g", other, random));
        }
        Self(found)
    }

    /// Turns `d/f` and `e/g` into regular files that are not append-only.
    pub(super) fn give_contents(&mut self) {
        for file in self.0.iter_mut().filter(|found| matches!(found.path, "d/f" | "e/g")) {
            file.kind = Kind::Regular;
            file.default = None;
            if file.guard == Guard::Append {
                file.guard = Guard::None;
            }
        }
    }
}

impl Found {
    fn random(path: &'static str, kind: Kind, random: &mut Random) -> Self {
        let all = if kind == Kind::Directory { 0o777 } else { 0o666 };
        let mut mode = match random.below(4) {
            0 => all,
            1 => random.below(0o1000) as u16,
            2 => pick(random, &[0o755, 0o711, 0o700, 0o750, 0o770, 0o644]),
            _ => pick(random, &[0o777, 0o070, 0o007, 0o707, 0o775]),
        };
        for special in [0o4000, 0o2000, 0o1000] {
            mode |= if random.below(5) == 0 { special } else { 0 };
        }
        let has_list = kind != Kind::Symlink && random.below(3) == 0;
        let has_default = kind == Kind::Directory && random.below(4) == 0;
        let guard = match random.below(24) {
            0 if matches!(kind, Kind::Regular | Kind::Directory) => Guard::Immutable,
            1 if matches!(kind, Kind::Regular | Kind::Directory) => Guard::Append,
            _ => Guard::None,
        };
        Self {
            path,
            kind,
            mode: if kind == Kind::Symlink { 0o777 } else { mode },
            uid: pick(random, &USERS),
            gid: pick(random, &GROUPS),
            access: has_list.then(|| list(random)),
            default: has_default.then(|| list(random)),
            guard,
            is_capable: kind == Kind::Regular && random.below(6) == 0,
        }
    }
}

/// Returns a random access control list in the format of `system.posix_acl_access`.
pub(super) fn list(random: &mut Random) -> Vec<u8> {
    let mut permissions = || pick(random, &[0, 1, 2, 3, 4, 5, 6, 7, 7]);
    let entry = |tag, permissions| AclEntry { tag, permissions };
    let [owner, user, second, group, named, mask, other] = [(); 7].map(|()| permissions());
    if random.below(6) == 0 {
        let mode = owner << 6 | group << 3 | other;
        return encode_posix_xattr(Acl::from_mode(mode).entries());
    }
    let mut entries = vec![entry(AclTag::Owner, owner)];
    entries.push(entry(AclTag::User(1000), user));
    if random.below(2) == 0 {
        entries.push(entry(AclTag::User(1001), second));
    }
    entries.push(entry(AclTag::OwningGroup, group));
    if random.below(2) == 0 {
        entries.push(entry(AclTag::Group(2000), named));
    }
    if random.below(2) == 0 {
        entries.push(entry(AclTag::Group(2001), second));
    }
    entries.push(entry(AclTag::Mask, mask));
    entries.push(entry(AclTag::Other, other));
    encode_posix_xattr(&entries)
}
