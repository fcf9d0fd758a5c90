//! jq's standard library, and the part of it that one filter uses.
//!
//! A compiled filter holds every definition that it was compiled with. With the whole library it takes 120 KB and
//! half a millisecond, which 400 filters pay at each start; with what it calls, a few KB.

use std::{collections::HashSet, sync::LazyLock};

use jaq_core::{
    load::parse::{Def, Term},
    native::Fun,
};

use super::{
    bounds::Kind,
    functions,
    rewrite::{bounded_definition, collect_calls},
};

/// Functions that depend on, or act on, something other than their input.
const IMPURE: [&str; 12] = [
    "env",
    "now",
    "input",
    "inputs",
    "halt",
    "halt_error",
    "debug",
    "debug_empty",
    "stderr",
    "stderr_empty",
    "localtime",
    "strflocaltime",
];

/// All definitions that are written in jq, and count what they do. A later one replaces an earlier one of its name.
static DEFINITIONS: LazyLock<Vec<Def<&'static str>>> = LazyLock::new(|| {
    functions::first_definitions()
        .chain(jaq_core::defs())
        .chain(jaq_std::defs())
        .chain(jaq_json::defs())
        .filter(|definition| !IMPURE.contains(&definition.name))
        .chain(functions::last_definitions())
        .map(bounded_definition)
        .collect()
});

/// The definitions and native functions that a filter calls, also by way of other definitions. Every one that has the
/// name of a call is among them, whatever its number of arguments.
pub(super) fn used_by<'s>(filter: &Term<&'s str>) -> (Vec<Def<&'s str>>, Vec<Fun<Kind>>) {
    let mut used: HashSet<&str> = HashSet::new();
    let mut found: Vec<&str> = Vec::new();
    collect_calls(filter, &mut found);
    while let Some(name) = found.pop() {
        if used.insert(name) {
            let definitions = DEFINITIONS.iter().filter(|definition| definition.name == name);
            definitions.for_each(|definition| collect_calls(&definition.body, &mut found));
        }
    }
    let definitions = DEFINITIONS.iter().filter(|definition| used.contains(definition.name));
    let functions = jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .filter(|(name, ..)| !IMPURE.contains(name))
        .filter_map(functions::of_library)
        .chain(functions::functions())
        .filter(|(name, ..)| used.contains(name));
    (definitions.cloned().collect(), functions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(filter: &str, definitions: &[&str], functions: &[&str]) {
        let term = jaq_core::load::parse(filter, |parser| parser.term()).unwrap();
        let (found, natives) = used_by(&term);
        assert_eq!(
            found.iter().map(|definition| definition.name).collect::<Vec<_>>(),
            definitions,
            "{filter}"
        );
        let mut natives: Vec<_> = natives.iter().map(|(name, ..)| *name).collect();
        natives.sort_unstable();
        assert_eq!(natives, functions, "{filter}");
    }

    #[test]
    fn a_filter_is_compiled_with_what_it_calls_and_nothing_else() {
        check(".a.b // 0", &[], &[]);
        check("map(.a)", &["map"], &["!kept"]);
        check(
            r#"@base64 "\(.a)""#,
            &["encode_base64", "tostring", "@base64"],
            &["!encode_base64", "!made", "!written"],
        );
        check("[limit(2; .[])]", &[], &["limit"]);
    }
}
