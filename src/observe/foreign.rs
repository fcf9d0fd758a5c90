//! Other people's words in the log.

use std::fmt::{self, Write};

/// Writes a text in which a client's words may stand: in one line, whatever is in it, and not a long one.
pub struct Foreign<'a>(pub &'a str);

/// How many characters of it are written.
const MOST: usize = 300;

impl fmt::Display for Foreign<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, character) in self.0.chars().enumerate() {
            if count == MOST {
                return formatter.write_char('…');
            }
            // Line breaks would begin a line that says what the client likes.
            match character {
                c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                    write!(formatter, "{}", c.escape_default())?;
                }
                c => formatter.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_in_its_line() {
        assert_eq!(Foreign("a\nINFO all is well\u{1b}[2J é").to_string(), "a\\nINFO all is well\\u{1b}[2J é");
        assert_eq!(Foreign(&"é".repeat(1000)).to_string().chars().count(), MOST + 1);
    }
}
