//! `pairs`: `key: value` lines.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    RECORD_LIMIT,
    records::{Blocks, add, gather},
};
use crate::rule::matcher::Pattern;

/// Reads lines of a key, a separator and a value into an object of strings.
///
/// The first separator of a line counts, white space round key and value does not. Lines without a separator
/// (headings, rules, blank lines) are passed over; a reply without any pair is an error. A key that comes
/// again gives an array of its values, in order.
#[derive(Debug)]
pub struct Pairs {
    /// What stands between key and value: whichever comes first, the longest of those at one place. There is at
    /// least one, and none is empty.
    pub separators: Vec<String>,
    /// What lines begin with that are passed over, white space aside; none is empty.
    pub comments: Vec<String>,
    /// Whether `"…"` (with `\"` and `\\`) and `'…'` round a value are left out.
    pub unquote: bool,
    /// What the lines mean that begin with white space.
    pub indented: Indented,
    /// A line that matches begins a section, an object of its own; its first named capture is the name.
    pub sections: Option<Pattern>,
    /// Each block of lines gives an object of an array, blocks without pairs aside; the whole text gives one
    /// object where this is missing.
    pub blocks: Option<Box<Blocks>>,
    /// Whether an empty array is right where no block has a pair; an error otherwise.
    pub allow_empty: bool,
}

/// What lines mean that begin with white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Indented {
    /// The same as other lines.
    #[default]
    Same,
    /// They belong to the line before that is indented less, which becomes an object: of its own value as
    /// `value`, where it has one, and of what is below it. A line without separator is a key then, if there is
    /// something below it. Tabs reach to the next multiple of eight columns.
    Nested,
    /// They go on with the value before, with a line break between.
    Lines,
    /// They go on with the value before, with a space between.
    Words,
    /// They go on with the value before after their first character, as in LDIF.
    Fold,
}

impl Default for Pairs {
    fn default() -> Self {
        Self {
            separators: vec![Self::DEFAULT_SEPARATOR.to_owned()],
            comments: Vec::new(),
            unquote: false,
            indented: Indented::Same,
            sections: None,
            blocks: None,
            allow_empty: false,
        }
    }
}

impl Pairs {
    /// The separator where a rule names none.
    pub const DEFAULT_SEPARATOR: &'static str = ":";

    /// A section by its name in brackets, `[name]`, with or without a comment behind it.
    pub const BRACKETS: &'static str = r"^\[(?<name>[^\[\]]+)\]\s*(?:[#;].*)?$";

    /// How many objects may be one in another; each may be in a list too, and the whole stays below the depth
    /// of JSON that is read.
    const NESTING_LIMIT: usize = 32;

    /// How many pairs all blocks of a reply may have together.
    const PAIRS_OF_BLOCKS_LIMIT: usize = 10 * RECORD_LIMIT;

    pub(super) fn extract(&self, text: &str) -> Result<Value, String> {
        let separator = self.separators.first().map_or(Self::DEFAULT_SEPARATOR, String::as_str);
        let Some(blocks) = &self.blocks else {
            let (object, _) = self.object(text, 1, RECORD_LIMIT)?;
            if object.is_empty() {
                return Err(format!("expected lines of `key{separator} value`, found none"));
            }
            return Ok(Value::Object(object));
        };
        let mut left = Self::PAIRS_OF_BLOCKS_LIMIT;
        let objects = blocks.of(text).filter_map(|block| {
            let (object, count) = match self.object(block.text, block.line, left.min(RECORD_LIMIT)) {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            left -= count;
            (!object.is_empty()).then_some(Ok(Value::Object(object)))
        });
        let objects = gather(objects, "blocks of pairs")?;
        if objects.is_empty() && !self.allow_empty {
            return Err(format!("expected blocks of lines of `key{separator} value`, found none"));
        }
        Ok(Value::Array(objects))
    }

    /// The pairs of a text, and how many they are; `first_line` is the line of the reply that it begins in.
    fn object(
        &self,
        text: &str,
        first_line: usize,
        limit: usize,
    ) -> Result<(Map<String, Value>, usize), String> {
        let mut builder = Builder { pairs: self, found: Map::new(), section: None, open: Vec::new() };
        let mut count = 0_usize;
        for (index, line) in text.lines().enumerate() {
            let bare = line.trim_start();
            if bare.is_empty() {
                // What is said to go on does not go on after a blank line.
                if self.indented != Indented::Nested {
                    builder.close(0);
                }
                continue;
            }
            if bare.len() < line.len() && builder.goes_on(line) {
                continue;
            }
            if self.comments.iter().any(|prefix| bare.starts_with(prefix)) {
                continue;
            }
            let section =
                self.sections.as_ref().and_then(|pattern| Some((pattern, pattern.regex().captures(bare)?)));
            let (key, value) = match (&section, self.split(bare)) {
                (Some(_), _) => ("", None),
                (None, Some((key, value))) => (key.trim_end(), Some(value)),
                (None, None) => (bare.trim_end(), None),
            };
            if section.is_none() && (key.is_empty() || value.is_none() && self.indented != Indented::Nested) {
                builder.close(if self.indented == Indented::Nested { indentation(line) } else { 0 });
                continue;
            }
            count += 1;
            let line_number = first_line + index;
            if count > limit {
                return Err(format!("line {line_number}: expected at most {RECORD_LIMIT} pairs, found more"));
            }
            if let Some((pattern, captures)) = section {
                let name = pattern.names().first().and_then(|name| captures.name(name));
                builder.begin_section(name.map_or("", |name| name.as_str().trim()));
                continue;
            }
            let indent = if self.indented == Indented::Nested { indentation(line) } else { 0 };
            builder.close(indent);
            if builder.open.len() >= Self::NESTING_LIMIT {
                let most = Self::NESTING_LIMIT;
                return Err(format!(
                    "line {line_number}: expected at most {most} levels of indentation, found more"
                ));
            }
            builder.open.push(Open { indent, key, value: value.map(Cow::Borrowed), members: Map::new() });
        }
        builder.close_section();
        Ok((builder.found, count))
    }

    fn split<'t>(&self, line: &'t str) -> Option<(&'t str, &'t str)> {
        let found =
            self.separators.iter().filter_map(|separator| Some((line.find(separator)?, separator.len())));
        let (at, length) = found.min_by_key(|(at, length)| (*at, usize::MAX - length))?;
        Some((&line[..at], &line[at + length..]))
    }

    /// A value without what does not belong to it.
    fn plain(&self, value: &str) -> String {
        let value = value.trim();
        let unquoted = if self.unquote { unquoted(value) } else { None };
        unquoted.unwrap_or_else(|| value.to_owned())
    }
}

/// What is found, while it is read.
struct Builder<'p, 't> {
    pairs: &'p Pairs,
    found: Map<String, Value>,
    /// The section that is being read.
    section: Option<(String, Map<String, Value>)>,
    /// The lines that others may yet belong to, each indented more than the one before.
    open: Vec<Open<'t>>,
}

/// A line that others may yet belong to.
struct Open<'t> {
    indent: usize,
    key: &'t str,
    /// As it stands; `None` where the line has no separator.
    value: Option<Cow<'t, str>>,
    members: Map<String, Value>,
}

impl Builder<'_, '_> {
    /// Adds an indented line to the value that it goes on with, if there is one.
    fn goes_on(&mut self, line: &str) -> bool {
        let mut rest = line.chars();
        rest.next();
        let (between, more) = match self.pairs.indented {
            Indented::Same | Indented::Nested => return false,
            Indented::Lines => ("\n", rest.as_str().trim_end()),
            Indented::Words => (" ", line.trim()),
            Indented::Fold => ("", rest.as_str()),
        };
        let Some(value) = self.open.last_mut().and_then(|open| open.value.as_mut()) else { return false };
        let value = value.to_mut();
        value.push_str(between);
        value.push_str(more);
        true
    }

    /// Puts every line away that is indented as much as `indent`, or more.
    fn close(&mut self, indent: usize) {
        while let Some(line) = self.open.pop_if(|line| line.indent >= indent) {
            let value = match line.value {
                _ if !line.members.is_empty() => Value::Object(line.members),
                Some(value) => Value::String(self.pairs.plain(&value)),
                None => continue,
            };
            let members = match (self.open.last_mut(), &mut self.section) {
                (Some(parent), _) => {
                    let own = parent.value.as_ref().map(|value| self.pairs.plain(value));
                    if let Some(own) = own.filter(|own| parent.members.is_empty() && !own.is_empty()) {
                        add(&mut parent.members, "value", own.into());
                    }
                    &mut parent.members
                }
                (None, Some((_, members))) => members,
                (None, None) => &mut self.found,
            };
            add(members, line.key, value);
        }
    }

    fn begin_section(&mut self, name: &str) {
        self.close_section();
        self.section = Some((name.to_owned(), Map::new()));
    }

    fn close_section(&mut self) {
        self.close(0);
        if let Some((name, members)) = self.section.take() {
            add(&mut self.found, name, Value::Object(members));
        }
    }
}

/// How many columns of white space a line begins with.
fn indentation(line: &str) -> usize {
    const TAB_COLUMNS: usize = 8;
    let white = line.chars().take_while(|character| character.is_whitespace());
    white.fold(0, |column, character| match character {
        '\t' => (column / TAB_COLUMNS + 1) * TAB_COLUMNS,
        _ => column + 1,
    })
}

/// What stands in the quotes, where a value is one quoted text.
fn unquoted(value: &str) -> Option<String> {
    if let Some(inner) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return (!inner.contains('\'')).then(|| inner.to_owned());
    }
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut plain = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(character) = rest.next() {
        match character {
            '"' => return None,
            '\\' => match rest.next()? {
                escaped @ ('"' | '\\') => plain.push(escaped),
                other => plain.extend(['\\', other]),
            },
            other => plain.push(other),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pairs: &Pairs, text: &str, expected: Result<&str, &str>) {
        match (pairs.extract(text), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, _) => panic!("found {:.400}", format!("{found:?}")),
        }
    }

    fn separated(separators: &[&str]) -> Pairs {
        Pairs { separators: separators.iter().map(|text| (*text).to_owned()).collect(), ..Pairs::default() }
    }

    fn indented(indented: Indented) -> Pairs {
        Pairs { indented, ..Pairs::default() }
    }

    fn sectioned() -> Pairs {
        Pairs { sections: Some(Pattern::compile(Pairs::BRACKETS).unwrap()), ..separated(&["="]) }
    }

    #[test]
    fn the_first_separator_counts_and_white_space_does_not() {
        check(&separated(&[":"]), "temp: 5\r\n  time : 12:30\n", Ok(r#"{"temp":"5","time":"12:30"}"#));
        check(&separated(&["="]), "a=1\nb=\n", Ok(r#"{"a":"1","b":""}"#));
        check(
            &separated(&[" "]),
            "nr_free_pages   51\n  pgfault 7",
            Ok(r#"{"nr_free_pages":"51","pgfault":"7"}"#),
        );
        check(&separated(&[":", "=", "=>"]), "a=b:c\nd:e=f\ng => h", Ok(r#"{"a":"b:c","d":"e=f","g":"h"}"#));
    }

    #[test]
    fn headings_are_passed_over_and_repeated_keys_gather() {
        let text = "Report\n======\n\nnode: a\nnode: b\nnode: c\n: d\n";
        check(&Pairs::default(), text, Ok(r#"{"node":["a","b","c"]}"#));
    }

    #[test]
    fn a_reply_without_pairs_is_an_error() {
        check(&Pairs::default(), "", Err("found none"));
        check(&Pairs::default(), "Service restarting", Err("expected lines of `key: value`"));
        let blocks = || Pairs { blocks: Some(Box::default()), ..Pairs::default() };
        check(&blocks(), "none\n\nat all", Err("expected blocks of lines of `key: value`"));
        check(&Pairs { allow_empty: true, ..blocks() }, "none\n\nat all", Ok("[]"));
    }

    #[test]
    fn comments_are_passed_over_and_quotes_left_out() {
        let pairs = Pairs { comments: vec!["#".into(), "//".into()], unquote: true, ..separated(&["="]) };
        let text =
            "# a=1\n // b=2\nNAME=\"Debian \\\"GNU\\\" \\n\"\nID='x y'\nc = \"a\" \"b\"\nd=\"\ne='\nf=\"\"\n";
        let expected =
            r#"{"NAME":"Debian \"GNU\" \\n","ID":"x y","c":"\"a\" \"b\"","d":"\"","e":"'","f":""}"#;
        check(&pairs, text, Ok(expected));
    }

    #[test]
    fn deeper_lines_belong_to_the_line_above_where_the_rule_says_so() {
        let text = "Client:\n Version: 24\nServer:\n Containers: 3\n  Running: 1\n Name:\nEnd: x\n";
        check(
            &indented(Indented::Nested),
            text,
            Ok(
                r#"{"Client":{"Version":"24"},"Server":{"Containers":{"value":"3","Running":"1"},"Name":""},"End":"x"}"#,
            ),
        );
        check(
            &indented(Indented::Same),
            text,
            Ok(
                r#"{"Client":"","Version":"24","Server":"","Containers":"3","Running":"1","Name":"","End":"x"}"#,
            ),
        );
    }

    #[test]
    fn lines_that_are_repeated_gather_with_what_is_below_them() {
        let text = "vm\n    width: 64 bits\n  *-cpu\n     size: 1\n\n  *-cpu\n\t size: 2\nfoot\n";
        let expected = r#"{"vm":{"width":"64 bits","*-cpu":[{"size":"1"},{"size":"2"}]}}"#;
        check(&indented(Indented::Nested), text, Ok(expected));
        check(
            &indented(Indented::Nested),
            "a: 1\n value: 2\n value: 3",
            Ok(r#"{"a":{"value":["1","2","3"]}}"#),
        );
    }

    #[test]
    fn a_tab_reaches_to_the_next_multiple_of_eight() {
        let text = "a:\n        b: 1\n\tc: 2\n    \td:\n         e: 3\n";
        check(&indented(Indented::Nested), text, Ok(r#"{"a":{"b":"1","c":"2","d":{"e":"3"}}}"#));
    }

    #[test]
    fn folded_lines_go_on_with_the_value() {
        let text = "Subject: one\r\n two\r\nList:\r\n a: 1\r\n  b\r\n\r\n stray: x\r\nEnd: y\r\n";
        check(
            &indented(Indented::Words),
            text,
            Ok(r#"{"Subject":"one two","List":"a: 1 b","stray":"x","End":"y"}"#),
        );
        check(
            &indented(Indented::Lines),
            text,
            Ok(r#"{"Subject":"one\ntwo","List":"a: 1\n b","stray":"x","End":"y"}"#),
        );
        check(&indented(Indented::Fold), "dn: ou=a,\n dc=b \n c\n", Ok(r#"{"dn":"ou=a,dc=b c"}"#));
    }

    #[test]
    fn a_comment_behind_the_name_of_a_section_is_no_part_of_it() {
        let text = "[a]\nx=1\n[b] ; second\nx=2\n[c]# third [3]\nx=3\n[d] \t\nx=4\n";
        let expected = r#"{"a":{"x":"1"},"b":{"x":"2"},"c":{"x":"3"},"d":{"x":"4"}}"#;
        check(&sectioned(), text, Ok(expected));
    }

    #[test]
    fn sections_are_objects_and_repeated_ones_gather() {
        let text = "top=0\n[Interface]\nPort = 51820\n[Peer]\nKey = a\n[Peer]\nKey = b\n[empty]\n";
        let expected =
            r#"{"top":"0","Interface":{"Port":"51820"},"Peer":[{"Key":"a"},{"Key":"b"}],"empty":{}}"#;
        check(&sectioned(), text, Ok(expected));
        let sections = Some(Pattern::compile("^# (?<name>.+)").unwrap());
        let text = "# Server\r\nredis_version:7.0.15\r\n\r\n# Clients\r\nconnected_clients:1\r\n";
        let expected = r#"{"Server":{"redis_version":"7.0.15"},"Clients":{"connected_clients":"1"}}"#;
        check(&Pairs { sections, ..Pairs::default() }, text, Ok(expected));
    }

    #[test]
    fn blocks_of_pairs_are_a_list() {
        let text = "processor\t: 0\nflags\t\t: fpu vme\n\nprocessor\t: 1\nflags\t\t: fpu\n\n";
        let expected = r#"[{"processor":"0","flags":"fpu vme"},{"processor":"1","flags":"fpu"}]"#;
        check(&Pairs { blocks: Some(Box::default()), ..Pairs::default() }, text, Ok(expected));
    }

    #[test]
    fn hostile_replies_take_linear_time_and_bounded_memory() {
        let nested = || indented(Indented::Nested);
        check(&nested(), &"a:\n".repeat(150_000), Err("line 100001: expected at most 100000 pairs"));
        check(&nested(), &"a\n".repeat(150_000), Err("line 100001: expected at most 100000 pairs"));
        let stairs: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        check(&nested(), &stairs, Err("line 33: expected at most 32 levels of indentation"));
        let deep = format!("a:\n{}b: 1\n", " ".repeat(1 << 20));
        check(&nested(), &deep, Ok(r#"{"a":{"b":"1"}}"#));
        check(&indented(Indented::Words), &"a".repeat(1 << 20), Err("found none"));
        let folded = format!("a: b\n{}", " c\n".repeat(150_000));
        assert!(indented(Indented::Words).extract(&folded).is_ok());
        let blocks = || Pairs { blocks: Some(Box::default()), ..Pairs::default() };
        check(&blocks(), &"a:\n\n".repeat(150_000), Err("at most 100000 blocks of pairs"));
        check(&sectioned(), &"[a]\n".repeat(150_000), Err("at most 100000 pairs"));
        check(&sectioned(), &"[".repeat(1 << 20), Err("found none"));
    }

    #[test]
    fn nothing_that_is_nested_is_deeper_than_json_may_be() {
        let stairs: String =
            (0..31).map(|depth| format!("{0}a:\n{0} b: 1\n{0}a:\n", "  ".repeat(depth))).collect();
        let found = indented(Indented::Nested).extract(&stairs).unwrap().to_string();
        assert!(serde_json::from_str::<Value>(&found).is_ok());
    }
}
