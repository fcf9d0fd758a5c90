//! Instrumentation of templates: inserts counters of work into their expressions before the engine compiles
//! them.
//!
//! The engine counts its own instructions, and a single one may copy or search megabytes. So each value that
//! is looked up is piped through a filter that counts its length. So is each operand of `~` and `+`, once per
//! copy. `a * b` becomes a filter that counts before it repeats a text.

use std::sync::LazyLock;

use minijinja::{
    Environment, Error, Expression, State, Value,
    machinery::ast::{BinOp, BinOpKind, Call, Expr, Spanned, Stmt},
    value::ValueKind,
};

use super::bounds::{ITEM_BYTES, RenderContext, STEP_BYTES, charge_output};
use super::syntax::{children, parsed, parts, values};

/// Names of the inserted filters.
const LOOKED_UP: &str = "__looked_up";
const COPIED: &str = "__copied";
const TIMES: &str = "__times";

/// Replacement of a part of the configured template.
struct Edit {
    at: usize,
    removed: usize,
    text: String,
}

/// Instruments a configured template. Its lines keep their numbers.
pub(super) fn instrumented(written: &str) -> Result<String, Error> {
    let mut edits = Edits { written, list: Vec::new() };
    edits.statement(&parsed(written)?);
    // The sort is stable: of two edits at one position, the outer one stays first at the beginning, and last
    // at the end.
    edits.list.sort_by_key(|edit| edit.at);
    let mut source = written.to_owned();
    for Edit { at, removed, text } in edits.list.into_iter().rev() {
        source.replace_range(at..at + removed, &text);
    }
    Ok(source)
}

/// Whether a part of an instrumented template has an inserted filter in it.
pub(super) fn has_insertions(part: &str) -> bool {
    [LOOKED_UP, COPIED, TIMES].iter().any(|name| part.contains(name))
}

struct Edits<'a> {
    written: &'a str,
    list: Vec<Edit>,
}

impl Edits<'_> {
    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.list.push(Edit { at, removed: 0, text: text.into() });
    }

    fn statement(&mut self, statement: &Stmt<'_>) {
        let (expressions, bodies) = parts(statement);
        self.expressions(expressions);
        if let Stmt::Do(call) = statement {
            self.call(&call.call);
        }
        bodies.into_iter().flatten().for_each(|statement| self.statement(statement));
    }

    fn expressions<'e, 's: 'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr<'s>>) {
        expressions.into_iter().for_each(|expression| self.expression(expression));
    }

    fn expression(&mut self, expression: &Expr<'_>) {
        match expression {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.looked_up(expression),
            Expr::BinOp(operation) => match operation.op {
                BinOpKind::Mul => self.product(operation),
                BinOpKind::Add | BinOpKind::Concat => self.sum(operation, 1),
                _ => self.expressions(children(expression)),
            },
            Expr::Call(call) => self.call(call),
            other => self.expressions(children(other)),
        }
    }

    fn call(&mut self, call: &Call<'_>) {
        match &call.expr {
            // A function name is not a value.
            Expr::Var(_) => {}
            Expr::GetAttr(method) => self.expression(&method.expr),
            called => self.expression(called),
        }
        self.expressions(values(&call.args));
    }

    /// Instruments a variable with its attributes and subscripts: of `args.rows[n].text` the whole, and `n`.
    fn looked_up(&mut self, expression: &Expr<'_>) {
        let (mut root, mut subscripts) = (expression, Vec::new());
        loop {
            root = match root {
                Expr::GetAttr(attribute) => &attribute.expr,
                Expr::GetItem(item) => {
                    subscripts.push(&item.subscript_expr);
                    &item.expr
                }
                _ => break,
            };
        }
        let name = matches!(root, Expr::Var(_)).then(|| root.span());
        match name {
            Some(name) => self.insert(name.start_offset as usize, "("),
            None => self.expression(root),
        }
        self.expressions(subscripts);
        if name.is_some() {
            self.insert(expression.span().end_offset as usize, format!("|{LOOKED_UP})"));
        }
    }

    /// Rewrites `a * b` to `(a)|times(b)`.
    fn product(&mut self, operation: &Spanned<BinOp<'_>>) {
        let behind = end(&operation.left);
        let Some(gap) = self.written[behind..].find('*') else { return };
        self.insert(operation.span().start_offset as usize, "(");
        self.expression(&operation.left);
        self.list.push(Edit { at: behind + gap, removed: 1, text: format!(")|{TIMES}(") });
        self.expression(&operation.right);
        self.insert(operation.span().end_offset as usize, ")");
    }

    /// Instruments `a ~ b ~ c`, which copies `a` and `b` twice: it is evaluated from left to right, and each
    /// step copies all operands before.
    fn sum(&mut self, operation: &BinOp<'_>, copies: usize) {
        for operand in [&operation.left, &operation.right] {
            match operand {
                // A literal is not longer than the template itself.
                Expr::Const(_) => {}
                Expr::BinOp(inner) if matches!(inner.op, BinOpKind::Add | BinOpKind::Concat) => {
                    self.sum(inner, copies + 1);
                }
                operand => {
                    self.insert(start(operand), "((");
                    self.expression(operand);
                    self.insert(end(operand), format!(")|{COPIED}({copies}))"));
                }
            }
        }
    }
}

/// Beginning of an expression. The span of a filter begins at its name, after the value.
fn start(expression: &Expr<'_>) -> usize {
    let inside = children(expression).into_iter().map(start).min();
    inside.unwrap_or(usize::MAX).min(expression.span().start_offset as usize)
}

fn end(expression: &Expr<'_>) -> usize {
    expression.span().end_offset as usize
}

/// Registers the counting filters.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter(LOOKED_UP, |state: &State<'_, '_>, value: Value| {
        let bytes = bytes_of(&value);
        // Smaller values are covered by the step that looks them up.
        if bytes > STEP_BYTES {
            RenderContext::from_state(state).map_or(Ok(()), |names| names.look_up(bytes))?;
        }
        Ok::<_, Error>(value)
    });
    environment.add_filter(COPIED, |state: &State<'_, '_>, value: Value, times: usize| {
        let bytes = usize::try_from(bytes_of(&value)).unwrap_or(usize::MAX);
        if bytes > 0 {
            charge_output(state, bytes.saturating_mul(times))?;
        }
        Ok::<_, Error>(value)
    });
    environment.add_filter(TIMES, times);
}

/// Length of a string or list, in bytes.
fn bytes_of(value: &Value) -> u64 {
    match (value.as_bytes(), value.kind()) {
        (Some(bytes), _) => bytes.len() as u64,
        (None, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) => {
            value.len().unwrap_or(0) as u64 * ITEM_BYTES
        }
        (None, _) => 0,
    }
}

/// The engine's `a * b`, which multiplies numbers, and repeats strings and lists.
fn times(state: &State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(Environment::new);
    static PRODUCT: LazyLock<Expression<'static, 'static>> =
        LazyLock::new(|| ENGINE.compile_expression("a * b").expect("the expression is fixed and tested"));
    for (repeated, count) in [(&left, &right), (&right, &left)] {
        let bytes = usize::try_from(bytes_of(repeated)).unwrap_or(usize::MAX);
        if let Some(count) = count.as_usize().filter(|_| bytes > 0) {
            charge_output(state, bytes.saturating_mul(count))?;
        }
    }
    let product = PRODUCT.eval(Value::from_pairs([("a", left), ("b", right)]));
    // Without its position, which is inside the helper expression.
    product.map_err(|error| Error::new(error.kind(), error.detail().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, expected: &str) {
        let source = instrumented(written).unwrap();
        let names = [(LOOKED_UP, "u"), (COPIED, "c"), (TIMES, "x")];
        let source = names.iter().fold(source, |text, (name, short)| text.replace(name, short));
        assert_eq!(source, expected);
    }

    #[test]
    fn lookups_are_counted() {
        check("a {{ a }} {{ args.b[c.d].e }}", "a {{ (a|u) }} {{ (args.b[(c.d|u)].e|u) }}");
        check("{{ text[:n] | upper }}", "{{ (text|u)[:(n|u)] | upper }}");
        check("{{ range(n) }}{{ x.f(y, z=1) }}", "{{ range((n|u)) }}{{ (x|u).f((y|u), z=1) }}");
        check(
            "{% for a, b in rows if a is defined %}{% set c = a %}{% else %}{{ -b }}{% endfor %}",
            "{% for a, b in (rows|u) if (a|u) is defined %}{% set c = (a|u) %}{% else %}{{ -(b|u) }}{% endfor %}",
        );
        check(
            "{{ (a).b }}{{ [a, 'b'] }}{{ {'k': v}.k }}",
            "{{ ((a).b|u) }}{{ [(a|u), 'b'] }}{{ {'k': (v|u)}.k }}",
        );
        check(
            "{{ a if b else c }}{{ a < b <= c }}",
            "{{ (a|u) if (b|u) else (c|u) }}{{ (a|u) < (b|u) <= (c|u) }}",
        );
        check(
            "{% with a = b %}{% endwith %}{% set n.x = y %}",
            "{% with a = (b|u) %}{% endwith %}{% set n.x = (y|u) %}",
        );
        check("{% raw %}{{ a }}{% endraw %}{# {{ a }} #}", "{% raw %}{{ a }}{% endraw %}{# {{ a }} #}");
    }

    #[test]
    fn copied_values_are_counted_each_time() {
        check("{{ a ~ 'x' }}", "{{ (((a|u))|c(1)) ~ 'x' }}");
        check("{{ a~b~c }}", "{{ (((a|u))|c(2))~(((b|u))|c(2))~(((c|u))|c(1)) }}");
        check("{{ (a ~ b) + 1 }}", "{{ ((((a|u))|c(2)) ~ (((b|u))|c(2))) + 1 }}");
    }

    #[test]
    fn repetitions_are_counted_before_they_run() {
        check("{{ a * 3 }}", "{{ ((a|u) )|x( 3) }}");
        check("{{ a*b*c / 2 }}", "{{ (((a|u))|x((b|u)))|x((c|u)) / 2 }}");
        check("{{ (a + 1) * (b) }}", "{{ (((((a|u))|c(1)) + 1) )|x( ((b|u))) }}");
        check("{{ 2 ** n * 3 }}", "{{ (2 ** (n|u) )|x( 3) }}");
    }
}
