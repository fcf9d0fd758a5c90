//! Runs the program as CGI, the way a web server does.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{Response, soon};

/// `glossator cgi` for one request.
#[derive(Debug)]
pub(crate) struct Cgi {
    command: Command,
    body: Vec<u8>,
    own_file: Option<PathBuf>,
}

/// Response, log and exit status of a run.
#[derive(Debug)]
pub(crate) struct CgiAnswer {
    pub(crate) response: Response,
    pub(crate) log: String,
    pub(crate) succeeded: bool,
}

impl Cgi {
    /// Creates a request with its own configuration. `line` is such as `POST /path?query`.
    pub(crate) fn new(config: &str, line: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("glossator-it-cgi-{}-{number}.yaml", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, config).unwrap();
        Self { own_file: Some(file.clone()), ..Self::from_file(&file, line) }
    }

    /// Creates a request with the configuration in a file.
    pub(crate) fn from_file(config: &Path, line: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glossator"));
        command.args(["cgi", "--log-format", "json", "--config"]).arg(config);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (method, target) = line.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = Self { command, body: Vec::new(), own_file: None };
        request
            .with("GATEWAY_INTERFACE", "CGI/1.1")
            .with("SERVER_PROTOCOL", "HTTP/1.1")
            .with("SERVER_NAME", "localhost")
            .with("SERVER_PORT", "80")
            .with("REMOTE_ADDR", "192.0.2.7")
            .with("REQUEST_METHOD", method)
            .with("SCRIPT_NAME", "")
            .with("PATH_INFO", path)
            .with("QUERY_STRING", query)
    }

    /// Sets an environment variable.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets a JSON body and its length.
    pub(crate) fn json(mut self, body: &str) -> Self {
        self.body = body.into();
        self.with("CONTENT_TYPE", "application/json").with("CONTENT_LENGTH", &body.len().to_string())
    }

    /// Sets standard input that may be longer or shorter than the announced length.
    pub(crate) fn input(mut self, body: &str) -> Self {
        self.body = body.into();
        self
    }

    /// Starts the program.
    pub(crate) fn start(mut self) -> Running {
        let mut child = self.command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that has responded without reading the body may have exited.
        let _ = stdin.write_all(&self.body).and_then(|()| stdin.flush());
        let stdout = child.stdout.take();
        Running { child, stdin: Some(stdin), stdout, own_file: self.own_file.take() }
    }

    /// Runs the program to its end. Standard input stays open, as a body ends by its length.
    pub(crate) async fn run(self) -> CgiAnswer {
        self.start().ended().await
    }
}

/// Running program.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    own_file: Option<PathBuf>,
}

impl Running {
    /// Closes its standard input.
    pub(crate) fn close_input(mut self) -> Self {
        self.stdin = None;
        self
    }

    /// Reads standard output until it contains these words.
    pub(crate) async fn until(&mut self, words: &'static str) -> String {
        let mut stdout = self.stdout.take().unwrap();
        let read = tokio::task::spawn_blocking(move || {
            let (mut output, mut byte) = (Vec::new(), [0]);
            while !output.ends_with(words.as_bytes()) {
                assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&output));
                output.push(byte[0]);
            }
            (String::from_utf8(output).unwrap(), stdout)
        });
        let (output, stdout) = soon(words, read).await.unwrap();
        self.stdout = Some(stdout);
        output
    }

    /// Sends SIGTERM, as web servers do when the client has left.
    pub(crate) fn terminate(&self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
    }

    /// Waits for the exit.
    pub(crate) async fn ended(mut self) -> CgiAnswer {
        self.child.stdout = self.stdout.take();
        let (stdin, own_file) = (self.stdin, self.own_file);
        let waiting = tokio::task::spawn_blocking(move || self.child.wait_with_output().unwrap());
        let output = soon("the end of the program", waiting).await.unwrap();
        drop(stdin);
        if let Some(file) = own_file {
            std::fs::remove_file(file).unwrap();
        }
        CgiAnswer::parse(&output)
    }
}

impl CgiAnswer {
    fn parse(output: &Output) -> Self {
        let end = output.stdout.windows(2).position(|window| window == b"\n\n");
        let end = end.map_or(output.stdout.len(), |end| end + 2);
        let (head, body) = output.stdout.split_at(end);
        let head = String::from_utf8(head.to_vec()).unwrap();
        let status = head.strip_prefix("Status: ").and_then(|rest| rest.get(..3)?.parse().ok());
        Self {
            response: Response { status: status.unwrap_or_default(), head, body: body.to_vec() },
            log: String::from_utf8(output.stderr.clone()).unwrap(),
            succeeded: output.status.success(),
        }
    }
}
