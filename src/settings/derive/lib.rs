//! Derive macros `Section` and `EnumSetting`: a setting is declared once, at its struct field.
//!
//! The macros generate the table of keys, the default values, one call of the parser per field, and one
//! comparison per field that takes effect after a restart. The parsers are in `glossator::settings`.

mod section;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, LitStr, Result, parse_macro_input};

/// Derives a section of the configuration file from a struct; its fields are the keys.
///
/// Options of the struct, `#[section(…)]`:
///
/// - `name = "a route"`: name in messages; `id = "route"`: identifier in the schema and in variables.
/// - `text = "KEY"`: a string in place of the map is the value of this key; `bare`: the section's key may
///   have no value.
/// - `variables`: `${NAME}` is expanded in values; `default`: implements `Default`.
/// - `masked`: values of unknown keys are masked as well, because one may be a misspelled secret.
/// - `process`: the section has process settings, each with `live` (takes effect on reload) or `restart`.
/// - `check = FN`: function that checks all fields and may complete them, `fn(Self, &OpenSection) ->
///   Checked<Self>`. An invalid field has its default; call `OpenSection::check_valid` before a message that
///   such a default could cause.
/// - `check_keys = FN`: checks the combination of keys, `fn(&OpenSection) -> Checked<()>`.
///
/// The doc comment of a field is the description of the key. Options of a field, `#[key(…)]`:
/// - `name = "KEY"`, `kind = KIND`; `range = A..=B`: range of a duration in milliseconds, or of a count;
///   `size = A..=B`: range of a size in bytes.
/// - `with = FN`: parser that replaces the parser of the type, `fn(&Cursor) -> Checked<T>`.
/// - `default = EXPRESSION`, by default `false` for a `bool`; `shown = "…"`: the default in words;
///   `inherits = EXPRESSION`: the default to document for an optional key that inherits from another key.
/// - `secret`: the value is a credential, which is masked in messages and in the printed configuration;
///   `masked`: the value is masked, but not reported if it is in plain text; `public`: user-defined names in
///   the value never cause masking.
/// - `file`: accepts `file:/path`, a file that contains the value. `secret` implies `file`.
/// - `example = "…"`: example in the error about the missing key; with backticks of its own if it is a
///   sentence.
/// - `conflicts = "KEY, KEY"` and `requires = "KEY, KEY"` (any of them suffices); `help = "…"`: the help of
///   their errors.
/// - `part`: the field is a struct with keys of the same section (`flatten` of serde); `skip` or
///   `skip = EXPRESSION`: the field has no key and always this value.
#[proc_macro_derive(Section, attributes(section, key))]
pub fn section(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    section::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Derives the values of an enum, the strings that a key accepts: a variant's name in `snake_case`, or the
/// string in `#[value("…")]`.
#[proc_macro_derive(EnumSetting, attributes(value))]
pub fn enum_setting(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive_enum(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Expands `#[derive(EnumSetting)]`.
fn derive_enum(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "the values are the variants of an enum"));
    };
    let name = &input.ident;
    let (mut values, mut variants) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        let attribute = variant.attrs.iter().find(|attribute| attribute.path().is_ident("value"));
        values.push(match attribute {
            Some(attribute) => attribute.parse_args::<LitStr>()?.value(),
            None => snake_case(&variant.ident.to_string()),
        });
        variants.push(&variant.ident);
    }
    Ok(quote! {
        const _: () = {
            use crate::settings::{keys::ValueKind, section::{Checked, Cursor, Setting}};
            use crate::settings::value::{EnumSetting, read_one_of};
            impl EnumSetting for #name {
                const VALUES: &'static [(&'static str, Self)] = &[#((#values, Self::#variants)),*];
            }
            impl Setting for #name {
                const KIND: ValueKind = ValueKind::Enum(&[#(#values),*]);
                fn read(value: &Cursor<'_>) -> Checked<Self> {
                    read_one_of(value, Self::VALUES.iter().copied())
                }
                fn shown(&self, _kind: ValueKind) -> Option<String> { Some(format!("`{}`", self.as_str())) }
            }
        };
    })
}

fn snake_case(name: &str) -> String {
    let separated = |(index, letter): (usize, char)| match letter.is_uppercase() && index > 0 {
        true => format!("_{letter}"),
        false => letter.to_string(),
    };
    name.char_indices().map(separated).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn a_variant_is_its_name_in_snake_case_or_its_own_value() {
        let input = parse_quote! { enum E { FollowLocation, #[value("http1.0")] Old } };
        let output = derive_enum(&input).unwrap().to_string();
        assert!(output.contains("(\"follow_location\" , Self :: FollowLocation)"), "{output}");
        assert!(output.contains("(\"http1.0\" , Self :: Old)"), "{output}");
    }
}
