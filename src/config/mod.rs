//! Configuration: one struct for each concern, read from a TOML file, then `CAIRN_SECTION__KEY` variables, then flags.
//!
//! Unknown keys and bad values stop the start. Nothing below this layer knows where a value came from.

mod keys;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use keys::{Expected, KEYS};
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

pub use keys::ConfigError;

use crate::core::limits::Limits;
use crate::http::conn;
use crate::service::{self, Database};

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The listener.
    pub server: Server,
    /// Where things are kept.
    pub storage: Storage,
    /// Uploads.
    pub upload: Upload,
    /// Limits of what is taken in.
    pub limits: Limit,
    /// The log.
    pub log: Log,
}

/// The listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Listen on an address that other machines reach, although nothing asks who they are.
    pub allow_unauthenticated: bool,
    /// Seconds that a connection may be idle between requests.
    pub keep_alive_seconds: u64,
    /// Seconds that a client may take nothing of an answer.
    pub write_idle_seconds: u64,
    /// Seconds that requests in flight get at shutdown.
    pub shutdown_grace_seconds: u64,
}

/// Where things are kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// One directory with the files, and with the database if that is SQLite.
    pub data_dir: PathBuf,
    /// `sqlite`, or the URL of a Postgres database. It may hold a password, so it is never shown.
    pub database: String,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

/// Uploads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Upload {
    /// Hours that a session can be continued after its last stored byte.
    pub session_hours: u64,
    /// Seconds that a body may stand still.
    pub body_idle_seconds: u64,
    /// Bytes after which progress is saved while a body flows; what a crash can cost at most.
    pub checkpoint_bytes: u64,
}

/// Limits of what is taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    /// Bytes of `header.json`.
    pub header_bytes: u64,
    /// Bytes of a safetensors header.
    pub container_header_bytes: u64,
    /// Tensors of one checkpoint.
    pub tensors: usize,
    /// Bytes of one stored file.
    pub file_bytes: u64,
    /// Bytes of all weight files of one checkpoint.
    pub artifact_bytes: u64,
}

/// The log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `text` for people, `json` for programs.
    pub format: LogFormat,
    /// What is logged, as `tracing` filters are written.
    pub filter: String,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one object a line.
    Json,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8417)),
            allow_unauthenticated: false,
            keep_alive_seconds: 60,
            write_idle_seconds: 60,
            shutdown_grace_seconds: 30,
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self { data_dir: PathBuf::from("cairn-data"), database: "sqlite".to_owned() }
    }
}

impl Default for Upload {
    fn default() -> Self {
        Self { session_hours: 24, body_idle_seconds: 60, checkpoint_bytes: 64 << 20 }
    }
}

impl Default for Limit {
    fn default() -> Self {
        let Limits { header_bytes, container_header_bytes, tensors, file_bytes, artifact_bytes, .. } = Limits::DEFAULT;
        Self { header_bytes, container_header_bytes, tensors, file_bytes, artifact_bytes }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

impl Config {
    /// Reads and checks the configuration; `file` if one is given, then the environment.
    ///
    /// # Errors
    /// When the file is missing, a key is unknown or a value is not what it may be.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::read(file)?.check()
    }

    /// Reads the configuration. Values that only together make no sense are left to [`check`](Self::check), for flags
    /// may still change them.
    ///
    /// # Errors
    /// When the file is missing, a key is unknown or a value has the wrong type.
    pub fn read(file: Option<&Path>) -> Result<Self, ConfigError> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        if let Some(file) = file {
            figment = figment.merge(Toml::file_exact(file));
        }
        // CAIRN_SERVER and CAIRN_TOKEN belong to the client; sections are separated by two underscores.
        let environment = Env::prefixed("CAIRN_").filter(|key| key.as_str().contains("__")).split("__");
        let figment = figment.merge(environment);
        figment.extract().map_err(|error| ConfigError::unreadable(&figment, error))
    }

    /// A configuration for tests: a free port on this machine.
    #[must_use]
    pub fn for_testing(data_dir: &Path) -> Self {
        let mut config = Self::default();
        config.server.listen.set_port(0);
        data_dir.clone_into(&mut config.storage.data_dir);
        config
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// When a value is out of bounds.
    pub fn check(self) -> Result<Self, ConfigError> {
        let values = serde_json::to_value(&self).unwrap_or_default();
        for (key, expected) in KEYS {
            let pointer = format!("/{}", key.replace('.', "/"));
            let number = values.pointer(&pointer).and_then(serde_json::Value::as_u64);
            if let (Expected::Number(range), Some(number)) = (expected, number)
                && !range.contains(&number)
            {
                return Err(ConfigError::value(key, number.to_string(), expected.to_string()));
            }
        }
        if let Err(error) = EnvFilter::try_new(&self.log.filter) {
            let expected = "what is logged, such as info or info,cairn=debug";
            return Err(ConfigError::value("log.filter", self.log.filter.clone(), format!("{expected} ({error})")));
        }
        if !self.server.listen.ip().is_loopback() && !self.server.allow_unauthenticated {
            let expected = "a loopback address, because anybody who reaches the server may read and write; set \
                server.allow_unauthenticated = true where something in front of it asks who they are";
            return Err(ConfigError::value("server.listen", self.server.listen.to_string(), expected.to_owned()));
        }
        self.database()?;
        Ok(self)
    }

    /// Where the rows are.
    ///
    /// # Errors
    /// When it is neither SQLite nor a Postgres URL.
    pub fn database(&self) -> Result<Database, ConfigError> {
        let told = &self.storage.database;
        told.parse().map_err(|expected: &str| {
            // An address may hold a password.
            let shown = told.split_once("://").map_or_else(|| told.clone(), |(scheme, _)| format!("{scheme}://…"));
            ConfigError::value("storage.database", shown, expected.to_owned())
        })
    }

    /// What the registry needs of it.
    #[must_use]
    pub fn service(&self) -> service::Options {
        let Limit { header_bytes, container_header_bytes, tensors, file_bytes, artifact_bytes } = self.limits;
        service::Options {
            limits: Limits {
                header_bytes,
                container_header_bytes,
                tensors,
                file_bytes,
                artifact_bytes,
                ..Limits::DEFAULT
            },
            session_lifetime: Duration::from_secs(self.upload.session_hours.saturating_mul(3600)),
            body_idle: Duration::from_secs(self.upload.body_idle_seconds),
            checkpoint_bytes: self.upload.checkpoint_bytes,
        }
    }

    /// What the listener needs of it.
    #[must_use]
    pub fn connections(&self) -> conn::Options {
        conn::Options {
            head: Duration::from_secs(self.server.keep_alive_seconds),
            stall: Duration::from_secs(self.server.write_idle_seconds),
            grace: Duration::from_secs(self.server.shutdown_grace_seconds),
            ..conn::Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_right_stops_the_start_and_names_its_key() {
        let mut config = Config::default();
        config.server.listen = SocketAddr::from(([0, 0, 0, 0], 8417));
        let refused = config.clone().check().unwrap_err().to_string();
        assert!(refused.contains("server.listen is 0.0.0.0:8417"), "{refused}");
        config.server.allow_unauthenticated = true;
        assert_eq!(config.clone().check().unwrap(), config);
        config.upload.checkpoint_bytes = 5;
        assert!(config.check().unwrap_err().to_string().contains("upload.checkpoint_bytes is 5"));
    }
}
