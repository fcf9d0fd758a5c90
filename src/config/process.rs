//! Settings of the process, `server`, `admin` and `log`, in layers: defaults, the file, `GLOSSATOR__…` variables, flags.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use config::{Config, ConfigError, Map as Layered, Source, Value, ValueKind};
use serde::Deserialize;

use super::{
    keys::{ADMIN, Key, Keys, LOG, SERVER, Takes},
    node::{Kind, Node},
    problem::{Problem, Severity},
    report::Report,
    secret::{self, Environment},
    section::Section,
    setting::{check, check_item, integer, parse, parse_listen},
    suggest,
    units::UnitError,
};
use crate::{
    face::{
        admin::AdminSettings,
        door::DoorSettings,
        mcp::{McpSettings, PeerAddress, ResumeSettings},
    },
    observe::log::{LogFormat, LogSettings},
    policy::Store,
    seal::Secret,
};

/// Where clients connect to, and how their connections are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerSettings {
    /// The address; port 0 takes any that is free.
    pub listen: SocketAddr,
    /// How many connections may be open; the next client waits until one closes.
    pub connection_limit: usize,
    /// How long a client may take to send the head of a request, and how long a connection may be idle before
    /// the next one.
    pub header_timeout: Duration,
    /// How long a client may take none of what is written to it.
    pub write_timeout: Duration,
    /// How long requests in flight are waited for when the server stops.
    pub drain: Duration,
    /// How often the files of the configuration are looked at; never where this is zero.
    pub watch: Duration,
}

/// Where operators connect to, and who of them may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminFile {
    /// The address; none where the port is off.
    pub listen: Option<SocketAddr>,
    /// Whether somebody asked for that address: then it has to be free.
    pub is_named: bool,
    /// Who may ask there.
    pub settings: AdminSettings,
}

impl Default for ListenerSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            connection_limit: 4096,
            header_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            // Less than the 30 s that Kubernetes gives a pod.
            drain: Duration::from_secs(20),
            watch: Duration::from_secs(1),
        }
    }
}

/// The settings of the process, each with the room that owns it.
#[derive(Debug, Clone)]
pub(super) struct ProcessSettings {
    pub(super) listener: ListenerSettings,
    pub(super) admin: AdminFile,
    pub(super) door: DoorSettings,
    pub(super) mcp: McpSettings,
    pub(super) log: LogSettings,
    pub(super) cache_limit_bytes: usize,
}

/// A setting that the command line gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// As the user wrote it: `--listen`.
    pub name: String,
    /// What it sets: `server.listen`.
    pub setting: String,
    /// To what; lists with commas.
    pub value: String,
}

/// What the names of variables that set something begin with.
const PREFIX: &str = "GLOSSATOR__";
const LISTEN: &str = "server.listen";
const SECTIONS: [(&str, &Keys); 3] = [("server", &SERVER), ("admin", &ADMIN), ("log", &LOG)];
const ADMIN_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);
/// For an operators' port that is not there.
pub(super) const OFF: &str = "off";

/// The settings of every layer, typed; the names are those of the file.
#[derive(Deserialize)]
struct Settings {
    server: Server,
    #[serde(default)]
    admin: Admin,
    log: Log,
}

#[derive(Default, Deserialize)]
struct Admin {
    listen: Option<String>,
    allowed_hosts: Option<Vec<String>>,
    token: Option<String>,
}

#[derive(Deserialize)]
struct Server {
    listen: String,
    allowed_hosts: Option<Vec<String>>,
    allowed_origins: Vec<String>,
    body_limit: usize,
    body_timeout: u64,
    trusted_proxies: Vec<String>,
    cache_limit: usize,
    drain: u64,
    connections: usize,
    streams: usize,
    resume: u64,
    stream_life: Option<u64>,
    watch: u64,
    header_timeout: u64,
    write_timeout: u64,
    name: String,
    title: Option<String>,
    instructions: Option<String>,
    page_size: usize,
    list_ttl: u64,
    secret: Option<String>,
    peer: Option<String>,
}

#[derive(Deserialize)]
struct Log {
    level: String,
    format: String,
}

/// One layer, checked: `server.listen` and its like.
#[derive(Debug, Clone, Default)]
struct Layer(BTreeMap<String, ValueKind>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Layered<String, Value>, ConfigError> {
        Ok(self.0.iter().map(|(key, kind)| (key.clone(), Value::new(None, kind.clone()))).collect())
    }
}

/// Reads and layers the settings. `root` is every file's tree. `None` when something is wrong with them; that
/// has been reported then.
pub(super) fn settings(
    report: &Report<'_>,
    environment: &Environment,
    flags: &[Flag],
    sections: [Option<&Section<'_, '_>>; 3],
) -> Option<ProcessSettings> {
    let before = report.errors();
    let mut file = Layer::default();
    let [server, ..] = sections;
    for (section, (name, keys)) in sections.into_iter().zip(SECTIONS) {
        if let Some(section) = section {
            read_section(section, environment, name, keys, &mut file);
        }
    }
    let variables = read_variables(report, environment);
    let given = read_flags(report, flags);
    let listen_is_told_by = flags
        .iter()
        .find(|flag| flag.setting == LISTEN)
        .map(|flag| flag.name.clone())
        .or_else(|| variables.0.contains_key(LISTEN).then(|| variable("server", "listen")));
    if report.errors() > before {
        return None;
    }
    let layered = Config::builder()
        .add_source(defaults())
        .add_source(file)
        .add_source(variables)
        .add_source(given)
        .build()
        .and_then(Config::try_deserialize::<Settings>);
    match layered {
        Ok(settings) => {
            if settings.server.peer.is_some() && settings.server.secret.is_none() {
                let message = "`peer` means nothing without `secret`";
                let help = "write `secret`, the same on every replica: `openssl rand -base64 32` makes one";
                match server.and_then(|section| section.get("peer")) {
                    Some(node) => report.error(node.span, message, help),
                    None => report.add(Problem::of_whole("server.peer", message, Some(help.into()))),
                }
                return None;
            }
            let hosts_are_named = settings.server.allowed_hosts.is_some();
            let settled = finish(settings)?;
            if settled.listener.listen.ip().is_unspecified() && !hosts_are_named {
                let node = server.and_then(|section| section.get("listen"));
                warn_of_closed_door(report, listen_is_told_by, node);
            }
            Some(settled)
        }
        // Every layer was checked, so this is a mistake of ours; it must not pass in silence.
        Err(error) => {
            report.add(Problem::of_whole(
                "settings",
                format!("the layers do not fit together: {error}"),
                None,
            ));
            None
        }
    }
}

/// Reached from everywhere, and answering nobody. It is told of whoever said so: the flag or variable, or else the
/// line of the file.
fn warn_of_closed_door(report: &Report<'_>, told_by: Option<String>, written: Option<&Node>) {
    let message = "other machines can connect, and are refused: only the hosts of this machine are allowed";
    match (told_by, written) {
        (Some(name), _) => {
            let help = "write `server: { allowed_hosts: [NAME] }` with the names that clients use, or set \
                        `GLOSSATOR__SERVER__ALLOWED_HOSTS`; `*` allows all";
            let mut problem = Problem::of_whole(name, message, Some(help.into()));
            problem.severity = Severity::Warning;
            report.add(problem);
        }
        (None, Some(node)) => report.warning(
            node.span,
            message,
            "write `allowed_hosts: [NAME]` with the names that clients use, or `[\"*\"]`",
        ),
        // The default is an address of this machine.
        (None, None) => {}
    }
}

/// The lowest layer. What is not here is off, or worked out at the end.
fn defaults() -> Layer {
    let (listener, door, mcp) =
        (ListenerSettings::default(), DoorSettings::default(), McpSettings::default());
    let origins = door.allowed_origins.into_iter().map(Value::from).collect();
    let values: [(&str, ValueKind); 18] = [
        (LISTEN, listener.listen.to_string().into()),
        ("server.allowed_origins", ValueKind::Array(origins)),
        ("server.cache_limit", integer(Store::LIMIT_BYTES_DEFAULT as u128)),
        ("server.trusted_proxies", ValueKind::Array(Vec::new())),
        ("server.body_limit", integer(door.body_limit_bytes as u128)),
        ("server.body_timeout", integer(door.body_timeout.as_millis())),
        ("server.drain", integer(listener.drain.as_millis())),
        ("server.connections", integer(listener.connection_limit as u128)),
        ("server.streams", integer(mcp.stream_limit as u128)),
        ("server.header_timeout", integer(listener.header_timeout.as_millis())),
        ("server.write_timeout", integer(listener.write_timeout.as_millis())),
        ("server.name", mcp.server_name.into()),
        ("server.page_size", integer(mcp.page_size as u128)),
        ("server.resume", integer(mcp.resume.patience.as_millis())),
        ("server.watch", integer(listener.watch.as_millis())),
        ("server.list_ttl", integer(mcp.list_ttl.as_millis())),
        ("log.level", "info".into()),
        ("log.format", "text".into()),
    ];
    Layer(values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn finish(settings: Settings) -> Option<ProcessSettings> {
    let Settings { server, admin, log } = settings;
    let listen = parse_listen(&server.listen).ok()?;
    let allowed_hosts = server.allowed_hosts.unwrap_or_else(|| hosts_of(listen));
    let admin = admin_file(admin)?;
    let format = if log.format == "json" { LogFormat::Json } else { LogFormat::Text };
    Some(ProcessSettings {
        listener: ListenerSettings {
            listen,
            connection_limit: server.connections,
            header_timeout: Duration::from_millis(server.header_timeout),
            write_timeout: Duration::from_millis(server.write_timeout),
            drain: Duration::from_millis(server.drain),
            watch: Duration::from_millis(server.watch),
        },
        admin,
        door: DoorSettings {
            allowed_hosts,
            allowed_origins: server.allowed_origins,
            body_limit_bytes: server.body_limit,
            body_timeout: Duration::from_millis(server.body_timeout),
            // Each was checked where it stands.
            trusted_proxies: server.trusted_proxies.iter().filter_map(|text| text.parse().ok()).collect(),
        },
        mcp: McpSettings {
            server_name: server.name,
            server_title: server.title,
            instructions: server.instructions,
            page_size: server.page_size,
            list_ttl: Duration::from_millis(server.list_ttl),
            stream_limit: server.streams,
            resume: ResumeSettings {
                patience: Duration::from_millis(server.resume),
                connection_life: server.stream_life.map(Duration::from_millis),
            },
            peer: server.peer.and_then(|peer| PeerAddress::parse(&peer)),
            secret: server.secret.and_then(|secret| Secret::new(secret.as_bytes())),
            ..McpSettings::default()
        },
        log: LogSettings::of_level(&log.level, format),
        cache_limit_bytes: server.cache_limit,
    })
}

/// The hosts by which a process is addressed that listens there.
fn hosts_of(listen: SocketAddr) -> Vec<String> {
    let mut hosts = DoorSettings::default().allowed_hosts;
    if !listen.ip().is_loopback() && !listen.ip().is_unspecified() {
        hosts.push(match listen {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        });
    }
    hosts
}

fn admin_file(admin: Admin) -> Option<AdminFile> {
    let is_named = admin.listen.is_some();
    let listen = match admin.listen.as_deref() {
        Some(OFF) => None,
        Some(written) => Some(parse_listen(written).ok()?),
        None => Some(ADMIN_LISTEN),
    };
    let allowed_hosts = admin.allowed_hosts.unwrap_or_else(|| match listen {
        // Whoever opens it to other machines knows by which names they come, and a scraper comes by none.
        Some(listen) if listen.ip().is_unspecified() => vec!["*".to_owned()],
        Some(listen) => hosts_of(listen),
        None => Vec::new(),
    });
    let token = admin.token.and_then(|token| Secret::new(token.trim().as_bytes()));
    Some(AdminFile { listen, is_named, settings: AdminSettings { allowed_hosts, token } })
}

/// The keys that are a setting each. A section in a section has a reader of its own, and no layers.
fn settings_of(keys: &'static Keys) -> impl Iterator<Item = &'static Key> {
    keys.list.iter().filter(|key| !matches!(key.takes, Takes::Section(_)))
}

fn read_section(
    section: &Section<'_, '_>,
    environment: &Environment,
    name: &str,
    keys: &'static Keys,
    layer: &mut Layer,
) {
    for key in settings_of(keys) {
        let Some(node) = section.get(key.name) else { continue };
        if let Some(value) = read_node(section, environment, key, node) {
            layer.0.insert(format!("{name}.{}", key.name), value);
        }
    }
}

fn read_node(
    section: &Section<'_, '_>,
    environment: &Environment,
    key: &Key,
    node: &Node,
) -> Option<ValueKind> {
    let report = section.report;
    if let Some(text) = node.as_text().filter(|text| text.contains("${")) {
        let expanded = secret::expand(report, environment, node.span, text)?;
        return match parse(key, &expanded.text) {
            Ok(value) => Some(value),
            Err(error) if !expanded.foreign => refuse(report, node, error),
            Err(_) => {
                let message = format!("with its variables put in, `{}` is not what it takes", key.name);
                report.error(node.span, message, format!("look at the variables: {}", key.help()));
                None
            }
        };
    }
    let value = match key.takes {
        Takes::Flag => section.flag(key.name)?.into(),
        Takes::Word(_) => section.word(key.name)?.into(),
        Takes::Duration(..) => integer(section.duration(key.name)?.as_millis()),
        Takes::Size(..) => integer(section.size(key.name)? as u128),
        Takes::Count(..) => integer(section.count(key.name)?.into()),
        Takes::List(_) => {
            let Kind::List(_) = &node.kind else {
                let help = node.as_text().map(|text| format!("write `[{text}]`"));
                report.error(node.span, format!("`{}` takes a list, found {}", key.name, node.found()), help);
                return None;
            };
            let mut items = Vec::new();
            for (item, text) in section.texts(key.name)? {
                let text = secret::expand(report, environment, item.span, text)?.text;
                if let Err(error) = check_item(key, &text) {
                    refuse::<()>(report, item, error);
                }
                items.push(Value::from(text));
            }
            return Some(ValueKind::Array(items));
        }
        // `listen: 8080` is a number to YAML, and an address without a host to us.
        _ if key.name == "listen" && node.scalar().is_some() => node.scalar()?.into(),
        _ => section.text(key.name)?.into(),
    };
    match check(key, &value) {
        Ok(()) => Some(value),
        Err(error) => refuse(report, node, error),
    }
}

fn refuse<T>(report: &Report<'_>, node: &Node, error: UnitError) -> Option<T> {
    report.error(node.span, error.message, error.help);
    None
}

fn read_variables(report: &Report<'_>, environment: &Environment) -> Layer {
    let mut layer = Layer::default();
    let known: Vec<String> = SECTIONS
        .iter()
        .flat_map(|(section, keys)| settings_of(keys).map(move |key| variable(section, key.name)))
        .collect();
    for (name, value) in environment.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        let found = SECTIONS.iter().find_map(|(section, keys)| {
            let key = settings_of(keys).find(|key| variable(section, key.name) == name)?;
            Some((format!("{section}.{}", key.name), key))
        });
        match found {
            None => report.add(Problem::of_whole(
                name,
                "this variable sets nothing: no setting of the process is called so",
                suggest::help(name, "known variables", known.iter().map(String::as_str)),
            )),
            // Containers set what they leave open to nothing.
            Some(_) if value.is_empty() => {}
            Some((setting, key)) => match parse(key, value) {
                Ok(value) => {
                    layer.0.insert(setting, value);
                }
                Err(error) => report.add(of_variable(name, &setting, key, error)),
            },
        }
    }
    layer
}

/// What is wrong with a variable. It may hold what was meant for another, so its value is not told.
fn of_variable(name: &str, setting: &str, key: &Key, error: UnitError) -> Problem {
    let (message, help) = match key.takes {
        // Of these no value is told in any case.
        Takes::Text if key.name != "listen" => (error.message, error.help),
        Takes::Text => (format!("the value is not what `{setting}` takes"), key.help()),
        takes => (format!("the value is not what `{setting}` takes: {takes}"), key.help()),
    };
    Problem::of_whole(name, message, Some(help))
}

fn read_flags(report: &Report<'_>, flags: &[Flag]) -> Layer {
    let mut layer = Layer::default();
    for Flag { name, setting, value } in flags {
        let key = setting.split_once('.').and_then(|(section, key)| {
            SECTIONS.iter().find(|(name, _)| *name == section).and_then(|(_, keys)| keys.get(key))
        });
        let parsed = match key {
            Some(key) => parse(key, value),
            None => Err(UnitError {
                message: format!("there is no setting `{setting}`"),
                help: "leave it out".into(),
            }),
        };
        match parsed {
            Ok(value) => {
                layer.0.insert(setting.clone(), value);
            }
            Err(error) => report.add(Problem::of_whole(name, error.message, Some(error.help))),
        }
    }
    layer
}

fn variable(section: &str, key: &str) -> String {
    format!("{PREFIX}{}__{}", section.to_ascii_uppercase(), key.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{file, report::reading},
        *,
    };

    #[track_caller]
    fn layered(text: &str, variables: &[(&str, &str)], flags: &[Flag]) -> Result<ProcessSettings, String> {
        let environment =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (settings, problems) = reading(text, |report| {
            let root = file::read(report, 0).unwrap();
            let [server, log] = [("server", &SERVER), ("log", &LOG)].map(|(name, keys)| {
                root.get(name).and_then(|node| Section::open(report, node.span, node, keys))
            });
            // `server_tls` reads that.
            let _ = server.as_ref().and_then(|server| server.get("tls"));
            settings(report, &environment, flags, [server.as_ref(), None, log.as_ref()])
        });
        settings.ok_or_else(|| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn a_later_layer_wins() {
        let file = "server: { listen: 127.0.0.1:1, drain: 1s, page_size: 7 }\nlog: { level: warn }";
        let flag =
            Flag { name: "--listen".into(), setting: "server.listen".into(), value: "127.0.0.1:3".into() };
        let variables = [
            ("GLOSSATOR__SERVER__LISTEN", "127.0.0.1:2"),
            ("GLOSSATOR__SERVER__DRAIN", "2s"),
            ("GLOSSATOR__SERVER__ALLOWED_HOSTS", "a.test, b.test:80"),
            ("GLOSSATOR__LOG__FORMAT", "json"),
            ("GLOSSATOR__SERVER__NAME", ""),
        ];
        let settings = layered(file, &variables, &[flag]).unwrap();
        assert_eq!(settings.listener.listen.port(), 3);
        assert_eq!(settings.listener.drain, Duration::from_secs(2));
        assert_eq!((settings.mcp.page_size, settings.mcp.server_name.as_str()), (7, "glossator"));
        assert_eq!(settings.door.allowed_hosts, ["a.test", "b.test:80"]);
        assert_eq!(settings.log, LogSettings::of_level("warn", LogFormat::Json));
    }

    #[test]
    fn a_problem_names_the_variable_or_the_flag() {
        let problems = layered("server: {}", &[("GLOSSATOR__SERVER__DRAIN", "30")], &[]).unwrap_err();
        let expected =
            "GLOSSATOR__SERVER__DRAIN: the value is not what `server.drain` takes: duration, `0ms` to `1h`";
        assert!(problems.starts_with(expected), "{problems}");
        let problems = layered("server: {}", &[("GLOSSATOR__SERVER__LISTNE", "x")], &[]).unwrap_err();
        assert!(problems.contains("did you mean `GLOSSATOR__SERVER__LISTEN`?"), "{problems}");
        let flag = Flag { name: "--listen".into(), setting: "server.listen".into(), value: "8080".into() };
        let problems = layered("server: {}", &[], &[flag]).unwrap_err();
        assert!(
            problems.starts_with("--listen: expected an address") && problems.contains("127.0.0.1:8080"),
            "{problems}"
        );
    }

    #[test]
    fn variables_may_stand_in_the_file_and_their_values_are_not_told() {
        let file = "server: { listen: \"127.0.0.1:${PORT}\", connections: \"${N:-12}\" }";
        let listener = layered(file, &[("PORT", "9")], &[]).unwrap().listener;
        assert_eq!((listener.listen.port(), listener.connection_limit), (9, 12));
        for key in SERVER.names().filter(|key| *key != "title" && *key != "instructions" && *key != "name") {
            let name = variable("server", key);
            let found = layered("server: {}", &[(name.as_str(), "s3cr3t@://")], &[]);
            let problems = found.map(|_| ()).expect_err(key);
            assert!(problems.starts_with(&name) && !problems.contains("s3cr3t"), "{problems}");
        }
        let problems = layered(file, &[("PORT", "s3cr3t")], &[]).unwrap_err();
        assert!(problems.contains("${PORT}") && !problems.contains("s3cr3t"), "{problems}");
    }
}
