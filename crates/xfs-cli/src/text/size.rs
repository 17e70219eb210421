//! Parsing and formatting of sizes in bytes, such as `512m` and `1.5 KiB`.

/// Parses a number of bytes, with an optional suffix k, m, g or t for units of 1024.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.strip_suffix(|c: char| c.is_ascii_alphabetic()) {
        None => (text, 0),
        Some(digits) => {
            let shift = match text.chars().next_back().map(|c| c.to_ascii_lowercase()) {
                Some('k') => 10,
                Some('m') => 20,
                Some('g') => 30,
                Some('t') => 40,
                _ => return Err(format!("\"{text}\" has a suffix other than k, m, g, t")),
            };
            (digits, shift)
        }
    };
    let number: u64 = digits.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("\"{text}\" is too large"))
}

/// Formats a number of bytes with one decimal and a binary unit, such as `1.5 KiB`.
pub(crate) fn human(bytes: u64) -> String {
    let (scaled, unit) = scale(bytes);
    if unit == "B" { format!("{bytes} B") } else { format!("{scaled:.1} {unit}") }
}

/// Formats a number of bytes with a binary unit and at most four digits, such as `99.9 MiB` or `519
/// MiB`.
pub(crate) fn brief(bytes: u64) -> String {
    let (scaled, unit) = scale(bytes);
    match unit {
        "B" => format!("{bytes} B"),
        _ if scaled < 99.95 => format!("{scaled:.1} {unit}"),
        _ => format!("{scaled:.0} {unit}"),
    }
}

fn scale(bytes: u64) -> (f64, &'static str) {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        unit = next;
        if scaled < 1024.0 {
            break;
        }
        if next != "EiB" {
            scaled /= 1024.0;
        }
    }
    (scaled, unit)
}

/// Formats a number of bytes as `ls -h` and `du -h` do, such as `1.5K`: rounded up, in units of
/// 1024.
pub(crate) fn short(bytes: u64) -> String {
    let units = (1..).zip(['K', 'M', 'G', 'T', 'P', 'E']);
    for (power, letter) in units.take_while(|_| bytes >= 1024) {
        let unit = 1_u128 << (10 * power);
        let tenths = (u128::from(bytes) * 10).div_ceil(unit);
        let whole = u128::from(bytes).div_ceil(unit);
        if tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        if whole < 1024 {
            return format!("{whole}{letter}");
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests;
