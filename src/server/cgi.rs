//! One request of a web server over CGI, to its end.

use std::io::{self, Write};

use axum::body::Body;
use http::{Method, Request};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::{Answerer, connection};
use crate::inbound::cgi;

/// Why a response did not get out as a whole.
#[derive(Debug, thiserror::Error)]
pub enum CgiError {
    /// The web server reads no more: its client has left.
    #[error("the web server does not take the response")]
    Write(#[source] io::Error),
    /// The response broke off, as an upstream that is handed through may.
    #[error("the response broke off")]
    CutOff(#[source] axum::Error),
}

/// Answers one request and writes the response, each part as it comes.
///
/// # Errors
///
/// [`CgiError`], when the response was not written to its end.
pub async fn answer_cgi(
    answerer: &Answerer,
    request: Request<Body>,
    out: &mut impl Write,
) -> Result<(), CgiError> {
    let head_only = request.method() == Method::HEAD;
    let (head, mut body) = connection::answer(answerer, request).await.into_parts();
    let has_body = !head_only && !body.is_end_stream();
    let mut write = |bytes: &[u8]| out.write_all(bytes).and_then(|()| out.flush()).map_err(CgiError::Write);
    write(&cgi::head(head, has_body))?;
    if !has_body {
        return Ok(());
    }
    while let Some(frame) = body.frame().await {
        // Trailers have no place here.
        if let Ok(data) = frame.map_err(CgiError::CutOff)?.into_data() {
            write(&data)?;
        }
    }
    Ok(())
}
