//! What an argument may be, for a person who has typed a part of it.

use std::{collections::HashSet, sync::Arc};

use super::RouteCall;
use crate::{
    model::{Structured, ToolResult},
    translate::Jq,
};

/// Where the values of an argument come from.
#[derive(Debug)]
pub enum Completion {
    /// They are written down.
    Listed(Vec<String>),
    /// A route gives them.
    Asked(AskedCompletion),
}

/// A route that gives the values of an argument.
#[derive(Debug)]
pub struct AskedCompletion {
    /// The route, and what it is asked.
    pub call: RouteCall,
    /// jq: from its result to the list of values; where there is none, the result is the list.
    pub values: Option<Arc<Jq>>,
    /// Whether the route is told what has been typed, and so has chosen already.
    pub chosen: bool,
}

/// Values for a person to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Suggestions {
    /// The best first, at most [`Suggestions::MOST`].
    pub values: Vec<String>,
    /// How many there are.
    pub total: usize,
}

impl Suggestions {
    /// How many values one answer may have (MCP 2026-07-28, Completion, "Completion Results").
    pub const MOST: usize = 100;

    /// Of all values those that begin with what was typed, then those that have it elsewhere; upper and lower case
    /// are the same. Where somebody has `chosen` them already the others come after these.
    pub fn of(values: Vec<String>, typed: &str, chosen: bool) -> Self {
        let typed = typed.to_lowercase();
        let mut seen = HashSet::new();
        let (mut beginning, mut having, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            if value.is_empty() || seen.contains(&value) {
                continue;
            }
            let lower = value.to_lowercase();
            let place = match lower.find(&typed) {
                Some(0) => &mut beginning,
                Some(_) => &mut having,
                None if chosen => &mut other,
                None => continue,
            };
            seen.insert(value.clone());
            place.push(value);
        }
        let mut values = beginning;
        values.append(&mut having);
        values.append(&mut other);
        let total = values.len();
        values.truncate(Self::MOST);
        Self { values, total }
    }

    /// Whether there are more than these.
    pub fn has_more(&self) -> bool {
        self.total > self.values.len()
    }
}

/// The lines of a result that is text alone, as a list of values.
pub fn lines_of(result: &ToolResult) -> Vec<String> {
    let structured: Option<&Structured> = result.structured.as_ref();
    let texts = result.content.iter().filter_map(|content| content.block.text(structured));
    texts.flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&str], typed: &str, chosen: bool, expected: &[&str]) {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        assert_eq!(Suggestions::of(values, typed, chosen).values, expected);
    }

    #[test]
    fn what_begins_with_the_words_comes_before_what_has_them() {
        let cities = ["Bergen", "Oslo", "Nordoslo", "Østby", "Oslo", ""];
        check(&cities, "os", false, &["Oslo", "Nordoslo"]);
        check(&cities, "OSLO", false, &["Oslo", "Nordoslo"]);
        check(&cities, "øst", false, &["Østby"]);
        check(&cities, "", false, &["Bergen", "Oslo", "Nordoslo", "Østby"]);
        check(&cities, "x", false, &[]);
        check(&cities, "os", true, &["Oslo", "Nordoslo", "Bergen", "Østby"]);
    }

    #[test]
    fn a_hundred_values_are_told_and_how_many_there_are() {
        let many = |count: usize| (0..count).map(|number| format!("v{number}")).collect::<Vec<_>>();
        let found = Suggestions::of(many(250), "v", false);
        assert_eq!((found.values.len(), found.total, found.has_more()), (100, 250, true));
        let found = Suggestions::of(many(100), "", false);
        assert_eq!((found.values.len(), found.total, found.has_more()), (100, 100, false));
    }
}
