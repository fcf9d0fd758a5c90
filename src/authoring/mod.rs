//! Help for whoever writes routes: [`infer`] proposes a route for recorded responses, [`import`] makes routes
//! of an API's description, and the [`playground`] explains what rules make of a response.

pub mod import;
pub mod infer;
pub mod playground;
