use super::Digest;

#[test]
fn digest_depends_on_bytes_and_not_on_calls() {
    let digest = |parts: &[&[u8]]| {
        let mut digest = Digest::default();
        parts.iter().for_each(|part| digest.update(part));
        digest
    };
    assert_eq!(digest(&[b"some bytes"]), digest(&[b"some", b"", b" bytes"]));
    assert_ne!(digest(&[b"some bytes"]), digest(&[b"some bytez"]));
    assert_ne!(digest(&[b""]), digest(&[b"\0"]));
}
