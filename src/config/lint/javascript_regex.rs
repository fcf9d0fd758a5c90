//! Check of regular expressions in schemas: finds syntax that JavaScript clients reject.

use std::{iter::Peekable, str::Chars, sync::LazyLock};

use regex::Regex;

use crate::settings::fixed_regex;

/// Returns the reason why clients reject a pattern, if they do.
///
/// If `new RegExp(pattern, "u")` fails for one pattern, clients with the TypeScript SDK lose the whole tool
/// list, so this function must reject the same patterns. It also rejects classes that have another meaning in
/// JavaScript. The pattern has already been compiled by the Rust engine, so its brackets are balanced.
pub(crate) fn rejected_by_clients(pattern: &str) -> Option<String> {
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    let mut after_quantifier = false;
    // JavaScript can't repeat an assertion, such as `^` or `\b`.
    let mut after_assertion = false;
    while let Some(character) = rest.next() {
        let mut is_quantifier = false;
        let mut is_assertion = false;
        match character {
            '\\' => {
                is_assertion = !in_class && matches!(rest.peek(), Some('b' | 'B'));
                if let Some(reason) = unsupported_escape(&mut rest, in_class) {
                    return Some(reason);
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
            '^' | '$' => is_assertion = true,
            '(' if rest.peek() == Some(&'?') => match rest.nth(1) {
                Some(':' | '=' | '!') | None => {}
                Some('<') => {
                    let name: String = rest.by_ref().take_while(|c| *c != '>').collect();
                    if name.contains(['.', '[', ']']) {
                        return Some(format!("`(?<{name}>…)`; write a name of letters, digits and `_`"));
                    }
                }
                Some('P') => return Some("`(?P<name>…)`; write `(?<name>…)`".to_owned()),
                Some(flag) => {
                    return Some(format!("`(?{flag}…)`; write out the alternatives, such as `[Aa]`"));
                }
            },
            '*' | '+' | '?' | '{' => {
                let is_lazy = character == '?' && after_quantifier;
                if after_quantifier && !is_lazy {
                    return Some(format!("`{character}` after another repetition"));
                }
                if after_assertion {
                    return Some(format!("`{character}` after an assertion, such as `^`"));
                }
                if character == '{' {
                    let counts: String = rest.by_ref().take_while(|c| *c != '}').collect();
                    if counts.contains(char::is_whitespace) || counts.starts_with(',') {
                        return Some(format!("`{{{counts}}}`; write a repetition such as `{{4,6}}`"));
                    }
                }
                is_quantifier = !is_lazy;
            }
            _ => {}
        }
        (after_quantifier, after_assertion) = (is_quantifier, is_assertion);
    }
    None
}

/// Returns the reason why clients reject the escape sequence after a backslash, if they do.
fn unsupported_escape(rest: &mut Peekable<Chars<'_>>, in_class: bool) -> Option<String> {
    let (character, has_braces) = (rest.next()?, rest.peek() == Some(&'{'));
    let reason = match character {
        'u' | 'p' | 'P' if has_braces => {
            let name: String = rest.skip(1).take_while(|c| *c != '}').collect();
            let is_unknown = character != 'u' && !is_property(&name);
            return is_unknown.then(|| {
                format!("`\\{character}{{{name}}}`; write `\\p{{Lu}}` or `\\p{{Script=Greek}}`, in this case")
            });
        }
        'b' | 'B' if has_braces && !in_class => "`\\b{…}`",
        'x' if has_braces => "`\\x{…}`; write `\\u{…}`",
        'p' | 'P' => "`\\p` without braces; write `\\p{L}`",
        'A' => "`\\A`; write `^`",
        'z' => "`\\z`; write `$`",
        '-' if in_class => return None,
        'b' | 'B' if !in_class => return None,
        'u' | 'x' => return None,
        other if r"dDwWsSnrtvf^$\.*+?()[]{}|/".contains(other) => return None,
        other => return Some(format!("`\\{other}`; remove the backslash")),
    };
    Some(reason.to_owned())
}

/// Whether JavaScript has a Unicode property of this exact spelling: a general category, a common binary
/// property, or a script (ECMA-262, section 22.2.1, `UnicodePropertyValueExpression`).
fn is_property(name: &str) -> bool {
    static PROPERTY: LazyLock<Regex> = LazyLock::new(|| {
        fixed_regex(
            r"(?x)^(?:
            (?:(?:General_Category|gc)=)?(?:
                L[ultmoC]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfosn]?|
                (?:(?:Lowercase|Uppercase|Titlecase|Cased|Modifier|Other)_)?Letter|
                (?:(?:Nonspacing|Spacing|Enclosing|Combining)_)?Mark|
                (?:(?:Decimal|Letter|Other)_)?Number|
                (?:(?:Connector|Dash|Open|Close|Initial|Final|Other)_)?Punctuation|
                (?:(?:Math|Currency|Modifier|Other)_)?Symbol|(?:(?:Space|Line|Paragraph)_)?Separator|
                Control|Format|Surrogate|Private_Use|Unassigned|Other|punct|digit|cntrl)
            |Any|ASCII|Assigned|Alpha(?:betic)?|Upper(?:case)?|Lower(?:case)?|Cased|CI|Case_Ignorable
            |Changes_When_(?:Casefolded|Casemapped|Lowercased|Titlecased|Uppercased)|White_Space|space|Math
            |Ideo(?:graphic)?|UIdeo|Unified_Ideograph|Dash|Dia(?:critic)?|QMark|Quotation_Mark|Radical|VS
            |Variation_Selector|NChar|Noncharacter_Code_Point|DI|Default_Ignorable_Code_Point
            |Dep(?:recated)?|Ext(?:ender)?|Grapheme_(?:Base|Extend)|A?Hex|(?:ASCII_)?Hex_Digit|Join_Control
            |Logical_Order_Exception|Pattern_(?:Syntax|White_Space)|Regional_Indicator|Soft_Dotted
            |Sentence_Terminal|Terminal_Punctuation|Bidi_(?:Control|Mirrored)|IDS_(?:Bi|Tri)nary_Operator
            |X?IDS|X?IDC|X?ID_Start|X?ID_Continue|Emoji(?:_Component|_Modifier(?:_Base)?|_Presentation)?
            |E(?:Base|Comp|Mod|Pres)|ExtPict|Extended_Pictographic
            |(?:Script|sc|Script_Extensions|scx)=(?:SignWriting|[A-Z][a-z]+(?:_[A-Z][a-z]*)*)
            )$",
        )
    });
    PROPERTY.is_match(name)
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
            r"\p{Script=Greek}\P{Uppercase_Letter}[\p{gc=Nd}\p{Math_Symbol}]{2,}",
            r"\p{Emoji_Presentation}\p{Alpha}\p{Script=Linear_B}",
            r"^\b(^a)*$",
            r"\{a\}",
        ] {
            Regex::new(pattern).unwrap();
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
            r"^\p{Greek}+$",
            r"^\p{letter}$",
            r"^\d{4, 6}$",
            "^*a",
            r"\b+x",
            "(?<a.b>x)",
            // Any character and `a]` to clients, one that is neither `]` nor `a` to us.
            "[^]a]",
        ] {
            assert!(rejected_by_clients(pattern).is_some(), "{pattern}");
        }
    }
}
