//! Filters whose loops, sums and products are counted: each asks the functions of `bounds` first.

use jaq_core::{
    load::parse::{BinaryOp, Def, Pattern, Term},
    ops::Math,
};

use super::{
    bounds::{PRODUCT, SUM, TICK},
    parts::{call, pattern_with_parts, with_parts},
};

/// How many rounds of another loop one of `reduce` and `foreach` is worth.
const FOLD_COST: usize = 4;
/// Loops of the standard library, with how many arguments; each round is a call of the inner `rec`.
const LOOPS: [(&str, usize); 5] = [("range", 3), ("recurse", 1), ("repeat", 1), ("until", 2), ("while", 2)];

/// A definition of the standard library with its loops counted.
pub(super) fn bounded_definition<'s>(definition: Def<&'static str>) -> Def<&'s str> {
    let is_loop = LOOPS.contains(&(definition.name, definition.args.len()));
    let mut body = bounded(definition.body);
    if is_loop && let Term::Def(inner, _) = &mut body {
        for rec in inner {
            rec.body = ticked(std::mem::take(&mut rec.body));
        }
    }
    Def { body, ..definition }
}

/// A filter with its sums and products counted.
pub(super) fn bounded(term: Term<&str>) -> Term<&str> {
    match term {
        Term::BinOp(left, operator, right) => bounded_operation(bounded(*left), operator, bounded(*right)),
        Term::Fold(..) => match with_parts(term, &mut bounded) {
            Term::Fold(name, over, pattern, rest) => {
                // The first is where it begins, the second one round.
                // It may put the value one deeper, which costs stack when the value goes: so it counts for more.
                let counted = |(index, term)| {
                    if index == 1 { (0..FOLD_COST).fold(term, |term, _| ticked(term)) } else { term }
                };
                Term::Fold(name, over, pattern, rest.into_iter().enumerate().map(counted).collect())
            }
            other => other,
        },
        other => with_parts(other, &mut bounded),
    }
}

fn bounded_operation<'s>(
    left: Term<&'s str>,
    operator: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Term<&'s str> {
    let function = |math: Math| match math {
        Math::Add => Some(SUM),
        Math::Mul => Some(PRODUCT),
        Math::Sub | Math::Div | Math::Rem => None,
    };
    let operator = match operator {
        BinaryOp::Math(math) => match function(math) {
            // jq tries every right side with each left one, not the other way round.
            Some(name) => return call(name, [right, left]),
            None => BinaryOp::Math(math),
        },
        BinaryOp::UpdateMath(math) => match function(math) {
            // `l += r` is `r as $r | l |= . + $r`.
            Some(name) => {
                const RIGHT: &str = "$!right";
                let change = call(name, [Term::Var(RIGHT), Term::Id]);
                let update = Term::BinOp(Box::new(left), BinaryOp::Update, Box::new(change));
                return Term::BinOp(
                    Box::new(right),
                    BinaryOp::Pipe(Some(Pattern::Var(RIGHT))),
                    Box::new(update),
                );
            }
            None => BinaryOp::UpdateMath(math),
        },
        BinaryOp::Pipe(pattern) => {
            BinaryOp::Pipe(pattern.map(|pattern| pattern_with_parts(pattern, &mut bounded)))
        }
        other => other,
    };
    Term::BinOp(Box::new(left), operator, Box::new(right))
}

/// One round of a loop.
fn ticked(round: Term<&str>) -> Term<&str> {
    Term::BinOp(Box::new(call(TICK, [])), BinaryOp::Pipe(None), Box::new(round))
}
