//! Syntax tree of a template: its parts, and what it uses. The engine reports an unknown filter, test or
//! method only when it renders the template, which may be years later.

use std::{collections::BTreeSet, iter::once};

use minijinja::{
    Error, ErrorKind,
    machinery::{
        ast::{Call, CallArg, Expr, Stmt},
        parse,
    },
    syntax::SyntaxConfig,
};

/// Names that a template uses.
#[derive(Default)]
pub(crate) struct UsedNames {
    /// Top-level variables, such as `args` and `structured`.
    pub(crate) names: Vec<String>,
    /// Variables with their attributes: `args.city`, `structured`.
    pub(crate) paths: BTreeSet<String>,
    /// Arguments whose absence the template handles.
    pub(crate) optional_arguments: BTreeSet<String>,
    /// Unknown filters and tests, and methods, which no value has: the kind and the name.
    pub(crate) unknown: Vec<(&'static str, String)>,
    /// Variables of the template itself.
    local: Vec<String>,
}

impl UsedNames {
    /// Finds the names in a template.
    pub(super) fn from_source(source: &str) -> Result<Self, Error> {
        let mut used = Self::default();
        used.statement(&parsed(source)?);
        let outermost = |path: &String| path.split('.').next().unwrap_or(path).to_owned();
        used.names = used.paths.iter().map(outermost).collect();
        used.names.dedup();
        // The filter does not mask what the client has sent itself.
        if source.contains("redact") && !used.paths.iter().any(|path| outermost(path) == "args") {
            used.names.push("args".to_owned());
        }
        Ok(used)
    }

    fn statement(&mut self, statement: &Stmt<'_>) {
        let outer = self.local.len();
        let (expressions, bodies) = parts(statement);
        match statement {
            Stmt::ForLoop(each) => {
                self.expression(&each.iter);
                self.local.push("loop".to_owned());
                self.assign(&each.target);
                if let Some(filter) = &each.filter_expr {
                    self.expression(filter);
                    self.condition(filter);
                }
            }
            Stmt::WithBlock(block) => block.assignments.iter().for_each(|(target, value)| {
                self.expression(value);
                self.assign(target);
            }),
            Stmt::Do(call) => self.call(&call.call),
            _ => expressions.into_iter().for_each(|expression| self.expression(expression)),
        }
        match statement {
            Stmt::IfCond(choice) => self.condition(&choice.expr),
            Stmt::Set(set) => self.assign(&set.target),
            Stmt::SetBlock(block) => self.assign(&block.target),
            _ => {}
        }
        // The `else` of a loop does not see the loop's variables, and that of a condition not what the other
        // branch sets.
        let kept = if matches!(statement, Stmt::ForLoop(_)) { outer } else { self.local.len() };
        for body in bodies {
            body.iter().for_each(|statement| self.statement(statement));
            self.local.truncate(kept);
        }
        if !matches!(statement, Stmt::Set(_) | Stmt::SetBlock(_)) {
            self.local.truncate(outer);
        }
    }

    fn assign(&mut self, target: &Expr<'_>) {
        match target {
            Expr::Var(variable) => self.local.push(variable.id.to_owned()),
            Expr::List(_) | Expr::Tuple(_) => {
                children(target).into_iter().for_each(|target| self.assign(target));
            }
            // A member of a namespace.
            _ => {}
        }
    }

    fn expression(&mut self, expression: &Expr<'_>) {
        if let Some(path) = path_of(expression) {
            if !self.local.iter().any(|local| local == path[0]) {
                self.paths.insert(path.join("."));
            }
            return;
        }
        match expression {
            Expr::Filter(filter) => {
                self.check("filter", filter.name);
                if let Some(value) = filter.expr.as_ref().filter(|_| filter.name == "default") {
                    self.may_be_absent(value);
                }
            }
            Expr::Test(test) => {
                self.check("test", test.name);
                if test.name == "defined" {
                    self.may_be_absent(&test.expr);
                }
            }
            Expr::IfExpr(choice) => self.condition(&choice.test_expr),
            Expr::Call(call) => return self.call(call),
            _ => {}
        }
        children(expression).into_iter().for_each(|child| self.expression(child));
    }

    fn may_be_absent(&mut self, value: &Expr<'_>) {
        if let Some(["args", name]) = path_of(value).as_deref() {
            self.optional_arguments.insert((*name).to_owned());
        }
    }

    /// The argument that a condition begins with may be absent.
    fn condition(&mut self, condition: &Expr<'_>) {
        match path_of(condition).as_deref() {
            Some(["args", name, ..]) => {
                self.optional_arguments.insert((*name).to_owned());
            }
            Some(_) => {}
            None => children(condition).into_iter().take(1).for_each(|first| self.condition(first)),
        }
    }

    fn call(&mut self, call: &Call<'_>) {
        if let Expr::GetAttr(method) = &call.expr
            // The only object with methods.
            && !matches!(&method.expr, Expr::Var(object) if object.id == "loop")
        {
            self.unknown.push(("method", method.name.to_owned()));
        }
        once(&call.expr).chain(values(&call.args)).for_each(|part| self.expression(part));
    }

    fn check(&mut self, what: &'static str, name: &str) {
        let mut state = super::COMMON.empty_state();
        // Without a value to work on, a known one fails, too, but with another error.
        let called = match what {
            "filter" => state.apply_filter(name, &[]).map(drop),
            _ => state.perform_test(name, &[]).map(drop),
        };
        if called
            .is_err_and(|error| matches!(error.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest))
        {
            self.unknown.push((what, name.to_owned()));
        }
    }
}

pub(super) fn parsed(source: &str) -> Result<Stmt<'_>, Error> {
    parse(source, super::NAME, SyntaxConfig::default())
}

/// A variable and its attributes.
fn path_of<'s>(expression: &Expr<'s>) -> Option<Vec<&'s str>> {
    match expression {
        Expr::Var(variable) => Some(vec![variable.id]),
        Expr::GetAttr(attribute) => {
            let mut path = path_of(&attribute.expr)?;
            path.push(attribute.name);
            Some(path)
        }
        _ => None,
    }
}

/// The expressions of a statement in the order in which they are evaluated, and the statements inside it.
/// The expressions of a `do` statement are those of its call.
pub(super) fn parts<'e, 's>(statement: &'e Stmt<'s>) -> (Vec<&'e Expr<'s>>, Vec<&'e [Stmt<'s>]>) {
    match statement {
        Stmt::Template(template) => (Vec::new(), vec![&template.children]),
        Stmt::EmitRaw(_) | Stmt::Do(_) => (Vec::new(), Vec::new()),
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
    }
}

/// The expressions directly inside another, from left to right.
pub(super) fn children<'e, 's>(expression: &'e Expr<'s>) -> Vec<&'e Expr<'s>> {
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

/// The arguments of a call.
pub(super) fn values<'e, 's>(arguments: &'e [CallArg<'s>]) -> impl Iterator<Item = &'e Expr<'s>> {
    arguments.iter().map(|argument| match argument {
        CallArg::Pos(value)
        | CallArg::Kwarg(_, value)
        | CallArg::PosSplat(value)
        | CallArg::KwargSplat(value) => value,
    })
}
