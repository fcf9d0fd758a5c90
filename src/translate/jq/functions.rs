//! Native jq functions that count work: operators, replacements of some library functions, and wrappers
//! around others. Functions with regular expressions (`test`, `match`, `capture`, `scan`, `split`, `sub`) use
//! the regex engine of the library, but count each match.

use std::{collections::HashSet, sync::LazyLock};

use bytes::Bytes;
use jaq_core::{
    Bind, Cv, Exn, Native,
    box_iter::{BoxIter, box_once},
    load::parse::{Def, Term},
    native::{Fun, bome, run, v},
};
use jaq_json::{Error, Val};
use jaq_std::ValT as _;
use regex::Regex;
use regex_bites::bytes as jq_regex;

use super::bounds::{EngineTypes, JQ_FOLD_STEPS, JQ_ROUND_STEPS, RunBudget, is_shared, shallow_copy_bytes};
use super::rewrite::{bounded_definition, call, collect_calls, pipe};
use crate::model::{JsonText, NumberOutOfBounds, check_number};
use crate::settings::fixed_regex;

/// Counts a round of a loop.
pub(super) const LOOP_ROUND: &str = "!loop_round";
/// Counts a round of `reduce` or `foreach`.
pub(super) const FOLD_ROUND: &str = "!fold_round";
/// Counts an output of a generator, a term that may have several.
pub(super) const STEP: &str = "!step";
/// Counts a value that is stored in a list, an object or a variable.
pub(super) const STORED: &str = "!stored";
/// Counts a value that is read completely.
pub(super) const READ: &str = "!read";
/// Counts a list whose items are compared with each other.
const COMPARED: &str = "!compared";
/// Counts a value that is converted to text.
pub(super) const WRITTEN: &str = "!written";
/// Counts the result of a library function.
const MADE: &str = "!made";
/// Returns the values of a term. If there is only one, tells the engine that no other value follows.
pub(super) const ONE: &str = "!one";
pub(super) const SUM: &str = "!sum";
pub(super) const DIFFERENCE: &str = "!difference";
pub(super) const PRODUCT: &str = "!product";
pub(super) const QUOTIENT: &str = "!quotient";
/// Counts the comparisons of a search for one value in another.
const SOUGHT: &str = "!sought";

/// `range` in jq, so that its rounds are counted. The engine's native version counts nothing.
const RANGE: &str = "def range($from; $to; $by): \
     def rec: if ($by > 0 and . < $to) or ($by < 0 and . > $to) then ., (. + $by | rec) else {}[] end; $from | rec;";

/// Replacement of the library's `error`: `raise_empty` raises the error, and records its value for clients.
const RAISE: &str =
    "def error: raise_empty as $x | .; def error(message): (message | raise_empty) as $x | .;";

/// Native functions of the library that this file replaces.
const REPLACED: [&str; 5] = ["fromjson", "matches", "range", "split_", "split_matches"];

/// Names and argument of functions, and the counters called before and after them.
type WrappedFunctions = (&'static str, Option<&'static str>, Option<&'static str>, Option<&'static str>);

/// Library functions that are wrapped with counters: their internal names, which no filter can contain, their
/// argument, the function that counts before the call, and the function that counts the result.
const WRAPPED: [WrappedFunctions; 6] = [
    // The result is a string or list of about the size of the input.
    (
        "!ascii_downcase !ascii_upcase !decode_base64 !decode_uri !encode_base64 !encode_uri !escape_html \
         !escape_sh !explode !implode !key_values !keys_unsorted !reverse !unescape_html",
        None,
        None,
        Some(MADE),
    ),
    // All items of a list are compared. The result is a list of at most the same length, or one item.
    ("!group_by !max_by_or_empty !min_by_or_empty !sort_by", Some("f"), Some(COMPARED), Some(MADE)),
    ("!sort", None, Some(COMPARED), Some(MADE)),
    ("!tobytes", None, Some(READ), Some(MADE)),
    // `$x` is the value to search for.
    ("!contains !indices", Some("$x"), Some(SOUGHT), Some(MADE)),
    ("!tojson", None, Some(WRITTEN), None),
];

/// Definitions of the wrapped functions.
fn wrappers() -> impl Iterator<Item = Def<&'static str>> {
    WRAPPED.into_iter().flat_map(|(names, argument, before, after)| {
        names.split(' ').map(move |inner| {
            let variable =
                || argument.map(|name| if name.starts_with('$') { Term::Var(name) } else { call(name, []) });
            let mut body = call(inner, variable());
            if let Some(before) = before {
                body = pipe(call(before, variable().filter(|_| before == SOUGHT)), body);
            }
            if let Some(after) = after {
                body = pipe(body, call(after, []));
            }
            Def { name: &inner[1..], args: argument.into_iter().collect(), body }
        })
    })
}

/// Parses jq definitions.
fn parse_definitions(definitions: &'static str) -> Vec<Def<&'static str>> {
    jaq_core::load::parse(definitions, |parser| parser.defs()).expect("the definitions are fixed and tested")
}

/// Native function that counts its input and returns it, also in paths and updates (`recurse(.[]?) |= …`,
/// `del(.[] | .a)`).
macro_rules! counting {
    ($name:expr, $count:expr) => {{
        let native = Native::<EngineTypes>::new(|cv| bome($count(cv.0.data().budget, &cv.1).map(|()| cv.1)))
            .with_paths(|cv| box_once($count(cv.0.data().budget, &cv.1.0).map(|()| cv.1).map_err(Exn::from)))
            .with_update(|cv, update| match $count(cv.0.data().budget, &cv.1) {
                Ok(()) => update(cv.1),
                Err(error) => bome(Err(error)),
            });
        ($name, v(0), native)
    }};
}

/// Native function for [`ONE`]. In an update, it also limits the nesting of rounds.
fn as_one() -> Native<EngineTypes> {
    let native = Native::<EngineTypes>::new(|mut cv| {
        let (filter, context) = cv.0.pop_fun();
        mark_single(filter.run((context, cv.1)))
    });
    let native = native.with_paths(|mut cv| {
        let (filter, context) = cv.0.pop_fun();
        mark_single(filter.paths((context, cv.1)))
    });
    native.with_update(|mut cv, update| {
        let (filter, context) = cv.0.pop_fun();
        let budget = context.data().budget;
        let result = budget.nested(|| filter.update((context, cv.1), update));
        result.unwrap_or_else(|error| bome(Err(error)))
    })
}

/// All native functions that count.
fn functions() -> Vec<Fun<EngineTypes>> {
    vec![
        counting!(LOOP_ROUND, |budget: &RunBudget, value| budget.charge_round(JQ_ROUND_STEPS, value)),
        counting!(STEP, |budget: &RunBudget, _: &Val| budget.charge_steps(1)),
        counting!(STORED, RunBudget::charge_stored),
        counting!(READ, |budget: &RunBudget, value| budget.charge_read(value).map(|_| ())),
        counting!(COMPARED, RunBudget::charge_comparisons),
        counting!(WRITTEN, |budget: &RunBudget, value| budget.charge_bytes(budget.charge_read(value)?)),
        counting!(MADE, |budget: &RunBudget, value| budget.charge_bytes(shallow_copy_bytes(value))),
        counting!(FOLD_ROUND, |budget: &RunBudget, value| budget.charge_round(JQ_FOLD_STEPS, value)),
        (ONE, [Bind::Fun(())].into(), as_one()),
        run((SUM, v(2), |cv| bome(operation(cv, charge_sum, |left, right| left + right)))),
        run((DIFFERENCE, v(2), |cv| bome(operation(cv, charge_difference, |left, right| left - right)))),
        run((PRODUCT, v(2), |cv| bome(operation(cv, charge_product, |left, right| left * right)))),
        run((QUOTIENT, v(2), |cv| bome(operation(cv, charge_quotient, |left, right| left / right)))),
        run((SOUGHT, v(1), |mut cv| {
            let needle = cv.0.pop_var();
            bome(charge_search(cv.0.data().budget, &cv.1, &needle).map(|()| cv.1))
        })),
        run(("fromjson", v(0), |cv| bome(from_json(cv.0.data().budget, cv.1)))),
        run(("matches", v(2), |cv| bome(find(cv, RequestedParts::Matches)))),
        run(("split_matches", v(2), |cv| bome(find(cv, RequestedParts::All)))),
        run(("split_", v(2), |cv| bome(find(cv, RequestedParts::Between)))),
        run(("raise_empty", v(0), |cv| {
            cv.0.data().budget.raised.set(Some(cv.1.clone()));
            bome(Err(Error::new(cv.1)))
        })),
    ]
}

/// Returns the same values. If there is only one, the engine knows that no other value follows.
///
/// Otherwise the engine keeps all state that it would need to continue, such as a copy of every intermediate
/// value of a `reduce`.
fn mark_single<'a, T: 'a>(mut values: BoxIter<'a, T>) -> BoxIter<'a, T> {
    let Some(first) = values.next() else { return Box::new(std::iter::empty()) };
    match values.next() {
        None => box_once(first),
        Some(second) => Box::new([first, second].into_iter().chain(values)),
    }
}

/// Charges for an operator, then applies it to its operands.
fn operation(
    mut cv: Cv<'_, EngineTypes>,
    charge: fn(&RunBudget, &Val, &Val) -> Result<(), Error>,
    operate: fn(Val, Val) -> Result<Val, Error>,
) -> Result<Val, Error> {
    let (left, right) = (cv.0.pop_var(), cv.0.pop_var());
    let budget = cv.0.data().budget;
    // `.` may be one of the operands. With one reference fewer, the operand is changed in place and not
    // copied.
    drop(cv);
    charge(budget, &left, &right)?;
    let result = operate(left, right)?;
    budget.check_integer_size(&result).map(|()| result)
}

fn charge_sum(budget: &RunBudget, left: &Val, right: &Val) -> Result<(), Error> {
    match (left, right) {
        (Val::Num(_), Val::Num(_)) | (Val::Null, _) | (_, Val::Null) => budget.charge_steps(1),
        _ => budget.charge_bytes(copied_bytes(left) + shallow_copy_bytes(right)),
    }
}

fn charge_difference(budget: &RunBudget, left: &Val, right: &Val) -> Result<(), Error> {
    if let (Val::Arr(_), Val::Arr(_)) = (left, right) {
        budget.charge_read(left)?;
        budget.charge_read(right)?;
        budget.charge_bytes(copied_bytes(left) + shallow_copy_bytes(right))?;
    }
    budget.charge_steps(1)
}

fn charge_product(budget: &RunBudget, left: &Val, right: &Val) -> Result<(), Error> {
    match (left, right) {
        (Val::BStr(text) | Val::TStr(text), Val::Num(times))
        | (Val::Num(times), Val::BStr(text) | Val::TStr(text)) => {
            let times = times.as_isize().map_or(u64::MAX, |times| u64::try_from(times).unwrap_or(0));
            budget.charge_bytes((text.len() as u64).saturating_mul(times))
        }
        (Val::Obj(_), Val::Obj(_)) => {
            budget.charge_read(right)?;
            budget.charge_bytes(merged_bytes(left, right, false))
        }
        _ => budget.charge_steps(1),
    }
}

fn charge_quotient(budget: &RunBudget, left: &Val, right: &Val) -> Result<(), Error> {
    /// Memory of each part of a split string, in bytes.
    const PART_BYTES: u64 = 64;
    if let (Val::TStr(text), Val::TStr(separator)) | (Val::BStr(text), Val::BStr(separator)) = (left, right) {
        budget.charge_steps(text.len() as u64 / 64)?;
        let parts = match separator.is_empty() {
            true => text.len(),
            false => memchr::memmem::find_iter(text, &***separator).count() + 1,
        };
        budget.charge_bytes(parts as u64 * PART_BYTES)?;
    }
    budget.charge_steps(1)
}

/// Number of bytes that are copied when a value is changed.
fn copied_bytes(value: &Val) -> u64 {
    if is_shared(value) { shallow_copy_bytes(value) } else { 0 }
}

/// Number of bytes that are copied when two objects are merged recursively. If an object is copied, its parts
/// become shared.
fn merged_bytes(left: &Val, right: &Val, is_part_of_copied: bool) -> u64 {
    let (Val::Obj(members), Val::Obj(others)) = (left, right) else { return 0 };
    let is_copied = is_part_of_copied || is_shared(left);
    let inner_bytes = others
        .iter()
        .map(|(key, other)| members.get(key).map_or(0, |member| merged_bytes(member, other, is_copied)));
    let own_bytes = if is_copied { shallow_copy_bytes(left) } else { 0 };
    own_bytes + shallow_copy_bytes(right) + inner_bytes.sum::<u64>()
}

/// Charges a search for one value in another, which may compare every part with every part.
fn charge_search(budget: &RunBudget, value: &Val, needle: &Val) -> Result<(), Error> {
    let (value_bytes, needle_bytes) = (budget.charge_read(value)?, budget.charge_read(needle)?);
    budget.charge_steps((1 + value_bytes / 16).saturating_mul(1 + needle_bytes / 16))
}

fn from_json(budget: &RunBudget, value: Val) -> Result<Val, Error> {
    /// Memory that is charged per byte of JSON, in bytes: as much as `[1,1]` needs. Empty strings need more.
    const BYTES_PER_TEXT_BYTE: u64 = 8;
    let Val::TStr(text) = &value else { return Err(Error::typ(value, "string")) };
    budget.charge_steps(text.len() as u64 / 8)?;
    // Check the text first, because the engine's parser recurses once per bracket.
    let json = JsonText::check(text).map_err(|error| Error::str(&error))?;
    check_numbers(json.as_str()).map_err(Error::str)?;
    budget.charge_bytes(text.len() as u64 * BYTES_PER_TEXT_BYTE)?;
    // Parse without a `serde_json` tree, whose values are several times as large as those of the engine.
    jaq_json::read::parse_single(json.bytes()).map_err(|error| Error::str(&error))
}

/// Checks the numbers of a JSON text against the bounds.
fn check_numbers(json: &str) -> Result<(), NumberOutOfBounds> {
    static STRING_OR_NUMBER: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r#""(?:[^"\\]|\\.)*"|[0-9][0-9.eE+\-]*"#));
    let mut tokens = STRING_OR_NUMBER.find_iter(json).map(|token| token.as_str());
    tokens.try_for_each(|text| if text.starts_with('"') { Ok(()) } else { check_number(text) })
}

/// Size limits of a compiled pattern, in bytes, each with the relative cost of a search.
const SIZES: [(usize, u64); 3] = [(8 << 10, 1), (64 << 10, 8), (256 << 10, 32)];
/// Memory of the object for one capture group of a match, in bytes.
const GROUP_BYTES: u64 = 400;

/// Parts of the text that a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedParts {
    Matches,
    /// Texts between the matches.
    Between,
    /// Matches and the texts between them, in text order.
    All,
}

/// Searches `.` for a pattern with flags. Returns a list of the requested parts: matches, each a list of
/// groups, and texts between them.
fn find(mut cv: Cv<'_, EngineTypes>, requested: RequestedParts) -> Result<Val, Error> {
    let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
    let (budget, value) = (cv.0.data().budget, cv.1);
    let (Some(pattern), Some(flags)) = (text(&pattern), text(&flags)) else {
        let invalid = if text(&pattern).is_some() { flags } else { pattern };
        return Err(Error::typ(invalid, "string"));
    };
    let (regex, weight) = compile(budget, pattern, flags)?;
    // Flag `g`: all matches, not only the first. Flag `n`: no empty matches.
    let (is_global, skips_empty) = (flags.contains('g'), flags.contains('n'));
    let Some(haystack) = value.as_utf8_bytes() else { return Err(Error::typ(value, "string")) };
    let (mut found, mut previous_end) = (Vec::new(), 0);
    // Count characters from the previous match, not from the beginning each time.
    let (mut counted_bytes, mut index) = (0, 0);
    let mut matches = regex.captures_iter(haystack);
    loop {
        // One search takes linear time in the rest of the text, so many searches may take quadratic time.
        budget.charge_run_and_call(1, 1 + (haystack.len() - previous_end) as u64 / 64 * weight)?;
        let Some(groups) = matches.next() else { break };
        let whole_match = groups.get(0).expect("a match has its whole");
        budget.charge_run_and_call(
            (whole_match.end() - previous_end.min(whole_match.end())) as u64 / 64 * weight,
            0,
        )?;
        if skips_empty && whole_match.is_empty() {
            continue;
        }
        if requested != RequestedParts::Matches {
            budget.charge_bytes(GROUP_BYTES / 4)?;
            found.push(value.as_sub_str(&haystack[previous_end..whole_match.start()]));
        }
        previous_end = whole_match.end();
        if requested != RequestedParts::Between {
            index += count_characters(&haystack[counted_bytes..whole_match.start()]);
            counted_bytes = whole_match.start();
            let named = groups.iter().zip(regex.capture_names());
            let groups = named.filter_map(|(group, name)| group.map(|group| (group, name)));
            let groups: Vec<_> = groups
                .map(|(group, name)| {
                    let before = &haystack[counted_bytes..group.start()];
                    budget.charge_bytes(GROUP_BYTES)?;
                    budget.charge_steps(before.len() as u64 / 64)?;
                    Ok(group_to_value(&value, index + count_characters(before), group.as_bytes(), name))
                })
                .collect::<Result<_, Error>>()?;
            found.push(groups.into_iter().collect());
        }
        if !is_global {
            break;
        }
    }
    budget.charge_run_and_call((haystack.len() - previous_end) as u64 / 64 * weight, 0)?;
    if requested != RequestedParts::Matches {
        found.push(value.as_sub_str(&haystack[previous_end..]));
    }
    Ok(found.into_iter().collect())
}

fn text(value: &Val) -> Option<&str> {
    value.as_utf8_bytes().and_then(|bytes| str::from_utf8(bytes).ok())
}

/// Compiles a pattern. Also returns the relative cost of a search with it.
fn compile(budget: &RunBudget, pattern: &str, flags: &str) -> Result<(jq_regex::Regex, u64), Error> {
    let mut builder = jq_regex::RegexBuilder::new(pattern);
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
    let mut last_error = None;
    for (limit_bytes, weight) in SIZES {
        budget.charge_steps(4 * weight + pattern.len() as u64)?;
        match builder.size_limit(limit_bytes).build() {
            Ok(regex) => return Ok((regex, weight)),
            Err(error) => last_error = Some(error),
        }
    }
    Err(Error::str(format_args!("invalid regex: {}", last_error.expect("there are sizes"))))
}

fn group_to_value(value: &Val, offset: usize, group: &[u8], name: Option<&str>) -> Val {
    let key = |name: &'static str| Val::utf8_str(Bytes::from_static(name.as_bytes()));
    let members = [
        (key("offset"), Val::from(offset)),
        (key("length"), Val::from(count_characters(group))),
        (key("string"), value.as_sub_str(group)),
    ];
    let name = name.map(|name| (key("name"), Val::utf8_str(name.to_owned())));
    Val::obj(members.into_iter().chain(name).collect())
}

fn count_characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| *byte & 0xC0 != 0x80).count()
}

/// Functions that read or change something other than their input.
const IMPURE: &str = "env now input inputs halt halt_error debug debug_empty stderr stderr_empty localtime \
     strflocaltime";

/// Whether a jq function reads and changes nothing but its input.
pub(in crate::translate) fn is_pure(name: &str) -> bool {
    IMPURE.split(' ').all(|impure| impure != name)
}

/// All jq definitions, rewritten to count their steps. A later definition replaces an earlier one of the same
/// name.
static DEFINITIONS: LazyLock<Vec<Def<&'static str>>> = LazyLock::new(|| {
    // The library calls these definitions, so they come first.
    let first = parse_definitions(RANGE).into_iter().chain(wrappers());
    let library = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let pure = first.chain(library).filter(|definition| is_pure(definition.name));
    pure.chain(parse_definitions(RAISE)).map(bounded_definition).collect()
});

/// Selects the definitions and native functions that a filter calls, directly or indirectly. The selection is
/// by name, regardless of the number of arguments.
///
/// A compiled filter contains every definition that it was compiled with. With the whole library, each filter
/// would need 120 KB, and 0.5 ms at each start. With only the definitions that it calls, it needs a few KB.
pub(super) fn used_by<'s>(filter: &mut Term<&'s str>) -> (Vec<Def<&'s str>>, Vec<Fun<EngineTypes>>) {
    let mut used: HashSet<&str> = HashSet::new();
    let mut pending: Vec<&str> = Vec::new();
    collect_calls(filter, &mut pending);
    while let Some(name) = pending.pop() {
        if used.insert(name) {
            for definition in DEFINITIONS.iter().filter(|definition| definition.name == name) {
                let mut body: Term<&'s str> = definition.body.clone();
                collect_calls(&mut body, &mut pending);
            }
        }
    }
    let definitions = DEFINITIONS.iter().filter(|definition| used.contains(definition.name));
    let functions = jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .filter(|(name, ..)| is_pure(name) && !REPLACED.contains(name))
        .map(|(name, arguments, native)| {
            let mut wrapped = WRAPPED.into_iter().flat_map(|(names, ..)| names.split(' '));
            (wrapped.find(|inner| inner[1..] == *name).unwrap_or(name), arguments, native)
        })
        .chain(functions())
        .filter(|(name, ..)| used.contains(name));
    (definitions.cloned().collect(), functions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(filter: &str, definitions: &[&str], functions: &[&str]) {
        let mut term = jaq_core::load::parse(filter, |parser| parser.term()).unwrap();
        let (found, natives) = used_by(&mut term);
        assert_eq!(
            found.iter().map(|definition| definition.name).collect::<Vec<_>>(),
            definitions,
            "{filter}"
        );
        let mut natives: Vec<_> = natives.iter().map(|(name, ..)| *name).collect();
        natives.sort_unstable();
        assert_eq!(natives, functions, "{filter}");
    }

    #[test]
    fn a_filter_is_compiled_with_what_it_calls_and_nothing_else() {
        check(".a.b // 0", &[], &[]);
        check("map(.a)", &["map"], &["!stored"]);
        check(
            r#"@base64 "\(.a)""#,
            &["encode_base64", "tostring", "@base64"],
            &["!encode_base64", "!made", "!written"],
        );
        check("[limit(2; .[])]", &[], &["limit"]);
    }
}
