//! Why a tool error is one.

use std::time::Duration;

/// The reason behind `isError: true`, so that each face can tell its truth (an HTTP status, say) without
/// reading the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The arguments break the input schema, or can't be put into a request.
    Arguments,
    /// The caller is not allowed it.
    Forbidden,
    /// A person or a model had to be asked first, and did not answer, or could not be asked.
    Unanswered,
    /// The upstream answered with this HTTP status of 400 and above.
    Upstream {
        /// Its status.
        status: u16,
    },
    /// The upstream said so in its reply, and a rule recognised it.
    Reported {
        /// The HTTP status that the rule names for REST clients.
        status: Option<u16>,
    },
    /// The reply could not be read by the rule, or what was read breaks the output schema.
    Unreadable,
    /// No usable reply: refused, cut off, too long, not HTTP.
    Unreachable,
    /// No reply in time.
    Deadline,
    /// It is asked as much at a time as it may be, or left alone for a while.
    Busy {
        /// After how long to try again.
        again_after: Duration,
    },
    /// It is called more often than it may be.
    TooOften {
        /// After how long to try again.
        again_after: Duration,
    },
}

impl Fault {
    /// The names of all variants, in their order; the values of `fault` in metrics and log.
    pub const NAMES: [&'static str; 10] = [
        "arguments",
        "forbidden",
        "unanswered",
        "upstream",
        "reported",
        "unreadable",
        "unreachable",
        "deadline",
        "busy",
        "too_often",
    ];

    /// Its name in metrics and log.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[match self {
            Self::Arguments => 0,
            Self::Forbidden => 1,
            Self::Unanswered => 2,
            Self::Upstream { .. } => 3,
            Self::Reported { .. } => 4,
            Self::Unreadable => 5,
            Self::Unreachable => 6,
            Self::Deadline => 7,
            Self::Busy { .. } => 8,
            Self::TooOften { .. } => 9,
        }]
    }
}
