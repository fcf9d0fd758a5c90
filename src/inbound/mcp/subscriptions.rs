//! What has changed, told to clients that wait for it: `subscriptions/listen` of the newer era, and the
//! stream that a session of the older one opens by `GET`.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    client::{Client, Outbox, Unanswered},
    message::Member,
    protocol::Protocol,
    refusal::Refusal,
    response::Answer,
    streams::{Closed, Place},
    subscribed::Listening,
};
use crate::{
    pipeline::{Change, Gateway, Heard, Listener, Watching},
    upstream::Caller,
};

/// The key in `_meta` of everything that is told to one who listens.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Of how many resources one stream may want to hear; those beyond are left out of the acknowledgement.
const RESOURCE_LIMIT: usize = 100;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params<'a> {
    #[serde(borrow)]
    notifications: Member<'a>,
}

/// What a client asks to be told.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Asked {
    tools_list_changed: Option<bool>,
    prompts_list_changed: Option<bool>,
    resources_list_changed: Option<bool>,
    resource_subscriptions: Option<Vec<String>>,
}

/// What a client is told.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    tools: bool,
    prompts: bool,
    resources: bool,
    of: Resources,
}

/// The resources of which a client is told that they changed.
#[derive(Debug)]
enum Resources {
    /// These, which are watched for it.
    Watched(HashMap<Arc<str>, Watching>),
    /// Those that its session subscribes to.
    OfSession(Listening),
}

/// Who is told.
pub(super) struct Audience<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) caller: Caller,
}

/// `subscriptions/listen`: tells what was asked for until the client leaves, or the server ends.
pub(super) async fn listen(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let Params { notifications } = client.request.params()?;
    let asked = notifications.object("params.notifications")?;
    let asked = asked.ok_or_else(|| Refusal::Params("`params.notifications` must be an object".into()))?;
    let _place = protocol.streams.place(client.carrier.caller())?;
    // From before the acknowledgement on: whoever has it misses nothing.
    let listener = protocol.gateway.changes().listen();
    let audience = Audience { gateway: &protocol.gateway, caller: client.carrier.caller().clone() };
    let wanted = Wanted::of(asked, &audience);
    let meta = json!({ SUBSCRIPTION_ID: client.request.id.to_value() });
    let acknowledged = json!({ "_meta": meta, "notifications": wanted.to_json() });
    let told = client.outbox.send("notifications/subscriptions/acknowledged", &acknowledged).await;
    told.map_err(|_| {
        Refusal::Params("this method is answered with a stream: send `Accept: text/event-stream`, too".into())
    })?;
    let wanted_of = || Some(&wanted);
    tokio::select! {
        _ = tell(listener, client.outbox, &audience, Some(&meta), wanted_of) => {}
        () = protocol.revoked(client.carrier) => {}
        () = client.carrier.ending() => {}
    }
    let mut meta = client.meta.clone();
    meta.insert(SUBSCRIPTION_ID.to_owned(), client.request.id.to_value());
    Ok(Answer::result(client.request.id, client.revision.result_type(), &json!({}), &meta))
}

impl Audience<'_> {
    /// What a client may not read it is not told of, either; what it may read can be something else from one
    /// moment to the next.
    fn may_read(&self, uri: &str) -> bool {
        self.gateway.snapshot().scopes_of_uri(uri).is_none_or(|needed| self.caller.may(needed))
    }
}

/// Tells a session of the older era until its stream is closed, or nobody reads any more.
pub(super) async fn tell_session(
    listener: Listener,
    outbox: &Outbox,
    audience: &Audience<'_>,
    place: &Place,
    subscribed: Listening,
    closed: Closed,
) {
    let of = Resources::OfSession(subscribed);
    let wanted = Wanted { tools: true, prompts: true, resources: true, of };
    let wanted_of = || place.is_spoken_on().then_some(&wanted);
    tokio::select! {
        _ = tell(listener, outbox, audience, None, wanted_of) => {}
        _ = closed => {}
    }
}

/// Tells of changes as long as anybody reads; `wanted` is asked at each.
async fn tell<'w>(
    mut listener: Listener,
    outbox: &Outbox,
    audience: &Audience<'_>,
    meta: Option<&Value>,
    wanted: impl Fn() -> Option<&'w Wanted>,
) -> Result<Infallible, Unanswered> {
    loop {
        let heard = listener.next().await.ok_or(Unanswered::NoWay)?;
        let Some(wanted) = wanted() else { continue };
        for (method, uri) in wanted.messages(&heard) {
            if uri.as_deref().is_some_and(|uri| !audience.may_read(uri)) {
                continue;
            }
            let mut params = json!({});
            if let Some(meta) = meta {
                params["_meta"] = meta.clone();
            }
            if let Some(uri) = uri {
                params["uri"] = (*uri).into();
            }
            outbox.send(method, &params).await?;
        }
    }
}

impl Wanted {
    fn of(asked: Asked, audience: &Audience<'_>) -> Self {
        let gateway = audience.gateway;
        let mut uris = asked.resource_subscriptions.unwrap_or_default();
        uris.retain(|uri| audience.may_read(uri));
        // What can't be watched is left out of the acknowledgement, and read again by who wants to know.
        let watched = uris.iter().take(RESOURCE_LIMIT).filter_map(|uri| gateway.watch(uri).ok());
        Self {
            tools: asked.tools_list_changed == Some(true),
            prompts: asked.prompts_list_changed == Some(true),
            resources: asked.resources_list_changed == Some(true),
            of: Resources::Watched(watched.map(|watching| (Arc::clone(watching.uri()), watching)).collect()),
        }
    }

    /// As the acknowledgement says it: what is not told is left out.
    fn to_json(&self) -> Value {
        let mut filter = json!({});
        for (key, wanted) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if wanted {
                filter[key] = true.into();
            }
        }
        let mut uris = self.of.all();
        if !uris.is_empty() {
            uris.sort();
            filter["resourceSubscriptions"] = uris.iter().map(|uri| &**uri).collect();
        }
        filter
    }

    /// The notifications that are sent for what was heard, each with the resource that it is about.
    fn messages(&self, heard: &Heard) -> Vec<(&'static str, Option<Arc<str>>)> {
        const TOOLS: &str = "notifications/tools/list_changed";
        const PROMPTS: &str = "notifications/prompts/list_changed";
        const RESOURCES: &str = "notifications/resources/list_changed";
        const UPDATED: &str = "notifications/resources/updated";
        let list = |wanted: bool, method| wanted.then_some((method, None)).into_iter().collect();
        match heard {
            Heard::Change(Change::Tools) => list(self.tools, TOOLS),
            Heard::Change(Change::Prompts) => list(self.prompts, PROMPTS),
            Heard::Change(Change::Resources) => list(self.resources, RESOURCES),
            Heard::Change(Change::Resource(uri)) => {
                let wanted = self.of.has(uri).then(|| (UPDATED, Some(Arc::clone(uri))));
                wanted.into_iter().collect()
            }
            // Anything may have changed, so all of it is told.
            Heard::Missed => {
                let lists = [(self.tools, TOOLS), (self.prompts, PROMPTS), (self.resources, RESOURCES)];
                let lists = lists.into_iter().filter(|(wanted, _)| *wanted).map(|(_, method)| (method, None));
                lists.chain(self.of.all().into_iter().map(|uri| (UPDATED, Some(uri)))).collect()
            }
        }
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self::Watched(HashMap::new())
    }
}

impl Resources {
    fn has(&self, uri: &str) -> bool {
        match self {
            Self::Watched(watched) => watched.contains_key(uri),
            Self::OfSession(listening) => listening.wants(uri),
        }
    }

    fn all(&self) -> Vec<Arc<str>> {
        match self {
            Self::Watched(watched) => watched.keys().cloned().collect(),
            Self::OfSession(listening) => listening.all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbound::mcp::subscribed::tests::gateway;

    #[track_caller]
    fn check(asked: Value, acknowledged: Value, heard: &Heard, expected: &[(&str, Option<&str>)]) {
        let audience = Audience { gateway: &gateway(), caller: Caller::Only };
        let wanted = Wanted::of(serde_json::from_value(asked).unwrap(), &audience);
        assert_eq!(wanted.to_json(), acknowledged);
        let told = wanted.messages(heard);
        let told: Vec<_> = told.iter().map(|(method, uri)| (*method, uri.as_deref())).collect();
        assert_eq!(told, expected);
    }

    #[tokio::test]
    async fn only_what_was_asked_for_is_told() {
        let changed = |change| Heard::Change(change);
        let tools = json!({ "toolsListChanged": true });
        let told = [("notifications/tools/list_changed", None)];
        check(tools.clone(), tools.clone(), &changed(Change::Tools), &told);
        check(tools.clone(), tools.clone(), &changed(Change::Prompts), &[]);
        check(tools.clone(), tools, &Heard::Missed, &told);
        let asked =
            json!({ "promptsListChanged": true, "toolsListChanged": false, "resourcesListChanged": null });
        let prompts = json!({ "promptsListChanged": true });
        check(asked, prompts, &changed(Change::Prompts), &[("notifications/prompts/list_changed", None)]);
        check(json!({}), json!({}), &Heard::Missed, &[]);
        let resource = json!({ "resourceSubscriptions": ["t://a"] });
        let told = [("notifications/resources/updated", Some("t://a"))];
        check(resource.clone(), resource.clone(), &changed(Change::Resource("t://a".into())), &told);
        check(resource.clone(), resource.clone(), &changed(Change::Resource("t://b".into())), &[]);
        check(resource.clone(), resource.clone(), &Heard::Missed, &told);
        let too_much = json!({ "resourceSubscriptions": ["t://a", "once:x", "none:x", "t://a"] });
        check(too_much, resource, &Heard::Missed, &told);
    }
}
