//! From the attribute in which Linux keeps an access control list to the text that tar keeps.

/// Bytes in front of the entries.
const HEADER_BYTES: usize = 4;
/// Bytes in an entry: tag, permissions, id, all of them least significant byte first.
const ENTRY_BYTES: usize = 8;
/// The only version there is.
const VERSION: u32 = 2;

/// The list as text, or `None` where the value is no list.
pub(super) fn to_text(value: &[u8]) -> Option<String> {
    let (header, entries) = value.split_at_checked(HEADER_BYTES)?;
    if number(header) != VERSION || entries.len() % ENTRY_BYTES != 0 {
        return None;
    }
    let entries: Option<Vec<String>> = entries.chunks(ENTRY_BYTES).map(entry_text).collect();
    Some(entries?.join(","))
}

fn entry_text(entry: &[u8]) -> Option<String> {
    let (tag, rest) = entry.split_at_checked(2)?;
    let (permissions, id) = rest.split_at_checked(2)?;
    let (permissions, id) = (number(permissions), number(id));
    let who = match number(tag) {
        0x01 => "user:".to_owned(),
        0x02 => format!("user:{id}"),
        0x04 => "group:".to_owned(),
        0x08 => format!("group:{id}"),
        0x10 => "mask:".to_owned(),
        0x20 => "other:".to_owned(),
        _ => return None,
    };
    let bit = |mask: u32, letter: char| if permissions & mask == 0 { '-' } else { letter };
    Some(format!("{who}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x')))
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u32::from(byte))
}
