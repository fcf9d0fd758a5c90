//! What a rule's extractor gives for one reply.

use std::cell::OnceCell;

use bytes::Bytes;
use serde_json::Value;

use super::{
    extract::{Answered, Extract, Extracted, Extractor, Verdict},
    reading::{Reading, by_media_type},
    trace::{LONGEST_TRACED, Trace},
    why::Why,
};
use crate::tool::cut_bytes;

/// What a rule's extractor gives for one reply: made when the first part of the rule asks for it, and once.
pub(super) struct Finding<'a> {
    extract: Option<&'a Extract>,
    reading: &'a Reading<'a>,
    found: OnceCell<Result<Extracted, Why>>,
    value: OnceCell<Value>,
}

impl<'a> Finding<'a> {
    /// Of this extractor; by media type where the rule has none.
    pub(super) fn new(extract: Option<&'a Extract>, reading: &'a Reading<'a>) -> Self {
        Self { extract, reading, found: OnceCell::new(), value: OnceCell::new() }
    }

    /// What was found, or a sentence that says why nothing could be.
    pub(super) fn found(&self) -> Result<&Extracted, Why> {
        self.found.get_or_init(|| self.make()).as_ref().map_err(Clone::clone)
    }

    /// The same as a value in a tree.
    pub(super) fn value(&self) -> Result<&Value, Why> {
        let found = self.found()?;
        if let Extracted::Value(value) = found {
            return Ok(value);
        }
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = found.to_value(self.reading)?;
        Ok(self.value.get_or_init(|| value))
    }

    /// What was found, to keep, and the value where it was made already.
    pub(super) fn take(mut self) -> Result<(Extracted, Option<Value>), Why> {
        self.found()?;
        let found = self.found.take().unwrap_or(Ok(Extracted::Nothing))?;
        Ok((found, self.value.take()))
    }

    fn make(&self) -> Result<Extracted, Why> {
        let default;
        let extract = match self.extract {
            Some(extract) => extract,
            // Old servers declare a type for what they then do not send.
            None if self.reading.body()?.is_empty() => return Ok(Extracted::Nothing),
            None => {
                default = Extract::One(Box::new(Extractor::whole(by_media_type(self.reading))));
                &default
            }
        };
        if extract.reads_text() {
            self.reading.decoded()?;
        }
        extract.extract(self.reading)
    }

    /// Notes what was found, if anything has asked for it.
    pub(super) fn trace(&self, trace: &mut Trace) {
        let Some(found) = self.found.get().filter(|_| trace.is_on()) else { return };
        let default;
        let extract = match self.extract {
            Some(extract) => extract,
            None if self.reading.body().is_ok_and(Bytes::is_empty) => {
                return trace.step(|| ("extract".into(), "nothing: the reply is empty".into()));
            }
            None => {
                default = Extract::One(Box::new(Extractor::whole(by_media_type(self.reading))));
                &default
            }
        };
        if extract.reads_text()
            && let Ok(decoded) = self.reading.decoded()
        {
            trace.step(|| {
                let characters = decoded.as_str().chars().count();
                let because = match decoded.because {
                    "default" => "since nothing names a charset".to_owned(),
                    teller => format!("as {teller} says"),
                };
                ("decode".into(), format!("{characters} characters of {}, {because}", decoded.charset))
            });
        }
        if let (Extract::Parts(parts), Ok(Extracted::Value(value))) = (extract, found) {
            for part in parts {
                trace.step(|| {
                    let found =
                        value.get(&part.name).map(|value| cut_bytes(&value.to_string(), LONGEST_TRACED));
                    (
                        format!("extract {} {}", part.name, part.extractor.words()),
                        found.unwrap_or_else(|| "nothing: left out".to_owned()),
                    )
                });
            }
            return;
        }
        trace.step(|| {
            let found = match found {
                Ok(Extracted::Block(_)) => format!("{} bytes", self.reading.body().map_or(0, Bytes::len)),
                Ok(found) => found_words(found),
                Err(why) => format!("failed: {why}"),
            };
            let what = match extract {
                Extract::One(extractor) => format!("extract {}", extractor.words()),
                Extract::Parts(_) => "extract".to_owned(),
            };
            (what, found)
        });
    }
}

/// What was found, in words.
fn found_words(found: &Extracted) -> String {
    match found {
        Extracted::Raw(json) => cut_bytes(json.as_str(), LONGEST_TRACED),
        Extracted::Value(value) => cut_bytes(&value.to_string(), LONGEST_TRACED),
        Extracted::Text(text) => format!("{:?}", cut_bytes(text, LONGEST_TRACED)),
        Extracted::Block(_) => "a block".to_owned(),
        Extracted::Answered(Answered { content, value, verdict }) => {
            let verdict = match verdict {
                Verdict::Success => "a result",
                Verdict::ToolError => "an error of the tool",
                Verdict::ProtocolError { .. } => "an error of the protocol",
            };
            let value = value.as_deref().map_or_else(|| "no value".to_owned(), found_words);
            format!("{verdict}, blocks: {}; {value}", content.len())
        }
        Extracted::Nothing => "nothing".to_owned(),
    }
}
