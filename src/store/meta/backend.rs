//! Connections and transactions, on either database.
//!
//! A body is written once and expanded for each driver, so that both are checked against the driver's own types: `read!`
//! for one statement, `snapshot!` for several that must agree, `write!` for a transaction that changes something, and
//! `both!` for what such bodies share.
//!
//! On SQLite, a pool of one write connection is a fair queue; competing writers would back off unfairly for seconds. On
//! Postgres writers meet at the rows that they lock, and whoever loses a race that no lock foresees begins again.

use std::path::Path;
use std::time::Duration;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use super::error::StoreError;
use super::sql::{self, Pair};

/// The migrations in order: number, name, and the text for each database.
const MIGRATIONS: &[(i64, &str, Pair)] = &[
    (
        1,
        "artifacts",
        Pair {
            sqlite: include_str!("../../../migrations/sqlite/0001_artifacts.sql"),
            postgres: include_str!("../../../migrations/postgres/0001_artifacts.sql"),
        },
    ),
    (
        2,
        "runs",
        Pair {
            sqlite: include_str!("../../../migrations/sqlite/0002_runs.sql"),
            postgres: include_str!("../../../migrations/postgres/0002_runs.sql"),
        },
    ),
];

/// How often a transaction begins on Postgres before a lost race becomes an error.
pub(super) const ATTEMPTS: u32 = 5;

/// How a transaction begins. Whatever the database's own defaults are, the rules were thought through for these.
pub(super) mod begin {
    /// It holds SQLite's only write lock from its first statement on.
    pub(in crate::store::meta) const SQLITE_WRITE: &str = "begin immediate";
    /// Each statement sees what was committed before it, so that what follows a lock is read as it is now.
    pub(in crate::store::meta) const POSTGRES_WRITE: &str = "begin isolation level read committed";
    /// All statements see the same.
    pub(in crate::store::meta) const POSTGRES_SNAPSHOT: &str = "begin isolation level repeatable read, read only";
}

/// One statement that only reads, on a connection of either database: `read!(store, |connection| …)`.
macro_rules! read {
    ($store:expr, |$connection:ident| $body:expr) => {
        match &$store.backend {
            $crate::store::meta::backend::Backend::Sqlite { read, .. } => {
                let mut $connection = read.acquire().await?;
                $body
            }
            $crate::store::meta::backend::Backend::Postgres(pool) => {
                let mut $connection = pool.acquire().await?;
                $body
            }
        }
    };
}

/// Statements that only read and see the same state: `snapshot!(store, |tx| …)`.
macro_rules! snapshot {
    ($store:expr, |$tx:ident| $body:expr) => {
        match &$store.backend {
            $crate::store::meta::backend::Backend::Sqlite { read, .. } => {
                let mut $tx = read.begin().await?;
                $body
            }
            $crate::store::meta::backend::Backend::Postgres(pool) => {
                let mut $tx = pool.begin_with($crate::store::meta::backend::begin::POSTGRES_SNAPSHOT).await?;
                $body
            }
        }
    };
}

/// A transaction that writes: `write!(store, |tx| { …; tx.commit().await?; Ok(…) })`. What ends without `commit` has not
/// happened. `return` leaves the body, not the function around it. On Postgres the body may run more than once.
macro_rules! write {
    ($store:expr, |$tx:ident| $body:block) => {
        match &$store.backend {
            $crate::store::meta::backend::Backend::Sqlite { write, .. } => {
                async {
                    let mut $tx = write.begin_with($crate::store::meta::backend::begin::SQLITE_WRITE).await?;
                    $body
                }
                .await
            }
            $crate::store::meta::backend::Backend::Postgres(pool) => {
                let mut attempt = 1;
                loop {
                    let outcome: Result<_, StoreError> = async {
                        let mut $tx = pool.begin_with($crate::store::meta::backend::begin::POSTGRES_WRITE).await?;
                        $body
                    }
                    .await;
                    match outcome {
                        Err(error) if error.lost_a_race() && attempt < $crate::store::meta::backend::ATTEMPTS => {
                            attempt += 1;
                        }
                        outcome => break outcome,
                    }
                }
            }
        }
    };
}

/// What transactions share: methods of either driver's connection, each written once.
macro_rules! both {
    (trait $name:ident {
        $(
            $(#[$doc:meta])*
            async fn $method:ident(&mut $this:ident $(, $argument:ident: $type:ty)* $(,)?) -> $result:ty $body:block
        )*
    }) => {
        pub(super) trait $name {
            $($(#[$doc])* fn $method(&mut self $(, $argument: $type)*) -> impl Future<Output = $result> + Send;)*
        }
        impl $name for sqlx::SqliteConnection {
            $(async fn $method(&mut $this $(, $argument: $type)*) -> $result $body)*
        }
        impl $name for sqlx::PgConnection {
            $(async fn $method(&mut $this $(, $argument: $type)*) -> $result $body)*
        }
    };
}

pub(super) use {both, read, snapshot, write};

/// Which of a pair's texts a connection understands.
pub(super) trait Dialect {
    fn pick(&self, pair: Pair) -> &'static str;
}

impl Dialect for sqlx::SqliteConnection {
    fn pick(&self, pair: Pair) -> &'static str {
        pair.sqlite
    }
}

impl Dialect for sqlx::PgConnection {
    fn pick(&self, pair: Pair) -> &'static str {
        pair.postgres
    }
}

both! {
    trait Lock {
        /// Locks a row until the transaction ends; on SQLite, which has one lock for all of them, that is done already.
        async fn lock(&mut self, statement: Pair, key: &str) -> Result<(), StoreError> {
            sqlx::query(self.pick(statement)).bind(key).execute(&mut *self).await?;
            Ok(())
        }
    }
}

fn migrator(dialect: fn(Pair) -> &'static str) -> Migrator {
    let migration = |&(version, name, texts): &(i64, &'static str, Pair)| {
        let text = dialect(texts).into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, text, false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

/// The database.
#[derive(Clone, Debug)]
pub struct MetaStore {
    pub(super) backend: Backend,
}

#[derive(Clone, Debug)]
pub(super) enum Backend {
    Sqlite { read: SqlitePool, write: SqlitePool },
    Postgres(PgPool),
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
        migrator(|texts| texts.sqlite).run(&write).await?;
        let read = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        Ok(Self { backend: Backend::Sqlite { read, write } })
    }

    /// Opens the Postgres database at a `postgres://` URL, which must exist, and brings its schema up to date.
    ///
    /// # Errors
    /// When the database cannot be reached, or was migrated by a newer program.
    pub async fn open_postgres(url: &str) -> Result<Self, StoreError> {
        let options = url
            .parse::<PgConnectOptions>()?
            .application_name("cairn")
            // An answer is given only for what survives a power cut, whatever the database's own default is.
            .options([("synchronous_commit", "on")]);
        let pool = PgPoolOptions::new()
            .max_connections(16)
            .acquire_timeout(Duration::from_secs(30))
            .connect_with(options)
            .await?;
        migrator(|texts| texts.postgres).run(&pool).await?;
        Ok(Self { backend: Backend::Postgres(pool) })
    }

    /// Asks the database for an answer.
    ///
    /// # Errors
    /// When there is none.
    pub async fn ping(&self) -> Result<(), StoreError> {
        read!(self, |connection| sqlx::query(sql::PING).execute(&mut *connection).await.map(drop))?;
        Ok(())
    }

    /// Writes back and closes every connection.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Sqlite { read, write } => {
                read.close().await;
                write.close().await;
            }
            Backend::Postgres(pool) => pool.close().await,
        }
    }
}
