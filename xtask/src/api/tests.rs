use serde_json::json;

use super::{LISTING, changes, listing};
use crate::{tidy, workspace_root};

/// Checks that the listing of these sources has the lines `expected`. `files` are the paths and
/// texts of the files of two crates, `ferroxfs` and `below`.
fn check(files: &[(&str, &str)], expected: &[&str]) {
    let package = |name: &str| {
        let path = format!("/project/{name}/src/lib.rs");
        json!({ "targets": [{ "kind": ["lib"], "name": name, "src_path": path }], "features": {} })
    };
    let metadata = json!({ "workspace_root": "/project", "packages": [package("ferroxfs"), package("below")] });
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let listing = listing(&metadata, files.collect()).unwrap();
    assert_eq!(listing.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn types_have_their_fields_variants_methods_and_traits() {
    let text = "
        #[derive(Clone)] #[non_exhaustive] pub struct A { pub a: [u8; 4], b: u8 }
        pub enum B { One, Two(u8), Three { x: u8 } }
        impl A {
            /// Text.
            pub const fn new(size: &'static mut [u8]) -> Self { todo() }
            pub(crate) fn hidden(&self) {}
            #[doc(hidden)] pub fn undocumented(&self) {}
        }
        impl Iterator for A { type Item = u8; fn next(&mut self) -> Option<u8> { None } }
        impl From<A> for std::io::Error { fn from(a: A) -> Self { todo() } }
        pub(crate) struct C;";
    let expected = [
        "#[non_exhaustive] pub struct ferroxfs::A",
        "ferroxfs::B::One",
        "ferroxfs::B::Three { x: u8 }",
        "ferroxfs::B::Two(u8)",
        "impl Clone for ferroxfs::A",
        "impl From<A> for std::io::Error",
        "impl Iterator for ferroxfs::A { type Item = u8 }",
        "pub const fn ferroxfs::A::new(size: &'static mut [u8]) -> Self",
        "pub enum ferroxfs::B",
        "pub ferroxfs::A::a: [u8; 4]",
    ];
    check(&[("ferroxfs/src/lib.rs", text)], &expected);
}

#[test]
fn reexports_are_followed_to_their_definition() {
    let files = [
        (
            "ferroxfs/src/lib.rs",
            "mod inner; pub use inner::inner; pub use below::{Far as Near, many::*};",
        ),
        ("ferroxfs/src/inner.rs", "pub fn inner(a: u8) {} pub fn other() {}"),
        (
            "below/src/lib.rs",
            "mod deep; pub use deep::Far; pub mod many { pub trait T { fn t(&self); } }",
        ),
        (
            "below/src/deep.rs",
            "pub struct Far(pub u8, u8); impl crate::deep::Far { pub fn go(&self) {} }
            impl super::many::T for Far { fn t(&self) {} } trait P {} impl P for Far {}",
        ),
    ];
    let expected = [
        "fn ferroxfs::T::t(&self)",
        "impl super::many::T for ferroxfs::Near",
        "pub fn ferroxfs::Near::go(&self)",
        "pub fn ferroxfs::inner(a: u8)",
        "pub struct ferroxfs::Near(pub u8, _)",
        "pub trait ferroxfs::T",
    ];
    check(&files, &expected);
}

#[test]
fn items_of_tests_and_of_features_are_left_out() {
    let text = r#"
        #[cfg(test)] mod tests;
        #[cfg(feature = "raw")] pub mod raw { pub struct Raw; }
        #[cfg(all(unix, not(feature = "raw")))] pub fn plain() {}
        pub mod stats { pub use uuid::Uuid; }"#;
    let expected = [
        "pub fn ferroxfs::plain()",
        "pub mod ferroxfs::stats",
        "pub use uuid::Uuid as ferroxfs::stats::Uuid",
    ];
    check(&[("ferroxfs/src/lib.rs", text)], &expected);
}

#[test]
fn call_of_a_macro_is_listed_as_it_is() {
    let text = "mod flags { bitflags! { /// Text.
        pub struct Flags: u8 { /// More.
            const A = 1; } } } pub use flags::Flags;";
    let expected = ["ferroxfs::Flags = bitflags! { pub struct Flags: u8 { const A = 1; } }"];
    check(&[("ferroxfs/src/lib.rs", text)], &expected);
}

#[test]
fn changes_are_the_lines_of_one_listing() {
    assert_eq!(changes("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
    assert_eq!(changes("a\n", "a\n"), [] as [&str; 0]);
}

/// Checks that the source files of the library's crates are found, and that the committed listing
/// has the main types of the library.
#[test]
fn listing_of_the_project_has_the_main_types() {
    let root = workspace_root();
    let files = tidy::rust_files(&root).unwrap();
    let names = ["crates/ferroxfs", "crates/xfs-vfs", "crates/xfs-format"];
    assert!(names.iter().all(|name| files.iter().any(|(path, _)| path.starts_with(name))));
    let committed = std::fs::read_to_string(root.join(LISTING)).unwrap();
    for line in
        ["pub struct ferroxfs::Volume", "pub enum ferroxfs::Error", "pub struct ferroxfs::Node"]
    {
        let is_there = committed.lines().any(|own| own.starts_with(line) || own.ends_with(line));
        assert!(is_there, "{line}");
    }
}

#[test]
fn items_of_a_stable_feature_name_the_feature() {
    let text = r#"
        pub struct A;
        impl A {
            #[cfg(feature = "disk-images")] pub fn image(&self) {}
            #[cfg(feature = "raw")] pub fn raw(&self) {}
        }
        #[cfg(feature = "object_store")] pub use below::Remote;"#;
    let files = [("ferroxfs/src/lib.rs", text), ("below/src/lib.rs", "pub struct Remote(u8);")];
    let expected = [
        "#[cfg(feature = \"disk-images\")] pub fn ferroxfs::A::image(&self)",
        "#[cfg(feature = \"object_store\")] pub struct ferroxfs::Remote(_)",
        "pub struct ferroxfs::A",
    ];
    check(&files, &expected);
}
