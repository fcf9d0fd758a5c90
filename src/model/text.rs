//! Text that may be long, cut short.

use std::io;

/// At most so many bytes of a text, as a place between two of its characters.
pub fn floor_char_boundary(text: &str, bytes: usize) -> usize {
    (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}

/// Cuts a text to `limit_bytes`, with a mark where it was cut.
pub fn cut_bytes(text: &str, limit_bytes: usize) -> String {
    const MARK: &str = " […]";
    if text.len() <= limit_bytes {
        return text.to_owned();
    }
    let end = floor_char_boundary(text, limit_bytes.saturating_sub(MARK.len()));
    format!("{}{MARK}", &text[..end])
}

/// Cuts a text to a number of characters, with `…` where it was cut.
pub fn cut_characters(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Writer with a limit. A write beyond it is an error; the part that fits is kept.
#[derive(Debug)]
pub struct LimitedWriter {
    written: Vec<u8>,
    limit_bytes: usize,
    is_over: bool,
}

impl LimitedWriter {
    /// A writer of at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self { written: Vec::new(), limit_bytes, is_over: false }
    }

    /// Whether the limit was exceeded.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.written
    }
}

impl io::Write for LimitedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.limit_bytes - self.written.len());
        self.written.extend_from_slice(&bytes[..fits]);
        if fits == bytes.len() {
            return Ok(fits);
        }
        self.is_over = true;
        Err(io::ErrorKind::FileTooLarge.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    fn a_writer_takes_what_fits() {
        let mut writer = LimitedWriter::new(3);
        assert!(writer.write_all(b"ab").is_ok() && writer.write_all(b"c").is_ok() && !writer.is_over());
        assert!(writer.write_all(b"d").is_err() && writer.is_over());
        assert_eq!(writer.into_bytes(), b"abc");
    }
}
