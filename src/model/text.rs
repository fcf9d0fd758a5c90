//! Truncation of text, a writer with a size limit, bounds of numbers, and JSON Pointer reference tokens.

use std::io;

/// Truncates a string to at most `limit_bytes`, which must be at least 6; a truncated string ends with `[…]`.
pub fn cut_bytes(text: &str, limit_bytes: usize) -> String {
    const MARK: &str = " […]";
    if text.len() <= limit_bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit_bytes.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
}

/// Truncates a string to `limit` characters; `…` follows a truncated string.
pub fn cut_characters(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Escapes a name as a reference token of a JSON Pointer (RFC 6901, section 3).
pub fn pointer_token(name: &str) -> String {
    // `~` before `/`, or the `~` of `~1` would be escaped again.
    name.replace('~', "~0").replace('/', "~1")
}

/// Writer with a size limit. A write that exceeds the limit writes the part that fits, and fails.
#[derive(Debug)]
pub struct LimitedWriter {
    /// The bytes written.
    pub written: Vec<u8>,
    /// Whether the limit was exceeded.
    pub is_over: bool,
    limit_bytes: usize,
}

impl LimitedWriter {
    /// Creates a writer for at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self { written: Vec::new(), limit_bytes, is_over: false }
    }
}

impl io::Write for LimitedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fitting = bytes.len().min(self.limit_bytes - self.written.len());
        self.written.extend_from_slice(&bytes[..fitting]);
        if fitting == bytes.len() {
            return Ok(fitting);
        }
        self.is_over = true;
        Err(io::ErrorKind::FileTooLarge.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Maximum number of digits of a number, including the digits of its exponent.
pub const NUMBER_DIGITS_LIMIT: usize = 400;

/// Maximum absolute value of the exponent of a number.
pub const NUMBER_EXPONENT_LIMIT: u32 = 400;

/// Error for a number that is out of bounds.
///
/// JSON allows numbers of any size: `1e-9998` has seven characters, and its value ten thousand digits.
/// Computing with such a value (in a schema, a conversion, a filter) takes time quadratic in the number of
/// digits. Text that is forwarded without being parsed may contain any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a number may have at most {NUMBER_DIGITS_LIMIT} digits and an exponent from -{NUMBER_EXPONENT_LIMIT} to \
         {NUMBER_EXPONENT_LIMIT}"
)]
pub struct NumberOutOfBounds;

/// Checks the bounds of a number in JSON or in the output of a program, before it is used in a computation.
/// Text that is not a number may pass, because the parser will reject it.
///
/// # Errors
///
/// [`NumberOutOfBounds`] if the number has more than [`NUMBER_DIGITS_LIMIT`] digits, or an exponent beyond
/// [`NUMBER_EXPONENT_LIMIT`].
pub fn check_number(text: &str) -> Result<(), NumberOutOfBounds> {
    let digit_count = text.bytes().filter(u8::is_ascii_digit).count();
    let exponent = text.split_once(['e', 'E']).map_or("", |(_, exponent)| exponent);
    let digits = exponent.trim_start_matches(['+', '-']).trim_start_matches('0');
    let digits = digits.split(|character: char| !character.is_ascii_digit()).next().unwrap_or_default();
    // An exponent that does not fit into 32 bits is out of bounds too.
    let is_small =
        digits.is_empty() || digits.parse::<u32>().is_ok_and(|exponent| exponent <= NUMBER_EXPONENT_LIMIT);
    if digit_count <= NUMBER_DIGITS_LIMIT && is_small { Ok(()) } else { Err(NumberOutOfBounds) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut_bytes("short", 10), "short");
        let cut = cut_bytes(&"ø".repeat(100), 21);
        assert!(cut.len() <= 21 && cut.ends_with("[…]"), "{cut}");
        assert_eq!((cut_characters("øø", 2).as_str(), cut_characters("øøø", 2).as_str()), ("øø", "øø…"));
    }

    #[test]
    fn a_writer_accepts_bytes_up_to_its_limit() {
        let mut writer = LimitedWriter::new(3);
        assert!(writer.write_all(b"ab").is_ok() && writer.write_all(b"c").is_ok() && !writer.is_over);
        assert!(writer.write_all(b"d").is_err() && writer.is_over);
        assert_eq!(writer.written, b"abc");
    }

    #[test]
    fn a_number_is_bounded_in_its_digits_and_its_exponent() {
        let nines = |count: usize| "9".repeat(count);
        for (text, expected) in [
            ("0".to_owned(), Ok(())),
            ("-1.7976931348623157e308".to_owned(), Ok(())),
            ("5e-324".to_owned(), Ok(())),
            ("1e400".to_owned(), Ok(())),
            ("1E+0400".to_owned(), Ok(())),
            ("1e-401".to_owned(), Err(NumberOutOfBounds)),
            ("1e401".to_owned(), Err(NumberOutOfBounds)),
            ("1e99999999999999999999".to_owned(), Err(NumberOutOfBounds)),
            ("1e-9998".to_owned(), Err(NumberOutOfBounds)),
            (nines(400), Ok(())),
            (format!("-{}.{}", nines(200), nines(200)), Ok(())),
            (nines(401), Err(NumberOutOfBounds)),
            (format!("0.{}", "0".repeat(400)), Err(NumberOutOfBounds)),
            (format!("1e{}1", "0".repeat(400)), Err(NumberOutOfBounds)),
            ("1e".to_owned(), Ok(())),
            ("hello".to_owned(), Ok(())),
            (String::new(), Ok(())),
        ] {
            assert_eq!(check_number(&text), expected, "{text}");
        }
    }
}
