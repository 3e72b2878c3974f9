//! What can go wrong with the database.

/// A failure of the database; absence is an `Option`, not an error.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A row cannot be read as what it must be.
    #[error("column {column} of table {table} holds something unreadable")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The database has been migrated by a newer program, or only half.
    #[error("migrate the database")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// The database did not do what was asked.
    #[error("query the database")]
    Backend(#[from] sqlx::Error),
}

impl StoreError {
    /// True when somebody else was faster or stood in the way, so that the same transaction may fare better now: a
    /// unique violation, a serialization failure, a deadlock.
    pub(super) fn lost_a_race(&self) -> bool {
        let Self::Backend(sqlx::Error::Database(error)) = self else { return false };
        error.is_unique_violation() || matches!(error.code().as_deref(), Some("40001" | "40P01"))
    }
}
