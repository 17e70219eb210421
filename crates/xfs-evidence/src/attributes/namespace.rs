//! The namespace of an attribute whose flags are damaged.
//!
//! Owns: the choice of the namespace that the flags meant before the damage. The flags of that
//! namespace differ from the stored flags by the fewest bits. A parent pointer is recognised by its
//! value, or by its hash in a leaf.

use xfs_format::attr::{AttrFlags, Namespace};

use super::AttributeDoubt;

/// All namespaces that an attribute can be in.
const ALL: [Namespace; 4] =
    [Namespace::User, Namespace::Trusted, Namespace::Security, Namespace::Parent];

/// The names, or starts of names, that Linux uses in the namespace "security".
const SECURITY_NAMES: [&[u8]; 6] =
    [b"selinux", b"capability", b"ima", b"evm", b"apparmor", b"SMACK64"];

/// The namespace that damaged flags most likely meant before the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeantNamespace {
    pub(super) namespace: Namespace,
    /// Whether no other namespace can be meant.
    pub(super) is_certain: bool,
}

impl MeantNamespace {
    /// Returns the doubt about the attribute's namespace, or `None` if the namespace is certain.
    pub(super) fn doubt(self) -> Option<AttributeDoubt> {
        (!self.is_certain).then_some(AttributeDoubt::Namespace)
    }
}

/// Returns the namespace in the flags of the short form. Returns `None` if the flags are
/// impossible there.
pub(super) fn of_short_flags(flags: u8) -> Option<Namespace> {
    let namespace = Namespace::from_flags(AttrFlags::from_bits(flags)?)?;
    (namespace.flags().bits() == flags).then_some(namespace)
}

/// Returns the namespace that damaged flags meant before the damage. The damaged flags name no
/// possible namespace. `fits` says whether the rest of the attribute is possible in a namespace.
/// Returns `None` if no namespace fits.
///
/// An attribute that can be a parent pointer is taken as one. If several other namespaces are
/// possible, the name decides. If the name does not decide, the namespace is "trusted", because
/// only the administrator can read the attribute there.
pub(super) fn meant(
    flags: u8,
    name: &[u8],
    fits: impl Fn(Namespace) -> bool,
) -> Option<MeantNamespace> {
    // The flag for local values says nothing about the namespace.
    let stated = flags & !AttrFlags::LOCAL.bits();
    let distance = |namespace: &Namespace| (namespace.flags().bits() ^ stated).count_ones();
    let fitting: Vec<Namespace> = ALL.into_iter().filter(|namespace| fits(*namespace)).collect();
    let nearest = fitting.iter().map(distance).min()?;
    let candidates: Vec<Namespace> =
        fitting.into_iter().filter(|namespace| distance(namespace) == nearest).collect();
    let certain = |namespace| Some(MeantNamespace { namespace, is_certain: true });
    match candidates.as_slice() {
        [only] => certain(*only),
        several if several.contains(&Namespace::Parent) => certain(Namespace::Parent),
        _ => Some(MeantNamespace { namespace: by_name(name), is_certain: false }),
    }
}

fn by_name(name: &[u8]) -> Namespace {
    match SECURITY_NAMES.iter().any(|known| name.starts_with(known)) {
        true => Namespace::Security,
        false => Namespace::Trusted,
    }
}

#[cfg(test)]
mod tests {
    use super::{MeantNamespace, meant, of_short_flags};
    use xfs_format::attr::Namespace;

    fn certain(namespace: Namespace) -> MeantNamespace {
        MeantNamespace { namespace, is_certain: true }
    }

    fn doubtful(namespace: Namespace) -> MeantNamespace {
        MeantNamespace { namespace, is_certain: false }
    }

    /// Finds the namespace of damaged flags and compares it with the expected one. `is_pointer`
    /// says whether the value is possible for a parent pointer.
    fn check(flags: u8, name: &[u8], is_pointer: bool, expected: MeantNamespace) {
        let found = meant(flags, name, |namespace| namespace != Namespace::Parent || is_pointer);
        assert_eq!(found, Some(expected), "flags {flags:#x}");
    }

    #[test]
    fn unknown_bit_in_flags_leaves_the_namespace_certain() {
        check(0x10, b"a", false, certain(Namespace::User));
        check(0x42, b"a", false, certain(Namespace::Trusted));
        assert_eq!(of_short_flags(0x10), None);
    }

    #[test]
    fn flags_of_a_pointer_and_another_namespace_are_decided_by_the_value() {
        check(0x0c, b"a", true, certain(Namespace::Parent));
        check(0x0c, b"a", false, certain(Namespace::Security));
        check(0x08, b"a", false, certain(Namespace::User));
    }

    #[test]
    fn flags_of_two_namespaces_are_decided_by_the_name() {
        check(0x06, b"selinux", false, doubtful(Namespace::Security));
        check(0x06, b"SGI_ACL_FILE", false, doubtful(Namespace::Trusted));
    }
}
