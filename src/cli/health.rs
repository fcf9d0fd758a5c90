//! `glossator health`: checks whether a process is ready. For health checks of containers without a shell or
//! `curl`.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use clap::Args;

use super::CommandError;
use super::input_output::Screen;
use crate::settings::Environment;

#[derive(Debug, Args)]
pub(super) struct HealthArguments {
    /// Address of the admin API [default: `GLOSSATOR__ADMIN__LISTEN`, or else 127.0.0.1:9901]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<SocketAddr>,
}

/// Environment variable with the listen address of the admin API.
const LISTEN_VARIABLE: &str = "GLOSSATOR__ADMIN__LISTEN";

const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);

/// Timeout for connecting, for writing the request, and for each read of the response.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum length of the response that is read, in bytes.
const RESPONSE_LIMIT_BYTES: u64 = 1 << 20;

pub(super) fn health(arguments: &HealthArguments, screen: &mut Screen) -> Result<(), CommandError> {
    let variable = Environment::from_process().0.remove(LISTEN_VARIABLE).filter(|text| !text.is_empty());
    let address = match (arguments.address, variable) {
        (Some(address), _) => address,
        (None, None) => DEFAULT_ADDRESS,
        (None, Some(text)) => text.parse().map_err(|_| {
            CommandError::usage(format!("`{LISTEN_VARIABLE}` is not an address; set `--address`"))
        })?,
    };
    let address = local_address(address);
    let status = get_status(address).map_err(|error| {
        CommandError::runtime(format!("no valid response from http://{address}/readyz: {error}"))
    })?;
    if status != 200 {
        let message = format!("not ready: http://{address}/readyz responded with {status}");
        return Err(CommandError::runtime(message));
    }
    screen.line("ready");
    Ok(())
}

/// Returns the address at which a process that listens on `address` is reached from the same machine.
fn local_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Requests `/readyz`, and returns its HTTP status.
fn get_status(address: SocketAddr) -> io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(
        format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut response = Vec::new();
    stream.take(RESPONSE_LIMIT_BYTES).read_to_end(&mut response)?;
    let line = String::from_utf8_lossy(response.split(|byte| *byte == b'\r').next().unwrap_or_default());
    let status =
        line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    status.ok_or_else(|| io::Error::other("the response is not HTTP/1.1"))
}
