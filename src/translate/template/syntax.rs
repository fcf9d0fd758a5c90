//! Syntax tree of a template: [`UsedNames`] finds the names in a template, and [`instrumented`] inserts
//! counters of work into its expressions before the engine compiles them.
//!
//! The engine reports an unknown filter, test or method only when it renders the template, which may be years
//! later. It counts its own instructions, but a single instruction may copy or search megabytes. So each
//! value that is looked up is piped through a filter that counts its length. Each operand of `~` and `+` is
//! counted in the same way, once per copy. `a * b` becomes a filter that counts before it repeats a text.

use std::{collections::BTreeSet, iter::once, ops::Range, sync::LazyLock};

use minijinja::{
    Environment, Error, ErrorKind, Expression, State, Value,
    machinery::{
        ast::{BinOp, BinOpKind, Call, CallArg, Expr, Spanned, Stmt},
        parse,
    },
    syntax::SyntaxConfig,
    value::ValueKind,
};

use super::bounds::{ITEM_BYTES, RenderContext, STEP_BYTES, charge_output};

/// Names that a template uses.
#[derive(Default)]
pub(crate) struct UsedNames {
    /// Top-level variables, such as `args` and `structured`.
    pub(crate) names: Vec<String>,
    /// Variables with their attributes: `args.city`, `structured`. An item of a list is `[]`, as in
    /// `structured.rows.[].name`.
    pub(crate) paths: BTreeSet<String>,
    /// Arguments that may be absent, because the template handles that.
    pub(crate) optional_arguments: BTreeSet<String>,
    /// Unknown filters and tests, and methods, which no value has: the kind (filter, test or method) and the
    /// name.
    pub(crate) unknown: Vec<(&'static str, String)>,
    /// Variables that the template itself sets, each with its path if it is an item of a list.
    locals: Vec<(String, Option<String>)>,
}

impl UsedNames {
    /// Finds the names in a template.
    pub(super) fn from_source(source: &str) -> Result<Self, Error> {
        let mut used = Self::default();
        used.visit_statement(&parse_template(source)?);
        let outermost = |path: &String| path.split('.').next().unwrap_or(path).to_owned();
        used.names = used.paths.iter().map(outermost).collect();
        used.names.dedup();
        // The filter `redact` does not mask strings that the client has sent itself, so it needs `args`.
        if source.contains("redact") && !used.paths.iter().any(|path| outermost(path) == "args") {
            used.names.push("args".to_owned());
        }
        Ok(used)
    }

    fn visit_statement(&mut self, statement: &Stmt<'_>) {
        let outer_len = self.locals.len();
        let (expressions, bodies) = parts(statement);
        match statement {
            Stmt::ForLoop(for_loop) => {
                self.visit_expression(&for_loop.iter);
                self.locals.push(("loop".to_owned(), None));
                // Items of arguments are not recorded: `args.list` is the argument.
                let is_of_result = |path: &Vec<&str>| !["args", "input_responses"].contains(&path[0]);
                let list = path_of(&for_loop.iter).filter(is_of_result).and_then(|path| self.resolve(&path));
                self.assign(&for_loop.target, list.map(|list| format!("{list}.{ITEM}")));
                if let Some(filter) = &for_loop.filter_expr {
                    self.visit_expression(filter);
                    self.visit_condition(filter);
                }
            }
            Stmt::WithBlock(block) => block.assignments.iter().for_each(|(target, value)| {
                self.visit_expression(value);
                self.assign(target, None);
            }),
            Stmt::Do(call) => self.visit_call(&call.call),
            _ => expressions.into_iter().for_each(|expression| self.visit_expression(expression)),
        }
        match statement {
            Stmt::IfCond(choice) => self.visit_condition(&choice.expr),
            Stmt::Set(set) => self.assign(&set.target, None),
            Stmt::SetBlock(block) => self.assign(&block.target, None),
            _ => {}
        }
        // The variables of a loop do not exist in its `else`. Variables set in one branch of a condition do
        // not exist in the other branches.
        let kept_len = if matches!(statement, Stmt::ForLoop(_)) { outer_len } else { self.locals.len() };
        for body in bodies {
            body.iter().for_each(|statement| self.visit_statement(statement));
            self.locals.truncate(kept_len);
        }
        if !matches!(statement, Stmt::Set(_) | Stmt::SetBlock(_)) {
            self.locals.truncate(outer_len);
        }
    }

    /// Records the variables of an assignment. If the value is the item of a list, `item` is its path.
    fn assign(&mut self, target: &Expr<'_>, item: Option<String>) {
        match target {
            Expr::Var(variable) => self.locals.push((variable.id.to_owned(), item)),
            Expr::List(_) | Expr::Tuple(_) => {
                children(target).into_iter().for_each(|target| self.assign(target, None));
            }
            // The assignment is to a member of a namespace.
            _ => {}
        }
    }

    fn visit_expression(&mut self, expression: &Expr<'_>) {
        if let Some(path) = path_of(expression) {
            self.paths.extend(self.resolve(&path));
            return;
        }
        match expression {
            Expr::Filter(filter) => {
                self.check_name("filter", filter.name);
                if let Some(value) = filter.expr.as_ref().filter(|_| filter.name == "default") {
                    self.mark_optional(value);
                }
            }
            Expr::Test(test) => {
                self.check_name("test", test.name);
                if test.name == "defined" {
                    self.mark_optional(&test.expr);
                }
            }
            Expr::IfExpr(choice) => self.visit_condition(&choice.test_expr),
            Expr::Call(call) => return self.visit_call(call),
            _ => {}
        }
        children(expression).into_iter().for_each(|child| self.visit_expression(child));
    }

    /// Replaces the loop variable at the start of a path by its list item; `None` for other local variables.
    fn resolve(&self, path: &[&str]) -> Option<String> {
        match self.locals.iter().rfind(|(name, _)| name == path[0]) {
            None => Some(path.join(".")),
            Some((_, item)) => Some([&[item.as_deref()?], &path[1..]].concat().join(".")),
        }
    }

    fn mark_optional(&mut self, value: &Expr<'_>) {
        if let Some(["args", name]) = path_of(value).as_deref() {
            self.optional_arguments.insert((*name).to_owned());
        }
    }

    /// Records that the argument at the beginning of a condition may be absent.
    fn visit_condition(&mut self, condition: &Expr<'_>) {
        match path_of(condition).as_deref() {
            Some(["args", name, ..]) => {
                self.optional_arguments.insert((*name).to_owned());
            }
            Some(_) => {}
            None => children(condition).into_iter().take(1).for_each(|first| self.visit_condition(first)),
        }
    }

    fn visit_call(&mut self, call: &Call<'_>) {
        if let Expr::GetAttr(method) = &call.expr
            // `loop` is the only object with methods.
            && !matches!(&method.expr, Expr::Var(object) if object.id == "loop")
        {
            self.unknown.push(("method", method.name.to_owned()));
        }
        once(&call.expr).chain(values(&call.args)).for_each(|part| self.visit_expression(part));
    }

    fn check_name(&mut self, kind: &'static str, name: &str) {
        let mut state = super::COMMON.empty_state();
        // Without a value to work on, a known filter or test also fails, but with another error.
        let result = match kind {
            "filter" => state.apply_filter(name, &[]).map(drop),
            _ => state.perform_test(name, &[]).map(drop),
        };
        if result
            .is_err_and(|error| matches!(error.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest))
        {
            self.unknown.push((kind, name.to_owned()));
        }
    }
}

/// Names of the inserted filters that count work.
const LOOKED_UP: &str = "__looked_up";
const COPIED: &str = "__copied";
const TIMES: &str = "__times";

/// Instruments a configured template. Line numbers do not change.
pub(super) fn instrumented(template: &str) -> Result<String, Error> {
    let mut edits = Edits { template, replacements: Vec::new() };
    edits.visit_statement(&parse_template(template)?);
    // The sort is stable. Of two edits at the same position, the edit of the outer expression comes first at
    // its beginning, and last at its end.
    edits.replacements.sort_by_key(|(range, _)| range.start);
    let mut source = template.to_owned();
    for (range, replacement) in edits.replacements.into_iter().rev() {
        source.replace_range(range, &replacement);
    }
    Ok(source)
}

/// Whether a part of an instrumented template contains a filter that [`instrumented`] has inserted.
pub(super) fn has_insertions(part: &str) -> bool {
    [LOOKED_UP, COPIED, TIMES].iter().any(|name| part.contains(name))
}

struct Edits<'a> {
    template: &'a str,
    /// Inserted texts, each with the range of the configured template that it replaces.
    replacements: Vec<(Range<usize>, String)>,
}

impl Edits<'_> {
    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replacements.push((at..at, text.into()));
    }

    fn visit_statement(&mut self, statement: &Stmt<'_>) {
        let (expressions, bodies) = parts(statement);
        self.visit_expressions(expressions);
        if let Stmt::Do(call) = statement {
            self.visit_call(&call.call);
        }
        bodies.into_iter().flatten().for_each(|statement| self.visit_statement(statement));
    }

    fn visit_expressions<'e, 's: 'e>(&mut self, expressions: impl IntoIterator<Item = &'e Expr<'s>>) {
        expressions.into_iter().for_each(|expression| self.visit_expression(expression));
    }

    fn visit_expression(&mut self, expression: &Expr<'_>) {
        match expression {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.visit_lookup(expression),
            Expr::BinOp(operation) => match operation.op {
                BinOpKind::Mul => self.visit_product(operation),
                BinOpKind::Add | BinOpKind::Concat => self.visit_sum(operation, 1),
                _ => self.visit_expressions(children(expression)),
            },
            Expr::Call(call) => self.visit_call(call),
            other => self.visit_expressions(children(other)),
        }
    }

    fn visit_call(&mut self, call: &Call<'_>) {
        match &call.expr {
            // The name of a function is not a value.
            Expr::Var(_) => {}
            Expr::GetAttr(method) => self.visit_expression(&method.expr),
            called => self.visit_expression(called),
        }
        self.visit_expressions(values(&call.args));
    }

    /// Instruments a value with its attributes and subscripts: for `args.rows[n].text`, the whole value and
    /// `n`.
    fn visit_lookup(&mut self, expression: &Expr<'_>) {
        self.insert(start(expression), "(");
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
        if !matches!(root, Expr::Var(_)) {
            self.visit_expression(root);
        }
        self.visit_expressions(subscripts);
        self.insert(end(expression), format!("|{LOOKED_UP})"));
    }

    /// Rewrites `a * b` to `(a)|times(b)`.
    fn visit_product(&mut self, operation: &Spanned<BinOp<'_>>) {
        let left_end = end(&operation.left);
        let Some(gap) = self.template[left_end..].find('*') else { return };
        self.insert(operation.span().start_offset as usize, "(");
        self.visit_expression(&operation.left);
        let operator = left_end + gap;
        self.replacements.push((operator..operator + 1, format!(")|{TIMES}(")));
        self.visit_expression(&operation.right);
        self.insert(operation.span().end_offset as usize, ")");
    }

    /// Instruments `a ~ b ~ c`, which copies `a` and `b` twice: the engine evaluates it from left to right,
    /// and each step copies all previous operands.
    fn visit_sum(&mut self, operation: &BinOp<'_>, copies: usize) {
        for operand in [&operation.left, &operation.right] {
            match operand {
                // A literal is not longer than the template itself.
                Expr::Const(_) => {}
                Expr::BinOp(inner) if matches!(inner.op, BinOpKind::Add | BinOpKind::Concat) => {
                    self.visit_sum(inner, copies + 1);
                }
                operand => {
                    self.insert(start(operand), "((");
                    self.visit_expression(operand);
                    self.insert(end(operand), format!(")|{COPIED}({copies}))"));
                }
            }
        }
    }
}

/// Start of an expression. The span of a filter starts at its name, so the start of its value is used.
fn start(expression: &Expr<'_>) -> usize {
    let child_start = children(expression).into_iter().map(start).min();
    child_start.unwrap_or(usize::MAX).min(expression.span().start_offset as usize)
}

fn end(expression: &Expr<'_>) -> usize {
    expression.span().end_offset as usize
}

/// Registers the counting filters.
pub(super) fn add_counters(environment: &mut Environment<'static>) {
    environment.add_filter(LOOKED_UP, |state: &State<'_, '_>, value: Value| {
        let bytes = bytes_of(&value);
        // For smaller values, the step of the lookup is enough.
        if bytes > STEP_BYTES {
            RenderContext::from_state(state).map_or(Ok(()), |context| context.charge_lookup(bytes))?;
        }
        Ok::<_, Error>(value)
    });
    environment.add_filter(COPIED, |state: &State<'_, '_>, value: Value, copies: usize| {
        let bytes = usize::try_from(bytes_of(&value)).unwrap_or(usize::MAX);
        if bytes > 0 {
            charge_output(state, bytes.saturating_mul(copies))?;
        }
        Ok::<_, Error>(value)
    });
    environment.add_filter(TIMES, times);
}

/// Length of a string, list or map, in bytes.
fn bytes_of(value: &Value) -> u64 {
    match (value.as_bytes(), value.kind()) {
        (Some(bytes), _) => bytes.len() as u64,
        (None, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) => {
            value.len().unwrap_or(0) as u64 * ITEM_BYTES
        }
        (None, _) => 0,
    }
}

/// Evaluates `a * b` with the engine, which multiplies numbers, and repeats strings and lists.
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
    // Omit the position, which is inside the helper expression.
    product.map_err(|error| Error::new(error.kind(), error.detail().unwrap_or_default().to_owned()))
}

fn parse_template(source: &str) -> Result<Stmt<'_>, Error> {
    parse(source, super::NAME, SyntaxConfig::default())
}

/// Step of a path to any item of a list.
pub(crate) const ITEM: &str = "[]";

/// Path of a variable with its attributes and items; `None` for other expressions.
fn path_of<'s>(expression: &Expr<'s>) -> Option<Vec<&'s str>> {
    let is_number = |index: &Expr<'_>| matches!(index, Expr::Const(index) if index.value.is_integer());
    let (value, step) = match expression {
        Expr::Var(variable) => return Some(vec![variable.id]),
        Expr::GetAttr(attribute) => (&attribute.expr, attribute.name),
        Expr::GetItem(item) if is_number(&item.subscript_expr) => (&item.expr, ITEM),
        _ => return None,
    };
    let mut path = path_of(value)?;
    path.push(step);
    Some(path)
}

/// Expressions of a statement in the order of evaluation, and the statements inside it. Empty for a `do`
/// statement, whose call the callers handle.
fn parts<'e, 's>(statement: &'e Stmt<'s>) -> (Vec<&'e Expr<'s>>, Vec<&'e [Stmt<'s>]>) {
    match statement {
        Stmt::Template(template) => (Vec::new(), vec![&template.children]),
        Stmt::EmitRaw(_) | Stmt::Do(_) => (Vec::new(), Vec::new()),
        Stmt::EmitExpr(emitted) => (vec![&emitted.expr], Vec::new()),
        Stmt::ForLoop(for_loop) => (
            once(&for_loop.iter).chain(&for_loop.filter_expr).collect(),
            vec![&for_loop.body, &for_loop.else_body],
        ),
        Stmt::IfCond(condition) => (vec![&condition.expr], vec![&condition.true_body, &condition.false_body]),
        Stmt::WithBlock(block) => {
            (block.assignments.iter().map(|(_, value)| value).collect(), vec![&block.body])
        }
        Stmt::Set(set) => (vec![&set.expr], Vec::new()),
        Stmt::SetBlock(block) => (block.filter.iter().collect(), vec![&block.body]),
        Stmt::AutoEscape(block) => (vec![&block.enabled], vec![&block.body]),
        Stmt::FilterBlock(block) => (vec![&block.filter], vec![&block.body]),
    }
}

/// Expressions directly inside another one, from left to right.
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
        Expr::Call(call) => once(&call.expr).chain(values(&call.args)).collect(),
        Expr::List(list) => list.items.iter().collect(),
        Expr::Tuple(tuple) => tuple.items.iter().collect(),
        Expr::Map(map) => map.keys.iter().chain(&map.values).collect(),
    }
}

/// Value expressions of arguments: positional, keyword (without the name) and unpacked (`*`, `**`).
fn values<'e, 's>(arguments: &'e [CallArg<'s>]) -> impl Iterator<Item = &'e Expr<'s>> {
    arguments.iter().map(|argument| match argument {
        CallArg::Pos(value)
        | CallArg::Kwarg(_, value)
        | CallArg::PosSplat(value)
        | CallArg::KwargSplat(value) => value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, expected: &str) {
        let source = instrumented(template).unwrap();
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
            "{{ ((a).b|u) }}{{ [(a|u), 'b'] }}{{ ({'k': (v|u)}.k|u) }}",
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
