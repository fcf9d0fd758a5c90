//! Definitions that call themselves, which nothing but the stack would bound.

use jaq_core::load::parse::Term;

use super::{JqError, parts::each_part};

/// Refuses a definition that calls itself: nothing but the stack would bound it.
///
/// # Errors
///
/// [`JqError`] names the definition.
pub(super) fn refuse_recursion(term: &Term<&str>) -> Result<(), JqError> {
    match self_call(term, &mut Vec::new()) {
        None => Ok(()),
        Some(name) => Err(JqError::new(format!(
            "`{name}` calls itself, which has no end that can be seen; `recurse` or `reduce` have"
        ))),
    }
}

/// The first call of a definition in itself; `enclosing` has the definitions around the term.
fn self_call<'s>(term: &Term<&'s str>, enclosing: &mut Vec<(&'s str, usize)>) -> Option<&'s str> {
    if let Term::Def(definitions, inner) = term {
        for definition in definitions {
            enclosing.push((definition.name, definition.args.len()));
            let found = self_call(&definition.body, enclosing);
            enclosing.pop();
            if found.is_some() {
                return found;
            }
        }
        return self_call(inner, enclosing);
    }
    if let Term::Call(name, arguments) = term
        && enclosing.contains(&(*name, arguments.len()))
    {
        return Some(name);
    }
    let mut found = None;
    each_part(term, &mut |part| found = found.or_else(|| self_call(part, enclosing)));
    found
}
