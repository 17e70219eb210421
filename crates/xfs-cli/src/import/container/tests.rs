use super::digest::{Digest, VerifyingReader};
use super::{ContainerAddress, ContainerForm, Platform};
use std::io::{Cursor, Read};
use std::path::Path;

const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn digests_are_checked_and_other_algorithms_refused() {
    let digest = Digest::parse(EMPTY).unwrap();
    assert!(digest.is_of(b"") && !digest.is_of(b"x"));
    assert_eq!(digest.blob_path(), EMPTY.replacen(':', "/", 1).replacen("sha", "blobs/sha", 1));
    let upper = EMPTY.to_uppercase().replace("SHA", "sha");
    for text in ["", "sha256", "sha256:", "sha256:00", &upper, "sha512:00", "blake3:00"] {
        assert!(Digest::parse(text).is_err(), "{text}");
    }
}

#[test]
fn verifying_reader_fails_at_the_end_of_other_contents() {
    let read = |bytes: &'static [u8]| {
        let input = Box::new(Cursor::new(bytes));
        let mut reader = VerifyingReader::new(input, Digest::parse(EMPTY).unwrap());
        reader.read_to_end(&mut Vec::new())
    };
    assert_eq!(read(b"").unwrap(), 0);
    assert!(read(b"x").unwrap_err().to_string().contains("differ from their digest"));
}

#[test]
fn addresses_name_forms_paths_and_references() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a:b");
    std::fs::write(&path, "").unwrap();
    let parse = |text: String| ContainerAddress::parse(Path::new(&text));
    let shown = path.display();
    let found = parse(format!("oci-archive:{shown}")).unwrap();
    assert_eq!((found.form, found.path.as_path()), (ContainerForm::OciArchive, path.as_path()));
    assert_eq!(found.reference, None);
    let found = parse(format!("docker-archive:{shown}:repo/name:tag")).unwrap();
    assert_eq!((found.form, found.path.as_path()), (ContainerForm::DockerArchive, path.as_path()));
    assert_eq!(found.reference.as_deref(), Some("repo/name:tag"));
    let found = parse("oci-archive:-:tag".to_owned()).unwrap();
    assert_eq!((found.path.as_path(), found.reference.as_deref()), (Path::new("-"), Some("tag")));
    assert_eq!(parse(format!("{shown}")), None);
    assert_eq!(parse("./oci:x".to_owned()), None);
}

#[test]
fn platforms_are_parsed_and_shown() {
    for text in ["linux/amd64", "linux/arm/v7"] {
        assert_eq!(Platform::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "linux", "linux/", "/x", "a/b/c/d"] {
        assert!(Platform::parse(text).is_err(), "{text}");
    }
}
