//! Counts the values of every term of a filter that may have several.
//!
//! Each is one step of the run. So a list is gone through freely, and crossing one with another ends in time.

use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Term},
    },
    path::{Part, Path},
};

use super::{
    functions::STEP,
    parts::{call, with_parts},
};

/// A written filter with its steps counted.
///
/// Not for the standard library: its loops call themselves last, which they would not any more.
pub(super) fn stepwise(term: Term<&str>) -> Term<&str> {
    with_parts(term, &mut |part| stepped(stepwise(part)))
}

fn stepped(term: Term<&str>) -> Term<&str> {
    match is_single(&term) {
        true => term,
        false => Term::BinOp(Box::new(term), BinaryOp::Pipe(None), Box::new(call(STEP, []))),
    }
}

/// Whether a term has one value at most, as far as its form tells.
pub(super) fn is_single(term: &Term<&str>) -> bool {
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
