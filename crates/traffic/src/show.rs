//! Packets decoded: one line each, in the words of the packet grammar.

use crate::form::{Form, Moment, get_bits};
use crate::headers::Role;
use crate::value::text_of;

impl Form {
    /// Returns packet `n` as a line: its number, flow, size, headers with the fields that were written or that matter,
    /// bytes of payload.
    pub fn line(&self, n: u64) -> String {
        let frame = self.packet(n, Moment::default());
        let (flow, number) = self.flow_of(n);
        let headers: Vec<String> = self
            .headers()
            .iter()
            .filter(|laid| !laid.bytes.is_empty())
            .map(|laid| {
                let mut words = vec![laid.kind.name().to_owned()];
                let fields = laid.kind.info().fields.iter();
                let fields = fields.filter(|field| !matches!(field.role, Role::Option | Role::Optional));
                for field in fields.filter(|field| field.shown || laid.written.contains(&field.name)) {
                    let value = get_bits(&frame, laid.bytes.start * 8 + field.bit, field.width);
                    words.push(format!("{}={}", field.name, text_of(field.kind, value)));
                }
                // Fields that are there only if they are written.
                for vary in self
                    .varies()
                    .iter()
                    .filter(|vary| laid.bytes.contains(&vary.span().start))
                {
                    let (bit, width) = vary.place();
                    let place = laid.bytes.start * 8;
                    let fixed = laid.kind.info().fields.iter().any(|field| {
                        !matches!(field.role, Role::Option | Role::Optional)
                            && (place + field.bit..place + field.bit + field.width as usize).contains(&bit)
                    });
                    if !fixed {
                        let name = vary.name.rsplit(['.', '@']).next().unwrap_or_default();
                        words.push(format!("{name}={}", text_of(vary.kind(), get_bits(&frame, bit, width))));
                    }
                }
                words.join(" ")
            })
            .collect();
        let payload = frame.len() - self.header_len();
        format!(
            "{n} flow {flow} number {number} size {}: {} / payload {payload} bytes",
            frame.len() + 4,
            headers.join(" / ")
        )
    }
}
