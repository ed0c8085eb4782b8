//! Compares the page on traffic files with the tables of headers and keys. `MPPS_WRITE=1 cargo test -p mpps-traffic
//! page` writes them.

use crate::file::{KEYS, Type};
use crate::headers::{INFO, Kind, Role};
use std::path::Path;

/// Compares the lines of the page from `head` up to an empty line with `made`, or writes them.
fn holds(head: &str, made: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/traffic.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let start = text.find(head).unwrap_or_else(|| panic!("no line '{head}'"));
    let end = start + text[start..].find("\n\n").expect("an empty line");
    if std::env::var_os("MPPS_WRITE").is_some() {
        let text = format!("{}{made}{}", &text[..start], &text[end..]);
        return std::fs::write(page, text).expect("writable");
    }
    assert!(
        &text[start..end] == made,
        "docs/use/traffic.md is not what headers.rs and file.rs make of it: MPPS_WRITE=1 cargo test -p mpps-traffic \
         page"
    );
}

/// Both tables are in one file: one test, so that no two write it at once.
#[test]
fn headers_and_keys_are_on_the_page() {
    const HEADERS: &str = "| header | fields | worked out unless written |";
    holds(HEADERS, &headers(HEADERS));
    const STREAM: &str = "| key of a stream | type | meaning |";
    let row = |key: &crate::file::Key| {
        let kind = match key.form {
            Type::Text => "text",
            Type::Count => "number",
            Type::Flag => "true or false",
            Type::Counts => "list of numbers",
            Type::Burst => "table",
        };
        format!("\n| `{}` | {kind} | {} |", key.name, key.about)
    };
    let rows: String = KEYS.iter().map(row).collect();
    holds(STREAM, &format!("{STREAM}\n|---|---|---|{rows}"));
}

fn headers(head: &str) -> String {
    let mut out = format!("{head}\n|---|---|---|");
    for info in &INFO {
        let fields = |made: bool| {
            let of = info.fields.iter().filter(|field| {
                let worked_out = matches!(
                    field.role,
                    Role::Next(_) | Role::Length { .. } | Role::Own { .. } | Role::Sum(_) | Role::Last
                );
                worked_out == made
            });
            let all: Vec<String> = of
                .map(|field| match (field.kind, field.width) {
                    (Kind::Bytes, _) => format!("`{}` bytes", field.name),
                    (Kind::Segments, _) => format!("`{}` addresses", field.name),
                    (_, 0) => format!("`{}`", field.name),
                    (_, width) => format!("`{}` {width}", field.name),
                })
                .collect();
            all.join(", ")
        };
        let names: Vec<_> = info.names.iter().map(|name| format!("`{name}`")).collect();
        out.push_str(&format!(
            "\n| {} | {} | {} |",
            names.join(", "),
            fields(false),
            fields(true)
        ));
    }
    out.replace("|  |", "| |")
}
