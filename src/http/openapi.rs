//! The description of the interface, made from the handlers; `openapi/cairn.json` is its checked-in copy.

use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "cairn",
        description = "A registry for federated training: checkpoints that are verified while they arrive, fetched by \
            content hash, and never changed.\n\nEvery refusal is `application/problem+json` with a stable `code`, a \
            message and a remediation; see `docs/errors.md`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "artifacts", description = "Verified checkpoints and their bytes"),
        (name = "uploads", description = "Resumable uploads"),
        (name = "operation", description = "Is it alive, is it ready"),
    )
)]
pub(super) struct Document;
