//! Lines that a call tells the clients that want to know.

use std::str::FromStr;

use crate::rule::Template;

/// How much a line matters, as syslog has it (RFC 5424, section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// For finding out why.
    Debug,
    /// What is going on.
    Info,
    /// What is normal and matters.
    Notice,
    /// What may become an error.
    Warning,
    /// What failed.
    Error,
    /// A part of the whole failed.
    Critical,
    /// Somebody has to act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

/// One line.
#[derive(Debug)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// What it says.
    pub text: Template,
}

impl LogLevel {
    /// All of them, the least first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

    /// Such as `info`.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl FromStr for LogLevel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let found = Self::NAMES.iter().position(|name| *name == text);
        found.map(|index| Self::ALL[index]).ok_or(())
    }
}

impl LogLine {
    /// The names that a line may use. One that uses the reply's `status` is told when the reply is there, every other
    /// before the upstream is asked.
    pub const NAMES: [&'static str; 2] = ["args", "status"];

    /// Whether it can be told only when the reply is there.
    pub fn is_about_the_reply(&self) -> bool {
        self.text.names().iter().any(|name| name == "status")
    }
}
