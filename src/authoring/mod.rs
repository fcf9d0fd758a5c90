//! Help for whoever writes routes: the [`playground`] explains what rules make of a response.

pub mod playground;
