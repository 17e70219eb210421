//! Tests of every kind of transaction on volumes with the smallest log that mkfs allows for them.

use xfs_format::reservation::{TransactionKind, minimum_log_blocks};

use crate::testing::{make_sized, open, superblock};

const VOLUME_BYTES: u64 = 640 << 20;

fn check(features: &str) {
    let plain = superblock(&make_sized(VOLUME_BYTES, features));
    let blocks = minimum_log_blocks(&plain.geometry, plain.log_stripe_unit_bytes);
    let device = make_sized(VOLUME_BYTES, &format!("{features} -l size={blocks}b"));
    let journal = open(&device, 0);
    for kind in TransactionKind::ALL {
        for has_attributes in [false, true] {
            let begun = match has_attributes {
                true => journal.begin_with_attributes(kind, 0),
                false => journal.begin(kind, 0),
            };
            let tx = begun.unwrap_or_else(|error| panic!("{features}: {kind:?}: {error}"));
            // The log has room for another transaction meanwhile.
            journal.begin(kind, 0).unwrap().cancel();
            tx.cancel();
        }
    }
    if let Some(tx) = journal.begin_removal(0).unwrap() {
        tx.cancel();
    }
    journal.unmount().unwrap();
}

#[test]
fn every_kind_begins_on_the_smallest_log() {
    for block_size in ["1k", "2k", "4k", "8k", "16k", "32k", "64k"] {
        for features in
            ["-n parent=0", "-n parent=1", "-m rmapbt=0,reflink=0,finobt=0 -i nrext64=0"]
        {
            check(&format!("-b size={block_size} {features}"));
        }
    }
    for more in ["-n parent=1,size=64k", "-l su=256k", "-d su=64k,sw=4 -i maxpct=50"] {
        check(&format!("-b size=4k {more}"));
    }
}
