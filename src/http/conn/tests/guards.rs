//! The rules of `wire`, one by one, at a transport without hyper.

use std::{io, io::IoSlice, pin::Pin, sync::Arc, time::Duration};

use bytes::{Buf as _, Bytes};
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{
    super::{linger::Limits, transport::Conn, wire::Wire},
    support::{Stored, same, stored, within},
};

const SIZE: usize = 100_000;

async fn pair() -> (Wire, Conn, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let wire = Wire::new();
    let minute = Duration::from_mins(1);
    let limits = Limits { idle: minute, total: minute, bytes: 0 };
    (wire.clone(), Conn::new(stream, wire, minute, limits), client)
}

fn window(wire: &Wire, stored: &Stored, len: usize) -> Bytes {
    wire.window(Arc::clone(&stored.file), 0, len)
}

async fn write(conn: &mut Conn, slices: &[&[u8]]) -> io::Result<usize> {
    let slices: Vec<_> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    within(std::future::poll_fn(|cx| Pin::new(&mut *conn).poll_write_vectored(cx, &slices))).await
}

/// What the client has received once the connection is gone.
async fn received(conn: Conn, mut client: TcpStream) -> Vec<u8> {
    drop(conn);
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn a_placeholder_becomes_its_window() {
    let stored = stored(SIZE);
    let (wire, mut conn, client) = pair().await;
    let mut placeholder = window(&wire, &stored, SIZE);
    // Ordinary bytes go first and alone.
    assert_eq!(write(&mut conn, &[b"", b"head", b"", &placeholder, b"tail"]).await.unwrap(), 4);
    while placeholder.has_remaining() {
        let sent = write(&mut conn, &[&placeholder, b"tail"]).await.unwrap();
        placeholder.advance(sent);
    }
    drop(placeholder);
    conn.write_all(b"tail").await.unwrap();
    same(&received(conn, client).await, &[b"head", &stored.bytes[..], b"tail"].concat());
}

#[tokio::test]
async fn a_plain_write_knows_a_placeholder() {
    let stored = stored(SIZE);
    let (wire, mut conn, client) = pair().await;
    let placeholder = window(&wire, &stored, SIZE);
    conn.write_all(&placeholder).await.unwrap();
    same(&received(conn, client).await, &stored.bytes);
}

#[tokio::test]
async fn a_placeholder_must_be_of_the_next_window() {
    let stored = stored(SIZE);
    // The second before the first.
    let (wire, mut conn, client) = pair().await;
    let placeholders = [window(&wire, &stored, SIZE), window(&wire, &stored, SIZE)];
    assert!(write(&mut conn, &[&placeholders[1]]).await.is_err());
    assert!(write(&mut conn, &[&placeholders[0]]).await.is_err(), "the connection has failed for good");
    assert!(received(conn, client).await.is_empty());
    // One of another connection.
    let (_, mut conn, client) = pair().await;
    assert!(write(&mut conn, &[&placeholders[0]]).await.is_err());
    assert!(received(conn, client).await.is_empty());
    // The same one twice.
    let (wire, mut conn, client) = pair().await;
    let placeholder = window(&wire, &stored, 1000);
    assert_eq!(write(&mut conn, &[&placeholder]).await.unwrap(), 1000);
    assert!(write(&mut conn, &[&placeholder]).await.is_err());
    same(&received(conn, client).await, &stored.bytes[..1000]);
}

#[tokio::test]
async fn a_placeholder_must_be_whole() {
    let stored = stored(SIZE);
    for (start, end) in [(0, SIZE - 1), (1, SIZE), (0, 1)] {
        let (wire, mut conn, client) = pair().await;
        let placeholder = window(&wire, &stored, SIZE);
        assert!(write(&mut conn, &[&placeholder[start..end]]).await.is_err());
        assert!(received(conn, client).await.is_empty());
    }
}

#[tokio::test]
async fn a_dropped_placeholder_fails_the_connection() {
    let stored = stored(SIZE);
    let (wire, mut conn, client) = pair().await;
    drop(window(&wire, &stored, SIZE));
    assert!(write(&mut conn, &[b"anything"]).await.is_err());
    assert_eq!(Arc::strong_count(&stored.file), 1, "the queue is cleared");
    assert!(received(conn, client).await.is_empty());
}

#[tokio::test]
async fn few_ordinary_bytes_may_go_ahead() {
    let stored = stored(SIZE);
    let (wire, mut conn, client) = pair().await;
    let large = vec![b'+'; 65 << 10];
    // As much as the body has put there,
    wire.owe(large.len());
    let placeholder = window(&wire, &stored, SIZE);
    let mut ahead = &large[..];
    while !ahead.is_empty() {
        let sent = write(&mut conn, &[ahead, &placeholder]).await.unwrap();
        ahead = &ahead[sent..];
    }
    // but not as much again.
    assert!(write(&mut conn, &[&large]).await.is_err());
    same(&received(conn, client).await, &large);
}

#[tokio::test]
async fn a_file_that_ends_early_fails_the_connection() {
    let stored = stored(SIZE);
    let (wire, mut conn, client) = pair().await;
    let mut placeholder = window(&wire, &stored, SIZE + 1);
    let error = loop {
        match write(&mut conn, &[&placeholder]).await {
            Ok(sent) => placeholder.advance(sent),
            Err(error) => break error,
        }
    };
    assert_eq!(error.to_string(), "a file ended before its length");
    assert_eq!(placeholder.len(), 1);
    same(&received(conn, client).await, &stored.bytes);
}

#[tokio::test]
async fn a_closed_connection_holds_no_file() {
    let stored = stored(SIZE);
    let (wire, conn, _client) = pair().await;
    let placeholder = window(&wire, &stored, SIZE);
    drop(conn);
    assert_eq!(Arc::strong_count(&stored.file), 1);
    let late = window(&wire, &stored, SIZE);
    assert_eq!(Arc::strong_count(&stored.file), 1);
    drop((placeholder, late));
}
