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
