//! Paths, methods, request ids, and what an error document may say.

use serde_json::Value;

use crate::support::checkpoint::{CheckpointBuilder, SINGLE};
use crate::support::client::{Answer, send};
use crate::support::data;
use crate::support::raw::Raw;
use crate::support::server::TestServer;

#[tokio::test]
async fn unknown_paths_and_methods_are_problems() {
    let server = TestServer::start().await;
    let mut client = Raw::connect(server.address()).await;
    let hash = "0".repeat(64);
    let artifact = format!("/v1/artifacts/{hash}");
    let rows: Vec<(&str, String, u16, &str)> = vec![
        ("GET", "/".to_owned(), 404, ""),
        ("GET", "/v1".to_owned(), 404, ""),
        ("GET", "/v1/artifacts".to_owned(), 404, ""),
        ("GET", "/v2/artifacts/x".to_owned(), 404, ""),
        ("GET", "//v1/artifacts/x".to_owned(), 404, ""),
        ("GET", "/V1/artifacts/x".to_owned(), 404, ""),
        ("GET", format!("{artifact}/"), 404, ""),
        ("GET", "*".to_owned(), 404, ""),
        ("DELETE", "/nothing".to_owned(), 404, ""),
        ("DELETE", artifact.clone(), 405, "GET,HEAD,PUT"),
        ("PATCH", artifact.clone(), 405, "GET,HEAD,PUT"),
        ("POST", format!("{artifact}/header.json"), 405, "GET,HEAD"),
        ("PUT", format!("{artifact}/files/{SINGLE}"), 405, "GET,HEAD"),
        ("GET", format!("{artifact}/verify"), 405, "POST"),
        ("GET", "/v1/uploads".to_owned(), 405, "POST"),
        ("PUT", "/v1/uploads/x".to_owned(), 405, "GET,HEAD,DELETE"),
        ("GET", "/v1/uploads/x/finish".to_owned(), 405, "POST"),
        ("PUT", "/v1/uploads/x/files/y".to_owned(), 405, "HEAD,PATCH"),
        ("TRACE", "/healthz".to_owned(), 405, "GET,HEAD"),
        ("OPTIONS", artifact.clone(), 405, "GET,HEAD,PUT"),
        ("BREW", artifact, 405, "GET,HEAD,PUT"),
    ];
    for (method, path, status, allowed) in rows {
        client.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        let answer = client.answer().await.unwrap_or_else(|| panic!("{method} {path}"));
        let code = if status == 404 { "registry_not_found" } else { "registry_method" };
        let problem = answer.refused(status, code);
        assert!(!problem.to_string().contains("nothing\""), "{problem}");
        let sorted = |list: &str| {
            let mut names: Vec<_> = list.split(',').map(|name| name.trim().to_owned()).collect();
            names.sort();
            names
        };
        if status == 405 {
            assert_eq!(sorted(answer.header("allow").unwrap_or("")), sorted(allowed), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn no_trick_with_a_path_reaches_a_file() {
    let server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::new(1).build();
    server.api.store(&checkpoint).await;
    let session = server.api.session(&checkpoint.header).await;
    let (path, up) =
        (checkpoint.path(), ["..", "%2e%2e", "%2E.", "%252e%252e", "..%00", "..%5c", ".%2e", "....", "%c0%ae%c0%ae"]);
    for up in up {
        for slash in ["/", "%2f", "%252f", "%5c", "//"] {
            for base in [
                format!("{path}/files"),
                format!("{path}/groups"),
                format!("{path}/tensors"),
                path.clone(),
                "/v1/artifacts".to_owned(),
                "/v1/params".to_owned(),
                "/v1/uploads".to_owned(),
                format!("{session}/files"),
                "/docs".to_owned(),
            ] {
                let climb = format!("{up}{slash}").repeat(4);
                for target in [format!("{climb}cairn.sqlite"), format!("{climb}etc/passwd"), up.to_owned()] {
                    let mut client = Raw::connect(server.address()).await;
                    client.send(format!("GET {base}/{target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
                    let answer = client.answer().await.unwrap();
                    assert!((400..500).contains(&answer.status), "{base}/{target}: {}", answer.status);
                    assert!(!String::from_utf8_lossy(&answer.body).contains("root:"), "{base}/{target}");
                }
            }
        }
    }
    // In what is written, names are random: nothing that a client has said stands in a path.
    for path in data::blobs(server.dir()) {
        let (name, shelf) = (path.file_name().unwrap().to_str().unwrap(), path.parent().unwrap().file_name().unwrap());
        assert!(name.len() == 32 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{name}");
        assert_eq!(shelf.to_str().unwrap(), &name[..2]);
        assert!(!checkpoint.content_hash.contains(&name[..16]), "{name}");
    }
    let mut top: Vec<_> = std::fs::read_dir(server.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    top.sort();
    top.retain(|name| !name.to_str().unwrap().starts_with("cairn.sqlite"));
    assert_eq!(top, ["blobs", "lock"]);
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(2).build();
    api.store(&checkpoint).await;
    let mut seen = std::collections::HashSet::new();
    let paths = [
        checkpoint.path(),
        format!("{}/header.json", checkpoint.path()),
        "/healthz".to_owned(),
        "/readyz".to_owned(),
        "/nothing".to_owned(),
        "/docs/errors".to_owned(),
        "/openapi.json".to_owned(),
        "/v1/uploads".to_owned(),
    ];
    for path in &paths {
        assert!(seen.insert(api.get(path).await.header("x-request-id").to_owned()), "{path}");
        for given in ["a", "my-request_1.2", &"x".repeat(64)] {
            assert_eq!(api.get_with(path, "x-request-id", given).await.header("x-request-id"), given, "{path}");
        }
        for given in ["", "with blank", "a/b", "<script>", "a\"b", &"x".repeat(65)] {
            let told = api.get_with(path, "x-request-id", given).await.header("x-request-id").to_owned();
            assert_ne!(told, given, "{path}");
            assert!(seen.insert(told), "{path}");
        }
    }
    assert_eq!(seen.len(), paths.len() * 7);
}

/// A secret in every place where a document can hold one: no refusal repeats it.
#[tokio::test]
async fn refusals_do_not_repeat_what_was_sent() {
    const SECRET: &str = "hf_SECRETxyzzySECRET";
    let server = TestServer::start().await;
    let api = &server.api;
    let checkpoint = CheckpointBuilder::new(3).build();
    let header: Value = serde_json::from_slice(&checkpoint.header).unwrap();
    let mut refusals: Vec<(String, Answer)> = Vec::new();
    for (field, _) in header.as_object().unwrap() {
        let values =
            [Value::from(SECRET), serde_json::json!([SECRET]), serde_json::json!({"x": SECRET}), Value::from(7.5)];
        for value in values {
            let mut wrong = header.clone();
            wrong[field] = value;
            if field == "wmcp_version" && wrong[field].is_string() {
                continue;
            }
            refusals.push((format!("{field} = {}", wrong[field]), api.open(wrong.to_string()).await));
        }
    }
    for key in ["name", "dtype", "group", "shape"] {
        let mut wrong = header.clone();
        wrong["tensor_manifest"][0][key] = SECRET.into();
        refusals.push((format!("manifest {key}"), api.open(wrong.to_string()).await));
    }
    for text in [
        SECRET.to_owned(),
        format!("\"{SECRET}\""),
        format!("[\"{SECRET}\"]"),
        format!("{{\"schema_version\":2,\"parent_hash\":\"{SECRET}"),
    ] {
        refusals.push((text.clone(), api.open(text).await));
    }
    let session = api.session(&checkpoint.header).await;
    let bytes = checkpoint.file(SINGLE);
    let container = |json: String| [&(json.len() as u64).to_le_bytes(), json.as_bytes(), bytes].concat();
    for json in [
        format!(r#"{{"__metadata__":{{"format":"{SECRET}"}}}}"#),
        format!(r#"{{"__metadata__":"{SECRET}"}}"#),
        format!(r#"{{"encoder.b":{{"dtype":"{SECRET}","shape":[7],"data_offsets":[0,28]}}}}"#),
        format!(r#"{{"encoder.b":"{SECRET}"}}"#),
        format!(r#"{{"action_head.{SECRET}":{{"dtype":"F32","shape":[7],"data_offsets":[0,28]}}}}"#),
    ] {
        refusals.push((json.clone(), api.patch(&session, SINGLE, 0, container(json)).await));
    }
    refusals.push(("the bytes".to_owned(), api.patch(&session, SINGLE, 0, SECRET.repeat(40)).await));
    refusals.push(("an archive".to_owned(), api.put(&checkpoint.content_hash, SECRET.repeat(80)).await));
    let verify = format!("{{\"expected_hash\":[\"{SECRET}\"]}}");
    refusals.push(("verify".to_owned(), api.verify(&checkpoint.path(), verify).await));
    for path in
        [format!("/v1/artifacts/{SECRET}"), format!("/v1/uploads/{SECRET}"), format!("/{SECRET}?token={SECRET}")]
    {
        refusals
            .push((path.clone(), send(api.request(reqwest::Method::GET, &path).header("authorization", SECRET)).await));
    }
    for (what, answer) in &refusals {
        assert!(answer.status.is_client_error(), "{what}: {}", answer.status);
        let text = answer.problem().to_string();
        assert!(!text.contains("SECRET"), "{what}: {text}");
        assert!(text.len() < 4000, "{what}: {text}");
    }
    assert!(refusals.len() > 50, "{}", refusals.len());
    let stored = data::texts(server.dir(), "select detail || subject || code from audit_records").await;
    assert!(!stored.is_empty() && !stored.iter().any(|text| text.contains("SECRET")), "{stored:?}");
}
