//! Messages for invalid regular expressions, plainer than those of the crate `regex`.

use regex::Error;

/// The messages of the crate `regex`, and their replacements.
const REASONS: &[(&str, &str)] = &[
    ("unclosed group", "a '(' has no ')'"),
    ("unopened group", "a ')' has no '('"),
    ("unclosed character class", "a '[' has no ']'"),
    ("repetition operator missing expression", "nothing comes before a repetition (* + ? {})"),
    ("repetition quantifier expects a valid decimal", "a repetition {} has no number"),
    ("unclosed counted repetition", "a '{' has no '}'"),
    ("invalid repetition count range", "a repetition {N,M} has its numbers in the wrong order"),
    ("invalid character class range", "a range in [] has its ends in the wrong order"),
    ("unrecognized escape sequence", "an escape (a backslash and a letter) is not known"),
    ("incomplete escape sequence", "an escape ends too early"),
    ("look-around", "look-around is not supported"),
    ("backreferences are not supported", "references to groups (\\1) are not supported"),
    ("Unicode property not found", "a property (\\p{...}) is not known"),
    ("unrecognized flag", "a flag is not known"),
    ("duplicate capture group name", "two groups have one name"),
    ("empty capture group name", "a group has an empty name"),
];

/// Returns the reason why a regular expression is invalid.
pub(crate) fn reason(error: &Error) -> String {
    let Error::Syntax(text) = error else { return "it is too large".to_owned() };
    let known = REASONS.iter().find(|(theirs, _)| text.contains(theirs));
    known.map_or("its syntax is not that of the Rust crate regex", |(_, ours)| ours).to_owned()
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::reason;

    #[test]
    fn regex_errors_are_explained() {
        let cases = [
            ("(", "a '(' has no ')'"),
            (")", "a ')' has no '('"),
            ("[a", "a '[' has no ']'"),
            ("*", "nothing comes before a repetition (* + ? {})"),
            ("a{2,1}", "a repetition {N,M} has its numbers in the wrong order"),
            ("[b-a]", "a range in [] has its ends in the wrong order"),
            ("\\y", "an escape (a backslash and a letter) is not known"),
            ("(?=a)", "look-around is not supported"),
            ("(a)\\1", "references to groups (\\1) are not supported"),
            ("(?z)", "a flag is not known"),
            ("(a{1000}){1000}", "it is too large"),
        ];
        for (pattern, said) in cases {
            assert_eq!(reason(&Regex::new(pattern).unwrap_err()), said, "{pattern}");
        }
    }
}
