use xfs_format::log_item::{
    AttrOperation, ExtentFree, HostOrder, LoggedItem, RefcountExtent, RmapExtent,
};
use xfs_format::{FileBlock, FsBlock, InodeNumber, StructureAddress};

use super::{AttrPayload, IntentPayload, decode_intent, encode_done, encode_intent};

fn check_round_trip(payloads: &[IntentPayload]) {
    for (regions, is_intent) in
        [(encode_intent(7, payloads), true), (encode_done(7, payloads), false)]
    {
        let regions: Vec<&[u8]> = regions.iter().map(Vec::as_slice).collect();
        let item =
            LoggedItem::decode(&regions, HostOrder::NATIVE, StructureAddress::Log(0)).unwrap();
        assert_eq!(item.intent_id(), Some(7));
        assert_eq!(item.kind().is_intent(), is_intent);
        let kind = payloads[0].kind();
        let decoded = decode_intent(item.clone());
        assert_eq!(decoded.as_deref(), is_intent.then_some(payloads));
        assert_eq!(Some(item.kind()), if is_intent { Some(kind) } else { kind.completion() });
    }
}

#[test]
fn every_payload_kind_is_read_back() {
    let free =
        |start| IntentPayload::ExtentFree(ExtentFree { start: FsBlock(start), length_blocks: 3 });
    check_round_trip(&[free(8), free(100)]);
    check_round_trip(&[IntentPayload::Rmap(RmapExtent {
        owner: 131,
        start: FsBlock(9),
        offset: FileBlock(4),
        length_blocks: 2,
        flags: 1,
    })]);
    check_round_trip(&[IntentPayload::Refcount(RefcountExtent {
        start: FsBlock(9),
        length_blocks: 2,
        flags: 1,
    })]);
    check_round_trip(&[IntentPayload::Attr(Box::new(AttrPayload {
        inode: InodeNumber(131),
        generation: 5,
        operation: AttrOperation::Set,
        filter: 2,
        name: b"name".to_vec(),
        new_name: None,
        value: b"value".to_vec(),
        new_value: None,
    }))]);
}
