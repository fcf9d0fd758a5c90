//! A reply to a tool result: total and deterministic.

use std::fmt;

use bytes::Bytes;
use minijinja::Value as Name;
use serde_json::Value;

use super::{
    content::ContentTemplate,
    extract::{Extracted, Extractor, ExtractorKind},
    jq::JqNames,
    matcher::Captures,
    reading::{Reading, by_media_type},
    rules::{Action, ErrorRule, Otherwise, Rule, SuccessRule, Translator},
    template::from_json,
    trace::Trace,
    verdict::{self, STATUS_META_KEY, capped, redacted},
};
use crate::{
    reply::Reply,
    tool::{Block, Content, Fault, JsonText, Outcome, Structured, Text, ToolName, ToolResult},
};

/// What a translation knows beside the reply.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Which tool was called.
    pub tool: &'a ToolName,
    /// With which arguments, an object.
    pub args: &'a Value,
}

/// What came of a reply.
#[derive(Debug)]
pub struct Translation {
    /// What the client gets.
    pub result: ToolResult,
    /// Which rule decided, from 0; `None` for the default rules.
    pub rule: Option<usize>,
    /// What somebody who looks after the route should know. For the log: may hold the upstream's words.
    pub notes: Vec<Note>,
}

/// Something for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Why the result is what it is.
    Why(String),
    /// The beginning of the reply, which may hold anything.
    Body(String),
}

impl Note {
    /// Whether it shows the reply's own words, so that only a log of every detail may have it.
    pub fn is_body(&self) -> bool {
        matches!(self, Self::Body(_))
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Why(text) => formatter.write_str(text),
            Self::Body(text) => write!(formatter, "the reply begins {text:?}"),
        }
    }
}

/// The names that the templates of a rule see.
pub const TEMPLATE_NAMES: [&str; 7] = ["args", "status", "headers", "text", "json", "value", "structured"];

/// Makes a tool result of a reply.
///
/// Total: any status, any bytes and any rules give a result with content. Deterministic: the same reply gives
/// the same result. Where the route declares an output schema, a success meets it.
pub fn translate(translator: &Translator, facts: Facts<'_>, reply: &Reply, trace: &mut Trace) -> Translation {
    let mut notes = Vec::new();
    let reading = Reading::new(reply, facts, None);
    let job = Job { translator, facts, trace, notes: &mut notes };
    let (result, rule) = job.run(&reading);
    Translation { result, rule, notes }
}

struct Job<'a> {
    translator: &'a Translator,
    facts: Facts<'a>,
    trace: &'a mut Trace,
    notes: &'a mut Vec<Note>,
}

impl Job<'_> {
    fn run(mut self, reading: &Reading<'_>) -> (ToolResult, Option<usize>) {
        let translator = self.translator;
        for (index, rule) in translator.rules.iter().enumerate() {
            let recoded;
            let reading = match rule.charset {
                None => reading,
                charset => {
                    recoded = Reading::new(reading.reply, reading.facts, charset);
                    &recoded
                }
            };
            match self.held(rule, reading) {
                Ok(captures) => {
                    self.trace.step(|| (format!("rule {}", index + 1), held_words(&captures)));
                    return (self.apply(rule, reading, &captures), Some(index));
                }
                Err(why) => {
                    self.trace.step(|| (format!("rule {}", index + 1), format!("does not hold: {why}")))
                }
            }
        }
        (self.unruled(reading), None)
    }

    fn held(&self, rule: &Rule, reading: &Reading<'_>) -> Result<Captures, String> {
        let status = reading.reply.status;
        if !rule.matcher.names_status() {
            match rule.action {
                Action::Success(_) if !status.is_success() => {
                    return Err(format!(
                        "status is {}, and a rule without `when: status` is for 2xx only",
                        status.as_u16()
                    ));
                }
                Action::Error(_) if status.is_server_error() => {
                    return Err(format!(
                        "status is {}, and a rule without `when: status` is not for 5xx",
                        status.as_u16()
                    ));
                }
                Action::Success(_) | Action::Error(_) => {}
            }
        }
        rule.matcher.holds(reading, self.facts.args)
    }

    /// What no rule was written for.
    fn unruled(&mut self, reading: &Reading<'_>) -> ToolResult {
        let status = reading.reply.status;
        if !status.is_success() {
            let why = format!("no rule for status {}: an error by default", status.as_u16());
            self.trace.step(|| ("default".into(), why));
            self.note_body(reading);
            return verdict::of_status(reading, self.translator.limits.error_text_bytes);
        }
        if !self.translator.rules.is_empty() && self.translator.otherwise == Otherwise::Error {
            self.trace.step(|| ("otherwise".into(), "no rule holds: an error".into()));
            self.note("no rule of the route holds for a reply with a success status");
            self.note_body(reading);
            let media_type = match reading.reply.media_type() {
                Some(media_type) => format!("of type {}", capped(&media_type, 100)),
                None => "without a type".to_owned(),
            };
            let status = status.as_u16();
            return self.unreadable(
                reading,
                &format!("it is of status {status}, {media_type}, and fits no rule of this tool"),
            );
        }
        self.trace.step(|| {
            let media_type = reading.reply.media_type().unwrap_or_else(|| "missing".into());
            ("default".into(), format!("no rule decides: by media type, which is {media_type}"))
        });
        let rule = SuccessRule { extract: None, structured: None, content: ContentTemplate::Default };
        self.success(&rule, reading, &Captures::new())
    }

    fn apply(&mut self, rule: &Rule, reading: &Reading<'_>, captures: &Captures) -> ToolResult {
        match &rule.action {
            Action::Error(rule) => self.error(rule, reading, captures),
            Action::Success(rule) => self.success(rule, reading, captures),
        }
    }

    fn error(&mut self, rule: &ErrorRule, reading: &Reading<'_>, captures: &Captures) -> ToolResult {
        let status = reading.reply.status;
        let fault = match rule.status {
            None if status.is_client_error() || status.is_server_error() => {
                Fault::Upstream { status: status.as_u16() }
            }
            declared => Fault::Reported { status: declared },
        };
        let asked: Vec<&str> = rule.text.names().iter().map(String::as_str).collect();
        let names = self.names(&asked, reading, captures, None, None);
        let limit_bytes = self.translator.limits.error_text_bytes;
        let text = match rule.text.render(&names) {
            Ok(text) if !text.trim().is_empty() => capped(text.trim_end(), limit_bytes),
            Ok(_) => {
                self.note("the template of `error` gave an empty text");
                return verdict_or_plain(reading, limit_bytes, fault);
            }
            Err(error) => {
                self.note(format!("the template of `error` could not be filled in: {error}"));
                return verdict_or_plain(reading, limit_bytes, fault);
            }
        };
        self.trace.step(|| ("error".into(), text.clone()));
        ToolResult::error(fault, text).with_meta(STATUS_META_KEY, status.as_u16())
    }

    fn success(&mut self, rule: &SuccessRule, reading: &Reading<'_>, captures: &Captures) -> ToolResult {
        match self.try_success(rule, reading, captures) {
            Ok(result) => result,
            Err(why) => {
                self.trace.step(|| ("unreadable".into(), why.clone()));
                self.note(format!("the reply could not be read: {why}"));
                self.note_body(reading);
                self.unreadable(reading, &why)
            }
        }
    }

    fn try_success(
        &mut self,
        rule: &SuccessRule,
        reading: &Reading<'_>,
        captures: &Captures,
    ) -> Result<ToolResult, String> {
        let extracted = self.extract(rule, reading)?;
        let whole_text = match &extracted {
            Extracted::Text(text) => Some(text.clone()),
            Extracted::Raw(_) | Extracted::Value(_) | Extracted::Block(_) | Extracted::Nothing => None,
        };
        let (value, mut block) = match extracted {
            Extracted::Block(content) => (None, Some(content)),
            other => (Some(other), None),
        };
        let templates = rule.content.templates();
        let asked: Vec<&str> =
            templates.iter().flat_map(|template| template.names()).map(String::as_str).collect();
        let wants_value = asked.contains(&"value");
        let (structured, value) = self.structure(rule, reading, value, wants_value)?;
        let content = match &rule.content {
            ContentTemplate::Default => match block.take() {
                Some(block) => vec![block],
                None if structured.is_none() && whole_text.is_none() => vec![Content::text(done(reading))],
                None => vec![Content::from(Block::Text(default_text(whole_text, structured.as_ref())))],
            },
            ContentTemplate::Blocks(blocks) => {
                let names = self.names(&asked, reading, captures, value.as_ref(), structured.as_ref());
                let blocks = blocks.iter().map(|block| block.render(reading, structured.as_ref(), &names));
                blocks.collect::<Result<_, _>>()?
            }
        };
        self.trace.step(|| ("content".into(), content_words(&content)));
        let mut result = ToolResult::new(Outcome::Success, content);
        result.structured = structured;
        Ok(result)
    }

    fn extract(&mut self, rule: &SuccessRule, reading: &Reading<'_>) -> Result<Extracted, String> {
        let default;
        let extractor = match &rule.extract {
            Some(extractor) => extractor,
            // Old servers declare a type for what they then do not send.
            None if reading.reply.body.is_empty() => {
                self.trace.step(|| ("extract".into(), "nothing: the reply is empty".into()));
                return Ok(Extracted::Nothing);
            }
            None => {
                default = Extractor::whole(by_media_type(reading));
                &default
            }
        };
        if !matches!(extractor.kind, ExtractorKind::Binary(_) | ExtractorKind::Header(_)) {
            let decoded = reading.decoded()?;
            self.trace.step(|| {
                let characters = decoded.as_str().chars().count();
                let found =
                    format!("{characters} characters of {}, says {}", decoded.charset, decoded.because);
                ("decode".into(), found)
            });
        }
        let name = extractor.kind.name();
        let extracted = extractor.extract(reading).map_err(|error| format!("{name}: {error}"))?;
        self.trace.step(|| {
            let found = match &extracted {
                Extracted::Raw(json) => capped(json.as_str(), LONGEST_TRACED),
                Extracted::Value(value) => capped(&value.to_string(), LONGEST_TRACED),
                Extracted::Text(text) => {
                    format!("{:?}", capped(&String::from_utf8_lossy(text), LONGEST_TRACED))
                }
                Extracted::Block(_) => format!("{} bytes", reading.reply.body.len()),
                Extracted::Nothing => "nothing".to_owned(),
            };
            (format!("extract {name}"), found)
        });
        Ok(extracted)
    }

    /// The structure, and the value it was made of where a template asks for that.
    fn structure(
        &mut self,
        rule: &SuccessRule,
        reading: &Reading<'_>,
        extracted: Option<Extracted>,
        wants_value: bool,
    ) -> Result<(Option<Structured>, Option<Value>), String> {
        let output = self.translator.output.as_ref();
        let Some(extracted) = extracted else {
            return match (output, &rule.structured) {
                (None, None) => Ok((None, None)),
                _ => Err("expected a value, found bytes without structure".to_owned()),
            };
        };
        if matches!(extracted, Extracted::Nothing) && rule.structured.is_none() {
            return match output {
                None => Ok((None, None)),
                Some(_) => Err("it is empty, and this tool promises a value".to_owned()),
            };
        }
        // The case that is worth being quick in: nobody looks into the reply.
        if rule.structured.is_none() && output.is_none() && !wants_value {
            let json = match extracted {
                Extracted::Raw(json) => json,
                other => JsonText::of(&other.into_value()?),
            };
            return Ok((Some(self.translator.wrap.apply(Structured::new(json))), None));
        }
        let source = match &extracted {
            Extracted::Raw(json) => Some(json.clone()),
            Extracted::Value(_) | Extracted::Text(_) | Extracted::Block(_) | Extracted::Nothing => None,
        };
        let found = extracted.into_value()?;
        let kept = wants_value.then(|| found.clone());
        let (value, source) = match &rule.structured {
            None => (found, source),
            Some(jq) => {
                let names = JqNames {
                    args: self.facts.args,
                    status: reading.reply.status.as_u16(),
                    headers: reading.headers(),
                };
                let value = jq.apply(&found, names).map_err(|error| {
                    self.notes.extend(error.detail.clone().map(Note::Body));
                    format!("`structured` {error}")
                })?;
                self.trace.step(|| {
                    (
                        format!("jq {}", capped(jq.source(), LONGEST_TRACED)),
                        capped(&value.to_string(), LONGEST_TRACED),
                    )
                });
                (value, None)
            }
        };
        let structured = match output {
            Some(output) => {
                let structured = output
                    .enforce(value, source.as_ref())
                    .map_err(|error| format!("the result does not meet the output schema: {error}"))?;
                self.trace.step(|| {
                    (
                        "schema".into(),
                        format!("met by {}", capped(structured.json().as_str(), LONGEST_TRACED)),
                    )
                });
                structured
            }
            None => {
                let json = source.unwrap_or_else(|| JsonText::of(&value));
                self.translator.wrap.apply(Structured::new(json))
            }
        };
        Ok((Some(structured), kept))
    }

    /// What a template sees; only what it asks for is made.
    fn names(
        &self,
        asked: &[&str],
        reading: &Reading<'_>,
        captures: &Captures,
        value: Option<&Value>,
        structured: Option<&Structured>,
    ) -> Name {
        let mut names: Vec<(String, Name)> = Vec::new();
        for name in asked {
            let made = match *name {
                "args" => Some(from_json(self.facts.args)),
                "status" => Some(Name::from(reading.reply.status.as_u16())),
                "headers" => Some(from_json(reading.headers())),
                "text" => reading.text().ok().map(Name::from),
                "json" => reading.json().map(from_json),
                "value" => value.map(from_json),
                "structured" => structured.map(|s| from_json(&s.value(crate::tool::Shapes::ObjectsOnly))),
                _ => None,
            };
            names.extend(made.map(|made| ((*name).to_owned(), made)));
        }
        // Captures go last: a rule that names its capture `text` means that.
        names.extend(captures.iter().map(|(name, text)| (name.clone(), Name::from(text.as_str()))));
        Name::from_pairs(names)
    }

    fn unreadable(&self, reading: &Reading<'_>, why: &str) -> ToolResult {
        let text = format!("The upstream's reply could not be understood: {}.", redacted(why));
        ToolResult::error(Fault::Unreadable, capped(&text, self.translator.limits.error_text_bytes))
            .with_meta(STATUS_META_KEY, reading.reply.status.as_u16())
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(Note::Why(text.into()));
    }

    /// The beginning of a body that came as a surprise.
    fn note_body(&mut self, reading: &Reading<'_>) {
        const LONGEST_NOTED: usize = 300;
        if !reading.reply.body.is_empty() {
            let start = reading.reply.body.slice(..reading.reply.body.len().min(LONGEST_NOTED * 4));
            self.notes.push(Note::Body(capped(&String::from_utf8_lossy(&start), LONGEST_NOTED)));
        }
    }
}

/// How much of a value a step of a trace shows, in bytes.
const LONGEST_TRACED: usize = 4000;

/// What is shown of a success that says nothing.
fn done(reading: &Reading<'_>) -> String {
    format!("Done: the upstream answered {} without content.", reading.reply.status)
}

/// The default text of a block: the text of the reply where that is the whole value, else the structure's JSON.
fn default_text(whole_text: Option<Bytes>, structured: Option<&Structured>) -> Text {
    let is_string = structured.is_none_or(|structured| structured.json().as_str().starts_with('"'));
    whole_text.filter(|_| is_string).and_then(Text::shared).unwrap_or(Text::OfStructure)
}

fn verdict_or_plain(reading: &Reading<'_>, limit_bytes: usize, fault: Fault) -> ToolResult {
    if reading.reply.status.is_success() {
        ToolResult::error(fault, "The upstream reported an error that could not be put into words.")
            .with_meta(STATUS_META_KEY, reading.reply.status.as_u16())
    } else {
        verdict::of_status(reading, limit_bytes)
    }
}

fn held_words(captures: &Captures) -> String {
    let captures: Vec<_> = captures.iter().map(|(name, text)| format!("{name} = {text:?}")).collect();
    match captures.is_empty() {
        true => "holds".to_owned(),
        false => format!("holds, with {}", captures.join(", ")),
    }
}

fn content_words(content: &[Content]) -> String {
    let words = content.iter().map(|content| match &content.block {
        Block::Text(Text::Plain(text) | Text::Error(text)) => {
            format!("text {:?}", capped(text, LONGEST_TRACED))
        }
        Block::Text(Text::Shared(text)) => format!("text {:?}", capped(text.as_str(), LONGEST_TRACED)),
        Block::Text(Text::OfStructure) => "text: the structure as JSON".to_owned(),
        Block::Image { mime_type, .. } => format!("image of {mime_type}"),
        Block::Audio { mime_type, .. } => format!("audio of {mime_type}"),
        Block::ResourceLink { uri, .. } => format!("resource_link to {uri}"),
        Block::Resource { uri, .. } => format!("resource {uri}"),
    });
    words.collect::<Vec<_>>().join("\n")
}
