//! The log items of a transaction, field by field.

use ferroxfs::contents::FsBlock;
use ferroxfs::raw::format::log_item::{
    AttrIntent, ExchangeIntent, InodeCreate, InodeItem, LoggedBuffer, LoggedItem,
};

use crate::inspect::structures::{Fields, Value};

/// Returns the fields of a log item, for output.
pub(super) fn describe(item: &LoggedItem<'_>) -> Fields {
    match item {
        LoggedItem::Inode(item) => inode(item),
        LoggedItem::Buffer(item) => buffer(item),
        LoggedItem::InodeCreate(create) => inode_create(create),
        LoggedItem::Dquot(item) => vec![
            ("id", number(item.format.id)),
            ("at", Value::number(item.format.at.0)),
            ("offset_bytes", number(item.format.offset_bytes)),
        ],
        LoggedItem::QuotaOff(end) => vec![("flags", Value::Bits(end.flags.into()))],
        LoggedItem::ExtentFree(list)
        | LoggedItem::ExtentFreeDone(list)
        | LoggedItem::RealtimeFree(list)
        | LoggedItem::RealtimeFreeDone(list) => {
            intent(list.id, list.extents.iter().map(|e| extent(e.start, e.length_blocks)).collect())
        }
        LoggedItem::Refcount(list) | LoggedItem::RealtimeRefcount(list) => {
            let entries = list.extents.iter();
            let entries = entries.map(|e| flagged(extent(e.start, e.length_blocks), e.flags));
            intent(list.id, entries.collect())
        }
        LoggedItem::Rmap(list) | LoggedItem::RealtimeRmap(list) => {
            let entries = list.extents.iter().map(|e| {
                let extent = extent(e.start, e.length_blocks);
                mapped("owner", e.owner, e.offset.0, extent, e.flags)
            });
            intent(list.id, entries.collect())
        }
        LoggedItem::Map(list) => {
            let entries = list.extents.iter().map(|e| {
                let extent = extent(e.start, e.length_blocks);
                mapped("inode", e.inode.0, e.offset.0, extent, e.flags)
            });
            intent(list.id, entries.collect())
        }
        LoggedItem::Attr(item) => attr(item),
        LoggedItem::Exchange(item) => exchange(item),
        LoggedItem::Done(done) => vec![("id", Value::Bits(done.id))],
    }
}

fn number(value: u32) -> Value {
    Value::number(value)
}

fn inode(item: &InodeItem<'_>) -> Fields {
    let format = &item.format;
    let mut fields = vec![
        ("inode", Value::number(format.inode.0)),
        ("fields", Value::Bits(format.fields.bits().into())),
        ("cluster", Value::number(format.cluster.0)),
        ("offset_bytes", number(format.offset_bytes)),
    ];
    let forks = [("data_bytes", item.data), ("attr_bytes", item.attr)];
    let logged = forks.into_iter().filter_map(|(name, fork)| Some((name, fork?)));
    fields.extend(logged.map(|(name, fork)| (name, Value::number(fork.len() as u64))));
    fields
}

fn buffer(item: &LoggedBuffer<'_>) -> Fields {
    let format = &item.format;
    let name = format.buffer_type().map_or("unknown", |kind| kind.name());
    let mut fields = vec![
        ("at", Value::number(format.at.0)),
        ("blocks", Value::number(format.blocks)),
        ("type", Value::Text(name.to_owned())),
        ("flags", Value::Bits(format.flags.bits().into())),
    ];
    if item.is_cancel() {
        fields.push(("cancelled", Value::Text("yes".to_owned())));
    } else {
        let bytes: usize = item.pieces.iter().map(|piece| piece.bytes.len()).sum();
        fields.push(("pieces", Value::number(item.pieces.len() as u64)));
        fields.push(("bytes", Value::number(bytes as u64)));
    }
    fields
}

fn inode_create(create: &InodeCreate) -> Fields {
    vec![
        ("group", number(create.group.0)),
        ("block", number(create.start.0)),
        ("blocks", number(create.length_blocks)),
        ("inodes", number(create.count)),
        ("inode_size", number(create.inode_size)),
        ("generation", Value::Bits(create.generation.into())),
    ]
}

fn intent(id: u64, entries: Vec<Fields>) -> Fields {
    let entries = entries.into_iter().map(Value::Record).collect();
    vec![("id", Value::Bits(id)), ("extents", Value::List(entries))]
}

fn extent(start: FsBlock, length_blocks: u32) -> Fields {
    vec![("block", Value::number(start.0)), ("blocks", number(length_blocks))]
}

fn flagged(mut fields: Fields, flags: u32) -> Fields {
    fields.push(("flags", Value::Bits(flags.into())));
    fields
}

fn mapped(owner: &'static str, number: u64, offset: u64, extent: Fields, flags: u32) -> Fields {
    let mut fields = vec![(owner, Value::number(number)), ("offset", Value::number(offset))];
    fields.extend(extent);
    flagged(fields, flags)
}

fn attr(item: &AttrIntent<'_>) -> Fields {
    let mut fields = vec![
        ("id", Value::Bits(item.id)),
        ("inode", Value::number(item.inode.0)),
        ("operation", Value::Text(item.operation.name().to_owned())),
        ("filter", Value::Bits(item.filter.into())),
        ("name", Value::Name(item.names.name.to_vec())),
        ("value_bytes", Value::number(item.names.value.len() as u64)),
    ];
    if let Some(name) = item.names.new_name {
        fields.push(("new_name", Value::Name(name.to_vec())));
    }
    fields
}

fn exchange(item: &ExchangeIntent) -> Fields {
    let [first, second] = item.inodes;
    let [start, other_start] = item.starts;
    vec![
        ("id", Value::Bits(item.id)),
        ("inode", Value::number(first.0)),
        ("other_inode", Value::number(second.0)),
        ("start", Value::number(start.0)),
        ("other_start", Value::number(other_start.0)),
        ("blocks", Value::number(item.length_blocks)),
        ("flags", Value::Bits(item.flags.bits())),
    ]
}
