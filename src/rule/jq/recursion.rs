//! Definitions that call themselves, which nothing but the stack would bound.

use jaq_core::{
    load::{
        lex::StrPart,
        parse::{BinaryOp, Pattern, Term},
    },
    path::{Part, Path},
};

use super::JqError;

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
