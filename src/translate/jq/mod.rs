//! jq filters, compiled once and executed within limits.
//!
//! In reading order:
//!
//! - [`Jq`] compiles a filter and runs it.
//! - `bounds` has the limits of one run, and `rewrite` inserts their counters into the filter.
//! - `functions` has the native functions, which count steps, and selects the standard library definitions
//!   that a filter needs.

mod bounds;
mod functions;
mod rewrite;
#[cfg(test)]
mod tests;

use std::{cell::Cell, io::Write, sync::Arc};

use bounds::{Bounded, RunBudget};
pub use bounds::{JQ_FOLD_STEPS, JQ_MEMORY_LIMIT_BYTES, JQ_ROUND_STEPS, JQ_WORK_LIMIT};
pub(super) use functions::is_pure;
use jaq_core::{
    Compiler, Ctx, Vars,
    load::{self, Arena, File, Loader, lex, parse::Def},
    unwrap_valr,
};
use jaq_json::{Error, Num, Val};
use serde_json::Value;

use super::fields::distinct;
use super::translator::TranslationLimits;
use super::work_budget::WorkBudget;
use crate::model::{JSON_DEPTH_LIMIT, LimitedWriter, NumberOutOfBounds, ProgramExit, check_number};

/// Compiled jq filter. Clones share the compiled form.
///
/// The input of the filter is `.`. The filter has the variables `$args`, `$status`, `$exit_status`,
/// `$stderr`, `$headers`, `$input_responses`, and the captures of the rule's patterns by name. Impure
/// functions are removed, both those that read (`env`, `input`, `now`) and those that act (`halt`, `debug`,
/// `stderr`), so the same response always gives the same result.
#[derive(derive_more::Debug, Clone)]
#[debug("Jq({:?})", _0.source)]
pub struct Jq(Arc<Compiled>);

struct Compiled {
    filter: jaq_core::Filter<bounds::EngineTypes>,
    source: Box<str>,
    /// For each of [`VARIABLES`], whether the filter uses it. Unused variables are not computed.
    used_variables: [bool; VARIABLES.len()],
    /// Captures that the filter may use, in the order of the variables that it was compiled with.
    captures: Box<[String]>,
    /// Assignment operator, such as `=`, if the filter returns the result of an assignment.
    assignment: Option<String>,
}

/// Reason why a filter does not compile, or returned no valid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JqError {
    /// The problem, in one sentence that quotes nothing of the value.
    pub message: String,
    /// Error message of the engine, which may quote the whole value; for the log only.
    pub detail: Option<Box<str>>,
    /// Whether `detail` is truncated.
    pub(super) is_detail_cut: bool,
    /// Value that the filter raised with `error(…)`, meant for the client.
    pub raised: Option<Value>,
}

impl From<NumberOutOfBounds> for JqError {
    fn from(error: NumberOutOfBounds) -> Self {
        Self::new(format!("can't read its input: {error}"))
    }
}

impl JqError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), detail: None, is_detail_cut: false, raised: None }
    }
}

/// Variables of a filter, besides the input `.`, and limits of the run.
#[derive(Debug, Clone, Copy)]
pub struct JqVariables<'a> {
    /// Arguments of the call, an object.
    pub args: &'a Value,
    /// Input responses, an object or null.
    pub input_responses: &'a Value,
    /// HTTP status of the response.
    pub status: u16,
    /// Exit status and standard error of the program that wrote the response.
    pub exit: Option<&'a ProgramExit>,
    /// Headers of the response, an object with lower-case names.
    pub headers: &'a Value,
    /// Names and texts of the captures of the rule's patterns; for a repeated name, the last capture applies.
    pub captures: &'a [(String, String)],
    /// Maximum number of values in the result, counted at every depth.
    pub max_values: usize,
    /// Work budget; cancelled when no client waits for the result.
    pub work_budget: Option<&'a WorkBudget>,
}

/// Maximum number of operators of a filter; keywords such as `if` count twice. Parser and evaluator recurse
/// once per operator, and the stack is limited.
const OPERATOR_LIMIT: usize = 400;

/// Maximum number of unknown names in an error message.
const UNKNOWN_NAMES_LIMIT: usize = 10;
/// Maximum number of steps of a condition that is evaluated before a request is sent; a step takes about 0.1
/// µs.
const PRE_REQUEST_STEP_LIMIT: u64 = 100_000;
/// Stack size of compiler threads, in bytes, the same as for the threads that run filters. Unused stack takes
/// only address space.
const COMPILER_STACK_BYTES: usize = 128 << 20;
/// Name of the definition that contains the configured filter. If the filter contains it, `_` is appended.
const MAIN: &str = "configured_filter";
/// Variables of every filter.
pub(super) const VARIABLES: [&str; 6] =
    ["$args", "$status", "$exit_status", "$stderr", "$headers", "$input_responses"];

thread_local! {
    static IS_DEEP: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which compiles filters, on a thread with a deep stack: the parser needs some kilobytes of
/// stack per operator. `None` if the work panicked, or the system can't create the thread.
///
/// Starts a new thread, unless the current one already has a deep stack. Compile many filters in one call:
/// each thread has its own heap, and long-lived allocations in it retain some hundred kilobytes.
pub fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if IS_DEEP.get() {
        return Some(work());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(COMPILER_STACK_BYTES);
        let spawned = thread.spawn_scoped(scope, || {
            IS_DEEP.set(true);
            work()
        });
        spawned.ok().and_then(|thread| thread.join().ok())
    })
}

impl Jq {
    /// Compiles a filter with `captures` as variables. In a run without a value for a capture, the capture is
    /// null.
    ///
    /// # Errors
    ///
    /// [`JqError`] on a syntax error, or an unknown function or variable.
    pub fn compile(source: &str, captures: &[String]) -> Result<Self, JqError> {
        check_depth(source)?;
        let compiled = with_deep_stack(|| Self::compile_here(source, captures));
        compiled.unwrap_or_else(|| Err(JqError::new("the filter can't be compiled")))
    }

    fn compile_here(source: &str, captures: &[String]) -> Result<Self, JqError> {
        // Parse the unchanged source first, so that error messages are about the configured text.
        Loader::new([])
            .load(&Arena::default(), File { code: source, path: () })
            .map_err(|errors| JqError::new(load_message(source, errors)))?;
        let parsed = load::parse(source, |parser| parser.term());
        let mut body = parsed.ok_or_else(|| JqError::new("a filter can't import modules"))?;
        let assignment = rewrite::assignment(&body);
        rewrite::rewrite(&mut body)?;
        let (mut definitions, functions) = functions::used_by(&mut body);
        // If the filter contained the name of its own definition, it could call itself.
        let mut main = MAIN.to_owned();
        while source.contains(&main) {
            main.push('_');
        }
        definitions.push(Def { name: &main, args: Vec::new(), body });
        let arena = Arena::default();
        let modules = Loader::new(definitions)
            .load(&arena, File { code: &main, path: () })
            .map_err(|errors| JqError::new(load_message(&main, errors)))?;
        let capture_variables: Vec<String> = captures.iter().map(|name| format!("${name}")).collect();
        let variables = VARIABLES.into_iter().chain(capture_variables.iter().map(String::as_str));
        let compiler = Compiler::default().with_funs(functions).with_global_vars(variables);
        let filter = compiler.compile(modules).map_err(|errors| {
            let unknown = errors.into_iter().flat_map(|(_, errors)| errors);
            let unknown = unknown.map(|(name, kind)| format!("no {} `{name}`", kind.as_str()));
            // A filter may use an unknown name several times.
            let unknown = distinct(unknown, UNKNOWN_NAMES_LIMIT);
            JqError::new(format!("there is {}", unknown.join(", ")))
        })?;
        let used_variables = VARIABLES.map(|name| source.contains(name));
        let (source, captures) = (source.into(), captures.into());
        Ok(Self(Arc::new(Compiled { filter, source, used_variables, captures, assignment })))
    }

    /// The filter as configured.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Assignment operator, such as `=` in `.ok = false`, if the filter returns the result of an assignment.
    /// As a condition, such a filter is always true.
    pub(in crate::translate) fn assignment(&self) -> Option<&str> {
        self.0.assignment.as_deref()
    }

    /// Applies the filter, which must return exactly one value.
    ///
    /// # Errors
    ///
    /// [`JqError`] if the filter fails, returns no value or several, or returns a value that JSON does not
    /// have (keys that are not strings, infinities).
    pub fn apply(&self, value: &Value, variables: JqVariables<'_>) -> Result<Value, JqError> {
        self.apply_to(to_jq(value)?, variables, &RunBudget::new(variables.work_budget))
    }

    /// Applies the filter to an owned value, without a copy of the value.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub(super) fn apply_owned(&self, value: Value, variables: JqVariables<'_>) -> Result<Value, JqError> {
        self.apply_to(into_jq(value)?, variables, &RunBudget::new(variables.work_budget))
    }

    fn apply_to(&self, value: Val, variables: JqVariables<'_>, budget: &RunBudget) -> Result<Value, JqError> {
        let mut results = self.run(value, variables, budget)?;
        let first = results.next();
        let second = matches!(first, Some(Ok(_))).then(|| results.next()).flatten();
        // The filter may have caught the error that ended the run, and continued.
        if let Some(message) = budget.exhausted.get() {
            return Err(JqError::new(message));
        }
        let first = first.ok_or_else(|| JqError::new("returned no value"))?;
        let first = first.map_err(|error| {
            let (detail, is_detail_cut) = brief_message(&error);
            let raised = budget.raised.take().filter(|raised| Error::new(raised.clone()) == error);
            let raised = raised.and_then(|raised| from_jq(&raised, 0, &mut { variables.max_values }).ok());
            let message = if raised.is_some() { "raised an error" } else { "failed on this input" };
            JqError { detail: Some(detail), is_detail_cut, raised, ..JqError::new(message) }
        })?;
        if second.is_some() {
            return Err(JqError::new("returned more than one value; wrap it in `[…]` for an array"));
        }
        from_jq(&first, 0, &mut { variables.max_values })
    }

    /// Whether the first value of the filter is neither `false` nor `null`. A filter that fails, or returns
    /// no value, counts as false.
    pub fn is_true(&self, value: &Value, variables: JqVariables<'_>) -> bool {
        self.condition(value, variables).unwrap_or(false)
    }

    /// Evaluates the condition before there is a response; `.` and `$args` are the arguments. A filter that
    /// fails counts as true, so that the input request that depends on it is sent.
    pub fn is_true_before_request(&self, args: &Value, input_responses: &Value) -> bool {
        // Such conditions run on threads that also serve other calls, so their work is limited.
        let work_budget = &WorkBudget::with_steps(PRE_REQUEST_STEP_LIMIT);
        let (headers, max_values, work_budget) =
            (&Value::Null, TranslationLimits::default().values, Some(work_budget));
        let variables = JqVariables {
            args,
            input_responses,
            status: 0,
            exit: None,
            headers,
            captures: &[],
            max_values,
            work_budget,
        };
        self.condition(args, variables).unwrap_or(true)
    }

    /// Whether the first value is neither `false` nor `null`; `None` if the filter fails. No value counts as
    /// false.
    fn condition(&self, value: &Value, variables: JqVariables<'_>) -> Option<bool> {
        let budget = RunBudget::new(variables.work_budget);
        let first = self.run(to_jq(value).ok()?, variables, &budget).ok()?.next().transpose().ok()?;
        let is_true = !matches!(first, None | Some(Val::Null | Val::Bool(false)));
        budget.exhausted.get().is_none().then_some(is_true)
    }

    fn run<'a>(
        &'a self,
        value: Val,
        variables: JqVariables<'_>,
        budget: &'a RunBudget,
    ) -> Result<impl Iterator<Item = Result<Val, Error>> + 'a, JqError> {
        let capture = |name: &String| {
            let found = variables.captures.iter().rev().find(|(other, _)| other == name);
            found.map_or(Val::Null, |(_, text)| Val::utf8_str(text.clone()))
        };
        let [uses_args, _, uses_exit, uses_stderr, uses_headers, uses_input_responses] =
            self.0.used_variables;
        let convert = |is_used: bool, value: &Value| if is_used { to_jq(value) } else { Ok(Val::Null) };
        let exit_status = variables.exit.map_or(Value::Null, |exit| exit.end.to_json());
        let stderr =
            variables.exit.filter(|_| uses_stderr).map(|exit| Val::utf8_str(exit.stderr_text().into_owned()));
        let variable_values = [
            convert(uses_args, variables.args)?,
            Val::from(variables.status as isize),
            convert(uses_exit, &exit_status)?,
            stderr.unwrap_or(Val::Null),
            convert(uses_headers, variables.headers)?,
            convert(uses_input_responses, variables.input_responses)?,
        ];
        let variable_values = variable_values.into_iter().chain(self.0.captures.iter().map(capture));
        let data = Bounded { table: &self.0.filter.lut, budget };
        let context = Ctx::<bounds::EngineTypes>::new(data, Vars::new(variable_values));
        Ok(self.0.filter.id.run((context, value)).map(unwrap_valr))
    }
}

/// Two filters are equal if their sources are equal.
impl PartialEq for Jq {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

fn check_depth(source: &str) -> Result<(), JqError> {
    const WORDS: [&str; 9] = ["if", "elif", "as", "def", "reduce", "foreach", "try", "and", "or"];
    let words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| WORDS.contains(word)).count();
    let signs = source.bytes().filter(|byte| b"([{|,+-*/%<>=?".contains(byte)).count();
    if 2 * words + signs > OPERATOR_LIMIT {
        return Err(JqError::new(format!("the filter has more than {OPERATOR_LIMIT} operators")));
    }
    Ok(())
}

fn load_message(source: &str, errors: load::Errors<&str, ()>) -> String {
    let unexpected = |expected: &str, rest: &str| {
        let offset = rest.as_ptr() as usize - source.as_ptr() as usize;
        let found = rest.split_whitespace().next().map_or_else(
            || "the end of the filter".to_owned(),
            |found| format!("`{found}` at character {}", source[..offset].chars().count() + 1),
        );
        format!("expected {expected}, found {found}")
    };
    let message = errors.into_iter().next().and_then(|(_, error)| match error {
        load::Error::Io(_) => Some("a filter can't import modules".to_owned()),
        load::Error::Lex(errors) => errors.into_iter().next().map(|(expected, rest)| match expected {
            lex::Expect::Delim(delimiter) => format!("an opening `{delimiter}` is never closed"),
            expected => unexpected(expected.as_str(), rest),
        }),
        load::Error::Parse(errors) => {
            errors.into_iter().next().map(|(expected, rest)| unexpected(expected.as_str(), rest))
        }
    });
    message.unwrap_or_else(|| "the filter can't be read".to_owned())
}

/// Maximum length of an error message of the engine, in bytes. The message may contain whole values.
const DETAIL_BYTES: usize = 300;

/// Error message of the engine, and whether it is truncated.
fn brief_message(error: &Error) -> (Box<str>, bool) {
    let mut writer = LimitedWriter::new(DETAIL_BYTES);
    // An error only means that the message is longer.
    let _ = write!(writer, "{error}");
    let text = String::from_utf8_lossy(&writer.written);
    (text.trim_end_matches(char::REPLACEMENT_CHARACTER).into(), writer.is_over)
}

/// Converts a JSON value to the engine's type.
///
/// # Errors
///
/// [`NumberOutOfBounds`] if a number in the value is out of bounds.
fn to_jq(value: &Value) -> Result<Val, NumberOutOfBounds> {
    Ok(match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        // Keep the text of a decimal, so that `1.0` is written as `1.0`.
        Value::Number(number) => {
            let text = number.as_str();
            check_number(text)?;
            let integer = Num::from_str_radix(text, 10);
            Val::Num(integer.unwrap_or_else(|| Num::Dec(text.to_owned().into())))
        }
        Value::String(text) => Val::utf8_str(text.clone()),
        Value::Array(items) => Val::Arr(items.iter().map(to_jq).collect::<Result<Vec<_>, _>>()?.into()),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| Ok((Val::utf8_str(key.clone()), to_jq(value)?));
            Val::obj(members.iter().map(member).collect::<Result<_, NumberOutOfBounds>>()?)
        }
    })
}

/// Converts an owned value to the engine's type, without a copy of its strings.
fn into_jq(value: Value) -> Result<Val, NumberOutOfBounds> {
    Ok(match value {
        Value::String(text) => Val::utf8_str(text),
        Value::Array(items) => {
            Val::Arr(items.into_iter().map(into_jq).collect::<Result<Vec<_>, _>>()?.into())
        }
        Value::Object(members) => {
            let member = |(key, value)| Ok((Val::utf8_str(key), into_jq(value)?));
            Val::obj(members.into_iter().map(member).collect::<Result<_, NumberOutOfBounds>>()?)
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => to_jq(&scalar)?,
    })
}

/// Converts the result of a filter to JSON, and counts its values. The engine shares equal parts, but each
/// occurrence counts, because a small value may become large JSON.
fn from_jq(value: &Val, depth: usize, values_left: &mut usize) -> Result<Value, JqError> {
    let limit_error = || JqError::new("returned more values than `max_values` allows");
    *values_left = values_left.checked_sub(1).ok_or_else(limit_error)?;
    if depth > JSON_DEPTH_LIMIT {
        return Err(JqError::new("returned a value that is nested too deeply"));
    }
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(flag) => Value::Bool(*flag),
        Val::Num(number) => {
            let text = number.to_string();
            let number = serde_json::from_str(&text);
            Value::Number(number.map_err(|_| JqError::new(format!("returned `{text}`, which is not JSON")))?)
        }
        Val::BStr(bytes) | Val::TStr(bytes) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        Val::Arr(items) => Value::Array(
            items.iter().map(|item| from_jq(item, depth + 1, values_left)).collect::<Result<_, _>>()?,
        ),
        Val::Obj(members) => {
            let member = |(key, value): (&Val, &Val)| match key {
                Val::TStr(key) => {
                    Ok((String::from_utf8_lossy(key).into_owned(), from_jq(value, depth + 1, values_left)?))
                }
                _ => Err(JqError::new("returned an object with a key that is not a string")),
            };
            Value::Object(members.iter().map(member).collect::<Result<_, _>>()?)
        }
    })
}
