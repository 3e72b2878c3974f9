//! What lies on the disk and in the database, looked at from outside of the program.

use std::fs;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::postgres;

/// Every file below `blobs`.
pub fn blobs(dir: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let mut files: Vec<PathBuf> = Vec::new();
    for path in entries(&dir.join("blobs")) {
        if path.is_dir() { files.extend(entries(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Runs a body on a connection beside the server, to the database that its directory belongs to.
macro_rules! beside {
    ($dir:expr, |$connection:ident| $body:expr) => {
        if $dir.join("cairn.sqlite").exists() {
            let options = SqliteConnectOptions::new().filename($dir.join("cairn.sqlite"));
            let mut $connection = options.busy_timeout(super::wait::PATIENCE).connect().await.unwrap();
            let outcome = $body;
            $connection.close().await.unwrap();
            outcome
        } else {
            let mut $connection = postgres::connect(&postgres::name($dir)).await;
            let outcome = $body;
            $connection.close().await.unwrap();
            outcome
        }
    };
}

/// The one number that a query gives.
pub async fn number(dir: &Path, query: &'static str) -> i64 {
    beside!(dir, |connection| sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap())
}

/// The texts in the one column that a query gives.
pub async fn texts(dir: &Path, query: &'static str) -> Vec<String> {
    beside!(dir, |connection| sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap())
}

/// Changes rows behind the server's back. Where the databases have other words, `bytes(x)` stands for the text `x` as
/// bytes, `text(x)` for bytes as text, and `noise(x)` for as many other bytes.
pub async fn change(dir: &Path, statement: &str) -> u64 {
    let sqlite = dir.join("cairn.sqlite").exists();
    let either = |x: &str, here: &str, there: &str| (if sqlite { here } else { there }).replace('$', x);
    let statement = calls(statement, "bytes(", |x| either(x, "cast($ as blob)", "decode($, 'escape')"));
    let statement = calls(&statement, "text(", |x| either(x, "cast($ as text)", "encode($, 'escape')"));
    let noise = "decode(repeat('a5', length($)), 'hex')";
    let statement = sqlx::AssertSqlSafe(calls(&statement, "noise(", |x| either(x, "randomblob(length($))", noise)));
    beside!(dir, |connection| sqlx::query(statement).execute(&mut connection).await.unwrap().rows_affected())
}

/// Writes each call of a made-up function as something else.
fn calls(statement: &str, call: &str, other: impl Fn(&str) -> String) -> String {
    let Some((before, rest)) = statement.split_once(call) else { return statement.to_owned() };
    let mut depth = 1;
    let end = rest.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    let end = end.unwrap();
    format!("{before}{}{}", other(&rest[..end]), calls(&rest[end + 1..], call, other))
}

/// Changes rows of a SQLite database so that they contradict others. `reverse_hex(x)` stands for the hexadecimal text `x` with its first
/// digits turned into others.
pub async fn harm(dir: &Path, statement: &str) -> u64 {
    let options = SqliteConnectOptions::new().filename(dir.join("cairn.sqlite")).foreign_keys(false);
    let mut connection = options.busy_timeout(super::wait::PATIENCE).connect().await.unwrap();
    let statement = expand(statement);
    let statement = sqlx::AssertSqlSafe(statement);
    let changed = sqlx::query(statement).execute(&mut connection).await.unwrap().rows_affected();
    connection.close().await.unwrap();
    changed
}

fn expand(statement: &str) -> String {
    let Some((before, rest)) = statement.split_once("reverse_hex(") else { return statement.to_owned() };
    let (column, after) = rest.split_once(')').unwrap();
    let other = format!("(case substr({column}, 1, 1) when 'a' then 'b' else 'a' end || substr({column}, 2))");
    format!("{before}{other}{after}")
}

pub const ARTIFACTS: &str = "select count(*) from artifacts";
pub const BLOB_ROWS: &str = "select count(*) from blobs";
pub const OPEN_SESSIONS: &str = "select count(*) from uploads where state = 'open'";
pub const STAGED: &str = "select count(*) from upload_files where blob_key is not null or stored > 0";
pub const AUDITS: &str = "select count(*) from audit_records";

/// Checks that nothing at all is kept.
pub async fn assert_nothing_left(dir: &Path, what: &str) {
    assert_eq!(blobs(dir), Vec::<PathBuf>::new(), "{what}: files stayed behind");
    for query in [ARTIFACTS, BLOB_ROWS, OPEN_SESSIONS, STAGED] {
        assert_eq!(number(dir, query).await, 0, "{what}: {query}");
    }
}

/// Checks that exactly the files are on the disk to which a row refers.
pub async fn assert_no_orphans(dir: &Path) {
    let query = "select blob_key from blobs union select blob_key from upload_files where blob_key is not null";
    let keys = super::wait::until("no file without a row, no row without a file", || async {
        let mut keys = texts(dir, query).await;
        keys.sort();
        let mut files: Vec<String> =
            blobs(dir).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        files.sort();
        (keys == files).then_some(keys)
    });
    keys.await;
}

/// Turns one bit of a file around, in place.
pub fn flip(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}
