//! Expansion of `#[derive(Section)]`: the key table, the parser and the comparison of a section.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Ident, Lit, Meta, Result, Token, Type,
};

const SECTION_OPTIONS: &str = "name, id, text, bare, check, check_keys, variables, default, process, masked";
const KEY_OPTIONS: &str = "name, default, range, size, kind, live, restart, secret, masked, public, file, \
                           example, conflicts, requires, help, part, skip, with, shown, inherits";

/// Struct field with its options.
struct DeclaredField<'a> {
    field: &'a Field,
    options: Options,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "a section is a struct"));
    };
    if matches!(data.fields, Fields::Unnamed(_)) {
        return Err(Error::new_spanned(&input.ident, "the fields of a section have names"));
    }
    let section = Options::read(&input.attrs, "section", SECTION_OPTIONS)?;
    let declared = data.fields.iter().map(|field| {
        let options = Options::read(&field.attrs, "key", KEY_OPTIONS)?;
        Ok(DeclaredField { field, options })
    });
    let declared: Vec<DeclaredField<'_>> = declared.collect::<Result<_>>()?;
    if section.has("process") {
        declared.iter().try_for_each(DeclaredField::demand_effect)?;
    }
    let name = &input.ident;
    let id = section.text("id").unwrap_or_else(|| name.to_string().to_lowercase());
    let title = section.text("name").unwrap_or_else(|| format!("`{id}`"));
    let short_form = match section.text("text") {
        Some(key) => quote!(ShortForm::Text(#key)),
        None if section.has("bare") => quote!(ShortForm::Null),
        None => quote!(ShortForm::None),
    };
    let (variables, masked) = (section.has("variables"), section.has("masked"));
    let (skipped, keys): (Vec<_>, Vec<_>) = declared.iter().partition(|field| field.options.has("skip"));
    let rows = keys.iter().map(|field| field.row());
    let idents: Vec<_> = declared.iter().map(DeclaredField::ident).collect();
    let nones = idents.iter().map(|_| quote!(None));
    let skips = skipped.iter().map(|field| field.skip());
    let reads = keys.iter().enumerate().map(|(row, field)| field.read(row)).chain(skips);
    let check = section.value("check").map(|check| quote!(let read = #check(read, section)?;));
    let check_keys = section
        .value("check_keys")
        .map(|check| quote!(fn check_keys(section: &OpenSection<'_>) -> Checked<()> { #check(section) }));
    let differences = declared.iter().filter_map(DeclaredField::difference);
    let default = section.has("default").then(|| {
        let absent = declared.iter().map(DeclaredField::absent);
        quote!(impl Default for #name {
            fn default() -> Self { Self { #(#idents: default_of(#absent)),* } }
        })
    });
    Ok(quote! {
        const _: () = {
            use crate::settings::{
                keys::{KeySpec, KeyTable, Masking, Row, ShortForm, TakesEffect, ValueKind},
                section::{Checked, Cursor, OpenSection, Section, Setting, default_of},
            };
            static KEYS: KeyTable = KeyTable {
                section: #title, id: #id, short_form: #short_form, expands_variables: #variables,
                masks_unknown_keys: #masked, rows: &[#(#rows),*],
            };
            impl Section for #name {
                fn keys() -> &'static KeyTable { &KEYS }
                fn read_fields(section: &OpenSection<'_>, base: Option<Self>) -> Checked<Self> {
                    let (#(#idents,)*) = match base {
                        Some(Self { #(#idents),* }) => (#(Some(#idents),)*),
                        None => (#(#nones,)*),
                    };
                    #(#reads)*
                    let read = Self { #(#idents: #idents?),* };
                    #check
                    Ok(read)
                }
                #check_keys
                fn restart_differences(&self, other: &Self, found: &mut Vec<&'static str>) {
                    let _ = (other, &found);
                    #(#differences)*
                }
            }
            impl Setting for #name {
                const KIND: ValueKind = ValueKind::Section(<Self as Section>::keys);
                fn read_over(value: &Cursor<'_>, base: Option<Self>) -> Checked<Self> {
                    OpenSection::read(value, base)
                }
            }
            #default
        };
    })
}

impl DeclaredField<'_> {
    fn ident(&self) -> &Ident {
        self.field.ident.as_ref().expect("fields of a section have names")
    }

    fn key(&self) -> String {
        let ident = self.ident().to_string();
        self.options.text("name").unwrap_or_else(|| ident.trim_start_matches("r#").to_owned())
    }

    /// Checks that a process setting declares whether a change takes effect on reload or after a restart.
    fn demand_effect(&self) -> Result<()> {
        let is_declared = ["live", "restart", "part", "skip"].iter().any(|option| self.options.has(option));
        let message = "a process setting needs `live` or `restart`, which say when a change takes effect";
        if is_declared { Ok(()) } else { Err(Error::new_spanned(self.ident(), message)) }
    }

    /// Row of the key table for the field.
    fn row(&self) -> TokenStream {
        let (ty, key) = (&self.field.ty, self.key());
        if self.options.has("part") {
            return quote!(Row::Part(<#ty as Section>::keys));
        }
        let kind = match (self.options.value("range"), self.options.value("size"), self.options.value("kind"))
        {
            (Some(range), ..) => quote!(<#ty as Setting>::KIND.within(#range)),
            (_, Some(size), _) => quote!(<#ty as Setting>::KIND.size_within(#size)),
            (.., Some(kind)) => kind.to_token_stream(),
            _ => quote!(<#ty as Setting>::KIND),
        };
        let (default, inherited) = (self.default(), self.options.value("inherits"));
        let default = match (self.options.text("shown"), default, inherited) {
            (Some(default_text), ..) => quote!(Some(|_| Some(#default_text.to_owned()))),
            (_, Some(value), _) => {
                quote!(Some(|kind| Setting::shown(&{ let value: #ty = #value; value }, kind)))
            }
            (.., Some(value)) => quote!(Some(|kind| Setting::shown(&#value, kind))),
            _ => quote!(None),
        };
        let takes_effect = match (self.options.has("restart"), self.options.has("live")) {
            (true, _) => quote!(Some(TakesEffect::OnRestart)),
            (_, true) => quote!(Some(TakesEffect::OnReload)),
            _ => quote!(None),
        };
        let description = description(&self.field.attrs);
        let secret = self.options.has("secret");
        let file = secret || self.options.has("file");
        let masking = match (secret || self.options.has("masked"), self.options.has("public")) {
            (true, _) => quote!(Masking::Always),
            (_, true) => quote!(Masking::Never),
            _ => quote!(Masking::ByName),
        };
        let example = self.options.text("example").unwrap_or_default();
        let conflicts = self.options.text("conflicts").unwrap_or_default();
        let help = self.options.text("help").unwrap_or_default();
        let requires = self.options.text("requires");
        let requires = requires.map_or_else(|| quote!(None), |other| quote!(Some(#other)));
        quote!(Row::Key(KeySpec {
            name: #key, kind: #kind, description: #description, default: #default, takes_effect: #takes_effect,
            secret: #secret, masking: #masking, file: #file, example: #example,
            conflicts: #conflicts, requires: #requires, own_help: #help,
        }))
    }

    /// Declared default; a `bool` without one is `false`.
    fn default(&self) -> Option<TokenStream> {
        let is_bool = matches!(&self.field.ty, Type::Path(path) if path.path.is_ident("bool"));
        self.options.value("default").map(Expr::to_token_stream).or_else(|| is_bool.then(|| quote!(false)))
    }

    /// Function that creates the value of an absent key: the declared default, or the default of its type.
    fn absent(&self) -> TokenStream {
        let (ty, options) = (&self.field.ty, &self.options);
        let declared = options.value("skip").map(Expr::to_token_stream).or_else(|| self.default());
        match declared {
            Some(value) => quote!(Some(|| { let value: #ty = #value; value })),
            None if options.has("part") || options.has("skip") => quote!(Some(Default::default)),
            // A key with its own parser does not need a type that implements `Setting`.
            None if options.has("with") && is_option(ty) => quote!(Some(|| None)),
            None => quote!(<#ty as Setting>::ABSENT),
        }
    }

    /// Statement that sets a field that has no key.
    fn skip(&self) -> TokenStream {
        let (ident, ty, absent) = (self.ident(), &self.field.ty, self.absent());
        quote!(let #ident: Checked<#ty> = Ok(#ident.unwrap_or_else(|| default_of(#absent)));)
    }

    /// Statement that parses the field into a variable of the same name; `row` is the index of the field's
    /// row.
    fn read(&self, row: usize) -> TokenStream {
        let (ident, ty, absent) = (self.ident(), &self.field.ty, self.absent());
        if self.options.has("part") {
            return quote! {
                let #ident: Checked<#ty> = Section::read_fields(section, #ident);
                let #ident = <#ty as Section>::check_keys(section).and(#ident);
            };
        }
        let read = match self.options.value("with") {
            Some(read) => quote!(|value, _| #read(value)),
            None => quote!(Setting::read_over),
        };
        quote!(let #ident: Checked<#ty> = section.field(&KEYS.rows[#row], #ident, #absent, #read);)
    }

    fn difference(&self) -> Option<TokenStream> {
        let (ident, key) = (self.ident(), self.key());
        if self.options.has("part") {
            return Some(quote!(Section::restart_differences(&self.#ident, &other.#ident, found);));
        }
        self.options.has("restart").then(|| quote!(if self.#ident != other.#ident { found.push(#key); }))
    }
}

/// Options in all attributes with the same name: `#[name(flag, option = value)]`.
struct Options(Vec<Meta>);

impl Options {
    /// Parses the attributes with this name.
    ///
    /// # Errors
    ///
    /// If an option is not in `allowed`, a comma-separated list.
    fn read(attributes: &[Attribute], name: &str, allowed: &str) -> Result<Self> {
        let mut options = Vec::new();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
            options.extend(attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?);
        }
        match options.iter().find(|meta| !allowed.split(", ").any(|option| meta.path().is_ident(option))) {
            Some(unknown) => {
                Err(Error::new_spanned(unknown, format!("unknown option; known here: {allowed}")))
            }
            None => Ok(Self(options)),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|meta| meta.path().is_ident(name))
    }

    fn value(&self, name: &str) -> Option<&Expr> {
        let meta = self.0.iter().find(|meta| meta.path().is_ident(name))?;
        meta.require_name_value().ok().map(|pair| &pair.value)
    }

    /// Value of an option that is a string literal.
    fn text(&self, name: &str) -> Option<String> {
        string(self.value(name)?)
    }
}

fn is_option(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}

fn string(value: &Expr) -> Option<String> {
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value else { return None };
    Some(text.value())
}

/// First paragraph of a doc comment, joined into one line.
fn description(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => Some(string(&pair.value)?.trim().to_owned()),
        _ => None,
    };
    let lines = attributes.iter().filter_map(line).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn a_field_is_a_row_a_read_a_comparison_and_a_default() {
        let input = parse_quote! {
            #[section(id = "server", process, default)]
            struct Listener {
                /// How many connections are open
                /// at once.
                #[key(name = "connections", range = 1..=9, default = 4, restart)]
                limit: usize,
                #[key(part)]
                filter: Filter,
                #[key(secret, restart)]
                token: Token,
                #[key(live)]
                trace: bool,
                #[key(skip)]
                port: Port,
            }
        };
        let output = derive(&input).unwrap().to_string();
        for part in [
            "section : \"`server`\" , id : \"server\"",
            "name : \"connections\" , kind : < usize as Setting > :: KIND . within (1 ..= 9)",
            "description : \"How many connections are open at once.\"",
            "takes_effect : Some (TakesEffect :: OnRestart)",
            "Row :: Part (< Filter as Section > :: keys)",
            "section . field (& KEYS . rows [0usize] , limit , Some (|| { let value : usize = 4 ; value })",
            "secret : true , masking : Masking :: Always",
            "secret : false , masking : Masking :: ByName",
            "if self . limit != other . limit { found . push (\"connections\") ; }",
            "port : default_of (Some (Default :: default))",
            "default_of (Some (|| { let value : bool = false ; value }))",
        ] {
            assert!(output.contains(part), "{part}\n{output}");
        }
        assert!(!output.contains("self . port"), "{output}");
    }

    #[test]
    fn an_invalid_declaration_does_not_compile() {
        let message = |input: DeriveInput| derive(&input).unwrap_err().to_string();
        let neither = parse_quote! { #[section(process)] struct S { #[key(default = 1)] a: u32 } };
        assert!(message(neither).contains("needs `live` or `restart`"));
        let unknown = parse_quote! { struct S { #[key(rnage = 1..=2)] a: u32 } };
        assert!(message(unknown).contains("unknown option; known here: name, default, range"));
        let tuple = parse_quote! { struct S(u32); };
        assert!(message(tuple).contains("fields of a section have names"));
    }
}
