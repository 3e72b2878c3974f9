//! GET and HEAD of every resource: heads, ranges, conditions.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use sha2::{Digest, Sha256};

use super::resource::{Resource, checkpoint, resources};
use crate::support::checkpoint::CheckpointBuilder;
use crate::support::client::{Answer, Api, send};
use crate::support::rng::Rng;
use crate::support::server::{Setup, TestServer};

/// What every answer with bytes, or about them, must say.
fn check_head(resource: &Resource, answer: &Answer, what: &str) {
    let Resource { path, bytes, content_type, hashed, .. } = resource;
    let what = format!("{what} of {path}");
    assert_eq!(answer.header("accept-ranges"), "bytes", "{what}");
    assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable", "{what}");
    assert_eq!(answer.header("x-linked-size"), bytes.len().to_string(), "{what}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{what}");
    assert!(answer.header("content-disposition").starts_with("attachment; filename"), "{what}");
    assert!(!answer.headers.contains_key("content-encoding"), "{what}");
    assert!(!answer.headers.contains_key("transfer-encoding"), "{what}");
    let tag = answer.header("etag");
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "{what}: {tag}");
    if *hashed {
        let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(bytes)));
        assert_eq!(answer.header("repr-digest"), digest, "{what}");
    } else {
        assert!(!answer.headers.contains_key("repr-digest"), "{what}");
    }
    if answer.status != StatusCode::NOT_MODIFIED {
        assert_eq!(answer.header("content-type"), *content_type, "{what}");
    }
}

async fn check_range(api: &Api, resource: &Resource, range: &str, part: std::ops::Range<usize>) {
    let (path, bytes) = (&resource.path, &resource.bytes);
    for method in [Method::GET, Method::HEAD] {
        let answer = send(api.request(method.clone(), path).header("range", range)).await;
        assert_eq!(answer.status, 206, "{range} of {path}");
        check_head(resource, &answer, range);
        let told = format!("bytes {}-{}/{}", part.start, part.end - 1, bytes.len());
        assert_eq!(answer.header("content-range"), told, "{range} of {path}");
        assert_eq!(answer.header("content-length"), part.len().to_string(), "{range} of {path}");
        let expected = if method == Method::GET { &bytes[part.clone()] } else { &[] };
        assert!(answer.body == expected, "{method} {range} of {path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_and_head_tell_the_same_of_everything() {
    let server = TestServer::start().await;
    let checkpoint = checkpoint(1);
    server.api.store(&checkpoint).await;
    let all = resources(&checkpoint);
    assert_eq!(all.len(), 15);
    for resource in all {
        let path = &resource.path;
        let get = server.api.get(path).await.expect(StatusCode::OK);
        let head = server.api.head(path).await.expect(StatusCode::OK);
        for answer in [&get, &head] {
            check_head(&resource, answer, "the whole");
            assert_eq!(answer.header("content-length"), resource.bytes.len().to_string(), "{path}");
        }
        assert!(get.body == resource.bytes, "{path}");
        assert!(head.body.is_empty(), "{path}");
        let mut same: Vec<_> = get.headers.keys().filter(|name| *name != "date" && *name != "x-request-id").collect();
        same.retain(|name| get.headers.get(*name) != head.headers.get(*name));
        assert!(same.is_empty(), "{path}: {same:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_everything() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = checkpoint(2);
    api.store(&checkpoint).await;
    for resource in resources(&checkpoint) {
        let len = resource.bytes.len();
        if len > 0 {
            check_range(api, &resource, "bytes=0-0", 0..1).await;
            check_range(api, &resource, "bytes=0-", 0..len).await;
            check_range(api, &resource, &format!("bytes={}-", len - 1), len - 1..len).await;
            check_range(api, &resource, &format!("bytes={}-{}", len / 3, len / 2), len / 3..len / 2 + 1).await;
            check_range(api, &resource, "bytes=-1", len - 1..len).await;
            check_range(api, &resource, &format!("bytes=-{}", len + 7), 0..len).await;
            check_range(api, &resource, &format!("Bytes = {}-99999999999999999999", len / 2), len / 2..len).await;
        }
        for range in [format!("bytes={len}-"), "bytes=-0".to_owned(), "bytes=18446744073709551616-".to_owned()] {
            let answer = api.get_with(&resource.path, "range", &range).await;
            answer.refused(416, "registry_range");
            assert_eq!(answer.header("content-range"), format!("bytes */{len}"), "{range} of {}", resource.path);
        }
        for range in ["bytes=0-0,2-3", "bytes=3-2", "bytes=-", "bytes=a-", "lines=0-1", "bytes", "bytes=0 - 1"] {
            let answer = api.get_with(&resource.path, "range", range).await;
            assert_eq!(answer.status, 200, "{range} of {}", resource.path);
            assert!(!answer.headers.contains_key("content-range"));
            assert!(answer.body == resource.bytes, "{range} of {}", resource.path);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_everything() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = checkpoint(3);
    api.store(&checkpoint).await;
    let mut tags = std::collections::HashMap::new();
    for resource in resources(&checkpoint) {
        let path = &resource.path;
        let tag = api.head(path).await.header("etag").to_owned();
        // Two representations with one tag would be mixed up by a cache that resumes.
        if let Some(other) = tags.insert(tag.clone(), resource.bytes.clone()) {
            assert!(other == resource.bytes, "{path} has the tag of something else");
        }
        for told in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            for method in [Method::GET, Method::HEAD] {
                let answer = send(api.request(method, path).header("if-none-match", &told)).await;
                assert_eq!(answer.status, 304, "{told} for {path}");
                assert!(answer.body.is_empty());
                check_head(&resource, &answer, "not modified");
            }
        }
        let answer = api.get_with(path, "if-none-match", "\"other\"").await;
        assert!(answer.status == 200 && answer.body == resource.bytes, "{path}");
        // If-None-Match is looked at before Range.
        let both = api.request(Method::GET, path).header("if-none-match", &tag).header("range", "bytes=0-0");
        assert_eq!(send(both).await.status, 304, "{path}");

        if resource.bytes.is_empty() {
            continue;
        }
        let guarded =
            |told: String| send(api.request(Method::GET, path).header("range", "bytes=0-0").header("if-range", told));
        let same = guarded(tag.clone()).await;
        assert!(same.status == 206 && same.body == resource.bytes[..1], "{path}");
        for told in [
            format!("W/{tag}"),
            "\"other\"".to_owned(),
            tag.trim_matches('"').to_owned(),
            "Thu, 01 Jan 2026 00:00:00 GMT".to_owned(),
        ] {
            let other = guarded(told.clone()).await;
            assert!(other.status == 200 && other.body == resource.bytes, "{told} for {path}");
        }
    }
}

/// Two artifacts never share a tag for different bytes, in whatever of theirs.
#[tokio::test]
async fn tags_differ_between_artifacts() {
    let server = TestServer::start().await;
    let mut tags = std::collections::HashMap::new();
    for seed in [4, 5] {
        let checkpoint = checkpoint(seed);
        server.api.store(&checkpoint).await;
        for resource in resources(&checkpoint).into_iter().filter(|resource| !resource.bytes.is_empty()) {
            let tag = server.api.head(&resource.path).await.header("etag").to_owned();
            if let Some(other) = tags.insert(tag, resource.bytes.clone()) {
                assert!(other == resource.bytes, "{}", resource.path);
            }
        }
    }
}

/// Parallel ranges put together are the whole, with files sent by the kernel and with files that are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_ranges_make_the_whole() {
    for sendfile in [true, false] {
        let mut setup = Setup::default();
        setup.connections.sendfile = sendfile;
        let server = TestServer::start_with(setup).await;
        let api = &server.api;
        let checkpoint = CheckpointBuilder::sized(6, 5 << 20, 13).shards(3).shuffled().build();
        api.store(&checkpoint).await;
        for resource in resources(&checkpoint).into_iter().filter(|resource| resource.bytes.len() > 1 << 20) {
            let (len, mut rng, mut cuts) = (resource.bytes.len(), Rng::new(7), vec![0]);
            while *cuts.last().unwrap() < len {
                cuts.push(len.min(cuts.last().unwrap() + rng.between(1, 900_000) as usize));
            }
            let parts = cuts.windows(2).map(|cut| {
                let range = format!("bytes={}-{}", cut[0], cut[1] - 1);
                let path = &resource.path;
                async move { api.get_with(path, "range", &range).await.expect(StatusCode::PARTIAL_CONTENT).body }
            });
            let whole = join_all(parts).await.concat();
            assert!(whole == resource.bytes, "{} with sendfile: {sendfile}", resource.path);
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_on_every_route() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = checkpoint(8);
    api.store(&checkpoint).await;
    let (here, other) = (checkpoint.path(), format!("/v1/artifacts/{}", "0".repeat(64)));
    let params = format!("/v1/params/{}", checkpoint.content_hash);
    let mut missing = vec![other.clone(), format!("{other}/lineage"), params];
    for path in
        ["header.json", "archive.tar", "files/weights.safetensors", "groups/encoder.safetensors", "tensors/encoder.a"]
    {
        missing.push(format!("{other}/{path}"));
    }
    for path in [
        "files/weights.safetensors",
        "files/header.json",
        "groups/encoder",
        "groups/decoder.safetensors",
        "groups/.safetensors",
        "tensors/encoder.x",
        "tensors/a",
        "tensors/ENCODER.A",
        "nothing",
        "files",
        "files/",
    ] {
        missing.push(format!("{here}/{path}"));
    }
    for bad in ["", "0", "UPPER", "sha256:00", "%00"] {
        missing.push(format!("/v1/artifacts/{bad}"));
        missing.push(format!("/v1/params/{bad}"));
    }
    missing.push(format!("/v1/artifacts/{}", checkpoint.content_hash.to_uppercase()));
    for path in missing {
        api.get(&path).await.refused(404, "registry_not_found");
        let head = api.head(&path).await;
        assert_eq!(head.status, 404, "{path}");
        assert_eq!(head.header("content-type"), "application/problem+json", "{path}");
        api.get_with(&path, "range", "bytes=0-0").await.refused(404, "registry_not_found");
    }
}
