//! Where one job is asked about.

use http::uri::PathAndQuery;

/// Where one job is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPlace {
    /// A path of the upstream, from the root of its host on.
    Path(PathAndQuery),
    /// By its name.
    Named(String),
}

impl JobPlace {
    /// How long the text of a place may be that a caller is given to keep, in bytes.
    const SHORT_BYTES: usize = 2048;

    /// Whether its text is short enough to be given away.
    pub fn is_short(&self) -> bool {
        self.to_text().len() <= Self::SHORT_BYTES
    }

    /// One text of it, to be kept for later.
    pub fn to_text(&self) -> String {
        match self {
            Self::Path(path) => path.to_string(),
            Self::Named(name) => format!("={name}"),
        }
    }

    /// The place that such a text is of.
    pub fn of_text(text: &str) -> Option<Self> {
        match text.strip_prefix('=') {
            Some(name) => Some(Self::Named(name.to_owned())),
            None => text.parse().ok().map(Self::Path),
        }
    }
}
