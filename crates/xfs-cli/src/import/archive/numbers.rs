//! Numbers in the header of a member: octal text, or for larger numbers as in GNU tar a set bit and
//! the number in two's complement.

/// The bit of a binary number.
const BASE_256: u8 = 0x80;
/// The sign bit of a binary number, in the first byte.
const SIGN: u8 = 0x40;

/// Parses the number in a field; `None` if it is invalid. A blank field is 0.
pub(in crate::import) fn number(field: &[u8]) -> Option<i128> {
    match field.split_first() {
        Some((first, rest)) if first & BASE_256 != 0 => {
            let value = first & !(BASE_256 | SIGN);
            let start = i128::from(value) - i128::from(first & SIGN);
            // A field has at most twelve bytes.
            rest.iter().try_fold(start, |number, byte| {
                number.checked_mul(256)?.checked_add(i128::from(*byte))
            })
        }
        _ => octal(text(field)),
    }
}

/// Returns the number in a field for messages, or the bytes if it is no number.
pub(in crate::import) fn shown(field: &[u8]) -> Vec<u8> {
    number(field).map_or_else(|| text(field).to_vec(), |number| number.to_string().into_bytes())
}

/// Returns the text of a field without leading spaces. A space or a zero byte ends it.
fn text(field: &[u8]) -> &[u8] {
    let text = field.trim_ascii_start();
    text.split(|byte| matches!(byte, 0 | b' ')).next().unwrap_or_default()
}

/// Parses octal text; empty text is 0.
pub(in crate::import) fn octal(text: &[u8]) -> Option<i128> {
    in_base(text, 8)
}

/// Parses hexadecimal text; empty text is 0.
pub(in crate::import) fn hexadecimal(text: &[u8]) -> Option<i128> {
    in_base(text, 16)
}

fn in_base(text: &[u8], base: u32) -> Option<i128> {
    text.iter().try_fold(0_i128, |number, byte| {
        let digit = char::from(*byte).to_digit(base)?;
        number.checked_mul(base.into())?.checked_add(digit.into())
    })
}
