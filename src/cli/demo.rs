//! `glossator demo`: serve in front of a built-in legacy server.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use clap::Args;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::Failure;
use super::output::{Screen, TextStyle};
use super::serve::{BoundServer, Overrides, block_on_then_shut_down, init_log_and_runtime};
use crate::config::{ConfigSource, Loaded, Sources};
use crate::settings::Environment;

#[derive(Debug, Args)]
pub(super) struct DemoArguments {
    #[command(flatten)]
    overrides: Overrides,
}

/// Routes of the demo: an ordinary file, so that it teaches the syntax.
const ROUTES: &str = include_str!("../../config/demo.yaml");
const ROUTES_NAME: &str = "config/demo.yaml";

pub(super) fn demo(arguments: &DemoArguments, screen: &mut Screen) -> Result<(), Failure> {
    screen.format = arguments.overrides.log.format();
    // The log settings are in the configuration, which needs the legacy server's address.
    let loaded = load(arguments, None, screen)?;
    screen.format = loaded.log.format;
    block_on_then_shut_down(init_log_and_runtime(&loaded)?, async {
        let port_in_use = |error: io::Error| {
            Failure::runtime(format!("the legacy server of the demo can't listen: {error}"))
        };
        let legacy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(port_in_use)?;
        let legacy_address = legacy.local_addr().map_err(port_in_use)?;
        let loaded = load(arguments, Some(legacy_address), screen)?;
        screen.problems(&loaded.warnings);
        let server = BoundServer::bind(&loaded).await?;
        let admin_address = server.admin_address();
        introduce(&loaded, (server.address()?, admin_address), legacy_address, screen);
        tokio::select! {
            ended = server.serve(None) => ended,
            () = serve_legacy(legacy) => Ok(()),
        }
    })
}

fn load(
    arguments: &DemoArguments,
    legacy: Option<SocketAddr>,
    screen: &mut Screen,
) -> Result<Loaded, Failure> {
    let mut environment = Environment::from_process();
    environment.0.extend(legacy.map(|address| ("LEGACY_URL".to_owned(), format!("http://{address}"))));
    let origin = ConfigSource::Text { name: ROUTES_NAME.into(), text: ROUTES.into() };
    let sources = Sources { origin, environment, flags: arguments.overrides.flags() };
    crate::config::load(&sources).map_err(|problems| {
        screen.problems(problems.as_slice());
        Failure::Reported(1)
    })
}

fn introduce(
    loaded: &Loaded,
    (address, admin_address): (SocketAddr, Option<SocketAddr>),
    legacy: SocketAddr,
    screen: &mut Screen,
) {
    let title = |text: &str| TextStyle::Strong.apply(text);
    screen.line(format!("listening on http://{address}"));
    screen.line(format!(
        "in front of a legacy server on http://{legacy} (try: curl -i http://{legacy}/report/oslo)\n"
    ));
    screen.line(title("Tools"));
    let width = loaded.routes.iter().map(|file| file.route.definition.name.as_str().len()).max().unwrap_or(0);
    for file in loaded.routes.iter() {
        let definition = &file.route.definition;
        let description = definition.description.as_deref().unwrap_or_default();
        screen.line(format!("  {:width$}  {description}", definition.name.as_str()));
    }
    screen.line(format!("\n{}", title("URLs")));
    for (path, what) in [
        ("/mcp", "MCP, Streamable HTTP, revisions 2024-11-05 to 2026-07-28"),
        ("/weather", "REST: get_weather"),
        ("/tools", "REST: the manifest, and POST /tools/NAME for every tool"),
        ("/health", "health check"),
    ] {
        screen.line(format!("  http://{address}{path:9}  {what}"));
    }
    if let Some(admin_address) = admin_address {
        let what = "admin UI: calls, failures, upstreams, and a playground for rules";
        screen.line(format!("  http://{admin_address}{:9}  {what}", "/"));
    }
    screen.line(format!("\n{}\n", title("Try")));
    screen.line(TRY.trim_end().replace("ADDRESS", &address.to_string()));
}

/// Requests to try, and the configuration of an MCP client.
const TRY: &str = include_str!("demo.txt");

/// Longest request headers or body, in bytes.
const REQUEST_LIMIT_BYTES: usize = 16 * 1024;
/// Duration of a request to the radar.
const RADAR_TURN: Duration = Duration::from_secs(60);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Pages of the legacy server: path, media type, and body without its last line end.
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

/// Serves until the future is dropped.
async fn serve_legacy(listener: TcpListener) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            // A client that disconnects early does not matter here.
            tokio::spawn(respond(stream));
        }
    }
}

async fn respond(mut stream: TcpStream) -> io::Result<()> {
    let Some(request) = Request::read(&mut stream).await? else { return Ok(()) };
    let (status, media_type, body) = tokio::select! {
        page = request.page() => page,
        // The client has disconnected.
        _ = stream.read_u8() => return Ok(()),
    };
    let response = format!(
        "HTTP/1.0 {status}\r\nServer: StationD/2.1 (Unix)\r\nContent-Type: {media_type}\r\n\r\n{body}\n"
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

struct Request {
    method: String,
    path: String,
    body: String,
}

impl Request {
    /// Reads one request. `None` if it is incomplete or too long.
    async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut received = Vec::new();
        loop {
            if let Some(request) = Self::parse(&received) {
                return Ok(Some(request));
            }
            if received.len() > 2 * REQUEST_LIMIT_BYTES || stream.read_buf(&mut received).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Parses a request; `None` if it is incomplete.
    fn parse(received: &[u8]) -> Option<Self> {
        let end = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&received[..end]);
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let body = received.get(end..end + length.unwrap_or(0).min(REQUEST_LIMIT_BYTES))?;
        let mut words = head.split_ascii_whitespace();
        let (method, target) = (words.next()?, words.next()?);
        let path = target.split('?').next().unwrap_or(target);
        Some(Self {
            method: method.to_owned(),
            path: percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned(),
            body: String::from_utf8_lossy(body).into_owned(),
        })
    }

    /// Status, media type, and body without its last line end.
    async fn page(&self) -> (&'static str, &'static str, String) {
        const OK: &str = "200 OK";
        const NOT_FOUND: &str = "404 Not Found";
        let city = self.path.strip_prefix("/report/").map(str::to_lowercase);
        let path = city.map_or_else(|| self.path.clone(), |city| format!("/report/{city}"));
        let known = PAGES.into_iter().find(|(known, ..)| *known == path);
        match (self.method.as_str(), path.as_str(), known) {
            ("POST", "/visits", _) => (OK, JSON, visit(&self.body)),
            ("GET", "/statistics", _) => {
                ("500 Internal Server Error", "text/plain", BROKEN_STATISTICS.to_owned())
            }
            ("GET", path, Some((_, media_type, body))) => {
                if path == "/radar" {
                    tokio::time::sleep(RADAR_TURN).await;
                }
                let title =
                    if path.starts_with("/report/") { "WEATHER REPORT\n==============\n" } else { "" };
                (OK, media_type, format!("{title}{body}"))
            }
            ("GET", path, None) if path.starts_with("/report/") || path.starts_with("/stations/") => {
                (NOT_FOUND, TEXT, "ERR 17 NO SUCH STATION".to_owned())
            }
            ("GET", ..) => (NOT_FOUND, TEXT, "ERR 4 NO SUCH PAGE".to_owned()),
            _ => ("501 Not Implemented", TEXT, "ERR 1 UNKNOWN METHOD".to_owned()),
        }
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
