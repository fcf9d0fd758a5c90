//! `Accept`: the media types that a client takes (RFC 9110, section 12.5.1).

use http::{HeaderMap, header};

/// One media range, and its weight.
#[derive(Debug, Clone, Copy)]
pub struct MediaRange<'a> {
    /// Such as `text/*`, without parameters.
    essence: &'a str,
    /// From 0, which refuses it, to 1. One that can't be read is 0.
    pub weight: f32,
}

/// The media ranges of all `Accept` headers.
pub fn media_ranges(headers: &HeaderMap) -> impl Iterator<Item = MediaRange<'_>> {
    let values = headers.get_all(header::ACCEPT).iter();
    let ranges = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let texts = ranges.filter_map(|range| Some(str::from_utf8(range).ok()?.trim()));
    texts.filter(|range| !range.is_empty()).map(MediaRange::parse)
}

impl<'a> MediaRange<'a> {
    fn parse(range: &'a str) -> Self {
        let mut parts = range.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let weight = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().unwrap_or(0.0))
        });
        Self { essence, weight: weight.unwrap_or(1.0) }
    }

    /// Whether it is exactly this media type.
    pub fn is(&self, media_type: &str) -> bool {
        self.essence.eq_ignore_ascii_case(media_type)
    }

    /// Whether it includes this media type, by name, as `type/*` or as `*/*`.
    pub fn takes(&self, media_type: &str) -> bool {
        let kind = media_type.split_once('/').map(|(kind, _)| kind);
        let is_of_kind = || {
            self.essence
                .strip_suffix("/*")
                .zip(kind)
                .is_some_and(|(range, kind)| range == "*" || range.eq_ignore_ascii_case(kind))
        };
        self.weight > 0.0 && (self.is(media_type) || is_of_kind())
    }
}
