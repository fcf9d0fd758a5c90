//! Protocol revisions, and all differences between them.
//!
//! In legacy revisions (2025-11-25 and before) a client begins with `initialize`, and names the revision in a
//! header of later requests, or only the session that negotiated it. Since 2026-07-28 each request declares
//! it. One endpoint serves both at once, and no request depends on an earlier one.

use std::{fmt, str::FromStr};

use http::HeaderMap;
use rmcp::model::ProtocolVersion;

use super::{
    context::{self, PROTOCOL_VERSION},
    message::RpcRequest,
    rpc_error::{RpcError, TruncatedText},
};
use crate::model::{BlockText, Content, ContentBlock, ForeignBlock, StructuredContentSupport, ToolResult};

/// A supported protocol revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Revision {
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
}

/// The way in which clients of a revision declare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// With `initialize`, once: up to 2025-11-25.
    Handshake,
    /// In `_meta` and headers, with every request: from 2026-07-28.
    PerRequest,
}

/// The supported methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Initialize,
    Ping,
    SetLevel,
    Discover,
    ListTools,
    CallTool,
    ListPrompts,
    GetPrompt,
    Complete,
    Listen,
    GetTask,
    UpdateTask,
    CancelTask,
    ListResources,
    ListResourceTemplates,
    ReadResource,
    Subscribe,
    Unsubscribe,
}

/// The capability that a method needs; a method of an undeclared one is not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequiredCapability {
    Nothing,
    Prompts,
    Completions,
    Tasks,
    Resources,
    WatchedResources,
}

/// One row of the table of methods.
#[derive(Debug)]
pub(super) struct MethodRow {
    /// The name in messages.
    pub(super) name: &'static str,
    pub(super) method: Method,
    /// The kind of revision that has it; `None` for both.
    lifecycle: Option<Lifecycle>,
    pub(super) needs: RequiredCapability,
}

const METHODS: [MethodRow; 18] = [
    row("initialize", Method::Initialize, Some(Lifecycle::Handshake), RequiredCapability::Nothing),
    row("ping", Method::Ping, Some(Lifecycle::Handshake), RequiredCapability::Nothing),
    row("logging/setLevel", Method::SetLevel, Some(Lifecycle::Handshake), RequiredCapability::Nothing),
    row("server/discover", Method::Discover, Some(Lifecycle::PerRequest), RequiredCapability::Nothing),
    row("tools/list", Method::ListTools, None, RequiredCapability::Nothing),
    row("tools/call", Method::CallTool, None, RequiredCapability::Nothing),
    row("prompts/list", Method::ListPrompts, None, RequiredCapability::Prompts),
    row("prompts/get", Method::GetPrompt, None, RequiredCapability::Prompts),
    row("completion/complete", Method::Complete, None, RequiredCapability::Completions),
    row("subscriptions/listen", Method::Listen, Some(Lifecycle::PerRequest), RequiredCapability::Nothing),
    row("tasks/get", Method::GetTask, Some(Lifecycle::PerRequest), RequiredCapability::Tasks),
    row("tasks/update", Method::UpdateTask, Some(Lifecycle::PerRequest), RequiredCapability::Tasks),
    row("tasks/cancel", Method::CancelTask, Some(Lifecycle::PerRequest), RequiredCapability::Tasks),
    row("resources/list", Method::ListResources, None, RequiredCapability::Resources),
    row("resources/templates/list", Method::ListResourceTemplates, None, RequiredCapability::Resources),
    row("resources/read", Method::ReadResource, None, RequiredCapability::Resources),
    row(
        "resources/subscribe",
        Method::Subscribe,
        Some(Lifecycle::Handshake),
        RequiredCapability::WatchedResources,
    ),
    row(
        "resources/unsubscribe",
        Method::Unsubscribe,
        Some(Lifecycle::Handshake),
        RequiredCapability::WatchedResources,
    ),
];

const fn row(
    name: &'static str,
    method: Method,
    lifecycle: Option<Lifecycle>,
    needs: RequiredCapability,
) -> MethodRow {
    MethodRow { name, method, lifecycle, needs }
}

impl MethodRow {
    /// The method of that name, in any revision.
    pub(super) fn by_name(name: &str) -> Option<&'static Self> {
        METHODS.iter().find(|row| row.name == name)
    }

    /// Whether the method exists in a revision.
    pub(super) fn exists_in(&self, revision: Revision) -> bool {
        self.lifecycle.is_none_or(|lifecycle| lifecycle == revision.lifecycle())
    }
}

/// The id in an error about a message whose own id is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownId {
    Null,
    Omitted,
}

impl Revision {
    /// All of them, the newest first.
    pub(super) const ALL: [Self; 5] =
        [Self::R2026_07_28, Self::R2025_11_25, Self::R2025_06_18, Self::R2025_03_26, Self::R2024_11_05];

    /// The revision of a legacy client that declares none, and whose session is unknown (2025-11-25,
    /// Transports, "Protocol Version Header").
    const DEFAULT_WITHOUT_HEADER: Self = Self::R2025_03_26;

    /// The newest revision that has `initialize`.
    const NEWEST_WITH_HANDSHAKE: Self = Self::R2025_11_25;

    /// The name in messages.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::R2024_11_05 => "2024-11-05",
            Self::R2025_03_26 => "2025-03-26",
            Self::R2025_06_18 => "2025-06-18",
            Self::R2025_11_25 => "2025-11-25",
            Self::R2026_07_28 => "2026-07-28",
        }
    }

    /// The revision as a type of the SDK.
    pub(super) fn version(self) -> ProtocolVersion {
        match self {
            Self::R2024_11_05 => ProtocolVersion::V_2024_11_05,
            Self::R2025_03_26 => ProtocolVersion::V_2025_03_26,
            Self::R2025_06_18 => ProtocolVersion::V_2025_06_18,
            Self::R2025_11_25 => ProtocolVersion::V_2025_11_25,
            Self::R2026_07_28 => ProtocolVersion::V_2026_07_28,
        }
    }

    pub(super) const fn lifecycle(self) -> Lifecycle {
        match self {
            Self::R2024_11_05 | Self::R2025_03_26 | Self::R2025_06_18 | Self::R2025_11_25 => {
                Lifecycle::Handshake
            }
            Self::R2026_07_28 => Lifecycle::PerRequest,
        }
    }

    /// The revision in the response to `initialize`: the requested one, or the newest that has `initialize`.
    pub(super) fn negotiated(requested: &str) -> Self {
        match requested.parse() {
            Ok(known @ (Self::R2024_11_05 | Self::R2025_03_26 | Self::R2025_06_18 | Self::R2025_11_25)) => {
                known
            }
            Ok(Self::R2026_07_28) | Err(_) => Self::NEWEST_WITH_HANDSHAKE,
        }
    }

    /// The revision of a request, from its header and from `_meta`; `negotiated` is the one of its session,
    /// if there is no header.
    ///
    /// # Errors
    ///
    /// When the two disagree, when either is not a supported revision, or when one that is required is
    /// missing.
    pub(super) fn from_request(
        headers: &HeaderMap,
        negotiated: Option<Self>,
        request: &RpcRequest<'_>,
    ) -> Result<Self, RpcError> {
        let in_header = context::single_value(headers, &PROTOCOL_VERSION)?;
        let Some(in_body) = request.meta.protocol_version()? else {
            return match request.method.as_ref() {
                // The revision is among the parameters, and a header is ignored.
                "initialize" => Ok(Self::NEWEST_WITH_HANDSHAKE),
                _ => match (Self::from_header(in_header, negotiated)?, request.method.as_ref()) {
                    (Self::R2026_07_28, _) | (_, "server/discover") => Err(missing_meta("protocolVersion")),
                    (handshake, _) => Ok(handshake),
                },
            };
        };
        match in_header {
            Some(in_header) if in_header != in_body => Err(RpcError::Headers(format!(
                "header `MCP-Protocol-Version` is `{}`, but `_meta` says `{}`",
                TruncatedText(in_header),
                TruncatedText(&in_body)
            ))),
            Some(_) => in_body.parse(),
            None => match in_body.parse() {
                Ok(
                    handshake @ (Self::R2024_11_05
                    | Self::R2025_03_26
                    | Self::R2025_06_18
                    | Self::R2025_11_25),
                ) => Ok(handshake),
                Ok(Self::R2026_07_28) | Err(_) => {
                    Err(RpcError::Headers("header `MCP-Protocol-Version` is missing".to_owned()))
                }
            },
        }
    }

    /// The revision of a request over stdio; `declared` is the one of the handshake, if there was one.
    ///
    /// # Errors
    ///
    /// When the revision is not supported, or is missing without a handshake.
    pub(super) fn from_stdio_request(
        declared: Option<Self>,
        request: &RpcRequest<'_>,
    ) -> Result<Self, RpcError> {
        match (request.meta.protocol_version()?, request.method.as_ref(), declared) {
            (Some(in_body), _, _) => in_body.parse(),
            // The revision is among the parameters; a ping may precede it.
            (None, "initialize", _) | (None, "ping", None) => Ok(Self::NEWEST_WITH_HANDSHAKE),
            (None, "server/discover", _) => Err(missing_meta("protocolVersion")),
            (None, _, Some(declared)) => Ok(declared),
            // As for every missing member of `_meta` (2026-07-28, Overview, "`_meta`").
            (None, _, None) => Err(RpcError::Params(
                "send `initialize` first, or specify the protocol revision in `params._meta`".into(),
            )),
        }
    }

    /// The revision of a message that declares it only in the header; without a header, the `negotiated` one
    /// of its session.
    ///
    /// # Errors
    ///
    /// When it is not supported.
    pub(super) fn from_header(value: Option<&str>, negotiated: Option<Self>) -> Result<Self, RpcError> {
        value.map_or_else(|| Ok(negotiated.unwrap_or(Self::DEFAULT_WITHOUT_HEADER)), str::parse)
    }

    /// Whether a client may send a batch (2025-03-26, Overview, "Batching").
    pub(super) fn supports_batches(self) -> bool {
        match self {
            Self::R2025_03_26 => true,
            Self::R2024_11_05 | Self::R2025_06_18 | Self::R2025_11_25 | Self::R2026_07_28 => false,
        }
    }

    /// Whether a stream begins with an event that only has an id (2025-11-25, Transports, "Sending Messages
    /// to the Server"); older clients mistake it for a message.
    pub(super) fn is_primed(self) -> bool {
        match self {
            Self::R2025_11_25 => true,
            Self::R2024_11_05 | Self::R2025_03_26 | Self::R2025_06_18 | Self::R2026_07_28 => false,
        }
    }

    /// `resultType` of a complete result (since 2026-07-28).
    pub(super) fn result_type(self) -> Option<&'static str> {
        match self.lifecycle() {
            Lifecycle::Handshake => None,
            Lifecycle::PerRequest => Some("complete"),
        }
    }

    /// The shapes of `structuredContent`, and of the root of an `outputSchema`.
    pub(super) fn shapes(self) -> StructuredContentSupport {
        match self.lifecycle() {
            Lifecycle::Handshake => StructuredContentSupport::ObjectsOnly,
            Lifecycle::PerRequest => StructuredContentSupport::Any,
        }
    }

    /// Converts a result to content blocks of this revision: a client would reject the whole result for one
    /// block of an unknown type.
    pub(super) fn adapt(self, result: &mut ToolResult) {
        result.content.iter_mut().for_each(|content| self.adapt_content(content));
    }

    /// The same for one block. Before 2025-06-18 there are no resource links, so one becomes text. Before
    /// 2025-03-26 there is no audio, so it is described in text.
    pub(super) fn adapt_content(self, content: &mut Content) {
        match self {
            Self::R2024_11_05 | Self::R2025_03_26 => {
                if let ContentBlock::ResourceLink { uri, name, .. } = &content.block {
                    content.block = ContentBlock::Text(BlockText::Plain(format!("{name}: {uri}")));
                } else if let ContentBlock::Foreign(ForeignBlock { link: Some(link), .. }) = &content.block {
                    content.block = ContentBlock::Text(BlockText::Plain(link.clone()));
                } else if self == Self::R2024_11_05
                    && let ContentBlock::Audio { mime_type, .. } = &content.block
                {
                    let words = format!("audio ({mime_type}), which this protocol revision does not support");
                    content.block = ContentBlock::Text(BlockText::Plain(words));
                }
            }
            Self::R2025_06_18 | Self::R2025_11_25 | Self::R2026_07_28 => {}
        }
    }

    /// The id in an error about a message whose own id is unknown. It is optional since 2025-11-25. Before,
    /// JSON-RPC's own rule (`null`) is the nearest equivalent.
    pub(super) fn unknown_id(self) -> UnknownId {
        match self {
            Self::R2024_11_05 | Self::R2025_03_26 | Self::R2025_06_18 => UnknownId::Null,
            Self::R2025_11_25 | Self::R2026_07_28 => UnknownId::Omitted,
        }
    }
}

impl FromStr for Revision {
    type Err = RpcError;

    fn from_str(text: &str) -> Result<Self, RpcError> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.as_str() == text)
            .ok_or_else(|| RpcError::Version { requested: text.to_owned() })
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Error for a request of 2026-07-28 without a required member of `_meta`.
pub(super) fn missing_meta(key: &str) -> RpcError {
    RpcError::Params(
        format!("`params._meta` has no `io.modelcontextprotocol/{key}`, which revision 2026-07-28 requires")
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_knows_the_same_revisions_in_the_same_order() {
        let own: Vec<ProtocolVersion> = Revision::ALL.into_iter().rev().map(Revision::version).collect();
        assert_eq!(own, ProtocolVersion::KNOWN_VERSIONS);
        for revision in Revision::ALL {
            assert_eq!(revision.version().as_str(), revision.as_str());
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
        let result = ToolResult::new(crate::model::ToolOutcome::Success, vec![link.into()]);
        for revision in Revision::ALL {
            let mut adapted = result.clone();
            revision.adapt(&mut adapted);
            if revision < Revision::R2025_06_18 {
                assert_eq!(adapted.content, ToolResult::text("report: file:///r.csv").content);
            } else {
                assert_eq!(adapted, result);
            }
        }
    }
}
