//! Suboptions as they are written.

use super::{Autofsck, OptionError, Options, Size, Unit};

fn parse(arguments: &[(char, &str)]) -> Result<Options, OptionError> {
    let mut options = Options::default();
    for (letter, argument) in arguments {
        options.parse(*letter, argument)?;
    }
    Ok(options)
}

#[test]
fn numbers_have_suffixes() {
    let bytes = |text: &str| Size::parse(text).and_then(|size| size.to_bytes(4096, 512));
    assert_eq!(bytes("4096"), Some(4096));
    assert_eq!(bytes("0x1000"), Some(4096));
    assert_eq!(bytes("0x10k"), Some(16 << 10));
    assert_eq!(bytes("3s"), Some(3 * 512));
    assert_eq!(bytes("3b"), Some(3 * 4096));
    for (suffix, shift) in [("k", 10), ("M", 20), ("g", 30), ("T", 40), ("p", 50), ("e", 60)] {
        assert_eq!(bytes(&format!("1{suffix}")), Some(1 << shift));
    }
    let all: [&str; 11] =
        ["", "k", "-5", "+5", "1.5g", "1gb", "1kk", " 1", "0x", "16e", "99999999999999999999"];
    for text in all {
        assert_eq!(Size::parse(text), None, "{text}");
    }
    // What a suffix counts may not fit either.
    assert_eq!(Size { number: 1 << 60, unit: Unit::Block }.to_bytes(4096, 512), None);
}

#[test]
fn suboptions_may_stand_together_or_apart() {
    let together = parse(&[('d', "size=1g,agcount=4")]).unwrap();
    let apart = parse(&[('d', "size=1g"), ('d', "agcount=4")]).unwrap();
    assert_eq!(together, apart);
    assert_eq!(together.data.size, Some(Size::bytes(1 << 30)));
    let twice = parse(&[('d', "size=1g"), ('d', "size=2g")]).unwrap_err();
    assert_eq!(twice, OptionError::Twice { letter: 'd', name: "size".to_owned() });
}

#[test]
fn flags_may_stand_alone() {
    assert_eq!(parse(&[('l', "internal")]).unwrap().log.internal, Some(true));
    assert_eq!(parse(&[('m', "rmapbt=0")]).unwrap().features.rmapbt, Some(false));
    assert!(matches!(parse(&[('m', "rmapbt=2")]), Err(OptionError::NotAFlag { .. })));
    let autofsck = parse(&[('m', "autofsck=check")]).unwrap().features.autofsck;
    assert_eq!(autofsck, Some(Autofsck::Check));
}

#[test]
fn nonsense_is_told_from_what_is_refused_by_name() {
    for (letter, argument) in [('d', "foo=1"), ('b', "log=12"), ('x', "size=1"), ('d', "")] {
        let error = parse(&[(letter, argument)]).unwrap_err();
        assert!(matches!(error, OptionError::Unknown { .. }), "{error}");
    }
    for (letter, argument) in [
        ('m', "crc=0"),
        ('m', "metadir=1"),
        ('m', "uquota"),
        ('n', "version=ci"),
        ('n', "ftype=0"),
        ('i', "attr=1"),
        ('l', "version=1"),
        ('l', "lazy-count=0"),
        ('d', "rtinherit=1"),
        ('d', "concurrency=4"),
    ] {
        let error = parse(&[(letter, argument)]).unwrap_err();
        assert!(matches!(error, OptionError::NotSupported(_)), "{error}");
    }
    // The values that version 5 has are taken.
    parse(&[('m', "crc=1,metadir=0"), ('l', "version=2,lazy-count=1"), ('n', "version=2,ftype=1")])
        .unwrap();
}

#[test]
fn labels_have_twelve_bytes() {
    let mut options = Options::default();
    options.parse_label(b"twelve bytes").unwrap();
    assert_eq!(options.label.as_bytes(), b"twelve bytes");
    assert!(options.parse_label(b"thirteen byte").is_err());
}
