//! Native jq functions that count work: operators, replacements of some library functions, and wrappers
//! around others.

use std::{collections::HashSet, sync::LazyLock};

use jaq_core::{
    Bind, Cv, Exn, Native, ValX,
    box_iter::{BoxIter, box_once},
    load::parse::{BinaryOp, Def, Term},
    native::{Fun, bome, run, v},
};
use jaq_json::{Error, Val};

use super::{
    bounds::{EngineTypes, JQ_FOLD_STEPS, JQ_ROUND_STEPS, RunBudget, extent, is_shared},
    patterns::{WantedParts, find},
    rewrite::{bounded_definition, call, collect_calls},
};
use crate::model::{JsonText, NumberOutOfBounds, check_number};

/// Counts a round of a loop.
pub(super) const TICK: &str = "!tick";
/// Counts a round of `reduce` or `foreach`, and runs its argument.
pub(super) const ROUND: &str = "!round";
/// Counts a value of a term that may have several.
pub(super) const STEP: &str = "!step";
/// Counts a value that is stored in a list, an object or a variable.
pub(super) const STORED: &str = "!kept";
/// Counts a value that is read completely.
pub(super) const READ: &str = "!read";
/// Counts a value that is converted to text.
pub(super) const WRITTEN: &str = "!written";
/// Counts the result of a library function.
const MADE: &str = "!made";
/// Returns the values of a term, and marks a single value as the last for the engine.
pub(super) const ONE: &str = "!one";
pub(super) const SUM: &str = "!sum";
pub(super) const DIFFERENCE: &str = "!difference";
pub(super) const PRODUCT: &str = "!product";
pub(super) const QUOTIENT: &str = "!quotient";
/// Counts the comparisons of a search for one value in another.
const SOUGHT: &str = "!sought";

/// Defined in jq, so that its rounds are counted; the engine's native version counts nothing.
const RANGE: &str = "def range($from; $to; $by): \
     def rec: if ($by > 0 and . < $to) or ($by < 0 and . > $to) then ., (. + $by | rec) else {}[] end; $from | rec;";

/// `error` of a configured filter, distinct from that of the standard library: its message is for clients.
const RAISE: &str =
    "def error: raise_empty as $x | .; def error(message): (message | raise_empty) as $x | .;";

/// Library functions that are replaced.
const REPLACED: [&str; 5] = ["fromjson", "matches", "range", "split_", "split_matches"];

/// Library function wrapped with counters.
struct Wrapped {
    name: &'static str,
    /// Internal name of the original, which no filter can contain.
    inner: &'static str,
    argument: Option<&'static str>,
    /// Names of the functions that count before the call, and that count its result.
    before: Option<&'static str>,
    after: Option<&'static str>,
}

impl Wrapped {
    /// A function whose result is a string or list of about the size of its input.
    const fn flat(name: &'static str, inner: &'static str) -> Self {
        Self { name, inner, argument: None, before: None, after: Some(MADE) }
    }

    /// A function that compares all parts of a value, and returns a list of the same size.
    const fn whole(name: &'static str, inner: &'static str, argument: Option<&'static str>) -> Self {
        Self { name, inner, argument, before: Some(READ), after: Some(MADE) }
    }

    /// A function that searches for its argument.
    const fn seeking(name: &'static str, inner: &'static str) -> Self {
        Self { name, inner, argument: Some("$x"), before: Some(SOUGHT), after: Some(MADE) }
    }

    fn definition(&self) -> Def<&'static str> {
        let pipe = |left, right| Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right));
        let argument =
            || self.argument.map(|name| if name.starts_with('$') { Term::Var(name) } else { call(name, []) });
        let mut body = call(self.inner, argument());
        if let Some(before) = self.before {
            body = pipe(call(before, argument().filter(|_| before == SOUGHT)), body);
        }
        if let Some(after) = self.after {
            body = pipe(body, call(after, []));
        }
        Def { name: self.name, args: self.argument.into_iter().collect(), body }
    }
}

const WRAPPED: [Wrapped; 23] = [
    Wrapped::flat("ascii_downcase", "!ascii_downcase"),
    Wrapped::flat("ascii_upcase", "!ascii_upcase"),
    Wrapped::flat("decode_base64", "!decode_base64"),
    Wrapped::flat("decode_uri", "!decode_uri"),
    Wrapped::flat("encode_base64", "!encode_base64"),
    Wrapped::flat("encode_uri", "!encode_uri"),
    Wrapped::flat("escape_html", "!escape_html"),
    Wrapped::flat("escape_sh", "!escape_sh"),
    Wrapped::flat("explode", "!explode"),
    Wrapped::flat("implode", "!implode"),
    Wrapped::flat("key_values", "!key_values"),
    Wrapped::flat("keys_unsorted", "!keys_unsorted"),
    Wrapped::flat("reverse", "!reverse"),
    Wrapped::flat("unescape_html", "!unescape_html"),
    Wrapped::whole("group_by", "!group_by", Some("f")),
    Wrapped::whole("max_by_or_empty", "!max_by_or_empty", Some("f")),
    Wrapped::whole("min_by_or_empty", "!min_by_or_empty", Some("f")),
    Wrapped::whole("sort", "!sort", None),
    Wrapped::whole("sort_by", "!sort_by", Some("f")),
    Wrapped::whole("tobytes", "!tobytes", None),
    Wrapped::seeking("contains", "!contains"),
    Wrapped::seeking("indices", "!indices"),
    Wrapped { name: "tojson", inner: "!tojson", argument: None, before: Some(WRITTEN), after: None },
];

/// Definitions before those of the library, which use them.
fn first_definitions() -> impl Iterator<Item = Def<&'static str>> {
    let range = jaq_core::load::parse(RANGE, |parser| parser.defs());
    let range = range.expect("the definition is fixed and tested");
    range.into_iter().chain(WRAPPED.iter().map(Wrapped::definition))
}

/// Definitions after those of the library.
fn last_definitions() -> impl Iterator<Item = Def<&'static str>> {
    let raise = jaq_core::load::parse(RAISE, |parser| parser.defs());
    raise.expect("the definitions are fixed and tested").into_iter()
}

/// A library function under its internal name; `None` if it is replaced.
fn with_internal_name((name, arguments, native): Fun<EngineTypes>) -> Option<Fun<EngineTypes>> {
    let name = WRAPPED.iter().find(|wrapped| wrapped.name == name).map_or(name, |wrapped| wrapped.inner);
    (!REPLACED.contains(&name)).then_some((name, arguments, native))
}

/// Native function that returns its input, also in paths and updates (`recurse(.[]?) |= …`, `del(.[] | .a)`),
/// and counts it.
macro_rules! counting {
    ($name:expr, $count:expr) => {{
        let native = Native::<EngineTypes>::new(|cv| bome($count(cv.0.data().spent, &cv.1).map(|()| cv.1)))
            .with_paths(|cv| one($count(cv.0.data().spent, &cv.1.0).map(|()| cv.1)))
            .with_update(|cv, update| match $count(cv.0.data().spent, &cv.1) {
                Ok(()) => update(cv.1),
                Err(error) => bome(Err(error)),
            });
        ($name, v(0), native)
    }};
}

/// Native function that runs its argument, and counts first.
macro_rules! around {
    ($name:expr, $count:expr) => {{
        let native = Native::<EngineTypes>::new(|mut cv| {
            let (filter, context) = cv.0.pop_fun();
            match $count(context.data().spent, &cv.1) {
                Ok(()) => known_single(filter.run((context, cv.1))),
                Err(error) => bome(Err(error)),
            }
        })
        .with_paths(|mut cv| {
            let (filter, context) = cv.0.pop_fun();
            match $count(context.data().spent, &cv.1.0) {
                Ok(()) => known_single(filter.paths((context, cv.1))),
                Err(error) => one(Err(error)),
            }
        })
        .with_update(|mut cv, update| {
            let (filter, context) = cv.0.pop_fun();
            let spent = context.data().spent;
            let counted = $count(spent, &cv.1);
            let done = counted.and_then(|()| spent.nested(|| filter.update((context, cv.1), update)));
            done.unwrap_or_else(|error| bome(Err(error)))
        });
        ($name, [Bind::Fun(())].into(), native)
    }};
}

/// All native functions that count.
fn functions() -> Vec<Fun<EngineTypes>> {
    vec![
        counting!(TICK, |spent: &RunBudget, value| spent.round(JQ_ROUND_STEPS, value)),
        counting!(STEP, |spent: &RunBudget, _: &Val| spent.charge_steps(1)),
        counting!(STORED, RunBudget::charge_stored),
        counting!(READ, |spent: &RunBudget, value| spent.read(value).map(|_| ())),
        counting!(WRITTEN, |spent: &RunBudget, value| spent.charge_bytes(spent.read(value)?)),
        counting!(MADE, |spent: &RunBudget, value| spent.charge_bytes(extent(value))),
        around!(ROUND, |spent: &RunBudget, value| spent.round(JQ_FOLD_STEPS, value)),
        around!(ONE, |_: &RunBudget, _: &Val| Ok(())),
        run((SUM, v(2), |cv| bome(operation(cv, sum)))),
        run((DIFFERENCE, v(2), |cv| bome(operation(cv, difference)))),
        run((PRODUCT, v(2), |cv| bome(operation(cv, product)))),
        run((QUOTIENT, v(2), |cv| bome(operation(cv, quotient)))),
        run((SOUGHT, v(1), |mut cv| {
            let sought = cv.0.pop_var();
            bome(seek(cv.0.data().spent, &cv.1, &sought).map(|()| cv.1))
        })),
        run(("fromjson", v(0), |cv| bome(from_json(cv.0.data().spent, cv.1)))),
        run(("matches", v(2), |cv| bome(find(cv, WantedParts::Matches)))),
        run(("split_matches", v(2), |cv| bome(find(cv, WantedParts::All)))),
        run(("split_", v(2), |cv| bome(find(cv, WantedParts::Between)))),
        run(("raise_empty", v(0), |cv| {
            cv.0.data().spent.raised.set(Some(cv.1.clone()));
            bome(Err(Error::new(cv.1)))
        })),
    ]
}

fn one<'a, T: 'a>(result: Result<T, Error>) -> BoxIter<'a, ValX<'a, T, Val>> {
    box_once(result.map_err(Exn::from))
}

/// Returns the same values, but a single value is known to be the last.
///
/// Otherwise the engine keeps all state that it would need to continue: every intermediate value of a
/// `reduce`, and each of them is a copy then.
fn known_single<'a, T: 'a>(mut values: BoxIter<'a, T>) -> BoxIter<'a, T> {
    let Some(first) = values.next() else { return Box::new(std::iter::empty()) };
    match values.next() {
        None => box_once(first),
        Some(second) => Box::new([first, second].into_iter().chain(values)),
    }
}

/// Applies an operator to its operands.
fn operation(
    mut cv: Cv<'_, EngineTypes>,
    operate: fn(&RunBudget, Val, Val) -> Result<Val, Error>,
) -> Result<Val, Error> {
    let (left, right) = (cv.0.pop_var(), cv.0.pop_var());
    let spent = cv.0.data().spent;
    // `.` may be one of the operands: with one reference fewer, it is changed in place, not copied.
    drop(cv);
    operate(spent, left, right)
}

fn sum(spent: &RunBudget, left: Val, right: Val) -> Result<Val, Error> {
    match (&left, &right) {
        (Val::Num(_), Val::Num(_)) => {
            spent.charge_steps(1)?;
            let sum = (left + right)?;
            return spent.number(&sum).map(|()| sum);
        }
        (Val::Null, _) | (_, Val::Null) => spent.charge_steps(1)?,
        _ => spent.charge_bytes(copied(&left) + extent(&right))?,
    }
    left + right
}

fn difference(spent: &RunBudget, left: Val, right: Val) -> Result<Val, Error> {
    if let (Val::Arr(_), Val::Arr(_)) = (&left, &right) {
        spent.read(&left)?;
        spent.read(&right)?;
        spent.charge_bytes(copied(&left) + extent(&right))?;
    }
    spent.charge_steps(1)?;
    let difference = (left - right)?;
    spent.number(&difference).map(|()| difference)
}

fn product(spent: &RunBudget, left: Val, right: Val) -> Result<Val, Error> {
    match (&left, &right) {
        (Val::BStr(text) | Val::TStr(text), Val::Num(times))
        | (Val::Num(times), Val::BStr(text) | Val::TStr(text)) => {
            let times = times.as_isize().map_or(u64::MAX, |times| u64::try_from(times).unwrap_or(0));
            spent.charge_bytes((text.len() as u64).saturating_mul(times))?;
        }
        (Val::Obj(_), Val::Obj(_)) => {
            spent.read(&right)?;
            spent.charge_bytes(merged(&left, &right, false))?;
        }
        _ => spent.charge_steps(1)?,
    }
    let product = (left * right)?;
    spent.number(&product).map(|()| product)
}

fn quotient(spent: &RunBudget, left: Val, right: Val) -> Result<Val, Error> {
    /// Memory of a part of a split string, in bytes.
    const PART_BYTES: u64 = 64;
    if let (Val::TStr(text), Val::TStr(separator)) | (Val::BStr(text), Val::BStr(separator)) = (&left, &right)
    {
        spent.charge_steps(text.len() as u64 / 64)?;
        let parts = match separator.is_empty() {
            true => text.len(),
            false => memchr::memmem::find_iter(text, &***separator).count() + 1,
        };
        spent.charge_bytes(parts as u64 * PART_BYTES)?;
    }
    spent.charge_steps(1)?;
    left / right
}

/// Bytes that are copied when a value is changed.
fn copied(value: &Val) -> u64 {
    if is_shared(value) { extent(value) } else { 0 }
}

/// Bytes that are copied when two objects are merged recursively. If an object is copied, its parts become
/// shared.
fn merged(left: &Val, right: &Val, is_part_of_copied: bool) -> u64 {
    let (Val::Obj(members), Val::Obj(others)) = (left, right) else { return 0 };
    let is_copied = is_part_of_copied || is_shared(left);
    let inside = others
        .iter()
        .map(|(key, other)| members.get(key).map_or(0, |member| merged(member, other, is_copied)));
    let own = if is_copied { extent(left) } else { 0 };
    own + extent(right) + inside.sum::<u64>()
}

/// Counts a search for one value in another, which may compare every part with every part.
fn seek(spent: &RunBudget, value: &Val, sought: &Val) -> Result<(), Error> {
    let (there, wanted) = (spent.read(value)?, spent.read(sought)?);
    spent.charge_steps((1 + there / 16).saturating_mul(1 + wanted / 16))
}

fn from_json(spent: &RunBudget, value: Val) -> Result<Val, Error> {
    /// Largest number of bytes of a value per byte of its text: `[1,1]`.
    const BYTES_OF_ONE: u64 = 8;
    let Val::TStr(text) = &value else { return Err(Error::typ(value, "string")) };
    spent.charge_steps(text.len() as u64 / 8)?;
    // The engine's own parser recurses once per bracket.
    let json = JsonText::check(text).map_err(|error| Error::str(&error))?;
    check_numbers(json.as_str()).map_err(Error::str)?;
    spent.charge_bytes(text.len() as u64 * BYTES_OF_ONE)?;
    jaq_json::read::parse_single(json.bytes()).map_err(|error| Error::str(&error))
}

/// Checks the numbers of a JSON text against the bounds.
fn check_numbers(json: &str) -> Result<(), NumberOutOfBounds> {
    let mut rest = json;
    while let Some(start) = rest.find(|sign: char| sign == '"' || sign.is_ascii_digit()) {
        rest = &rest[start..];
        let end = if rest.starts_with('"') {
            let mut escaped = false;
            let closing = rest.bytes().skip(1).position(|byte| {
                let closes = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                closes
            });
            closing.map_or(rest.len(), |position| position + 2)
        } else {
            let end = rest.find(|sign: char| !matches!(sign, '0'..='9' | '.' | 'e' | 'E' | '+' | '-'));
            let end = end.unwrap_or(rest.len());
            check_number(&rest[..end])?;
            end
        };
        rest = &rest[end..];
    }
    Ok(())
}

/// Functions that read or change anything other than their input.
const IMPURE: [&str; 12] = [
    "env",
    "now",
    "input",
    "inputs",
    "halt",
    "halt_error",
    "debug",
    "debug_empty",
    "stderr",
    "stderr_empty",
    "localtime",
    "strflocaltime",
];

/// All jq definitions, rewritten to count their steps. A later definition replaces an earlier one of the same
/// name.
static DEFINITIONS: LazyLock<Vec<Def<&'static str>>> = LazyLock::new(|| {
    first_definitions()
        .chain(jaq_core::defs())
        .chain(jaq_std::defs())
        .chain(jaq_json::defs())
        .filter(|definition| !IMPURE.contains(&definition.name))
        .chain(last_definitions())
        .map(bounded_definition)
        .collect()
});

/// Selects the definitions and native functions that a filter calls, directly or indirectly, by name
/// regardless of the number of arguments.
///
/// A compiled filter contains every definition that it was compiled with. With the whole library it needs 120
/// KB and half a millisecond, at each start for each of 400 filters; with only those that it calls, a few KB.
pub(super) fn used_by<'s>(filter: &Term<&'s str>) -> (Vec<Def<&'s str>>, Vec<Fun<EngineTypes>>) {
    let mut used: HashSet<&str> = HashSet::new();
    let mut found: Vec<&str> = Vec::new();
    collect_calls(filter, &mut found);
    while let Some(name) = found.pop() {
        if used.insert(name) {
            let definitions = DEFINITIONS.iter().filter(|definition| definition.name == name);
            definitions.for_each(|definition| collect_calls(&definition.body, &mut found));
        }
    }
    let definitions = DEFINITIONS.iter().filter(|definition| used.contains(definition.name));
    let functions = jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .filter(|(name, ..)| !IMPURE.contains(name))
        .filter_map(with_internal_name)
        .chain(functions())
        .filter(|(name, ..)| used.contains(name));
    (definitions.cloned().collect(), functions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(filter: &str, definitions: &[&str], functions: &[&str]) {
        let term = jaq_core::load::parse(filter, |parser| parser.term()).unwrap();
        let (found, natives) = used_by(&term);
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
        check("map(.a)", &["map"], &["!kept"]);
        check(
            r#"@base64 "\(.a)""#,
            &["encode_base64", "tostring", "@base64"],
            &["!encode_base64", "!made", "!written"],
        );
        check("[limit(2; .[])]", &[], &["limit"]);
    }
}
