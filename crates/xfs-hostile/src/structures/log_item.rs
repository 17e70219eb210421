//! The fuzz target for log items.
//!
//! The input is one byte for the writer's byte order, and then the regions of one item. The length
//! of each region precedes it in 2 bytes, big-endian.

use std::hint::black_box;

use xfs_format::StructureAddress;
use xfs_format::log_item::{HostOrder, ItemHeader, ItemKind, LoggedItem, TransactionHeader};

/// Fuzzes a log item. An item that decodes must be the same after it is encoded and decoded again.
///
/// # Panics
///
/// Panics if the second item differs from the first, which is the bug that the target looks for.
pub fn log_item(input: &[u8]) {
    let place = StructureAddress::Log(1);
    let Some((order, rest)) = input.split_first() else { return };
    let order = if order & 1 == 0 { HostOrder::Little } else { HostOrder::Big };
    let regions = split(rest);
    for region in &regions {
        drop(black_box(ItemHeader::decode(region, order, place)));
        drop(black_box(TransactionHeader::decode(region, order, place)));
    }
    let Ok(item) = LoggedItem::decode(&regions, order, place) else { return };
    black_box(format!("{:?} {:?}", item.kind(), item.intent_id()));
    let encoded = item.encode(order);
    let encoded: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
    let again = LoggedItem::decode(&encoded, order, place);
    assert_eq!(again.as_ref(), Ok(&item), "an item survives encoding and decoding");
}

fn split(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut regions = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
        let (region, after) = after.split_at(length);
        regions.push(region);
        rest = after;
    }
    regions
}

/// Returns inputs with items of zeros: every kind of item, with every number of regions and every
/// length that some kind has.
pub(super) fn inputs() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for kind in ItemKind::ALL {
        for length in [16, 24, 28, 32, 40, 48, 56, 64, 88, 104] {
            for regions in 1_u16..4 {
                let mut first = [kind.encode().swap_bytes(), regions.swap_bytes()]
                    .map(u16::to_be_bytes)
                    .concat();
                first.resize(length, 0);
                let mut input = vec![0];
                for region in 0..regions {
                    let bytes = if region == 0 { first.clone() } else { vec![0; 176] };
                    input.extend((bytes.len() as u16).to_be_bytes());
                    input.extend(bytes);
                }
                inputs.push(input);
            }
        }
    }
    inputs
}
