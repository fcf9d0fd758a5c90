//! Rewriter of jq filters: inserts calls of counting functions at every loop and operator, and at every value
//! that is stored or read completely.
//!
//! In reading order:
//!
//! - [`rewritten`] rewrites a configured filter. It also counts each value of a term that may have several.
//!   So a list can be iterated freely, and a cross product of lists ends in time.
//! - [`bounded_definition`] rewrites the standard library. Its loops are tail calls, which they would not be
//!   if their terms were counted.
//! - [`with_parts`] is the common traversal of terms.

use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    ops::Math,
    path::{Part, Path},
};

use super::JqError;
use super::functions::{DIFFERENCE, ONE, PRODUCT, QUOTIENT, READ, ROUND, STEP, STORED, SUM, TICK, WRITTEN};

/// Rewrites a configured filter.
///
/// # Errors
///
/// [`JqError`] for a recursive definition: only the stack would bound it.
pub(super) fn rewritten(term: Term<&str>) -> Result<Term<&str>, JqError> {
    let mut rewriter = Rewriter { counts_values: true, enclosing: Vec::new(), calls_itself: None };
    let rewritten = rewriter.term(term);
    match rewriter.calls_itself {
        None => Ok(rewritten),
        Some(name) => Err(JqError::new(format!(
            "`{name}` calls itself, which has no end that can be seen; `recurse` or `reduce` have"
        ))),
    }
}

/// Operator of the assignment that is the value of a term, or decides it in an `and` or `or`.
pub(super) fn assignment(term: &Term<&str>) -> Option<&'static str> {
    let Term::BinOp(left, operator, right) = term else { return None };
    match operator {
        BinaryOp::Assign => Some("="),
        BinaryOp::Update => Some("|="),
        BinaryOp::UpdateMath(Math::Add) => Some("+="),
        BinaryOp::UpdateMath(Math::Sub) => Some("-="),
        BinaryOp::UpdateMath(Math::Mul) => Some("*="),
        BinaryOp::UpdateMath(Math::Div) => Some("/="),
        BinaryOp::UpdateMath(Math::Rem) => Some("%="),
        BinaryOp::UpdateAlt => Some("//="),
        BinaryOp::Pipe(_) => assignment(right),
        BinaryOp::And | BinaryOp::Or => assignment(left).or_else(|| assignment(right)),
        BinaryOp::Comma | BinaryOp::Alt | BinaryOp::Math(_) | BinaryOp::Cmp(_) => None,
    }
}

/// Loops of the standard library, with their numbers of arguments; each round is a call of the inner `rec`.
const LOOPS: [(&str, usize); 5] = [("range", 3), ("recurse", 1), ("repeat", 1), ("until", 2), ("while", 2)];

/// Rewrites a definition of the standard library.
pub(super) fn bounded_definition<'s>(definition: Def<&'static str>) -> Def<&'s str> {
    let is_loop = LOOPS.contains(&(definition.name, definition.args.len()));
    let mut rewriter = Rewriter { counts_values: false, enclosing: Vec::new(), calls_itself: None };
    let mut body = rewriter.term(definition.body);
    if is_loop && let Term::Def(inner, _) = &mut body {
        for rec in inner {
            rec.body = pipe(call(TICK, []), std::mem::take(&mut rec.body));
        }
    }
    Def { body, ..definition }
}

/// Inserts counters of loops, operators and stored values, and finds recursive definitions.
struct Rewriter<'s> {
    /// Whether each value of a term that may have several is counted.
    counts_values: bool,
    /// Enclosing definitions, with their numbers of arguments.
    enclosing: Vec<(&'s str, usize)>,
    /// The first recursive definition.
    calls_itself: Option<&'s str>,
}

impl<'s> Rewriter<'s> {
    fn part(&mut self, part: Term<&'s str>) -> Term<&'s str> {
        let is_counted = self.counts_values && !is_single(&part);
        let part = self.term(part);
        if is_counted { pipe(part, call(STEP, [])) } else { part }
    }

    fn definition(&mut self, definition: Def<&'s str>) -> Def<&'s str> {
        self.enclosing.push((definition.name, definition.args.len()));
        let body = self.part(definition.body);
        self.enclosing.pop();
        Def { body, ..definition }
    }

    fn term(&mut self, term: Term<&'s str>) -> Term<&'s str> {
        match term {
            Term::Def(definitions, inner) => {
                let definitions =
                    definitions.into_iter().map(|definition| self.definition(definition)).collect();
                return Term::Def(definitions, Box::new(self.part(*inner)));
            }
            Term::Call(name, ref arguments) if self.enclosing.contains(&(name, arguments.len())) => {
                self.calls_itself.get_or_insert(name);
            }
            _ => {}
        }
        match with_parts(term, &mut |part| self.part(part)) {
            Term::BinOp(left, operator, right) => bounded_operation(*left, operator, *right),
            Term::Fold(name, over, pattern, rest) => {
                // The first part is the initial value, the second one the round.
                let counted = |(index, term)| if index == 1 { call(ROUND, [term]) } else { term };
                Term::Fold(name, over, pattern, rest.into_iter().enumerate().map(counted).collect())
            }
            Term::Arr(Some(inner)) => Term::Arr(Some(Box::new(each(*inner, STORED)))),
            Term::Obj(members) => {
                let members = members.into_iter().map(|(key, value)| (key, value.map(stored)));
                Term::Obj(members.collect())
            }
            Term::Str(format, parts) => {
                let written = |part| match part {
                    StrPart::Term(term) => StrPart::Term(pipe(term, call(WRITTEN, []))),
                    other => other,
                };
                Term::Str(format, parts.into_iter().map(written).collect())
            }
            Term::Recurse => pipe(Term::Recurse, call(STEP, [])),
            other => other,
        }
    }
}

fn bounded_operation<'s>(
    left: Term<&'s str>,
    operator: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Term<&'s str> {
    let function = |math: Math| match math {
        Math::Add => SUM,
        Math::Sub => DIFFERENCE,
        Math::Mul => PRODUCT,
        Math::Div | Math::Rem => QUOTIENT,
    };
    let (left, right) = match operator {
        // The result of `%` is small.
        BinaryOp::Math(Math::Rem) | BinaryOp::UpdateMath(Math::Rem) => (left, right),
        // jq evaluates every right operand with each left one, not the other way round.
        BinaryOp::Math(math) => return call(function(math), [as_one(right), as_one(left)]),
        // `l += r` is `r as $r | l |= . + $r`.
        BinaryOp::UpdateMath(math) => {
            const RIGHT: &str = "$!right";
            let change = call(function(math), [Term::Var(RIGHT), Term::Id]);
            let update = Term::BinOp(Box::new(left), BinaryOp::Update, Box::new(change));
            let bind = BinaryOp::Pipe(Some(Pattern::Var(RIGHT)));
            return Term::BinOp(Box::new(as_one(right)), bind, Box::new(update));
        }
        BinaryOp::Pipe(Some(_)) => (stored(left), right),
        BinaryOp::Assign | BinaryOp::UpdateAlt => (left, stored(right)),
        // A value that is updated in place was counted when it was stored.
        BinaryOp::Update if is_single(&left) && is_change(&right) => (left, right),
        BinaryOp::Update => (left, each(right, STORED)),
        // A comparison reads two values only up to the size of the smaller one.
        BinaryOp::Cmp(_) if !is_simple(&left) && !is_simple(&right) => (left, each(right, READ)),
        BinaryOp::Pipe(None)
        | BinaryOp::Comma
        | BinaryOp::Alt
        | BinaryOp::Or
        | BinaryOp::And
        | BinaryOp::Cmp(_) => (left, right),
    };
    Term::BinOp(Box::new(left), operator, Box::new(right))
}

pub(super) fn pipe<'s>(left: Term<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

/// Pipes each value of a term through a function, which replaces a counter of steps.
fn each<'s>(term: Term<&'s str>, function: &'static str) -> Term<&'s str> {
    let term = match term {
        Term::BinOp(left, BinaryOp::Pipe(None), right) if matches!(*right, Term::Call(STEP, _)) => *left,
        other => other,
    };
    pipe(term, call(function, []))
}

/// A term whose values are stored.
fn stored(term: Term<&str>) -> Term<&str> {
    if makes_nothing(&term) { term } else { each(term, STORED) }
}

/// A term that the engine knows to have one value, if it does.
fn as_one(term: Term<&str>) -> Term<&str> {
    if is_single(&term) { term } else { call(ONE, [term]) }
}

/// Whether the values of a term exist already, or were counted when created.
fn makes_nothing(term: &Term<&str>) -> bool {
    match term {
        Term::Id | Term::Num(_) | Term::Var(_) | Term::Arr(_) => true,
        Term::Str(_, parts) => parts.iter().all(|part| !matches!(part, StrPart::Term(_))),
        Term::Path(root, Path(parts)) => {
            let is_index =
                |part: &Part<Term<&str>>| matches!(part, Part::Index(index) if makes_nothing(index));
            makes_nothing(root) && parts.iter().all(|(part, _)| is_index(part))
        }
        Term::BinOp(_, BinaryOp::Cmp(_) | BinaryOp::And | BinaryOp::Or, _) => true,
        term => is_operation(term),
    }
}

/// Whether a term is an operator that counts its result.
fn is_operation(term: &Term<&str>) -> bool {
    matches!(term, Term::Call(name, _) if [SUM, DIFFERENCE, PRODUCT, QUOTIENT].contains(name))
}

/// Whether a term changes a part of its input.
fn is_change(term: &Term<&str>) -> bool {
    is_operation(term) || makes_nothing(term) || matches!(term, Term::BinOp(_, BinaryOp::Update, _))
}

/// Whether a term is a scalar or empty, so that a comparison with it reads little.
fn is_simple(term: &Term<&str>) -> bool {
    match term {
        Term::Num(_) | Term::Arr(None) => true,
        Term::Neg(inner) => is_simple(inner),
        Term::Obj(members) => members.is_empty(),
        Term::Str(_, parts) => parts.iter().all(|part| !matches!(part, StrPart::Term(_))),
        Term::Call(name, arguments) => {
            arguments.is_empty() && ["true", "false", "null", "length", "type"].contains(name)
        }
        _ => false,
    }
}

/// Whether a term has at most one value, by its syntax.
fn is_single(term: &Term<&str>) -> bool {
    match term {
        Term::Id | Term::Num(_) | Term::Var(_) | Term::Arr(_) | Term::Break(_) => true,
        Term::Str(_, parts) => parts.iter().all(|part| match part {
            StrPart::Term(term) => is_single(term),
            StrPart::Str(_) | StrPart::Char(_) => true,
        }),
        Term::Obj(members) => {
            members.iter().all(|(key, value)| is_single(key) && value.as_ref().is_none_or(is_single))
        }
        Term::Neg(inner) => is_single(inner),
        Term::BinOp(_, BinaryOp::Comma, _) => false,
        Term::BinOp(left, _, right) => is_single(left) && is_single(right),
        Term::Path(root, Path(parts)) => {
            is_single(root)
                && parts.iter().all(|(part, _)| match part {
                    Part::Index(index) => is_single(index),
                    // `.[]`
                    Part::Range(None, None) => false,
                    Part::Range(from, to) => from.iter().chain(to).all(is_single),
                })
        }
        Term::Recurse
        | Term::Label(..)
        | Term::Fold(..)
        | Term::TryCatch(..)
        | Term::IfThenElse(..)
        | Term::Def(..)
        | Term::Call(..) => false,
    }
}

pub(super) fn call<'s>(
    name: &'static str,
    arguments: impl IntoIterator<Item = Term<&'s str>>,
) -> Term<&'s str> {
    Term::Call(name, arguments.into_iter().collect())
}

/// Collects the names that a term calls, formats such as `@csv` included.
pub(super) fn collect_calls<'s>(term: &Term<&'s str>, found: &mut Vec<&'s str>) {
    fn walk<'s>(term: Term<&'s str>, found: &mut Vec<&'s str>) -> Term<&'s str> {
        match term {
            Term::Call(name, _) | Term::Str(Some(name), _) => found.push(name),
            _ => {}
        }
        with_parts(term, &mut |part| walk(part, found))
    }
    walk(term.clone(), found);
}

/// Replaces each part of a term.
fn with_parts<'s>(
    term: Term<&'s str>,
    change: &mut dyn FnMut(Term<&'s str>) -> Term<&'s str>,
) -> Term<&'s str> {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => term,
        Term::Str(format, parts) => {
            let part = |part| match part {
                StrPart::Term(term) => StrPart::Term(change(term)),
                StrPart::Str(text) => StrPart::Str(text),
                StrPart::Char(character) => StrPart::Char(character),
            };
            Term::Str(format, parts.into_iter().map(part).collect())
        }
        Term::Arr(inner) => Term::Arr(inner.map(|inner| Box::new(change(*inner)))),
        Term::Obj(members) => {
            let members = members.into_iter();
            Term::Obj(members.map(|(key, value)| (change(key), value.map(&mut *change))).collect())
        }
        Term::Neg(inner) => Term::Neg(Box::new(change(*inner))),
        Term::BinOp(left, operator, right) => {
            let operator = match operator {
                BinaryOp::Pipe(pattern) => {
                    BinaryOp::Pipe(pattern.map(|pattern| pattern_with_parts(pattern, change)))
                }
                other => other,
            };
            Term::BinOp(Box::new(change(*left)), operator, Box::new(change(*right)))
        }
        Term::Label(label, inner) => Term::Label(label, Box::new(change(*inner))),
        Term::Fold(name, over, pattern, rest) => {
            let over = Box::new(change(*over));
            let pattern = pattern_with_parts(pattern, change);
            Term::Fold(name, over, pattern, rest.into_iter().map(change).collect())
        }
        Term::TryCatch(tried, caught) => {
            Term::TryCatch(Box::new(change(*tried)), caught.map(|caught| Box::new(change(*caught))))
        }
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches.into_iter().map(|(condition, then)| (change(condition), change(then)));
            Term::IfThenElse(branches.collect(), otherwise.map(|otherwise| Box::new(change(*otherwise))))
        }
        Term::Def(definitions, inner) => {
            let definitions = definitions.into_iter().map(|def| Def { body: change(def.body), ..def });
            Term::Def(definitions.collect(), Box::new(change(*inner)))
        }
        Term::Call(name, arguments) => Term::Call(name, arguments.into_iter().map(change).collect()),
        Term::Path(root, Path(parts)) => {
            let root = Box::new(change(*root));
            let mut part = |part| match part {
                Part::Index(index) => Part::Index(change(index)),
                Part::Range(from, to) => Part::Range(from.map(&mut *change), to.map(&mut *change)),
            };
            let parts = parts.into_iter().map(|(inner, optional)| (part(inner), optional)).collect();
            Term::Path(root, Path(parts))
        }
    }
}

fn pattern_with_parts<'s>(
    pattern: Pattern<&'s str>,
    change: &mut dyn FnMut(Term<&'s str>) -> Term<&'s str>,
) -> Pattern<&'s str> {
    match pattern {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(parts) => {
            Pattern::Arr(parts.into_iter().map(|part| pattern_with_parts(part, change)).collect())
        }
        Pattern::Obj(parts) => {
            let part = |(key, part)| (change(key), pattern_with_parts(part, change));
            Pattern::Obj(parts.into_iter().map(part).collect())
        }
    }
}
