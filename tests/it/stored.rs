//! What is stored stays what it is when the server's settings change.

use std::convert::Infallible;

use bytes::Bytes;
use cairn::core::digest::ContentHash;
use cairn::core::limits::Limits;
use cairn::service::{Options, Registry};

use crate::samples::Sample;

#[tokio::test]
async fn lower_limits_do_not_hide_what_is_stored() {
    let data = tempfile::tempdir().unwrap();
    let sample = Sample::golden("shards-3");
    let hash: ContentHash = sample.parsed().content_hash;
    let body = || futures_util::stream::iter([Ok::<_, Infallible>(Bytes::from(sample.archive()))]);

    let registry = Registry::open(data.path(), Options::default()).await.unwrap();
    registry.put_artifact(hash, body()).await.unwrap();
    registry.close().await;
    drop(registry);

    let limits = Limits {
        header_bytes: 1,
        container_header_bytes: 2,
        index_bytes: 1,
        tensors: 1,
        rank: 0,
        name_bytes: 1,
        shards: 1,
        file_bytes: 1,
        artifact_bytes: 1,
    };
    let registry = Registry::open(data.path(), Options { limits, ..Options::default() }).await.unwrap();
    registry.sound_artifact(hash).await.unwrap();
    registry.fetch_file(hash, &sample.files[0].0).await.unwrap();
    registry.fetch_group(hash, "encoder").await.unwrap();
    registry.fetch_archive(hash).await.unwrap();
    registry.verify_artifact(hash, None).await.unwrap();
    assert!(registry.put_artifact(hash, body()).await.is_err(), "the limits hold for what comes in");
}
