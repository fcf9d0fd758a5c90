//! Check for regular expressions in schemas that clients with an ECMAScript engine reject.

use std::{iter::Peekable, str::Chars};

/// Reason why clients reject a pattern, if they do.
///
/// If `new RegExp(pattern, "u")` rejects one pattern, clients of the TypeScript SDK lose the whole tool list.
/// So this function rejects the same patterns. The Rust engine has already compiled the pattern, so its
/// brackets are balanced.
pub(in crate::config) fn rejected_by_clients(pattern: &str) -> Option<String> {
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    let mut after_quantifier = false;
    while let Some(character) = rest.next() {
        let mut quantifier = false;
        match character {
            '\\' => {
                if let Some(why) = escape(&mut rest, in_class) {
                    return Some(why);
                }
            }
            ']' if in_class => in_class = false,
            '[' if in_class && matches!(rest.peek(), Some(':')) => {
                return Some("`[:…:]`; write the characters, such as `[a-z]`".to_owned());
            }
            '[' if in_class => return Some("a class within a class".to_owned()),
            '&' | '-' | '~' if in_class && rest.peek() == Some(&character) => {
                return Some(format!("`{character}{character}` in a class"));
            }
            _ if in_class => {}
            '[' => in_class = true,
            ']' | '}' => return Some(format!("`{character}` without a backslash before it")),
            '(' if rest.peek() == Some(&'?') => {
                rest.next();
                if let Some(why) = group(&mut rest) {
                    return Some(why);
                }
            }
            '*' | '+' | '?' | '{' => {
                let lazy = character == '?' && after_quantifier;
                if after_quantifier && !lazy {
                    return Some(format!("`{character}` after another repetition"));
                }
                if character == '{' {
                    let _ = rest.by_ref().find(|c| *c == '}');
                }
                quantifier = !lazy;
            }
            _ => {}
        }
        after_quantifier = quantifier;
    }
    None
}

fn group(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    match rest.next() {
        Some(':' | '=' | '!') => None,
        Some('<') => None,
        Some('P') => Some("`(?P<name>…)`; write `(?<name>…)`".to_owned()),
        Some(flag) => Some(format!("`(?{flag}…)`; write out the alternatives, such as `[Aa]`")),
        None => None,
    }
}

fn escape(rest: &mut Peekable<Chars<'_>>, in_class: bool) -> Option<String> {
    let character = rest.next()?;
    match character {
        'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'n' | 'r' | 't' | 'v' | 'f' => None,
        '^' | '$' | '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '/' => None,
        '-' if in_class => None,
        'b' | 'B' if !in_class => match rest.peek() {
            Some('{') => Some("`\\b{…}`".to_owned()),
            _ => None,
        },
        'x' if rest.peek() == Some(&'{') => Some("`\\x{…}`; write `\\u{…}`".to_owned()),
        'x' => None,
        'u' => {
            skip_braces(rest);
            None
        }
        'p' | 'P' => match rest.peek() {
            Some('{') => {
                skip_braces(rest);
                None
            }
            _ => Some("`\\p` without braces; write `\\p{L}`".to_owned()),
        },
        'A' => Some("`\\A`; write `^`".to_owned()),
        'z' => Some("`\\z`; write `$`".to_owned()),
        other => Some(format!("`\\{other}`; remove the backslash")),
    }
}

fn skip_braces(rest: &mut Peekable<Chars<'_>>) {
    if rest.peek() == Some(&'{') {
        let _ = rest.by_ref().find(|c| *c == '}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_all_clients_support_are_accepted() {
        for pattern in [
            "^[a-z]{2,3}$",
            r"^\d{4}-\d{2}$",
            "a+?b*?c??",
            r"[\w.\-]+@x",
            "(?:a|b)(?<c>d)",
            r"\p{L}\u{41}",
            r"\{a\}",
        ] {
            regex::Regex::new(pattern).unwrap();
            assert_eq!(rejected_by_clients(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn patterns_that_some_client_rejects_are_rejected() {
        for pattern in [
            "(?i)abc",
            "(?P<a>b)",
            r"\Aabc",
            r"abc\z",
            r"a\-b",
            "[[:alpha:]]",
            "a}",
            r"\x{41}",
            "a**",
            r"\pL",
            "(?s:.)",
            "[a-z&&[aeiou]]",
            // Any character and `a]` to clients, one that is neither `]` nor `a` to us.
            "[^]a]",
        ] {
            assert!(rejected_by_clients(pattern).is_some(), "{pattern}");
        }
    }
}
