//! Pictures as bytes for a terminal: the difference from the picture before, each frame in a synchronized update.

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};
use std::fmt::Write;

/// Switches to the alternate screen, and hides the cursor.
pub(crate) const ENTER: &str = "\x1b[?1049h\x1b[?25l";

/// Returns a frame that turns the picture `before` into `next`. If `before` is missing or has another size, every cell
/// is written. Nothing is cleared: cells are overwritten.
pub(crate) fn frame(before: Option<&Buffer>, next: &Buffer) -> String {
    let mut out = String::from("\x1b[?2026h");
    let mut at = None;
    let mut style = None;
    let mut put = |x: u16, y: u16, cell: &Cell| {
        // Writing to a String does not fail.
        if at != Some((x, y)) {
            let _ = write!(out, "\x1b[{};{}H", y + 1, x + 1);
        }
        let new = (cell.fg, cell.modifier);
        if style != Some(new) {
            out.push_str("\x1b[0");
            codes(&mut out, cell);
            out.push('m');
            style = Some(new);
        }
        out.push_str(cell.symbol());
        // A wide character also covers the next cell. Terminals do not agree on where the cursor is after it.
        at = cell.symbol().is_ascii().then_some((x + 1, y));
    };
    match before.filter(|before| before.area() == next.area()) {
        Some(before) => before.diff(next).into_iter().for_each(|(x, y, cell)| put(x, y, cell)),
        None => {
            // Compared with a character that no picture contains, so that every cell differs.
            let other = Buffer::filled(*next.area(), Cell::new("\u{e000}"));
            other.diff(next).into_iter().for_each(|(x, y, cell)| put(x, y, cell));
        }
    }
    out.push_str("\x1b[0m\x1b[?2026l");
    out
}

/// Writes the codes of a cell's style (ECMA-48, SGR). Colours are those of the terminal's own theme.
fn codes(out: &mut String, cell: &Cell) {
    let modifiers = [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::REVERSED, ";7"),
    ];
    let set = modifiers
        .iter()
        .filter(|(modifier, _)| cell.modifier.contains(*modifier));
    set.for_each(|(_, code)| out.push_str(code));
    out.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Cyan => ";36",
        _ => "",
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui_core::style::Style;

    #[test]
    fn the_first_frame_writes_every_cell_and_the_next_only_what_changed() {
        let before = Buffer::with_lines(["ab", "cd"]);
        let first = frame(None, &before);
        assert_eq!(first, "\x1b[?2026h\x1b[1;1H\x1b[0mab\x1b[2;1Hcd\x1b[0m\x1b[?2026l");
        let mut next = before.clone();
        next.set_string(1, 1, "x", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        assert_eq!(
            frame(Some(&before), &next),
            "\x1b[?2026h\x1b[2;2H\x1b[0;1;31mx\x1b[0m\x1b[?2026l"
        );
        assert_eq!(frame(Some(&next), &next), "\x1b[?2026h\x1b[0m\x1b[?2026l");
        assert!(frame(Some(&Buffer::with_lines(["a"])), &next).contains("ab"));
    }
}
