//! What is told of one attempt at an upstream, in the words of the semantic conventions for clients.

use http::{Uri, uri::PathAndQuery};

use crate::{
    observe::{Span, method_word},
    reply::{End, Reply},
    route::{HttpRequest, UpstreamRequest},
    upstream::{Ask, Upstream, UpstreamError, http::Address},
};

/// Who is asked, as far as that is the same for every attempt.
#[derive(Debug, Clone, Default)]
pub(super) struct Whereto {
    upstream: String,
    /// Where it is, where that is one place.
    address: Option<Address>,
}

impl Whereto {
    /// An upstream.
    pub(super) fn of(upstream: &Upstream) -> Self {
        let address = upstream.http().and_then(|http| http.sole_address().cloned());
        Self { upstream: upstream.name().as_str().to_owned(), address }
    }
}

/// An attempt that has a span: the upstream is told of it, and somebody may read what it is.
pub(super) fn traced(span: Span, mut ask: Ask, before: u32, to: &Whereto) -> (Ask, Span) {
    if ask.traced
        && let (Some(context), Some(headers)) = (span.context(), ask.request.headers_mut())
    {
        context.write(headers);
    }
    if span.is_recorded() {
        begun(&span, &ask.request, before, to);
    }
    (ask, span)
}

fn begun(span: &Span, request: &UpstreamRequest, before: u32, to: &Whereto) {
    span.text("glossator.upstream", to.upstream.clone());
    match request {
        UpstreamRequest::Http(request) => {
            let method = method_word(&request.method);
            span.rename(|| method.to_owned());
            span.text("http.request.method", method);
            if let Some(url) = to.address.as_ref().and_then(|address| url_of(address, request)) {
                span.text("url.full", url);
            }
            if before > 0 {
                span.number("http.request.resend_count", before);
            }
        }
        UpstreamRequest::Tool(request) => {
            span.rename(|| format!("tools/call {}", request.tool));
            span.text("mcp.method.name", "tools/call");
            span.text("gen_ai.operation.name", "execute_tool");
            span.text("gen_ai.tool.name", request.tool.to_string());
        }
        UpstreamRequest::Command(_) => span.rename(|| format!("run {}", to.upstream)),
    }
    if let Some(address) = &to.address {
        match (address.socket(), address.name(), address.ip()) {
            (Some(socket), _, _) => span.text("server.address", socket.display().to_string()),
            (None, Some((host, port)), _) => {
                span.text("server.address", host.to_owned());
                span.number("server.port", port);
            }
            (None, None, Some(at)) => {
                span.text("server.address", at.ip().to_string());
                span.number("server.port", at.port());
            }
            (None, None, None) => {}
        }
    }
}

/// Without its query, in which a credential may be.
fn url_of(address: &Address, request: &HttpRequest) -> Option<String> {
    let path: PathAndQuery = request.path_and_query.path().parse().ok()?;
    let url: Uri = address.join(&path).ok()?;
    Some(url.to_string())
}

/// What came of it.
pub(super) fn ended(span: &Span, outcome: &Result<Reply, UpstreamError>) {
    match outcome {
        Ok(Reply { exit: Some(exit), .. }) => {
            if let End::Code(code) = exit.end {
                span.number("process.exit.code", code);
            }
            if !exit.end.is_success() {
                span.failed(exit.end.to_string());
            }
        }
        Ok(reply) => {
            span.number("http.response.status_code", reply.status.as_u16());
            // To a client an error of its own is one as well (semantic conventions for HTTP, "Status").
            if reply.status.is_client_error() || reply.status.is_server_error() {
                span.failed(reply.status.as_str().to_owned());
            }
        }
        Err(error) => span.failed(error.facts().label),
    }
}
