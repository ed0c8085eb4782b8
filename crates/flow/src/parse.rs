//! Parses words into a rule.

use crate::fields::{Field, HEADERS, Values, fields_of, item_of};
use crate::layers::{check_place, check_types};
use crate::value::{number, quoted};
use crate::{Attributes, Item, Masked, Rule};
use std::str::{FromStr, SplitWhitespace};

/// A rule that can't be understood: one line that names the word and says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub String);

type Result<T> = std::result::Result<T, RuleError>;

pub(crate) fn wrong<T>(line: impl Into<String>) -> Result<T> {
    Err(RuleError(line.into()))
}

impl FromStr for Rule {
    type Err = RuleError;

    /// Reads what follows `flow create PORT` in testpmd.
    fn from_str(text: &str) -> Result<Self> {
        let mut words = Words(text.split_whitespace());
        let attributes = attributes(&mut words)?;
        let pattern = pattern(&mut words)?;
        check_types(&pattern)?;
        match words.next() {
            Some("actions") => {}
            Some(word) => return wrong(format!("{} after the pattern's 'end': want 'actions'", quoted(word))),
            None => return wrong("ends after the pattern: want 'actions ACTION / end'"),
        }
        let actions = crate::actions::parse(&mut words, &attributes)?;
        match words.next() {
            None => Ok(Self {
                attributes,
                pattern,
                actions,
            }),
            Some(word) => wrong(format!("{} after the last 'end': want nothing there", quoted(word))),
        }
    }
}

/// The words of a rule.
pub(crate) struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    /// The next word, which must be there: `want` says what it would be.
    pub(crate) fn expect(&mut self, after: &str, want: &str) -> Result<&'a str> {
        match self.0.next() {
            Some(word) => Ok(word),
            None => wrong(format!("ends after '{after}': want {want}")),
        }
    }

    /// The number behind `name`.
    pub(crate) fn number(&mut self, name: &str, most: u128) -> Result<u128> {
        let word = self.expect(name, "a number")?;
        number(word, most).or_else(|want| wrong(format!("{name} {}: {want}", quoted(word))))
    }
}

fn attributes(words: &mut Words<'_>) -> Result<Attributes> {
    let mut attributes = Attributes::default();
    let mut given: Vec<&str> = Vec::new();
    loop {
        let Some(word) = words.next() else {
            return wrong(match given.last() {
                Some(last) => format!("ends after '{last}': want 'pattern' and 'actions'"),
                None => "no words: want 'ingress pattern eth / end actions queue index 0 / end'".into(),
            });
        };
        if given.contains(&word) {
            return wrong(format!("'{word}' is given twice: want it once"));
        }
        match word {
            "ingress" => attributes.ingress = true,
            "egress" => attributes.egress = true,
            "transfer" => attributes.transfer = true,
            "group" => attributes.group = words.number("group", u32::MAX.into())? as u32,
            "priority" => attributes.priority = words.number("priority", u32::MAX.into())? as u32,
            "pattern" => break,
            "flow" | "create" => {
                return wrong(format!(
                    "'{word}': 'flow create PORT' is left out here: want what follows it, beginning with ingress"
                ));
            }
            other => {
                return wrong(format!(
                    "{} is no attribute: want ingress, egress, transfer, group N, priority N or 'pattern'",
                    quoted(other)
                ));
            }
        }
        given.push(word);
    }
    if !(attributes.ingress || attributes.egress || attributes.transfer) {
        return wrong("neither ingress, egress nor transfer is given: want ingress before 'pattern'");
    }
    Ok(attributes)
}

fn pattern(words: &mut Words<'_>) -> Result<Vec<Item>> {
    let mut items: Vec<Item> = Vec::new();
    loop {
        let after = items.last().map_or("pattern", |_| "/");
        let word = words.expect(after, "a header, or 'end'")?;
        if word == "end" {
            return Ok(items);
        }
        let Some(fields) = fields_of(word) else {
            return wrong(format!(
                "{} is no header that is known: want one of {}, or 'end'",
                quoted(word),
                HEADERS.join(", ")
            ));
        };
        check_place(&items, word)?;
        items.push(item(word, fields, words)?);
    }
}

/// Values that the rule gives for a field.
#[derive(Clone, Copy, Default)]
struct Said {
    spec: Option<u128>,
    /// The value is exact.
    is: bool,
    last: Option<u128>,
    mask: Option<u128>,
}

/// The fields of a header, up to its `/`.
fn item(header: &str, fields: &[Field], words: &mut Words<'_>) -> Result<Item> {
    let mut said = [Said::default(); 5];
    loop {
        let word = words.expect(header, "a field, or '/'")?;
        if word == "/" {
            break;
        }
        let Some(place) = fields.iter().position(|field| field.name == word) else {
            let names: Vec<_> = fields.iter().map(|field| field.name).collect();
            return wrong(format!(
                "{} is no field of {header}: want {} or '/'",
                quoted(word),
                names.join(", ")
            ));
        };
        said[place].hear(&fields[place], header, words)?;
    }
    let mut values = Values::default();
    for ((value, field), said) in values.iter_mut().zip(fields).zip(said) {
        *value = said.value(field).or_else(|line| wrong(format!("{header} {line}")))?;
    }
    item_of(header, values).or_else(|line| wrong(format!("{header}: {line}")))
}

impl Said {
    /// Reads `is VALUE` and the like.
    fn hear(&mut self, field: &Field, header: &str, words: &mut Words<'_>) -> Result<()> {
        let name = format!("{header} {}", field.name);
        let how = words.expect(&name, "is, spec, last, mask or prefix")?;
        if !["is", "spec", "last", "mask", "prefix"].contains(&how) {
            return wrong(format!("{name} {}: want is, spec, last, mask or prefix", quoted(how)));
        }
        let word = words.expect(&format!("{name} {how}"), "a value")?;
        let value = match how {
            "prefix" => field.prefix(word),
            _ => field.parse(word),
        };
        let value = value.or_else(|want| wrong(format!("{name} {how} {}: {want}", quoted(word))))?;
        let place = match how {
            "is" | "spec" => &mut self.spec,
            "last" => &mut self.last,
            _ => &mut self.mask,
        };
        if place.replace(value).is_some() {
            let what = match how {
                "last" => "an end of its range",
                "is" | "spec" => "a value",
                _ => "a mask",
            };
            return wrong(format!("{name} {how}: it has {what} already: want one"));
        }
        self.is |= how == "is";
        Ok(())
    }

    /// The value with its mask and range; the message lacks the header's name.
    fn value(self, field: &Field) -> std::result::Result<Option<Masked<u128>>, String> {
        let name = field.name;
        let Some(spec) = self.spec else {
            return match (self.mask, self.last) {
                (None, None) => Ok(None),
                _ => Err(format!(
                    "{name}: a mask or a range without a value: want '{name} spec VALUE', too"
                )),
            };
        };
        let mask = match (self.is, self.mask) {
            (true, Some(_)) => {
                return Err(format!(
                    "{name}: 'is' counts all bits, and there is a mask: want '{name} spec'"
                ));
            }
            (true, None) => crate::bits::ones(field.width),
            (false, Some(mask)) => mask,
            // testpmd would count no bit here, and match anything.
            (false, None) if field.default_mask == 0 => {
                let value = field.tell(spec);
                return Err(format!(
                    "{name} spec: no bit of it counts without '{name} mask': want '{name} is {value}', or a mask"
                ));
            }
            (false, None) => field.default_mask,
        };
        let last = self.last.unwrap_or(spec);
        if last & mask < spec & mask {
            let (first, last) = (field.tell(spec), field.tell(last));
            return Err(format!(
                "{name} last {last}: it is below {first}: want the end of the range"
            ));
        }
        Ok(Some(Masked { spec, last, mask }))
    }
}
