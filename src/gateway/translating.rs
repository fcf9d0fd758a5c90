//! Where a reply is translated: short ones where they came in, long ones aside.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use http::header;
use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::{
    reply::Reply,
    route::Route,
    rule::{self, Facts, Stop, Trace, Translation, Translator},
    tool::Arguments,
};

/// From this size on a reply that is only passed on is translated on a thread of its own. Below it that takes about
/// half a millisecond, which is a fair time for a thread that serves other calls too; two where it is all tiny values.
const LARGE_REPLY_BYTES: usize = 1 << 20;

/// The same for a reply that rules or a schema look into, or that is a failure: a pattern looked for again and again, or a filter, may take a time that
/// grows with the square of its length.
const LARGE_FOR_RULES_BYTES: usize = 8 << 10;

/// How many large replies are translated at once, so that their trees do not fill the memory.
#[derive(Debug, Clone)]
pub(super) struct Translating {
    places: Arc<Semaphore>,
}

/// Why there is no translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untranslated {
    /// Something panicked that the rules are made with.
    Panicked,
    /// The call's deadline came first.
    TooLate,
}

impl Translating {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { places: Arc::new(Semaphore::new(cores)) }
    }

    /// Translates a reply until `deadline`.
    ///
    /// One that nobody waits for any more, because of the deadline or because its caller left, is asked to stop; it
    /// keeps its place until it does.
    pub(super) async fn translate(
        &self,
        route: &Arc<Route>,
        arguments: Arguments,
        reply: Reply,
        deadline: Instant,
    ) -> Result<Translation, Untranslated> {
        // A short reply that is compressed may be a long one.
        let compressed = reply.headers.contains_key(header::CONTENT_ENCODING);
        let large =
            if is_passed_on(&route.translator, &reply) { LARGE_REPLY_BYTES } else { LARGE_FOR_RULES_BYTES };
        if reply.body.len() < large && !compressed {
            return translate(route, arguments, &reply, None);
        }
        let route = Arc::clone(route);
        let work = move |stop: &Stop| translate(&route, arguments, &reply, Some(stop));
        Box::pin(self.aside(deadline, work)).await.and_then(|translated| translated)
    }

    /// Asks of a reply how a job stands; gives the reply back.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        reply: Reply,
        deadline: Instant,
        questions: impl FnOnce(&Reply, Option<&Stop>) -> T + Send + 'static,
    ) -> Result<(T, Reply), Untranslated> {
        let compressed = reply.headers.contains_key(header::CONTENT_ENCODING);
        let ask = move |reply: Reply, stop: Option<&Stop>| {
            let answers = panic::catch_unwind(AssertUnwindSafe(|| questions(&reply, stop)));
            answers.map(|answers| (answers, reply)).map_err(|_| Untranslated::Panicked)
        };
        if reply.body.len() < LARGE_FOR_RULES_BYTES && !compressed {
            return ask(reply, None);
        }
        self.aside(deadline, move |stop| ask(reply, Some(stop))).await.and_then(|looked| looked)
    }

    /// Does work on a thread of its own, until `deadline`.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Result<T, Untranslated> {
        let places = Arc::clone(&self.places);
        let waiting = Waiting::default();
        let stop = waiting.0.clone();
        let done = async move {
            let place = places.acquire_owned().await.expect("the semaphore is never closed");
            let work = move || {
                let done = work(&stop);
                drop(place);
                done
            };
            spawn_blocking(work).await.map_err(|_| Untranslated::Panicked)
        };
        timeout_at(deadline, done).await.unwrap_or(Err(Untranslated::TooLate))
    }
}

/// Somebody who waits for a translation; when they go, it is asked to stop.
#[derive(Debug, Default)]
struct Waiting(Stop);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.now();
    }
}

/// Whether a reply is checked and passed on: no rule looks into it, no schema is held against it, and it is no failure,
/// of which the words are looked for.
fn is_passed_on(translator: &Translator, reply: &Reply) -> bool {
    let has_failed =
        !reply.status.is_success() || reply.exit.as_ref().is_some_and(|exit| !exit.end.is_success());
    translator.rules.is_empty() && translator.output.is_none() && !has_failed
}

/// `rule::translate` is total, but it runs other people's parsers and evaluators on other people's bytes: should
/// one of them panic, this call is lost and no other.
fn translate(
    route: &Route,
    arguments: Arguments,
    reply: &Reply,
    stop: Option<&Stop>,
) -> Result<Translation, Untranslated> {
    let (args, answers) = arguments.into_values();
    let facts = Facts { stop, answers: &answers, ..Facts::new(&route.definition.name, &args) };
    let translated = panic::catch_unwind(AssertUnwindSafe(|| {
        rule::translate(&route.translator, facts, reply, &mut Trace::off())
    }));
    translated.map_err(|_| Untranslated::Panicked)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;
    use crate::rule::{Otherwise, OutputSchema, Redaction, TranslationLimits, Wrap};

    #[test]
    fn what_is_held_against_a_schema_or_has_failed_is_not_just_passed_on() {
        let translator = |output: Option<OutputSchema>| Translator {
            rules: Vec::new(),
            otherwise: Otherwise::default(),
            output,
            wrap: Wrap::default(),
            redaction: Redaction::default(),
            limits: TranslationLimits::default(),
        };
        let reply = |status| Reply::new(status, HeaderMap::new(), "{}".into());
        let schema = json!({"type": "object"});
        let schema = OutputSchema::new(schema.as_object().unwrap().clone(), Wrap::default()).unwrap();
        assert!(is_passed_on(&translator(None), &reply(StatusCode::OK)));
        assert!(!is_passed_on(&translator(Some(schema)), &reply(StatusCode::OK)));
        assert!(!is_passed_on(&translator(None), &reply(StatusCode::BAD_GATEWAY)));
    }
}
