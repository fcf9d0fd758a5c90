//! Exit status or signal of a program, and its standard error.

use std::{borrow::Cow, fmt, str::FromStr};

use bytes::Bytes;
use http::StatusCode;

/// Exit of a program: status or signal, and standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramExit {
    /// Exit status, or the signal that terminated the program.
    pub end: ProgramEnd,
    /// Last part of standard error, up to a limit.
    pub stderr: Bytes,
}

/// How a program ended: exit status or signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The program exited with this status.
    Code(i32),
    /// The program was terminated by the signal with this number.
    Signal(i32),
}

/// Error for a string that is not a valid [`ProgramEnd`].
const EXPECTED_END: &str = "expected an exit status from 0 to 255, or the name of a signal such as `SIGKILL`";

/// Names of the signals that have the same number on every Unix, by number; empty for other numbers.
const SIGNALS: [&str; 16] = [
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "", "FPE", "KILL", "", "SEGV", "", "PIPE", "ALRM",
    "TERM",
];

impl ProgramExit {
    /// Returns standard error as text, with `�` in place of invalid UTF-8.
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

impl ProgramEnd {
    /// Whether the exit status is 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// Returns the HTTP status that conditions of rules see: 200 for exit status 0, else 500.
    pub fn http_status(self) -> StatusCode {
        if self.is_success() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }
    }

    /// Returns the exit status as a number, or the name of the signal.
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Code(code) => code.into(),
            Self::Signal(_) => self.to_string().into(),
        }
    }

    /// Describes the end as a phrase for a sentence: `exit status 2`, `signal SIGKILL`.
    pub fn describe(self) -> String {
        match self {
            Self::Code(_) => format!("exit status {self}"),
            Self::Signal(_) => format!("signal {self}"),
        }
    }
}

/// Formats `2` or `SIGKILL`; `SIG34` for a signal whose name depends on the system.
impl fmt::Display for ProgramEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "{code}"),
            Self::Signal(number) => {
                let name = usize::try_from(*number).ok().and_then(|number| SIGNALS.get(number));
                match name.filter(|name| !name.is_empty()) {
                    Some(name) => write!(formatter, "SIG{name}"),
                    None => write!(formatter, "SIG{number}"),
                }
            }
        }
    }
}

impl FromStr for ProgramEnd {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let Some(name) = text.strip_prefix("SIG") else {
            return text.parse::<u8>().map(|code| Self::Code(code.into())).map_err(|_| EXPECTED_END);
        };
        let known_signal = (1..).zip(&SIGNALS[1..]).find(|(_, signal)| !name.is_empty() && **signal == name);
        let number = known_signal.map(|(number, _)| number).or_else(|| name.parse().ok());
        number.filter(|number| (1..=64).contains(number)).map(Self::Signal).ok_or(EXPECTED_END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_written_as_they_are_read() {
        for text in ["0", "2", "255", "SIGKILL", "SIGTERM", "SIG34"] {
            assert_eq!(text.parse::<ProgramEnd>().unwrap().to_string(), text);
        }
        assert_eq!("SIG9".parse(), Ok(ProgramEnd::Signal(9)));
        for text in ["", "256", "-1", "KILL", "SIG", "SIGNONE", "SIG0", "two"] {
            assert_eq!(text.parse::<ProgramEnd>(), Err(EXPECTED_END), "{text}");
        }
    }
}
