//! Tests of updating the log entry of an inode in place.

use std::sync::Arc;

use xfs_format::inode::{DeviceNumber, ForkFormat};
use xfs_format::log_item::LoggedFields;
use xfs_format::reservation::TransactionKind;
use xfs_log::{regions_of, updated_regions};

use super::{ForkBytes, InodeImage, InodeRecord};
use crate::Transaction;
use crate::testing::{make, open};

/// Changes the image of an inode, and checks the core as a commit does.
fn change(
    tx: &mut Transaction<'_>,
    record: &Arc<InodeRecord>,
    fields: LoggedFields,
    change: impl FnOnce(&mut InodeImage),
) {
    tx.change_inode(record, fields, || record.image().unwrap(), change);
    assert!(record.is_encodable());
}

#[test]
fn log_entry_is_updated_while_it_keeps_its_regions() {
    let journal = open(&make(), 0);
    let record = journal.inode(journal.superblock().root_inode).unwrap();
    let mut tx = journal.begin(TransactionKind::Write, 0).unwrap();
    tx.join(&record);
    let mut entry = Vec::new();
    let mut check = |is_updated: bool, step: &str| {
        let updated = updated_regions(record.as_ref(), &entry);
        let formatted = regions_of(record.as_ref());
        assert_eq!(updated, is_updated.then(|| formatted.clone()), "{step}");
        assert_ne!(entry, formatted, "{step}");
        entry = formatted;
    };
    change(&mut tx, &record, LoggedFields::CORE, |image| image.core.uid = 7);
    check(false, "never formatted");
    change(&mut tx, &record, LoggedFields::CORE, |image| image.core.uid = 8);
    check(true, "core");
    let local = LoggedFields::DATA_LOCAL;
    change(&mut tx, &record, local, |image| image.data = ForkBytes::Own(vec![1; 5]));
    check(false, "data");
    change(&mut tx, &record, local, |image| image.data = ForkBytes::Own(vec![2; 5]));
    check(true, "other data");
    change(&mut tx, &record, local, |image| image.data = ForkBytes::Own(vec![3; 8]));
    check(false, "data of another length");
    change(&mut tx, &record, LoggedFields::DEVICE, |image| {
        image.core.rdev = Some(DeviceNumber { major: 1, minor: 3 });
        (image.core.data_format, image.data) = (ForkFormat::Device, ForkBytes::NONE);
    });
    check(false, "device");
    change(&mut tx, &record, LoggedFields::DEVICE, |image| image.core.uid = 9);
    check(false, "the entry of a device is always formatted");
    tx.cancel();
}
