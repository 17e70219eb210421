//! The rule about parameters: no function takes a tuple, which would hide how many parameters it
//! has.
//!
//! Closures may take tuples, since their caller decides what they get. Functions of tests may, too.
//! Clippy limits the number of parameters.

use super::source::Masked;
use super::{File, Finding};

/// Finds the tuple parameters of the functions of a file.
pub(super) fn check(file: &File) -> Vec<Finding> {
    if file.is_test() {
        return Vec::new();
    }
    let code = Masked::new(&file.text).code;
    let mut findings = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let follows_name = code.get(..start).is_some_and(|before| before.ends_with(is_name));
        let Some(parameters) = parameters(&code, start).filter(|_| !follows_name) else { continue };
        for parameter in split(parameters, ',') {
            if is_tuple_parameter(parameter) {
                let offset = offset_in(&code, parameter.trim_start());
                let line = 1 + code.get(..offset).unwrap_or_default().matches('\n').count();
                let rule = "takes a tuple: name it as a struct, or pass its parts";
                findings.push(Finding::new(file, line, rule));
            }
        }
    }
    findings
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the byte offset of `part`, which is a part of `text`.
fn offset_in(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// Returns the text between the parentheses of the function at `start`. Returns `None` for the type
/// of a function, which has no name.
fn parameters(code: &str, start: usize) -> Option<&str> {
    let rest = code.get(start..)?.strip_prefix("fn ")?.trim_start();
    let after_name = rest.trim_start_matches(is_name);
    if after_name.len() == rest.len() {
        return None;
    }
    let list = match after_name.starts_with('<') {
        true => after_name.get(group_length(after_name)?..)?,
        false => after_name,
    };
    let list = list.trim_start();
    list.get(..group_length(list)?)?.strip_prefix('(')?.strip_suffix(')')
}

/// Returns the length of the group in brackets with which `text` begins, or `None` if it begins
/// with none.
fn group_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut last = ' ';
    for (index, c) in text.char_indices() {
        depth = depth.checked_add_signed(step(last, c))?;
        if depth == 0 {
            return (index > 0).then_some(index + c.len_utf8());
        }
        last = c;
    }
    None
}

/// Returns the change of the nesting depth of brackets at the character `c`: 1, -1 or 0. `last` is
/// the character before `c`: the `>` of `->` and `=>` is no bracket.
fn step(last: char, c: char) -> isize {
    match c {
        '(' | '[' | '{' | '<' => 1,
        '>' if last == '-' || last == '=' => 0,
        ')' | ']' | '}' | '>' => -1,
        _ => 0,
    }
}

/// Splits `text` at each separator outside of brackets.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut begin, mut depth, mut last) = (Vec::new(), 0, 0_isize, ' ');
    for (index, c) in text.char_indices() {
        depth += step(last, c);
        if c == separator && depth == 0 {
            parts.extend(text.get(begin..index));
            begin = index + c.len_utf8();
        }
        last = c;
    }
    parts.extend(text.get(begin..));
    parts
}

/// Returns whether the pattern or the type of a parameter is a tuple, or a reference to one.
fn is_tuple_parameter(parameter: &str) -> bool {
    let Some((pattern, rest)) = parameter.split_once(": ").or(parameter.split_once(":\n")) else {
        return false;
    };
    is_tuple(pattern) || is_tuple(rest)
}

/// Returns whether a pattern or type is a tuple of at least two parts, or a reference to one.
/// `&(dyn A + B)` is no tuple, but a type in parentheses.
fn is_tuple(text: &str) -> bool {
    let mut text = text.trim();
    while let Some(target) = text.strip_prefix('&') {
        let target = target.trim_start();
        let target = match target.strip_prefix('\'') {
            Some(lifetime) => lifetime.trim_start_matches(is_name).trim_start(),
            None => target,
        };
        text = target.strip_prefix("mut ").unwrap_or(target).trim_start();
    }
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner.is_some_and(|inner| split(inner, ',').len() > 1)
}

#[cfg(test)]
mod tests;
