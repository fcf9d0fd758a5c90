//! Prompts: messages for a model that a person asks for by name, made of templates.
//!
//! In reading order: [`Prompt`] is one, with its [`PromptArgument`]s; its messages are made of [`PartTemplate`]s, each
//! of which gives one or several [`Message`]s; [`PromptTable`] finds a prompt by its [`PromptName`].
//!
//! Pure: no `async`, clock, environment or log. Who calls the routes that a part shows is `gateway`.

mod message;
mod name;
mod table;

use serde_json::{Map, Value, json};

use crate::{
    model::Arguments,
    route::{Asking, Completion, Scopes},
};

pub use message::{Message, Part, PartTemplate, Role};
pub use name::{PromptName, PromptNameError};
pub use table::PromptTable;

/// One prompt.
#[derive(Debug)]
pub struct Prompt {
    /// What it is called by.
    pub name: PromptName,
    /// A name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What a caller has to be allowed, where callers are told apart.
    pub scopes: Scopes,
    /// What a person is asked for.
    pub arguments: Vec<PromptArgument>,
    /// What is asked before its messages are made.
    pub asking: Asking,
    /// What its messages are made of, in order.
    pub parts: Vec<PartTemplate>,
}

/// One argument of a prompt; its value is a text.
#[derive(Debug)]
pub struct PromptArgument {
    /// What it is called by.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it means.
    pub description: Option<String>,
    /// Whether the prompt can't be had without it.
    pub required: bool,
    /// What it may be.
    pub completion: Option<Completion>,
}

impl Prompt {
    /// How many parts one prompt may have.
    pub const PART_LIMIT: usize = 100;
    /// How many of them may ask an upstream: they are asked at the same time, and each reply is held until all are
    /// there.
    pub const FETCH_LIMIT: usize = 8;

    /// An argument by its name.
    pub fn argument(&self, name: &str) -> Option<&PromptArgument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }

    /// The prompt as a list shows it (MCP 2026-07-28, schema, `Prompt`).
    pub fn to_json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("name".into(), self.name.as_str().into());
        insert_text(&mut out, "title", self.title.as_ref());
        insert_text(&mut out, "description", self.description.as_ref());
        if !self.arguments.is_empty() {
            let arguments = self.arguments.iter().map(PromptArgument::to_json).map(Value::Object);
            out.insert("arguments".into(), arguments.collect());
        }
        out
    }

    /// Checks what a client gave.
    ///
    /// # Errors
    ///
    /// A sentence that names each argument that is missing, unknown or no text.
    pub fn check(&self, given: Map<String, Value>) -> Result<Arguments, String> {
        let missing = |argument: &&PromptArgument| argument.required && !given.contains_key(&argument.name);
        let missing = self.arguments.iter().filter(missing);
        let mut wrong: Vec<String> =
            missing.map(|argument| format!("argument `{}` is required", argument.name)).collect();
        for (name, value) in &given {
            let what = match (self.argument(name), value) {
                (Some(_), Value::String(_)) => continue,
                (Some(_), value) => format!("must be a string, found {}", crate::model::kind_of(value)),
                (None, _) => format!("is unknown; {}", self.known_names()),
            };
            wrong.push(format!("argument `{}` {what}", name.chars().take(100).collect::<String>()));
            if wrong.len() >= Self::MOST_TOLD {
                break;
            }
        }
        if wrong.is_empty() { Ok(given.into()) } else { Err(wrong.join(". ")) }
    }

    /// How many things wrong with the arguments are told.
    const MOST_TOLD: usize = 5;

    fn known_names(&self) -> String {
        let names: Vec<_> = self.arguments.iter().map(|argument| format!("`{}`", argument.name)).collect();
        match names.is_empty() {
            true => "this prompt takes none".to_owned(),
            false => format!("this prompt takes {}", names.join(", ")),
        }
    }
}

impl PromptArgument {
    fn to_json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("name".into(), self.name.as_str().into());
        insert_text(&mut out, "title", self.title.as_ref());
        insert_text(&mut out, "description", self.description.as_ref());
        out.insert("required".into(), json!(self.required));
        out
    }
}

fn insert_text(out: &mut Map<String, Value>, key: &str, text: Option<&String>) {
    if let Some(text) = text {
        out.insert(key.to_owned(), text.as_str().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, required: bool) -> PromptArgument {
        PromptArgument { name: name.to_owned(), title: None, description: None, required, completion: None }
    }

    #[track_caller]
    fn check(given: Value, expected: Result<(), &str>) {
        let prompt = Prompt {
            scopes: Scopes::default(),
            name: "assess".parse().unwrap(),
            title: None,
            description: None,
            arguments: vec![argument("city", true), argument("tone", false)],
            asking: Asking::default(),
            parts: Vec::new(),
        };
        let found = prompt.check(given.as_object().unwrap().clone()).map(|_| ());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn what_is_wrong_with_arguments_is_told() {
        check(json!({ "city": "Oslo" }), Ok(()));
        check(json!({ "city": "", "tone": "short" }), Ok(()));
        check(json!({ "tone": "short" }), Err("argument `city` is required"));
        check(json!({ "city": 5 }), Err("argument `city` must be a string, found a number"));
        check(
            json!({ "city": "Oslo", "town": "x" }),
            Err("argument `town` is unknown; this prompt takes `city`, `tone`"),
        );
        let many: Map<_, _> = (0..100).map(|number| (format!("a{number}"), json!("x"))).collect();
        let prompt = Prompt {
            scopes: Scopes::default(),
            name: "none".parse().unwrap(),
            title: None,
            description: None,
            arguments: Vec::new(),
            asking: Asking::default(),
            parts: Vec::new(),
        };
        assert_eq!(prompt.check(many).unwrap_err().matches("takes none").count(), 5);
    }
}
