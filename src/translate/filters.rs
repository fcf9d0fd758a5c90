//! The filters of templates that make much of little, with an end to it.
//!
//! `text | replace('a', text)` squares the length of a reply, and `rows | join(text)` multiplies it; the engine counts
//! its own steps, not what one of them makes.

use minijinja::{
    Environment, Error, ErrorKind, State, Value, filters,
    value::{Kwargs, Rest, StringInput, ValueOrKwargs},
};

use super::template::LookedUp;

/// How much filters and operators of one rendering may make together, in bytes, beside what they are given.
pub(super) const MADE_LIMIT_BYTES: usize = 64 << 20;

/// Puts the bounded filters in the place of the engine's own.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("batch", batch);
    environment.add_filter("format", format);
    environment.add_filter("indent", indent);
    environment.add_filter("join", join);
    environment.add_filter("replace", replace);
    environment.add_filter("slice", slice);
    environment.add_filter("sum", sum);
}

/// Counts what is about to be made.
pub(super) fn make(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    // Templates are rendered with names that count; nothing else is.
    let names = LookedUp::of_state(state).ok_or_else(made_too_much)?;
    if names.allows_to_make(bytes) { Ok(()) } else { Err(made_too_much()) }
}

/// What is said of a rendering that makes more than it may.
pub(super) fn made_too_much() -> Error {
    let message = format!("makes more than {MADE_LIMIT_BYTES} bytes of texts and lists");
    Error::new(ErrorKind::InvalidOperation, message)
}

fn replace(
    state: &mut State<'_, '_>,
    value: StringInput<'_>,
    from: StringInput<'_>,
    to: StringInput<'_>,
) -> Result<Value, Error> {
    let found = value.as_str().matches(from.as_str()).count();
    make(state, found.saturating_mul(to.as_str().len()))?;
    filters::replace(state, value, from, to)
}

fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    let named = match joiner {
        Some(_) => None,
        None => options.get::<Option<StringInput<'_>>>("d")?,
    };
    let length = joiner.as_ref().or(named.as_ref()).map_or(0, |joiner| joiner.as_str().len());
    make(state, length.saturating_mul(value.len().unwrap_or(0)))?;
    filters::join(state, value, joiner, attribute, options)
}

/// Texts are added one by one, each sum a copy of all before: `join` is for that.
fn sum(
    state: &State<'_, '_>,
    values: Value,
    attribute: Option<&str>,
    start: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let begin = match &start {
        Some(start) => Some(start.clone()),
        None => options.get::<Option<Value>>("start")?,
    };
    if begin.is_some_and(|begin| begin.as_str().is_some()) {
        let message = "`sum` adds up numbers; `join` puts texts together";
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    filters::sum(state, values, attribute, start, options)
}

fn indent(
    state: &mut State<'_, '_>,
    value: StringInput<'_>,
    options: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let options = options.into_values();
    let named = options.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    let named = named.and_then(|named| named.get::<Option<usize>>("width").ok().flatten());
    let width = options.first().and_then(Value::as_usize).or(named).unwrap_or(0);
    let lines = value.as_str().matches('\n').count() + 1;
    make(state, lines.saturating_mul(width))?;
    let text = value.preserve_safety(value.as_str().to_owned());
    let arguments: Vec<Value> = std::iter::once(text).chain(options).collect();
    Value::from_function(filters::indent).call(state, &arguments)
}

/// What one more item of a list takes.
const ITEM_BYTES: usize = size_of::<Value>();

fn batch(
    state: &mut State<'_, '_>,
    value: Value,
    count: usize,
    fill_with: Option<Value>,
) -> Result<Value, Error> {
    if fill_with.is_some() {
        make(state, count.saturating_mul(ITEM_BYTES))?;
    }
    filters::batch(state, value, count, fill_with)
}

fn slice(
    state: &mut State<'_, '_>,
    value: Value,
    count: usize,
    fill_with: Option<Value>,
) -> Result<Value, Error> {
    make(state, count.saturating_mul(2 * ITEM_BYTES))?;
    filters::slice(state, value, count, fill_with)
}

fn format(state: &mut State<'_, '_>, pattern: &Value, values: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let text = pattern.as_str().unwrap_or_default();
    // A width is a number in the pattern, or for a `*` one of the values.
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let written = numbers.map(|digits| digits.parse().unwrap_or(usize::MAX));
    let widths = text.matches('*').count();
    let given = values.iter().filter_map(|value| value.as_usize()).map(|width| width.saturating_mul(widths));
    // One value may be shown many times.
    let longest = values.iter().filter_map(|value| value.as_str()).map(str::len).max().unwrap_or(0);
    let shown = longest.saturating_mul(text.matches('%').count());
    make(state, written.chain(given).chain([shown]).fold(0, usize::saturating_add))?;
    filters::format(state, pattern, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::Template;

    #[track_caller]
    fn check(source: &str, expected: Result<&str, &str>) {
        let text = "ab\n".repeat(6000);
        let rows: Vec<Value> = text.lines().map(Value::from).collect();
        let names = Value::from_pairs([
            ("text", Value::from(text)),
            ("rows", Value::from(rows)),
            ("huge", Value::from(usize::MAX / 4)),
        ]);
        match (Template::compile(source).and_then(|template| template.render(&names)), expected) {
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
        check("{{ '%s: %03d' | format('a', 7) }}", Ok("a: 007"));
        check("{{ [{'a': 'x'}, {'a': 'y'}] | join(', ', attribute='a') }}", Ok("x, y"));
    }

    #[test]
    fn what_filters_make_of_a_reply_has_an_end() {
        const MUCH: &str = "makes more than 67108864 bytes of texts and lists";
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
