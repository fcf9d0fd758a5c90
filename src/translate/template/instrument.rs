//! Instrumentation of templates: inserts counters of work into their expressions before the engine compiles
//! them.
//!
//! The engine counts its own instructions, and a single one may copy or search megabytes. So each value that
//! is looked up is piped through a filter that counts its length. So is each operand of `~` and `+`, once per
//! copy. `a * b` becomes a filter that counts before it repeats a text.

use std::{iter::once, sync::LazyLock};

use minijinja::{
    Environment, Error, Expression, State, Value,
    machinery::{
        ast::{BinOp, BinOpKind, CallArg, Expr, Spanned, Stmt},
        parse,
    },
    syntax::SyntaxConfig,
    value::ValueKind,
};

use super::bounds::{ITEM_BYTES, RenderContext, STEP_BYTES, charge_output};

/// Names of the inserted filters.
const LOOKED_UP: &str = "__looked_up";
const COPIED: &str = "__copied";
const TIMES: &str = "__times";

/// Instrumented template.
#[derive(Debug)]
pub(super) struct InstrumentedTemplate {
    /// Source for the engine.
    pub(super) source: String,
    edits: Vec<Edit>,
}

/// Replacement of a part of the configured template.
#[derive(Debug)]
struct Edit {
    at: usize,
    removed: usize,
    text: String,
}

impl InstrumentedTemplate {
    /// Instruments a configured template.
    pub(super) fn new(written: &str) -> Result<Self, Error> {
        let mut edits = Edits { written, list: Vec::new() };
        edits.statement(&parse(written, super::NAME, SyntaxConfig::default())?);
        let mut edits = edits.list;
        // The sort is stable: of two edits at one position, the outer one stays first at the beginning, and
        // last at the end.
        edits.sort_by_key(|edit| edit.at);
        let (mut source, mut copied) = (String::with_capacity(written.len() + edits.len() * 16), 0);
        for edit in &edits {
            source.push_str(&written[copied..edit.at]);
            source.push_str(&edit.text);
            copied = edit.at + edit.removed;
        }
        source.push_str(&written[copied..]);
        Ok(Self { source, edits })
    }

    /// Position in the configured template of a position in the instrumented source.
    pub(super) fn position_in_source(&self, offset: usize) -> usize {
        let (mut added, mut removed) = (0, 0);
        for edit in &self.edits {
            let begin = edit.at + added - removed;
            if offset < begin + edit.text.len() {
                return offset.min(begin) + removed - added;
            }
            (added, removed) = (added + edit.text.len(), removed + edit.removed);
        }
        offset + removed - added
    }
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
        bodies.into_iter().flatten().for_each(|statement| self.statement(statement));
    }

    fn expressions<'e, 's: 'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr<'s>>) {
        expressions.into_iter().for_each(|expression| self.expression(expression));
    }

    fn expression(&mut self, expression: &Expr<'_>) {
        match expression {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.looked_up(expression),
            Expr::BinOp(operation) => self.operation(operation),
            other => self.expressions(children(other)),
        }
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

    fn operation(&mut self, operation: &Spanned<BinOp<'_>>) {
        match (operation.op, self.operator(operation)) {
            (BinOpKind::Mul, Some(_)) => {
                self.insert(operation.span().start_offset as usize, "(");
                self.product(operation);
                self.insert(operation.span().end_offset as usize, ")");
            }
            (BinOpKind::Add | BinOpKind::Concat, Some(at)) => self.sum(operation, at, 1),
            _ => self.expressions([&operation.left, &operation.right]),
        }
    }

    /// Rewrites `a * b * c` to `(a)|times(b)|times(c)`, which nests no deeper.
    fn product(&mut self, operation: &Spanned<BinOp<'_>>) {
        let begin = operation.span().start_offset as usize;
        let Some(at) = self.operator(operation) else { return };
        let text = match &operation.left {
            // A product without parentheses around it.
            Expr::BinOp(left)
                if matches!(left.op, BinOpKind::Mul)
                    && left.span().start_offset as usize == begin
                    && self.operator(left).is_some() =>
            {
                self.product(left);
                format!("|{TIMES}(")
            }
            left => {
                self.insert(begin, "(");
                self.expression(left);
                format!(")|{TIMES}(")
            }
        };
        self.list.push(Edit { at, removed: 1, text });
        self.expression(&operation.right);
        self.insert(operation.span().end_offset as usize, ")");
    }

    /// Instruments `a ~ b ~ c`, which copies `a` and `b` twice: it is evaluated from left to right, and each
    /// step copies all operands before.
    fn sum(&mut self, operation: &Spanned<BinOp<'_>>, at: usize, copies: usize) {
        let span = operation.span();
        let sides = [
            (&operation.left, span.start_offset as usize, at),
            (&operation.right, at + 1, span.end_offset as usize),
        ];
        for (operand, begin, end) in sides {
            match operand {
                // A literal is not longer than the template itself.
                Expr::Const(_) => {}
                Expr::BinOp(inner)
                    if matches!(inner.op, BinOpKind::Add | BinOpKind::Concat)
                        && self.operator(inner).is_some() =>
                {
                    let at = self.operator(inner).unwrap_or_default();
                    self.sum(inner, at, copies + 1);
                }
                operand => {
                    self.insert(begin, "((");
                    self.expression(operand);
                    self.insert(end, format!(")|{COPIED}({copies}))"));
                }
            }
        }
    }

    /// Position of the operator `*`, `~` or `+`, after the left operand and its closing parentheses.
    fn operator(&self, operation: &Spanned<BinOp<'_>>) -> Option<usize> {
        let sign = match operation.op {
            BinOpKind::Mul => '*',
            BinOpKind::Add => '+',
            BinOpKind::Concat => '~',
            _ => return None,
        };
        let behind = operation.left.span().end_offset as usize;
        let rest = self.written.get(behind..)?;
        let gap = rest.find(|c: char| !c.is_whitespace() && c != ')')?;
        rest[gap..].starts_with(sign).then_some(behind + gap)
    }
}

/// The expressions of a statement, and the statements inside it.
fn parts<'e, 's>(statement: &'e Stmt<'s>) -> (Vec<&'e Expr<'s>>, Vec<&'e [Stmt<'s>]>) {
    match statement {
        Stmt::Template(template) => (Vec::new(), vec![&template.children]),
        Stmt::EmitRaw(_) => (Vec::new(), Vec::new()),
        Stmt::EmitExpr(emitted) => (vec![&emitted.expr], Vec::new()),
        Stmt::ForLoop(each) => {
            (once(&each.iter).chain(&each.filter_expr).collect(), vec![&each.body, &each.else_body])
        }
        Stmt::IfCond(condition) => (vec![&condition.expr], vec![&condition.true_body, &condition.false_body]),
        Stmt::WithBlock(block) => {
            (block.assignments.iter().map(|(_, value)| value).collect(), vec![&block.body])
        }
        Stmt::Set(set) => (vec![&set.expr], Vec::new()),
        Stmt::SetBlock(block) => (block.filter.iter().collect(), vec![&block.body]),
        Stmt::AutoEscape(block) => (vec![&block.enabled], vec![&block.body]),
        Stmt::FilterBlock(block) => (vec![&block.filter], vec![&block.body]),
        Stmt::Do(call) => (parts_of_call(&call.call.expr, &call.call.args), Vec::new()),
    }
}

/// The expressions directly inside another.
fn children<'e, 's>(expression: &'e Expr<'s>) -> Vec<&'e Expr<'s>> {
    match expression {
        Expr::Const(_) | Expr::Var(_) => Vec::new(),
        Expr::GetAttr(attribute) => vec![&attribute.expr],
        Expr::GetItem(item) => vec![&item.expr, &item.subscript_expr],
        Expr::Slice(slice) => {
            once(&slice.expr).chain(&slice.start).chain(&slice.stop).chain(&slice.step).collect()
        }
        Expr::UnaryOp(operation) => vec![&operation.expr],
        Expr::BinOp(operation) => vec![&operation.left, &operation.right],
        Expr::Compare(comparison) => {
            once(&comparison.expr).chain(comparison.ops.iter().map(|next| &next.expr)).collect()
        }
        Expr::IfExpr(choice) => {
            [&choice.true_expr, &choice.test_expr].into_iter().chain(&choice.false_expr).collect()
        }
        Expr::Filter(filter) => filter.expr.iter().chain(values(&filter.args)).collect(),
        Expr::Test(test) => once(&test.expr).chain(values(&test.args)).collect(),
        Expr::Call(call) => parts_of_call(&call.expr, &call.args),
        Expr::List(list) => list.items.iter().collect(),
        Expr::Tuple(tuple) => tuple.items.iter().collect(),
        Expr::Map(map) => map.keys.iter().chain(&map.values).collect(),
    }
}

fn parts_of_call<'e, 's>(called: &'e Expr<'s>, arguments: &'e [CallArg<'s>]) -> Vec<&'e Expr<'s>> {
    let called = match called {
        // A function name is not a value.
        Expr::Var(_) => None,
        Expr::GetAttr(method) => Some(&method.expr),
        other => Some(other),
    };
    called.into_iter().chain(values(arguments)).collect()
}

fn values<'e, 's>(arguments: &'e [CallArg<'s>]) -> impl Iterator<Item = &'e Expr<'s>> {
    arguments.iter().map(|argument| match argument {
        CallArg::Pos(value)
        | CallArg::Kwarg(_, value)
        | CallArg::PosSplat(value)
        | CallArg::KwargSplat(value) => value,
    })
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
        let counted = InstrumentedTemplate::new(written).unwrap();
        let names = [(LOOKED_UP, "u"), (COPIED, "c"), (TIMES, "x")];
        let source =
            names.iter().fold(counted.source.clone(), |text, (name, short)| text.replace(name, short));
        assert_eq!(source, expected);
        // Unchanged text maps back to its original position.
        for (offset, _) in written.match_indices(|c: char| c.is_ascii_alphanumeric()) {
            let found: Vec<usize> = (0..counted.source.len())
                .filter(|place| counted.position_in_source(*place) == offset)
                .collect();
            let stays =
                found.iter().any(|place| counted.source[*place..].starts_with(&written[offset..=offset]));
            assert!(stays, "{written}: {offset} is at {found:?}");
        }
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
        check("{{ a ~ 'x' }}", "{{ (((a|u) )|c(1))~ 'x' }}");
        check("{{ a~b~c }}", "{{ (((a|u))|c(2))~(((b|u))|c(2))~(((c|u))|c(1)) }}");
        check("{{ (a ~ b) + 1 }}", "{{ ((((a|u) )|c(2))~(( (b|u))|c(2))) + 1 }}");
    }

    #[test]
    fn repetitions_are_counted_before_they_run() {
        check("{{ a * 3 }}", "{{ (((a|u) )|x( 3)) }}");
        check("{{ a*b*c / 2 }}", "{{ (((a|u))|x((b|u))|x((c|u))) / 2 }}");
        check("{{ (a + 1) * (b) }}", "{{ ((((((a|u) )|c(1))+ 1) )|x( ((b|u)))) }}");
        check("{{ 2 ** n * 3 }}", "{{ ((2 ** (n|u) )|x( 3)) }}");
    }
}
