//! `glossator demo`: serve in front of a built-in legacy server.

use std::{io, net::SocketAddr, time::Duration};

use clap::Args;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    Failure,
    output::{Screen, TextStyle},
    serve::{BoundServer, Overrides, block_on_then_shut_down, init_log_and_runtime},
};
use crate::config::{ConfigSource, Environment, Loaded, Sources};

#[derive(Debug, Args)]
pub(super) struct DemoArguments {
    #[command(flatten)]
    overrides: Overrides,
}

/// Routes of the demo: an ordinary file, so that it teaches the syntax.
const ROUTES: &str = include_str!("../../config/demo.yaml");
const ROUTES_NAME: &str = "config/demo.yaml";

pub(super) fn demo(arguments: &DemoArguments, screen: &mut Screen) -> Result<(), Failure> {
    screen.set_format(arguments.overrides.log.format());
    // The log settings are in the configuration, which needs the legacy server's address.
    let loaded = load(arguments, None, screen)?;
    screen.set_format(Some(loaded.log.format));
    block_on_then_shut_down(init_log_and_runtime(&loaded)?, async {
        let port_in_use = |error: io::Error| {
            Failure::runtime(format!("the legacy server of the demo can't listen: {error}"))
        };
        let legacy = LegacyServer::bind().await.map_err(port_in_use)?;
        let legacy_address = legacy.address().map_err(port_in_use)?;
        let loaded = load(arguments, Some(legacy_address), screen)?;
        screen.problems(&loaded.warnings);
        let server = BoundServer::bind(&loaded).await?;
        let admin_address = server.admin_address();
        introduce(&loaded, (server.address()?, admin_address), legacy_address, screen);
        tokio::select! {
            ended = server.serve(None) => ended,
            () = legacy.serve() => Ok(()),
        }
    })
}

fn load(
    arguments: &DemoArguments,
    legacy: Option<SocketAddr>,
    screen: &mut Screen,
) -> Result<Loaded, Failure> {
    let mut environment = Environment::from_process();
    environment.extend(legacy.map(|address| ("LEGACY_URL".to_owned(), format!("http://{address}"))));
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
    let title = |screen: &Screen, text: &str| screen.styled(TextStyle::Strong, text);
    screen.line(format!("listening on http://{address}"));
    screen.line(format!(
        "in front of a legacy server on http://{legacy} (try: curl -i http://{legacy}/report/oslo)\n"
    ));
    screen.line(title(screen, "Tools"));
    let width = loaded.routes.iter().map(|file| file.route.definition.name.as_str().len()).max().unwrap_or(0);
    for file in loaded.routes.iter() {
        let definition = &file.route.definition;
        let description = definition.description.as_deref().unwrap_or_default();
        screen.line(format!("  {:width$}  {description}", definition.name.as_str()));
    }
    screen.line(format!("\n{}", title(screen, "URLs")));
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
    screen.line(format!("\n{}\n", title(screen, "Try")));
    screen.line("REST with curl:\n");
    screen.line(format!(
        "  curl -s -X POST http://{address}/weather -H 'Content-Type: application/json' \
         -d '{{\"city\": \"Oslo\"}}'\n"
    ));
    screen.line("MCP with curl:\n");
    screen.line(format!("  curl -s http://{address}/mcp -H 'Content-Type: application/json' \\"));
    screen.line(
        "    -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \\",
    );
    screen.line("    -H 'Mcp-Method: tools/call' -H 'Mcp-Name: get_weather' \\");
    screen.line(concat!(
        r#"    -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","#,
        r#""params":{"name":"get_weather","arguments":{"city":"Tromsø"},"#,
        r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientCapabilities":{}}}}'"#,
        "\n"
    ));
    screen.line("An MCP client's configuration (VS Code, .vscode/mcp.json; others are similar):\n");
    screen.line(format!(
        "  {{ \"servers\": {{ \"demo\": {{ \"type\": \"http\", \"url\": \"http://{address}/mcp\" }} }} }}\n"
    ));
    screen.line("The routes are config/demo.yaml. Ctrl-C ends the demo.");
}

/// Longest request headers or body, in bytes.
const REQUEST_LIMIT_BYTES: usize = 16 * 1024;
/// Duration of a request to the radar.
const RADAR_TURN: Duration = Duration::from_secs(60);

/// Legacy server, bound but not serving yet.
struct LegacyServer {
    listener: TcpListener,
}

impl LegacyServer {
    /// Binds a free loopback port.
    async fn bind() -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await? })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped.
    async fn serve(self) {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(async move {
                            // A client that disconnects early does not matter here.
                            let _ = respond(stream).await;
                        });
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn respond(mut stream: TcpStream) -> io::Result<()> {
    let Some(request) = Request::read(&mut stream).await? else { return Ok(()) };
    let page = tokio::select! {
        page = request.page() => page,
        // The client has disconnected.
        _ = stream.read_u8() => return Ok(()),
    };
    let head = format!(
        "HTTP/1.0 {}\r\nServer: StationD/2.1 (Unix)\r\nContent-Type: {}\r\n\r\n",
        page.status, page.media_type
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(page.body.as_bytes()).await?;
    stream.shutdown().await
}

struct Request {
    method: String,
    path: String,
    body: String,
}

struct PageTemplate {
    status: &'static str,
    media_type: &'static str,
    body: String,
}

impl PageTemplate {
    fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, media_type: "text/plain; charset=utf-8", body: body.into() }
    }

    fn json(body: impl Into<String>) -> Self {
        Self { status: "200 OK", media_type: "application/json", body: body.into() }
    }
}

const OK: &str = "200 OK";
const NOT_FOUND: &str = "404 Not Found";

impl Request {
    /// Reads one request. `None` if it is incomplete or not HTTP.
    async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let mut received = Vec::new();
        let head_end = loop {
            if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if received.len() > REQUEST_LIMIT_BYTES || stream.read_buf(&mut received).await? == 0 {
                return Ok(None);
            }
        };
        let head = String::from_utf8_lossy(&received[..head_end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let end = head_end + length.unwrap_or(0).min(REQUEST_LIMIT_BYTES);
        while received.len() < end {
            if stream.read_buf(&mut received).await? == 0 {
                return Ok(None);
            }
        }
        let mut words = head.split_ascii_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
        let path = target.split('?').next().unwrap_or(target);
        let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
        let body = String::from_utf8_lossy(&received[head_end..end]).into_owned();
        Ok(Some(Self { method: method.to_owned(), path, body }))
    }

    async fn page(&self) -> PageTemplate {
        match (self.method.as_str(), self.path.as_str()) {
            ("GET", "/stations.json") => PageTemplate::json(
                "[{\"id\": 1, \"city\": \"Oslo\"}, {\"id\": 2, \"city\": \"Bergen\"}, {\"id\": 3, \"city\": \"Tromsø\"}]\n",
            ),
            ("GET", "/stations/count") => PageTemplate::text(OK, "3\n"),
            ("GET", "/statistics") => broken_statistics(),
            ("GET", "/radar") => {
                tokio::time::sleep(RADAR_TURN).await;
                PageTemplate::text(OK, "....:::;;;;:::....\n")
            }
            ("POST", "/visits") => visit(&self.body),
            ("GET", path) => match (path.strip_prefix("/report/"), path.strip_prefix("/stations/")) {
                (Some(city), _) => report(city),
                (_, Some(file)) => record(file),
                (None, None) => PageTemplate::text(NOT_FOUND, "ERR 4 NO SUCH PAGE\n"),
            },
            _ => PageTemplate::text("501 Not Implemented", "ERR 1 UNKNOWN METHOD\n"),
        }
    }
}

fn report(city: &str) -> PageTemplate {
    let report = match city.to_lowercase().as_str() {
        "oslo" => "Station: Oslo\nTemp: 5.0\nSky: Cloudy\nWind: 3.5\nRain: no\n",
        "bergen" => "Station: Bergen\nTemp: 7.5\nSky: Overcast\nWind: 11.0\nRain: yes\n",
        "tromsø" => "Station: Tromsø\nTemp: -2.0\nSky: Clear\nRain: no\n",
        _ => return PageTemplate::text(NOT_FOUND, "ERR 17 NO SUCH STATION\n"),
    };
    PageTemplate::text(OK, format!("WEATHER REPORT\n==============\n{report}"))
}

fn record(file: &str) -> PageTemplate {
    match file {
        "1.json" => {
            PageTemplate::json("{\"id\": 1, \"city\": \"Oslo\", \"height_m\": 94.0, \"built\": 1937}\n")
        }
        "2.json" => {
            PageTemplate::json("{\"id\": 2, \"city\": \"Bergen\", \"height_m\": 12.0, \"built\": 1904}\n")
        }
        "3.json" => {
            PageTemplate::json("{\"id\": 3, \"city\": \"Tromsø\", \"height_m\": 100.0, \"built\": 1920}\n")
        }
        _ => PageTemplate::text(NOT_FOUND, "ERR 17 NO SUCH STATION\n"),
    }
}

fn visit(form: &str) -> PageTemplate {
    let closed = form.contains("day=friday");
    let station = form.split('&').find_map(|pair| pair.strip_prefix("station="));
    match station {
        Some(station @ ("1" | "2" | "3")) if closed => {
            PageTemplate::json(format!("{{\"error\": \"station {station} is closed on friday\"}}\n"))
        }
        Some("1" | "2" | "3") => PageTemplate::json("{\"ok\": 1, \"ref\": \"V-1998-0042\"}\n"),
        _ => PageTemplate::json("{\"error\": \"no such station\"}\n"),
    }
}

fn broken_statistics() -> PageTemplate {
    PageTemplate {
        status: "500 Internal Server Error",
        media_type: "text/plain",
        body: "java.sql.SQLException: connect to jdbc:oracle:thin:@10.1.2.3:1521 as scott/tiger failed\n    \
               at no.station.stats.Yearly.load(Yearly.java:112)\n    \
               at no.station.Main.handle(Main.java:48)\n"
            .into(),
    }
}
