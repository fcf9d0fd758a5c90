//! What holds until the process ends, whatever the files say meanwhile.

use crate::{
    config::{AdminSettings, ListenerSettings, Loaded, TelemetryFile},
    inbound::mcp::McpSettings,
    shared_state::StoreSettings,
    telemetry::log::LogSettings,
};

/// What holds until the process ends.
#[derive(Debug)]
pub(super) struct Fixed {
    admin: AdminSettings,
    listener: ListenerSettings,
    mcp: McpSettings,
    log: LogSettings,
    shared: Option<StoreSettings>,
    telemetry: TelemetryFile,
}

impl Fixed {
    pub(super) fn of(loaded: &Loaded) -> Self {
        Self {
            admin: loaded.admin.clone(),
            listener: loaded.listener,
            mcp: loaded.mcp.clone(),
            log: loaded.log.clone(),
            shared: loaded.shared.clone(),
            telemetry: loaded.telemetry.clone(),
        }
    }

    /// The settings that are other ones in a configuration, by their names.
    pub(super) fn differences(&self, loaded: &Loaded) -> Vec<&'static str> {
        let (now, then) = (&self.listener, &loaded.listener);
        let found = [
            ("server.listen", now.listen != then.listen),
            ("server.connections", now.connection_limit != then.connection_limit),
            ("server.watch", now.watch != then.watch),
            ("admin", self.admin != loaded.admin),
            ("server.header_timeout", now.header_timeout != then.header_timeout),
            ("server.write_timeout", now.write_timeout != then.write_timeout),
            ("server.answers_limit", now.answers_limit_bytes != then.answers_limit_bytes),
            ("server.drain", now.drain != then.drain),
            ("server.shutdown_delay", now.shutdown_delay != then.shutdown_delay),
            ("server.name", self.mcp.server_name != loaded.mcp.server_name),
            ("server.title", self.mcp.server_title != loaded.mcp.server_title),
            ("server.instructions", self.mcp.instructions != loaded.mcp.instructions),
            ("server.page_size", self.mcp.page_size != loaded.mcp.page_size),
            ("server.list_ttl", self.mcp.list_ttl != loaded.mcp.list_ttl),
            ("server.secret", self.mcp.secret != loaded.mcp.secret),
            ("server.peer", self.mcp.peer != loaded.mcp.peer),
            ("server.caller_streams", self.mcp.caller_stream_limit != loaded.mcp.caller_stream_limit),
            ("server.streams", self.mcp.stream_limit != loaded.mcp.stream_limit),
            ("server.resume", self.mcp.resume.patience != loaded.mcp.resume.patience),
            ("server.stream_life", self.mcp.resume.connection_life != loaded.mcp.resume.connection_life),
            ("shared", self.shared != loaded.shared),
            ("log.level", self.log.filter != loaded.log.filter),
            ("log.format", self.log.format != loaded.log.format),
            ("telemetry", self.telemetry != loaded.telemetry),
        ];
        found.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}
