//! TLS 1.2 and 1.3 for clients and servers: certificates, keys, and the TLS configurations built from them.
//!
//! - [`ClientTls`] connects to a server, such as an upstream.
//! - [`ServerTls`] accepts connections of clients, which may present a [`ClientCertificate`] (mTLS).
//!
//! Both are built when the configuration is loaded, so that errors in a file are reported then.
//! Configurations with the same options, certificates and keys are equal (`==`), so that a reload keeps the
//! connections.
//!
//! No other module names the TLS library.

mod certificates;
mod client;
mod client_certificate;
mod error;
mod server;

pub use certificates::{Pem, expiries};
pub use client::{ClientTls, ClientTlsOptions, Fingerprint};
pub use client_certificate::ClientCertificate;
pub use error::TlsError;
use error::with_advice;
pub use server::{ClientCertificates, ServerStream, ServerTls, ServerTlsOptions};
