//! `glossator demo`: runs the proxy in front of a built-in legacy server.

use std::{
    future,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use axum::{
    body::to_bytes,
    extract::Request,
    response::{IntoResponse, Response},
};
use clap::Args;
use http::{
    StatusCode,
    header::{CONTENT_TYPE, SERVER},
};
use percent_encoding::percent_decode_str;

use super::CommandError;
use super::input_output::{Screen, TextStyle};
use super::serve::{
    BoundServer, LogOverrides, NO_SIGNAL_HANDLERS, early_log_format, run_in_runtime, system_failure,
};
use crate::config::{ConfigSource, ListenerSettings, Loaded, Sources};
use crate::server::{self, HttpHandler, StopSignal};
use crate::settings::Environment;

#[derive(Debug, Args)]
pub(super) struct DemoArguments {
    /// Listen address; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    log: LogOverrides,
}

/// Routes of the demo: an ordinary route file, so that it also teaches the syntax.
const ROUTES: &str = include_str!("../../config/demo.yaml");
const ROUTES_NAME: &str = "config/demo.yaml";

pub(super) fn demo(arguments: &DemoArguments, screen: &mut Screen) -> Result<(), CommandError> {
    screen.format = early_log_format();
    let stop = StopSignal::install().map_err(system_failure(NO_SIGNAL_HANDLERS))?;
    // The log must be set up before the legacy server has an address, so the configuration is loaded twice.
    let loaded = load(arguments, None)?;
    screen.format = loaded.log.format;
    run_in_runtime(&loaded, async {
        let legacy = server::bind((Ipv4Addr::LOCALHOST, 0).into()).map_err(CommandError::runtime)?;
        let legacy_address = legacy.local_addr().map_err(CommandError::from_error)?;
        let loaded = load(arguments, Some(legacy_address))?;
        screen.problems(&loaded.warnings);
        let server = BoundServer::bind(&loaded).await?;
        let address = server.listener.local_addr().map_err(CommandError::from_error)?;
        let admin_address = server.admin.as_ref().and_then(|admin| admin.address);
        introduce(&loaded, (address, admin_address), legacy_address, screen);
        let (legacy_settings, handler) = (ListenerSettings::default(), HttpHandler::new(respond));
        tokio::select! {
            result = server.serve(stop, None) => result,
            _ = server::serve(legacy, legacy_settings, handler, future::pending()) => Ok(()),
        }
    })
}

fn load(arguments: &DemoArguments, legacy: Option<SocketAddr>) -> Result<Loaded, CommandError> {
    let mut environment = Environment::from_process();
    environment.0.extend(legacy.map(|address| ("LEGACY_URL".to_owned(), format!("http://{address}"))));
    let origin = ConfigSource::Text { name: ROUTES_NAME.into(), text: ROUTES.into() };
    let sources = Sources { origin, environment, flags: arguments.log.flags(&arguments.listen) };
    crate::config::load(&sources).map_err(CommandError::Problems)
}

fn introduce(
    loaded: &Loaded,
    (address, admin_address): (SocketAddr, Option<SocketAddr>),
    legacy: SocketAddr,
    screen: &mut Screen,
) {
    let definitions = loaded.routes.iter().map(|compiled| &compiled.route.definition);
    let width = definitions.clone().map(|tool| tool.name.as_str().len()).max().unwrap_or(0);
    let tools = definitions.map(|tool| {
        let description = tool.description.as_deref().unwrap_or_default();
        format!("  {:width$}  {description}\n", tool.name.as_str())
    });
    let admin = admin_address.map(|address| {
        let summary = "admin UI: calls, failures, upstreams, and a playground for rules";
        format!("  http://{address}{:9}  {summary}\n", "/")
    });
    let text = INTRODUCTION.trim_end().replace("TOOLS", &tools.collect::<String>());
    let text = text.replace("ADMIN", &admin.unwrap_or_default());
    let text = text.replace("ADDRESS", &address.to_string()).replace("LEGACY", &legacy.to_string());
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(title) => screen.line(TextStyle::Strong.apply(title)),
            None => screen.line(line),
        }
    }
}

/// Text at startup: the tools, URLs to try, and the configuration for an MCP client. Headings begin with `#`
/// and a space.
const INTRODUCTION: &str = include_str!("demo.txt");

/// Maximum length of a request body, in bytes.
const REQUEST_LIMIT_BYTES: usize = 16 * 1024;
/// Time that the legacy server takes to respond to a request for the radar image.
const RADAR_DELAY: Duration = Duration::from_secs(60);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Pages of the legacy server: path, media type, and body without its final line break.
const PAGES: [(&str, &str, &str); 9] = [
    (
        "/stations.json",
        JSON,
        r#"[{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}, {"id": 3, "city": "Tromsø"}]"#,
    ),
    ("/stations/1.json", JSON, r#"{"id": 1, "city": "Oslo", "height_m": 94.0, "built": 1937}"#),
    ("/stations/2.json", JSON, r#"{"id": 2, "city": "Bergen", "height_m": 12.0, "built": 1904}"#),
    ("/stations/3.json", JSON, r#"{"id": 3, "city": "Tromsø", "height_m": 100.0, "built": 1920}"#),
    ("/stations/count", TEXT, "3"),
    ("/report/oslo", TEXT, "Station: Oslo\nTemp: 5.0\nSky: Cloudy\nWind: 3.5\nRain: no"),
    ("/report/bergen", TEXT, "Station: Bergen\nTemp: 7.5\nSky: Overcast\nWind: 11.0\nRain: yes"),
    ("/report/tromsø", TEXT, "Station: Tromsø\nTemp: -2.0\nSky: Clear\nRain: no"),
    ("/radar", TEXT, "....:::;;;;:::...."),
];

const BROKEN_STATISTICS: &str = "java.sql.SQLException: connect to jdbc:oracle:thin:@10.1.2.3:1521 as scott/tiger failed\n    \
     at no.station.stats.Yearly.load(Yearly.java:112)\n    \
     at no.station.Main.handle(Main.java:48)";

async fn respond(request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(form) = to_bytes(body, REQUEST_LIMIT_BYTES).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let path = percent_decode_str(head.uri.path()).decode_utf8_lossy();
    let (status, media_type, page) = page(head.method.as_str(), &path, &String::from_utf8_lossy(&form)).await;
    let headers = [(SERVER, "StationD/2.1 (Unix)"), (CONTENT_TYPE, media_type)];
    (status, headers, format!("{page}\n")).into_response()
}

/// Response of the legacy server: status, media type, and body without its final line break.
async fn page(method: &str, path: &str, form: &str) -> (StatusCode, &'static str, String) {
    let city = path.strip_prefix("/report/").map(str::to_lowercase);
    let path = city.map_or_else(|| path.to_owned(), |city| format!("/report/{city}"));
    let entry = PAGES.into_iter().find(|(entry_path, ..)| *entry_path == path);
    match (method, path.as_str(), entry) {
        ("POST", "/visits", _) => (StatusCode::OK, JSON, visit(form)),
        ("GET", "/statistics", _) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", BROKEN_STATISTICS.to_owned())
        }
        ("GET", path, Some((_, media_type, body))) => {
            if path == "/radar" {
                tokio::time::sleep(RADAR_DELAY).await;
            }
            let title = if path.starts_with("/report/") { "WEATHER REPORT\n==============\n" } else { "" };
            (StatusCode::OK, media_type, format!("{title}{body}"))
        }
        ("GET", path, None) if path.starts_with("/report/") || path.starts_with("/stations/") => {
            (StatusCode::NOT_FOUND, TEXT, "ERR 17 NO SUCH STATION".to_owned())
        }
        ("GET", ..) => (StatusCode::NOT_FOUND, TEXT, "ERR 4 NO SUCH PAGE".to_owned()),
        _ => (StatusCode::NOT_IMPLEMENTED, TEXT, "ERR 1 UNKNOWN METHOD".to_owned()),
    }
}

fn visit(form: &str) -> String {
    match form.split('&').find_map(|pair| pair.strip_prefix("station=")) {
        Some(station @ ("1" | "2" | "3")) if form.contains("day=friday") => {
            format!("{{\"error\": \"station {station} is closed on friday\"}}")
        }
        Some("1" | "2" | "3") => r#"{"ok": 1, "ref": "V-1998-0042"}"#.to_owned(),
        _ => r#"{"error": "no such station"}"#.to_owned(),
    }
}
