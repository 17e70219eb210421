use super::Digest;

fn of(files: &[(&str, u32)]) -> Digest {
    let mut digest = Digest::default();
    for (name, mode) in files {
        digest.add(&[b"folder", name.as_bytes()], *mode, 1, 0);
    }
    digest
}

#[test]
fn digest_does_not_depend_on_the_order() {
    let mut merged = of(&[("b", 2)]);
    merged.merge(of(&[("a", 1)]));
    assert_eq!(merged, of(&[("a", 1), ("b", 2)]));
    assert_eq!(merged.files(), 2);
}

#[test]
fn digest_differs_for_different_files() {
    let one = of(&[("a", 1), ("b", 2)]);
    for other in [&[("a", 2), ("b", 1)][..], &[("a", 1), ("c", 2)], &[("a", 1)], &[]] {
        assert_ne!(one, of(other));
    }
    let split = |place: &[&[u8]]| {
        let mut digest = Digest::default();
        digest.add(place, 0, 0, 0);
        digest
    };
    assert_ne!(split(&[b"ab", b"c"]), split(&[b"a", b"bc"]));
}
