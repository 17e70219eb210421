use super::*;

/// Blocks of every small size, of many larger ones, and of each alignment up to a page lie at a
/// multiple of their alignment, whether they are new, zeroed or grown, and hold their bytes.
#[test]
fn blocks_are_aligned_as_asked() {
    let sizes = (1..=1100).chain((1101..100_000).step_by(997));
    for size in sizes {
        for alignment in (0..=12).map(|exponent| 1_usize << exponent) {
            let layout = Layout::from_size_align(size, alignment).expect("a valid layout");
            check(layout);
        }
    }
}

/// Allocates and frees blocks of a layout by each of the functions.
fn check(layout: Layout) {
    let is_aligned =
        |block: *mut u8| !block.is_null() && block.addr().is_multiple_of(layout.align());
    let size = layout.size();
    // SAFETY: The layout has at least one byte. A block is written and read within its size, and
    // freed once, with the layout that it has then.
    unsafe {
        let held = Mimalloc.alloc(layout);
        let zeroed = Mimalloc.alloc_zeroed(layout);
        assert!(is_aligned(held) && is_aligned(zeroed), "{layout:?}");
        assert!(std::slice::from_raw_parts(zeroed, size).iter().all(|byte| *byte == 0));
        held.write_bytes(0xA5, size);
        let grown = Mimalloc.realloc(held, layout, 2 * size);
        assert!(is_aligned(grown), "{layout:?} grown");
        assert!(std::slice::from_raw_parts(grown, size).iter().all(|byte| *byte == 0xA5));
        let grown_layout = Layout::from_size_align(2 * size, layout.align()).expect("valid");
        Mimalloc.dealloc(grown, grown_layout);
        Mimalloc.dealloc(zeroed, layout);
    }
}
