//! Numbers as people read them: three significant digits, in the unit that fits.

/// A whole number with commas between its thousands: `12,345`.
pub fn whole(number: usize) -> String {
    apart(&number.to_string())
}

/// A count and its noun: `1 job`, `2,000 jobs`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", whole(number), if number == 1 { "" } else { "s" })
}

/// A rate and its noun: `1 Framework/s`, `2.5 Frameworks/s`.
pub fn rate(each_second: f64, noun: &str) -> String {
    let shown = short(each_second);
    let plural = if shown == "1" { "" } else { "s" };
    format!("{shown} {noun}{plural}/s")
}

/// Three significant digits: `0.954`, `12.3`, `1,235`; a dash for NaN and infinity.
pub fn short(number: f64) -> String {
    if !number.is_finite() {
        return "–".into();
    }
    let size = number.abs();
    let decimals = match size {
        0.0 => 0,
        _ if size < 0.000_000_5 => return "0".into(),
        // The number is at most 6, so the cast is exact.
        _ => (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize,
    };
    let text = format!("{number:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("−", rest));
    format!("{sign}{}", apart(text))
}

/// A time: `340 ms`, `12.3 s`, `4 min 5 s`.
pub fn time(seconds: f64) -> String {
    match seconds {
        _ if !seconds.is_finite() => "–".into(),
        0.0 => "0 s".into(),
        _ if seconds.abs() < 0.9995 => format!("{} ms", short(seconds * 1000.0)),
        _ if seconds.abs() < 120.0 => format!("{} s", short(seconds)),
        _ => {
            let whole = seconds.round();
            let (minutes, rest) = ((whole / 60.0).floor(), whole % 60.0);
            if minutes < 60.0 {
                two(minutes, "min", rest, "s")
            } else {
                two((minutes / 60.0).floor(), "h", minutes % 60.0, "min")
            }
        }
    }
}

fn two(larger: f64, unit: &str, smaller: f64, other: &str) -> String {
    if smaller == 0.0 { format!("{larger} {unit}") } else { format!("{larger} {unit} {smaller} {other}") }
}

/// A size: `512 B`, `61.4 MiB`.
pub fn size(bytes: f64) -> String {
    let (divisor, unit) = fitting("bytes", bytes.abs());
    format!("{} {unit}", short(bytes / divisor))
}

/// The second number in multiples of the first: `×1.25`.
pub fn ratio(first: f64, second: f64) -> String {
    if first == second {
        return "×1".into();
    }
    if first == 0.0 { "–".into() } else { format!("×{}", short(second / first)) }
}

/// The divisor and the unit with which numbers up to `largest` are shown.
pub fn fitting(unit: &str, largest: f64) -> (f64, String) {
    const KIB: f64 = 1024.0;
    match unit {
        "bytes" if largest >= KIB * KIB * KIB => (KIB * KIB * KIB, "GiB".into()),
        "bytes" if largest >= KIB * KIB => (KIB * KIB, "MiB".into()),
        "bytes" if largest >= KIB => (KIB, "KiB".into()),
        "bytes" => (1.0, "B".into()),
        "s" if largest < 1.0 => (0.001, "ms".into()),
        _ => (1.0, unit.into()),
    }
}

/// Inserts commas between the thousands.
fn apart(text: &str) -> String {
    let (before, after) = text.split_once('.').map_or((text, None), |(before, after)| (before, Some(after)));
    let mut shown = String::new();
    for (at, digit) in before.chars().enumerate() {
        if at > 0 && (before.len() - at) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    after.map_or(shown.clone(), |after| format!("{shown}.{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_shows_the_digits_that_matter() {
        let shown = [0.0, 0.95412, 2.0, 12.345, 1234.6, 1e-9, -3.5, 0.001234, f64::NAN].map(short);
        assert_eq!(shown, ["0", "0.954", "2", "12.3", "1,235", "0", "−3.5", "0.00123", "–"]);
        assert_eq!((whole(7), whole(1_234_567)), ("7".into(), "1,234,567".into()));
    }

    #[test]
    fn one_of_something_is_singular() {
        assert_eq!([0, 1, 2000].map(|number| count(number, "job")), ["0 jobs", "1 job", "2,000 jobs"]);
        let rates = [1.0, 0.9999, 2.5, 30.000_000_000_000_004].map(|number| rate(number, "job"));
        assert_eq!(rates, ["1 job/s", "1 job/s", "2.5 jobs/s", "30 jobs/s"]);
    }

    #[test]
    fn times_and_sizes_have_the_unit_that_fits() {
        assert_eq!(
            [0.0, 0.0123, 0.9999, 1.5, 119.6, 245.0, 3000.0, 7300.0].map(time),
            ["0 s", "12.3 ms", "1 s", "1.5 s", "120 s", "4 min 5 s", "50 min", "2 h 1 min"]
        );
        assert_eq!([512.0, 2048.0, 64_400_000.0, 3e9].map(size), ["512 B", "2 KiB", "61.4 MiB", "2.79 GiB"]);
    }

    #[test]
    fn a_ratio_to_nothing_is_a_dash() {
        assert_eq!([(2.0, 3.0), (0.0, 0.0), (0.0, 1.0)].map(|(a, b)| ratio(a, b)), ["×1.5", "×1", "–"]);
    }
}
