//! Modes as text: `644`, `u=rw,go+rX`, `g=u`, as chmod(1) parses them.
//!
//! Owns: the syntax of such texts, and the computation of the new mode. Does **not** own: setting
//! the mode of a file.
//!
//! # Invariants
//!
//! - **I1** The set-ID bits of a directory change only if they are named. The letter `s` names the
//!   bit of its class, and a number names the set-ID bits that are set in it. A number of five or
//!   more digits names all bits. So a directory whose group is inherited keeps its set-group-ID bit
//!   through `chmod 755`.
//! - **I2** An operation without classes changes only the bits that the umask allows.

use rustix::fs::Mode;

const READ: u32 = 0o444;
const WRITE: u32 = 0o222;
const EXECUTE: u32 = 0o111;
const SET_IDS: u32 = 0o6000;
const STICKY: u32 = 0o1000;
const ALL: u32 = 0o7777;
/// If an octal mode for a directory has at most this many digits, it changes only the set-ID bits
/// that it contains. A longer mode sets or clears all of them (**I1**).
const FEW_DIGITS: usize = 4;

/// A change of a mode, as a list of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeChange(Vec<Operation>);

/// One operator with the classes before it and the operand after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    /// The permission bits of the named classes (`u`, `g`, `o`, `a`); 0 if none is named (**I2**).
    classes: u32,
    operator: Operator,
    operand: Operand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Take,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    /// Permission letters, such as `rw`. `bits` are the bits that they mean in all three classes;
    /// `executes_if_any` is set for the letter `X`.
    Letters { bits: u32, executes_if_any: bool },
    /// The letter of a class, whose permissions are copied. They are the three bits of the mode
    /// from bit `shift` on.
    Copy { shift: u32 },
    /// An octal number. `bits` are all its bits; `names` are the set-ID bits that it changes on a
    /// directory (**I1**).
    Number { bits: u32, names: u32 },
}

/// Facts, other than the mode, that a change of the mode depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Circumstances {
    pub(crate) is_directory: bool,
    pub(crate) umask: u32,
}

impl ModeChange {
    /// Parses the text of a mode; `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let (bits, rest) = leading_number(text)?;
            let names = if text.len() > FEW_DIGITS { SET_IDS } else { bits & SET_IDS };
            let operand = Operand::Number { bits, names };
            let operation = Operation { classes: ALL, operator: Operator::Set, operand };
            return rest.is_empty().then(|| Self(vec![operation]));
        }
        let mut operations = Vec::new();
        for clause in text.split(',') {
            parse_clause(clause, &mut operations)?;
        }
        Some(Self(operations))
    }

    /// Returns the mode after the change. `mode` and the result have no type bits.
    pub(crate) fn of(&self, mode: u32, circumstances: Circumstances) -> u32 {
        let apply = |mode, operation: &Operation| operation.of(mode, circumstances);
        self.0.iter().fold(mode & ALL, apply)
    }
}

/// Parses one clause, such as `u=rw+X`, and appends its operations. `None` if the clause is
/// invalid.
fn parse_clause(clause: &str, operations: &mut Vec<Operation>) -> Option<()> {
    let (who, mut rest) = clause.split_at_checked(clause.find(['+', '-', '='])?)?;
    let mut classes = 0;
    for letter in who.chars() {
        classes |= match letter {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => ALL,
            _ => return None,
        };
    }
    while !rest.is_empty() {
        let (sign, after) = rest.split_at_checked(1)?;
        let operator = match sign {
            "+" => Operator::Add,
            "-" => Operator::Take,
            "=" => Operator::Set,
            _ => return None,
        };
        if after.starts_with(|c: char| c.is_ascii_digit()) {
            let (bits, after) = leading_number(after)?;
            let operand = Operand::Number { bits, names: SET_IDS };
            operations.push(Operation { classes: ALL, operator, operand });
            // A number stands alone: it contains its classes.
            return (who.is_empty() && after.is_empty()).then_some(());
        }
        let length = after.find(['+', '-', '=']).unwrap_or(after.len());
        let (letters, after) = after.split_at_checked(length)?;
        operations.push(Operation { classes, operator, operand: parse_operand(letters)? });
        rest = after;
    }
    Some(())
}

/// Parses the octal digits at the start of `text`. Returns the number and the text after the
/// digits; `None` if there are none, or if the number is larger than 07777.
fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_digit(8)).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let bits = u32::from_str_radix(digits, 8).ok().filter(|bits| *bits <= ALL)?;
    Some((bits, rest))
}

/// Parses an operand: the letter of a class to copy, or letters of permissions. `None` if it is
/// invalid.
fn parse_operand(letters: &str) -> Option<Operand> {
    let (mut bits, mut executes_if_any) = (0, false);
    for letter in letters.chars() {
        bits |= match letter {
            'u' | 'g' | 'o' if letters.len() > 1 => return None,
            'u' => return Some(Operand::Copy { shift: 6 }),
            'g' => return Some(Operand::Copy { shift: 3 }),
            'o' => return Some(Operand::Copy { shift: 0 }),
            'r' => READ,
            'w' => WRITE,
            'x' => EXECUTE,
            's' => SET_IDS,
            't' => STICKY,
            'X' => {
                executes_if_any = true;
                0
            }
            _ => return None,
        };
    }
    Some(Operand::Letters { bits, executes_if_any })
}

impl Operation {
    fn of(self, mode: u32, Circumstances { is_directory, umask }: Circumstances) -> u32 {
        let affected = if self.classes == 0 { ALL } else { self.classes };
        let (bits, names) = match self.operand {
            Operand::Letters { bits, executes_if_any } => {
                let executes = executes_if_any && (is_directory || mode & EXECUTE != 0);
                (bits | if executes { EXECUTE } else { 0 }, bits & affected & SET_IDS)
            }
            // Multiplying by 0o111 copies the permissions of one class to all three.
            Operand::Copy { shift } => ((mode >> shift & 0o7) * 0o111, 0),
            Operand::Number { bits, names } => (bits, names),
        };
        let let_be = if is_directory { SET_IDS & !names } else { 0 };
        let granted = if self.classes == 0 { !umask } else { affected };
        let bits = bits & granted & !let_be;
        match self.operator {
            Operator::Add => mode | bits,
            Operator::Take => mode & !bits,
            Operator::Set => (mode & (!affected | let_be)) | bits,
        }
    }
}

/// Returns the umask of this process. To read it, the function must change it for a moment, so no
/// other thread may exist yet.
pub(crate) fn umask() -> u32 {
    let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask);
    umask.bits()
}

#[cfg(test)]
mod tests;
