//! Tests of parsing suboptions.

use super::{Autofsck, InheritedOptions, OptionError, Options, Size, Unit};

fn parse(arguments: &[(char, &str)]) -> Result<Options, OptionError> {
    let mut options = Options::default();
    for (letter, argument) in arguments {
        options.parse(*letter, argument)?;
    }
    Ok(options)
}

#[test]
fn number_with_a_suffix_is_parsed() {
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
    // A number of blocks may exceed 64 bits of bytes, too.
    assert_eq!(Size { number: 1 << 60, unit: Unit::Block }.to_bytes(4096, 512), None);
}

#[test]
fn suboptions_together_or_apart_are_equal() {
    let together = parse(&[('d', "size=1g,agcount=4")]).unwrap();
    let apart = parse(&[('d', "size=1g"), ('d', "agcount=4")]).unwrap();
    assert_eq!(together, apart);
    assert_eq!(together.data.size, Some(Size::bytes(1 << 30)));
    let twice = parse(&[('d', "size=1g"), ('d', "size=2g")]).unwrap_err();
    assert_eq!(twice, OptionError::Twice { letter: 'd', name: "size".to_owned() });
}

#[test]
fn flag_without_a_value_is_on() {
    assert_eq!(parse(&[('l', "internal")]).unwrap().log.internal, Some(true));
    assert_eq!(parse(&[('m', "rmapbt=0")]).unwrap().features.rmapbt, Some(false));
    assert!(matches!(parse(&[('m', "rmapbt=2")]), Err(OptionError::NotAFlag { .. })));
    let autofsck = parse(&[('m', "autofsck=check")]).unwrap().features.autofsck;
    assert_eq!(autofsck, Some(Autofsck::Check));
}

#[test]
fn unknown_option_and_unsupported_option_are_different_errors() {
    for (letter, argument) in [('d', "foo=1"), ('b', "log=12"), ('x', "size=1"), ('d', "")] {
        let error = parse(&[(letter, argument)]).unwrap_err();
        assert!(matches!(error, OptionError::Unknown { .. }), "{error}");
    }
    for (letter, argument) in [
        ('m', "crc=0"),
        ('m', "quota"),
        ('n', "version=ci"),
        ('n', "ftype=0"),
        ('i', "attr=1"),
        ('l', "version=1"),
        ('l', "lazy-count=0"),
        ('n', "ascii-ci=1"),
        ('d', "concurrency"),
        ('d', "concurrency=nr_cpus"),
        ('l', "concurrency=4"),
        ('r', "concurrency=4"),
    ] {
        let error = parse(&[(letter, argument)]).unwrap_err();
        assert!(matches!(error, OptionError::NotSupported(_)), "{error}");
    }
    // The values of version 5 are accepted.
    parse(&[('m', "crc=1"), ('l', "version=2,lazy-count=1"), ('n', "version=2,ftype=1")]).unwrap();
}

#[test]
fn label_over_twelve_bytes_is_refused() {
    let mut options = Options::default();
    options.parse_label(b"twelve bytes").unwrap();
    assert_eq!(options.label.as_bytes(), b"twelve bytes");
    assert!(options.parse_label(b"thirteen byte").is_err());
}

#[test]
fn options_that_state_the_default_change_nothing() {
    let anyway = [
        ('m', "crc,uquota=0,uqnoenforce=0,gquota=0,gqnoenforce=0,pquota=0,pqnoenforce=0"),
        ('i', "attr=2,projid32bit,align"),
        ('l', "version=2,lazy-count,su=0,sunit=0,concurrency=0"),
        ('n', "version=2,ftype,ascii-ci=0"),
        ('d', "concurrency=0"),
        ('r', "noalign,file=0,rgcount=0,rgsize=0,size=0,start=0,reserved=0,zoned=0,concurrency=0"),
    ];
    let given = parse(&anyway).unwrap();
    assert_eq!(Options { seen: Vec::new(), ..given }, Options::default());
}

#[test]
fn inherited_settings_accept_plain_numbers_only() {
    let given =
        parse(&[('d', "projinherit=7,extszinherit=16,cowextsize=0x20,daxinherit")]).unwrap();
    let expected = InheritedOptions {
        project: Some(7),
        extent_size_blocks: Some(16),
        cow_extent_size_blocks: Some(32),
        dax: true,
        realtime: None,
    };
    assert_eq!(given.data.inherited, expected);
    for argument in ["extszinherit=16k", "extszinherit=1b", "cowextsize=2s", "projinherit=x"] {
        let error = parse(&[('d', argument)]).unwrap_err();
        assert!(matches!(error, OptionError::NotAPlainNumber { .. }), "{argument}: {error}");
    }
    let error = parse(&[('d', "projinherit=4294967296")]).unwrap_err();
    assert!(matches!(error, OptionError::TooLarge { max: 4_294_967_295, .. }), "{error}");
}

#[test]
fn configuration_file_is_parsed_by_section() {
    let text = "# persistent memory\n\n[block]\nsize = 4096\n[data]\nsu=2m ; a stripe\nsw=1\n\
                extszinherit=512\n[Metadata]\ncrc=1\n[realtime]\nextsize=2097152\n";
    let mut options = Options::default();
    options.parse_configuration(text).unwrap();
    let mut same = Options::default();
    for (letter, argument) in [
        ('b', "size=4096"),
        ('d', "su=2m,sw=1,extszinherit=512"),
        ('m', "crc=1"),
        ('r', "extsize=2m"),
    ] {
        same.parse(letter, argument).unwrap();
    }
    assert_eq!(options, same);
    let twice = options.parse('b', "size=4096").unwrap_err();
    assert!(matches!(twice, OptionError::Twice { .. }), "{twice}");
    for (text, line) in
        [("size=1\n", 1), ("[data]\nsu\n", 2), ("[data]\nsu=1,sw=2\n", 2), ("[data", 1)]
    {
        let error = Options::default().parse_configuration(text).unwrap_err();
        assert!(
            matches!(error, OptionError::ConfigurationLine { line: at, .. } if at == line),
            "{text}: {error}"
        );
    }
    let error = Options::default().parse_configuration("[proto]\n").unwrap_err();
    assert!(matches!(error, OptionError::ConfigurationSection { .. }), "{error}");
}
