//! The argument of `-perm`: octal or symbolic, exact, all of (`-`) or any of (`/`).

use std::ffi::OsStr;

/// Execute, for each class.
const EXECUTE: u32 = 0o111;

/// A question about permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Exactly these bits.
    Exactly(u32),
    /// All of these bits.
    AllOf(u32),
    /// Any of these bits; no bits at all are always there.
    AnyOf(u32),
}

impl Permission {
    /// Reads the argument.
    pub(crate) fn parse(argument: &OsStr) -> Option<Self> {
        let text = argument.to_str()?;
        if let Some(mode) = text.strip_prefix('/') {
            return parse_mode(mode).map(Self::AnyOf);
        }
        // A minus in front of an operand of a symbolic mode means the same here: from no bits at
        // all there is nothing to take away.
        if let Some(mode) = text.strip_prefix('-') {
            return parse_mode(mode).map(Self::AllOf);
        }
        parse_mode(text).map(Self::Exactly)
    }

    /// Whether `mode` is as asked for.
    pub(crate) fn holds(self, mode: u32) -> bool {
        let mode = mode & 0o7777;
        match self {
            Self::Exactly(bits) => mode == bits,
            Self::AllOf(bits) => mode & bits == bits,
            Self::AnyOf(bits) => bits == 0 || mode & bits != 0,
        }
    }
}

/// Reads `644` or `u=rw,go+r`, starting from no permissions.
fn parse_mode(text: &str) -> Option<u32> {
    change_mode(text, 0, false)
}

/// What `644` or `u=rw,go+rX` makes of a mode, of a directory or something else.
pub(crate) fn change_mode(text: &str, mode: u32, is_directory: bool) -> Option<u32> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o7777);
    }
    text.split(',').try_fold(mode, |mode, clause| {
        // By what the clauses before have made of it, as chmod(1) has it.
        let executes = is_directory || mode & EXECUTE != 0;
        apply_clause(mode, clause, executes)
    })
}

/// Applies one clause, such as `go+r`. An `X` is an `x` if it `executes`.
fn apply_clause(mode: u32, clause: &str, executes: bool) -> Option<u32> {
    let operator = clause.find(['+', '-', '='])?;
    let (who, rest) = clause.split_at_checked(operator)?;
    let mut classes = 0;
    for letter in who.chars() {
        classes |= match letter {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => 0o7777,
            _ => return None,
        };
    }
    if classes == 0 {
        classes = 0o7777;
    }
    let mut characters = rest.chars();
    let operator = characters.next()?;
    let mut bits = 0;
    for letter in characters {
        bits |= match letter {
            'r' => 0o444,
            'w' => 0o222,
            'x' => EXECUTE,
            'X' if executes => EXECUTE,
            'X' => 0,
            's' => 0o6000,
            't' => 0o1000,
            _ => return None,
        };
    }
    // The sticky bit belongs to no class in particular.
    let bits = bits & (classes | 0o1000);
    Some(match operator {
        '+' => mode | bits,
        '-' => mode & !bits,
        _ => (mode & !classes) | bits,
    })
}
