//! Answers as pages of HTML: one file each, without network.
//!
//! Everything from a dataset is text from an unknown volume, so it passes through [`Escaped`].

mod growth;
pub(crate) mod overview;
mod table;
mod treemap;

use std::fmt::{self, Write};

use crate::rows::Rows;

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// Text that is shown as it is, in contents and in attributes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Also the marks that turn the direction of text around.
                _ if character.is_control() || is_mark_of_direction(character) => {
                    write!(f, "{}", character.escape_unicode())?;
                }
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

fn is_mark_of_direction(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the page of one report.
pub(crate) fn report(title: &str, rows: &Rows) -> String {
    let mut body = String::new();
    body.push_str("<section>");
    body.push_str(&table::table(title, rows, None));
    if rows.is_cut {
        let shown = rows.rows.len();
        body.push_str(&format!(
            "<p class=note>The answer has more rows than the {shown} that this page shows.</p>"
        ));
    }
    body.push_str("</section>");
    page(title, "", &body)
}

/// Returns a page with this contents.
fn page(title: &str, lead: &str, body: &str) -> String {
    let title = Escaped(title);
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=icon href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=skip href=#main>Skip to the contents</a>\n\
         <header><h1>{title}</h1>{lead}</header>\n<main id=main>\n{body}\n</main>\n\
         <footer><p>Made by ferroxfs-query {version}. Times are in UTC.</p></footer>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests;
