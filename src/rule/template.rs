//! Jinja templates, compiled once.

use std::{
    cell::Cell,
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use minijinja::{
    Environment, Error, UndefinedBehavior, Value,
    value::{Kwargs, Object, ValueKind},
};
use regex::Regex;
use serde_json::Value as Json;

use super::{
    convert::without_exponent,
    filters::{self, MADE_LIMIT_BYTES},
    stop::{STOPPED, Stop},
    verdict::safe_words,
};

/// One compiled Jinja template.
///
/// Every name that a template may use is documented with the place it is written in; a name that is not there
/// is an error, never an empty text. Nothing is escaped: the place a text lands in escapes it.
pub struct Template {
    // Boxed: it is large, and templates stand inside many small enums.
    environment: Box<Environment<'static>>,
    source: String,
    names: Box<[String]>,
    paths: Box<[String]>,
}

/// Why a template does not compile or does not render.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// What is wrong, in one sentence.
    pub message: String,
    /// The line of the template, from 1.
    pub line: Option<usize>,
}

const NAME: &str = "template";

/// How much work the templates of one result may do together: a block for each of a thousand rows is a thousand
/// renderings.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    stop: Option<Stop>,
}

impl Budget {
    /// Of one result: what one template may do alone.
    pub(super) fn of_result() -> Self {
        Self { left: Cell::new(Template::FUEL), stop: None }
    }

    /// The same, which ends when nobody waits for the result any more.
    pub(super) fn until(self, stop: Option<&Stop>) -> Self {
        Self { stop: stop.cloned(), ..self }
    }
}

impl Template {
    /// How much work one rendering may do, in instructions of the template engine; a template that loops
    /// longer is an error.
    const FUEL: u64 = 2_000_000;

    /// Compiles a template.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] on a syntax error, or a filter or function that does not exist.
    pub fn compile(source: &str) -> Result<Self, TemplateError> {
        refuse_too_deep(source)?;
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(Self::FUEL));
        environment.set_formatter(write_value);
        filters::add(&mut environment);
        environment.add_filter("redact", |text: String| safe_words(&text));
        environment.add_filter("tojson", json_text);
        environment.add_filter("markdown_table", |value: Value, options: Kwargs| {
            let columns: Option<Vec<String>> = options.get("columns")?;
            options.assert_all_used()?;
            super::markdown::table(&to_json(&value)?, columns)
        });
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(|error| TemplateError::new(&error))?;
        let template = environment.get_template(NAME).expect("the template was added just now");
        let mut paths: Vec<_> =
            template.undeclared_variables(true).into_iter().chain(sliced(source)).collect();
        paths.sort();
        paths.dedup();
        let mut names: Vec<_> =
            paths.iter().map(|path| path.split('.').next().unwrap_or(path).to_owned()).collect();
        names.dedup();
        let (names, paths) = (names.into(), paths.into());
        Ok(Self { environment: Box::new(environment), source: source.to_owned(), names, paths })
    }

    /// The same for an address: what is put into it is percent-encoded as a whole, so that it stays in its place.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile).
    pub fn compile_for_address(source: &str) -> Result<Self, TemplateError> {
        let mut template = Self::compile(source)?;
        template.environment.set_formatter(write_encoded);
        Ok(template)
    }

    /// The template as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders the template with what `names` says.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] on an undefined name, a value of the wrong kind, too much work, or too long a text.
    pub fn render(&self, names: &Value) -> Result<String, TemplateError> {
        self.render_within(names, &Budget::of_result())
    }

    /// The same as one of several, which have a budget together. The last of them may pass it by what one template may
    /// do alone.
    ///
    /// # Errors
    ///
    /// As [`Self::render`], and when nothing is left of the budget.
    pub(super) fn render_within(&self, names: &Value, budget: &Budget) -> Result<String, TemplateError> {
        if budget.left.get() == 0 {
            let message = "the templates of one result do more work together than one may do".to_owned();
            return Err(TemplateError { message, line: None });
        }
        let template = self.environment.get_template(NAME).expect("the template was added when it was made");
        let mut text = LimitedText(Vec::new());
        let looked_up = Arc::new(LookedUp::of(names, budget.stop.clone()));
        let names = Value::from_dyn_object(Arc::clone(&looked_up));
        let rendered = template.render_captured_to(&names, &mut text).map(|captured| {
            let (used, _) = captured.state().fuel_levels().unwrap_or_default();
            budget.left.set(budget.left.get().saturating_sub(used));
        });
        looked_up.check()?;
        match rendered {
            Ok(()) => Ok(String::from_utf8(text.0).expect("templates write text")),
            Err(_) if text.0.len() > TEXT_LIMIT_BYTES => Err(TemplateError {
                message: format!("writes more than {TEXT_LIMIT_BYTES} bytes"),
                line: None,
            }),
            Err(error) => Err(TemplateError::of(&error, &self.source)),
        }
    }

    /// The top-level names that the template asks for, such as `args` and `structured`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The same with what is asked of each: `args.city`, `structured`.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }
}

/// How long the texts and lists may be together that one rendering looks up, in bytes; one that is looked up again counts
/// again. The engine counts its own steps, and a step of a loop that adds to a text or searches it reads all of it.
const LOOKED_UP_LIMIT_BYTES: u64 = if cfg!(test) { 32 << 20 } else { 8 << 30 };

/// What an item of a list counts, in bytes.
const ITEM_BYTES: u64 = 16;

/// The names of a template, while they are looked up. There are none once that was too much, or nobody waits any more:
/// what is left of the rendering is done soon then.
#[derive(Debug)]
struct LookedUp {
    names: Value,
    left: AtomicU64,
    stop: Option<Stop>,
}

impl LookedUp {
    fn of(names: &Value, stop: Option<Stop>) -> Self {
        Self { names: names.clone(), left: AtomicU64::new(LOOKED_UP_LIMIT_BYTES), stop }
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_asked)
    }

    /// Whether every name was there that was looked up.
    fn check(&self) -> Result<(), TemplateError> {
        let message = if self.is_stopped() {
            STOPPED.to_owned()
        } else if self.left.load(Ordering::Relaxed) == 0 {
            format!("looks up more than {LOOKED_UP_LIMIT_BYTES} bytes of texts and lists")
        } else {
            return Ok(());
        };
        Err(TemplateError { message, line: None })
    }
}

impl Object for LookedUp {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let value = self.names.get_item(key).ok().filter(|value| !value.is_undefined())?;
        let length = match (value.as_str(), value.kind()) {
            (Some(text), _) => text.len() as u64,
            (None, ValueKind::Seq) => value.len().unwrap_or(0) as u64 * ITEM_BYTES,
            (None, _) => 0,
        };
        let left = self.left.load(Ordering::Relaxed).saturating_sub(length);
        self.left.store(left, Ordering::Relaxed);
        (left > 0 && !self.is_stopped()).then_some(value)
    }
}

/// What is sliced (`args.city[:5]`): the engine leaves it out of the variables that it tells.
fn sliced(source: &str) -> Vec<String> {
    static SLICE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"([A-Za-z_][\w.]*)\s*(?:\[[^\[\]:]*\]\s*)*\[[^\[\]]*:[^\[\]]*\]")
            .expect("the pattern is fixed and tested")
    });
    let expressions = source.split("{{").flat_map(|part| part.split("{%")).skip(1);
    let expressions = expressions.map(|part| part.split("}}").next().unwrap_or(part));
    expressions.flat_map(|inside| SLICE.captures_iter(inside)).map(|found| found[1].to_owned()).collect()
}

/// How long a rendered text may be, in bytes: a loop over a large reply writes a multiple of it.
const TEXT_LIMIT_BYTES: usize = 16 << 20;

/// A text that stops growing.
struct LimitedText(Vec<u8>);

impl std::io::Write for LimitedText {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if self.0.len() > TEXT_LIMIT_BYTES {
            Err(std::io::ErrorKind::FileTooLarge.into())
        } else {
            Ok(bytes.len())
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How many operators one expression may have, and how many `elif` a template: the parser takes a step down the
/// stack for each, and the stack has an end.
const OPERATOR_LIMIT: usize = 400;

fn refuse_too_deep(source: &str) -> Result<(), TemplateError> {
    let parts = source.split("{{").flat_map(|part| part.split("{%"));
    let most = parts.map(|part| {
        let inside = part.split("}}").next().unwrap_or(part);
        let inside = inside.split("%}").next().unwrap_or(inside);
        let signs = inside.bytes().filter(|byte| b"([{|.,~+-*/%<>=!".contains(byte)).count();
        let words = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        signs + words.filter(|word| ["and", "or", "not", "if", "else", "is", "in"].contains(word)).count()
    });
    if most.max().unwrap_or(0).max(source.matches("elif").count()) > OPERATOR_LIMIT {
        let message = format!("more than {OPERATOR_LIMIT} operators in one expression");
        return Err(TemplateError { message, line: None });
    }
    Ok(())
}

impl fmt::Debug for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Template").field(&self.source).finish()
    }
}

impl TemplateError {
    fn new(error: &Error) -> Self {
        Self::of(error, "")
    }

    fn of(error: &Error, source: &str) -> Self {
        let message = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        let place = error.range().and_then(|range| source.get(range)).map(|words| format!(" in `{words}`"));
        Self { message: message + &place.unwrap_or_default(), line: error.line() }
    }
}

/// What the templates of a request see: `args` and `answers`.
pub fn template_names(arguments: &crate::tool::Arguments) -> Value {
    let object = |members: &serde_json::Map<String, Json>| {
        Value::from_pairs(members.iter().map(|(key, value)| (key.as_str(), from_json(value))))
    };
    Value::from_pairs([("args", object(arguments.as_map())), ("answers", object(arguments.answers()))])
}

/// What the lines that clients are told see: `args`, and `status` once there is one.
pub fn line_names(arguments: &crate::tool::Arguments, status: Option<u16>) -> Value {
    let members = arguments.as_map().iter().map(|(key, value)| (key.as_str(), from_json(value)));
    let args = ("args", Value::from_pairs(members));
    Value::from_pairs([args].into_iter().chain(status.map(|status| ("status", Value::from(status)))))
}

/// A JSON value as templates see it. Numbers are numbers, so that they compare and add up; one of more digits than
/// the engine can hold stays text, so that none is lost.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => from_number(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(from_json).collect(),
        Json::Object(members) => {
            Value::from_pairs(members.iter().map(|(key, value)| (key.as_str(), from_json(value))))
        }
    }
}

fn from_number(number: &serde_json::Number) -> Value {
    /// So many digits a double holds without loss.
    const EXACT_DIGITS: usize = 15;
    if let Some(integer) = number.as_i128() {
        return Value::from(integer);
    }
    let text = number.to_string();
    // `2.7e+11` is a whole number, and reads better as one.
    if text.contains('e')
        && let Some(integer) = without_exponent(&text).and_then(|text| text.parse::<i64>().ok())
    {
        return Value::from(integer);
    }
    let mantissa = text.split(['e', 'E']).next().unwrap_or(&text);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_matches('0').len();
    match text.parse::<f64>() {
        Ok(float) if float.is_finite() && digits <= EXACT_DIGITS => Value::from(float),
        _ => Value::from(text),
    }
}

/// A template's value as JSON text.
fn json_text(value: &Value) -> Result<String, Error> {
    Ok(to_json(value)?.to_string())
}

/// A template's value as JSON. Lists of one list, again and again, are small to a template and long as JSON: what is
/// made has an end.
fn to_json(value: &Value) -> Result<Json, Error> {
    json_within(value, &mut MADE_LIMIT_BYTES.clone())
}

fn json_within(value: &Value, left: &mut usize) -> Result<Json, Error> {
    let length = value.as_str().map_or(0, str::len) + ITEM_BYTES as usize;
    *left = left.checked_sub(length).ok_or_else(filters::made_too_much)?;
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => serde_json::from_str(&value.to_string()).unwrap_or(Json::Null),
        ValueKind::Seq | ValueKind::Iterable => match value.try_iter() {
            Ok(items) => items.map(|item| json_within(&item, left)).collect::<Result<_, _>>()?,
            Err(_) => Json::Null,
        },
        ValueKind::Map => match value.try_iter() {
            Ok(keys) => {
                let member = |key: Value| {
                    let item =
                        value.get_item(&key).map_or(Ok(Json::Null), |item| json_within(&item, left))?;
                    Ok((key.to_string(), item))
                };
                Json::Object(keys.map(member).collect::<Result<_, Error>>()?)
            }
            Err(_) => Json::Null,
        },
        _ => Json::String(value.to_string()),
    })
}

/// Writes `{{ value }}`: arrays and objects as JSON, null as `null`, the rest as it is.
fn write_value(
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let written = match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Bool | ValueKind::None => Value::from(json_text(value)?),
        _ => value.clone(),
    };
    minijinja::escape_formatter(out, state, &written)
}

/// The same for addresses: everything but the unreserved characters of RFC 3986, section 2.3, is encoded.
fn write_encoded(
    out: &mut minijinja::Output<'_>,
    state: &mut minijinja::State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let text = match value.kind() {
        // Which is an error, and no empty text.
        ValueKind::Undefined => return minijinja::escape_formatter(out, state, value),
        ValueKind::Seq | ValueKind::Map | ValueKind::Bool | ValueKind::None => to_json(value)?.to_string(),
        _ => value.to_string(),
    };
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    minijinja::escape_formatter(out, state, &Value::from(encoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, names: &str, expected: Result<&str, &str>) {
        let names: Json = serde_json::from_str(names).unwrap();
        let rendered = Template::compile(source).and_then(|template| template.render(&from_json(&names)));
        match (rendered, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(error), Err(part)) => assert!(error.message.contains(part), "{error}"),
            (found, _) => panic!("found {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn numbers_come_out_as_they_went_in() {
        check(
            "{{ a }} {{ b }} {{ c }} {{ d }} {{ e }}",
            r#"{"a": 1.0, "b": 12345678901234567890, "c": 0.1, "d": -5, "e": 0.12345678901234567890}"#,
            Ok("1.0 12345678901234567890 0.1 -5 0.12345678901234567890"),
        );
        check("{{ a > 30 }} {{ a * 2 }} {{ a | tojson }}", r#"{"a": 1.50}"#, Ok("false 3.0 1.5"));
        check("{{ a | redact }}", r#"{"a": "no /srv/data/x at 10.0.0.7"}"#, Ok("no [path] at [address]"));
        check("{{ a + 1 }}", r#"{"a": 1.5}"#, Ok("2.5"));
    }

    #[test]
    fn structures_are_written_as_json() {
        check(
            "{{ a }} {{ b }} {{ c }}",
            r#"{"a": {"z": [1.0, "x"]}, "b": true, "c": null}"#,
            Ok(r#"{"z":[1.0,"x"]} true null"#),
        );
    }

    #[test]
    fn an_undefined_name_is_an_error_not_an_empty_text() {
        check("{{ nope }}", "{}", Err("undefined"));
        check("{{ nope | default('x') }}", "{}", Ok("x"));
        check("{% if nope %}a{% else %}b{% endif %}", "{}", Ok("b"));
    }

    #[test]
    fn a_template_that_does_too_much_is_stopped() {
        check(
            "{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}",
            "{}",
            Err("fuel"),
        );
    }

    #[test]
    fn what_a_template_looks_up_again_and_again_has_an_end() {
        let text = "ab".repeat(500_000);
        let rows: Vec<Value> = (0..20_000).map(Value::from).collect();
        let names = Value::from_pairs([("text", Value::from(text)), ("rows", Value::from(rows))]);
        for source in [
            "{% for c in text %}{% set x = text ~ c %}{% endfor %}",
            "{% for c in text %}{{ 'x' if 'c' in text }}{% endfor %}",
            "{% for c in rows %}{{ (text * 2)[:1] }}{% endfor %}",
            "{% for c in rows %}{{ text | upper | first }}{% endfor %}",
            "{% for c in rows %}{{ 'x' if -1 in rows }}{% endfor %}",
        ] {
            let error = Template::compile(source).unwrap().render(&names).unwrap_err();
            assert!(error.message.starts_with("looks up more than 33554432 bytes"), "{source}: {error}");
        }
        let once = "{% for row in rows %}{{ row }}{% endfor %}{{ text | length }}";
        assert!(Template::compile(once).unwrap().render(&names).unwrap().ends_with("1000000"));
    }

    #[test]
    fn a_template_ends_when_nobody_waits_for_it() {
        let template = Template::compile("{{ 1 if text else 2 }}").unwrap();
        let stop = Stop::default();
        let budget = Budget::of_result().until(Some(&stop));
        let names = Value::from_pairs([("text", "a")]);
        assert_eq!(template.render_within(&names, &budget).unwrap(), "1");
        stop.now();
        assert_eq!(template.render_within(&names, &budget).unwrap_err().message, STOPPED);
    }

    #[test]
    fn json_of_values_that_share_others_has_an_end() {
        let doubled = "{% set a = ['x' * 1000000] %}".to_owned() + &"{% set a = [a, a] %}".repeat(30);
        for write in ["{{ a | tojson }}", "{{ a }}", "{{ a | markdown_table }}"] {
            check(&format!("{doubled}{write}"), "{}", Err("its filters make more than 67108864 bytes"));
        }
    }

    #[test]
    fn templates_have_a_budget_together() {
        let busy = Template::compile("{% for i in range(9999) %}{{ i }}{% endfor %}").unwrap();
        let (names, budget) = (Value::from(()), Budget::of_result());
        let error = (0..1000).find_map(|_| busy.render_within(&names, &budget).err()).unwrap();
        assert!(error.message.contains("more work together"), "{error}");
        assert!(busy.render(&names).is_ok());
    }

    #[test]
    fn a_template_that_nests_without_end_is_refused() {
        let wide = |open: &str| format!("{{{{ {}1 }}}}", open.repeat(100_000));
        for source in
            [wide("not "), wide("1+"), wide("-"), "{% if 1 %}".to_owned() + &"{% elif 1 %}".repeat(100_000)]
        {
            check(&source, "{}", Err("more than 400 operators"));
        }
        check(&"{{ a.b.c | default(1) + 1 }}".repeat(200), r#"{"a": {"b": {}}}"#, Ok(&"2".repeat(200)));
    }

    #[test]
    fn what_is_sliced_is_asked_for_too() {
        let template = Template::compile("{{ text[2:6] }} {{ args.q[:5] }} {{ other['a:b'] }}").unwrap();
        assert_eq!(template.names(), ["args", "other", "text"]);
        assert!(template.paths().contains(&"args.q".to_owned()));
        let headers = Template::compile("{{ headers['x-id'][:4] }} {{ json.rows[0][1][2:] }}").unwrap();
        assert_eq!(headers.names(), ["headers", "json"]);
        check("{{ text[2:6] }}", r#"{"text": "abcdefgh"}"#, Ok("cdef"));
    }

    #[test]
    fn a_template_tells_its_names() {
        let template = Template::compile("{{ args.city }}{% for x in structured.items %}{{ x }}{% endfor %}");
        assert_eq!(template.unwrap().names(), ["args", "structured"]);
    }
}
