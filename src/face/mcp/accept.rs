//! What an HTTP request says that it sends, and in which form it takes the answer.

use http::{HeaderMap, StatusCode, header};

use crate::face::{accept::media_ranges, context::Reason};

/// The form in which a client wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON document.
    Json,
    /// One JSON document, or a stream where something is to be said before the result.
    Either,
    /// A stream of one event, for clients that accept nothing else.
    EventStream,
}

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// What the client sends and what it takes.
///
/// # Errors
///
/// [`Unfit`], to be answered with HTTP 415 or 406.
pub(super) fn form(headers: &HeaderMap) -> Result<Form, Unfit> {
    if !is_json(headers) {
        return Err(Unfit::ContentType);
    }
    let ranges: Vec<_> = media_ranges(headers).collect();
    let takes = |media_type| ranges.iter().any(|range| range.takes(media_type));
    match (takes(JSON), takes(EVENT_STREAM)) {
        (true, true) => Ok(Form::Either),
        (true, false) => Ok(Form::Json),
        (false, true) => Ok(Form::EventStream),
        (false, false) if ranges.is_empty() => Ok(Form::Json),
        (false, false) => Err(Unfit::Accept),
    }
}

/// Whether the client takes a stream of events, and says so by name.
pub(super) fn takes_stream(headers: &HeaderMap) -> bool {
    media_ranges(headers).any(|range| !range.is("*/*") && range.takes(EVENT_STREAM))
}

/// A request that says it is not for us. The text reaches the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("the body of a message must be JSON: send `Content-Type: application/json`")]
    ContentType,
    #[error("answers are `application/json` or `text/event-stream`; `Accept` allows neither")]
    Accept,
}

impl Reason for Unfit {
    fn reason(&self) -> &'static str {
        match self {
            Self::ContentType => "media type of the body",
            Self::Accept => "accepted media types",
        }
    }
}

impl Unfit {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Accept => StatusCode::NOT_ACCEPTABLE,
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter().peekable();
    let one_at_least = values.peek().is_some();
    one_at_least
        && values.all(|value| {
            let essence = value.to_str().ok().and_then(|text| text.split(';').next());
            essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(JSON))
        })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check_form(accept: &[&'static str], expected: Result<Form, Unfit>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("Application/JSON; charset=utf-8"));
        for value in accept {
            headers.append(header::ACCEPT, HeaderValue::from_static(value));
        }
        assert_eq!(form(&headers), expected, "{accept:?}");
    }

    #[test]
    fn json_is_preferred_and_a_stream_given_to_those_who_take_nothing_else() {
        check_form(&["application/json, text/event-stream"], Ok(Form::Either));
        check_form(&["text/event-stream", "application/json"], Ok(Form::Either));
        check_form(&["*/*"], Ok(Form::Either));
        check_form(&["application/json"], Ok(Form::Json));
        check_form(&["text/html, application/*;q=0.8"], Ok(Form::Json));
        check_form(&[], Ok(Form::Json));
        check_form(&[""], Ok(Form::Json));
        check_form(&["text/event-stream"], Ok(Form::EventStream));
        check_form(&["text/event-stream, application/json;q=0"], Ok(Form::EventStream));
        check_form(&["text/html"], Err(Unfit::Accept));
        check_form(&["application/json; Q=0.000"], Err(Unfit::Accept));
    }

    #[test]
    fn a_body_of_another_type_is_not_read() {
        for value in ["text/plain", "application/jsonp", "application/x-www-form-urlencoded", ""] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(form(&headers), Err(Unfit::ContentType), "{value}");
        }
        assert_eq!(form(&HeaderMap::new()), Err(Unfit::ContentType));
    }
}
