//! The messages of a prompt: what its parts show, those that ask an upstream all at the same time.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use serde_json::{Map, Value};

use super::{Call, ReadError, Snapshot};
use crate::{
    model::{Arguments, Block, Fault, Outcome, ResourceContents, ToolResult},
    prompt::{Message, Part, PartTemplate, Prompt},
    route::RouteCall,
    translate::{BLOCK_LIMIT, Stop, Template, TemplateError, template_names},
};

/// How long the messages of one prompt may be together, in bytes.
const MESSAGES_LIMIT_BYTES: usize = 64 << 20;

/// Why a prompt has no messages. The text is for clients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// What the client gave is at fault.
    #[error("{0}")]
    Arguments(String),
    /// Something else is.
    #[error("the prompt can't be made: {0}")]
    Failed(String),
}

/// Makes a call of these arguments on behalf of the client that asked for something else.
pub type CallOf<'f, 'a> = &'f (dyn Fn(Map<String, Value>) -> Call<'a> + Send + Sync);

impl Snapshot {
    /// The messages of a prompt for arguments that were checked. Dropping the future cancels what it asks.
    ///
    /// # Errors
    ///
    /// [`PromptError`] when a part can't be fetched or written; then there is no prompt.
    pub async fn prompt(
        &self,
        prompt: &Prompt,
        arguments: &Arguments,
        call: CallOf<'_, '_>,
    ) -> Result<Vec<Message>, PromptError> {
        let fetched = prompt.parts.iter().map(|part| self.fetch(part, arguments, call));
        let fetched = all(fetched.collect()).await;
        let (names, stop) = (template_names(arguments), Stop::after(Stop::TEXT_STEPS));
        let failed = |error: TemplateError| PromptError::Failed(error.to_string());
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for (part, fetched) in prompt.parts.iter().zip(fetched) {
            let more = match fetched? {
                None => part.written(&names, &stop),
                Some(result) => part.shown(result, &names, &stop),
            };
            for message in more.map_err(failed)? {
                bytes += message.bytes();
                messages.push(message);
            }
            if messages.len() > BLOCK_LIMIT || bytes > MESSAGES_LIMIT_BYTES {
                let most = MESSAGES_LIMIT_BYTES >> 20;
                return Err(PromptError::Failed(format!(
                    "it would have more than {BLOCK_LIMIT} messages, or {most} MiB"
                )));
            }
        }
        if messages.is_empty() {
            return Err(PromptError::Failed("with these arguments it has no message".to_owned()));
        }
        Ok(messages)
    }

    async fn fetch(
        &self,
        part: &PartTemplate,
        arguments: &Arguments,
        call: CallOf<'_, '_>,
    ) -> Result<Option<ToolResult>, PromptError> {
        match &part.part {
            Part::Text(_) | Part::Resource { .. } | Part::ResourceLink { .. } => Ok(None),
            Part::Route(route) => self.show(route, arguments, call).await.map(Some),
            Part::Read(uri) => self.embed(uri, arguments, call).await.map(Some),
        }
    }

    async fn show(
        &self,
        route_call: &RouteCall,
        arguments: &Arguments,
        call: CallOf<'_, '_>,
    ) -> Result<ToolResult, PromptError> {
        let result = self.call_on_behalf(route_call, arguments, call).await.map_err(PromptError::Failed)?;
        let Outcome::Error(fault) = result.outcome else { return Ok(result) };
        Err(match fault {
            Fault::Arguments => PromptError::Arguments(result.told()),
            _ => PromptError::Failed(result.told()),
        })
    }

    /// What is read under a URI, as a result of documents.
    async fn embed(
        &self,
        uri: &Template,
        arguments: &Arguments,
        call: CallOf<'_, '_>,
    ) -> Result<ToolResult, PromptError> {
        let uri = uri.render_until(&template_names(arguments), &Stop::after(Stop::TEXT_STEPS));
        let uri = uri.map_err(|error| PromptError::Failed(error.to_string()))?;
        let read = self.read(&uri, call(Map::new())).await.map_err(|error| match error {
            ReadError::Unknown | ReadError::Arguments(_) => PromptError::Arguments(error.to_string()),
            ReadError::Missing(_) | ReadError::Failed(_) => PromptError::Failed(error.to_string()),
        })?;
        let document = |contents: ResourceContents| Block::Resource {
            uri: contents.uri,
            mime_type: contents.media_type,
            body: contents.body,
        };
        let documents = read.contents.into_iter().map(|contents| document(contents).into()).collect();
        Ok(ToolResult::new(Outcome::Success, documents))
    }

    /// Calls a route with arguments that are made of those of something else.
    ///
    /// # Errors
    ///
    /// A sentence when they can't be made.
    pub(super) async fn call_on_behalf(
        &self,
        route_call: &RouteCall,
        arguments: &Arguments,
        call: CallOf<'_, '_>,
    ) -> Result<ToolResult, String> {
        let route = self.table.by_name(route_call.route.as_str());
        let route = route.ok_or_else(|| "the route that it asks is not there".to_owned())?;
        let stop = Stop::after(Stop::TEXT_STEPS);
        let filled = route_call.fill(arguments, &route.input, Some(&stop));
        let filled = filled.map_err(|error| error.to_string())?;
        Ok(self.call(route, call(filled)).await)
    }
}

/// Waits for all of them at the same time.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let mut waiting: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        for (future, output) in waiting.iter_mut().zip(&mut outputs).filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_wait_at_the_same_time_and_keep_their_order() {
        let (send, mut receive) = tokio::sync::mpsc::channel::<u8>(1);
        let first: Pin<Box<dyn Future<Output = u8>>> = Box::pin(async move { receive.recv().await.unwrap() });
        let second: Pin<Box<dyn Future<Output = u8>>> = Box::pin(async move {
            send.send(7).await.unwrap();
            8
        });
        assert_eq!(all(vec![first, second]).await, [7, 8]);
        assert!(all(Vec::<std::future::Ready<u8>>::new()).await.is_empty());
    }
}
