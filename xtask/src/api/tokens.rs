//! Printing of Rust tokens as a person writes them: `&mut [u8]`, not `& mut [u8]`.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// Keywords after which a bracket or a reference needs a blank.
const KEYWORDS: [&str; 7] = ["mut", "dyn", "as", "in", "where", "const", "for"];

/// Returns the tokens as one line. Prints `mut self` as `self`, which is the same to a caller.
pub(super) fn print(tokens: impl quote::ToTokens) -> String {
    let mut text = String::new();
    append(&mut text, tokens.to_token_stream());
    text.replace("for <", "for<").replace("(mut self", "(self").trim().to_owned()
}

fn append(text: &mut String, tokens: TokenStream) {
    // Whether the last token joins the next one: `&`, `'`, `::`, `<`.
    let mut is_joined = true;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) => {
                let is_operator = text.ends_with(['=', '+', '|', ':', ',', ';', '>']);
                if !is_joined || (is_operator && !text.ends_with("::")) {
                    blank(text);
                }
                text.push_str(&ident.to_string());
                is_joined = false;
            }
            TokenTree::Literal(literal) => {
                if !is_joined {
                    blank(text);
                }
                text.push_str(&literal.to_string());
                is_joined = false;
            }
            TokenTree::Group(group) => {
                let word = text.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                if KEYWORDS.contains(&word) || text.ends_with([',', '=', ':', ';']) {
                    blank(text);
                }
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => (" { ", " }"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                let mut inside = String::new();
                append(&mut inside, group.stream());
                text.push_str(without_last_comma(inside.trim()));
                text.push_str(close);
                is_joined = false;
            }
            TokenTree::Punct(punct) => {
                let mut operator = punct.as_char().to_string();
                let mut spacing = punct.spacing();
                // `->`, `=>`, `::`, `..`, `<<`: one operator of several characters.
                while spacing == Spacing::Joint && punct.as_char() != '\'' {
                    let Some(TokenTree::Punct(next)) = tokens.peek() else { break };
                    if !is_one(&operator, next.as_char()) {
                        break;
                    }
                    operator.push(next.as_char());
                    spacing = next.spacing();
                    tokens.next();
                }
                is_joined = append_operator(text, &operator, is_joined);
            }
        }
    }
}

/// Removes the final comma from a list in brackets. The comma of a tuple of one element stays.
fn without_last_comma(inside: &str) -> &str {
    let shorter = inside.strip_suffix(',');
    shorter.filter(|shorter| shorter.contains([',', ':'])).unwrap_or(inside)
}

/// Returns whether `operator`, followed by the character `next`, is the start of a longer operator,
/// as `-` followed by `>` is.
fn is_one(operator: &str, next: char) -> bool {
    ["->", "=>", "::", "..", "..=", "<<", "==", "&&", "||"].contains(&&*format!("{operator}{next}"))
}

/// Appends an operator to `text`, with the usual blanks around it. Returns whether the next token
/// follows without a further blank. `was_joined` says whether the operator itself must follow the
/// token before it without a further blank.
fn append_operator(text: &mut String, operator: &str, was_joined: bool) -> bool {
    match operator {
        "->" | "=>" | "=" | "+" | "|" | "==" | "<<" => {
            blank(text);
            text.push_str(operator);
            text.push(' ');
            true
        }
        "&" | "'" | "*" | "&&" | "#" => {
            if !was_joined || text.ends_with([',', '=', '>', ';']) || is_after_colon(text) {
                blank(text);
            }
            text.push_str(operator);
            true
        }
        "::" => {
            text.push_str("::");
            true
        }
        "<" | "!" | "?" | ".." | "..=" => {
            if text.ends_with([',', '=', '>']) || is_after_colon(text) {
                blank(text);
            }
            text.push_str(operator);
            true
        }
        // `>`, `,`, `:`, `;`
        operator => {
            text.push_str(operator);
            false
        }
    }
}

fn is_after_colon(text: &str) -> bool {
    text.ends_with(':') && !text.ends_with("::")
}

fn blank(text: &mut String) {
    if !text.is_empty() && !text.ends_with(' ') {
        text.push(' ');
    }
}

#[cfg(test)]
mod tests;
