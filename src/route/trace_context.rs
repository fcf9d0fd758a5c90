//! Trace context of a call: `traceparent` and `tracestate` (W3C Trace Context).

use http::{HeaderMap, HeaderName, HeaderValue};

const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// Maximum length of `tracestate`, in bytes: the length that W3C Trace Context, section 3.3.1.5, asks to
/// propagate. A longer value is dropped.
const STATE_LIMIT_BYTES: usize = 512;

/// Trace context of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: HeaderValue,
    state: Option<HeaderValue>,
}

impl TraceContext {
    /// Parses `traceparent` and `tracestate` from a client. Returns `None` if `parent` is invalid, and drops
    /// an invalid `state`.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        is_parent(parent).then_some(())?;
        let state = state.filter(|state| is_state(state)).and_then(|state| HeaderValue::from_str(state).ok());
        Some(Self { parent: HeaderValue::from_str(parent).ok()?, state })
    }

    /// Parses the trace context in the headers of a request; `None` without exactly one valid `traceparent`.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(PARENT).iter();
        let parent = parents.next()?.to_str().ok()?;
        if parents.next().is_some() {
            return None;
        }
        let states: Result<Vec<&str>, _> = headers.get_all(STATE).iter().map(HeaderValue::to_str).collect();
        Self::parse(parent, states.ok().map(|states| states.join(",")).as_deref())
    }

    /// Value of `traceparent`.
    pub fn parent(&self) -> &str {
        self.parent.to_str().unwrap_or_default()
    }

    /// Value of `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.state.as_ref().and_then(|state| state.to_str().ok())
    }

    /// Whether a header belongs to the trace context.
    pub fn is_header(name: &HeaderName) -> bool {
        *name == PARENT || *name == STATE
    }

    /// Removes the trace context from the headers of a request.
    pub fn remove(headers: &mut HeaderMap) {
        headers.remove(PARENT);
        headers.remove(STATE);
    }

    /// Adds the trace context to the headers of another request, unless they contain one.
    pub fn write(&self, headers: &mut HeaderMap) {
        if headers.contains_key(PARENT) {
            return;
        }
        headers.insert(PARENT, self.parent.clone());
        headers.remove(STATE);
        headers.extend(self.state.clone().map(|state| (STATE, state)));
    }
}

/// Whether a string is a valid `traceparent`, such as
/// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`. Later versions may append fields.
fn is_parent(text: &str) -> bool {
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_nonzero = |part: &str| part.bytes().any(|byte| byte != b'0');
    let mut parts = text.splitn(5, '-');
    let mut next = || parts.next().unwrap_or_default();
    let (version, trace_id, parent_id, flags) = (next(), next(), next(), next());
    let extra_fields = parts.next();
    text.len() <= 256
        && is_hex(version, 2)
        && version != "ff"
        && is_hex(trace_id, 32)
        && is_nonzero(trace_id)
        && is_hex(parent_id, 16)
        && is_nonzero(parent_id)
        && is_hex(flags, 2)
        && (extra_fields.is_none() || version != "00")
        && extra_fields.is_none_or(|fields| fields.bytes().all(|byte| byte.is_ascii_graphic()))
}

fn is_state(text: &str) -> bool {
    !text.trim().is_empty()
        && text.len() <= STATE_LIMIT_BYTES
        && text.bytes().all(|byte| matches!(byte, b' ' | b'\t') || byte.is_ascii_graphic())
        && text.split(',').all(|member| member.trim().is_empty() || member.contains('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn an_invalid_trace_context_is_not_propagated() {
        for invalid in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-\r\nX: 1",
        ] {
            assert_eq!(TraceContext::parse(invalid, None), None, "{invalid}");
        }
        assert!(TraceContext::parse(&PARENT.replacen("00", "cc", 1), None).is_some());
        assert!(TraceContext::parse(&format!("{}-more", PARENT.replacen("00", "cc", 1)), None).is_some());
    }

    #[test]
    fn a_trace_context_is_written_with_its_state_unless_there_is_one() {
        let mut headers = HeaderMap::new();
        TraceContext::parse(PARENT, Some("a=1, b=2")).unwrap().write(&mut headers);
        assert_eq!(
            (&headers["traceparent"], &headers["tracestate"]),
            (&PARENT.parse().unwrap(), &"a=1, b=2".parse().unwrap())
        );
        assert_eq!(TraceContext::from_headers(&headers), TraceContext::parse(PARENT, Some("a=1, b=2")));
        let other = TraceContext::parse(&PARENT.replace("4bf9", "0000"), None).unwrap();
        other.write(&mut headers);
        assert_eq!(headers["traceparent"], PARENT);
        for invalid in ["a", "a=1\n", " ", &"a=1,".repeat(200)] {
            assert_eq!(
                TraceContext::parse(PARENT, Some(invalid)),
                TraceContext::parse(PARENT, None),
                "{invalid}"
            );
        }
        let with_tab = TraceContext::parse(PARENT, Some("a=1,\tb=2")).unwrap();
        assert_eq!(with_tab.state(), Some("a=1,\tb=2"));
        headers.append("traceparent", PARENT.parse().unwrap());
        assert_eq!(TraceContext::from_headers(&headers), None, "two parents are none");
    }
}
