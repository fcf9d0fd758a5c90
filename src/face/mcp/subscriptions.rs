//! What has changed, told to clients that wait for it: `subscriptions/listen` of the newer era, and the stream that a
//! session of the older one opens by `GET`.

use std::{collections::HashSet, convert::Infallible};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    answer::Answer,
    client::{Client, Outbox, Unanswered},
    protocol::Protocol,
    refusal::Refusal,
    streams::{Closed, Place},
};
use crate::gateway::{Change, Heard, Listener};

/// The key in `_meta` of everything that is told to one who listens.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Of how many resources one stream may want to hear; those beyond are left out of the acknowledgement.
const RESOURCE_LIMIT: usize = 1000;

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
    uris: HashSet<String>,
}

/// `subscriptions/listen`: tells what was asked for until the client leaves, or the server ends.
pub(super) async fn listen(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let wanted = Wanted::of(client.request.params.notifications()?);
    let _place = protocol.streams.place().ok_or(Refusal::TooManyStreams)?;
    // From before the acknowledgement on: whoever has it misses nothing.
    let listener = protocol.gateway.changes().listen();
    let meta = json!({ SUBSCRIPTION_ID: client.request.id.to_value() });
    let acknowledged = json!({ "_meta": meta, "notifications": wanted.to_json() });
    let told = client.outbox.send("notifications/subscriptions/acknowledged", &acknowledged).await;
    told.map_err(|_| {
        Refusal::Params("this method is answered with a stream: send `Accept: text/event-stream`, too".into())
    })?;
    let wanted_of = || Some(&wanted);
    tokio::select! {
        _ = tell(listener, client.outbox, Some(&meta), wanted_of) => {}
        () = client.carrier.ending() => {}
    }
    let mut result_meta = protocol.about.result_meta(client.revision).clone();
    result_meta.insert(SUBSCRIPTION_ID.to_owned(), client.request.id.to_value());
    Answer::result(client.request.id, client.revision, |out| {
        out.extend_from_slice(b"\"_meta\":");
        serde_json::to_writer(out, &result_meta).expect("a JSON object has string keys only");
        Ok(())
    })
}

/// Tells a session of the older era until its stream is closed, or nobody reads any more.
pub(super) async fn tell_session(listener: Listener, outbox: &Outbox, place: &Place, closed: Closed) {
    let wanted = Wanted { tools: true, prompts: true, resources: true, uris: HashSet::new() };
    let wanted_of = || place.is_spoken_on().then_some(&wanted);
    tokio::select! {
        _ = tell(listener, outbox, None, wanted_of) => {}
        _ = closed => {}
    }
}

/// Tells of changes as long as anybody reads; `wanted` is asked at each.
async fn tell<'w>(
    mut listener: Listener,
    outbox: &Outbox,
    meta: Option<&Value>,
    wanted: impl Fn() -> Option<&'w Wanted>,
) -> Result<Infallible, Unanswered> {
    loop {
        let heard = listener.next().await.ok_or(Unanswered::NoWay)?;
        let Some(wanted) = wanted() else { continue };
        for (method, uri) in wanted.messages(&heard) {
            let mut params = json!({});
            if let Some(meta) = meta {
                params["_meta"] = meta.clone();
            }
            if let Some(uri) = uri {
                params["uri"] = uri.into();
            }
            outbox.send(method, &params).await?;
        }
    }
}

impl Wanted {
    fn of(asked: Asked) -> Self {
        let uris = asked.resource_subscriptions.unwrap_or_default();
        Self {
            tools: asked.tools_list_changed == Some(true),
            prompts: asked.prompts_list_changed == Some(true),
            resources: asked.resources_list_changed == Some(true),
            uris: uris.into_iter().take(RESOURCE_LIMIT).collect(),
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
        if !self.uris.is_empty() {
            let mut uris: Vec<&String> = self.uris.iter().collect();
            uris.sort();
            filter["resourceSubscriptions"] = json!(uris);
        }
        filter
    }

    /// The notifications that are sent for what was heard, each with the resource that it is about.
    fn messages<'a>(&'a self, heard: &'a Heard) -> Vec<(&'static str, Option<&'a str>)> {
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
                self.uris.get(uri.as_ref()).map(|uri| (UPDATED, Some(uri.as_str()))).into_iter().collect()
            }
            // Anything may have changed, so all of it is told.
            Heard::Missed => {
                let lists = [(self.tools, TOOLS), (self.prompts, PROMPTS), (self.resources, RESOURCES)];
                let lists = lists.into_iter().filter(|(wanted, _)| *wanted).map(|(_, method)| (method, None));
                lists.chain(self.uris.iter().map(|uri| (UPDATED, Some(uri.as_str())))).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(asked: Value, acknowledged: Value, heard: &Heard, expected: &[(&str, Option<&str>)]) {
        let wanted = Wanted::of(serde_json::from_value(asked).unwrap());
        assert_eq!(wanted.to_json(), acknowledged);
        assert_eq!(wanted.messages(heard), expected);
    }

    #[test]
    fn only_what_was_asked_for_is_told() {
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
        let resource = json!({ "resourceSubscriptions": ["test://a"] });
        let told = [("notifications/resources/updated", Some("test://a"))];
        check(resource.clone(), resource.clone(), &changed(Change::Resource("test://a".into())), &told);
        check(resource.clone(), resource.clone(), &changed(Change::Resource("test://b".into())), &[]);
        check(resource.clone(), resource, &Heard::Missed, &told);
    }
}
