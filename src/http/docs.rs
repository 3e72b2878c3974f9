//! `/openapi.json`, `/docs` and the page of error codes that problem documents point to.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd, html};
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::api::route;

/// Routes of the documentation; everything is in the program, nothing is fetched from elsewhere.
pub fn routes<S: Clone + Send + Sync + 'static>(document: utoipa::openapi::OpenApi) -> Router<S> {
    let page = SwaggerUi::new(route::DOCS)
        .url(route::OPENAPI, document)
        .config(Config::default().try_it_out_enabled(false).deep_linking(true).validator_url("none"));
    Router::new().merge(page).route(route::ERRORS, get(errors))
}

async fn errors() -> impl IntoResponse {
    static PAGE: LazyLock<String> = LazyLock::new(|| page(include_str!("../../docs/errors.md")));
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
    ];
    (headers, PAGE.as_str())
}

/// A Markdown document as a page of its own. Each second-level heading can be linked to by its text, and all of them
/// are listed before the first.
fn page(markdown: &str) -> String {
    let mut events: Vec<Event<'_>> = Parser::new(markdown).collect();
    let begins_section =
        |event: &Event<'_>| matches!(event, Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }));
    let starts: Vec<usize> = (0..events.len()).filter(|at| begins_section(&events[*at])).collect();
    let mut contents = String::from("<ul class=\"contents\">\n");
    for start in &starts {
        let title = heading(&events[*start..]);
        contents.extend(["<li><a href=\"#", &title, "\">", &title, "</a></li>\n"]);
        if let Event::Start(Tag::Heading { id, .. }) = &mut events[*start] {
            *id = Some(title.into());
        }
    }
    contents.push_str("</ul>\n");
    let sections = events.split_off(starts.first().copied().unwrap_or(events.len()));
    let mut body = HEAD.to_owned();
    html::push_html(&mut body, events.into_iter());
    body.push_str(&contents);
    html::push_html(&mut body, sections.into_iter());
    body.push_str("</main>\n");
    body
}

/// The plain text of the heading that begins here.
fn heading(events: &[Event<'_>]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    inside.filter_map(|event| if let Event::Text(text) = event { Some(text.as_ref()) } else { None }).collect()
}

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>cairn: error codes</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; margin: 0; }
main { max-width: 46rem; margin: 0 auto; padding: 1.5rem; }
h2 { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 1.15rem; font-weight: normal;
     margin: 2.5rem 0 .5rem; padding-top: .5rem; border-top: 1px solid #8886; }
h2:target { background: #fd03; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .92em; }
.contents { columns: 3 13rem; padding: 0; list-style: none; font-size: .9em; }
</style>
<main>
"#;
