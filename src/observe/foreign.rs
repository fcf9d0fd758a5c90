//! Other people's words in the log.

use std::fmt::{self, Write};

/// Writes a text in which a client's words may stand: in one line, whatever is in it, and not a long one.
pub struct Foreign<'a>(pub &'a str);

/// How many characters of it are written.
const MOST: usize = 300;

/// The same for what a program or an upstream has to say: more of it, as an operator needs it.
pub struct Quoted<'a>(pub &'a str);

/// How many characters of that are written.
const MOST_QUOTED: usize = 4000;

impl fmt::Display for Foreign<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_a_line(self.0, MOST, formatter)
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_a_line(self.0, MOST_QUOTED, formatter)
    }
}

fn write_in_a_line(text: &str, most: usize, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (count, character) in text.chars().enumerate() {
        if count == most {
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
        assert_eq!(Foreign(&"é".repeat(1000)).to_string().chars().count(), MOST + 1);
        assert_eq!(
            Quoted("nope\n2026-11-21 ERROR forged\0").to_string(),
            "nope\\n2026-11-21 ERROR forged\\u{0}"
        );
        assert_eq!(Quoted(&"é".repeat(9000)).to_string().chars().count(), MOST_QUOTED + 1);
    }
}
