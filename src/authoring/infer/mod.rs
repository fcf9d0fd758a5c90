//! A route proposed from recorded replies.
//!
//! `samples` separates successes from failures, and finds rules for errors with a success status.
//! `candidates` and `lines` propose extractors for each kind of text. `trial` runs them on all samples and
//! scores how much of each they read. `fields` derives fields or a schema from the values. `write` writes the
//! route, with the evidence for each part in comments.
//!
//! What is proposed has been tried: the file loads without an error, every success among the samples is a success by
//! it, every failure an error, and the examples in it hold. Where a proposal does not, the next plainer one is taken;
//! the last, the whole text, always holds.

mod candidates;
mod fields;
mod guess;
mod lines;
mod samples;
mod times;
mod trial;
mod write;

use serde_json::Value;

use crate::model::UpstreamResponse;

/// How many replies are looked at.
pub const SAMPLE_LIMIT: usize = 100;

/// One recorded reply.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What it is called, such as its file.
    pub name: String,
    /// What was answered.
    pub response: UpstreamResponse,
}

/// What the samples do not tell about the route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// The tool's name.
    pub name: String,
    /// The upstream's name, which no other file of the folder may have.
    pub upstream: String,
    /// Where the upstream is: `http://host:port`.
    pub address: String,
    /// The method.
    pub method: String,
    /// Path and query, with arguments as `{name}`.
    pub path: String,
}

/// How sure a part of a proposal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sure {
    /// Look at it before you use it.
    Guess,
    /// Likely; more samples would tell.
    Likely,
    /// Every sample says so, and nothing speaks against it.
    Sure,
}

/// One part of a proposal, and what speaks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which part: `extract`, `field temperature`, `when`.
    pub part: String,
    /// What it is.
    pub value: String,
    /// How sure.
    pub sure: Sure,
    /// Why.
    pub why: String,
}

/// A route, whole.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The configuration file.
    pub yaml: String,
    /// What speaks for its parts.
    pub findings: Vec<Finding>,
}

impl Finding {
    /// The finding in a comment: how sure, and why.
    fn comment(&self) -> String {
        format!("{}: {}", self.sure.word(), write::one_line(&self.why))
    }
}

impl Sure {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Guess => "guess",
            Self::Likely => "likely",
            Self::Sure => "sure",
        }
    }
}

/// Proposes a route for replies of one endpoint. Total: whatever the replies are, the file loads.
pub fn propose(samples: &[Sample], naming: &Naming) -> Proposal {
    let sorted = samples::sort(&samples[..samples.len().min(SAMPLE_LIMIT)]);
    let ranked = ranked(&sorted);
    let errors = samples::error_rules(&sorted);
    // From the fullest to the plainest: types, no types; the best reader, the second, the whole text.
    for errors in [errors.as_ref(), None] {
        for (index, reader) in ranked.iter().enumerate() {
            let runner_up = ranked.get(index + 1);
            for shape in fields::shapes(reader) {
                let draft = write::Draft { naming, sorted: &sorted, reader, runner_up, shape, errors };
                if let Some(proposal) = draft.tried() {
                    return proposal;
                }
            }
        }
    }
    write::plainest(naming)
}

/// A way to read the successes, and what it found in them.
#[derive(Debug)]
struct Reader {
    candidate: candidates::Candidate,
    /// A value a success.
    values: Vec<Value>,
    /// How much of the text is in the values, from 0 to 1.
    explained: f64,
}

/// The readers that read every success, best first. The last is the whole text, or the bytes.
fn ranked(sorted: &samples::Sorted<'_>) -> Vec<Reader> {
    // Why the first candidate, which is the strictest, reads less than all.
    let mut refusal = None;
    let mut readers: Vec<Reader> = candidates::all(sorted)
        .into_iter()
        .filter_map(|candidate| {
            let values = match trial::values(&candidate, sorted) {
                Ok(values) => values,
                Err(why) => {
                    refusal.get_or_insert_with(|| (candidate.name().to_owned(), why));
                    return None;
                }
            };
            // A table of one column is a list of lines, whatever reads it.
            let is_table = matches!(candidate.name(), "csv" | "columns");
            if is_table
                && values
                    .iter()
                    .any(|value| value.get(0).and_then(Value::as_object).is_none_or(|row| row.len() < 2))
            {
                return None;
            }
            let explained =
                if candidate.reads_all { 1.0 } else { trial::explained(&candidate, &values, &sorted.texts) };
            Some(Reader { candidate, values, explained })
        })
        .collect();
    if let (Some((name, why)), Some(last)) = (refusal, readers.last_mut())
        && last.candidate.name() == "text"
        && !why.is_empty()
    {
        last.candidate.why = format!("the whole text, since `{name}` does not read every sample: {why}");
    }
    trial::rank(&mut readers);
    readers
}
