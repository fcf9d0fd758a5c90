//! Parser for the derives' attributes and for doc comments.

use syn::{Attribute, Error, Expr, ExprLit, Lit, Meta, Result, Token, punctuated::Punctuated};

/// Options in the attributes of one name: `#[name(flag, option = value)]`.
pub(crate) struct Options(Vec<Meta>);

impl Options {
    /// Parses the attributes.
    ///
    /// # Errors
    ///
    /// If an option is not in `known`, which lists them with commas between.
    pub(crate) fn read(attributes: &[Attribute], name: &str, known: &str) -> Result<Self> {
        let mut all = Vec::new();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
            all.extend(attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?);
        }
        match all.iter().find(|meta| !known.split(", ").any(|known| meta.path().is_ident(known))) {
            Some(unknown) => Err(Error::new_spanned(unknown, format!("unknown option; known here: {known}"))),
            None => Ok(Self(all)),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|meta| meta.path().is_ident(name))
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Expr> {
        let meta = self.0.iter().find(|meta| meta.path().is_ident(name))?;
        meta.require_name_value().ok().map(|pair| &pair.value)
    }

    /// Value of an option that is a string literal.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        string(self.value(name)?)
    }

    /// Items of an option such as `conflicts = "a, b"`.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
    }
}

fn string(value: &Expr) -> Option<String> {
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value else { return None };
    Some(text.value())
}

/// First paragraph of a doc comment, joined to one line.
pub(crate) fn description(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => Some(string(&pair.value)?.trim().to_owned()),
        _ => None,
    };
    let lines = attributes.iter().filter_map(line).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}
