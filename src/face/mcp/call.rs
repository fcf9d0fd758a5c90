//! `tools/call`, from raw parameters to the result's bytes.

use http::request::Parts;

use super::{
    about::About,
    answer::Answer,
    decode::Request,
    header,
    refusal::Refusal,
    revision::{Era, Revision},
};
use crate::{
    gateway::{Call, Face, Gateway},
    observe::RequestId,
    tool::write_result_fields,
};

/// Calls the tool and writes what it gave: raw JSON in the result is spliced into the answer, not rebuilt.
pub(super) async fn call_tool(
    gateway: &Gateway,
    about: &About,
    head: &Parts,
    request: &Request<'_>,
    revision: Revision,
) -> Result<Answer, Refusal> {
    let tool = request.params.name()?.into_owned();
    let arguments = request.params.arguments()?;
    // One for the whole call: its headers are checked against the schema that its arguments will be.
    let snapshot = gateway.snapshot();
    let route = snapshot.table.by_tool(&tool);
    match revision.era() {
        Era::Handshake => {}
        Era::PerRequest => {
            header::check_name(&head.headers, &tool)?;
            if let Some(route) = route {
                header::check_arguments(&head.headers, &route.definition.input_schema, &arguments)?;
            }
        }
    }
    let Some(route) = route else { return Err(Refusal::UnknownTool { tool }) };
    let request_id = RequestId::of_request(head);
    let call = Call { arguments, headers: &head.headers, request_id, face: Face::Mcp };
    // Dropped with the connection: the upstream's request ends with its client's.
    let mut result = snapshot.call(route, call).await;
    revision.adapt(&mut result);
    Answer::result(request.id, revision, |out| {
        write_result_fields(&result, revision.shapes(), about.result_meta(revision), out);
        Ok(())
    })
}
