//! Tools for authors of routes: [`infer`] proposes a route for recorded responses, [`import`] converts an API
//! description to routes, and the [`playground`] explains the effect of rules on a response.

pub mod import;
pub mod infer;
pub mod playground;
