//! Modes as text: `644`, `u=rw,go+rX`, `g=u`, as chmod(1) takes them.
//!
//! Owns: their syntax, and what they make of a mode. Does **not** own whose mode it is.
//!
//! # Invariants
//!
//! - **I1** The set-ID bits of a directory are changed only by who names them: by the letter `s` for their
//!   class, by a number that has them, or by a number of five digits and more, which names all bits. A
//!   directory that hands its group down keeps doing so through `chmod 755`.
//! - **I2** An operation without classes before it gives and takes what the umask lets it.

use rustix::fs::Mode;

const READ: u32 = 0o444;
const WRITE: u32 = 0o222;
const EXECUTE: u32 = 0o111;
const SET_IDS: u32 = 0o6000;
const STICKY: u32 = 0o1000;
const ALL: u32 = 0o7777;
/// Digits of a number that leaves alone what it does not name (**I1**).
const FEW_DIGITS: usize = 4;

/// What a mode is changed to, or how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeChange(Vec<Operation>);

/// One operator with what is before and behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    /// The bits of the classes before it; 0 where there are none (**I2**).
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
    /// These bits, for all classes.
    Letters { bits: u32, executes_if_any: bool },
    /// What the class has that is so many bits up.
    Copy { shift: u32 },
    /// Bits as a number, and the set-ID bits that it names.
    Number { bits: u32, names: u32 },
}

/// The file that a mode is changed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Circumstances {
    pub(crate) is_directory: bool,
    pub(crate) umask: u32,
}

impl ModeChange {
    /// Reads a mode; `None` for what is none.
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

    /// What becomes of a mode, without the bits of its type.
    pub(crate) fn of(&self, mode: u32, circumstances: Circumstances) -> u32 {
        let apply = |mode, operation: &Operation| operation.of(mode, circumstances);
        self.0.iter().fold(mode & ALL, apply)
    }
}

/// Reads the classes of a clause, and each operation behind them.
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
        let (sign, behind) = rest.split_at_checked(1)?;
        let operator = match sign {
            "+" => Operator::Add,
            "-" => Operator::Take,
            "=" => Operator::Set,
            _ => return None,
        };
        if behind.starts_with(|c: char| c.is_ascii_digit()) {
            let (bits, behind) = leading_number(behind)?;
            let operand = Operand::Number { bits, names: SET_IDS };
            operations.push(Operation { classes: ALL, operator, operand });
            // A number stands alone: it says of itself which classes it means.
            return (who.is_empty() && behind.is_empty()).then_some(());
        }
        let length = behind.find(['+', '-', '=']).unwrap_or(behind.len());
        let (letters, behind) = behind.split_at_checked(length)?;
        operations.push(Operation { classes, operator, operand: parse_operand(letters)? });
        rest = behind;
    }
    Some(())
}

/// Reads octal digits, and returns what is behind them.
fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_digit(8)).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let bits = u32::from_str_radix(digits, 8).ok().filter(|bits| *bits <= ALL)?;
    Some((bits, rest))
}

/// Reads a class to copy, or the letters of bits.
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
            // Times 0o111 gives to each class what the one has.
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

/// The umask of this process, which has to be set to be read. For who has no other threads yet.
pub(crate) fn umask() -> u32 {
    let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask);
    umask.bits()
}

#[cfg(test)]
mod tests;
