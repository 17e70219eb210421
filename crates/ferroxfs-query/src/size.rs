//! Sizes in bytes, such as `512m` and `1.5 KiB`.

/// Parses a number of bytes, with an optional suffix k, m, g or t for units of 1024.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let suffix = text.chars().next_back().filter(char::is_ascii_alphabetic);
    let shift = match suffix.map(|letter| letter.to_ascii_lowercase()) {
        None => 0,
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        Some(_) => return Err(format!("\"{text}\" has a suffix other than k, m, g, t")),
    };
    let digits = suffix.and_then(|letter| text.strip_suffix(letter)).unwrap_or(text);
    let number: u64 = digits.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("\"{text}\" is too large"))
}

/// Formats a number of bytes with one decimal and a binary unit, such as `-1.5 KiB`.
pub(crate) fn human(bytes: i128) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes.unsigned_abs() < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while scaled.abs() >= 1023.95 {
        let Some(next) = units.next() else { break };
        unit = Some(next);
        scaled /= 1024.0;
    }
    format!("{scaled:.1} {}", unit.copied().unwrap_or("EiB"))
}

/// Formats a number with spaces between groups of three digits, such as `12 345`.
pub(crate) fn grouped(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut result = String::from(if number < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            // A thin space that does not break a line.
            result.push('\u{202f}');
        }
        result.push(digit);
    }
    result
}

#[cfg(test)]
mod tests;
