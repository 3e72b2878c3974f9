//! Every route. Bodies have idle timeouts where they are read, and no limit in front of them.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::{Router, routing};
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::openapi::{Document, complete};
use super::{artifact, docs, document, health, layer, problem, run, upload};
use crate::service::Registry;

fn described() -> OpenApiRouter<Arc<Registry>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(artifact::put::put_artifact, artifact::get::get_artifact))
        .routes(routes!(artifact::header::get_header))
        .routes(routes!(artifact::file::get_file))
        .routes(routes!(artifact::group::get_group))
        .routes(routes!(artifact::tensor::get_tensor))
        .routes(routes!(artifact::archive::get_archive))
        .routes(routes!(artifact::verify::verify_artifact))
        .routes(routes!(artifact::lineage::get_lineage))
        .routes(routes!(artifact::params::get_params))
        .routes(routes!(upload::create::create_upload))
        .routes(routes!(upload::get::get_upload, upload::abort::abort_upload))
        .routes(routes!(upload::file::head_upload_file, upload::append::append_upload_file))
        .routes(routes!(upload::finish::finish_upload))
        .routes(routes!(run::create::create_run, run::list::list_runs))
        .routes(routes!(run::get::get_run))
        .routes(routes!(run::head::get_head))
        .routes(routes!(run::events::get_events))
        .routes(routes!(run::commits::commit_round))
        .routes(routes!(run::aborts::abort_round, run::aborts::list_aborts))
        .routes(routes!(run::rounds::list_rounds))
        .routes(routes!(run::rounds::get_round))
        .routes(routes!(run::resolve::resolve_locator))
        .routes(routes!(run::ledger::get_ledger))
        .routes(routes!(run::audit::audit_run))
        .routes(routes!(document::list::list_documents))
        .routes(routes!(document::keep::keep_document, document::list::list_documents_of_kind))
        .routes(routes!(document::get::get_document))
        .routes(routes!(document::commitments::list_commitments))
        .routes(routes!(document::commitments::keep_commitment, document::commitments::list_commitments_of_participant))
        .routes(routes!(document::check::verify_ledger))
        .routes(routes!(document::check::verify_proof))
        .routes(routes!(document::check::hash_config))
        .routes(routes!(health::get_health))
        .routes(routes!(health::get_ready))
        .routes(routes!(health::get_metrics))
}

/// The description of the interface.
#[must_use]
pub fn openapi() -> OpenApi {
    complete(described().into_openapi())
}

/// The service.
pub fn router(registry: Arc<Registry>) -> Router {
    let (routes, document) = described().split_for_parts();
    routes
        .merge(docs::routes(complete(document)))
        .fallback(routing::any(problem::unknown_path))
        .method_not_allowed_fallback(problem::unknown_method)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn(problem::write_problems))
        .layer(from_fn_with_state(registry.clone(), layer::trace))
        .layer(from_fn(layer::request_id))
        .with_state(registry)
}
