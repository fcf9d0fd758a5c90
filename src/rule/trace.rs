//! What happened to one reply, step by step, for `glossator explain`.

/// One step of a translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What was done: `rule 2`, `default`, `otherwise`, `decode`, `extract pairs`, `jq …`, `schema`, `content`,
    /// `error`, `unreadable`.
    pub what: String,
    /// What came of it, for a person; may have several lines.
    pub found: String,
}

/// Collects steps when somebody wants them, and costs nothing otherwise.
#[derive(Debug, Default)]
pub struct Trace {
    steps: Option<Vec<Step>>,
}

impl Trace {
    /// How many steps are kept; a translation has far fewer.
    const MOST_STEPS: usize = 1000;

    /// A trace that keeps nothing.
    pub fn off() -> Self {
        Self { steps: None }
    }

    /// A trace that keeps every step.
    pub fn on() -> Self {
        Self { steps: Some(Vec::new()) }
    }

    /// Notes a step. The closure runs only when the trace is on.
    pub(crate) fn step(&mut self, step: impl FnOnce() -> (String, String)) {
        if let Some(steps) = &mut self.steps
            && steps.len() < Self::MOST_STEPS
        {
            let (what, found) = step();
            steps.push(Step { what, found });
        }
    }

    /// The steps, in order.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps.unwrap_or_default()
    }
}
