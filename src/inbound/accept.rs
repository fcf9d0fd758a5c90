//! `Accept`: the media types that a client accepts (RFC 9110, section 12.5.1).

use http::{HeaderMap, header};

/// A media range with its weight.
#[derive(Debug, Clone, Copy)]
pub struct MediaRange<'a> {
    /// The range without parameters, such as `text/*`.
    essence: &'a [u8],
    /// The weight (`q`), from 0 (not acceptable) to 1. An unparseable weight is 0.
    pub weight: f32,
}

/// The media ranges of all `Accept` headers.
pub fn media_ranges(headers: &HeaderMap) -> impl Iterator<Item = MediaRange<'_>> {
    let values = headers.get_all(header::ACCEPT).iter();
    let ranges = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    ranges.map(<[u8]>::trim_ascii).filter(|range| !range.is_empty()).map(MediaRange::parse)
}

/// Whether a client accepts a media type: the most specific range that includes it decides, so
/// `text/plain;q=0, */*` accepts all but `text/plain`.
pub fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let ranges = media_ranges(headers).filter_map(|range| Some((range.specificity(media_type)?, range)));
    ranges.max_by_key(|(specificity, _)| *specificity).is_some_and(|(_, range)| range.weight > 0.0)
}

impl<'a> MediaRange<'a> {
    fn parse(range: &'a [u8]) -> Self {
        let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let essence = parts.next().unwrap_or_default();
        let weight = parts.find_map(|parameter| {
            let (name, value) = str::from_utf8(parameter).ok()?.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().unwrap_or(0.0))
        });
        Self { essence, weight: weight.unwrap_or(1.0) }
    }

    /// Whether the range is exactly this media type.
    pub fn is_exactly(&self, media_type: &str) -> bool {
        self.essence.eq_ignore_ascii_case(media_type.as_bytes())
    }

    /// The specificity of the range for this media type: 2 for the type itself, 1 for `type/*`, 0 for `*/*`.
    /// `None` if the range does not include it.
    fn specificity(&self, media_type: &str) -> Option<u8> {
        if self.is_exactly(media_type) {
            return Some(2);
        }
        let (range, (kind, _)) = (self.essence.strip_suffix(b"/*")?, media_type.split_once('/')?);
        if range.eq_ignore_ascii_case(kind.as_bytes()) { Some(1) } else { (range == b"*").then_some(0) }
    }
}
