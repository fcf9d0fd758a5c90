//! Rules tried out on replies: what a route that is put in force nowhere would make of a reply that nobody sent.
//!
//! No upstream is asked, no file read, no variable looked up, and what is in force stays as it is. In reading order:
//! [`Bench`] is what operators try rules on, [`explained`] one translation step by step, `arguments` what a call was
//! probably called with.

use std::sync::Arc;

use http::{HeaderValue, header::CONTENT_TYPE};
use serde_json::{Map, Value, json};

use crate::{
    admin::{Attempt, Given, Workbench},
    config::{Draft, Example, Importer, Loaded, Problem, RouteFile},
    reply::{End, Exit, Reply},
    route::{RequestTemplate, Route},
    rule::{Facts, Note, Step, Stop, Trace, Translation, extract::MCP_MEDIA_TYPE, translate},
    tool::{Arguments, Shapes, ToolResult, result_to_json},
};

use super::example_arguments;

/// How long a result may be that is told, in bytes.
const RESULT_LIMIT_BYTES: usize = 1 << 20;

/// Rules of a configuration, to be changed and tried.
#[derive(Debug)]
pub struct Bench {
    importer: Importer,
    routes: Arc<[RouteFile]>,
}

/// What came of a reply, step by step.
#[derive(Debug)]
pub struct Explained {
    /// Which rule decided, from 0; none where the default rules did.
    pub rule: Option<usize>,
    /// What was done.
    pub steps: Vec<Step>,
    /// What the log would say.
    pub notes: Vec<String>,
    /// Whether it is a tool error.
    pub is_error: bool,
    /// The result as a client gets it.
    pub result: Value,
}

/// Translates a reply for a call with these arguments.
pub fn explained(
    file: &RouteFile,
    arguments: Arguments,
    answers: &Map<String, Value>,
    reply: &Reply,
    stop: Option<&Stop>,
) -> Explained {
    let route = &file.route;
    let mut trace = Trace::on();
    let args = arguments.into_value();
    let answers = Value::Object(route.asking.complete(answers));
    let facts = Facts { answers: &answers, stop, ..Facts::new(&route.definition.name, &args) };
    let Translation { result, rule, notes, asks: _ } = translate(&route.translator, facts, reply, &mut trace);
    let result = result.with_errors_as(route.error_format);
    let mut steps = trace.into_steps();
    steps.iter_mut().for_each(|step| tell_origin(step, &file.rule_origins));
    // Whoever looks at a reply they gave sees the sentence that quotes it, and not the one for the log as well.
    let quoting = notes.iter().skip(1).map(|note| matches!(note, Note::Quoting(_))).chain([false]);
    let shown = notes.iter().zip(quoting).filter(|(note, next)| !(*next && matches!(note, Note::Why(_))));
    let notes = shown.map(|(note, _)| note.to_string()).collect();
    Explained { rule, steps, notes, is_error: result.is_error(), result: written(&result) }
}

/// A rule that a `use` brought says so.
fn tell_origin(step: &mut Step, origins: &[Option<String>]) {
    let index = step.what.strip_prefix("rule ").and_then(|number| number.parse::<usize>().ok());
    let origin = index.and_then(|index| origins.get(index.checked_sub(1)?)?.as_ref());
    if let Some(origin) = origin {
        step.found = format!("from {origin}: {}", step.found);
    }
}

/// A result as a client gets it.
pub fn written(result: &ToolResult) -> Value {
    result_to_json(result, Shapes::ObjectsOnly)
}

impl Explained {
    /// The steps, for a program.
    pub fn steps_to_json(&self) -> Value {
        self.steps.iter().map(|step| json!({ "what": step.what, "found": step.found })).collect()
    }
}

impl Bench {
    /// What is written in a configuration.
    pub fn of(loaded: &Loaded) -> Self {
        Self { importer: loaded.importer.clone(), routes: loaded.routes.clone() }
    }
}

impl Workbench for Bench {
    fn configuration(&self) -> Value {
        self.importer.shown()
    }

    fn routes(&self) -> Value {
        let routes =
            self.routes.iter().map(|file| json!({ "name": file.name().as_str(), "tests": file.tests.len() }));
        json!({ "routes": routes.collect::<Vec<_>>() })
    }

    fn route(&self, name: &str) -> Option<Value> {
        let file = self.routes.iter().find(|file| file.name().as_str() == name)?;
        let tests: Vec<Value> =
            file.tests.iter().enumerate().map(|(index, example)| example_to_json(index, example)).collect();
        Some(json!({
            "name": name,
            "rule": self.importer.written(name)?,
            "answered_by": answered_by(&file.route),
            "tests": tests,
        }))
    }

    fn try_out(&self, attempt: &Attempt, stop: &Stop) -> Value {
        let Draft { route, problems } = self.importer.draft(&attempt.route, &attempt.rule, stop);
        let mut told = Map::new();
        told.insert("problems".into(), problems.iter().map(problem_to_json).collect());
        let Some(file) = route else { return told.into() };
        told.insert("answered_by".into(), answered_by(&file.route).into());
        told.insert(
            "output_schema".into(),
            file.route.definition.output_schema.as_ref().map_or(Value::Null, Value::from),
        );
        match example_arguments(&file.route, attempt.arguments.clone()) {
            Err(sentence) => drop(told.insert("arguments_problem".into(), sentence.into())),
            Ok(arguments) => {
                let reply = reply_of(&file.route, &attempt.given);
                let explained = explained(&file, arguments, &attempt.answers, &reply, Some(stop));
                told.insert("rule".into(), explained.rule.map(|index| index + 1).into());
                told.insert("steps".into(), explained.steps_to_json());
                told.insert("notes".into(), explained.notes.into());
                // A browser reads numbers as such, and would show `5.0` as `5`.
                let structured = explained.result.get("structuredContent");
                let written = structured.map(|structured| format!("{structured:#}"));
                let bytes = explained.result.to_string().len();
                if bytes > RESULT_LIMIT_BYTES {
                    told.insert("result_bytes".into(), bytes.into());
                } else {
                    told.insert("structured_text".into(), written.into());
                    told.insert("result".into(), explained.result);
                }
            }
        }
        told.into()
    }
}

/// Who answers the requests of a route: what a reply has depends on that.
fn answered_by(route: &Route) -> &'static str {
    match &route.request {
        RequestTemplate::Http(_) => "server",
        RequestTemplate::Tool(_) => "mcp_server",
        RequestTemplate::Command(_) => "program",
    }
}

fn reply_of(route: &Route, given: &Given) -> Reply {
    match &route.request {
        RequestTemplate::Command(_) => {
            let exit = Exit { end: given.exit.unwrap_or(End::Code(0)), stderr: given.stderr.clone() };
            Reply::of_program(given.body.clone(), exit)
        }
        RequestTemplate::Http(_) => Reply::new(given.status, given.headers.clone(), given.body.clone()),
        RequestTemplate::Tool(_) => {
            let mut reply = Reply::new(given.status, given.headers.clone(), given.body.clone());
            // What an MCP server answered, unless it is a refusal in the words of HTTP.
            if reply.status.is_success() {
                reply.headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(MCP_MEDIA_TYPE));
            }
            reply
        }
    }
}

fn problem_to_json(problem: &Problem) -> Value {
    let mut value = serde_json::to_value(problem).expect("a problem has texts and numbers only");
    value["report"] = problem.to_string().into();
    value
}

fn example_to_json(index: usize, example: &Example) -> Value {
    let reply = &example.given;
    let mut given = Map::new();
    match &reply.exit {
        Some(exit) => {
            given.insert("exit".into(), exit.end.to_json());
            given.insert("stderr".into(), exit.stderr_text().into());
        }
        None => {
            given.insert("status".into(), reply.status.as_u16().into());
            let headers = reply
                .headers
                .iter()
                .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]));
            given.insert("headers".into(), headers.collect());
        }
    }
    match std::str::from_utf8(&reply.body) {
        Ok(text) => given.insert("body".into(), text.into()),
        Err(_) => given.insert(
            "body_base64".into(),
            base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &reply.body).into(),
        ),
    };
    let name = example.name.clone().unwrap_or_else(|| (index + 1).to_string());
    json!({ "name": name, "arguments": example.args, "answers": example.answers, "given": given })
}
