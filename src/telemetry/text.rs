//! Texts of the log: an error with all its causes, and other people's words.

use std::{
    error::Error,
    fmt::{self, Write},
};

/// Writes an error and each of its sources, separated by `: `.
///
/// Our own errors never repeat their source; other people's do. A source whose words stand in what was
/// written just before is left out.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = self.0.to_string();
        formatter.write_str(&before)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let words = error.to_string();
            if !before.contains(&words) {
                write!(formatter, ": {words}")?;
                before = words;
            }
            next = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Writes a text in which a client's words may stand: in one line, whatever is in it, and at most
/// [`LOGGED_BYTES`] of it.
pub struct Foreign<'a>(pub &'a str);

/// The same for what a program or an upstream has to say. Such words are logged at `debug` only.
pub struct Quoted<'a>(pub &'a str);

/// How much of a value is logged: of a request, of a response, or of what somebody else wrote.
pub const LOGGED_BYTES: usize = 256;

impl fmt::Display for Foreign<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_a_line(self.0, formatter)
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_a_line(self.0, formatter)
    }
}

fn write_in_a_line(text: &str, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, character) in text.char_indices() {
        if at + character.len_utf8() > LOGGED_BYTES {
            return formatter.write_char('…');
        }
        // Line breaks would begin a line that says what somebody else likes.
        match character {
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                write!(formatter, "{}", c.escape_default())?;
            }
            c => formatter.write_char(c)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not do it")]
    struct Ours(#[source] Theirs);

    #[derive(Debug, thiserror::Error)]
    #[error("connection error: {0}")]
    struct Theirs(#[source] io::Error);

    #[test]
    fn every_cause_is_written_once() {
        let error = Ours(Theirs(io::Error::other("refused")));
        assert_eq!(Chain(&error).to_string(), "could not do it: connection error: refused");
    }

    #[test]
    fn it_stays_in_its_line() {
        assert_eq!(Foreign("a\nINFO all is well\u{1b}[2J é").to_string(), "a\\nINFO all is well\\u{1b}[2J é");
        assert_eq!(Foreign(&"é".repeat(1000)).to_string(), format!("{}…", "é".repeat(LOGGED_BYTES / 2)));
        assert_eq!(
            Quoted("nope\n2026-11-21 ERROR forged\0").to_string(),
            "nope\\n2026-11-21 ERROR forged\\u{0}"
        );
        assert_eq!(Quoted(&"a".repeat(LOGGED_BYTES)).to_string(), "a".repeat(LOGGED_BYTES));
    }
}
