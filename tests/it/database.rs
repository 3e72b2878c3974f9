//! Statements and migrations: what the compiler does not see of the database.

use std::collections::BTreeSet;
use std::fs;

use cairn::store::meta::{MetaStore, sql};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use sqlx::{Executor as _, SqlSafeStr as _};

/// A migrated database, opened once more beside the store.
async fn migrated(dir: &tempfile::TempDir) -> SqlitePool {
    let path = dir.path().join("cairn.sqlite");
    MetaStore::open_sqlite(&path).await.unwrap().close().await;
    SqlitePool::connect_with(SqliteConnectOptions::new().filename(path)).await.unwrap()
}

#[tokio::test]
async fn every_statement_can_be_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let pool = migrated(&dir).await;
    let mut connection = pool.acquire().await.unwrap();
    assert!(sql::ALL.len() > 20);
    for (name, text) in sql::ALL {
        if let Err(error) = connection.prepare(text.into_sql_str()).await {
            panic!("sql::{name} does not fit the schema: {error}");
        }
    }
    // Preparing does notice.
    assert!(connection.prepare("select no_such_column from artifacts".into_sql_str()).await.is_err());
    assert!(connection.prepare("select greatest(1, 2)".into_sql_str()).await.is_err());
}

#[tokio::test]
async fn migrating_twice_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let schema = async || {
        let pool = migrated(&dir).await;
        sqlx::query_scalar::<_, String>("select coalesce(sql, '') from sqlite_master order by name")
            .fetch_all(&pool)
            .await
            .unwrap()
    };
    let first = schema().await;
    assert!(first.len() > 5);
    assert_eq!(schema().await, first);
}

/// Every table keeps its types, as `migrations/README.md` promises.
#[tokio::test]
async fn every_table_is_strict() {
    let dir = tempfile::tempdir().unwrap();
    let pool = migrated(&dir).await;
    let lax: Vec<String> = sqlx::query_scalar(
        "select name from pragma_table_list where schema = 'main' and type = 'table' and strict = 0 \
         and name not like 'sqlite_%' and name not like '_sqlx_%'",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    assert_eq!(lax, Vec::<String>::new());
}

#[test]
fn migrations_and_files_are_the_same() {
    let source = include_str!("../../src/store/meta/backend.rs");
    let listed: Vec<&str> = source
        .split("include_str!(\"../../../migrations/sqlite/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let files: BTreeSet<String> = fs::read_dir("migrations/sqlite")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(listed.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), files);
    for (number, file) in (1..).zip(&listed) {
        let (digits, name) = file.strip_suffix(".sql").unwrap().split_once('_').unwrap();
        assert_eq!(digits, format!("{number:04}"), "{file}: numbers follow each other");
        let entry = format!("({number}, \"{name}\", include_str!");
        assert!(source.contains(&entry), "store/meta/backend.rs lists {file} under another number or name");
    }
    assert!(!listed.is_empty());
}
