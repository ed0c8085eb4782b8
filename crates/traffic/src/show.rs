//! Packets decoded: one line each, in the words of the packet grammar.

use crate::form::{Form, Moment, Shown, get_bits};
use crate::headers::{HeaderKind, Role};
use crate::value::text_of;

impl Form {
    /// Returns packet `n` as a line: its number, flow, size and payload, and, behind a colon, a packet that is like it:
    /// the fields that were written, and those that matter.
    pub fn line(&self, n: u64) -> String {
        let frame = self.packet(n, Moment::default());
        let (flow, number) = self.flow_of(n);
        let headers: Vec<String> = self
            .headers()
            .iter()
            .map(|laid| {
                let mut words = vec![laid.kind.name().to_owned()];
                let given = |name: &str| {
                    laid.given
                        .iter()
                        .any(|given| matches!(given, Shown::Bits(of, ..) if of == name))
                };
                let fields = laid.kind.info().fields.iter();
                let fields = fields.filter(|field| !matches!(field.role, Role::Option | Role::Optional));
                for field in fields.filter(|field| field.shown && !given(field.name)) {
                    let value = get_bits(&frame, laid.bytes.start * 8 + field.bit, field.width);
                    words.push(format!("{}={}", field.name, text_of(field.kind, value)));
                }
                // Places in the payload count from its start.
                let from = if laid.kind == HeaderKind::Payload {
                    self.header_len() * 8
                } else {
                    0
                };
                for given in &laid.given {
                    words.push(match given {
                        Shown::Text(text) => text.clone(),
                        Shown::Bits(name, bit, width, kind) => {
                            format!("{name}={}", text_of(*kind, get_bits(&frame, from + bit, *width)))
                        }
                    });
                }
                words.join(" ")
            })
            .collect();
        let payload = frame.len() - self.header_len();
        format!(
            "{n} flow {flow} number {number} size {} payload {payload}: {}",
            frame.len() + 4,
            headers.join(" / ")
        )
    }
}
