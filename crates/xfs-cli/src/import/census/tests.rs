use super::path_below;

#[test]
fn paths_below_a_directory_have_single_slashes() {
    assert_eq!(path_below(b"", b"./a//b"), b"/a/b");
    assert_eq!(path_below(b"/opt", b"/"), b"/opt");
    assert_eq!(path_below(b"/opt", b"x/"), b"/opt/x");
}
