//! How a reply becomes a success.

use bytestring::ByteString;
use serde_json::Value;

use super::{
    content::{self, ContentTemplate, Shown, TextKind},
    default_error::told,
    extract::{Answered, Extract, Extracted},
    jq::Jq,
    limit::{Cut, LIMIT_META_KEY, Limit},
    matcher::Captures,
    response_view::{Finding, ResponseView},
    template::Template,
    trace::{LONGEST_TRACED, content_words},
    translator::{Failure, Job, Note},
    variables::{Known, SAMPLE, SampleTemplate, jq_names},
    why::Why,
};
use crate::model::{Block, Content, JsonText, Outcome, Reply, Structured, Text, ToolResult, cut_bytes};

/// How a reply becomes a success.
#[derive(Debug)]
pub struct SuccessRule {
    /// Bytes to a value; by media type where there is none.
    pub extract: Option<Extract>,
    /// The value to the structure; the value itself where there is none.
    pub structured: Option<Jq>,
    /// What people and models see.
    pub content: ContentTemplate,
    /// How much of it. Large, and seldom there.
    pub limit: Option<Box<Limit>>,
    /// What the client's model is asked before there is content: its answer is `answers.sample`.
    pub sample: Option<Box<SampleTemplate>>,
}

/// A structure within its limit, what was left out, and the text of the reply where that is the whole value.
type Limited = (Option<Structured>, Option<Cut>, Option<ByteString>);

impl Job<'_> {
    /// The success that a rule makes of a reply.
    ///
    /// # Errors
    ///
    /// [`Failure`] says why there is none.
    pub(super) fn success(
        &mut self,
        rule: &SuccessRule,
        view: &ResponseView<'_>,
        captures: &Captures,
        finding: Finding<'_>,
    ) -> Result<ToolResult, Failure> {
        let extracted = finding.found().map(|_| ());
        finding.trace(self.trace);
        extracted?;
        let (extracted, tree) = finding.take()?;
        let (extracted, answered) = match extracted {
            Extracted::Answered(Answered { content, value, verdict }) => {
                match told(view, content, verdict, self.translator) {
                    Ok(content) => (value.map_or(Extracted::Nothing, |value| *value), content),
                    Err(error) => {
                        // Whoever looks after the route should find what was withheld.
                        self.note_body(view);
                        return Ok(*error);
                    }
                }
            }
            extracted => (extracted, Vec::new()),
        };
        let whole_text = match &extracted {
            Extracted::Text(text) => Some(text.clone()),
            Extracted::Raw(_)
            | Extracted::Value(_)
            | Extracted::Block(_)
            | Extracted::Answered(_)
            | Extracted::Nothing => None,
        };
        let (found, mut block) = match extracted {
            Extracted::Block(content) => (None, Some(content)),
            other => (Some((other, tree)), None),
        };
        let templates = rule.content.templates();
        let asked: Vec<&str> =
            templates.iter().flat_map(|template| template.names()).map(String::as_str).collect();
        let mut of_sample =
            rule.sample.iter().flat_map(|sample| sample.templates()).flat_map(Template::names);
        let wants_value = asked.contains(&"value") || of_sample.any(|name| name == "value");
        let (structured, value) = self.structure(rule, view, captures, found, wants_value)?;
        let (structured, cut, whole_text) = match (&rule.limit, structured) {
            (Some(limit), Some(structured)) => self.limited(rule, limit, view, structured, whole_text)?,
            (_, structured) => (structured, None, whole_text),
        };
        if let Some(sample) = &rule.sample
            && view.facts.answers.get(SAMPLE).is_none()
        {
            let known = Known { view, captures, value: value.as_ref(), structured: structured.as_ref() };
            let names = known
                .names(&sample.templates().flat_map(Template::names).map(String::as_str).collect::<Vec<_>>());
            let sample = sample.render(&minijinja::Value::from_pairs(names), view.stop());
            let sample = sample.map_err(|error| {
                let what = "what the model is asked could not be written";
                Why::new(format!("{what}: {error}"), what)
            })?;
            return Err(Failure::Asks(Box::new(sample)));
        }
        let mut shown = match &rule.content {
            ContentTemplate::Default => Vec::new(),
            ContentTemplate::Blocks(blocks) => {
                let known = Known { view, captures, value: value.as_ref(), structured: structured.as_ref() };
                if let Some(left_out) =
                    self.trace.is_on().then(|| content::left_out(blocks, &known)).flatten()
                {
                    self.trace.step(|| ("left out".into(), left_out));
                }
                content::render(blocks, &known, &asked)?
            }
        };
        // What a server answered as content stays as it is, unless it shows what is left out now.
        if shown.is_empty() && cut.is_none() {
            let text = if structured.is_some() { TextKind::Json } else { TextKind::Made };
            shown.extend(answered.into_iter().map(|content| Shown { content, text }));
        }
        if shown.is_empty() {
            shown.push(self.default_block(view, block.take(), whole_text, structured.as_ref()));
        }
        let (mut content, cut): (Vec<_>, _) = match &rule.limit {
            None => (shown.into_iter().map(|shown| shown.content).collect(), cut),
            Some(limit) => {
                let (content, of_text) = limit.texts(shown).map_err(Failure::TooLong)?;
                let cut = match (cut, of_text) {
                    // Of one text that was cut before, the rest needs no word.
                    (Some(cut), Some(text)) if rule.content.has_own_text() => Some(cut.and_text(&text)),
                    (Some(cut), _) => Some(cut),
                    (None, of_text) => of_text,
                };
                (content, cut)
            }
        };
        self.trace.step(|| ("content".into(), content_words(&content)));
        let mut meta = None;
        if let Some((limit, cut)) = rule.limit.as_ref().zip(cut) {
            let note = cut.note(limit, view).unwrap_or_else(|(why, note)| {
                self.note("the template of `note` could not be filled in");
                self.notes.push(Note::Quoting(why));
                note
            });
            self.trace.step(|| ("limit".into(), note.clone()));
            meta = Some(cut.meta());
            content.extend((!note.trim().is_empty()).then(|| Content::text(note)));
        }
        let mut result = ToolResult::new(Outcome::Success, content);
        result.structured = structured;
        Ok(match meta {
            Some(meta) => result.with_meta(LIMIT_META_KEY, meta),
            None => result,
        })
    }

    /// The structure within its limit, what was left out of it, and the text of the reply where that is the value.
    fn limited(
        &mut self,
        rule: &SuccessRule,
        limit: &Limit,
        view: &ResponseView<'_>,
        structured: Structured,
        whole_text: Option<ByteString>,
    ) -> Result<Limited, Failure> {
        let output = self.translator.output.as_ref().map(|output| (output, view.stop()));
        let (structured, cut) = limit
            .structure(structured, output, view.facts.args, rule.content.is_pretty())
            .map_err(Failure::TooLong)?;
        let whole_text = whole_text.map(|whole| match cut.as_ref().map(|_| structured.json().parse()) {
            Some(Value::String(text)) => text.into(),
            Some(_) | None => whole,
        });
        Ok((Some(structured), cut, whole_text))
    }

    fn default_block(
        &self,
        view: &ResponseView<'_>,
        block: Option<Content>,
        whole_text: Option<ByteString>,
        structured: Option<&Structured>,
    ) -> Shown {
        let made = |content| Shown { content, text: TextKind::Made };
        match block {
            Some(block) => made(block),
            None if structured.is_none() && whole_text.as_ref().is_none_or(|text| text.is_empty()) => {
                made(Content::text(words_of_nothing(view.reply)))
            }
            None => match default_text(whole_text, structured) {
                Text::OfStructure => {
                    Shown { content: Block::Text(Text::OfStructure).into(), text: TextKind::Json }
                }
                text => made(Block::Text(text).into()),
            },
        }
    }

    /// The structure, and the value it was made of where a template asks for that.
    fn structure(
        &mut self,
        rule: &SuccessRule,
        view: &ResponseView<'_>,
        captures: &Captures,
        found: Option<(Extracted, Option<Value>)>,
        wants_value: bool,
    ) -> Result<(Option<Structured>, Option<Value>), Failure> {
        let output = self.translator.output.as_ref();
        let Some((extracted, tree)) = found else {
            return match (output, &rule.structured) {
                (None, None) => Ok((None, None)),
                _ => Err("expected a value, found bytes without structure".into()),
            };
        };
        if matches!(extracted, Extracted::Nothing) && rule.structured.is_none() {
            return match output {
                None => Ok((None, None)),
                Some(_) => Err("it is empty, and this tool promises a value".into()),
            };
        }
        let source = match &extracted {
            Extracted::Raw(json) => Some(json.clone()),
            Extracted::Value(_)
            | Extracted::Text(_)
            | Extracted::Block(_)
            | Extracted::Answered(_)
            | Extracted::Nothing => None,
        };
        // The value stays what it is.
        if rule.structured.is_none() && output.is_none() {
            let (json, value) = match (source, wants_value) {
                // The case that is worth being quick in: nobody looks into the reply.
                (Some(json), false) => {
                    if rule.limit.is_some() || rule.content.looks_into_structure() {
                        view.admits(&json)?;
                    }
                    (json, None)
                }
                (source, _) => {
                    let value = tree.map_or_else(|| extracted.into_value(view), Ok)?;
                    (source.unwrap_or_else(|| JsonText::of(&value)), wants_value.then_some(value))
                }
            };
            return Ok((Some(self.translator.wrap.apply(Structured::new(json))), value));
        }
        let found = tree.map_or_else(|| extracted.into_value(view), Ok)?;
        let kept = wants_value.then(|| found.clone());
        let (value, source) = match &rule.structured {
            None => (found, source),
            Some(jq) => {
                let value = jq.apply_to_own(found, jq_names(view, captures)).map_err(|error| {
                    self.note_detail(&error);
                    match error.raised {
                        Some(raised) => Failure::Raised(raised),
                        // It shows nothing of the value.
                        None => Why::plainly(format!("`structured` {error}")).into(),
                    }
                })?;
                self.trace_filter(jq, &value);
                (value, None)
            }
        };
        let structured = match output {
            Some(output) => {
                let structured = output
                    .enforce(value, source.as_ref(), view.stop())
                    .map_err(|why| why.under("the result does not meet the output schema"))?;
                self.trace.step(|| {
                    (
                        "schema".into(),
                        format!("met by {}", cut_bytes(structured.json().as_str(), LONGEST_TRACED)),
                    )
                });
                structured
            }
            None => self.translator.wrap.apply(Structured::new(JsonText::of(&value))),
        };
        Ok((Some(structured), kept))
    }
}

/// What is shown of a success that says nothing.
pub fn words_of_nothing(reply: &Reply) -> String {
    match &reply.exit {
        Some(exit) => format!("Done: the program ended with {} and without output.", exit.end.in_words()),
        None => format!("Done: the upstream answered {} without content.", reply.status),
    }
}

/// The default text of a block: the text of the reply where that is the whole value, else the structure's JSON.
fn default_text(whole_text: Option<ByteString>, structured: Option<&Structured>) -> Text {
    let is_string = structured.is_none_or(|structured| structured.json().as_str().starts_with('"'));
    whole_text.filter(|text| is_string && !text.is_empty()).map_or(Text::OfStructure, Text::Shared)
}
