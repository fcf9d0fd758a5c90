//! Help for whoever writes routes: `arguments` are those of an example, [`playground`] tries rules out.

mod arguments;
pub mod playground;

pub use arguments::{example_arguments, made_up_arguments};
