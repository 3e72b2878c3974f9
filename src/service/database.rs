//! Which database holds the rows, and that it is the one that belongs to the files.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use super::error::ServiceError;
use crate::store::blob::LocalBlobs;
use crate::store::meta::MetaStore;

/// Which database holds the rows.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Database {
    /// A SQLite file in the data directory.
    #[default]
    Sqlite,
    /// The Postgres database at this URL.
    Postgres(String),
}

/// What a database may be, in words.
pub const DATABASES: &str = "sqlite, or the address of a Postgres database, such as postgres://user@host/cairn";

impl FromStr for Database {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            _ if text.starts_with("postgres://") || text.starts_with("postgresql://") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            _ => Err(DATABASES),
        }
    }
}

/// The address may hold a password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "Sqlite",
            Self::Postgres(_) => "Postgres(…)",
        })
    }
}

const FILE: &str = "cairn.sqlite";

impl Database {
    /// Opens the rows that belong to the files in a data directory.
    ///
    /// The start removes files that no row refers to, so rows that belong to other files must not be opened: that would
    /// remove all of them.
    pub(super) async fn open(&self, data_dir: &Path, blobs: &LocalBlobs) -> Result<MetaStore, ServiceError> {
        let file = data_dir.join(FILE);
        let refused = |doing| Err(ServiceError::Io { doing, source: io::ErrorKind::AlreadyExists.into() });
        let (blobs, beside) = (blobs.clone(), file.clone());
        let (rows, files) = tokio::task::spawn_blocking(move || {
            let rows = beside.try_exists()?;
            // Only where there are no rows yet it matters whether there are files.
            let mut files = false;
            for shelf in 0..=255 {
                files = files || !rows && !blobs.keys_on(shelf)?.is_empty();
            }
            Ok::<_, io::Error>((rows, files))
        })
        .await?
        .map_err(ServiceError::io("look into the data directory"))?;
        match self {
            Self::Sqlite if files => {
                refused("open the database: the data directory holds files without their SQLite database")
            }
            Self::Sqlite => Ok(MetaStore::open_sqlite(&file).await?),
            Self::Postgres(_) if rows => {
                refused("open the database: the data directory holds a SQLite database, to which its files belong")
            }
            Self::Postgres(url) => Ok(MetaStore::open_postgres(url).await?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_not_shown() {
        let told: Database = "postgres://u:secret@h/d".parse().unwrap();
        assert!(!format!("{told:?}").contains("secret"));
        assert_eq!("sqlite".parse(), Ok(Database::Sqlite));
        assert!("mysql://h".parse::<Database>().is_err());
    }

    #[tokio::test]
    async fn files_stay_with_their_database() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = LocalBlobs::open(&dir.path().join("blobs")).unwrap();
        let open = async |database: Database| {
            database.open(dir.path(), &blobs).await.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(open(Database::Sqlite).await, "");
        let elsewhere = Database::Postgres("postgres://127.0.0.1:1/none".to_owned());
        let told = open(elsewhere).await;
        assert!(told.contains("holds a SQLite database"), "{told}");

        drop(blobs.create(crate::store::blob::BlobKey::from_bits([7; 16])).unwrap());
        assert_eq!(open(Database::Sqlite).await, "", "they are together");
        for file in ["cairn.sqlite", "cairn.sqlite-wal", "cairn.sqlite-shm"] {
            // The last connection may have tidied up.
            let _ = std::fs::remove_file(dir.path().join(file));
        }
        let told = open(Database::Sqlite).await;
        assert!(told.contains("files without their SQLite database"), "{told}");
    }
}
