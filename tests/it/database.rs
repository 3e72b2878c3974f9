//! Statements and migrations: what the compiler does not see of the database.

use std::collections::BTreeSet;
use std::fs;

use cairn::store::meta::{MetaStore, sql};
use futures_util::future::join_all;
use reqwest::StatusCode;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use sqlx::{Executor as _, SqlSafeStr as _};

use crate::support::federation::{Federation, RUN, audit, post};
use crate::support::postgres;
use crate::support::server::TestServer;

/// A migrated database, opened once more beside the store.
async fn migrated(dir: &tempfile::TempDir) -> SqlitePool {
    let path = dir.path().join("cairn.sqlite");
    MetaStore::open_sqlite(&path).await.unwrap().close().await;
    SqlitePool::connect_with(SqliteConnectOptions::new().filename(path)).await.unwrap()
}

/// The same on Postgres; the name is for this process only.
async fn migrated_postgres(name: &str) -> PgConnection {
    MetaStore::open_postgres(&postgres::create(name)).await.unwrap().close().await;
    postgres::connect(name).await
}

#[tokio::test]
async fn every_statement_can_be_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let pool = migrated(&dir).await;
    let mut connection = pool.acquire().await.unwrap();
    assert!(sql::ALL.len() > 20);
    let pairs = sql::PAIRS.iter().map(|(name, pair)| (*name, pair.sqlite));
    for (name, text) in sql::ALL.iter().copied().chain(pairs) {
        if let Err(error) = connection.prepare(text.into_sql_str()).await {
            panic!("sql::{name} does not fit the schema: {error}");
        }
    }
    // Preparing does notice.
    assert!(connection.prepare("select no_such_column from artifacts".into_sql_str()).await.is_err());
    assert!(connection.prepare("select greatest(1, 2)".into_sql_str()).await.is_err());
}

#[tokio::test]
async fn every_statement_can_be_prepared_on_postgres() {
    let mut connection = migrated_postgres("prepared").await;
    let pairs = sql::PAIRS.iter().map(|(name, pair)| (*name, pair.postgres));
    for (name, text) in sql::ALL.iter().copied().chain(pairs) {
        if let Err(error) = connection.prepare(text.into_sql_str()).await {
            panic!("sql::{name} does not fit the schema: {error}");
        }
    }
    assert!(connection.prepare("select group_concat(name) from artifact_files".into_sql_str()).await.is_err());
    // Each pair is a text that nobody reads as one statement.
    assert!(sql::PAIRS.len() < 5);
}

/// The same tables, and in each the same columns of the same kind, which may be null in the same places.
#[tokio::test]
async fn both_schemas_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let query = "select m.name || '.' || c.name || ' ' || lower(c.type) || \
        case when c.\"notnull\" = 1 or m.name || '.' || c.name in ('audit_records.id', 'findings.id') then ' not null' \
        else '' end from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table' \
        and m.name not like '\\_sqlx%' escape '\\' order by 1";
    let here: Vec<String> = sqlx::query_scalar(query).fetch_all(&migrated(&dir).await).await.unwrap();
    let query = "select table_name || '.' || column_name || ' ' || \
        case data_type when 'bigint' then 'integer' when 'bytea' then 'blob' else data_type end || \
        case is_nullable when 'NO' then ' not null' else '' end from information_schema.columns \
        where table_schema = 'public' and table_name not like '\\_sqlx%' order by 1";
    let mut postgres = migrated_postgres("schemas").await;
    let mut there: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut postgres).await.unwrap();
    let mut here: Vec<String> = here;
    here.sort();
    there.sort();
    assert!(here.len() > 50);
    assert_eq!(here, there);

    let query = "select name from sqlite_master where type = 'index' and sql is not null order by 1";
    let here: Vec<String> = sqlx::query_scalar(query).fetch_all(&migrated(&dir).await).await.unwrap();
    let query = "select c.relname::text from pg_index i join pg_class c on c.oid = i.indexrelid \
        join pg_namespace n on n.oid = c.relnamespace left join pg_constraint k on k.conindid = c.oid \
        where n.nspname = 'public' and k.oid is null order by 1";
    let there: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut postgres).await.unwrap();
    assert_eq!(here, there);
}

/// Text is compared by its bytes, as SQLite does, whatever the database's own language is.
#[tokio::test]
async fn postgres_sorts_as_sqlite_does() {
    let query = "select count(*) from information_schema.columns where table_schema = 'public' \
        and table_name not like '\\_sqlx%' and data_type = 'text' and collation_name is distinct from 'C'";
    let other: i64 = sqlx::query_scalar(query).fetch_one(&mut migrated_postgres("sorted").await).await.unwrap();
    assert_eq!(other, 0);
}

/// A run from its registration and its documents to its audit, and sixteen coordinators that want the same round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_lives_on_postgres() {
    let mut server = TestServer::start_on_postgres().await;
    let mut federation = Federation::found(&server.api).await;
    for round in 0..3 {
        federation.advance(&server.api, 40 + round).await.expect(StatusCode::CREATED);
    }
    let again = server.api.push(federation.rounds.last().unwrap()).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text());
    server.restart().await;
    let report = audit(&server.api, "deep").await;
    assert_eq!(report["ok"], true, "{report}");

    let api = &server.api;
    let mut rivals = Vec::new();
    for seed in 100..116 {
        let rival = federation.next(seed);
        // Each is sent twice at once: one of the two finds that it exists.
        let (one, other) = tokio::join!(api.push(&rival), api.push(&rival));
        assert_eq!(u16::from(one.status) + u16::from(other.status), 401, "{} {}", one.text(), other.text());
        rivals.push(federation.commit_body(api, &rival).await);
    }
    let path = format!("/v1/runs/{RUN}/commits");
    let answers = join_all(rivals.into_iter().map(|body| post(api, &path, body))).await;
    let with = |status: StatusCode| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((with(StatusCode::CREATED), with(StatusCode::CONFLICT)), (1, 15));
    assert_eq!(audit(api, "deep").await["ok"], true);
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
    let of = |kind: &str| -> Vec<String> {
        let start = format!("include_str!(\"../../../migrations/{kind}/");
        let listed = source.split(&start).skip(1);
        let listed: Vec<String> = listed.map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
        let files: BTreeSet<String> = fs::read_dir(format!("migrations/{kind}"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), files);
        listed
    };
    let listed = of("sqlite");
    assert_eq!(listed, of("postgres"), "both databases have the same migrations in the same order");
    let words: Vec<&str> = source.split_whitespace().collect();
    let words = words.join(" ");
    for (number, file) in (1..).zip(&listed) {
        let (digits, name) = file.strip_suffix(".sql").unwrap().split_once('_').unwrap();
        assert_eq!(digits, format!("{number:04}"), "{file}: numbers follow each other");
        let entry = format!("( {number}, \"{name}\", Pair {{ sqlite: include_str!");
        assert!(words.contains(&entry), "store/meta/backend.rs lists {file} under another number or name");
    }
    assert!(!listed.is_empty());
}
