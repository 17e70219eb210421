//! Checks that items of every kind survive encoding and decoding in both byte orders, and that
//! invalid items are refused.

use std::vec;
use std::vec::Vec;

use super::{
    AttrIntent, AttrNames, AttrOperation, BufferFlags, BufferFormat, BufferRegion, BufferType,
    DquotFormat, DquotItem, ExchangeFlags, ExchangeIntent, ExtentFree, HostOrder, InodeCreate,
    InodeFormat, InodeItem, IntentDone, IntentExtents, ItemKind, LOG_CORE_BYTES, LOG_CORE_BYTES_V4,
    LogItemCheck, LoggedBuffer, LoggedFields, LoggedItem, MapExtent, QuotaOff, RefcountExtent,
    RmapExtent, TransactionHeader, core_to_disk, core_to_disk_v4, core_to_log, logged_flush_count,
    stored_flush_count,
};
use crate::addr::{AgBlock, AgNumber, DiskAddr, FileBlock, FsBlock, InodeNumber};
use crate::corruption::{Check, Corruption, StructureAddress};

const ORDERS: [HostOrder; 2] = [HostOrder::Little, HostOrder::Big];

fn decode<'a>(regions: &'a [Vec<u8>], order: HostOrder) -> Result<LoggedItem<'a>, Corruption> {
    let regions: Vec<&[u8]> = regions.iter().map(Vec::as_slice).collect();
    LoggedItem::decode(&regions, order, StructureAddress::Log(7))
}

fn check(regions: &[Vec<u8>], order: HostOrder) -> LogItemCheck {
    match decode(regions, order).unwrap_err().check() {
        Check::LogItem(check) => *check,
        other => panic!("{other:?}"),
    }
}

fn extent_items() -> Vec<LoggedItem<'static>> {
    let frees = [(5, 6), (7, u32::MAX)];
    let frees =
        frees.map(|(start, length_blocks)| ExtentFree { start: FsBlock(start), length_blocks });
    let (start, offset, length_blocks, flags) = (FsBlock(1 << 40), FileBlock(9), 3, 0x8000_0007);
    let rmap = RmapExtent { owner: u64::MAX - 3, start, offset, length_blocks, flags };
    let map = MapExtent { inode: InodeNumber(131), start, offset, length_blocks, flags };
    let refcount = RefcountExtent { start, length_blocks, flags };
    vec![
        LoggedItem::ExtentFree(IntentExtents { id: 1, extents: frees.to_vec() }),
        LoggedItem::ExtentFreeDone(IntentExtents { id: 1, extents: frees.to_vec() }),
        LoggedItem::Rmap(IntentExtents { id: 1 << 60, extents: vec![rmap; 16] }),
        LoggedItem::Refcount(IntentExtents { id: 2, extents: vec![refcount] }),
        LoggedItem::Map(IntentExtents { id: 3, extents: vec![map] }),
        LoggedItem::RealtimeFree(IntentExtents { id: 4, extents: frees.to_vec() }),
        LoggedItem::RealtimeFreeDone(IntentExtents { id: 4, extents: frees.to_vec() }),
        LoggedItem::RealtimeRmap(IntentExtents { id: 5, extents: vec![rmap; 2] }),
        LoggedItem::RealtimeRefcount(IntentExtents { id: 6, extents: vec![refcount] }),
    ]
}

fn attr_items() -> Vec<LoggedItem<'static>> {
    let plain = AttrNames { name: b"user", ..AttrNames::default() };
    let with_value = AttrNames { value: b"some value", ..plain };
    let replaced =
        AttrNames { new_name: Some(b"longer name"), new_value: Some(b"other valu"), ..with_value };
    [
        (AttrOperation::Set, plain),
        (AttrOperation::Set, with_value),
        (AttrOperation::Remove, plain),
        (AttrOperation::Replace, with_value),
        (AttrOperation::ParentSet, with_value),
        (AttrOperation::ParentRemove, with_value),
        (AttrOperation::ParentReplace, replaced),
    ]
    .map(|(operation, names)| {
        let (inode, generation) = (InodeNumber(133), 0xabcd);
        LoggedItem::Attr(AttrIntent { id: 4, inode, generation, operation, filter: 8, names })
    })
    .to_vec()
}

fn items(core: &[u8; LOG_CORE_BYTES]) -> Vec<LoggedItem<'_>> {
    let mut items = extent_items();
    items.extend(attr_items());
    items.extend(
        ItemKind::ALL
            .into_iter()
            .filter_map(ItemKind::completion)
            // These two repeat the extents of their intent.
            .filter(|kind| !matches!(kind, ItemKind::ExtentFreeDone | ItemKind::RealtimeFreeDone))
            .map(|kind| LoggedItem::Done(IntentDone { kind, id: 0x0102_0304_0506_0708 })),
    );
    let format = InodeFormat {
        regions: 4,
        fields: LoggedFields::CORE | LoggedFields::DATA_LOCAL | LoggedFields::ATTR_EXTENTS,
        attr_bytes: 16,
        data_bytes: 7,
        inode: InodeNumber(131),
        device: 5,
        cluster: DiskAddr(128),
        cluster_blocks: 32,
        offset_bytes: 1536,
    };
    let (data, attr) = (Some(&b"12345678"[..]), Some(&[9; 16][..]));
    items.push(LoggedItem::Inode(InodeItem { format, core, data, attr }));
    let bitmap = vec![0b1001_1000, 1 << 31, 1];
    let format = BufferFormat {
        regions: 4,
        flags: BufferType::Btree.flags(),
        at: DiskAddr(8),
        blocks: 24,
        bitmap,
    };
    static BYTES: [u8; 256] = [3; 256];
    let pieces = [(384, 256), (896, 128), (63 * 128, 256)];
    let pieces = pieces
        .map(|(offset_bytes, length)| BufferRegion { offset_bytes, bytes: &BYTES[..length] })
        .to_vec();
    items.push(LoggedItem::Buffer(LoggedBuffer { format, pieces }));
    let format = DquotFormat { id: 1000, at: DiskAddr(64), blocks: 8, offset_bytes: 136 };
    items.push(LoggedItem::Dquot(DquotItem { format, dquot: &[5; 104] }));
    items.push(LoggedItem::QuotaOff(QuotaOff { flags: 3 }));
    items.push(LoggedItem::InodeCreate(InodeCreate {
        group: AgNumber(1),
        start: AgBlock(16),
        count: 64,
        inode_size: 512,
        length_blocks: 8,
        generation: 0x1234_5678,
    }));
    items.push(LoggedItem::Exchange(ExchangeIntent {
        id: 6,
        inodes: [InodeNumber(131), InodeNumber(132)],
        generations: [1, 2],
        starts: [FileBlock(3), FileBlock(4)],
        length_blocks: 5,
        flags: ExchangeFlags::SET_SIZES,
        sizes: [7, 8],
    }));
    items
}

/// Returns a core in the writer's byte order. The tests need only its magic number.
fn core(order: HostOrder) -> [u8; LOG_CORE_BYTES] {
    let mut core = [0; LOG_CORE_BYTES];
    for (index, byte) in core.iter_mut().enumerate() {
        *byte = index as u8;
    }
    core[..2].copy_from_slice(b"IN");
    core_to_log(&core, order)
}

#[test]
fn items_of_every_kind_round_trip() {
    for order in ORDERS {
        let core = core(order);
        let items = items(&core);
        let kinds = ItemKind::ALL.into_iter();
        assert!(kinds.clone().all(|kind| items.iter().any(|item| item.kind() == kind)));
        for item in &items {
            let regions = item.encode(order);
            assert_eq!(decode(&regions, order).as_ref(), Ok(item));
            assert!(regions.iter().all(|region| region.len() % 4 == 0));
        }
    }
}

#[test]
fn kinds_have_the_numbers_of_the_format() {
    for kind in ItemKind::ALL {
        assert_eq!(ItemKind::decode(kind.encode()), Some(kind));
        assert_eq!(kind.is_intent(), kind.completion().is_some());
    }
    assert_eq!(ItemKind::decode(0x1238), None);
    assert_eq!(ItemKind::decode(0x1250), None);
}

#[test]
fn transaction_header_round_trips() {
    let header = TransactionHeader { kind: 40, transaction: 0x1234, regions: 9 };
    for order in ORDERS {
        let bytes = header.encode(order);
        assert_eq!(TransactionHeader::decode(&bytes, order, StructureAddress::Log(0)), Ok(header));
        for length in 0..16 {
            assert!(
                TransactionHeader::decode(&bytes[..length], order, StructureAddress::Log(0))
                    .is_err()
            );
        }
    }
    let bytes = header.encode(HostOrder::Little);
    assert!(TransactionHeader::decode(&bytes, HostOrder::Big, StructureAddress::Log(0)).is_err());
}

#[test]
fn packed_extents_decode() {
    let list = IntentExtents {
        id: 5,
        extents: vec![
            ExtentFree { start: FsBlock(1), length_blocks: 2 },
            ExtentFree { start: FsBlock(3), length_blocks: 4 },
        ],
    };
    let item = LoggedItem::ExtentFree(list);
    let mut regions = item.encode(HostOrder::Little);
    regions[0].drain(44..48);
    regions[0].drain(28..32);
    assert_eq!(decode(&regions, HostOrder::Little), Ok(item));
}

#[test]
fn inode_cores_convert_field_by_field() {
    let mut disk = [0; LOG_CORE_BYTES];
    for (index, byte) in disk.iter_mut().enumerate() {
        *byte = index as u8;
    }
    for flags2 in [0_u64, 8] {
        disk[120..128].copy_from_slice(&flags2.to_be_bytes());
        let logged = core_to_log(&disk, HostOrder::Little);
        assert_eq!(logged[..8], [1, 0, 3, 2, 4, 5, 7, 6]);
        assert_eq!(logged[56..64], [63, 62, 61, 60, 59, 58, 57, 56]);
        assert_eq!(logged[160..], disk[160..]);
        let seconds = if flags2 == 0 { [35, 34, 33, 32] } else { [39, 38, 37, 36] };
        assert_eq!(logged[32..36], seconds);
        assert_eq!(core_to_disk(&logged, HostOrder::Little), disk);
        assert_eq!(core_to_disk(&disk, HostOrder::Big), disk);
    }
}

/// Checks I1 of `log_item`: an item is refused if its counts and lengths do not describe the
/// regions that it has.
#[test]
fn counts_that_do_not_fit_are_refused() {
    let order = HostOrder::Little;
    for item in extent_items() {
        let regions = item.encode(order);
        for count in [0_u8, 3, 17, 0xff] {
            let mut lie = regions.clone();
            lie[0][4] = count;
            assert!(matches!(check(&lie, order), LogItemCheck::Entries { .. }));
        }
    }
    for item in items(&core(order)) {
        let regions = item.encode(order);
        let mut more = regions.clone();
        more.push(vec![0; 8]);
        assert!(matches!(check(&more, order), LogItemCheck::Regions { .. }));
        more[0][2] += 1;
        assert!(decode(&more, order).is_err(), "{:?} with an extra region", item.kind());
    }
}

#[test]
fn buffer_bitmap_must_end_with_the_buffer() {
    let order = HostOrder::Little;
    let format = BufferFormat {
        regions: 2,
        flags: BufferFlags::empty(),
        at: DiskAddr(0),
        blocks: 1,
        bitmap: vec![0b1000],
    };
    let bytes = [1; 128];
    let pieces = vec![BufferRegion { offset_bytes: 384, bytes: &bytes }];
    let item = LoggedItem::Buffer(LoggedBuffer { format, pieces });
    let regions = item.encode(order);
    assert_eq!(decode(&regions, order).as_ref(), Ok(&item));
    let mut past = regions.clone();
    past[0][20] = 0b1_0000;
    assert_eq!(check(&past, order), LogItemCheck::Bitmap { words: 1, blocks: 1 });
    let mut long = regions.clone();
    long[0][16] = 18;
    assert_eq!(check(&long, order), LogItemCheck::Bitmap { words: 18, blocks: 1 });
    let mut short = regions;
    short[1].pop();
    assert_eq!(check(&short, order), LogItemCheck::Piece { bytes: 127, needed: 128 });
}

#[test]
fn names_and_values_must_be_present() {
    let order = HostOrder::Little;
    for item in attr_items() {
        let regions = item.encode(order);
        for region in 1..regions.len() {
            let mut short = regions.clone();
            short[region].truncate(3);
            assert!(matches!(check(&short, order), LogItemCheck::Short { .. }));
        }
        let mut nameless = regions.clone();
        nameless[0][28] = 0;
        assert!(matches!(check(&nameless, order), LogItemCheck::AttrLengths { .. }));
        let mut unknown = regions;
        unknown[0][24] = 7;
        assert_eq!(check(&unknown, order), LogItemCheck::AttrOperation { raw: 7 });
    }
}

#[test]
fn hostile_items_never_panic() {
    for order in ORDERS {
        let core = core(order);
        for item in items(&core) {
            let regions = item.encode(order);
            for region in 0..regions.len() {
                for length in 0..regions[region].len() {
                    let mut short = regions.clone();
                    short[region].truncate(length);
                    let _ = decode(&short, order);
                }
            }
            for bit in 0..regions[0].len() * 8 {
                let mut flipped = regions.clone();
                flipped[0][bit / 8] ^= 1 << (bit % 8);
                if let Ok(item) = decode(&flipped, order) {
                    let _ = item.encode(order);
                }
            }
        }
    }
}

#[test]
fn cancelled_buffer_encodes_its_number_of_regions() {
    // A cancelled buffer item of three regions. The last word is the length of an empty bitmap.
    let mut first = std::vec![0; 24];
    first[..2].copy_from_slice(&ItemKind::Buffer.encode().swap_bytes().to_be_bytes());
    first[2..4].copy_from_slice(&[3, 0]);
    first[4] = 2;
    let regions: [&[u8]; 3] = [&first, &[0; 128], &[0; 128]];
    let item = LoggedItem::decode(&regions, HostOrder::Little, StructureAddress::Log(1)).unwrap();
    let encoded = item.encode(HostOrder::Little);
    let encoded: std::vec::Vec<&[u8]> = encoded.iter().map(std::vec::Vec::as_slice).collect();
    assert_eq!(LoggedItem::decode(&encoded, HostOrder::Little, StructureAddress::Log(1)), Ok(item));
}

#[test]
fn runs_match_a_count_of_single_bits() {
    for bitmap in [
        vec![],
        vec![0, 0],
        vec![u32::MAX],
        vec![u32::MAX, u32::MAX],
        vec![1, 1 << 31],
        vec![1 << 31, 1],
        vec![0x8000_0001, 0, 0xf00f_0ff0],
        vec![0, 0xffff_0000, 0x0000_ffff],
    ] {
        let format = BufferFormat { bitmap, ..BufferFormat::clean(DiskAddr(8), 4096) };
        let is_set = |bit: usize| format.bitmap[bit / 32] & (1 << (bit % 32)) != 0;
        let set = (0..format.bitmap.len() * 32).filter(|bit| is_set(*bit));
        let found: Vec<_> = format.runs().flat_map(|(first, count)| first..first + count).collect();
        assert_eq!(found, set.collect::<Vec<_>>(), "{:x?}", format.bitmap);
        assert_eq!(format.run_count(), format.runs().count(), "{:x?}", format.bitmap);
        let mut ends = format.runs().zip(format.runs().skip(1));
        assert!(ends.all(|(run, next)| run.0 + run.1 < next.0), "{:x?}", format.bitmap);
    }
}

/// Checks some fields of a v4 inode whose logged core is converted to its disk form. Times stay
/// pairs of 32-bit numbers, although no flag says so, and the flush count becomes 0.
#[test]
fn core_of_a_version_4_inode_becomes_its_disk_form_without_the_flush_count() {
    let mut logged = [0_u8; LOG_CORE_BYTES_V4];
    logged[..2].copy_from_slice(&0x494e_u16.swap_bytes().to_be_bytes());
    logged[4] = 2;
    logged[16..20].copy_from_slice(&3_u32.swap_bytes().to_be_bytes());
    logged[30..32].copy_from_slice(&0x0102_u16.swap_bytes().to_be_bytes());
    logged[40..44].copy_from_slice(&1_000_000_000_u32.swap_bytes().to_be_bytes());
    logged[44..48].copy_from_slice(&7_u32.swap_bytes().to_be_bytes());
    logged[92..96].copy_from_slice(&0xdead_beef_u32.swap_bytes().to_be_bytes());
    assert_eq!(logged_flush_count(&logged, HostOrder::Little), 0x0102);
    let disk = core_to_disk_v4(&logged, HostOrder::Little);
    assert_eq!(&disk[..5], b"IN\0\0\x02");
    assert_eq!(&disk[16..20], &3_u32.to_be_bytes());
    assert_eq!(stored_flush_count(&disk), Some(0));
    assert_eq!(&disk[40..44], &1_000_000_000_u32.to_be_bytes());
    assert_eq!(&disk[44..48], &7_u32.to_be_bytes());
    assert_eq!(&disk[92..96], &0xdead_beef_u32.to_be_bytes());
}

#[test]
fn flag_of_an_exchange_without_a_name_is_noticed() {
    assert!(ExchangeFlags::from_bits_retain(0x1f).are_known());
    assert!(ExchangeFlags::empty().are_known());
    assert!(!ExchangeFlags::from_bits_retain(0x21).are_known());
}
