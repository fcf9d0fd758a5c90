//! Conditions on how a program ended.

use std::{fmt, str::FromStr};

use super::matcher::PatternError;
use crate::reply::{End, Reply};

/// An end of a program, or a range of exit statuses. It does not hold of what a server answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitPattern {
    /// Exit statuses from the first to the last.
    Codes(i32, i32),
    /// One signal.
    Signal(i32),
    /// Any signal.
    AnySignal,
}

/// What stands for any signal.
const ANY_SIGNAL: &str = "signal";

impl ExitPattern {
    pub(super) fn holds(self, end: End) -> bool {
        match (self, end) {
            (Self::Codes(first, last), End::Code(code)) => (first..=last).contains(&code),
            (Self::Signal(number), End::Signal(found)) => number == found,
            (Self::AnySignal, End::Signal(_)) => true,
            (Self::Codes(..), End::Signal(_)) | (Self::Signal(_) | Self::AnySignal, End::Code(_)) => false,
        }
    }
}

impl FromStr for ExitPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let code = |text: &str| match text.trim().parse() {
            Ok(End::Code(code)) => Some(code),
            Ok(End::Signal(_)) | Err(_) => None,
        };
        let pattern = match text.split_once('-') {
            Some((first, last)) => match (code(first), code(last)) {
                (Some(first), Some(last)) if first <= last => Some(Self::Codes(first, last)),
                _ => None,
            },
            None if text == ANY_SIGNAL => Some(Self::AnySignal),
            None => text.parse().ok().map(|end| match end {
                End::Code(code) => Self::Codes(code, code),
                End::Signal(number) => Self::Signal(number),
            }),
        };
        pattern.ok_or_else(|| {
            PatternError::new(format!(
                "expected an exit status such as `1`, `1-9`, `SIGKILL` or `{ANY_SIGNAL}`, found `{text}`"
            ))
        })
    }
}

impl fmt::Display for ExitPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Codes(first, last) if first == last => write!(formatter, "{first}"),
            Self::Codes(first, last) => write!(formatter, "{first}-{last}"),
            Self::Signal(number) => End::Signal(*number).fmt(formatter),
            Self::AnySignal => formatter.write_str(ANY_SIGNAL),
        }
    }
}

/// The end of a reply in a sentence, as rules speak of it: `status is 404`, `exit is 2`.
pub(super) fn end_in_words(reply: &Reply) -> String {
    match &reply.exit {
        Some(exit) => format!("exit is {}", exit.end),
        None => format!("status is {}", reply.status.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_numbers_ranges_or_signals() {
        for (text, holds, holds_not) in [
            ("1", End::Code(1), End::Code(2)),
            ("0-2", End::Code(2), End::Code(3)),
            ("SIGKILL", End::Signal(9), End::Signal(15)),
            ("signal", End::Signal(15), End::Code(15)),
        ] {
            let pattern: ExitPattern = text.parse().unwrap();
            assert!(pattern.holds(holds) && !pattern.holds(holds_not), "{text}");
            assert_eq!(pattern.to_string(), text);
        }
        for text in ["", "256", "-1", "3-2", "2xx", "SIGNONE", "any"] {
            assert!(text.parse::<ExitPattern>().is_err(), "{text}");
        }
    }
}
