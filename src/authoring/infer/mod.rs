//! Inference of a route from recorded responses.
//!
//! - `samples` separates successes from failures, and finds rules for errors with a success status.
//! - `candidates`, `markup` and `lines` propose extractors for each kind of text.
//! - `trial` runs them on all samples, and scores the share of text that each extracts.
//! - `fields` infers fields or a schema from the values.
//! - `write` writes the route, with the evidence for each part in comments.
//!
//! Every proposal is verified. The file loads without errors, it translates each sample to a success or an
//! error as classified, and its examples pass. If a proposal fails, the next simpler one is tried. The last
//! one, the whole text, always passes.

mod candidates;
mod fields;
mod guess;
mod lines;
mod markup;
mod samples;
mod times;
mod trial;
mod write;

use serde::Serialize;
use serde_json::Value;
use settings_derive::Word;

use self::candidates::Candidate;
use self::write::ProposalDraft;
use crate::model::UpstreamResponse;
use crate::settings::Word as _;

/// Limit of the examined samples.
pub const SAMPLE_LIMIT: usize = 100;

/// Recorded response.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Name of the sample, such as its file.
    pub name: String,
    /// The response.
    pub response: UpstreamResponse,
}

/// Names and addresses that the samples do not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteNaming {
    /// Name of the tool.
    pub name: String,
    /// Name of the upstream, which must be unique in the configuration.
    pub upstream: String,
    /// URL of the upstream, `http://host:port`, or the program of a command. `None` if neither the command
    /// line nor a recording has it.
    pub address: Option<String>,
    /// HTTP method, or `RUN`.
    pub method: String,
    /// Path and query, or the words behind the program, each after a space. Arguments are `{name}`, and
    /// optional ones `{name?}`. `None` if neither the command line nor a recording has it.
    pub path: Option<String>,
}

impl RouteNaming {
    /// Whether the route runs a command.
    pub fn is_command(&self) -> bool {
        self.method == "RUN"
    }

    /// The address, or a guess.
    fn address(&self) -> &str {
        self.address.as_deref().unwrap_or("http://127.0.0.1:9000")
    }

    /// The path, or a guess.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or("/")
    }
}

/// Confidence in a part of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Word)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A guess; check it before use.
    Guess,
    /// Likely; more samples would confirm it.
    Likely,
    /// All samples agree.
    Sure,
}

/// Part of a proposal, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the part: `extract`, `field temperature`, `when`.
    pub part: String,
    /// Value of the part.
    pub value: String,
    /// Confidence.
    #[serde(rename = "sure")]
    pub confidence: Confidence,
    /// Evidence.
    #[serde(rename = "why")]
    pub reason: String,
}

/// Complete proposed route.
#[derive(Debug, Clone, Serialize)]
pub struct Proposal {
    /// The configuration file.
    #[serde(rename = "config")]
    pub yaml: String,
    /// Parts with their evidence.
    pub findings: Vec<Finding>,
}

impl Finding {
    fn new(part: &str, value: &str, confidence: Confidence, reason: impl Into<String>) -> Self {
        Self { part: part.to_owned(), value: value.to_owned(), confidence, reason: reason.into() }
    }

    /// The finding as a comment: confidence and evidence.
    fn comment(&self) -> String {
        format!("{}: {}", self.confidence.word(), write::one_line(&self.reason))
    }
}

/// Proposes a route for the responses of one endpoint. Total: for any responses, the file loads.
pub fn propose(samples: &[Sample], naming: &RouteNaming) -> Proposal {
    let classified = samples::classify(&samples[..samples.len().min(SAMPLE_LIMIT)]);
    let candidates = rank_candidates(&classified);
    let errors = samples::error_rules(&classified);
    // From the most specific to the simplest: with and without types; the best extractor, the second, the
    // whole text.
    for errors in [errors.as_slice(), &[]] {
        for (index, candidate) in candidates.iter().enumerate() {
            let runner_up = candidates.get(index + 1);
            for types in fields::possible_types(candidate) {
                let classified = &classified;
                let draft = ProposalDraft { naming, classified, candidate, runner_up, types, errors };
                if let Some(proposal) = draft.verified() {
                    return proposal;
                }
            }
        }
    }
    write::fallback(naming)
}

/// The candidates that parse every success, best first. The last is the whole text, or the bytes.
fn rank_candidates(classified: &samples::ClassifiedSamples<'_>) -> Vec<Candidate> {
    // Error of the first and strictest candidate that fails.
    let mut first_error = None;
    let mut parsing = Vec::new();
    for mut candidate in candidates::all(classified) {
        match trial::values(&candidate, classified) {
            Ok(values) => candidate.values = values,
            Err(reason) => {
                first_error.get_or_insert((candidate.name, reason));
                continue;
            }
        }
        if candidate.is_table() {
            // A table with a single column has no more information than a list of lines.
            let is_narrow = |row: &Value| row.as_object().is_none_or(|cells| cells.len() < 2);
            let mut first_rows = candidate.values.iter().filter_map(|value| value.get(0)).peekable();
            if first_rows.peek().is_none() || first_rows.any(is_narrow) {
                continue;
            }
        }
        if let ("columns", Some(texts)) = (candidate.name, &classified.texts) {
            candidates::join_names(&mut candidate.values, texts);
        }
        candidate.extracted_share = trial::extracted_share(&candidate, &classified.texts);
        parsing.push(candidate);
    }
    if let (Some((name, reason)), Some(last)) = (first_error, parsing.last_mut())
        && last.name == "text"
        && !reason.is_empty()
    {
        last.reason = format!("the whole text, because `{name}` does not parse every sample: {reason}");
    }
    // A line below a table would be read as a row of it.
    let ends_early = |candidate: &Candidate| candidate.options.contains_key("stop_before");
    if parsing.iter().any(ends_early) {
        parsing.retain(|candidate| candidate.name != "columns" || ends_early(candidate));
    }
    trial::rank(&mut parsing);
    parsing
}
