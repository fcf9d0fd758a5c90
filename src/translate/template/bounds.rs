//! Limits of a template: steps, looked-up values, output, and depth of expressions.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use base64::{Engine, prelude::BASE64_STANDARD};
use minijinja::{
    Environment, Error, ErrorKind, State, Value, filters,
    value::{Kwargs, Object, Rest, StringInput, ValueOrKwargs, from_args},
};

use super::TemplateError;
use crate::translate::work_budget::{STOPPED, WorkBudget};

/// Maximum work of one rendering, in instructions of the engine (its "fuel").
pub(super) const FUEL: u64 = 2_000_000;

/// Maximum work of one rendering on a thread that also serves other calls. A rendering that takes more work
/// is repeated with [`FUEL`] on another thread.
pub(super) const SHORT_FUEL: u64 = 10_000;

/// Number of bytes that are looked up or written in about the time of one step.
pub(super) const STEP_BYTES: u64 = 64;

/// Work budget of all templates of one result or request together: a block for each of 1000 rows is 1000
/// renderings.
#[derive(Debug)]
pub(crate) struct TemplateBudget {
    remaining_steps: Cell<u64>,
    work_budget: Option<WorkBudget>,
}

impl TemplateBudget {
    /// Creates the budget of one result or request, which is equal to the limit of a single template. `stop`
    /// is the work budget of the call, which is cancelled when no client waits for the result.
    pub(crate) fn new(work_budget: Option<&WorkBudget>) -> Self {
        Self { remaining_steps: Cell::new(FUEL), work_budget: work_budget.cloned() }
    }

    /// Fails if the budget is used up.
    pub(super) fn check(&self) -> Result<(), TemplateError> {
        match self.remaining_steps.get() {
            0 => Err(TemplateError::without_line(
                "the templates together exceed the work limit of one template".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Charges the steps of a rendering.
    pub(super) fn spend(&self, steps: u64) {
        self.remaining_steps.set(self.remaining_steps.get().saturating_sub(steps));
        if let Some(work_budget) = &self.work_budget {
            work_budget.spend(steps);
        }
    }

    /// Whether steps are limited because the thread also serves other calls.
    pub(super) fn has_short_limit(&self) -> bool {
        self.work_budget.as_ref().is_some_and(|work_budget| work_budget.steps_left().is_some())
    }
}

/// Maximum length of the strings and lists that one rendering looks up, in bytes. Each lookup counts, even of
/// the same name. The engine counts only its own steps, and a single step of a loop may read a whole text.
const LOOKED_UP_LIMIT_BYTES: u64 = if cfg!(test) { 32 << 20 } else { 8 << 30 };

/// Size of an item of a list, in bytes.
pub(super) const ITEM_BYTES: u64 = 16;

/// Variables of a template, and the bytes that it may still look up and write. After cancellation, all
/// variables are undefined, so that the rendering ends soon.
#[derive(Debug)]
pub(super) struct RenderContext {
    variables: Value,
    lookup_left_bytes: AtomicU64,
    output_left_bytes: AtomicUsize,
    work_budget: Option<WorkBudget>,
}

/// Name of the variable through which filters find the [`RenderContext`]. No template can use the name,
/// because it begins with a space.
const CONTEXT_NAME: &str = " render context";

impl RenderContext {
    pub(super) fn new(variables: &Value, budget: &TemplateBudget) -> Self {
        Self {
            variables: variables.clone(),
            lookup_left_bytes: AtomicU64::new(LOOKED_UP_LIMIT_BYTES),
            output_left_bytes: AtomicUsize::new(OUTPUT_LIMIT_BYTES),
            work_budget: budget.work_budget.clone(),
        }
    }

    /// Returns the context of the rendering that calls a filter.
    pub(super) fn from_state(state: &State<'_, '_>) -> Option<Arc<Self>> {
        state.lookup(CONTEXT_NAME).and_then(|value| value.downcast_object::<Self>())
    }

    /// Charges a value that is looked up. `bytes` is its length.
    pub(super) fn charge_lookup(&self, bytes: u64) -> Result<(), Error> {
        let remaining = self.lookup_left_bytes.load(Ordering::Relaxed).saturating_sub(bytes);
        self.lookup_left_bytes.store(remaining, Ordering::Relaxed);
        match remaining > 0 && !self.is_stopped_after(bytes) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidOperation, "reads too much")),
        }
    }

    /// Charges the work budget of the call for reading or writing bytes. Returns whether the call is
    /// cancelled.
    fn is_stopped_after(&self, bytes: u64) -> bool {
        self.work_budget.as_ref().is_some_and(|work_budget| !work_budget.spend(bytes / STEP_BYTES))
    }

    /// Fails if a lookup was rejected.
    pub(super) fn check(&self) -> Result<(), TemplateError> {
        let message = if self.is_stopped_after(0) {
            STOPPED.to_owned()
        } else if self.lookup_left_bytes.load(Ordering::Relaxed) == 0 {
            format!("reads more than {LOOKED_UP_LIMIT_BYTES} bytes of strings and lists")
        } else {
            return Ok(());
        };
        Err(TemplateError::without_line(message))
    }
}

impl Object for RenderContext {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if key.as_str() == Some(CONTEXT_NAME) {
            return Some(Value::from_dyn_object(Arc::clone(self)));
        }
        let value = self.variables.get_item(key).ok().filter(|value| !value.is_undefined())?;
        (!self.is_stopped_after(0)).then_some(value)
    }
}

/// Maximum length of a rendered text, in bytes. A loop over a large response could write a multiple of it.
pub(super) const TEXT_LIMIT_BYTES: usize = 16 << 20;

/// Maximum number of operators of one expression, and of `elif` in a template: the parser recurses once per
/// operator, and the stack is limited.
const OPERATOR_LIMIT: usize = 400;

/// Rejects templates for which the engine's parser would recurse too deep.
pub(super) fn check_depth(source: &str) -> Result<(), TemplateError> {
    let parts = source.split("{{").flat_map(|part| part.split("{%"));
    let operator_counts = parts.map(|part| {
        let expression = part.split("}}").next().unwrap_or(part);
        let expression = expression.split("%}").next().unwrap_or(expression);
        let signs = expression.bytes().filter(|byte| b"([{|.,~+-*/%<>=!".contains(byte)).count();
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        signs + words.filter(|word| ["and", "or", "not", "if", "else", "is", "in"].contains(word)).count()
    });
    if operator_counts.max().unwrap_or(0).max(source.matches("elif").count()) > OPERATOR_LIMIT {
        let message = format!("more than {OPERATOR_LIMIT} operators in one expression");
        return Err(TemplateError::without_line(message));
    }
    Ok(())
}

/// Maximum number of bytes that all filters and operators of one rendering write together. For a filter that
/// copies its input, such as `replace`, only the added bytes count.
pub(super) const OUTPUT_LIMIT_BYTES: usize = 64 << 20;

/// Replaces those filters of the engine that write long output from short input by bounded ones.
///
/// `text | replace('a', text)` squares the length of a response, and `rows | join(text)` multiplies it. The
/// engine counts its steps, not the output of a step.
pub(super) fn add_filters(environment: &mut Environment<'static>) {
    type CostFunction = fn(&[Value]) -> Result<usize, Error>;
    /// Memory of each additional item of a list, in bytes.
    const ADDED_ITEM_BYTES: usize = size_of::<Value>();
    let mut bounded = |name: &'static str, filter: Value, cost: CostFunction| {
        environment.add_filter(name, move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
            let arguments = arguments.into_values();
            charge_output(state, cost(&arguments)?)?;
            filter.call(state, &arguments)
        });
    };
    bounded("batch", Value::from_function(filters::batch), |arguments| {
        let (_, count, fill_with): (&Value, usize, Option<&Value>) = from_args(arguments)?;
        Ok(fill_with.map_or(0, |_| count.saturating_mul(ADDED_ITEM_BYTES)))
    });
    bounded("slice", Value::from_function(filters::slice), |arguments| {
        let (_, count, _): (&Value, usize, Option<&Value>) = from_args(arguments)?;
        Ok(count.saturating_mul(2 * ADDED_ITEM_BYTES))
    });
    bounded("indent", Value::from_function(filters::indent), |arguments| {
        let (text, width, _, _, options) =
            from_args::<(StringInput<'_>, Option<usize>, Option<&Value>, Option<&Value>, Kwargs)>(arguments)?;
        let lines = text.as_str().matches('\n').count() + 1;
        Ok(lines.saturating_mul(width.or(options.get("width")?).unwrap_or(0)))
    });
    bounded("join", Value::from_function(filters::join), |arguments| {
        let (value, joiner, _, options): (&Value, Option<StringInput<'_>>, Option<&Value>, Kwargs) =
            from_args(arguments)?;
        let joiner = joiner.or(options.get("d")?);
        let length = joiner.map_or(0, |joiner| joiner.as_str().len());
        Ok(length.saturating_mul(value.len().unwrap_or(0)))
    });
    bounded("replace", Value::from_function(filters::replace), |arguments| {
        let (text, from, to): (StringInput<'_>, StringInput<'_>, StringInput<'_>) = from_args(arguments)?;
        Ok(text.as_str().matches(from.as_str()).count().saturating_mul(to.as_str().len()))
    });
    bounded("b64encode", Value::from_function(base64), |arguments| {
        let (text,): (StringInput<'_>,) = from_args(arguments)?;
        Ok(text.as_str().len().saturating_mul(2))
    });
    // `sum` of strings would copy all previous strings at each step. `join` concatenates without copies.
    bounded("sum", Value::from_function(filters::sum), |arguments| {
        let (_, _, start, options): (&Value, Option<&Value>, Option<Value>, Kwargs) = from_args(arguments)?;
        match start.or(options.get("start")?).is_some_and(|start| start.as_str().is_some()) {
            true => Err(Error::new(
                ErrorKind::InvalidOperation,
                "`sum` adds up numbers; `join` puts texts together",
            )),
            false => Ok(0),
        }
    });
    bounded("format", Value::from_function(filters::format), |arguments| {
        let (pattern, values): (&Value, Rest<ValueOrKwargs>) = from_args(arguments)?;
        let text = pattern.as_str().unwrap_or_default();
        // A width is a number in the pattern, or for `*` one of the values.
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let pattern_widths = numbers.map(|digits| digits.parse().unwrap_or(usize::MAX));
        let stars = text.matches('*').count();
        let argument_widths = values.iter().filter_map(|value| value.as_usize());
        let argument_widths = argument_widths.map(|width| width.saturating_mul(stars));
        // The pattern may write one value several times.
        let longest = values.iter().filter_map(|value| value.as_str()).map(str::len).max().unwrap_or(0);
        let text_bytes = longest.saturating_mul(text.matches('%').count());
        Ok(pattern_widths.chain(argument_widths).chain([text_bytes]).fold(0, usize::saturating_add))
    });
}

/// Encodes a string in Base64, like the filter `b64encode` of Ansible.
fn base64(text: StringInput<'_>) -> String {
    BASE64_STANDARD.encode(text.as_str())
}

/// Charges the output of a filter or an operator before it is written.
pub(super) fn charge_output(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    // Every template is rendered with a context.
    let context = RenderContext::from_state(state).ok_or_else(output_too_large)?;
    let remaining = context.output_left_bytes.load(Ordering::Relaxed).checked_sub(bytes);
    context.output_left_bytes.store(remaining.unwrap_or(0), Ordering::Relaxed);
    let is_allowed = remaining.is_some() && !context.is_stopped_after(bytes as u64);
    if is_allowed { Ok(()) } else { Err(output_too_large()) }
}

/// Error of a rendering that exceeds [`OUTPUT_LIMIT_BYTES`].
pub(super) fn output_too_large() -> Error {
    let message = format!("builds more than {OUTPUT_LIMIT_BYTES} bytes of strings and lists");
    Error::new(ErrorKind::InvalidOperation, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::Template;

    #[track_caller]
    fn check(source: &str, expected: Result<&str, &str>) {
        let text = "ab\n".repeat(6000);
        let rows: Vec<Value> = text.lines().map(Value::from).collect();
        let variables = Value::from_pairs([
            ("text", Value::from(text)),
            ("rows", Value::from(rows)),
            ("huge", Value::from(usize::MAX / 4)),
        ]);
        match (Template::compile(source).and_then(|template| template.render(&variables)), expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{source}"),
            (Err(error), Err(part)) => assert!(error.message.contains(part), "{source}: {error}"),
            (found, _) => panic!("{source}: found {found:?}"),
        }
    }

    #[test]
    fn filters_work_as_they_do_elsewhere() {
        check(
            "{{ 'a-b' | replace('-', '+') }} {{ rows[:2] | join(', ') }} {{ rows[:2] | join(d='/') }}",
            Ok("a+b ab, ab ab/ab"),
        );
        check("{{ 'a\nb' | indent(1) }} {{ 'a\nb' | indent(width=1, first=true) }}", Ok("a\n b  a\n b"));
        check("{{ [1, 2, 3] | batch(2, 0) }} {{ [1, 2, 3] | slice(2) }}", Ok("[[1,2],[3,0]] [[1,2],[3]]"));
        check("{{ [{'a': 1}, {'a': 2}] | sum(attribute='a') }} {{ [1, 2] | sum(start=3) }}", Ok("3 6"));
        check("{{ rows | sum(start='') }}", Err("`join` puts texts together"));
        check("{{ rows | sum }}", Err("can only sum numbers"));
        check("{{ 'key\u{e6}' | b64encode }} {{ 7 | b64encode }} {{ '' | b64encode }}", Ok("a2V5w6Y= Nw== "));
        check("{{ none_such | b64encode }}", Err("`none_such` is undefined"));
        check("{{ '%s: %03d' | format('a', 7) }}", Ok("a: 007"));
        check("{{ [{'a': 'x'}, {'a': 'y'}] | join(', ', attribute='a') }}", Ok("x, y"));
    }

    #[test]
    fn the_output_of_filters_is_limited() {
        const MUCH: &str = "builds more than 67108864 bytes of strings and lists";
        for source in [
            "{{ text | replace('a', text) | length }}",
            "{{ text | replace('', text) | length }}",
            "{{ rows | join(text) | length }}",
            "{{ rows | join(d=text) | length }}",
            "{{ rows | map('replace', 'a', text) | list | length }}",
            "{{ text | indent(huge) | length }}",
            "{{ text | indent(width=huge) | length }}",
            "{{ rows | batch(huge, 1) | length }}",
            "{{ rows | slice(huge) | length }}",
            "{{ '%*d' | format(huge, 1) | length }}",
            "{{ '%9999999999d' | format(1) | length }}",
            "{% for row in rows %}{{ (text | replace('b', 'bbbbbbbb'))[:1] }}{% endfor %}",
        ] {
            check(source, Err(MUCH));
        }
        check("{{ (text * 3700) | length }}", Ok("66600000"));
        check("{{ (text * huge) | length }}", Err(MUCH));
    }
}
