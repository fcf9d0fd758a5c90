//! Which prompt is meant.

use std::{collections::HashMap, sync::Arc};

use super::{Prompt, PromptName};

/// All prompts, found by name.
#[derive(Debug, Default)]
pub struct PromptTable {
    in_order: Vec<Arc<Prompt>>,
    by_name: HashMap<PromptName, usize>,
}

impl PromptTable {
    /// Makes the table; prompts are kept in the order of their names. Of two with one name, which the configuration
    /// refuses, the later counts.
    pub fn new(mut prompts: Vec<Arc<Prompt>>) -> Self {
        prompts.sort_by(|left, right| left.name.cmp(&right.name));
        let by_name =
            prompts.iter().enumerate().map(|(index, prompt)| (prompt.name.clone(), index)).collect();
        Self { in_order: prompts, by_name }
    }

    /// A prompt by its name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.by_name.get(name).map(|index| &self.in_order[*index])
    }

    /// All prompts, by name.
    pub fn in_order(&self) -> &[Arc<Prompt>] {
        &self.in_order
    }
}
