//! Drawing tools of the view: styles, a pane that lines are put into, bars and strips.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

/// Styles. No meaning is in a colour alone: words show it too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Whether colours are used; false if `NO_COLOR` is set.
    pub(crate) colour: bool,
}

impl Look {
    fn colour(self, colour: Color) -> Style {
        match self.colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub(crate) fn good(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Returns the style of the tab that is shown.
    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn bar(self) -> Style {
        self.colour(Color::Cyan)
    }

    pub(crate) fn lost(self) -> Style {
        self.colour(Color::Red)
    }
}

/// A part of the screen that is filled from the top. Lines that do not fit are left out.
pub(crate) struct Pane<'b> {
    pub(crate) buf: &'b mut Buffer,
    pub(crate) area: Rect,
}

impl Pane<'_> {
    /// Returns the number of rows that are left.
    pub(crate) fn rows(&self) -> usize {
        usize::from(self.area.height)
    }

    /// Returns the number of columns.
    pub(crate) fn columns(&self) -> usize {
        usize::from(self.area.width)
    }

    /// Takes the next rows, at most as many as are left.
    pub(crate) fn take(&mut self, rows: usize) -> Rect {
        let height = self.area.height.min(u16::try_from(rows).unwrap_or(u16::MAX));
        let taken = Rect { height, ..self.area };
        self.area.y += height;
        self.area.height -= height;
        taken
    }

    pub(crate) fn line(&mut self, line: &Line<'_>) {
        let row = self.take(1);
        if row.height > 0 && row.width > 0 {
            self.buf.set_line(row.x, row.y, line, row.width);
        }
    }

    /// Draws a line with a text at its right end, if both fit.
    pub(crate) fn line_and(&mut self, line: &Line<'_>, right: &Line<'_>) {
        let row = self.take(1);
        if row.height == 0 || row.width == 0 {
            return;
        }
        let wide = u16::try_from(right.width()).unwrap_or(u16::MAX).min(row.width);
        let left = row.width - wide;
        self.buf.set_line(row.x, row.y, line, left.saturating_sub(1));
        self.buf.set_line(row.x + left, row.y, right, wide);
    }

    /// Draws the lines from number `from` on.
    pub(crate) fn lines(&mut self, lines: &[Line<'_>], from: usize) {
        lines.iter().skip(from).for_each(|line| self.line(line));
    }
}

const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PARTS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Returns a bar to the right; a full bar has `columns` columns. A value above 0 is never blank.
pub(crate) fn bar(share: f64, columns: usize) -> String {
    let eighths = match share {
        share if share > 0.0 => ((share.min(1.0) * columns as f64 * 8.0).round() as usize).max(1),
        _ => 0,
    };
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(PARTS[eighths % 8 - 1]);
    }
    text
}

/// Draws values as upward bars of one column each, the last at the right end; `None`: the value is not known.
pub(crate) fn strip(buf: &mut Buffer, area: Rect, values: &[Option<f64>], top: f64, style: Style) {
    if area.height == 0 || top <= 0.0 {
        return;
    }
    let skipped = values.len().saturating_sub(usize::from(area.width));
    for (x, value) in (area.x..).zip(&values[skipped..]) {
        let Some(value) = value.filter(|value| *value > 0.0) else {
            continue;
        };
        let whole = f64::from(area.height) * 8.0;
        let mut eighths = ((value / top).min(1.0) * whole).round().max(1.0) as usize;
        for y in (area.y..area.bottom()).rev() {
            if eighths == 0 {
                break;
            }
            let part = eighths.min(8);
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.set_char(EIGHTHS[part - 1]).set_style(style);
            }
            eighths -= part;
        }
    }
}

/// Returns text as a line.
pub(crate) fn plain(text: impl Into<String>) -> Line<'static> {
    Line::from(text.into())
}

/// Returns text in one style as a line.
pub(crate) fn styled(text: impl Into<String>, style: Style) -> Line<'static> {
    Line::from(Span::styled(text.into(), style))
}

/// Returns a text in lines of at most this many columns, folded between words. All but the first are indented by two.
pub(crate) fn folded(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = vec![String::new()];
    let wide = |text: &str| Line::from(text).width();
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("one");
        let begun = !line.trim_start().is_empty();
        if begun && wide(line) + 1 + wide(word) > columns {
            lines.push(format!("  {word}"));
        } else if begun {
            line.push(' ');
            line.push_str(word);
        } else {
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_every_share_above_none() {
        assert_eq!((bar(0.0, 10), bar(1e-9, 10)), (String::new(), "▏".to_owned()));
        assert_eq!((bar(0.5, 10), bar(2.0, 3)), ("█████".to_owned(), "███".to_owned()));
    }

    #[test]
    fn a_strip_is_as_high_as_its_values_and_shows_the_newest() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 3, 2));
        let values = [Some(9.0), None, Some(1e-9), Some(2.0)];
        strip(&mut buf, Rect::new(0, 0, 3, 2), &values, 2.0, Style::new());
        assert_eq!(buf, Buffer::with_lines(["  █", " ▁█"]));
    }

    #[test]
    fn texts_are_folded_between_words() {
        assert_eq!(folded("one two three four", 10), ["one two", "  three", "  four"]);
        assert_eq!(folded("", 10), [""]);
    }
}
