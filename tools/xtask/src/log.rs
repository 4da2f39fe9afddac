//! Lines of JSON, as programs log them.

use serde_json::Value;

/// The number called `field` in the last of the lines that has one.
pub fn figure(lines: &str, field: &str) -> Option<f64> {
    lines.lines().rev().find_map(|line| {
        let object: Value = serde_json::from_str(line).ok()?;
        object[field].as_f64()
    })
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figure_is_found_among_other_lines() {
        let log = "{\"event\":\"load\",\"ms\":3}\nwarning\n{\"event\":\"end\",\"tok_s\":52.5}\n";
        assert_eq!(figure(log, "tok_s"), Some(52.5));
        assert_eq!(figure(log, "event"), None);
        assert_eq!(figure("", "tok_s"), None);
    }
}
