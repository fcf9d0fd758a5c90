//! What keeps a filter from running, or growing, without end on a reply that was made for that.
//!
//! jq has loops and recursion, and `+` and `*` make values as large as their operands say: `.price * .count` on
//! `{"price": "x", "count": 1e12}` would be a terabyte of text. The engine has no limits of its own, so they are
//! put into the filter before it is compiled: every round of a loop and every sum or product spends some of
//! the work that one run may do. Where one thing is done for each of several values (`.[] as $a | .[] as $b | …`),
//! each of them is a step, of which there are many more, so that lists can be long and still not be crossed at will.

use std::cell::Cell;

use jaq_core::{
    Exn, Lut, Native, ValX,
    data::{DataT, HasLut},
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    native::{Fun, bome, v},
    ops::Math,
    path::{Part, Path},
};
use jaq_json::{Error, Num, Val};

use super::JqError;
use crate::{
    rule::stop::{STOPPED, Stop},
    tool::JsonText,
};

/// How much work one run may do: rounds of loops, sums, products.
// A tenth in unit tests: a debug build takes ten times as long for it.
const WORK_LIMIT: u64 = if cfg!(test) { 100_000 } else { 1_000_000 };
/// How many steps one run may take: values of a term that may have several.
// Less in unit tests, as above.
const STEP_LIMIT: u64 = if cfg!(test) { 200_000 } else { 20_000_000 };
/// How large a sum or product may be, in bytes or elements.
const VALUE_LIMIT: usize = 64 << 20;

/// How large a whole number may be, in bytes: some ten thousand digits.
const NUMBER_LIMIT_BYTES: usize = 4 << 10;

/// The engine's data: the filter's table, and how the run stands.
#[derive(Clone)]
pub(super) struct Bounded<'a> {
    pub(super) table: &'a Lut<Kind>,
    pub(super) spent: &'a Spent,
}

/// How one run stands.
pub(super) struct Spent {
    work_left: Cell<u64>,
    steps_left: Cell<u64>,
    /// What the filter itself raised last, with `error(…)`; it may have been caught since.
    pub(super) raised: Cell<Option<Val>>,
    /// What ends the run when nobody waits any more: a round may copy all that the rounds before have made.
    stop: Option<Stop>,
}

impl Spent {
    /// Nothing yet.
    pub(super) fn until(stop: Option<&Stop>) -> Self {
        Self {
            work_left: Cell::new(WORK_LIMIT),
            steps_left: Cell::new(STEP_LIMIT),
            raised: Cell::new(None),
            stop: stop.cloned(),
        }
    }
}

/// Values are the JSON of `jaq`, data is [`Bounded`].
pub(super) struct Kind;

impl DataT for Kind {
    type V<'a> = Val;
    type Data<'a> = Bounded<'a>;
}

impl<'a> HasLut<'a, Kind> for Bounded<'a> {
    fn lut(&self) -> &'a Lut<Kind> {
        self.table
    }
}

impl Bounded<'_> {
    fn spend(&self, work: u64) -> Result<(), Error> {
        self.take(&self.spent.work_left, work)
    }

    fn step(&self) -> Result<(), Error> {
        self.take(&self.spent.steps_left, 1)
    }

    fn take(&self, left: &Cell<u64>, amount: u64) -> Result<(), Error> {
        if self.spent.stop.as_ref().is_some_and(Stop::is_asked) {
            left.set(0);
            return Err(Error::str(STOPPED));
        }
        let rest = left.get().checked_sub(amount);
        left.set(rest.unwrap_or(0));
        rest.map(|_| ()).ok_or_else(|| Error::str("the filter does too much work"))
    }
}

/// How many rounds of another loop one of `reduce` and `foreach` is worth.
const FOLD_COST: usize = 4;
const TICK: &str = "!tick";
/// A value of a term that may have several.
pub(super) const STEP: &str = "!step";
const SUM: &str = "!sum";
const PRODUCT: &str = "!product";
/// Loops of the standard library, with how many arguments; each round is a call of the inner `rec`.
const LOOPS: [(&str, usize); 5] = [("range", 3), ("recurse", 1), ("repeat", 1), ("until", 2), ("while", 2)];
/// Written in jq, so that its rounds are counted; the engine's own counts nothing.
pub(super) const RANGE: &str = "def range($from; $to; $by): \
     def rec: if ($by > 0 and . < $to) or ($by < 0 and . > $to) then ., (. + $by | rec) else {}[] end; $from | rec;";

/// `error` of a written filter, told apart from that of the standard library: its words are for clients.
pub(super) const RAISE: &str =
    "def error: raise_empty as $x | .; def error(message): (message | raise_empty) as $x | .;";

/// The engine's functions that have a bounded one in their place.
pub(super) const REPLACED: [&str; 2] = ["fromjson", "range"];

/// The functions behind the limits.
pub(super) fn functions() -> [Fun<Kind>; 6] {
    // Both are met in paths too, such as those of `recurse(.[]?) |= …` and `del(.[] | .a)`.
    let tick = Native::<Kind>::new(|cv| bome(cv.0.data().spend(1).map(|()| cv.1)))
        .with_paths(|cv| one(cv.0.data().spend(1).map(|()| cv.1)))
        .with_update(|cv, update| match cv.0.data().spend(1) {
            Ok(()) => update(cv.1),
            Err(error) => bome(Err(error)),
        });
    let step = Native::<Kind>::new(|cv| bome(cv.0.data().step().map(|()| cv.1)))
        .with_paths(|cv| one(cv.0.data().step().map(|()| cv.1)))
        .with_update(|cv, update| match cv.0.data().step() {
            Ok(()) => update(cv.1),
            Err(error) => bome(Err(error)),
        });
    [
        (TICK, v(0), tick),
        (STEP, v(0), step),
        // The engine's own parser takes a step down the stack for every bracket.
        jaq_core::native::run(("fromjson", v(0), |cv| bome(from_json(cv.1)))),
        jaq_core::native::run(("raise_empty", v(0), |cv| {
            cv.0.data().spent.raised.set(Some(cv.1.clone()));
            bome(Err(Error::new(cv.1)))
        })),
        jaq_core::native::run((SUM, v(2), |mut cv| {
            let (left, right) = (cv.0.pop_var(), cv.0.pop_var());
            let size = size(&left).saturating_add(size(&right));
            bome(
                cv.0.data()
                    .spend(1 + size_of_one(&right))
                    .and_then(|()| fits(size))
                    .and_then(|()| left + right),
            )
        })),
        jaq_core::native::run((PRODUCT, v(2), |mut cv| {
            let (left, right) = (cv.0.pop_var(), cv.0.pop_var());
            let size = product_size(&left, &right);
            bome(cv.0.data().spend(1).and_then(|()| fits(size)).and_then(|()| left * right))
        })),
    ]
}

fn one<'a, T: 'a>(result: Result<T, Error>) -> Box<dyn Iterator<Item = ValX<'a, T, Val>> + 'a> {
    Box::new(std::iter::once(result.map_err(Exn::from)))
}

fn from_json(value: Val) -> Result<Val, Error> {
    let Val::TStr(text) = &value else { return Err(Error::typ(value, "string")) };
    let json = JsonText::check(text).map_err(|error| Error::str(&error))?;
    jaq_json::read::parse_single(json.bytes()).map_err(|error| Error::str(&error))
}

fn fits(size: usize) -> Result<(), Error> {
    if size <= VALUE_LIMIT { Ok(()) } else { Err(Error::str("the filter makes too large a value")) }
}

/// The work of putting a value at the end of another.
fn size_of_one(value: &Val) -> u64 {
    (size(value) / 64) as u64
}

fn size(value: &Val) -> usize {
    match value {
        Val::Null | Val::Bool(_) => 1,
        // Arithmetic on large numbers costs more than their size.
        Val::Num(Num::BigInt(integer)) => {
            let bytes = usize::try_from(integer.bits() / 8).unwrap_or(usize::MAX);
            bytes.saturating_mul(VALUE_LIMIT / NUMBER_LIMIT_BYTES)
        }
        Val::Num(_) => 8,
        Val::BStr(bytes) | Val::TStr(bytes) => bytes.len(),
        Val::Arr(items) => items.len(),
        Val::Obj(members) => members.len(),
    }
}

fn product_size(left: &Val, right: &Val) -> usize {
    match (left, right) {
        (Val::BStr(text) | Val::TStr(text), Val::Num(times))
        | (Val::Num(times), Val::BStr(text) | Val::TStr(text)) => {
            let times = times.as_isize().map_or(usize::MAX, |times| usize::try_from(times).unwrap_or(0));
            text.len().saturating_mul(times)
        }
        _ => size(left).saturating_add(size(right)),
    }
}

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

pub(super) fn call<'s>(
    name: &'static str,
    arguments: impl IntoIterator<Item = Term<&'s str>>,
) -> Term<&'s str> {
    Term::Call(name, arguments.into_iter().collect())
}

/// Refuses a definition that calls itself: nothing but the stack would bound it.
///
/// # Errors
///
/// [`JqError`] names the definition.
pub(super) fn refuse_recursion(term: &Term<&str>) -> Result<(), JqError> {
    let mut enclosing = Vec::new();
    visit(term, &mut enclosing)
}

fn visit<'t>(term: &'t Term<&str>, enclosing: &mut Vec<(&'t str, usize)>) -> Result<(), JqError> {
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => Ok(()),
        Term::Str(_, parts) => parts.iter().try_for_each(|part| match part {
            StrPart::Term(term) => visit(term, enclosing),
            StrPart::Str(_) | StrPart::Char(_) => Ok(()),
        }),
        Term::Arr(inner) => inner.iter().try_for_each(|inner| visit(inner, enclosing)),
        Term::Obj(members) => members.iter().try_for_each(|(key, value)| {
            visit(key, enclosing)?;
            value.iter().try_for_each(|value| visit(value, enclosing))
        }),
        Term::Neg(inner) | Term::Label(_, inner) => visit(inner, enclosing),
        Term::BinOp(left, operator, right) => {
            visit(left, enclosing)?;
            if let BinaryOp::Pipe(Some(pattern)) = operator {
                visit_pattern(pattern, enclosing)?;
            }
            visit(right, enclosing)
        }
        Term::Fold(_, over, pattern, rest) => {
            visit(over, enclosing)?;
            visit_pattern(pattern, enclosing)?;
            rest.iter().try_for_each(|term| visit(term, enclosing))
        }
        Term::TryCatch(tried, caught) => {
            visit(tried, enclosing)?;
            caught.iter().try_for_each(|caught| visit(caught, enclosing))
        }
        Term::IfThenElse(branches, otherwise) => {
            branches.iter().try_for_each(|(condition, then)| {
                visit(condition, enclosing)?;
                visit(then, enclosing)
            })?;
            otherwise.iter().try_for_each(|otherwise| visit(otherwise, enclosing))
        }
        Term::Def(definitions, inner) => {
            for definition in definitions {
                enclosing.push((definition.name, definition.args.len()));
                visit(&definition.body, enclosing)?;
                enclosing.pop();
            }
            visit(inner, enclosing)
        }
        Term::Call(name, arguments) => {
            if enclosing.contains(&(*name, arguments.len())) {
                let message = format!(
                    "`{name}` calls itself, which has no end that can be seen; `recurse` or `reduce` have"
                );
                return Err(JqError::new(message));
            }
            arguments.iter().try_for_each(|argument| visit(argument, enclosing))
        }
        Term::Path(root, Path(parts)) => {
            visit(root, enclosing)?;
            parts.iter().try_for_each(|(part, _)| match part {
                Part::Index(index) => visit(index, enclosing),
                Part::Range(from, to) => from.iter().chain(to).try_for_each(|bound| visit(bound, enclosing)),
            })
        }
    }
}

fn visit_pattern<'t>(
    pattern: &'t Pattern<&str>,
    enclosing: &mut Vec<(&'t str, usize)>,
) -> Result<(), JqError> {
    match pattern {
        Pattern::Var(_) => Ok(()),
        Pattern::Arr(parts) => parts.iter().try_for_each(|part| visit_pattern(part, enclosing)),
        Pattern::Obj(parts) => parts.iter().try_for_each(|(key, part)| {
            visit(key, enclosing)?;
            visit_pattern(part, enclosing)
        }),
    }
}
