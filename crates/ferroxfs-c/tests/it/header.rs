//! The committed header is the one that the sources give.

use std::fs;
use std::path::Path;

/// Environment variable with which the test writes the header: `cargo xtask c --header`.
const WRITE: &str = "FERROXFS_WRITE_HEADER";

/// The files with functions for C, in the order of the header.
const ORDER: [&str; 10] = [
    "error.rs",
    "options.rs",
    "device.rs",
    "volume.rs",
    "node.rs",
    "names.rs",
    "file.rs",
    "directory.rs",
    "attributes.rs",
    "mkfs.rs",
];

#[test]
fn header_has_every_function() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(package.join("include/ferroxfs.h")).unwrap();
    let mut count = 0;
    for entry in fs::read_dir(package.join("src")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for declaration in text.split("extern \"C\" fn ferroxfs_").skip(1) {
            let name = declaration.split('(').next().unwrap();
            assert!(header.contains(&format!("ferroxfs_{name}(")), "{name} of {}", path.display());
            count += 1;
        }
    }
    assert!(count > 50, "only {count} functions were found");
}

#[test]
fn header_equals_the_one_of_the_sources() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = package.join("include/ferroxfs.h");
    let made = header(package);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    let differing = committed.lines().zip(made.lines()).position(|(old, new)| old != new);
    assert!(
        committed == made,
        "include/ferroxfs.h is out of date from line {} on: run `cargo xtask c --header`",
        differing.unwrap_or(0) + 1
    );
}

fn header(package: &Path) -> String {
    let configuration = cbindgen::Config::from_file(package.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(configuration);
    for file in ORDER {
        builder = builder.with_src(package.join("src").join(file));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    // A C programmer has a contract where a Rust programmer has a safety section.
    String::from_utf8(text).unwrap().replace("# Safety\n *\n * ", "Contract: ")
}
