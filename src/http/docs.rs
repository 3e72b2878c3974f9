//! `/openapi.json`, `/docs` and the page of error codes that problem documents point to.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::api::route;

/// Routes of the documentation; everything is in the program, nothing is fetched from elsewhere.
pub fn routes<S: Clone + Send + Sync + 'static>(document: utoipa::openapi::OpenApi) -> Router<S> {
    let page = SwaggerUi::new(route::DOCS)
        .url(route::OPENAPI, document)
        .config(Config::default().try_it_out_enabled(false).deep_linking(true).validator_url("none"));
    Router::new().merge(page).route("/docs/errors", get(errors))
}

async fn errors() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], include_str!("../../docs/errors.md"))
}
