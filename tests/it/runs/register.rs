//! Registration: pins are read strictly, and never change.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::server::TestServer;

fn everything() -> Value {
    json!({
        "run": "full", "consortium": "acme", "wmcp_version": "wmcp-1.0.0", "probe_hash": "ab".repeat(32),
        "probe_version": 2, "config_hash": "cd".repeat(32), "participants": ["silo-α", "机器人-7", "a b/c"],
        "min_participants": 2, "visibility": "public",
        "warm_start": {"release": "vjepa2-2.0", "encoder_group_hash": "ef".repeat(32), "file_hash": null},
    })
}

/// D1: the same pins again are the same run; every other pin is refused by its name, and changes nothing.
#[tokio::test]
async fn pins_never_change() {
    let server = TestServer::start().await;
    let api = &server.api;
    let body = everything();
    let created = api.post("/v1/runs", body.to_string()).await.expect(StatusCode::CREATED);
    assert_eq!(created.header("location"), "/v1/runs/full");
    let run = created.json();
    for (pin, value) in body.as_object().unwrap() {
        match pin.as_str() {
            "participants" => assert_eq!(run[pin], json!(["a b/c", "silo-α", "机器人-7"])),
            "warm_start" => assert_eq!(run[pin]["encoder_group_hash"], value["encoder_group_hash"]),
            _ => assert_eq!(run[pin], *value),
        }
    }
    // Neither the order of fields nor the order of participants is a pin.
    let again = json!({"participants": ["机器人-7", "a b/c", "silo-α"]});
    let mut same = body.clone();
    same.as_object_mut().unwrap().extend(again.as_object().unwrap().clone());
    assert_eq!(api.post("/v1/runs", same.to_string()).await.expect(StatusCode::OK).json(), run);

    let changes = [
        ("consortium", json!("other")),
        ("wmcp_version", json!("wmcp-1.0.1")),
        ("probe_hash", json!("ac".repeat(32))),
        ("probe_hash", Value::Null),
        ("probe_version", json!(3)),
        ("config_hash", json!("ce".repeat(32))),
        ("participants", json!(["silo-α", "机器人-7"])),
        ("participants", json!([])),
        ("min_participants", json!(3)),
        ("visibility", json!("members")),
        ("warm_start", Value::Null),
        ("warm_start", json!({"release": "vjepa2-2.1", "encoder_group_hash": "ef".repeat(32)})),
    ];
    for (pin, value) in changes {
        let mut other = body.clone();
        other[pin] = value;
        if other["participants"] == json!([]) {
            other["min_participants"] = json!(2);
        }
        let problem = api.post("/v1/runs", other.to_string()).await.refused(409, "registry_conflict");
        assert_eq!(problem["fields"]["differing_fields"], json!([pin]), "{problem}");
    }
    assert_eq!(api.get("/v1/runs/full").await.expect(StatusCode::OK).json(), run);
}

/// D1: of many who register one name with different pins, one wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_name_is_one_run_however_many_ask_at_once() {
    let server = TestServer::start().await;
    let api = &server.api;
    let ask = |index: usize| {
        let body = json!({"run": "r", "consortium": format!("c{}", index % 2), "wmcp_version": "w"});
        async move { api.post("/v1/runs", body.to_string()).await }
    };
    let answers = futures_util::future::join_all((0..16).map(ask)).await;
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(201), count(200), count(409)), (1, 7, 8));
}

/// D1, bad input: a registration is read strictly, and what is wrong with it is told without being repeated.
#[tokio::test]
async fn registrations_are_read_strictly() {
    let server = TestServer::start().await;
    let api = &server.api;
    let base = r#""run":"r","consortium":"c","wmcp_version":"w""#;
    let bodies = [
        String::new(),
        "[]".into(),
        "null".into(),
        format!("{{{base}}} x"),
        format!(r#"{{{base},"run":"hunter2"}}"#),
        format!(r#"{{{base},"hunter2 is secret":1}}"#),
        format!(r#"{{{base},"min_participants":NaN}}"#),
        format!(r#"{{{base},"min_participants":-1}}"#),
        format!(r#"{{{base},"min_participants":1e3}}"#),
        format!(r#"{{{base},"min_participants":99999999999999999999}}"#),
        format!(r#"{{{base},"visibility":"hunter2"}}"#),
        format!(r#"{{{base},"probe_hash":"hunter2"}}"#),
        format!(r#"{{{base},"participants":["hunter2\u0000"]}}"#),
        format!(r#"{{{base},"participants":["\ud800"]}}"#),
        format!(r#"{{{base},"participants":["{}"]}}"#, "é".repeat(129)),
        format!(r#"{{{base},"warm_start":{}}}"#, "[".repeat(100_000)),
        format!(r#"{{{base},"warm_start":{}1{}}}"#, r#"{"a":"#.repeat(100), "}".repeat(100)),
        r#"{"run":"r","consortium":"c"}"#.into(),
        r#"{"run":"r","consortium":"c","wmcp_version":"wmcp-é"}"#.into(),
    ];
    for body in bodies {
        let answer = api.post("/v1/runs", body.clone()).await;
        let problem = answer.refused(400, "config_invalid");
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
    }
    // Names of runs and consortia stand in paths and locators.
    for name in ["", ".", "..", ".r", "-r", "a/b", "a b", "é", "机器人", "a\u{0}", "a%2e", &"r".repeat(129)] {
        for field in ["run", "consortium"] {
            let mut body = json!({"run": "r", "consortium": "c", "wmcp_version": "w"});
            body[field] = json!(name);
            api.post("/v1/runs", body.to_string()).await.refused(400, "config_invalid");
        }
    }
    assert_eq!(api.get("/v1/runs").await.json(), json!({"runs": [], "next_cursor": null}));
    for (name, stored) in [("r".repeat(128), 201), ("A0._-z".to_owned(), 201)] {
        let body = json!({"run": name, "consortium": name, "wmcp_version": "w"});
        assert_eq!(api.post("/v1/runs", body.to_string()).await.status, stored);
    }
    // Many participants with long names fit; more than 4,096 do not.
    for (count, status) in [(4096, 201), (4097, 400)] {
        let names: Vec<String> = (0..count).map(|index| format!("{index:0>128}")).collect();
        let body = json!({"run": format!("r{count}"), "consortium": "c", "wmcp_version": "w", "participants": names});
        assert_eq!(api.post("/v1/runs", body.to_string()).await.status, status, "{count}");
    }
}

/// Lists are paged, newest first, and every page says where the next one is.
#[tokio::test]
async fn runs_are_listed_in_pages() {
    let server = TestServer::start().await;
    let api = &server.api;
    for index in 0..7 {
        api.register(&format!("r{index}"), json!({})).await;
    }
    let (mut path, mut seen) = ("/v1/runs?limit=3".to_owned(), Vec::new());
    loop {
        let answer = api.get(&path).await.expect(StatusCode::OK);
        let page = answer.json();
        let names = page["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned());
        seen.extend(names);
        let Some(cursor) = page["next_cursor"].as_str() else {
            assert!(!answer.headers.contains_key("link"));
            break;
        };
        path = format!("/v1/runs?limit=3&cursor={cursor}");
        assert_eq!(answer.header("link"), format!("<{path}>; rel=\"next\""));
    }
    assert_eq!(seen, ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]);
    for query in ["limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=1", "offset=1", "limit=1&limit=2"] {
        api.get(&format!("/v1/runs?{query}")).await.refused(400, "config_invalid");
    }
}
