//! The tool error of what an MCP server itself calls an error.

use serde_json::Value;

use super::{
    extract::{MCP_MEDIA_TYPE, Verdict},
    insides::{Sent, safe_words_for},
    response_view::ResponseView,
    rules::Translator,
    verdict::{CODE_META_KEY, marked},
};
use crate::tool::{Block, Content, Fault, Outcome, Text, ToolResult};

/// The blocks of a success; of an error the tool result, with the server's own blocks in it. What they tell of the
/// server's insides is replaced.
pub(super) fn told(
    view: &ResponseView<'_>,
    content: Vec<Content>,
    verdict: Verdict,
    translator: &Translator,
) -> Result<Vec<Content>, Box<ToolResult>> {
    let shown = |text: &str| safe_words_for(&translator.redaction.hide(text), &Sent::of(view.facts.args));
    let (content, code) = match verdict {
        Verdict::Success => return Ok(content),
        Verdict::ToolError if content.iter().all(says_nothing) => {
            (vec![Content::text("The tool failed and did not say why.")], None)
        }
        Verdict::ToolError => (content.into_iter().map(|content| safe(content, shown)).collect(), None),
        // Where a route asks by HTTP itself, its own rules are nearer to the server.
        Verdict::ProtocolError { code, .. }
            if is_of_upstream(view) && code.as_ref().is_some_and(is_of_insides) =>
        {
            // Some servers answer wrong arguments with this code, too.
            let text = "The service could not answer the call and reported an internal error, of which no more is \
                        shown here. Check the arguments; if they are right, try again later.";
            (vec![Content::text(text)], code)
        }
        Verdict::ProtocolError { code, message } => (vec![Content::text(shown(&message))], code),
    };
    let outcome = Outcome::Error(Fault::Reported { status: None });
    let result = marked(ToolResult::new(outcome, content), view.reply());
    Err(Box::new(match code {
        Some(code) => result.with_meta(CODE_META_KEY, code),
        None => result,
    }))
}

/// Whether the reply is what an upstream answered that is known to be an MCP server.
fn is_of_upstream(view: &ResponseView<'_>) -> bool {
    view.reply().media_type().is_some_and(|found| found == MCP_MEDIA_TYPE)
}

/// Whether a code says that the server itself failed, or did not understand us (JSON-RPC 2.0, section 5.1): what comes
/// with it is for those who look after the server.
fn is_of_insides(code: &Value) -> bool {
    const INTERNAL_ERROR: i64 = -32603;
    const INVALID_REQUEST: i64 = -32600;
    const PARSE_ERROR: i64 = -32700;
    code.as_i64().is_some_and(|code| matches!(code, INTERNAL_ERROR | INVALID_REQUEST | PARSE_ERROR))
}

fn says_nothing(content: &Content) -> bool {
    content.block.text(None).is_some_and(|text| text.trim().is_empty())
}

/// A block whose text may be shown; one in which there is nothing to hide stays as it came.
fn safe(content: Content, shown: impl Fn(&str) -> String) -> Content {
    let shown = content.block.text(None).and_then(|text| {
        let shown = shown(&text);
        (shown != text).then_some(shown)
    });
    match shown {
        Some(shown) => Content { block: Block::Text(Text::Plain(shown)), ..content },
        None => content,
    }
}
