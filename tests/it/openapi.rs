//! `openapi/cairn.json` is what the code says, is a good description, and describes what is served.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use cairn::service::{Options, Registry};
use serde_json::{Map, Value};
use tower::ServiceExt as _;

const FILE: &str = "openapi/cairn.json";

fn document() -> Value {
    serde_json::to_value(cairn::http::router::openapi()).unwrap()
}

/// Path, method and description of each operation.
fn operations(document: &Value) -> Vec<(&str, &str, &Map<String, Value>)> {
    let paths = document["paths"].as_object().unwrap();
    let methods = ["get", "put", "post", "delete", "head", "patch"];
    paths
        .iter()
        .flat_map(|(path, item)| {
            let found = methods.iter().filter_map(|method| Some((*method, item.get(*method)?.as_object().unwrap())));
            found.map(|(method, operation)| (path.as_str(), method, operation)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_checked_in_document_is_what_the_code_says() {
    let current = serde_json::to_string_pretty(&cairn::http::router::openapi()).unwrap() + "\n";
    if std::env::var_os("CAIRN_UPDATE").is_some() {
        std::fs::write(FILE, &current).unwrap();
    }
    let stored = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        stored == current,
        "{FILE} differs from the code; write it anew with `CAIRN_UPDATE=1 cargo test --test it openapi` and look at \
         the difference"
    );
}

#[test]
fn every_operation_is_described() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let name = format!("{method} {path}");
        for key in ["operationId", "summary", "description"] {
            let text = operation.get(key).and_then(Value::as_str);
            assert!(text.is_some_and(|text| !text.is_empty()), "{name} has no {key}");
        }
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name}: its operationId is taken");
        for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            let described = parameter["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described, "{name}: the parameter {} has no description", parameter["name"]);
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = match response.get("$ref").and_then(Value::as_str) {
                Some(shared) => document.pointer(shared.strip_prefix('#').unwrap()).unwrap(),
                None => response,
            };
            let described = response["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described, "{name}: the response {status} has no description");
            let refusal = status.starts_with(['4', '5']) || status == "default";
            let content = response.get("content").and_then(Value::as_object);
            if refusal && method != "head" {
                let problem = content.and_then(|content| content.get("application/problem+json"));
                let schema = problem.and_then(|problem| problem["schema"]["$ref"].as_str());
                assert_eq!(schema, Some("#/components/schemas/Problem"), "{name}: {status}");
            }
            let empty = ["204", "304"].contains(&status.as_str()) || method == "head" || path.ends_with('z');
            if !refusal {
                assert!(empty || content.is_some_and(|content| !content.is_empty()), "{name}: {status} has no content");
            }
        }
        assert!(operation["responses"].get("default").is_some(), "{name}: other refusals are not described");
    }
    let info = document["info"]["description"].as_str().unwrap();
    assert!(info.contains("HEAD"));
}

/// Each path constant of `api::route` that belongs to the interface stands in the document.
#[test]
fn every_route_is_in_the_document() {
    let document = document();
    let described: BTreeSet<&str> = operations(&document).iter().map(|(path, ..)| *path).collect();
    let routes = include_str!("../../src/api/route.rs")
        .lines()
        .filter_map(|line| line.split_once(": &str = \"/")?.1.strip_suffix("\";"))
        .map(|path| format!("/{path}"))
        .filter(|path| !path.starts_with("/docs") && path != "/openapi.json");
    for route in routes {
        let suffixed = format!("{route}.safetensors");
        assert!(
            described.contains(route.as_str()) || described.contains(suffixed.as_str()),
            "{route} is not described"
        );
    }
}

#[tokio::test]
async fn every_described_path_is_served() {
    let data = tempfile::tempdir().unwrap();
    let registry = Registry::open(data.path(), Options::default()).await.unwrap();
    let router = cairn::http::router(registry);
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        (status, text(response.into_body()).await)
    };
    let (_, unknown) = ask("GET", "/v1/no-such-path").await;
    assert!(unknown.contains("nothing is served at this path"));
    for (path, method, _) in operations(&document()) {
        let path = path
            .replace("{content_hash}", &"0".repeat(64))
            .replace("{group_hash}", &"1".repeat(64))
            .replace("{id}", &"2".repeat(32))
            .replace("{group}", "encoder")
            .replace("{file}", "weights.safetensors")
            .replace("{name}", "encoder.w")
            .replace("{run}", "r")
            .replace("{round_index}", "0")
            .replace("{kind}", "run-manifest")
            .replace("{digest}", &"3".repeat(64))
            .replace("{participant}", "p");
        assert!(!path.contains('{'), "{path}");
        let (status, body) = ask(&method.to_uppercase(), &path).await;
        assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        assert!(!body.contains("nothing is served at this path"), "{method} {path} is not served: {body}");
        if method == "get" {
            assert_eq!(ask("HEAD", &path).await.0, status, "HEAD {path}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "these answers are small")]
async fn text(body: Body) -> String {
    String::from_utf8(axum::body::to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap()
}
