//! `#[derive(Section)]` and `#[derive(Word)]`: a setting declared once, at the field that holds it.
//!
//! The derives only write down what is declared: the table of keys, the default, one read per field, one
//! comparison per field that takes effect after a restart. How a setting is read is in `glossator::settings`.

mod attributes;
mod section;
mod word;

use syn::{DeriveInput, parse_macro_input};

/// A struct whose fields are the keys of a section of the file.
///
/// On the struct, `#[section(…)]`: `name = "a route"` in messages, `id = "route"` in the schema,
/// `text = "KEY"` (a text stands for the map with this key), `bare` (the key may stand alone), `variables`
/// (values may be `${NAME}`), `default` (implements `Default`), `process` (each key says `live` or
/// `restart`),
/// `check = FN` (a check of all fields together that may complete them,
/// `fn(Self, &OpenSection) -> Checked<Self>`), `check_keys = FN` (a check of the keys that are there,
/// `fn(&OpenSection) -> Checked<()>`).
///
/// On a field, a doc comment (the description) and `#[key(…)]`: `name = "KEY"`, `default = EXPRESSION`,
/// `range = A..=B` (milliseconds of a duration, or a count), `size = A..=B` (bytes), `kind = KIND`, `with =
/// FN` (reads the value in place of its type, `fn(&Cursor) -> Checked<T>`), `shown = "…"` (the default in
/// words), `inherits = EXPRESSION` (the value that holds where neither this key nor one that it overrides is
/// written), `live` or `restart`, `secret`, `file` (may be `file:/path`, whose contents are the value; every
/// `secret` may), `example = "…"` (what to write where it is missing; its own backticks where words follow
/// them), `conflicts = "KEY, KEY"`, `requires = "KEY"` with `help = "…"`, `part` (a struct with keys of the
/// same section), `skip` or `skip = EXPRESSION` (no key: always that value).
#[proc_macro_derive(Section, attributes(section, key))]
pub fn section(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    section::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// An enum whose variants are words: their names in `snake_case`, or as `#[word("…")]` says.
#[proc_macro_derive(Word, attributes(word))]
pub fn word(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    word::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
