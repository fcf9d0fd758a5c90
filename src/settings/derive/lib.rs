//! Derive macros `Section` and `Word`, which declare a setting once, at its struct field.
//!
//! The macros generate the table of keys, the default values, one call of the parser per field, and one
//! comparison per field that takes effect after a restart. The parsers are in `glossator::settings`.

mod attributes;
mod section;
mod word;

use syn::{DeriveInput, parse_macro_input};

/// Derives a section of the file from a struct; its fields are the keys.
///
/// Options of the struct, `#[section(…)]`:
///
/// - `name = "a route"`: name in messages; `id = "route"`: identifier in the schema.
/// - `text = "KEY"`: a string in place of the map is the value of this key; `bare`: the key may have no
///   value.
/// - `variables`: `${NAME}` is expanded in values; `default`: implements `Default`.
/// - `masked`: values of unknown keys are masked as well, because one may be a misspelled secret.
/// - `process`: process settings. Each declares `live` or `restart`.
/// - `check = FN`: checks and may complete all fields, `fn(Self, &OpenSection) -> Checked<Self>`.
/// - `check_keys = FN`: checks the combination of keys, `fn(&OpenSection) -> Checked<()>`.
///
/// The doc comment of a field is the description of the key. Options of a field, `#[key(…)]`:
///
/// - `name = "KEY"`, `kind = KIND`; `range = A..=B`: milliseconds of a duration, or a count; `size = A..=B`:
///   bytes.
/// - `with = FN`: parser in place of that of the type, `fn(&Cursor) -> Checked<T>`.
/// - `default = EXPRESSION`; `shown = "…"`: the default in words; `inherits = EXPRESSION`: the documented
///   default of an optional key that overrides another.
/// - `live` or `restart`: a change takes effect on reload, or after a restart.
/// - `secret`: a credential, which is masked in messages and in the shown configuration; `masked`: masked,
///   but not reported if it is in plain text; `public`: nothing in it is masked because of its name.
/// - `file`: accepts `file:/path`, whose contents are the value, as every `secret` does.
/// - `example = "…"`: help of the error about the missing key; with its own backticks if words follow them.
/// - `conflicts = "KEY, KEY"`, and `requires = "KEY"` with `help = "…"`.
/// - `part`: a struct with keys of the same section; `skip` or `skip = EXPRESSION`: no key, always that
///   value.
#[proc_macro_derive(Section, attributes(section, key))]
pub fn section(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    section::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Derives the words of an enum from its variants: the variant's name in `snake_case`, or the string in
/// `#[word("…")]`.
#[proc_macro_derive(Word, attributes(word))]
pub fn word(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    word::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
