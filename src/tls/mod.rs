//! TLS 1.2 and 1.3, as a client and as a server: certificates and keys as they are written, and what is made of them.
//!
//! In reading order: `pem` reads certificates, [`Identity`] is one with its key; [`ClientTls`] connects to an upstream,
//! [`ServerTls`] accepts a client, who may show a [`ClientCertificate`]. The configuration makes both, so that what is wrong with a file is told when it is
//! read; what is made of the same files is the same (`==`), so that a reload leaves connections as they are.
//!
//! The only room that names the TLS library.

mod client;
mod pem;
mod refused;
mod server;
mod shown;

pub use client::{ClientStream, ClientTls, ClientTlsOptions, Trust};
pub use pem::{Identity, TlsError, expiries};
pub use server::{ClientRoots, ServerStream, ServerTls, ServerTlsOptions};
pub use shown::{ClientCertificate, Vouching};
