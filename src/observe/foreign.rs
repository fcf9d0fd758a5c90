//! Other people's words in the log.

use std::fmt::{self, Write};

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
    use super::*;

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
