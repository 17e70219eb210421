//! Numbers in the header of a member: octal text, or where that has no room, as GNU tar writes it,
//! the number itself in two's complement behind a set bit.

/// Says that a field holds the number itself.
const BASE_256: u8 = 0x80;
/// The sign of such a number, in the first byte.
const SIGN: u8 = 0x40;

/// The number in a field; `None` for what is none. A field that is blank holds 0.
pub(super) fn number(field: &[u8]) -> Option<i128> {
    match field.split_first() {
        Some((first, rest)) if first & BASE_256 != 0 => {
            let value = first & !(BASE_256 | SIGN);
            let start = i128::from(value) - i128::from(first & SIGN);
            // Twelve bytes at the most.
            rest.iter().try_fold(start, |number, byte| {
                number.checked_mul(256)?.checked_add(i128::from(*byte))
            })
        }
        _ => octal(text(field)),
    }
}

/// The number in a field as messages show it, or what stands there instead.
pub(super) fn shown(field: &[u8]) -> Vec<u8> {
    number(field).map_or_else(|| text(field).to_vec(), |number| number.to_string().into_bytes())
}

/// The text of a field, without spaces in front. A space or a zero byte ends it, whatever follows.
fn text(field: &[u8]) -> &[u8] {
    let text = field.trim_ascii_start();
    text.split(|byte| matches!(byte, 0 | b' ')).next().unwrap_or_default()
}

/// The number of an octal text; an empty one is 0.
pub(super) fn octal(text: &[u8]) -> Option<i128> {
    in_base(text, 8)
}

/// The number of a hexadecimal text; an empty one is 0.
pub(super) fn hexadecimal(text: &[u8]) -> Option<i128> {
    in_base(text, 16)
}

fn in_base(text: &[u8], base: u32) -> Option<i128> {
    text.iter().try_fold(0_i128, |number, byte| {
        let digit = char::from(*byte).to_digit(base)?;
        number.checked_mul(base.into())?.checked_add(digit.into())
    })
}
