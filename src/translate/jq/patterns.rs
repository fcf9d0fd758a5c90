//! Regular expressions in filters (`test`, `match`, `capture`, `scan`, `split`, `sub`): as in the library,
//! with its engine, but with each match counted.

use bytes::Bytes;
use jaq_core::Cv;
use jaq_json::{Error, Val};
use jaq_std::ValT as _;
use regex_bites::bytes::{Regex, RegexBuilder};

use super::bounds::{EngineTypes, RunBudget};

/// Size limits of a compiled pattern, in bytes, and the relative cost of a search with it.
const SIZES: [(usize, u64); 3] = [(8 << 10, 1), (64 << 10, 8), (256 << 10, 32)];
/// Memory of the object of one group of a match.
const GROUP_BYTES: u64 = 400;

/// Result of a search: the matches, the text between them, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedParts {
    Matches,
    /// The text between the matches.
    Between,
    /// Both, in text order.
    All,
}

/// Searches `.` for a pattern with flags. Returns a list of matches, each a list of groups, and of the text
/// between them.
pub(super) fn find(mut cv: Cv<'_, EngineTypes>, wanted: WantedParts) -> Result<Val, Error> {
    let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
    let (spent, value) = (cv.0.data().spent, cv.1);
    let (Some(pattern), Some(flags)) = (text(&pattern), text(&flags)) else {
        let wrong = if text(&pattern).is_some() { flags } else { pattern };
        return Err(Error::typ(wrong, "string"));
    };
    let (regex, weight) = compile(spent, pattern, flags)?;
    // All matches, not the first one only; and no empty ones.
    let (is_global, not_empty) = (flags.contains('g'), flags.contains('n'));
    let Some(haystack) = value.as_utf8_bytes() else { return Err(Error::typ(value, "string")) };
    let (mut found, mut behind) = (Vec::new(), 0);
    // The characters before a match are counted from the match before, and not from the beginning each time.
    let (mut counted, mut index) = (0, 0);
    let mut matches = regex.captures_iter(haystack);
    loop {
        // One search takes linear time in the rest of the text, so many searches may take quadratic time.
        spent.work_for(1, 1 + (haystack.len() - behind) as u64 / 64 * weight)?;
        let Some(groups) = matches.next() else { break };
        let whole = groups.get(0).expect("a match has its whole");
        spent.work_for((whole.end() - behind.min(whole.end())) as u64 / 64 * weight, 0)?;
        if not_empty && whole.is_empty() {
            continue;
        }
        if wanted != WantedParts::Matches {
            spent.charge_bytes(GROUP_BYTES / 4)?;
            found.push(value.as_sub_str(&haystack[behind..whole.start()]));
        }
        behind = whole.end();
        if wanted != WantedParts::Between {
            index += characters(&haystack[counted..whole.start()]);
            counted = whole.start();
            let named = groups.iter().zip(regex.capture_names());
            let groups = named.filter_map(|(group, name)| group.map(|group| (group, name)));
            let groups: Vec<_> = groups
                .map(|(group, name)| {
                    let before = &haystack[counted..group.start()];
                    spent.charge_bytes(GROUP_BYTES)?;
                    spent.charge_steps(before.len() as u64 / 64)?;
                    Ok(group_to_value(&value, index + characters(before), group.as_bytes(), name))
                })
                .collect::<Result<_, Error>>()?;
            found.push(groups.into_iter().collect());
        }
        if !is_global {
            break;
        }
    }
    spent.work_for((haystack.len() - behind) as u64 / 64 * weight, 0)?;
    if wanted != WantedParts::Matches {
        found.push(value.as_sub_str(&haystack[behind..]));
    }
    Ok(found.into_iter().collect())
}

fn text(value: &Val) -> Option<&str> {
    value.as_utf8_bytes().and_then(|bytes| str::from_utf8(bytes).ok())
}

/// Compiles a pattern. Also returns the relative cost of a search.
fn compile(spent: &RunBudget, pattern: &str, flags: &str) -> Result<(Regex, u64), Error> {
    let mut builder = RegexBuilder::new(pattern);
    for flag in flags.chars() {
        match flag {
            'g' | 'n' => {}
            'i' => drop(builder.case_insensitive(true)),
            'm' => drop(builder.multi_line(true)),
            's' => drop(builder.dot_matches_new_line(true)),
            'l' => drop(builder.swap_greed(true)),
            'x' => drop(builder.ignore_whitespace(true)),
            'p' => drop(builder.multi_line(true).dot_matches_new_line(true)),
            other => return Err(Error::str(format_args!("invalid regex flag: {other}"))),
        }
    }
    let mut wrong = None;
    for (limit_bytes, weight) in SIZES {
        spent.charge_steps(4 * weight + pattern.len() as u64)?;
        match builder.size_limit(limit_bytes).build() {
            Ok(regex) => return Ok((regex, weight)),
            Err(error) => wrong = Some(error),
        }
    }
    Err(Error::str(format_args!("invalid regex: {}", wrong.expect("there are sizes"))))
}

fn group_to_value(value: &Val, offset: usize, group: &[u8], name: Option<&str>) -> Val {
    let key = |name: &'static str| Val::utf8_str(Bytes::from_static(name.as_bytes()));
    let members = [
        (key("offset"), Val::from(offset)),
        (key("length"), Val::from(characters(group))),
        (key("string"), value.as_sub_str(group)),
    ];
    let name = name.map(|name| (key("name"), Val::utf8_str(name.to_owned())));
    Val::obj(members.into_iter().chain(name).collect())
}

fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| *byte & 0xC0 != 0x80).count()
}
