//! Records of what must never be swallowed.

use super::backend::MetaStore;
use super::error::StoreError;
use super::sql;

impl MetaStore {
    /// Appends an audit record; `at` is in microseconds since 1970.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn record(&self, at: i64, code: &str, subject: &str, detail: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query(sql::INSERT_AUDIT).bind(at).bind(code).bind(subject).bind(detail).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }
}
