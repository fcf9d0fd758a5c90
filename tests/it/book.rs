//! The book in `config/book` and the README: what they show is what happens. Results on pages of the
//! reference are checked by `pages`.
//!
//! A `yaml` block with `upstreams:` is a whole file, which loads without a warning and whose `tests` pass.
//! Any other `yaml` block is the `response` of a route. An `http` block is a response of the upstream, and a
//! `json` block after both has members of the tool result.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use bytes::Bytes;
use glossator::{
    config::{self, Loaded, Problem, Sources},
    model::{StructuredContentSupport, UpstreamResponse, write_result},
    translate::{CallInput, Trace, translate},
};
use regex::Regex;
use serde_json::{Map, Value};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A block of code between fences.
struct Block<'a> {
    /// The word behind the first fence.
    kind: &'a str,
    text: &'a str,
    /// Prose since the block before.
    prose: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts: Vec<_> = page.split("```").collect();
    assert!(parts.len() % 2 == 1, "a fence is not closed");
    let pairs = parts.chunks_exact(2);
    pairs
        .map(|pair| {
            let (kind, text) = pair[1].split_once('\n').expect("a block has a first line");
            Block { kind, text, prose: pair[0] }
        })
        .collect()
}

/// The pages below a folder, in order.
fn pages_of(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            pages_of(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The README and the pages of the book, with their text.
fn book() -> Vec<(PathBuf, String)> {
    let mut found = vec![root().join("README.md")];
    pages_of(&root().join("config/book"), &mut found);
    assert!(found.len() > 5, "pages are missing");
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn is_tutorial(page: &Path) -> bool {
    page.parent().is_some_and(|folder| folder.ends_with("tutorials"))
}

fn is_reference(page: &Path) -> bool {
    page.starts_with(root().join("config/book/reference"))
}

fn glossator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glossator")).args(arguments).output().unwrap()
}

#[track_caller]
fn load(page: &Path, text: &str) -> Loaded {
    let loaded = config::load(&Sources::from_text("page.yaml", text));
    let loaded = loaded.unwrap_or_else(|problems| panic!("{}:\n{text}\n{problems}", page.display()));
    // Programs of legacy servers are not on every machine.
    let is_missing_program =
        |warning: &&Problem| warning.message.starts_with("there is no executable file `/");
    let unexpected: Vec<_> = loaded.warnings.iter().filter(|warning| !is_missing_program(warning)).collect();
    assert!(unexpected.is_empty(), "{}:\n{text}\n{unexpected:?}", page.display());
    loaded
}

/// The result of a response in the first route of a file.
fn result_of(loaded: &Loaded, response: &str) -> Value {
    let route = &loaded.routes[0].route;
    let response = UpstreamResponse::from_recording(&Bytes::from(response.to_owned())).unwrap();
    let args = Value::Object(Map::new());
    let input = CallInput::new(&route.definition.name, &args);
    let result = translate(&route.translator, input, &response, &mut Trace::off()).result;
    let mut written = Vec::new();
    write_result(&result, StructuredContentSupport::ObjectsOnly, &mut written);
    serde_json::from_slice(&written).unwrap()
}

#[test]
fn the_book_and_the_readme_show_what_happens() {
    let scratch = root_of_scratch("pages");
    let (mut files, mut results) = (0, 0);
    for (page, text) in book().iter().filter(|(page, _)| !is_tutorial(page) && !is_reference(page)) {
        let (mut current, mut response) = (None, None);
        for block in blocks(text) {
            match block.kind {
                "yaml" if block.text.contains("upstreams:") => {
                    current = Some(load(page, block.text));
                    files += 1;
                    let file = scratch.join(format!("{files}.yaml"));
                    fs::write(&file, block.text).unwrap();
                    let ran = glossator(&["test", "--config", file.to_str().unwrap()]);
                    let printed = String::from_utf8_lossy(&ran.stdout);
                    assert!(ran.status.success(), "{}:\n{}\n{printed}", page.display(), block.text);
                }
                "yaml" => {
                    let rule: String = block.text.lines().map(|line| format!("      {line}\n")).collect();
                    let file = format!(
                        "upstreams: {{ legacy: http://127.0.0.1:9000 }}\nroutes:\n  report:\n    \
                         description: A report.\n    request: GET /report\n    response:\n{rule}"
                    );
                    current = Some(load(page, &file));
                }
                "http" => response = Some(block.text),
                "json" => {
                    let shown: Map<String, Value> = serde_json::from_str(block.text)
                        .unwrap_or_else(|error| panic!("{}:\n{}{error}", page.display(), block.text));
                    let is_result = shown.contains_key("isError") || shown.contains_key("structuredContent");
                    if let (Some(loaded), Some(response), true) = (&current, response, is_result) {
                        let found = result_of(loaded, response);
                        let same = shown.iter().all(|(name, value)| found.get(name) == Some(value));
                        assert!(same, "{}: the result is\n{found:#}", page.display());
                        results += 1;
                    }
                }
                _ => {}
            }
        }
    }
    assert!(files > 0 && results > 0, "{files} files and {results} results");
}

/// An empty folder of a test.
fn root_of_scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn every_command_of_the_book_exists() {
    let text = |output: Output| String::from_utf8(output.stdout).unwrap();
    let mut found = 0;
    let in_prose = Regex::new("`(glossator [a-z][^`]+)`").unwrap();
    for (page, written) in book() {
        let blocks = blocks(&written);
        let shell = blocks.iter().filter(|block| block.kind == "sh");
        let shell = shell.map(|block| block.text.replace("\\\n", " "));
        let prose = blocks.iter().flat_map(|block| in_prose.captures_iter(block.prose));
        let prose = prose.map(|command| command[1].replace('\n', " "));
        for commands in shell.chain(prose) {
            for line in commands.lines() {
                let Some(arguments) = line.trim().strip_prefix("glossator ") else { continue };
                let shown = || format!("{}: {line}", page.display());
                let words: Vec<_> = arguments
                    .split_whitespace()
                    .take_while(|word| !matches!(*word, "#" | "|" | ">"))
                    .collect();
                let commands: Vec<_> =
                    words.iter().take(if words[0] == "import" { 2 } else { 1 }).copied().collect();
                let help = glossator(&[&commands[..], &["--help"]].concat());
                assert!(help.status.success(), "{}", shown());
                let help = text(help);
                for flag in words.iter().filter(|word| word.starts_with("--")) {
                    assert!(
                        help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")),
                        "{}",
                        shown()
                    );
                }
                found += 1;
            }
        }
    }
    assert!(found > 50, "{found} commands");
}

/// Tutorials: all that they show is done, in the order of the page, in an empty folder.
///
/// - "Save … as `FILE`:" before a block writes the file.
/// - A `sh` block is run by bash. "Leave it running" before it starts a server instead, which prints its
///   address.
/// - "prints:" before any other block has the output of the last command, and "first terminal prints:" that
///   of the last server. A line `…` stands for any lines, and `…` in a line for any text.
/// - "contains:" after a file's name shows the file.
/// - "Ctrl-C" ends the last server.
///
/// Addresses on a page are the defaults, and here those that the system chose; the first lines of a server
/// show which is which. `UPDATE_GOLDEN=1 cargo test --test it book` writes outputs anew.
mod tutorials {
    use std::{
        io::{BufRead, BufReader},
        process::{Child, Stdio},
        sync::mpsc::{Receiver, RecvTimeoutError, channel},
        time::Duration,
    };

    use super::*;

    pub(super) struct Server {
        child: Child,
        lines: Receiver<String>,
        seen: Vec<String>,
        /// How many ports were known before it.
        ports_before: usize,
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    impl Server {
        /// The next line, which comes within a minute.
        #[track_caller]
        fn next(&mut self) -> String {
            match self.lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    line
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("the server prints nothing more than\n{}", self.seen.join("\n"))
                }
            }
        }
    }

    pub(super) struct Reader {
        pub(super) folder: PathBuf,
        /// Ports on the page, and those here.
        ports: Vec<(String, String)>,
        pub(super) servers: Vec<Server>,
        pub(super) printed: String,
    }

    impl Reader {
        /// A reader in an empty folder.
        pub(super) fn new(name: &str) -> Self {
            let folder = root_of_scratch(name);
            Self { folder, ports: Vec::new(), servers: Vec::new(), printed: String::new() }
        }

        pub(super) fn here(&self, text: &str) -> String {
            let mut text = text.to_owned();
            for (page, here) in &self.ports {
                text = text.replace(&format!("127.0.0.1:{page}"), &format!("127.0.0.1:{here}"));
            }
            text
        }

        fn as_on_the_page(&self, text: &str) -> String {
            let mut text = text.to_owned();
            for (page, here) in &self.ports {
                text = text.replace(&format!("127.0.0.1:{here}"), &format!("127.0.0.1:{page}"));
                text = text.replace(&format!("port {here} "), &format!("port {page} "));
            }
            text
        }

        fn bash(&self, command: &str) -> Command {
            let mut paths =
                Path::new(env!("CARGO_BIN_EXE_glossator")).parent().unwrap().as_os_str().to_owned();
            paths.push(":");
            paths.push(std::env::var_os("PATH").unwrap());
            let mut bash = Command::new("bash");
            bash.args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{command}")])
                .current_dir(&self.folder)
                .env("PATH", paths)
                .env("GLOSSATOR__ADMIN__LISTEN", "127.0.0.1:0")
                .env("PYTHONUNBUFFERED", "1")
                .env("NO_COLOR", "1")
                .stdin(Stdio::null());
            bash
        }

        pub(super) fn run(&mut self, command: &str, page: &Path) {
            let output = self.bash(&self.here(command)).output().unwrap();
            self.printed = self.as_on_the_page(&String::from_utf8_lossy(&output.stdout));
            // `check` and `test` report what they find with their status; the page shows it.
            let is_expected = output.status.success() || matches!(output.status.code(), Some(1 | 78));
            assert!(is_expected, "{}:\n{command}{}\n{}", page.display(), output.status, self.printed);
        }

        /// Starts a server at a port of the system's choice, in place of the one on the page.
        pub(super) fn serve(&mut self, command: &str) {
            let python = Regex::new(r"(http\.server .*)\b9\d{3}\b").unwrap();
            let asks_port = Regex::new(r"127\.0\.0\.1:(\d+)|http\.server .*\b(9\d{3})\b").unwrap();
            let shown = asks_port
                .captures(command)
                .map(|found| found.get(1).or_else(|| found.get(2)).unwrap().as_str());
            let shown = shown.unwrap_or("8080").to_owned();
            let here =
                python.replace_all(command, "${1}0").replace(&format!("127.0.0.1:{shown}"), "127.0.0.1:0");
            let mut child = self
                .bash(&format!("exec {}", here.trim()))
                .env("GLOSSATOR__SERVER__LISTEN", "127.0.0.1:0")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let (sender, lines) = channel();
            let read = BufReader::new(child.stdout.take().unwrap());
            std::thread::spawn(move || {
                for line in read.lines() {
                    if sender.send(line.unwrap()).is_err() {
                        break;
                    }
                }
            });
            let mut server = Server { child, lines, seen: Vec::new(), ports_before: self.ports.len() };
            let port = |line: &str| {
                let found = Regex::new(r"127\.0\.0\.1(?: port |:)(\d+)").unwrap().captures(line).unwrap();
                found[1].to_owned()
            };
            if command.contains("glossator") {
                // The admin API reports its address in the log, in any order with the line on standard
                // output.
                let (mut admin, mut main) = (None, None);
                while admin.is_none() || main.is_none() {
                    let line = server.next();
                    if line.contains("admin API listening") {
                        admin = Some(port(&line));
                    } else if line.starts_with("listening on") {
                        main = Some(port(&line));
                    }
                }
                self.ports.extend([("9901".to_owned(), admin.unwrap()), (shown, main.unwrap())]);
            } else {
                self.ports.push((shown, port(&server.next())));
            }
            self.servers.push(server);
        }

        /// Waits until the last server has printed these lines.
        #[track_caller]
        fn wait_for(&mut self, shown: &str) {
            let mut server = self.servers.pop().unwrap();
            let mut from = 0;
            for expected in shown.lines() {
                loop {
                    while from == server.seen.len() {
                        server.next();
                    }
                    from += 1;
                    if matches(expected, &self.as_on_the_page(&server.seen[from - 1])) {
                        break;
                    }
                }
            }
            self.servers.push(server);
        }
    }

    /// Whether a line is as shown, where `…` is any text.
    fn matches(shown: &str, line: &str) -> bool {
        let parts: Vec<_> = shown.split('…').map(regex::escape).collect();
        Regex::new(&format!("^{}$", parts.join(".*"))).unwrap().is_match(line.trim_end())
    }

    /// Whether an output is as shown, where a line `…` is any lines.
    pub(super) fn is_as_shown(shown: &str, printed: &str) -> bool {
        fn rest(shown: &[&str], printed: &[&str]) -> bool {
            match (shown, printed) {
                ([], printed) => printed.is_empty(),
                (["…", shown @ ..], printed) => {
                    (0..=printed.len()).any(|skipped| rest(shown, &printed[skipped..]))
                }
                ([first, shown @ ..], [line, printed @ ..]) => matches(first, line) && rest(shown, printed),
                _ => false,
            }
        }
        let shown: Vec<_> = shown.trim_end().lines().collect();
        let printed: Vec<_> = printed.trim_end().lines().collect();
        rest(&shown, &printed)
    }

    /// Does what a tutorial says, and returns it with the outputs that came of it.
    fn follow(page: &Path, text: &str) -> String {
        let name = page.file_stem().unwrap().to_str().unwrap();
        let mut reader = Reader::new(name);
        let file_name = Regex::new(r"`([\w./-]+)`[^`]*:\s*$").unwrap();
        let mut followed = text.to_owned();
        for block in blocks(text) {
            if block.prose.contains("Ctrl-C") {
                let stopped = reader.servers.pop().unwrap();
                reader.ports.truncate(stopped.ports_before);
            }
            let last = block.prose.trim_end().rsplit("\n\n").next().unwrap();
            let file = || {
                let found = file_name.captures(last);
                let found = found.unwrap_or_else(|| panic!("{name}: no file in {last:?}"));
                reader.folder.join(&found[1])
            };
            if block.kind != "sh" && last.contains("Save") {
                let file = file();
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, reader.here(block.text)).unwrap();
            } else if block.kind == "sh" && last.to_lowercase().contains("leave it running") {
                reader.serve(block.text);
            } else if block.kind == "sh" {
                reader.run(block.text, page);
            } else if last.contains("first terminal prints") {
                reader.wait_for(block.text);
            } else {
                let found = if last.contains("contains") {
                    reader.as_on_the_page(&fs::read_to_string(file()).unwrap())
                } else {
                    assert!(last.contains("print"), "{name}: not clear what to do with\n{}", block.text);
                    reader.printed.clone()
                };
                if !is_as_shown(block.text, &found) {
                    let found = format!("{}\n", found.trim_end());
                    followed =
                        followed.replacen(&format!("\n{}```", block.text), &format!("\n{found}```"), 1);
                    assert!(followed != text, "{name}: it printed\n{found}");
                }
            }
        }
        followed
    }

    #[test]
    fn every_tutorial_works_word_for_word() {
        let tutorials = book().into_iter().filter(|(page, _)| is_tutorial(page));
        let mut different = Vec::new();
        for (page, text) in tutorials {
            let followed = follow(&page, &text);
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&page, followed).unwrap();
            } else if followed != text {
                different.push(format!("{}\n{followed}", page.display()));
            }
        }
        assert!(different.is_empty(), "tutorials that print something else:\n{}", different.join("\n"));
    }

    #[test]
    fn an_output_is_compared_line_by_line() {
        assert!(is_as_shown("a\n…\nd\n", "a\nb\nc\nd\n"));
        assert!(is_as_shown("took … ms\n", "took 17 ms\n"));
        assert!(!is_as_shown("a\n", "a\nb\n") && !is_as_shown("a\n…\nd\n", "a\n"));
    }
}

/// How-to guides: their commands are run in an empty folder with the files that a reader of the guide has.
/// Every `sh` block is run, or is in the table with the reason why not.
mod how_to {
    use super::{
        tutorials::{Reader, is_as_shown},
        *,
    };

    struct Guide {
        page: &'static str,
        /// Writes files that a reader has, and starts servers.
        prepare: fn(&mut Reader, &[Block<'_>]),
        /// Parts of what the commands print.
        prints: &'static [&'static str],
        /// Beginnings of blocks that are not run, and the reasons.
        left_out: &'static [(&'static str, &'static str)],
    }

    const GUIDES: &[Guide] = &[
        Guide {
            page: "authenticate-clients-with-api-keys",
            prepare: |_, _| {},
            prints: &["sha256:"],
            left_out: &[],
        },
        Guide {
            page: "connect-a-client",
            prepare: |reader, _| {
                legacy_server(reader);
                write(reader, "weather.yaml", STATION);
                reader.serve("glossator run --config weather.yaml");
            },
            prints: &[
                r#""structuredContent":{"temperature":5.0}"#,
                r#""protocolVersion":"2025-11-25""#,
                r#""name":"get_weather""#,
            ],
            left_out: &[],
        },
        Guide {
            page: "import-openapi",
            prepare: |reader, blocks| {
                let document = blocks.iter().find(|block| block.kind == "json").unwrap().text;
                // As a document of a shop; JSON is YAML.
                let tagged = document.replace(r#""operationId""#, r#""tags": [ "orders" ], "operationId""#);
                write(reader, "shop.yaml", &tagged);
            },
            prints: &["good, 1 route and 1 upstream"],
            left_out: &[],
        },
        Guide {
            page: "install",
            prepare: |_, _| {},
            prints: &[],
            left_out: &[
                ("cargo install", "builds the program, which this test has"),
                ("cargo build", "builds the program, which this test has"),
                ("podman build", "needs podman; tests/deploy builds and runs the image"),
            ],
        },
        Guide {
            page: "record-and-infer",
            prepare: |reader, _| legacy_server(reader),
            prints: &["2 passed, 0 failed", r#""temp": 5.0"#],
            left_out: &[],
        },
        Guide {
            page: "reload-the-configuration",
            prepare: |reader, _| {
                write(reader, "weather.yaml", STATION);
                reader.serve("glossator run --config weather.yaml");
            },
            prints: &["{"],
            left_out: &[],
        },
        Guide {
            page: "run-as-a-cgi-program",
            prepare: |_, _| {},
            prints: &[],
            left_out: &[("#!/bin/sh", "needs a web server; tests/cgi runs it under two of them")],
        },
        Guide {
            page: "run-under-systemd",
            prepare: |reader, _| write(reader, "etc/glossator/glossator.yaml", STATION),
            prints: &["good, 1 route and 1 upstream"],
            left_out: &[],
        },
        Guide {
            page: "see-the-request-of-a-call",
            prepare: |reader, blocks| {
                let file = blocks.iter().find(|block| block.kind == "yaml").unwrap().text;
                write(reader, "glossator.yaml", file);
            },
            prints: &["POST /archive/2026?lang=en"],
            left_out: &[],
        },
        Guide {
            page: "test-routes-in-ci",
            prepare: |reader, blocks| {
                let tests = blocks.iter().find(|block| block.kind == "text").unwrap().text;
                let tests: String = tests.lines().map(|line| format!("    {line}\n")).collect();
                write(reader, "routes/weather.yaml", &format!("{STATION}{tests}"));
                let recording = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nTemp: 5.0\n";
                write(reader, "routes/recordings/oslo.http", recording);
            },
            prints: &["good, 1 route and 1 upstream", "1 passed, 0 failed"],
            left_out: &[],
        },
        Guide {
            page: "upgrade-and-roll-back",
            prepare: |reader, _| write(reader, "etc/glossator/glossator.yaml", STATION),
            prints: &["good, 1 route and 1 upstream"],
            left_out: &[],
        },
        Guide {
            page: "write-route-files-with-a-coding-agent",
            prepare: |reader, _| {
                legacy_server(reader);
                let error = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\nNo such station\n";
                write(reader, "error.http", error);
            },
            prints: &["argument `city` must not be `.` or `..`", r#""passed": true"#],
            left_out: &[],
        },
    ];

    const STATION: &str = "\
upstreams: { legacy: http://127.0.0.1:9000 }
routes:
  get_weather:
    description: The current weather in a city.
    request: GET legacy/report/{city}
    response: { extract: { pairs: { fields: { temperature: { from: Temp, type: number } } } } }
";

    /// A server with a report in plain text for one city.
    const LEGACY: &str = "\
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path.lower() == '/report/oslo'
        self.send_response(200 if known else 404)
        self.send_header('Content-Type', 'text/plain')
        self.end_headers()
        self.wfile.write(b'Temp: 5.0\\nSky: Cloudy\\n' if known else b'No such station\\n')

    def log_message(self, *arguments): pass

host, port = sys.argv[1].split(':')
server = http.server.HTTPServer((host, int(port)), Handler)
print(f'listening on {host}:{server.server_port}')
server.serve_forever()
";

    fn write(reader: &Reader, name: &str, text: &str) {
        let file = reader.folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, reader.here(text)).unwrap();
    }

    fn legacy_server(reader: &mut Reader) {
        write(reader, "legacy.py", LEGACY);
        reader.serve("python3 legacy.py 127.0.0.1:9000");
    }

    /// Runs the commands of a guide, and returns what is wrong.
    fn follow(guide: &Guide, page: &Path, text: &str) -> Vec<String> {
        let mut reader = Reader::new(guide.page);
        let blocks = blocks(text);
        (guide.prepare)(&mut reader, &blocks);
        let mut wrong = Vec::new();
        let (mut printed, mut left_out) = (String::new(), 0);
        for block in &blocks {
            if block.kind != "sh" {
                let last = block.prose.trim_end().rsplit("\n\n").next().unwrap();
                if last.ends_with("prints:") && !is_as_shown(block.text, &reader.printed) {
                    wrong.push(format!("it printed\n{}", reader.printed));
                }
            } else if guide.left_out.iter().any(|(begin, _)| block.text.trim_start().starts_with(begin)) {
                left_out += 1;
            } else {
                // The folder of the system's files is a folder of the test.
                reader.run(&block.text.replace("/etc/glossator", "etc/glossator"), page);
                printed.push_str(&reader.printed);
            }
        }
        let missing = guide.prints.iter().filter(|part| !printed.contains(**part));
        wrong.extend(missing.map(|part| format!("`{part}` is missing in\n{printed}")));
        if left_out != guide.left_out.len() {
            wrong.push("a block that is left out is not there any more".to_owned());
        }
        wrong
    }

    #[test]
    fn an_openapi_document_becomes_the_file_that_its_guide_shows() {
        let page = root().join("config/book/how-to/import-openapi.md");
        let text = fs::read_to_string(&page).unwrap();
        let blocks = blocks(&text);
        let block = |kind: &str| blocks.iter().find(|block| block.kind == kind).unwrap().text;
        let mut reader = Reader::new("import-openapi-example");
        write(&reader, "stations.json", block("json"));
        reader.run("glossator import openapi stations.json 2>/dev/null", &page);
        let below_comments: String = reader
            .printed
            .lines()
            .skip_while(|line| !line.starts_with("upstreams:"))
            .map(|line| line.to_owned() + "\n")
            .collect();
        assert_eq!(below_comments.trim_end(), block("yaml").trim_end());
    }

    #[test]
    fn the_commands_of_every_how_to_guide_run() {
        let guides = book()
            .into_iter()
            .filter(|(page, _)| page.parent().is_some_and(|folder| folder.ends_with("how-to")));
        let (mut wrong, mut followed) = (Vec::new(), 0);
        for (page, text) in guides {
            let name = page.file_stem().unwrap().to_str().unwrap();
            match GUIDES.iter().find(|guide| guide.page == name) {
                Some(guide) => {
                    followed += 1;
                    let problems = follow(guide, &page, &text);
                    wrong.extend(problems.into_iter().map(|problem| format!("{name}: {problem}")));
                }
                None if blocks(&text).iter().any(|block| block.kind == "sh") => {
                    wrong.push(format!("{name}: its commands are not in the table"));
                }
                None => {}
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(followed, GUIDES.len(), "a guide of the table is not there any more");
    }
}
