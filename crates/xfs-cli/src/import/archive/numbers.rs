//! Numbers in the header of a member. They are octal text. GNU tar writes larger numbers in binary:
//! a set bit, and then the number in two's complement.

/// The bit in the first byte of a field that marks a binary number.
const BASE_256: u8 = 0x80;
/// The bit in the first byte of a binary number that holds its sign.
const SIGN: u8 = 0x40;

/// Parses the number in a field; `None` if the field is invalid. A blank field means 0.
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

/// Returns the number in a field as text for messages. If the field holds no number, returns the
/// bytes of the field.
pub(in crate::import) fn shown(field: &[u8]) -> Vec<u8> {
    number(field).map_or_else(|| text(field).to_vec(), |number| number.to_string().into_bytes())
}

/// Returns the text in a field without leading spaces. The text ends at a space or a zero byte.
fn text(field: &[u8]) -> &[u8] {
    let text = field.trim_ascii_start();
    text.split(|byte| matches!(byte, 0 | b' ')).next().unwrap_or_default()
}

/// Parses octal text; empty text means 0, and invalid text gives `None`.
pub(in crate::import) fn octal(text: &[u8]) -> Option<i128> {
    in_base(text, 8)
}

/// Parses hexadecimal text; empty text means 0, and invalid text gives `None`.
pub(in crate::import) fn hexadecimal(text: &[u8]) -> Option<i128> {
    in_base(text, 16)
}

fn in_base(text: &[u8], base: u32) -> Option<i128> {
    text.iter().try_fold(0_i128, |number, byte| {
        let digit = char::from(*byte).to_digit(base)?;
        number.checked_mul(base.into())?.checked_add(digit.into())
    })
}
