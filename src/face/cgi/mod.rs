//! CGI (RFC 3875): one request of a web server, which starts the program for it.
//!
//! In reading order: `decode` makes an HTTP request of the variables that the web server sets, [`Input`] is its body,
//! `answer` writes the response's head as the web server reads it. The request then goes the way of every other, so
//! REST, MCP and `passthrough` are the same as over a port of our own. What a web server is believed: `decode`.
//!
//! Not spoken is NPH, where the program writes the whole of HTTP itself (section 5).

mod answer;
mod decode;
mod input;

pub use answer::{broken, head};
pub use decode::{Mount, NotARequest, is_of_request, request};
pub use input::Input;
