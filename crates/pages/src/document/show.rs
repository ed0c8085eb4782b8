//! Numbers of a table's column or of an axis as people read them. All of them have one unit, which is shown once.

use super::{Column, Document, Table, Unit};
use crate::plot::scale::prefix;
use mpps_report::units::{count, percent};
use serde_json::{Value, json};

/// Unit in which the numbers of a column or an axis are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// Divisor of the numbers.
    pub(crate) divide: f64,
    /// Name of the unit with its prefix; empty if there is none.
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
}

impl Shown {
    /// Returns the unit in which `typical` is 1 or more.
    pub(crate) fn of(unit: Unit, typical: f64) -> Self {
        let top = typical.abs();
        let named = |names: [&'static str; 4]| {
            let (divide, name) = prefix(top);
            (
                divide,
                names[["", "k", "M", "G"].iter().position(|n| *n == name).unwrap_or(0)],
            )
        };
        let first = |units: &[(f64, &'static str)]| {
            let found = units.iter().find(|(from, _)| top >= *from).or(units.last());
            found.copied().unwrap_or((1.0, ""))
        };
        let (divide, name) = match unit {
            Unit::Plain | Unit::Count => (1.0, ""),
            Unit::Bytes => (1.0, "bytes"),
            Unit::Pps => named(["pps", "kpps", "Mpps", "Gpps"]),
            Unit::Bps => named(["bps", "kbps", "Mbps", "Gbps"]),
            Unit::Ns if top == 0.0 => (1.0, "ns"),
            Unit::Ns => first(&[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")]),
            Unit::S if top == 0.0 => (1.0, "s"),
            Unit::S => first(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
            Unit::Ratio => (0.01, "%"),
        };
        Self { divide, name, unit }
    }

    /// Returns the units of a table's columns. Columns of one kind share a unit, so that they can be compared, unless
    /// one has far larger numbers than the others.
    pub(crate) fn of_table(table: &Table) -> Vec<Self> {
        let typical: Vec<f64> = (0..table.columns.len())
            .map(|i| middle(table.rows.iter().filter_map(|row| row.get(i))))
            .collect();
        let of_kind = |unit: Unit| {
            let columns = table.columns.iter().zip(&typical);
            columns
                .filter(move |(c, typical)| c.unit == unit && **typical > 0.0)
                .map(|(_, typical)| *typical)
        };
        let shown = |(column, typical): (&Column, &f64)| {
            let least = of_kind(column.unit).fold(f64::INFINITY, f64::min);
            let most = of_kind(column.unit).fold(0.0, f64::max);
            let shared = most > 0.0 && most < least * FAR;
            Self::of(column.unit, if shared { least } else { *typical })
        };
        table.columns.iter().zip(&typical).map(shown).collect()
    }

    /// Returns a heading with the unit behind it.
    pub(crate) fn heading(&self, title: &str) -> String {
        match self.name {
            "" => headed(title),
            name => format!("{} ({name})", headed(title)),
        }
    }

    /// Returns a number, without its unit.
    pub(crate) fn number(&self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        match self.unit {
            Unit::Plain if value.abs() >= 0.01 && value.abs() < 1e9 => plain((value * 1e4).round() / 1e4),
            Unit::Plain => plain(value),
            Unit::Count | Unit::Bytes => whole(value),
            Unit::Ratio if value != 0.0 && (value * 100.0 - (value * 100.0).round()).abs() < 1e-9 => {
                plain((value * 100.0).round())
            }
            // 99.999, not 100.0.
            Unit::Ratio if (0.9995..=1.0).contains(&value) => plain(value * 100.0),
            Unit::Ratio => percent(value).trim_end_matches(" %").to_owned(),
            _ => digits(value / self.divide),
        }
    }

    /// Returns a cell of a table.
    pub(crate) fn cell(&self, value: &Value) -> String {
        match value {
            Value::Null => "–".to_owned(),
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            Value::String(text) => text.clone(),
            Value::Number(number) => match (self.unit, number.as_u64(), number.as_f64()) {
                (Unit::Count | Unit::Bytes, Some(whole), _) => count(whole),
                (Unit::Plain, Some(whole), _) => whole.to_string(),
                (_, _, Some(value)) => self.number(value),
                _ => number.to_string(),
            },
            other => other.to_string(),
        }
    }
}

/// Returns lines and tables of a document as texts, for a page that shows texts only.
pub fn shown(document: &Document) -> Value {
    let table = |table: &Table| {
        let units = Shown::of_table(table);
        let columns = || units.iter().zip(&table.columns);
        let row =
            |row: &Vec<Value>| -> Vec<String> { units.iter().zip(row).map(|(unit, value)| unit.cell(value)).collect() };
        json!({
            "caption": headed(&table.caption),
            "head": columns().map(|(unit, column)| unit.heading(&column.title)).collect::<Vec<_>>(),
            "texts": table.columns.iter().enumerate().map(|(at, column)| texts(table, at, column)).collect::<Vec<_>>(),
            "rows": table.rows.iter().take(ROWS_SHOWN).map(row).collect::<Vec<_>>(),
        })
    };
    json!({
        "title": document.title,
        "incomplete": document.incomplete,
        "verdict": document.verdict.iter().map(|line| headed(line)).collect::<Vec<_>>(),
        "tables": document.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

/// Returns whether a column contains words rather than numbers.
fn texts(table: &Table, at: usize, column: &Column) -> bool {
    column.unit == Unit::Plain && table.rows.iter().filter_map(|row| row.get(at)).any(Value::is_string)
}

/// Most rows of a table in [`shown`].
const ROWS_SHOWN: usize = 100;

/// Returns a heading, a label or a sentence with a capital first letter, if it begins with a word rather than a name.
pub fn headed(text: &str) -> String {
    let word = text
        .split(' ')
        .next()
        .unwrap_or_default()
        .trim_end_matches([',', ':', ';', '.']);
    let is_word = (word.len() >= 2 || word == "a") && word.chars().all(|c| c.is_ascii_lowercase());
    if !is_word || ["mpps", "pps", "bps", "ndr"].contains(&word) {
        return text.to_owned();
    }
    format!("{}{}", text[..1].to_ascii_uppercase(), &text[1..])
}

/// Largest ratio of numbers that share a unit.
const FAR: f64 = 2000.0;

/// Returns the middle one of these numbers, so that one outlier does not hide the others' digits; 0 if there is none.
fn middle<'v>(values: impl Iterator<Item = &'v Value>) -> f64 {
    let mut sizes: Vec<f64> = values.filter_map(Value::as_f64).map(f64::abs).collect();
    sizes.retain(|size| size.is_finite() && *size > 0.0);
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
}

/// Returns a number without needless digits.
fn plain(value: f64) -> String {
    if value.abs() >= 1e15 || (value != 0.0 && value.abs() < 1e-6) {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn whole(value: f64) -> String {
    if value.abs() >= 1e18 {
        return format!("{value:.3e}");
    }
    let sign = if value <= -0.5 { "-" } else { "" };
    let text = count(value.abs().round() as u64);
    // A fractional count is a mean.
    if value.fract() != 0.0 && value.abs() < 1000.0 {
        return plain((value * 100.0).round() / 100.0);
    }
    format!("{sign}{text}")
}

/// Returns a number with four digits, and thousands separated.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 1e18 => format!("{value:.3e}"),
        v if v >= 999.95 => whole(value.round()),
        v if v >= 99.995 => format!("{value:.1}"),
        v if v >= 9.9995 => format!("{value:.2}"),
        v if v >= 0.0095 => format!("{value:.3}"),
        v if v >= 1e-6 => plain(value),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_large_and_names_as_they_are() {
        for (text, want) in [
            ("load", "Load"),
            ("of that", "Of that"),
            ("p99", "p99"),
            ("a.json: sent", "a.json: sent"),
            ("mpps ndr", "mpps ndr"),
            ("FR", "FR"),
            ("x", "x"),
            ("a pause", "A pause"),
            ("", ""),
            ("not RFC 2544: short", "Not RFC 2544: short"),
        ] {
            assert_eq!(headed(text), want);
        }
    }

    #[test]
    fn a_column_has_one_unit_and_numbers_their_digits() {
        let values = [json!(820.0), json!(12_345), json!(1_500_000), json!(null), json!(7_000)];
        let shown = Shown::of(Unit::Ns, middle(values.iter()));
        assert_eq!(shown.heading("p99"), "p99 (µs)");
        let cells: Vec<_> = values.iter().map(|v| shown.cell(v)).collect();
        assert_eq!(cells, ["0.820", "12.35", "1,500", "–", "7.000"]);
        let ratio = Shown::of(Unit::Ratio, 0.5);
        assert_eq!(ratio.cell(&json!(0.5)), "50");
        assert_eq!(ratio.cell(&json!(1.1)), "110");
        assert_eq!(ratio.cell(&json!(0.1234)), "12.340");
        assert_eq!(ratio.cell(&json!(0)), "0");
        let rate = Shown::of(Unit::Pps, 14_880_952.0);
        assert_eq!((rate.number(14_880_952.0).as_str(), rate.name), ("14.88", "Mpps"));
        assert_eq!(Shown::of(Unit::Plain, 1.0).cell(&json!("a<b")), "a<b");
        assert_eq!(
            Shown::of(Unit::Count, 1.0).cell(&json!(u64::MAX)),
            "18,446,744,073,709,551,615"
        );
    }
}
