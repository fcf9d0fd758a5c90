//! Protocol revisions, and the differences between them that are not specific to one method.
//!
//! In legacy revisions (2025-11-25 and before), a client begins with `initialize`. Later requests have the
//! revision in a header, or only the id of the session that negotiated it. Since 2026-07-28, each request
//! declares its revision. One endpoint serves both kinds at once. Over HTTP, the revision of a session is not
//! stored: the session id contains it.

use std::str::FromStr;

use http::HeaderMap;
use rmcp::model::ProtocolVersion;

use super::{ErrorKind, PROTOCOL_VERSION, RpcError, RpcRequest, RpcResult, rpc_context, truncated};
use crate::model::{BlockText, Content, ContentBlock, ForeignBlock, StructuredContentSupport};

/// A supported protocol revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Revision {
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
}

impl Revision {
    /// All revisions, newest first.
    pub(super) const ALL: [Self; 5] =
        [Self::R2026_07_28, Self::R2025_11_25, Self::R2025_06_18, Self::R2025_03_26, Self::R2024_11_05];

    /// Revision of a legacy client that declares none, and whose session is unknown (2025-11-25, Transports,
    /// "Protocol Version Header").
    const DEFAULT_WITHOUT_HEADER: Self = Self::R2025_03_26;

    /// The newest revision that has `initialize`.
    const NEWEST_WITH_HANDSHAKE: Self = Self::R2025_11_25;

    /// Name of the revision in messages.
    pub(super) fn as_str(self) -> &'static str {
        ProtocolVersion::KNOWN_VERSIONS[self as usize].as_str()
    }

    /// Whether clients declare the revision once, with `initialize`: up to 2025-11-25. Since 2026-07-28, they
    /// declare it with every request, in `_meta` and in a header.
    pub(super) fn has_handshake(self) -> bool {
        self <= Self::NEWEST_WITH_HANDSHAKE
    }

    /// Parses the name of a revision that has `initialize`.
    fn with_handshake(name: &str) -> Option<Self> {
        name.parse().ok().filter(|revision: &Self| revision.has_handshake())
    }

    /// Revision in the response to `initialize`: the requested revision, or else the newest revision that has
    /// `initialize`.
    pub(super) fn negotiated(requested: &str) -> Self {
        Self::with_handshake(requested).unwrap_or(Self::NEWEST_WITH_HANDSHAKE)
    }

    /// Determines the revision of a request from the header and from `_meta`. Without a header, the revision
    /// is `negotiated`, the revision of the session.
    ///
    /// # Errors
    ///
    /// When header and `_meta` disagree, when one of them is not a supported revision, or when a required
    /// header or member is missing.
    pub(super) fn from_request(
        headers: &HeaderMap,
        negotiated: Option<Self>,
        request: &RpcRequest<'_>,
    ) -> Result<Self, RpcError> {
        let in_header = rpc_context::single_value(headers, &PROTOCOL_VERSION)?;
        match (in_header, request.meta.protocol_version()?) {
            // The parameters of `initialize` contain the revision. A different revision in the header is
            // ignored if it is supported (2025-11-25, Transports, "Protocol Version Header").
            (in_header, None) if request.method == "initialize" => {
                Self::from_header(in_header, negotiated).map(|_| Self::NEWEST_WITH_HANDSHAKE)
            }
            (in_header, None) => match Self::from_header(in_header, negotiated)? {
                revision if revision.has_handshake() && request.method != "server/discover" => Ok(revision),
                _ => Err(missing_meta("protocolVersion")),
            },
            (Some(in_header), Some(in_body)) if in_header != in_body => Err(ErrorKind::HEADER_MISMATCH
                .error(format!(
                    "header `MCP-Protocol-Version` is `{}`, but `_meta` says `{}`",
                    truncated(in_header),
                    truncated(&in_body)
                ))),
            (Some(_), Some(in_body)) => in_body.parse(),
            (None, Some(in_body)) => Self::with_handshake(&in_body)
                .ok_or_else(|| ErrorKind::HEADER_MISMATCH.error("header `MCP-Protocol-Version` is missing")),
        }
    }

    /// Determines the revision of a request over stdio. `declared` is the revision of the handshake, if there
    /// was one.
    ///
    /// # Errors
    ///
    /// When the revision is not supported, or when there is neither a declared revision nor a handshake.
    pub(super) fn from_stdio_request(declared: Option<Self>, request: &RpcRequest<'_>) -> RpcResult<Self> {
        match (request.meta.protocol_version()?, request.method.as_ref(), declared) {
            (Some(in_body), _, _) => in_body.parse(),
            // The parameters of `initialize` contain the revision. A ping may precede the handshake.
            (None, "initialize", _) | (None, "ping", None) => Ok(Self::NEWEST_WITH_HANDSHAKE),
            (None, "server/discover", _) => Err(missing_meta("protocolVersion")),
            (None, _, Some(declared)) => Ok(declared),
            // The same error as for any missing member of `_meta` (2026-07-28, Overview, "`_meta`").
            (None, _, None) => Err(ErrorKind::PARAMS
                .error("send `initialize` first, or specify the protocol revision in `params._meta`")),
        }
    }

    /// Determines the revision of a message that declares it only in the header. Without a header, it is the
    /// `negotiated` revision of the session.
    ///
    /// # Errors
    ///
    /// When the revision in the header is not supported.
    pub(super) fn from_header(value: Option<&str>, negotiated: Option<Self>) -> Result<Self, RpcError> {
        value.map_or_else(|| Ok(negotiated.unwrap_or(Self::DEFAULT_WITHOUT_HEADER)), str::parse)
    }

    /// Whether a client may send a batch (2025-03-26, Overview, "Batching").
    pub(super) fn supports_batches(self) -> bool {
        self == Self::R2025_03_26
    }

    /// Whether a stream begins with an event that has an id and no data (2025-11-25, Transports, "Sending
    /// Messages to the Server"). Older clients mistake such an event for a message.
    pub(super) fn is_primed(self) -> bool {
        self == Self::R2025_11_25
    }

    /// Value of `resultType` for a complete result (since 2026-07-28).
    pub(super) fn result_type(self) -> Option<&'static str> {
        (!self.has_handshake()).then_some("complete")
    }

    /// Types that `structuredContent`, and the root of an `outputSchema`, may have.
    pub(super) fn structured_content_support(self) -> StructuredContentSupport {
        match self.has_handshake() {
            true => StructuredContentSupport::ObjectsOnly,
            false => StructuredContentSupport::Any,
        }
    }

    /// Converts a content block to a type that this revision has, because a client would reject the whole
    /// result for one block of an unknown type. Before 2025-06-18, a resource link becomes text. Before
    /// 2025-03-26, audio becomes text that describes it.
    pub(super) fn adapt_content(self, content: &mut Content) {
        let text = match &content.block {
            ContentBlock::ResourceLink { uri, name, .. } if self < Self::R2025_06_18 => {
                format!("{name}: {uri}")
            }
            ContentBlock::Foreign(ForeignBlock { link: Some(link), .. }) if self < Self::R2025_06_18 => {
                link.clone()
            }
            ContentBlock::Audio { mime_type, .. } if self < Self::R2025_03_26 => unsupported_audio(mime_type),
            ContentBlock::Foreign(ForeignBlock { json, text: None, .. }) if self < Self::R2025_03_26 => {
                match serde_json::from_str(json.as_str()) {
                    Ok(ContentBlock::Audio { mime_type, .. }) => unsupported_audio(&mime_type),
                    _ => return,
                }
            }
            _ => return,
        };
        content.block = ContentBlock::Text(BlockText::Plain(text));
    }

    /// Whether an error without a known request id has the id `null`. Since 2025-11-25, the id may be
    /// missing. For earlier revisions, the rule of JSON-RPC applies.
    pub(super) fn has_null_id(self) -> bool {
        self < Self::R2025_11_25
    }
}

impl FromStr for Revision {
    type Err = RpcError;

    fn from_str(text: &str) -> Result<Self, RpcError> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.as_str() == text)
            .ok_or_else(|| RpcError::version(text))
    }
}

/// Text that replaces a content block with audio, in revisions without audio.
fn unsupported_audio(mime_type: &str) -> String {
    format!("audio ({mime_type}), which this protocol revision does not support")
}

/// Error for a request of revision 2026-07-28 without a required member of `_meta`.
pub(super) fn missing_meta(key: &str) -> RpcError {
    ErrorKind::PARAMS.error(format!(
        "`params._meta` has no `io.modelcontextprotocol/{key}`, which revision 2026-07-28 requires"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JsonText, ToolOutcome, ToolResult};

    #[test]
    fn the_sdk_knows_the_same_revisions_in_the_same_order() {
        assert_eq!(Revision::ALL.len(), ProtocolVersion::KNOWN_VERSIONS.len());
        for revision in Revision::ALL {
            assert_eq!(format!("{revision:?}"), format!("R{}", revision.as_str().replace('-', "_")));
        }
    }

    #[test]
    fn a_handshake_negotiates_the_requested_or_the_newest_revision() {
        assert_eq!(Revision::negotiated("2024-11-05"), Revision::R2024_11_05);
        assert_eq!(Revision::negotiated("2025-11-25"), Revision::R2025_11_25);
        assert_eq!(Revision::negotiated("2026-07-28"), Revision::R2025_11_25);
        assert_eq!(Revision::negotiated("2099-01-01"), Revision::R2025_11_25);
    }

    #[test]
    fn a_link_is_text_for_clients_that_know_no_links() {
        let link = ContentBlock::ResourceLink {
            uri: "file:///r.csv".to_owned(),
            name: "report".to_owned(),
            description: None,
            mime_type: None,
        };
        let result = ToolResult::new(ToolOutcome::Success, vec![link.into()]);
        for revision in Revision::ALL {
            let mut adapted = result.clone();
            adapted.content.iter_mut().for_each(|content| revision.adapt_content(content));
            if revision < Revision::R2025_06_18 {
                assert_eq!(adapted.content, ToolResult::text("report: file:///r.csv").content);
            } else {
                assert_eq!(adapted, result);
            }
        }
    }

    #[test]
    fn audio_is_text_for_clients_that_know_no_audio() {
        let json = serde_json::json!({ "type": "audio", "data": "AA==", "mimeType": "audio/wav" });
        let block = ForeignBlock { json: JsonText::from_value(&json), text: None, link: None };
        let foreign = Content::from(ContentBlock::Foreign(block));
        for audio in [serde_json::from_value::<ContentBlock>(json).unwrap().into(), foreign] {
            for revision in Revision::ALL {
                let mut adapted = audio.clone();
                revision.adapt_content(&mut adapted);
                if revision < Revision::R2025_03_26 {
                    let text = "audio (audio/wav), which this protocol revision does not support";
                    assert_eq!(adapted, Content::text(text));
                } else {
                    assert_eq!(adapted, audio);
                }
            }
        }
    }
}
