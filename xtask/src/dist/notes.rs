//! RELEASE-NOTES.md: the changes of this version, the files with their sizes and digests, and how a
//! user verifies them.

use std::fs;
use std::path::Path;

use super::archive::sha256;
use super::{Dist, VERSION};
use crate::error::Error;

const NAME: &str = "RELEASE-NOTES.md";

/// Ends of the names of files, each with a description of the file.
const KINDS: [(&str, &str); 10] = [
    ("_amd64.deb", "Debian package: program, man pages, completions, helper of mount(8), examples"),
    ("-oci.tar", "container image: the program and its licences, as an OCI archive"),
    ("-linux-gnu.tar.gz", "C library: header, shared and static library, file for pkg-config"),
    (".whl", "Python module `ferroxfs`"),
    ("-licences.txt", "licences of the crates in the Python module"),
    ("python-{VERSION}.cdx.json", "bill of materials of the Python module (CycloneDX)"),
    ("libferroxfs-{VERSION}.cdx.json", "bill of materials of the C library (CycloneDX)"),
    ("ferroxfs-{VERSION}.cdx.json", "bill of materials of the program (CycloneDX)"),
    (".profdata", "profile that guided the compiler of the program"),
    ("ferroxfs", "the program, static, for x86-64 Linux"),
];

/// Writes the notes on all files that are there.
pub(super) fn write(root: &Path, dist: &Dist) -> Result<(), Error> {
    let changelog = root.join("CHANGELOG.md");
    let changelog = fs::read_to_string(&changelog).map_err(Error::file(&changelog))?;
    let changes = changes(&changelog, VERSION)
        .ok_or_else(|| Error::Dist(format!("CHANGELOG.md has no section of version {VERSION}")))?;
    let mut rows = Vec::new();
    for name in dist.names()? {
        let path = dist.folder.join(&name);
        let bytes = fs::read(&path).map_err(Error::file(&path))?;
        let kind = kind(&name)
            .ok_or_else(|| Error::Dist(format!("xtask/src/dist/notes.rs does not know {name}")))?;
        let kib = bytes.len().div_ceil(1024);
        rows.push(format!("| `{name}` | {kind} | {kib} KiB | `{}` |\n", sha256(&bytes)?));
    }
    super::write(&dist.folder.join(NAME), &text(&changes, &rows.concat()))
}

/// Returns what a file with this name is.
fn kind(name: &str) -> Option<&'static str> {
    let is_end = |end: &str| name.ends_with(&end.replace("{VERSION}", VERSION));
    KINDS.into_iter().find(|(end, _)| is_end(end)).map(|(_, kind)| kind)
}

/// Returns the section of a version in the changelog, without its heading. The headings below are
/// as deep in the notes as in the changelog.
fn changes(changelog: &str, version: &str) -> Option<String> {
    let mut sections = changelog.split("\n## ").skip(1);
    let section = sections.find_map(|section| section.strip_prefix(version))?;
    let (heading, text) = section.split_once('\n')?;
    let is_this_version = heading.is_empty() || heading.starts_with([',', ' ']);
    is_this_version.then(|| text.trim().to_owned())
}

fn text(changes: &str, rows: &str) -> String {
    format!(
        "\
# ferroxfs {VERSION}

## Files

| file | contents | size | SHA-256 |
|---|---|---:|---|
{rows}
`SHA256SUMS` has the same digests, and that of these notes.

## Verify

```sh
sha256sum --check SHA256SUMS
```

The same sources and toolchain give the same bytes, at any path:

```sh
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) cargo xtask dist
diff SHA256SUMS target/dist/SHA256SUMS
```

## Install

```sh
sudo apt-get install ./ferroxfs_{VERSION}_amd64.deb
skopeo copy oci-archive:ferroxfs-{VERSION}-oci.tar containers-storage:ferroxfs:{VERSION}
cargo install ferroxfs-cli
```

The C library needs glibc of the Debian release on which it was built, or a newer one. Unpack it
anywhere, and name its folder `lib/pkgconfig` in `PKG_CONFIG_PATH`.

## Changes

{changes}
"
    )
}

#[cfg(test)]
mod tests {
    use super::{changes, kind};

    const CHANGELOG: &str = "# Changelog\n\nWords.\n\n## 0.2.0, unreleased\n\nNew.\n\n### Part\n\n\
                             - Newer.\n\n## 0.1.0\n\nOld.\n";

    #[test]
    fn section_of_a_version_ends_before_the_next_version() {
        assert_eq!(changes(CHANGELOG, "0.2.0").unwrap(), "New.\n\n### Part\n\n- Newer.");
        assert_eq!(changes(CHANGELOG, "0.1.0").unwrap(), "Old.");
        assert_eq!(changes(CHANGELOG, "0.1"), None);
        assert_eq!(changes(CHANGELOG, "0.3.0"), None);
    }

    #[test]
    fn each_file_of_a_release_is_known() {
        let version = env!("CARGO_PKG_VERSION");
        assert!(kind("ferroxfs").unwrap().contains("static"));
        let library = kind(&format!("libferroxfs-{version}.cdx.json")).unwrap();
        assert!(library.contains("C library"));
        assert_eq!(kind("core"), None);
    }
}
