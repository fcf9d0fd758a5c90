//! Integration tests over real sockets, with a scripted upstream behind the program and a raw client in
//! front.
//!
//! The clock runs, ports are chosen by the system, and a test waits for a state, never for a while.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail their test")]

mod addresses;
mod attacks;
mod book;
mod cancellation;
#[cfg(unix)]
mod cgi;
#[cfg(unix)]
mod cgi_upstream;
mod chaos;
mod cli;
mod clients;
#[cfg(unix)]
mod commands;
mod credentials;
#[cfg(unix)]
mod descriptors;
mod layers;
mod names;
mod fuzz;
mod golden;
mod infer;
mod async_operations;
mod links;
#[cfg(unix)]
mod log;
mod mcp;
mod mcp_servers;
mod admin;
mod admin_ui;
mod ownership;
mod pages;
mod passthrough;
mod policies;
mod problems;
mod reload;
mod responses;
mod requests;
mod rest;
mod restart;
#[cfg(unix)]
mod secrets;
mod security;
mod seeds;
mod serve;
mod shared_state;
mod open_streams;
mod support;
mod telemetry;
mod terms;
mod tls;
mod tokens;
mod trace;
mod slow_translations;
mod slow_clients;
mod upstream;
#[cfg(unix)]
mod upstream_buffer;
mod watch;
mod wire;
