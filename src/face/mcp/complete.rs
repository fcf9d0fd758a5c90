//! `completion/complete`: what an argument of a prompt or of a resource template may be.

use std::sync::Arc;

use super::{
    answer::Answer,
    client::Client,
    params::Reference,
    protocol::Protocol,
    refusal::{Refusal, Short},
};
use crate::{
    gateway::{Snapshot, Typed},
    route::{Route, Suggestions},
    tool::write_escaped,
};

/// Values for what has been typed.
pub(super) async fn complete(protocol: &Protocol, client: &Client<'_>) -> Result<Answer, Refusal> {
    let params = &client.request.params;
    let reference = params.reference()?;
    let (argument, value) = params.typed_argument()?;
    let others = params.context_arguments()?;
    let snapshot = protocol.gateway.snapshot();
    let typed = Typed { argument: &argument, value: &value, others };
    let suggestions = suggestions(&snapshot, client, &reference, typed).await?;
    Answer::result(client.request.id, client.revision, |out| {
        write_suggestions(&suggestions, out);
        protocol.about.write_meta(client.revision, out);
        Ok(())
    })
}

async fn suggestions(
    snapshot: &Snapshot,
    client: &Client<'_>,
    reference: &Reference<'_>,
    typed: Typed<'_>,
) -> Result<Suggestions, Refusal> {
    let call = |arguments| client.call(arguments);
    let name = typed.argument;
    let unknown = |of: &str| Refusal::Prompt(format!("the {of} has no argument `{}`", Short(name)).into());
    match reference {
        Reference::Prompt(prompt) => {
            let found = snapshot.prompts.by_name(prompt);
            let found =
                found.ok_or_else(|| Refusal::UnknownPrompt { prompt: prompt.clone().into_owned() })?;
            client.may(&found.scopes)?;
            let argument = found.argument(name).ok_or_else(|| unknown("prompt"))?;
            match &argument.completion {
                Some(completion) => Ok(snapshot.complete(completion, typed, &call).await),
                None => Ok(Suggestions::default()),
            }
        }
        Reference::Resource(uri) => {
            let of_template = |route: &&Arc<Route>| {
                route.resource.as_ref().is_some_and(|resource| resource.uri.as_str() == uri)
            };
            let table = &snapshot.table;
            let route = table.in_order().iter().find(of_template);
            let route = route.or_else(|| table.by_uri(uri).map(|(route, _)| route));
            let route = route.ok_or_else(|| Refusal::UnknownTemplate { uri: uri.clone().into_owned() })?;
            client.may(&route.scopes)?;
            snapshot.complete_uri(route, typed, &call).await.ok_or_else(|| unknown("resource template"))
        }
    }
}

fn write_suggestions(suggestions: &Suggestions, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"completion\":{\"values\":[");
    for (index, value) in suggestions.values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_escaped(value, out);
    }
    let (total, has_more) = (suggestions.total, suggestions.has_more());
    out.extend_from_slice(format!("],\"total\":{total},\"hasMore\":{has_more}}}").as_bytes());
}
