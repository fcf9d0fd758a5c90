//! What a request says in `params`, and of itself in `_meta`: raw text until it is asked for.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    decode::{object, present, text, without_place},
    refusal::Refusal,
    revision::missing_meta,
};
use crate::route::LogLevel;

/// How long a token for progress may be, in bytes: it is repeated in every message.
const TOKEN_LIMIT_BYTES: usize = 1024;

/// What a request may have in `params`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Params<'a> {
    #[serde(borrow, default, rename = "_meta", deserialize_with = "object")]
    pub(super) meta: Meta<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    cursor: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "protocolVersion")]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    level: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    notifications: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "taskId")]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "ref")]
    reference: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    argument: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    context: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "inputResponses")]
    input_responses: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "requestState")]
    request_state: Option<&'a RawValue>,
}

/// What an argument is completed of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// A prompt, by its name.
    Prompt(Cow<'a, str>),
    /// A resource template, or a resource, by its URI.
    Resource(Cow<'a, str>),
}

#[derive(Deserialize)]
struct WrittenReference<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct WrittenArgument<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    value: Cow<'a, str>,
}

#[derive(Deserialize)]
struct WrittenContext {
    #[serde(default)]
    arguments: Option<serde_json::Map<String, serde_json::Value>>,
}

/// What a request of the newer era says of itself.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Meta<'a> {
    #[serde(
        borrow,
        default,
        deserialize_with = "present",
        rename = "io.modelcontextprotocol/protocolVersion"
    )]
    protocol_version: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        deserialize_with = "present",
        rename = "io.modelcontextprotocol/clientCapabilities"
    )]
    client_capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present", rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    tracestate: Option<&'a RawValue>,
}

/// Whether `params` have a `_meta` that is no object.
fn says_meta_otherwise(params: &str) -> bool {
    #[derive(Deserialize)]
    struct WithMeta<'a> {
        #[serde(borrow)]
        _meta: &'a RawValue,
    }
    let found = serde_json::from_str::<WithMeta<'_>>(params);
    found.is_ok_and(|found| found._meta.get() != "null" && !found._meta.get().starts_with('{'))
}

impl<'a> Params<'a> {
    /// Reads them; none at all is the same as an empty object.
    pub(super) fn of(raw: Option<&'a RawValue>) -> Result<Self, Refusal> {
        match raw.map(RawValue::get) {
            None | Some("null") => Ok(Self::default()),
            Some(object) if object.starts_with('{') => serde_json::from_str(object).map_err(|error| {
                Refusal::Params(match says_meta_otherwise(object) {
                    true => "`params._meta` must be an object".into(),
                    false => format!("`params`: {}", without_place(&error)).into(),
                })
            }),
            Some(_) => Err(Refusal::Params("`params` must be an object".into())),
        }
    }

    /// `tools/call`: which tool.
    pub(super) fn name(&self) -> Result<Cow<'a, str>, Refusal> {
        required_text(self.name, "name")
    }

    /// `tools/call`: with what. None at all is the same as none in an object.
    pub(super) fn arguments(&self) -> Result<serde_json::Map<String, serde_json::Value>, Refusal> {
        match self.arguments.map(RawValue::get) {
            None | Some("null") => Ok(serde_json::Map::new()),
            Some(object) if object.starts_with('{') => serde_json::from_str(object).map_err(|error| {
                Refusal::Params(format!("`params.arguments`: {}", without_place(&error)).into())
            }),
            Some(_) => Err(Refusal::Params("`params.arguments` must be an object".into())),
        }
    }

    /// `resources/read` and the like: which resource.
    pub(super) fn uri(&self) -> Result<Cow<'a, str>, Refusal> {
        required_text(self.uri, "uri")
    }

    /// A request that was answered with questions: the answers to them.
    pub(super) fn input_responses(
        &self,
    ) -> Result<Option<serde_json::Map<String, serde_json::Value>>, Refusal> {
        match self.input_responses.map(RawValue::get) {
            None => Ok(None),
            Some(object) if object.starts_with('{') => {
                serde_json::from_str(object).map(Some).map_err(|error| {
                    Refusal::Params(format!("`params.inputResponses`: {}", without_place(&error)).into())
                })
            }
            Some(_) => Err(Refusal::Params("`params.inputResponses` must be an object".into())),
        }
    }

    /// The same: the state that was given out with the questions.
    pub(super) fn request_state(&self) -> Result<Option<Cow<'a, str>>, Refusal> {
        self.request_state.map(|state| required_text(Some(state), "requestState")).transpose()
    }

    /// `tools/list`: where to go on.
    pub(super) fn cursor(&self) -> Result<Option<Cow<'a, str>>, Refusal> {
        match self.cursor.map(RawValue::get) {
            None | Some("null") => Ok(None),
            Some(_) => required_text(self.cursor, "cursor").map(Some),
        }
    }

    /// `completion/complete`: of what an argument is completed.
    pub(super) fn reference(&self) -> Result<Reference<'a>, Refusal> {
        const HELP: &str = "`params.ref` must be `{\"type\": \"ref/prompt\", \"name\": …}` or \
                            `{\"type\": \"ref/resource\", \"uri\": …}`";
        let written = self.reference.and_then(object_of);
        match written {
            Some(WrittenReference { kind, name: Some(name), .. }) if kind == "ref/prompt" => {
                Ok(Reference::Prompt(name))
            }
            Some(WrittenReference { kind, uri: Some(uri), .. }) if kind == "ref/resource" => {
                Ok(Reference::Resource(uri))
            }
            Some(_) | None => Err(Refusal::Params(HELP.into())),
        }
    }

    /// `completion/complete`: the argument's name, and what of it has been typed.
    pub(super) fn typed_argument(&self) -> Result<(Cow<'a, str>, Cow<'a, str>), Refusal> {
        let written = self.argument.and_then(object_of);
        let WrittenArgument { name, value } = written.ok_or_else(|| {
            Refusal::Params("`params.argument` must be `{\"name\": …, \"value\": …}`, both strings".into())
        })?;
        Ok((name, value))
    }

    /// `completion/complete`: the arguments that are there already (since 2025-06-18).
    pub(super) fn context_arguments(&self) -> Result<serde_json::Map<String, serde_json::Value>, Refusal> {
        let Some(raw) = self.context.filter(|raw| raw.get() != "null") else { return Ok(Default::default()) };
        let written = object_of::<WrittenContext>(raw);
        match written.map(|context| context.arguments.unwrap_or_default()) {
            Some(arguments) if arguments.values().all(serde_json::Value::is_string) => Ok(arguments),
            _ => Err(Refusal::Params("`params.context.arguments` must be an object of strings".into())),
        }
    }

    /// `initialize`: what the client is capable of. What is no object is taken for nothing: no client depends on it.
    pub(super) fn capabilities(&self) -> serde_json::Map<String, serde_json::Value> {
        map_of(self.capabilities)
    }

    /// `tasks/…`: which task.
    pub(super) fn task_id(&self) -> Result<Cow<'a, str>, Refusal> {
        required_text(self.task_id, "taskId")
    }

    /// `logging/setLevel`: which lines.
    pub(super) fn level(&self) -> Result<LogLevel, Refusal> {
        level_of(self.level, "params.level")
    }

    /// `subscriptions/listen`: of what.
    pub(super) fn notifications<T: Deserialize<'a>>(&self) -> Result<T, Refusal> {
        let raw = self.notifications.map_or("null", RawValue::get);
        if !raw.starts_with('{') {
            return Err(Refusal::Params("`params.notifications` must be an object".into()));
        }
        serde_json::from_str(raw).map_err(|error| {
            Refusal::Params(format!("`params.notifications`: {}", without_place(&error)).into())
        })
    }

    /// `initialize`: what the client would speak.
    pub(super) fn protocol_version(&self) -> Result<Cow<'a, str>, Refusal> {
        required_text(self.protocol_version, "protocolVersion")
    }
}

fn map_of(raw: Option<&RawValue>) -> serde_json::Map<String, serde_json::Value> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// What an object says; an array is none, even where its items are in the right order.
fn object_of<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    if raw.get().starts_with('{') { serde_json::from_str(raw.get()).ok() } else { None }
}

fn required_text<'a>(raw: Option<&'a RawValue>, key: &str) -> Result<Cow<'a, str>, Refusal> {
    raw.and_then(text).ok_or_else(|| Refusal::Params(format!("`params.{key}` must be a string").into()))
}

fn level_of(raw: Option<&RawValue>, key: &str) -> Result<LogLevel, Refusal> {
    let wrong = || Refusal::Params(format!("`{key}` must be one of {}", LogLevel::NAMES.join(", ")).into());
    raw.and_then(text).and_then(|text| text.parse().ok()).ok_or_else(wrong)
}

impl<'a> Meta<'a> {
    /// Which log lines the client wants of this request.
    pub(super) fn log_level(&self) -> Result<Option<LogLevel>, Refusal> {
        self.log_level.map(|raw| level_of(Some(raw), "io.modelcontextprotocol/logLevel")).transpose()
    }

    /// By what the client knows the progress of this request: a text or a whole number; anything else is none.
    pub(super) fn progress_token(&self) -> Option<serde_json::Value> {
        let token: serde_json::Value = serde_json::from_str(self.progress_token?.get()).ok()?;
        let whole = |number: &serde_json::Number| {
            let text = number.to_string();
            text.len() <= TOKEN_LIMIT_BYTES && !text.contains(['.', 'e', 'E'])
        };
        let fits = match &token {
            serde_json::Value::String(text) => text.len() <= TOKEN_LIMIT_BYTES,
            serde_json::Value::Number(number) => whole(number),
            _ => false,
        };
        fits.then_some(token)
    }

    /// The trace that the request belongs to: `traceparent` and `tracestate`, not yet checked.
    pub(super) fn trace(&self) -> (Option<Cow<'a, str>>, Option<Cow<'a, str>>) {
        (self.traceparent.and_then(text), self.tracestate.and_then(text))
    }

    pub(super) fn protocol_version(&self) -> Result<Option<Cow<'a, str>>, Refusal> {
        let wrong = || Refusal::Params("`io.modelcontextprotocol/protocolVersion` must be a string".into());
        self.protocol_version.map(|raw| text(raw).ok_or_else(wrong)).transpose()
    }

    /// What the client is capable of, as it says with each request of the newer era.
    pub(super) fn capabilities(&self) -> serde_json::Map<String, serde_json::Value> {
        map_of(self.client_capabilities)
    }

    /// Whether the client says what it is capable of, as the newer era requires.
    pub(super) fn check_capabilities(&self) -> Result<(), Refusal> {
        match self.client_capabilities.map(RawValue::get) {
            Some(object) if object.starts_with('{') => Ok(()),
            Some(_) => {
                Err(Refusal::Params("`io.modelcontextprotocol/clientCapabilities` must be an object".into()))
            }
            None => Err(missing_meta("clientCapabilities")),
        }
    }
}
