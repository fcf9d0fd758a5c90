//! Tools for authors of routes: [`infer`] proposes a route for recorded responses, [`import`] converts an API
//! description to routes, and the [`playground`] explains the effect of rules on a response.

pub mod import;
pub mod infer;
pub mod playground;

/// A number with its noun: `1 route`, `2 routes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
