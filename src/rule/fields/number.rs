//! Numbers as people write them: `$ 5.00`, `12,5 %`, `1,024`.

use std::borrow::Cow;

/// How a number is written, beside its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberForm {
    /// What may stand before it; the first that does is left out.
    pub prefix: Vec<String>,
    /// What may stand behind it.
    pub suffix: Vec<String>,
    /// What stands before its fraction, `.` or `,`.
    pub decimal: char,
    /// What may stand between its thousands; never the same as `decimal`.
    pub thousands: Option<char>,
}

impl Default for NumberForm {
    fn default() -> Self {
        Self { prefix: Vec::new(), suffix: Vec::new(), decimal: '.', thousands: None }
    }
}

impl NumberForm {
    /// The number as programs write it, with a point and without anything else; `None` when it is none. The digits
    /// themselves are for the caller to check.
    pub(crate) fn plain<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        let text = text.trim();
        let (sign, rest) = sign_of(text);
        let before = strip(rest, &self.prefix, |text, word| text.strip_prefix(word));
        let number = strip(before, &self.suffix, |text, word| text.strip_suffix(word));
        if number == rest && self.decimal == '.' && self.thousands.is_none() {
            return Some(Cow::Borrowed(text));
        }
        let (inner_sign, digits) = if sign.is_empty() { sign_of(number) } else { ("", number) };
        let end = digits.find([self.decimal, 'e', 'E']).unwrap_or(digits.len());
        let (whole, fraction) = digits.split_at(end);
        if self.decimal != '.' && fraction.contains('.') {
            return None;
        }
        let whole = match self.thousands {
            Some(separator) => without_groups(whole, separator)?,
            None => whole.to_owned(),
        };
        if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Cow::Owned(format!("{sign}{inner_sign}{whole}{}", fraction.replacen(self.decimal, ".", 1))))
    }
}

fn sign_of(text: &str) -> (&str, &str) {
    let end = usize::from(text.starts_with(['-', '+']));
    let (sign, rest) = text.split_at(end);
    (sign, rest.trim_start())
}

fn strip<'t>(
    text: &'t str,
    words: &[String],
    without: impl for<'w> Fn(&'t str, &'w str) -> Option<&'t str>,
) -> &'t str {
    words.iter().find_map(|word| without(text, word.trim())).map_or(text, str::trim)
}

/// Digits without what stands between their groups, when they are grouped as people do: three digits last, two or
/// three before (India has twos), so that `1,5` is not taken for 15.
pub(super) fn without_groups(whole: &str, separator: char) -> Option<String> {
    let is_separator = |c: char| match separator {
        ' ' => matches!(c, ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}'),
        '\'' => matches!(c, '\'' | '’'),
        other => c == other,
    };
    let groups: Vec<&str> = whole.split(is_separator).collect();
    let [first, middle @ .., last] = groups.as_slice() else { return Some(whole.to_owned()) };
    if groups.len() > 1 {
        let fits = (1..=3).contains(&first.len())
            && last.len() == 3
            && middle.iter().all(|group| (2..=3).contains(&group.len()));
        if !fits {
            return None;
        }
    }
    Some(groups.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::convert::to_number;

    #[track_caller]
    fn check(form: &NumberForm, text: &str, expected: Option<&str>) {
        let found = form.plain(text).and_then(|plain| to_number(&plain)).map(|number| number.to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    fn form(prefix: &[&str], suffix: &[&str], decimal: char, thousands: Option<char>) -> NumberForm {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        NumberForm { prefix: owned(prefix), suffix: owned(suffix), decimal, thousands }
    }

    #[test]
    fn what_stands_around_a_number_is_left_out() {
        let money = form(&["$", "USD"], &["%", "ms"], '.', None);
        for (text, expected) in [
            ("$ 5.00", Some("5.00")),
            ("-$5", Some("-5")),
            ("$ -5", Some("-5")),
            ("USD 7", Some("7")),
            ("12.5 %", Some("12.5")),
            ("37ms", Some("37")),
            ("37", Some("37")),
            ("37 s", None),
            ("--5", None),
            ("-$-5", None),
            ("%", None),
            ("", None),
        ] {
            check(&money, text, expected);
        }
    }

    #[test]
    fn fractions_and_thousands_are_those_that_the_rule_names() {
        let german = form(&[], &["€"], ',', Some('.'));
        check(&german, "1.234.567,89 €", Some("1234567.89"));
        check(&german, "1.5", None);
        check(&german, "-0,5", Some("-0.5"));
        check(&form(&[], &[], ',', None), "1.5", None);
        check(&form(&[], &[], ',', None), "1,2.3", None);
        let plain = form(&[], &[], '.', Some(','));
        check(&plain, "1,024", Some("1024"));
        check(&plain, "12,34,567.5", Some("1234567.5"));
        check(&plain, "1,5", None);
        check(&plain, ",024", None);
        check(&plain, "1,02", None);
        check(&plain, "1,0244", None);
        check(&plain, "1e3", Some("1e+3"));
        check(&form(&[], &[], '.', Some(' ')), "1\u{202f}024", Some("1024"));
    }
}
