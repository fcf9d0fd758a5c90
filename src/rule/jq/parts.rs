//! The parts of terms: visited, or replaced.

use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    path::{Part, Path},
};

pub(super) fn call<'s>(
    name: &'static str,
    arguments: impl IntoIterator<Item = Term<&'s str>>,
) -> Term<&'s str> {
    Term::Call(name, arguments.into_iter().collect())
}

/// Visits each part of a term, in the order in which it is written; not the parts of its parts.
pub(super) fn each_part<'t, 's>(term: &'t Term<&'s str>, visit: &mut dyn FnMut(&'t Term<&'s str>)) {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => {}
        Term::Str(_, parts) => parts.iter().for_each(|part| match part {
            StrPart::Term(term) => visit(term),
            StrPart::Str(_) | StrPart::Char(_) => {}
        }),
        Term::Arr(inner) => inner.iter().for_each(|inner| visit(inner)),
        Term::Obj(members) => members.iter().for_each(|(key, value)| {
            visit(key);
            value.iter().for_each(&mut *visit);
        }),
        Term::Neg(inner) | Term::Label(_, inner) => visit(inner),
        Term::BinOp(left, operator, right) => {
            visit(left);
            if let BinaryOp::Pipe(Some(pattern)) = operator {
                each_part_of_pattern(pattern, visit);
            }
            visit(right);
        }
        Term::Fold(_, over, pattern, rest) => {
            visit(over);
            each_part_of_pattern(pattern, visit);
            rest.iter().for_each(visit);
        }
        Term::TryCatch(tried, caught) => {
            visit(tried);
            caught.iter().for_each(|caught| visit(caught));
        }
        Term::IfThenElse(branches, otherwise) => {
            branches.iter().for_each(|(condition, then)| {
                visit(condition);
                visit(then);
            });
            otherwise.iter().for_each(|otherwise| visit(otherwise));
        }
        Term::Def(definitions, inner) => {
            definitions.iter().for_each(|definition| visit(&definition.body));
            visit(inner);
        }
        Term::Call(_, arguments) => arguments.iter().for_each(visit),
        Term::Path(root, Path(parts)) => {
            visit(root);
            parts.iter().for_each(|(part, _)| match part {
                Part::Index(index) => visit(index),
                Part::Range(from, to) => from.iter().chain(to).for_each(&mut *visit),
            });
        }
    }
}

fn each_part_of_pattern<'t, 's>(pattern: &'t Pattern<&'s str>, visit: &mut dyn FnMut(&'t Term<&'s str>)) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(parts) => parts.iter().for_each(|part| each_part_of_pattern(part, visit)),
        Pattern::Obj(parts) => parts.iter().for_each(|(key, part)| {
            visit(key);
            each_part_of_pattern(part, visit);
        }),
    }
}

/// A term with something else in the place of each of its parts.
pub(super) fn with_parts<'s>(
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

pub(super) fn pattern_with_parts<'s>(
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
