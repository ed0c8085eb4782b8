//! Numbers in sentences for people: one way of writing them, for the report's tables and for the verdict's reasons.

/// A count with thousands set apart: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::count;
    use proptest::prelude::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    proptest! {
        #[test]
        fn a_count_is_the_number_without_its_commas(n: u64) {
            prop_assert_eq!(count(n).replace(',', "").parse::<u64>().unwrap(), n);
        }
    }
}
