use super::profile::Profile;
use super::{kind, layer};

const TEXT: &str = "\
events: Ir

fl=???
fn=xfs_log::cil::Cil::push
0 5
cfn=mi_malloc_aligned
calls=3 0
0 700
0 7
fn=mi_malloc_aligned
0 700
totals: 712
";

#[test]
fn profile_counts_a_callee_once() {
    let profile = Profile::decode(TEXT);
    let counts: Vec<_> = profile.functions.iter().map(|(name, count)| (&**name, *count)).collect();
    assert_eq!(counts, [("mi_malloc_aligned", 700), ("xfs_log::cil::Cil::push", 12)]);
    assert_eq!(profile.allocations, 3);
}

#[test]
fn lines_from_memory_are_those_of_all_three_events() {
    let text = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nfn=a\n\
                0 9 8 7 6 5 4 3 2 1\n0 5 1\ncfn=b\ncalls=1 0\n0 9 8 7 6 5 4 3 2 1\nfn=b\n\
                0 1 0 0 0 0 0 0 40\n";
    let profile = Profile::decode(text);
    assert_eq!(profile.lines_from_memory, 46);
    assert_eq!(profile.functions.get("a"), Some(&14));
}

#[test]
fn layer_is_the_first_crate_of_a_name() {
    assert_eq!(layer("<xfs_dir::Name as xfs_trans::Item>::format"), "xfs_dir");
    assert_eq!(layer("ferroxfs::node::Node::create"), "ferroxfs");
    assert_eq!(layer("malloc"), "memory");
    assert_eq!(layer("clone"), "other");
}

#[test]
fn kind_is_the_first_that_fits() {
    assert_eq!(kind("__memcpy_avx_unaligned_erms"), "copying");
    assert_eq!(kind("mi_malloc_aligned"), "allocating");
    assert_eq!(kind("<xfs_log::Item>::format"), "formatting");
    assert_eq!(kind("xfs_vfs::create"), "other");
    assert_eq!(kind("xfs_format::directory::Block"), "other");
}
