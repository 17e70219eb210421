#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| xfs_hostile::structures::realtime_tree(input));
