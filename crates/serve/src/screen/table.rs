//! Tables of which a narrow terminal shows the first columns.

/// A column of a table: its name, its width, and its text for an entry.
pub(super) type Field<T> = (&'static str, usize, fn(&T) -> String);

/// Text of a value that is not known.
pub(super) fn none() -> String {
    "-".to_owned()
}

/// Returns the heading and the rows of a table, with the columns for which there is room.
pub(super) fn rows<T>(fields: &[Field<T>], entries: &[&T], columns: usize) -> (String, Vec<String>) {
    let (mut shown, mut room) = (Vec::new(), columns);
    for field in fields {
        let Some(left) = room.checked_sub(field.1 + 1) else {
            break;
        };
        shown.push(field);
        room = left;
    }
    let row = |cell: &dyn Fn(&Field<T>) -> String| {
        let cells = shown.iter().map(|field| format!("{:>1$}", cell(field), field.1));
        cells.collect::<Vec<_>>().join(" ")
    };
    let head = row(&|field| field.0.to_owned());
    (
        head,
        entries.iter().map(|entry| row(&|field| (field.2)(entry))).collect(),
    )
}
