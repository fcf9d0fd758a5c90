//! Rewriter of jq filters: inserts calls of counting functions at every loop and operator, and at every value
//! that is stored or read completely.
//!
//! In reading order:
//!
//! - [`rewrite`] rewrites a configured filter. It also counts each value of a term that may have several. So
//!   a filter can iterate over a long list, but a cross product of lists exceeds the limit and ends.
//! - [`bounded_definition`] rewrites the standard library. It does not count the values of terms: the loops
//!   of the library would no longer be tail calls.
//! - [`parts`] is the common traversal of terms.

use std::{iter::once, mem::take};

use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    ops::Math,
    path::{Part, Path},
};

use super::JqError;
use super::functions::{
    DIFFERENCE, FOLD_ROUND, LOOP_ROUND, ONE, PRODUCT, QUOTIENT, READ, STEP, STORED, SUM, WRITTEN,
};

/// Rewrites a configured filter.
///
/// # Errors
///
/// [`JqError`] for a recursive definition, which only the size of the stack would bound.
pub(super) fn rewrite(term: &mut Term<&str>) -> Result<(), JqError> {
    let mut rewriter = Rewriter { counts_values: true, enclosing: Vec::new(), recursive_definition: None };
    rewriter.rewrite_term(term);
    match rewriter.recursive_definition {
        None => Ok(()),
        Some(name) => Err(JqError::new(format!(
            "`{name}` calls itself, but recursive definitions are not supported; use `recurse` or `reduce`"
        ))),
    }
}

/// Assignment operator, if a term returns the result of an assignment, or has an assignment as an operand of
/// `and` or `or`.
pub(super) fn assignment(term: &Term<&str>) -> Option<String> {
    let Term::BinOp(left, operator, right) = term else { return None };
    match operator {
        BinaryOp::Assign => Some("=".to_owned()),
        BinaryOp::Update => Some("|=".to_owned()),
        BinaryOp::UpdateAlt => Some("//=".to_owned()),
        BinaryOp::UpdateMath(math) => Some(format!("{}=", math.as_str())),
        BinaryOp::Pipe(_) => assignment(right),
        BinaryOp::And | BinaryOp::Or => assignment(left).or_else(|| assignment(right)),
        BinaryOp::Comma | BinaryOp::Alt | BinaryOp::Math(_) | BinaryOp::Cmp(_) => None,
    }
}

/// Loops of the standard library, with their numbers of arguments. Each round is a call of their inner `rec`.
const LOOPS: [(&str, usize); 5] = [("range", 3), ("recurse", 1), ("repeat", 1), ("until", 2), ("while", 2)];

/// Rewrites a definition of the standard library.
pub(super) fn bounded_definition(mut definition: Def<&str>) -> Def<&str> {
    let is_loop = LOOPS.contains(&(definition.name, definition.args.len()));
    let mut rewriter = Rewriter { counts_values: false, enclosing: Vec::new(), recursive_definition: None };
    rewriter.rewrite_term(&mut definition.body);
    if is_loop && let Term::Def(inner, _) = &mut definition.body {
        for rec in inner {
            rec.body = pipe(call(LOOP_ROUND, []), take(&mut rec.body));
        }
    }
    definition
}

/// Inserts counters of loops, operators and stored values. Also finds recursive definitions.
struct Rewriter<'s> {
    /// Whether each value of a term that may have several is counted.
    counts_values: bool,
    /// Enclosing definitions, with their numbers of arguments.
    enclosing: Vec<(&'s str, usize)>,
    /// Name of the first recursive definition.
    recursive_definition: Option<&'s str>,
}

impl<'s> Rewriter<'s> {
    fn rewrite_part(&mut self, part: &mut Term<&'s str>) {
        let is_counted = self.counts_values && !is_single(part);
        self.rewrite_term(part);
        if is_counted {
            *part = pipe(take(part), call(STEP, []));
        }
    }

    fn rewrite_term(&mut self, term: &mut Term<&'s str>) {
        match term {
            Term::Def(definitions, inner) => {
                for definition in definitions {
                    self.enclosing.push((definition.name, definition.args.len()));
                    self.rewrite_part(&mut definition.body);
                    self.enclosing.pop();
                }
                return self.rewrite_part(inner);
            }
            Term::Call(name, arguments) if self.enclosing.contains(&(*name, arguments.len())) => {
                self.recursive_definition.get_or_insert(*name);
            }
            _ => {}
        }
        parts(term).into_iter().for_each(|part| self.rewrite_part(part));
        match term {
            Term::BinOp(..) => bound_operation(term),
            // The first part is the initial value, the second part is the expression of each round.
            Term::Fold(.., rest) => {
                if let Some(round) = rest.get_mut(1) {
                    *round = pipe(call(FOLD_ROUND, []), call(ONE, [take(round)]));
                }
            }
            Term::Arr(Some(inner)) => pipe_values_through(inner, STORED),
            Term::Obj(members) => members.iter_mut().flat_map(|(_, value)| value).for_each(count_stored),
            Term::Str(_, parts) => {
                interpolated_terms(parts).for_each(|term| pipe_values_through(term, WRITTEN))
            }
            Term::Recurse => pipe_values_through(term, STEP),
            _ => {}
        }
    }
}

fn bound_operation(term: &mut Term<&str>) {
    let function = |math: &Math| match math {
        Math::Add => SUM,
        Math::Sub => DIFFERENCE,
        Math::Mul => PRODUCT,
        Math::Div | Math::Rem => QUOTIENT,
    };
    let Term::BinOp(left, operator, right) = term else { return };
    match operator {
        // The result of `%` is small, so it is not counted.
        BinaryOp::Math(Math::Rem) | BinaryOp::UpdateMath(Math::Rem) => {}
        // jq iterates over the right operand in the outer loop, and over the left one in the inner loop.
        BinaryOp::Math(math) => {
            *term = call(function(math), [mark_unless_single(take(right)), mark_unless_single(take(left))])
        }
        // `l += r` is `r as $r | l |= . + $r`.
        BinaryOp::UpdateMath(math) => {
            const RIGHT: &str = "$!right";
            let change = call(function(math), [Term::Var(RIGHT), Term::Id]);
            let update = Term::BinOp(take(left), BinaryOp::Update, Box::new(change));
            let bind = BinaryOp::Pipe(Some(Pattern::Var(RIGHT)));
            *term = Term::BinOp(Box::new(mark_unless_single(take(right))), bind, Box::new(update));
        }
        BinaryOp::Pipe(Some(_)) => count_stored(left),
        BinaryOp::Assign | BinaryOp::UpdateAlt => count_stored(right),
        // A value that is changed in place was counted when it was stored.
        BinaryOp::Update if is_single(left) && is_counted_already(right) => {}
        BinaryOp::Update => pipe_values_through(right, STORED),
        // A comparison reads two values only up to the size of the smaller one.
        BinaryOp::Cmp(_) if !is_simple(left) && !is_simple(right) => pipe_values_through(right, READ),
        BinaryOp::Pipe(None)
        | BinaryOp::Comma
        | BinaryOp::Alt
        | BinaryOp::Or
        | BinaryOp::And
        | BinaryOp::Cmp(_) => {}
    }
}

pub(super) fn pipe<'s>(left: Term<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

/// Pipes each value of a term through a function. A step counter at the end of the term is replaced.
fn pipe_values_through(term: &mut Term<&str>, function: &'static str) {
    match term {
        Term::BinOp(_, BinaryOp::Pipe(None), counter) if matches!(**counter, Term::Call(STEP, _)) => {
            **counter = call(function, []);
        }
        _ => *term = pipe(take(term), call(function, [])),
    }
}

/// Counts the values of a term as stored, unless they exist already.
fn count_stored(term: &mut Term<&str>) {
    if !creates_no_value(term) {
        pipe_values_through(term, STORED);
    }
}

/// Returns the term itself if it can have only one value; otherwise a call of [`ONE`], which tells the engine
/// whether another value follows.
fn mark_unless_single(term: Term<&str>) -> Term<&str> {
    if is_single(&term) { term } else { call(ONE, [term]) }
}

/// Whether a term creates no value: its values exist already, or were counted when they were created.
fn creates_no_value(term: &Term<&str>) -> bool {
    match term {
        Term::Id | Term::Num(_) | Term::Var(_) | Term::Arr(_) => true,
        Term::Str(_, parts) => parts.iter().all(|part| !matches!(part, StrPart::Term(_))),
        Term::Path(root, Path(parts)) => {
            let is_index =
                |part: &Part<Term<&str>>| matches!(part, Part::Index(index) if creates_no_value(index));
            creates_no_value(root) && parts.iter().all(|(part, _)| is_index(part))
        }
        Term::BinOp(_, BinaryOp::Cmp(_) | BinaryOp::And | BinaryOp::Or, _) => true,
        term => is_operation(term),
    }
}

/// Whether a term is an operator that counts its result.
fn is_operation(term: &Term<&str>) -> bool {
    matches!(term, Term::Call(name, _) if [SUM, DIFFERENCE, PRODUCT, QUOTIENT].contains(name))
}

/// Whether the values of a term are counted already, or are its input changed in place.
fn is_counted_already(term: &Term<&str>) -> bool {
    is_operation(term) || creates_no_value(term) || matches!(term, Term::BinOp(_, BinaryOp::Update, _))
}

/// Whether a term is a scalar or empty, so that a comparison with it reads little of the other value.
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

/// Whether the syntax of a term shows that it has at most one value.
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

/// Collects the names that a term calls, including formats such as `@csv`.
pub(super) fn collect_calls<'s>(term: &mut Term<&'s str>, found: &mut Vec<&'s str>) {
    if let Term::Call(name, _) | Term::Str(Some(name), _) = term {
        found.push(name);
    }
    parts(term).into_iter().for_each(|part| collect_calls(part, found));
}

/// Terms directly inside another term.
fn parts<'t, 's>(term: &'t mut Term<&'s str>) -> Vec<&'t mut Term<&'s str>> {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => Vec::new(),
        Term::Str(_, parts) => interpolated_terms(parts).collect(),
        Term::Arr(inner) => inner.as_deref_mut().into_iter().collect(),
        Term::Obj(members) => members.iter_mut().flat_map(|(key, value)| once(key).chain(value)).collect(),
        Term::Neg(inner) | Term::Label(_, inner) => vec![inner],
        Term::BinOp(left, operator, right) => {
            let keys = if let BinaryOp::Pipe(Some(pattern)) = operator { keys(pattern) } else { Vec::new() };
            [&mut **left, right].into_iter().chain(keys).collect()
        }
        Term::Fold(_, source, pattern, rest) => {
            once(&mut **source).chain(keys(pattern)).chain(rest).collect()
        }
        Term::TryCatch(tried, caught) => once(&mut **tried).chain(caught.as_deref_mut()).collect(),
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches.iter_mut().flat_map(|(condition, then)| [condition, then]);
            branches.chain(otherwise.as_deref_mut()).collect()
        }
        Term::Def(definitions, inner) => {
            definitions.iter_mut().map(|definition| &mut definition.body).chain([&mut **inner]).collect()
        }
        Term::Call(_, arguments) => arguments.iter_mut().collect(),
        Term::Path(root, Path(parts)) => {
            let inner_terms = parts.iter_mut().flat_map(|(part, _)| match part {
                Part::Index(index) => vec![index],
                Part::Range(from, to) => from.iter_mut().chain(to).collect(),
            });
            once(&mut **root).chain(inner_terms).collect()
        }
    }
}

/// Terms inside an interpolated string.
fn interpolated_terms<'t, 's>(
    parts: &'t mut [StrPart<&'s str, Term<&'s str>>],
) -> impl Iterator<Item = &'t mut Term<&'s str>> {
    parts.iter_mut().filter_map(|part| match part {
        StrPart::Term(term) => Some(term),
        StrPart::Str(_) | StrPart::Char(_) => None,
    })
}

/// Terms of the keys in a pattern such as `{a: $x}`.
fn keys<'t, 's>(pattern: &'t mut Pattern<&'s str>) -> Vec<&'t mut Term<&'s str>> {
    match pattern {
        Pattern::Var(_) => Vec::new(),
        Pattern::Arr(parts) => parts.iter_mut().flat_map(keys).collect(),
        Pattern::Obj(parts) => parts.iter_mut().flat_map(|(key, part)| once(key).chain(keys(part))).collect(),
    }
}
