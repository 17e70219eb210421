use super::*;

const V4_WITHOUT_TYPES: DirectoryForm = DirectoryForm {
    version: FormatVersion::V4,
    types: EntryTypes::Absent,
    names: NameComparison::AsciiCi,
};

#[test]
fn entry_without_type_byte_is_shorter_only_where_padding_does_not_hide_it() {
    let lengths = [1, 5, 6, 13, 14].map(|name| V4_WITHOUT_TYPES.entry_length(name));
    assert_eq!(lengths, [16, 16, 24, 24, 32]);
    let lengths = [1, 4, 5, 12, 13].map(|name| DirectoryForm::V5.entry_length(name));
    assert_eq!(lengths, [16, 16, 24, 24, 32]);
}

#[test]
fn first_entry_of_short_form_follows_both_dots() {
    assert_eq!(V4_WITHOUT_TYPES.first_offset(), 0x30);
    assert_eq!(DirectoryForm::V5.first_offset(), 0x60);
    assert_eq!(V4_WITHOUT_TYPES.dot_cookie(), Cookie(2));
    assert_eq!(DirectoryForm::V5.parent_cookie(), Cookie(10));
}

#[test]
fn names_that_differ_in_case_match_and_have_one_hash() {
    let names = NameComparison::AsciiCi;
    // The hash that the kernel stored for both names.
    assert_eq!([b"Hello", b"hello"].map(|name| names.hash(name)), [0x8cbb_3669; 2]);
    assert!(names.matches(b"\xc9t\xc3", b"\xe9T\xe3"));
    // 0xd7 and 0xf7 are a multiplication and a division sign.
    assert!(!names.matches(b"\xd7", b"\xf7"));
    assert!(!names.matches(b"a", b"ab"));
    assert!(!NameComparison::Exact.matches(b"A", b"a"));
}
