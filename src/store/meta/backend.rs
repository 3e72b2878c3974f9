//! Connections: many readers, one writer.
//!
//! A pool of one write connection is a fair queue; competing SQLite writers would back off unfairly for seconds.

use std::path::Path;
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{SqlSafeStr, Sqlite, Transaction};

use super::error::StoreError;
use super::sql;

/// The migrations in order: number, name, text.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "artifacts", include_str!("../../../migrations/sqlite/0001_artifacts.sql")),
    (2, "runs", include_str!("../../../migrations/sqlite/0002_runs.sql")),
];

fn migrator() -> Migrator {
    let migration = |&(version, name, text): &(i64, &'static str, &'static str)| {
        Migration::new(version, name.into(), MigrationType::Simple, text.into_sql_str(), false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

/// The database.
#[derive(Clone, Debug)]
pub struct MetaStore {
    read: SqlitePool,
    write: SqlitePool,
}

impl MetaStore {
    /// Opens the SQLite database at `path`, makes it if it is not there, and brings its schema up to date.
    ///
    /// # Errors
    /// When the file cannot be opened, or was migrated by a newer program.
    pub async fn open_sqlite(path: &Path) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // An answer is given only for what survives a power cut.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10));
        let write = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(Duration::from_secs(30))
            .connect_with(options.clone())
            .await?;
        migrator().run(&write).await?;
        let read = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        Ok(Self { read, write })
    }

    /// Where statements that only read run.
    pub(super) const fn read(&self) -> &SqlitePool {
        &self.read
    }

    /// A transaction that holds the write lock from its first statement on.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        Ok(self.write.begin_with("begin immediate").await?)
    }

    /// Asks the database for an answer.
    ///
    /// # Errors
    /// When there is none.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query(sql::PING).execute(&self.read).await?;
        Ok(())
    }

    /// Writes back and closes every connection.
    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}
