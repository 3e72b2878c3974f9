//! Tensors under names that a path cannot hold as they are.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::checkpoint::{CheckpointBuilder, Dtype};
use crate::support::raw::Raw;
use crate::support::server::TestServer;

const NAMES: &[&str] = &[
    "encoder.a/b",
    "encoder./",
    "encoder.a%2Fb",
    "encoder.100%",
    "encoder.%",
    "encoder.%00",
    "encoder.nul\0in it",
    "encoder.\u{1}\n\r\t\u{7f}",
    "encoder.\"quoted\"",
    "encoder.it's",
    "encoder.back\\slash",
    "encoder.a b",
    "encoder.a+b",
    "encoder.a?b=c&d",
    "encoder.a#b",
    "encoder.{name}",
    "encoder.é",
    "encoder.e\u{301}",
    "encoder.重み😀",
    "encoder.Tribe\u{10d}_weights",
    "encoder..",
    "encoder...",
    "encoder.../../../etc/passwd",
    "encoder.",
    "encoder",
    "encoder.;a=b,c",
    "encoder.\u{2028}",
];

/// Percent-encodes every byte but letters and digits.
fn encoded(name: &str) -> String {
    name.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02x}") })
        .collect()
}

#[tokio::test]
async fn any_tensor_name_can_be_asked_for() {
    let server = TestServer::start().await;
    let api = &server.api;
    let types = [Dtype::F32, Dtype::Bf16, Dtype::F16];
    let builder = NAMES.iter().enumerate().fold(CheckpointBuilder::empty(1), |builder, (index, name)| {
        builder.tensor(name, types[index % 3], &vec![2; index % 9])
    });
    let checkpoint = builder.shards(3).shuffled().build();
    api.store(&checkpoint).await;
    api.check(&checkpoint).await;
    let mut tags = std::collections::HashSet::new();
    for tensor in &checkpoint.tensors {
        let path = format!("{}/tensors/{}", checkpoint.path(), encoded(&tensor.name));
        let answer = api.get(&path).await.expect(StatusCode::OK);
        assert!(answer.body == tensor.data, "{:?}", tensor.name);
        assert_eq!(answer.header("x-tensor-dtype"), tensor.dtype.token());
        assert_eq!(answer.header("x-tensor-shape"), json!(tensor.shape).to_string());
        assert!(tags.insert(answer.header("etag").to_owned()), "{:?} has the tag of another tensor", tensor.name);
        // Whatever the name, it cannot break out of the header that suggests a file name.
        let suggested = answer.header("content-disposition");
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-%".contains(&byte);
        let name = suggested
            .strip_prefix("attachment; filename*=UTF-8''")
            .or_else(|| suggested.strip_prefix("attachment; filename=\"").and_then(|rest| rest.strip_suffix('"')));
        assert!(name.is_some_and(|name| name.bytes().all(plain)), "{suggested}");
        let head = api.head(&path).await.expect(StatusCode::OK);
        assert_eq!(head.header("content-length"), tensor.data.len().to_string());
    }
}

/// A name is decoded once: a name with a literal `%2F` is not the one with a slash.
#[tokio::test]
async fn names_are_decoded_exactly_once() {
    let server = TestServer::start().await;
    let checkpoint = CheckpointBuilder::empty(2)
        .tensor("encoder.a/b", Dtype::F32, &[3])
        .tensor("encoder.a%2Fb", Dtype::F32, &[3])
        .build();
    server.api.store(&checkpoint).await;
    let tensor = |name: &str| &checkpoint.tensors.iter().find(|tensor| tensor.name == name).unwrap().data;
    for (asked, status, body) in [
        ("encoder.a%2Fb", 200, Some(tensor("encoder.a/b"))),
        ("encoder.a%2fb", 200, Some(tensor("encoder.a/b"))),
        ("encoder%2Ea%252Fb", 200, Some(tensor("encoder.a%2Fb"))),
        ("encoder.a/b", 404, None),
        ("encoder.a%25252Fb", 404, None),
        ("encoder.a%ff", 400, None),
        ("encoder.a%c0%af", 400, None),
    ] {
        let mut client = Raw::connect(server.address()).await;
        let path = format!("{}/tensors/{asked}", checkpoint.path());
        client.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        let answer = client.answer().await.unwrap();
        assert_eq!(answer.status, status, "{asked}: {}", String::from_utf8_lossy(&answer.body));
        if let Some(body) = body {
            assert!(answer.body == *body, "{asked}");
        } else {
            let code = if status == 404 { "registry_not_found" } else { "config_invalid" };
            answer.refused(status, code);
        }
    }
}
