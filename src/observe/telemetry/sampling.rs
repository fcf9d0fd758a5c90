//! Which traces are told of.

use std::str::FromStr;

use opentelemetry_sdk::trace::Sampler;

/// Which traces are told of: by what a caller decided before us, and by their number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Whether a caller that names a trace decides for it.
    pub by_parent: bool,
    /// How many of the others are told of, from 0 to 1.
    pub ratio: f64,
}

/// A text that is no sampler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sampler")]
pub struct SamplingError(String);

impl Default for Sampling {
    fn default() -> Self {
        Self { by_parent: true, ratio: 1.0 }
    }
}

impl Sampling {
    /// The words for them, as `OTEL_TRACES_SAMPLER` has them.
    pub const WORDS: &'static [&'static str] = Self::WORDS_OR_OFF.split_at(1).1;

    /// The same, and first the word for none.
    pub const WORDS_OR_OFF: &'static [&'static str] = &[
        "off",
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ];

    /// The same for so many of the traces, where its word leaves that open.
    #[must_use]
    pub fn with_ratio(self, ratio: f64) -> Self {
        Self { ratio: ratio.clamp(0.0, 1.0), ..self }
    }

    /// Whether a word leaves open how many.
    pub fn takes_ratio(word: &str) -> bool {
        word.ends_with("traceidratio")
    }

    pub(super) fn sampler(self) -> Sampler {
        let root = match self.ratio {
            1.0.. => Sampler::AlwaysOn,
            ratio if ratio > 0.0 => Sampler::TraceIdRatioBased(ratio),
            _ => Sampler::AlwaysOff,
        };
        if self.by_parent { Sampler::ParentBased(Box::new(root)) } else { root }
    }
}

impl FromStr for Sampling {
    type Err = SamplingError;

    fn from_str(word: &str) -> Result<Self, SamplingError> {
        let (by_parent, rest) = match word.strip_prefix("parentbased_") {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let ratio = match rest {
            "always_on" | "traceidratio" => 1.0,
            "always_off" => 0.0,
            _ => return Err(SamplingError(word.to_owned())),
        };
        Ok(Self { by_parent, ratio })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_a_sampler_and_no_other() {
        for word in Sampling::WORDS {
            let sampling: Sampling = word.parse().unwrap();
            assert_eq!(sampling.by_parent, word.starts_with("parent"), "{word}");
            assert_eq!(sampling.ratio > 0.0, !word.ends_with("off"), "{word}");
        }
        assert!("jaeger_remote".parse::<Sampling>().is_err());
        assert!("parentbased_".parse::<Sampling>().is_err());
    }
}
