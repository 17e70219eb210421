//! Numbers in the header of a member: octal text, or where that has no room, as GNU tar writes it, the number itself
//! in two's complement behind a set bit.

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
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Option<i128> {
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii();
    text.iter().try_fold(0_i128, |number, byte| {
        let digit = char::from(*byte).to_digit(8)?;
        number.checked_mul(8)?.checked_add(digit.into())
    })
}
