//! jq filters, compiled once.

mod bounds;
mod steps;

use std::{fmt, sync::Arc};

use bounds::{Bounded, Spent};
use jaq_core::{
    Compiler, Ctx, Vars,
    load::{
        Arena, File, Loader, lex,
        parse::{self, Def},
    },
    unwrap_valr,
};
use jaq_json::{Error, Val};
use serde_json::Value;

use super::{rules::TranslationLimits, stop::Stop};

/// One compiled jq filter. Clones share what was compiled.
///
/// It sees the value as `.`, and `$args`, `$status`, `$headers`, `$answers`, and the captures of the rule's patterns by
/// their names. What reads the world (`env`, `input`, `now`)
/// or leaves it (`halt`, `debug`, `stderr`) is not there, so the same reply gives the same result.
#[derive(Clone)]
pub struct Jq {
    filter: Arc<jaq_core::Filter<bounds::Kind>>,
    source: Arc<str>,
    /// The captures that it sees, in the order of its variables.
    captures: Arc<[String]>,
}

/// Why a filter does not compile, or gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JqError {
    /// What is wrong, in one sentence. Shows nothing of the value.
    pub message: String,
    /// The engine's own words, which may show the whole value: for the log.
    pub detail: Option<String>,
    /// What the filter's author raised with `error(…)`: meant for the client.
    pub raised: Option<Value>,
}

impl JqError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), detail: None, raised: None }
    }

    /// Whether the engine's words are not all there.
    pub(super) fn is_detail_cut(&self) -> bool {
        self.detail.as_ref().is_some_and(|detail| detail.len() >= DETAIL_BYTES)
    }
}

/// The names a filter sees beside `.`.
#[derive(Debug, Clone, Copy)]
pub struct JqNames<'a> {
    /// The call's arguments, an object.
    pub args: &'a Value,
    /// What was answered to the questions of the route, an object or null.
    pub answers: &'a Value,
    /// The reply's HTTP status.
    pub status: u16,
    /// The reply's headers, an object with lower-case names.
    pub headers: &'a Value,
    /// Names and texts of the captures of the rule's patterns; of two of one name the later counts.
    pub captures: &'a [(String, String)],
    /// How many values, counted at every depth, it may give.
    pub most_values: usize,
    /// What ends the filter when nobody waits any more.
    pub stop: Option<&'a Stop>,
}

/// Functions that depend on, or act on, something other than their input.
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
/// How many operators a filter may have, words such as `if` counted twice. Parser and evaluator take a step down
/// the stack for each, and the stack has an end.
const OPERATOR_LIMIT: usize = 400;
const COMPILER_STACK_BYTES: usize = 64 << 20;
/// The written filter's name among the definitions.
const MAIN: &str = "written";
const VARIABLES: [&str; 4] = ["$args", "$status", "$headers", "$answers"];

impl Jq {
    /// Compiles a filter.
    ///
    /// # Errors
    ///
    /// [`JqError`] on a syntax error, or a function or variable that does not exist.
    pub fn compile(source: &str) -> Result<Self, JqError> {
        Self::compile_with(source, &[])
    }

    /// Compiles a filter that also sees captures by these names; one that is missing when it runs is null.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub fn compile_with(source: &str, captures: &[String]) -> Result<Self, JqError> {
        refuse_too_deep(source)?;
        // The parser takes some kilobytes of stack for every operator.
        std::thread::scope(|scope| {
            let compiler = std::thread::Builder::new().stack_size(COMPILER_STACK_BYTES);
            let compiled = compiler.spawn_scoped(scope, || Self::compile_here(source, captures));
            compiled.ok().and_then(|thread| thread.join().ok())
        })
        .unwrap_or_else(|| Err(JqError::new("the filter can't be compiled")))
    }

    fn compile_here(source: &str, captures: &[String]) -> Result<Self, JqError> {
        // Once as written, for the parser's words about what is wrong with it.
        Loader::new([])
            .load(&Arena::default(), File { code: source, path: () })
            .map_err(|errors| JqError::new(load_message(source, errors)))?;
        let written = jaq_core::load::parse(source, |parser| parser.term());
        let written = written.ok_or_else(|| JqError::new("a filter can't import modules"))?;
        bounds::refuse_recursion(&written)?;
        let main = Def { name: MAIN, args: Vec::new(), body: bounds::bounded(steps::stepwise(written)) };
        let range = jaq_core::load::parse(bounds::RANGE, |parser| parser.defs());
        let raise = jaq_core::load::parse(bounds::RAISE, |parser| parser.defs());
        let range: Vec<_> = range.expect("the definition is fixed and tested");
        let definitions = range
            .into_iter()
            .chain(jaq_core::defs())
            .chain(jaq_std::defs())
            .chain(jaq_json::defs())
            .filter(|definition| !IMPURE.contains(&definition.name))
            .chain(raise.expect("the definitions are fixed and tested"))
            .map(bounds::bounded_definition)
            .chain([main]);
        let functions = jaq_core::funs()
            .chain(jaq_std::funs())
            .chain(jaq_json::funs())
            .filter(|(name, ..)| !IMPURE.contains(name) && !bounds::REPLACED.contains(name))
            .chain(bounds::functions());
        let arena = Arena::default();
        let modules = Loader::new(definitions)
            .load(&arena, File { code: MAIN, path: () })
            .map_err(|errors| JqError::new(load_message(MAIN, errors)))?;
        let captured: Vec<String> = captures.iter().map(|name| format!("${name}")).collect();
        let variables = VARIABLES.into_iter().chain(captured.iter().map(String::as_str));
        let filter =
            Compiler::default().with_funs(functions).with_global_vars(variables).compile(modules).map_err(
                |errors| {
                    let undefined = errors.into_iter().flat_map(|(_, errors)| errors).next();
                    JqError::new(match undefined {
                        Some((name, kind)) => format!("there is no {} `{name}`", kind.as_str()),
                        None => "the filter does not compile".to_owned(),
                    })
                },
            )?;
        Ok(Self { filter: Arc::new(filter), source: source.into(), captures: captures.into() })
    }

    /// The filter as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Applies the filter. It must give exactly one value.
    ///
    /// # Errors
    ///
    /// [`JqError`] when the filter fails, gives no value or several, or gives what JSON has not (bytes, keys
    /// that are no strings, infinities).
    pub fn apply(&self, value: &Value, names: JqNames<'_>) -> Result<Value, JqError> {
        self.apply_to(to_jq(value), names)
    }

    /// The same to a value that nobody needs any more, so that there are not two of it.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub(super) fn apply_to_own(&self, value: Value, names: JqNames<'_>) -> Result<Value, JqError> {
        self.apply_to(into_jq(value), names)
    }

    fn apply_to(&self, value: Val, names: JqNames<'_>) -> Result<Value, JqError> {
        let spent = Spent::until(names.stop);
        let mut results = self.run(value, names, &spent);
        let first = results.next().ok_or_else(|| JqError::new("gave no value"))?;
        let first = first.map_err(|error| {
            let detail = Some(brief(&error));
            let raised = spent.raised.take().filter(|raised| Error::new(raised.clone()) == error);
            match raised.map(|raised| result(&raised, names.most_values)) {
                Some(Ok(raised)) => {
                    JqError { raised: Some(raised), detail, ..JqError::new("raised an error") }
                }
                Some(Err(_)) | None => JqError { detail, ..JqError::new("does not fit the reply") },
            }
        })?;
        if results.next().is_some() {
            return Err(JqError::new("gave more than one value; wrap it in `[…]` for an array"));
        }
        result(&first, names.most_values)
    }

    /// Whether the first value of the filter is neither `false` nor `null`. A filter that fails, or gives no
    /// value, does not hold.
    pub fn holds(&self, value: &Value, names: JqNames<'_>) -> bool {
        let spent = Spent::until(names.stop);
        !matches!(
            self.run(to_jq(value), names, &spent).next(),
            None | Some(Err(_) | Ok(Val::Null | Val::Bool(false)))
        )
    }

    /// Whether it holds of a call before there is a reply: the arguments are `.` and `$args`. A filter that fails holds:
    /// it decides whether somebody is asked, and who can't tell asks.
    pub fn holds_before(&self, args: &Value, answers: &Value) -> bool {
        let spent = Spent::until(None);
        let (headers, most_values) = (&Value::Null, TranslationLimits::DEFAULT_VALUES);
        let names = JqNames { args, answers, status: 0, headers, captures: &[], most_values, stop: None };
        !matches!(self.run(to_jq(args), names, &spent).next(), None | Some(Ok(Val::Null | Val::Bool(false))))
    }

    fn run<'a>(
        &'a self,
        value: Val,
        names: JqNames<'_>,
        spent: &'a Spent,
    ) -> impl Iterator<Item = Result<Val, Error>> + 'a {
        let capture = |name: &String| {
            let found = names.captures.iter().rev().find(|(other, _)| other == name);
            found.map_or(Val::Null, |(_, text)| Val::utf8_str(text.clone()))
        };
        let status = Val::from(names.status as isize);
        let variables = [to_jq(names.args), status, to_jq(names.headers), to_jq(names.answers)];
        let variables = variables.into_iter().chain(self.captures.iter().map(capture));
        let data = Bounded { table: &self.filter.lut, spent };
        let context = Ctx::<bounds::Kind>::new(data, Vars::new(variables));
        self.filter.id.run((context, value)).map(unwrap_valr)
    }
}

impl fmt::Debug for Jq {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Jq").field(&self.source).finish()
    }
}

fn refuse_too_deep(source: &str) -> Result<(), JqError> {
    const WORDS: [&str; 9] = ["if", "elif", "as", "def", "reduce", "foreach", "try", "and", "or"];
    let words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| WORDS.contains(word)).count();
    let signs = source.bytes().filter(|byte| b"([{|,+-*/%<>=?".contains(byte)).count();
    if 2 * words + signs > OPERATOR_LIMIT {
        return Err(JqError::new(format!("the filter has more than {OPERATOR_LIMIT} operators")));
    }
    Ok(())
}

fn load_message(source: &str, errors: jaq_core::load::Errors<&str, ()>) -> String {
    let Some((_, error)) = errors.into_iter().next() else { return "the filter can't be read".to_owned() };
    let place = |rest: &str| {
        let offset = rest.as_ptr() as usize - source.as_ptr() as usize;
        match rest.split_whitespace().next() {
            Some(found) => format!("`{found}` at character {}", source[..offset].chars().count() + 1),
            None => "the end of the filter".to_owned(),
        }
    };
    match error {
        jaq_core::load::Error::Io(_) => "a filter can't import modules".to_owned(),
        jaq_core::load::Error::Lex(errors) => match errors.into_iter().next() {
            Some((lex::Expect::Delim(open), _)) => format!("an opening `{open}` is never closed"),
            Some((expected, rest)) => format!("expected {}, found {}", expected.as_str(), place(rest)),
            None => "the filter can't be read".to_owned(),
        },
        jaq_core::load::Error::Parse(errors) => match errors.into_iter().next() {
            Some((expected, rest)) => format!("expected {}, found {}", expected_words(expected), place(rest)),
            None => "the filter can't be read".to_owned(),
        },
    }
}

fn expected_words(expected: parse::Expect<&str>) -> String {
    expected.as_str().to_owned()
}

fn to_jq(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        Value::Number(number) => to_jq_number(number),
        Value::String(text) => Val::utf8_str(text.clone()),
        Value::Array(items) => items.iter().map(to_jq).collect(),
        Value::Object(members) => {
            Val::obj(members.iter().map(|(key, value)| (Val::utf8_str(key.clone()), to_jq(value))).collect())
        }
    }
}

/// The same of a value that goes away with it.
fn into_jq(value: Value) -> Val {
    match value {
        Value::String(text) => Val::utf8_str(text),
        Value::Array(items) => items.into_iter().map(into_jq).collect(),
        Value::Object(members) => {
            Val::obj(members.into_iter().map(|(key, value)| (Val::utf8_str(key), into_jq(value))).collect())
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => to_jq(&scalar),
    }
}

/// How long the engine's words on an error may be: it puts whole values into them.
const DETAIL_BYTES: usize = 300;

/// An error in about so many bytes.
fn brief(error: &Error) -> String {
    struct Brief(String);
    impl fmt::Write for Brief {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.extend(text.chars().take(DETAIL_BYTES.saturating_sub(self.0.len())));
            if self.0.len() < DETAIL_BYTES { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let mut brief = Brief(String::new());
    // An error here says that there was more to write.
    let _ = fmt::write(&mut brief, format_args!("{error}"));
    brief.0
}

/// Keeps the text of decimals, so that `1.0` comes out as `1.0`.
fn to_jq_number(number: &serde_json::Number) -> Val {
    /// Reading a whole number takes time by the square of its length.
    const LONGEST_INTEGER: usize = 1000;
    let text = number.to_string();
    let integer = if text.len() > LONGEST_INTEGER { None } else { jaq_json::Num::from_str_radix(&text, 10) };
    Val::Num(integer.unwrap_or_else(|| jaq_json::Num::Dec(text.into())))
}

/// A value that a filter gave. Its values are counted: shared parts are told apart here, so a small value inside can be
/// a large one outside.
fn result(value: &Val, most_values: usize) -> Result<Value, JqError> {
    let mut left = most_values;
    from_jq(value, 0, &mut left).map_err(|error| match left {
        0 => JqError::new(format!("gave more than {most_values} values, which is the `value_limit`")),
        _ => error,
    })
}

/// `left` is how many values there may be yet.
fn from_jq(value: &Val, depth: usize, left: &mut usize) -> Result<Value, JqError> {
    *left = left.checked_sub(1).ok_or_else(|| JqError::new("gave too many values"))?;
    if depth > crate::tool::JSON_DEPTH_LIMIT {
        return Err(JqError::new("gave a value that nests too deep"));
    }
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(flag) => Value::Bool(*flag),
        Val::Num(number) => {
            let text = number.to_string();
            let number = serde_json::from_str(&text);
            Value::Number(number.map_err(|_| JqError::new(format!("gave `{text}`, which JSON has not")))?)
        }
        Val::BStr(bytes) | Val::TStr(bytes) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        Val::Arr(items) => {
            Value::Array(items.iter().map(|item| from_jq(item, depth + 1, left)).collect::<Result<_, _>>()?)
        }
        Val::Obj(members) => {
            let mut map = serde_json::Map::with_capacity(members.len());
            for (key, value) in members.iter() {
                let Val::TStr(key) = key else {
                    return Err(JqError::new("gave an object with a key that is no string"));
                };
                map.insert(String::from_utf8_lossy(key).into_owned(), from_jq(value, depth + 1, left)?);
            }
            Value::Object(map)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As a debug build is slow.
    const MOST: usize = 200_000;

    #[track_caller]
    fn check(filter: &str, input: &str, expected: Result<&str, &str>) {
        let input = serde_json::from_str(input).unwrap();
        let (args, headers) = (json!({"city": "Oslo"}), json!({}));
        let names = JqNames {
            args: &args,
            answers: &Value::Null,
            status: 200,
            headers: &headers,
            captures: &[],
            most_values: MOST,
            stop: None,
        };
        match (Jq::compile(filter).and_then(|jq| jq.apply(&input, names)), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
            (Err(error), Err(part)) => assert!(error.message.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_filter_reshapes_a_value_and_keeps_the_text_of_numbers() {
        check(
            "{temperature: .temp, big: .big, city: $args.city}",
            r#"{"temp": 5.0, "big": 12345678901234567890}"#,
            Ok(r#"{"temperature":5.0,"big":12345678901234567890,"city":"Oslo"}"#),
        );
        check("map(.a) | add", r#"[{"a": 1}, {"a": 2}]"#, Ok("3"));
    }

    #[test]
    fn a_filter_gives_one_value_or_an_error() {
        check(".[]", "[1, 2]", Err("more than one value"));
        check("empty", "[]", Err("no value"));
        check(".a.b", r#"{"a": 1}"#, Err("does not fit the reply"));
        check("infinite", "null", Err("JSON has not"));
        check("{(1|tostring): 2}", "null", Ok(r#"{"1":2}"#));
    }

    #[test]
    fn what_is_wrong_with_a_filter_is_said() {
        check("{a: .b", "null", Err("`{` is never closed"));
        check(".a | frobnicate", "null", Err("there is no filter `frobnicate`"));
        check("$nope", "null", Err("there is no variable `$nope`"));
        check("map(", "null", Err("`(` is never closed"));
        check(".a |", "null", Err("expected"));
    }

    #[test]
    fn a_filter_can_not_reach_the_world() {
        for filter in
            ["env", "$ENV", "now", "input", "inputs", "halt", "halt_error", "debug", "stderr", "localtime"]
        {
            check(filter, "null", Err("there is no"));
        }
        check("import \"a\" as a; 1", "null", Err(""));
    }

    #[test]
    fn a_filter_that_nests_without_end_is_refused() {
        for filter in
            ["(".repeat(100_000), "-".repeat(100_000) + "1", ".a".to_owned() + &"|.a".repeat(100_000)]
        {
            check(&filter, "null", Err("more than 400 operators"));
        }
        check(&(".".to_owned() + &"|.".repeat(390)), "1", Ok("1"));
    }

    #[test]
    fn a_filter_has_an_end_whatever_the_reply() {
        check("{total: (.price * .count)}", r#"{"price": "x", "count": 1000000000000}"#, Err("does not fit"));
        check("[range(.n)] | length", r#"{"n": 1e15}"#, Err("does not fit"));
        check(
            "reduce .[] as $x (\"aaaaaaaa\"; . + .)",
            &format!("[{}0]", "0,".repeat(60)),
            Err("does not fit"),
        );
        check("reduce .[] as $x (3; . * .)", &format!("[{}0]", "0,".repeat(60)), Err("does not fit"));
        check(". += . | . *= 2", "\"ab\"", Ok("\"abababab\""));
        check("[repeat(1)]", "null", Err("does not fit"));
        check("until(false; .)", "null", Err("does not fit"));
        check("reduce range(60) as $x (1; [., .])", "null", Err("more than"));
        check(".a | fromjson", &format!(r#"{{"a": "{}"}}"#, "[".repeat(100_000)), Err("does not fit"));
        check(".a | fromjson | .[0].b", r#"{"a": "[{\"b\": 1.0}]"}"#, Ok("1.0"));
        check(
            "{b: .a}",
            &format!(r#"{{"a": {}}}"#, "9".repeat(200_000)),
            Ok(&format!(r#"{{"b":{}}}"#, "9".repeat(200_000))),
        );
        check("def f: [f]; f", "null", Err("`f` calls itself"));
        check("def f: def g: f; g; f", "null", Err("`f` calls itself"));
        check("def f(x): x + 1; f(f(1))", "null", Ok("3"));
    }

    #[test]
    fn loops_and_paths_work_within_the_bounds() {
        check("[range(3)], [range(1; 4)], [range(5; 0; -2)] | add", "null", Err("more than one"));
        check("[[range(3)], [range(1; 4)], [range(5; 0; -2)]]", "null", Ok("[[0,1,2],[1,2,3],[5,3,1]]"));
        check(
            "[recurse(.c[]) | .v] | add",
            r#"{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": []}]}"#,
            Ok("6"),
        );
        check("[limit(3; repeat(7))]", "null", Ok("[7,7,7]"));
        check("until(. > 100; . * 2)", "1", Ok("128"));
        check(".a += 1 | .b[0] *= 2", r#"{"a": 1, "b": [4]}"#, Ok(r#"{"a":2,"b":[8]}"#));
        check("[.[] + (10, 20)]", "[1, 2]", Ok("[11,12,21,22]"));
        check("{a: 1} * {b: {c: 2}} | .b.c + 1", "null", Ok("3"));
        check("map(.x) | add, length | tostring", "[]", Err("more than one"));
    }

    #[test]
    fn a_condition_that_fails_does_not_hold() {
        let empty = json!({});
        let names = JqNames {
            args: &empty,
            answers: &Value::Null,
            status: 200,
            headers: &empty,
            captures: &[],
            most_values: MOST,
            stop: None,
        };
        let holds = |filter: &str, input| Jq::compile(filter).unwrap().holds(&input, names);
        assert!(holds("has(\"error\")", json!({"error": null})));
        assert!(!holds(".error", json!({"error": null})));
        assert!(!holds(".a.b.c", json!("text")));
        assert!(!holds("empty", json!(1)));
        assert!(holds("$status == 200", json!(1)));
    }

    #[test]
    fn lists_are_gone_through_freely_and_crossed_within_bounds() {
        let numbers = |count| Value::from((0..count).collect::<Vec<u32>>()).to_string();
        let long = numbers(30_000);
        let crossed_ends = |filter: &str| {
            let (input, empty) = (serde_json::from_str(&long).unwrap(), json!({}));
            let names = JqNames {
                args: &empty,
                answers: &Value::Null,
                status: 200,
                headers: &empty,
                captures: &[],
                stop: None,
                most_values: 1_000_000,
            };
            let error = Jq::compile(filter).unwrap().apply(&input, names).unwrap_err();
            assert!(
                error.detail.as_ref().is_some_and(|detail| detail.contains("too much work")),
                "{filter}: {error:?}"
            );
        };
        check("[.[] | select(. % 2 == 0) | . + 1] | length", &long, Ok("15000"));
        for crossed in [
            "[.[] as $a | .[] as $b | $a] | length",
            ". as $all | [.[] | $all[]] | length",
            "[.[] == .[]] | length",
            "[.[] - .[]] | length",
            "[{a: .[], b: .[]}] | length",
            "[\"\\(.[]) \\(.[])\"] | length",
            "def both($a; $b): $a; [both(.[]; .[])] | length",
            ". as $all | [$all[.[]:.[]] | length] | length",
            "first(.[] as $a | .[] as $b | select($a < 0) | $a)",
            ". as $all | .[] |= last($all[] | select(. >= 0))",
        ] {
            crossed_ends(crossed);
        }
        check("[.[] as $a | .[] as $b | $a * $b] | add", &numbers(100), Ok("24502500"));
    }

    #[test]
    fn what_is_counted_is_a_path_all_the_same() {
        let tree = r#"{"a": [{"n": 1}, {"n": 2}], "b": [{"n": 3}]}"#;
        check("[path(.a[] | select(.n > 1) | .n)]", tree, Ok(r#"[["a",1,"n"]]"#));
        check("(.[] | .[] | .n) |= . + 1 | [.. | numbers]", tree, Ok(r#"[2,3,4]"#));
        check("del(.a[] | select(.n == 1) | .n) | .a", tree, Ok(r#"[{},{"n":2}]"#));
        check("[path(recurse(.[]?) | numbers)] | length", tree, Ok(r#"3"#));
        check("(recurse(.[]?) | numbers) |= . * 2 | [.. | numbers]", tree, Ok(r#"[2,4,6]"#));
    }

    #[test]
    fn a_filter_ends_when_nobody_waits_any_more() {
        let (jq, empty, stop) =
            (Jq::compile("reduce range(9) as $i (0; . + $i)").unwrap(), Value::Null, Stop::default());
        let names = || JqNames {
            args: &empty,
            answers: &Value::Null,
            status: 200,
            headers: &empty,
            captures: &[],
            most_values: MOST,
            stop: Some(&stop),
        };
        assert!(jq.apply(&empty, names()).is_ok());
        stop.now();
        assert!(jq.apply(&empty, names()).is_err());
    }
}
