use super::Digest;

#[test]
fn cutting_does_not_matter_and_bytes_do() {
    let digest = |parts: &[&[u8]]| {
        let mut digest = Digest::default();
        parts.iter().for_each(|part| digest.update(part));
        digest
    };
    assert_eq!(digest(&[b"some bytes"]), digest(&[b"some", b"", b" bytes"]));
    assert_ne!(digest(&[b"some bytes"]), digest(&[b"some bytez"]));
    assert_ne!(digest(&[b""]), digest(&[b"\0"]));
}
