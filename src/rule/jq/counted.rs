//! Filters that count what they do: every loop, operator and value that is kept or read as a whole asks a function of ours.

use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    ops::Math,
    path::{Part, Path},
};

use super::{
    functions::{DIFFERENCE, KEPT, ONE, PRODUCT, QUOTIENT, READ, ROUND, STEP, SUM, TICK, WRITTEN},
    parts::{call, with_parts},
    steps::is_single,
};

/// Loops of the standard library, with how many arguments; each round is a call of the inner `rec`.
const LOOPS: [(&str, usize); 5] = [("range", 3), ("recurse", 1), ("repeat", 1), ("until", 2), ("while", 2)];

/// A definition of the standard library that counts.
pub(super) fn bounded_definition<'s>(definition: Def<&'static str>) -> Def<&'s str> {
    let is_loop = LOOPS.contains(&(definition.name, definition.args.len()));
    let mut body = bounded(definition.body);
    if is_loop && let Term::Def(inner, _) = &mut body {
        for rec in inner {
            rec.body = pipe(call(TICK, []), std::mem::take(&mut rec.body));
        }
    }
    Def { body, ..definition }
}

/// A filter that counts.
pub(super) fn bounded(term: Term<&str>) -> Term<&str> {
    match with_parts(term, &mut bounded) {
        Term::BinOp(left, operator, right) => bounded_operation(*left, operator, *right),
        Term::Fold(name, over, pattern, rest) => {
            // The first is where it begins, the second one round.
            let counted = |(index, term)| if index == 1 { call(ROUND, [term]) } else { term };
            Term::Fold(name, over, pattern, rest.into_iter().enumerate().map(counted).collect())
        }
        Term::Arr(Some(inner)) => Term::Arr(Some(Box::new(each(*inner, KEPT)))),
        Term::Obj(members) => {
            let members = members.into_iter().map(|(key, value)| (key, value.map(kept)));
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

fn bounded_operation<'s>(
    left: Term<&'s str>,
    operator: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Term<&'s str> {
    let function = |math: Math| match math {
        Math::Add => Some(SUM),
        Math::Sub => Some(DIFFERENCE),
        Math::Mul => Some(PRODUCT),
        Math::Div => Some(QUOTIENT),
        Math::Rem => None,
    };
    let (left, right) = match operator {
        BinaryOp::Math(math) => match function(math) {
            // jq tries every right side with each left one, not the other way round.
            Some(name) => return call(name, [as_one(right), as_one(left)]),
            None => (left, right),
        },
        BinaryOp::UpdateMath(math) => match function(math) {
            // `l += r` is `r as $r | l |= . + $r`.
            Some(name) => {
                const RIGHT: &str = "$!right";
                let change = call(name, [Term::Var(RIGHT), Term::Id]);
                let update = Term::BinOp(Box::new(left), BinaryOp::Update, Box::new(change));
                let bind = BinaryOp::Pipe(Some(Pattern::Var(RIGHT)));
                return Term::BinOp(Box::new(as_one(right)), bind, Box::new(update));
            }
            None => (left, right),
        },
        BinaryOp::Pipe(Some(_)) => (kept(left), right),
        BinaryOp::Assign | BinaryOp::UpdateAlt => (left, kept(right)),
        // What is changed where it is was counted when it was kept.
        BinaryOp::Update if is_single(&left) && is_change(&right) => (left, right),
        BinaryOp::Update => (left, each(right, KEPT)),
        // Two values are alike as far as the smaller one goes.
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

fn pipe<'s>(left: Term<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

/// A term each of whose values goes through a function; one that counts a step is not needed any more then.
fn each<'s>(term: Term<&'s str>, function: &'static str) -> Term<&'s str> {
    match term {
        Term::BinOp(left, BinaryOp::Pipe(None), right) if matches!(&*right, Term::Call(name, arguments) if *name == STEP && arguments.is_empty()) => {
            pipe(*left, call(function, []))
        }
        other => pipe(other, call(function, [])),
    }
}

/// A term whose values are kept.
fn kept(term: Term<&str>) -> Term<&str> {
    if makes_nothing(&term) { term } else { each(term, KEPT) }
}

/// A term that the engine knows to have one value, where it has.
fn as_one(term: Term<&str>) -> Term<&str> {
    if is_single(&term) { term } else { call(ONE, [term]) }
}

/// Whether the values of a term are there already, or were counted when they were made.
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

/// Whether a term is one of the operators that count what they make.
fn is_operation(term: &Term<&str>) -> bool {
    matches!(term, Term::Call(name, _) if [SUM, DIFFERENCE, PRODUCT, QUOTIENT].contains(name))
}

/// Whether a term changes a part of what it gets.
fn is_change(term: &Term<&str>) -> bool {
    is_operation(term) || makes_nothing(term) || matches!(term, Term::BinOp(_, BinaryOp::Update, _))
}

/// Whether a term is a value without parts, so that what is compared with it is not gone through.
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
