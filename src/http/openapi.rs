//! The description of the interface, made from the handlers; `openapi/cairn.json` is its checked-in copy.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{self, Content, Ref, RefOr, Required, Response, ResponseBuilder, Schema};
use utoipa::{OpenApi, PartialSchema, ToSchema};

use crate::api::problem::{MEDIA_TYPE, Problem};
use crate::api::route;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "cairn",
        description = "A registry for federated training: checkpoints that are verified while they arrive, fetched by \
            content hash, and never changed.\n\nEvery refusal is `application/problem+json` with a stable `code`, a \
            message and a remediation; [the codes](/docs/errors) are described one by one. Every answer carries \
            `X-Request-Id`, the name of the request in the server's log. Every GET also answers HEAD.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "artifacts", description = "Verified checkpoints and their bytes"),
        (name = "uploads", description = "Resumable uploads"),
        (name = "runs", description = "Histories of rounds: commit, follow, fetch"),
        (name = "documents", description = "What says why a round is what it is"),
        (name = "operation", description = "Is it alive, is it ready"),
    ),
    components(schemas(Problem))
)]
pub(super) struct Document;

/// A body of plain bytes.
pub(super) struct Binary;

impl PartialSchema for Binary {
    fn schema() -> RefOr<Schema> {
        text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary))).build().into()
    }
}

impl ToSchema for Binary {}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// What a request for bytes may carry.
const CONDITIONS: [(&str, &str); 3] = [
    ("Range", "One range of bytes; several are answered by the whole"),
    ("If-Range", "The `ETag` of what the client holds a part of; the whole is sent if it is another"),
    ("If-None-Match", "The `ETag` of what the client holds; 304 if it is still that"),
];

/// What every answer with bytes carries.
const PROPERTIES: [(&str, &str); 4] = [
    ("ETag", "Strong: other bytes never have the same"),
    ("Accept-Ranges", "`bytes`"),
    ("Cache-Control", "`public, max-age=31536000, immutable`: what a hash names never changes"),
    ("Content-Disposition", "The name under which to save it"),
];

/// The name of the shared response.
const REFUSED: &str = "Refused";

/// Adds what all routes have in common, and writes paths as clients see them.
pub(super) fn complete(mut document: openapi::OpenApi) -> openapi::OpenApi {
    let refused = ResponseBuilder::new()
        .description("Any other refusal")
        .content(MEDIA_TYPE, Content::new(Some(Ref::from_schema_name("Problem"))))
        .build();
    document.components.get_or_insert_default().responses.insert(REFUSED.to_owned(), refused.into());
    // A segment is matched whole; its handler takes the suffix off.
    if let Some(group) = document.paths.paths.remove(route::GROUP) {
        document.paths.paths.insert(format!("{}.safetensors", route::GROUP), group);
    }
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            let refused = Ref::from_response_name(REFUSED);
            operation.responses.responses.insert("default".to_owned(), RefOr::Ref(refused));
            if operation.responses.responses.contains_key("206") {
                describe_bytes(operation);
            }
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, head, patch, .. } = item;
    [get, put, post, delete, head, patch].into_iter().flatten()
}

/// Conditions and ranges work alike wherever bytes are sent.
fn describe_bytes(operation: &mut Operation) {
    let condition = |(name, description): (&str, &str)| {
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Header);
        let parameter = parameter.required(Required::False).description(Some(description));
        RefOr::T(parameter.schema(Some(text())).build())
    };
    operation.parameters.get_or_insert_default().extend(CONDITIONS.map(condition));
    let answers = &mut operation.responses.responses;
    for status in ["200", "206"] {
        if let Some(RefOr::T(answer)) = answers.get_mut(status) {
            PROPERTIES.iter().for_each(|(name, description)| header(answer, name, description));
        }
    }
    let content = match answers.get("200") {
        Some(RefOr::T(whole)) => whole.content.clone(),
        _ => return,
    };
    if let Some(RefOr::T(part)) = answers.get_mut("206") {
        part.content = content;
        header(part, "Content-Range", "Which bytes these are, and of how many");
    }
    if let Some(RefOr::T(outside)) = answers.get_mut("416") {
        header(outside, "Content-Range", "`bytes */` and the number of bytes there are");
    }
}

fn header(response: &mut Response, name: &str, description: &str) {
    let header = HeaderBuilder::new().schema(Some(text())).description(Some(description)).build();
    response.headers.insert(name.to_owned(), header.into());
}
