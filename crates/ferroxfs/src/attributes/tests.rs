use xfs_buffer::{Error, PosixError};
use xfs_dir::{NewAttribute, SetMode};
use xfs_format::attr::Namespace;
use xfs_trans::testing::make_with;

use crate::OpenOptions;

/// A volume can hold attribute names that are longer than Linux allows. Checks that such an
/// attribute can be read and removed, but not set.
#[test]
fn attribute_with_a_longer_name_than_linux_has_is_removable_only() {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with("")).unwrap();
    let root = volume.root().unwrap();
    let before = root.attributes().len();
    let longest = format!("user.{}", "n".repeat(250));
    root.set_attribute(&longest, b"value", SetMode::Create).unwrap();
    let longer = format!("{longest}n");
    let refused = root.set_attribute(&longer, b"value", SetMode::Create);
    assert!(matches!(refused, Err(Error::Posix(PosixError::OutOfRange))), "{refused:?}");
    let (context, entry) = root.op_context().unwrap();
    let (namespace, name) = (Namespace::User, &longer.as_bytes()["user.".len()..]);
    let attribute = NewAttribute { namespace, name, value: b"theirs" };
    context.set_attribute(entry, &attribute, SetMode::Create).unwrap();
    assert_eq!(root.attribute(longer.as_ref()).unwrap(), b"theirs");
    assert_eq!(root.attributes().len(), before + 2);
    root.remove_attribute(&longer).unwrap();
    assert_eq!(root.attributes().len(), before + 1);
}
