//! Tests of those promises of the public API that the compiler cannot check: the number of names at
//! the root of the crate, and the conversion of errors to those of `std::io`.

use std::collections::BTreeSet;
use std::io;

use ferroxfs::admin::GrowError;
use ferroxfs::error::Unsupported;
use ferroxfs::{Error, OpenError, OpenOptions, PosixError, Volume};
use xfs_trans::testing::{make, make_file};

/// The most names that the root of the crate may export. Modules are not counted.
const MOST_ROOT_NAMES: usize = 30;

/// Returns the names that `lib.rs` exports at the root.
fn root_names(source: &str) -> BTreeSet<String> {
    let statements = source.split(';').map(str::trim);
    let mut names = BTreeSet::new();
    for statement in statements {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        // Modules come from `api`.
        if path.starts_with("api::") {
            continue;
        }
        let (before, list) = path.split_once('{').unwrap_or((path, ""));
        match list.trim_end_matches('}') {
            "" => names.extend(before.rsplit("::").next().map(str::to_owned)),
            list => {
                let list = list.split(',').map(str::trim).filter(|name| !name.is_empty());
                names.extend(list.map(str::to_owned));
            }
        }
    }
    names
}

#[test]
fn root_of_the_crate_has_few_names() {
    let source = include_str!("../../src/lib.rs");
    let names = root_names(source);
    assert!(names.contains("Volume") && names.contains("Error"), "{names:?}");
    assert!(names.len() <= MOST_ROOT_NAMES, "{} names: {names:?}", names.len());
    let defined = ["pub fn ", "pub struct ", "pub enum ", "pub trait ", "pub type ", "pub const "];
    let defined = defined.iter().filter(|kind| source.contains(&format!("\n{kind}")));
    assert_eq!(defined.count(), 0, "a name is defined in lib.rs, where it is not counted");
    assert!(!source.contains("::*"), "a glob is not counted");
}

#[test]
fn root_names_are_counted_in_lists_and_alone() {
    let source = "mod a;\npub use api::{x, y};\npub use a::B;\npub use c::{\n    D, E,\n};";
    let expected = ["B", "D", "E"].map(str::to_owned);
    assert_eq!(root_names(source), expected.into_iter().collect());
}

#[test]
fn error_is_an_io_error_with_the_kind_of_its_errno() {
    let volume = OpenOptions::new().open_device(make()).unwrap();
    let error = volume.lookup("/missing").unwrap_err();
    assert_eq!(error.errno(), 2);
    let error = io::Error::from(error);
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>());
    assert!(matches!(source, Some(Error::Posix(PosixError::NotFound))));
    let refused = volume.write("/new", b"").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn errors_of_opening_have_the_kind_of_their_cause() {
    let kind = |error: OpenError| io::Error::from(error).kind();
    let (folder, image) = make_file();
    assert_eq!(
        kind(Volume::open(folder.path().join("none")).unwrap_err()),
        io::ErrorKind::NotFound
    );
    let plain = folder.path().join("plain");
    std::fs::write(&plain, [1; 4096]).unwrap();
    assert_eq!(kind(Volume::open(&plain).unwrap_err()), io::ErrorKind::InvalidData);
    let volume = OpenOptions::new().write(true).open(&image).unwrap();
    assert_eq!(kind(Volume::open(&image).unwrap_err()), io::ErrorKind::ResourceBusy);
    let shrink = volume.grow(Some(1)).unwrap_err();
    assert!(matches!(shrink, GrowError::Shrinks { .. }));
    assert_eq!(io::Error::from(shrink).kind(), io::ErrorKind::InvalidInput);
    let refused = OpenError::Volume(Unsupported::NeedsRepair.into());
    assert_eq!(kind(refused), io::ErrorKind::Unsupported);
}

#[test]
fn default_features_show_no_layer_below() {
    let manifest = include_str!("../../Cargo.toml");
    assert!(manifest.contains("\nraw = []") && manifest.contains("\nbench = []"));
    assert!(!manifest.contains("\ndefault"), "a default feature may enable them");
    let modules = include_str!("../../src/lib.rs");
    for name in ["raw", "bench"] {
        let gated = format!("#[cfg(feature = \"{name}\")]\npub use api::{name};");
        assert!(modules.contains(&gated), "{name} is not behind its feature");
    }
}
