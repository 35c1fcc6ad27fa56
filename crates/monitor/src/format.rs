//! Which of two formats a client would rather have, by its Accept header.
//!
//! Prometheus names those that it can read with weights, OpenMetrics before its own; browsers and curl name neither.
//!
//! //= rfc9110#section-12.5.1

use crate::Format;

/// The media type of OpenMetrics. Its only version so far besides 1.0.0 is the draft 0.0.1, which says the same.
const OPENMETRICS: &str = "application/openmetrics-text";

/// `accept`: the header's values. Text, unless OpenMetrics is named, in a version that we write, and no less wanted.
pub(crate) fn chosen<'a>(accept: impl Iterator<Item = &'a [u8]>) -> Format {
    let (mut text, mut openmetrics) = (0, 0);
    for value in accept.filter_map(|value| std::str::from_utf8(value).ok()) {
        for range in value.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter = |name: &str| parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            let weight = parameter("q").map_or(1000, |(_, weight)| thousandths(weight));
            let is_ours = parameter("version").is_none_or(|(_, version)| matches!(*version, "1.0.0" | "0.0.1"));
            if kind.eq_ignore_ascii_case(OPENMETRICS) && is_ours {
                openmetrics = openmetrics.max(weight);
            } else if kind.eq_ignore_ascii_case("text/plain") {
                text = text.max(weight);
            }
        }
    }
    if openmetrics > 0 && openmetrics >= text { Format::OpenMetrics } else { Format::Text }
}

/// A weight between 0 and 1 has three digits at most. What is none weighs nothing.
fn thousandths(weight: &str) -> u32 {
    let number = weight.parse::<f32>().ok().filter(|number| (0.0..=1.0).contains(number));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1000")]
    number.map_or(0, |number| (number * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_headers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let table: [(&[&str], Format); 11] = [
            (&[], Format::Text),
            (&["*/*"], Format::Text),
            (&[prometheus], Format::OpenMetrics),
            (&["application/openmetrics-text"], Format::OpenMetrics),
            (&["text/html", "Application/OpenMetrics-Text; Version=1.0.0"], Format::OpenMetrics),
            (&["text/plain, application/openmetrics-text;q=0.9"], Format::Text),
            (&["text/plain;q=0.5", "application/openmetrics-text; q=0.5"], Format::OpenMetrics),
            (&["application/openmetrics-text;version=2.0.0"], Format::Text),
            (&["application/openmetrics-text;q=0"], Format::Text),
            (&["application/openmetrics-text;q=NaN", "application/openmetrics-text;q=-1"], Format::Text),
            (&[",;=;q,,=;version"], Format::Text),
        ];
        for (accept, expected) in table {
            assert_eq!(chosen(accept.iter().map(|value| value.as_bytes())), expected, "{accept:?}");
        }
        assert_eq!(chosen([&[0xff, b';'][..]].into_iter()), Format::Text);
    }
}
