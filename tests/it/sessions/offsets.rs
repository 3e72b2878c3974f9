//! Where bytes go: offsets, lengths, media types.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::checkpoint::{CheckpointBuilder, Dtype, SINGLE, container_head};
use crate::support::client::send;
use crate::support::data;
use crate::support::server::TestServer;

#[tokio::test]
async fn a_wrong_offset_is_refused_with_the_right_one_and_a_replay_appends_nothing() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::sized(1, 10_000, 3).build();
    let bytes = checkpoint.file(SINGLE);
    let session = api.session(&checkpoint.header).await;

    let early = api.patch(&session, SINGLE, 5, bytes[5..50].to_vec()).await;
    let problem = early.refused(409, "registry_upload_offset");
    assert_eq!(early.header("upload-offset"), "0");
    assert_eq!(problem["fields"], json!({"upload_offset": 0, "got_offset": 5}));

    // No byte and one byte are told apart.
    assert_eq!(api.offset(&session, SINGLE).await, 0);
    api.append(&session, SINGLE, bytes, 0, 1).await;
    assert_eq!(api.offset(&session, SINGLE).await, 1);
    api.append(&session, SINGLE, bytes, 1, 1).await;
    api.append(&session, SINGLE, bytes, 1, 4000).await;

    // The client did not hear the last answer and sends it again; then all kinds of other places.
    for offset in [1, 0, 3999, 4001, bytes.len(), 1 << 40] {
        let part = bytes.get(offset..).unwrap_or(b"x").to_vec();
        let replay = api.patch(&session, SINGLE, offset as u64, part).await;
        replay.refused(409, "registry_upload_offset");
        assert_eq!(replay.header("upload-offset"), "4000", "{offset}");
        assert_eq!(api.offset(&session, SINGLE).await, 4000);
    }
    api.append(&session, SINGLE, bytes, 4000, bytes.len()).await;
    let end = api.patch(&session, SINGLE, 4000, bytes[4000..].to_vec()).await;
    assert_eq!(end.header("upload-offset"), bytes.len().to_string());
    assert_eq!(api.finish(&session).await.status, 201);
    api.check(&checkpoint).await;
}

#[tokio::test]
async fn a_session_tells_what_it_expects_and_how_far_it_is() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::sized(2, 6_000, 4).shards(2).index().build();
    let opened = api.open(checkpoint.header.clone()).await.expect(StatusCode::CREATED);
    let session = opened.header("location").to_owned();
    let state = opened.json();
    assert_eq!(state["state"], "open");
    assert_eq!(state["content_hash"], checkpoint.content_hash.as_str());
    let (created, expires) = (state["created_at"].as_str().unwrap(), state["expires_at"].as_str().unwrap());
    assert!(created < expires && created.ends_with('Z') && expires.ends_with('Z'), "{state}");
    let names = ["weights-00000-of-00002.safetensors", "weights-00001-of-00002.safetensors"];
    let file = |name: &str, offset, length: Option<usize>| json!({"name": name, "offset": offset, "length": length, "url": format!("{session}/files/{name}")});
    assert_eq!(state["files"], json!([file(names[0], 0, None), file(names[1], 0, None)]));

    // The length is known as soon as the container's own header has arrived.
    let bytes = checkpoint.file(names[1]);
    api.append(&session, names[1], bytes, 0, 8).await;
    assert_eq!(api.get(&session).await.json()["files"][1], file(names[1], 8, None));
    api.append(&session, names[1], bytes, 8, 2000).await;
    let head = api.head(&format!("{session}/files/{}", names[1])).await.expect(StatusCode::OK);
    assert_eq!((head.header("upload-offset"), head.header("upload-length")), ("2000", &*bytes.len().to_string()));
    assert_eq!(head.header("cache-control"), "no-store");

    // The index is optional, so it appears when it does.
    let index = checkpoint.file("weights.index.json");
    api.append(&session, "weights.index.json", index, 0, 5).await;
    let state = api.get(&session).await.json();
    assert_eq!(state["files"][2]["offset"], 5, "{state}");
    assert!(state["expires_at"].as_str().unwrap() > expires, "stored bytes postpone the end");
}

#[tokio::test]
async fn a_told_length_is_kept_and_may_not_contradict_the_file() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(3).build();
    let bytes = checkpoint.file(SINGLE);
    let session = api.session(&checkpoint.header).await;
    let told = |offset: usize, length: &str, part: &[u8]| {
        send(api.patch_request(&session, SINGLE, offset as u64).header("upload-length", length).body(part.to_vec()))
    };
    for odd in ["", "-1", "1e3", "0x10", "99999999999999999999"] {
        told(0, odd, &bytes[..4]).await.refused(400, "config_invalid");
    }
    told(0, &bytes.len().to_string(), &bytes[..4]).await.expect(StatusCode::NO_CONTENT);
    let head = api.head(&format!("{session}/files/{SINGLE}")).await;
    assert_eq!(head.header("upload-length"), bytes.len().to_string());
    let problem = told(4, "4000", &bytes[4..]).await.refused(422, "checkpoint_integrity");
    assert_eq!(problem["fields"], json!({"expected": bytes.len(), "got": 4000}));
    told(4, &bytes.len().to_string(), &bytes[4..]).await.expect(StatusCode::NO_CONTENT);

    // A length that the container contradicts is noticed with the container's header, not after all its bytes.
    let session = api.session(&checkpoint.header).await;
    for length in [bytes.len() - 1, bytes.len() + 1, 7, 1 << 35] {
        let request = api.patch_request(&session, SINGLE, 0).header("upload-length", length);
        let answer = send(request.body(bytes[..bytes.len() - 4].to_vec())).await;
        answer.refused(422, "checkpoint_integrity");
        assert_eq!(api.offset(&session, SINGLE).await, 0, "{length}");
    }
    api.append(&session, SINGLE, bytes, 0, bytes.len()).await;
    assert_eq!(api.finish(&session).await.status, 201);
}

/// Sizes beyond 32 bits, without sending them: the container's header alone says how long the file will be.
#[tokio::test]
async fn lengths_beyond_32_bits_are_exact_everywhere() {
    let mut server = TestServer::start().await;
    let (elements, bytes) = (1_300_000_001, 4 * 1_300_000_001);
    let small = CheckpointBuilder::empty(4).tensor("encoder.w", Dtype::F32, &[1]).build();
    let mut header: serde_json::Value = serde_json::from_slice(&small.header).unwrap();
    header["tensor_manifest"][0]["shape"] = json!([elements]);
    let head = container_head([("encoder.w", Dtype::F32, &[elements][..], bytes)].into_iter(), true);
    let session = server.api.session(&serde_json::to_vec(&header).unwrap()).await;
    server.api.append(&session, SINGLE, &head, 0, head.len()).await;
    for _ in 0..2 {
        let told = server.api.head(&format!("{session}/files/{SINGLE}")).await;
        assert_eq!(told.header("upload-length"), (head.len() as u64 + bytes).to_string());
        assert_eq!(server.api.get(&session).await.json()["files"][0]["length"], head.len() as u64 + bytes);
        let problem = server.api.finish(&session).await.refused(422, "checkpoint_integrity");
        assert_eq!(problem["fields"]["expected"], head.len() as u64 + bytes);
        server.restart().await;
    }
    server.api.delete(&session).await.expect(StatusCode::NO_CONTENT);
    data::assert_nothing_left(server.dir(), "the aborted giant").await;
}

#[tokio::test]
async fn media_types_and_headers_are_checked_before_the_body() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(5).build();
    let session = api.session(&checkpoint.header).await;
    let file = format!("{session}/files/{SINGLE}");
    let patch = |kind: Option<&'static str>| {
        let request = api.request(Method::PATCH, &file).header("upload-offset", 0).body("x");
        kind.into_iter().fold(request, |request, kind| request.header("content-type", kind))
    };
    for kind in [None, Some("text/plain"), Some("application/octet-stream"), Some("application/partial-uploads")] {
        let problem = send(patch(kind)).await.refused(415, "registry_unsupported_media");
        assert_eq!(problem["fields"]["accepted"], json!(["application/partial-upload"]));
    }
    let coded = patch(Some("application/partial-upload")).header("content-encoding", "gzip");
    send(coded).await.refused(415, "registry_unsupported_media");
    for offset in ["", "-1", "+0", "0.0", "first", "18446744073709551616"] {
        let request = api.request(Method::PATCH, &file).header("content-type", "application/partial-upload");
        send(request.header("upload-offset", offset).body("x")).await.refused(400, "config_invalid");
    }
    let without = api.request(Method::PATCH, &file).header("content-type", "application/partial-upload").body("x");
    let problem = send(without).await.refused(400, "config_invalid");
    assert_eq!(problem["fields"]["key"], "upload-offset");
    assert_eq!(api.offset(&session, SINGLE).await, 0);

    let post = |kind: &'static str| api.request(Method::POST, "/v1/uploads").header("content-type", kind).body("{}");
    send(post("text/html")).await.refused(415, "registry_unsupported_media");
    send(post("Application/JSON; charset=utf-8")).await.refused(422, "schema_version_mismatch");
    let put = |name: &'static str, value: &'static str| {
        api.request(Method::PUT, &checkpoint.path()).header(name, value).body(checkpoint.tar())
    };
    send(put("content-type", "application/gzip")).await.refused(415, "registry_unsupported_media");
    send(put("content-encoding", "gzip")).await.refused(415, "registry_unsupported_media");
    send(put("content-encoding", "identity")).await.expect(StatusCode::CREATED);
}
