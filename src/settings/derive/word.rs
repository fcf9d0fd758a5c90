//! Expansion of `#[derive(Word)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, LitStr, Result};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "words are the variants of an enum"));
    };
    let name = &input.ident;
    let (mut words, mut variants) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        let attribute = variant.attrs.iter().find(|attribute| attribute.path().is_ident("word"));
        words.push(match attribute {
            Some(attribute) => attribute.parse_args::<LitStr>()?.value(),
            None => snake_case(&variant.ident.to_string()),
        });
        variants.push(&variant.ident);
    }
    Ok(quote! {
        const _: () = {
            use crate::settings::{keys::ValueKind, section::{Checked, Cursor, Setting}};
            use crate::settings::value::{Word, read_one_of};
            impl Word for #name {
                const WORDS: &'static [(&'static str, Self)] = &[#((#words, Self::#variants)),*];
            }
            impl Setting for #name {
                const KIND: ValueKind = ValueKind::Word(&[#(#words),*]);
                fn read(value: &Cursor<'_>) -> Checked<Self> {
                    read_one_of(value, Self::WORDS.iter().copied())
                }
                fn shown(&self, _kind: ValueKind) -> Option<String> { Some(format!("`{}`", self.word())) }
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
    fn a_variant_is_its_name_in_snake_case_or_its_own_word() {
        let input = parse_quote! { enum E { FollowLocation, #[word("http1.0")] Old } };
        let output = derive(&input).unwrap().to_string();
        assert!(output.contains("(\"follow_location\" , Self :: FollowLocation)"), "{output}");
        assert!(output.contains("(\"http1.0\" , Self :: Old)"), "{output}");
    }
}
