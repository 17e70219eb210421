use super::MetadataFacts;

#[test]
fn metadata_keeps_whole_lines_up_to_its_bound() {
    let line = [vec![b'x'; (1 << 19) - 1], b"\n".to_vec()].concat();
    let mut facts = MetadataFacts::default();
    facts.append(&line.repeat(2));
    assert_eq!((facts.lines.len(), facts.omitted), (1 << 20, 0));
    facts.append(b"a\nb\n");
    assert_eq!((facts.lines.len(), facts.omitted), (1 << 20, 2));
}
