//! An error with all its causes.

use std::{error::Error, fmt};

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
}
