//! An exact amount of a resource: the value of a Kubernetes quantity, in billionths.
//!
//! Reading follows the grammar in the API reference ("Quantity") with the suffixes `n` and `u`, which the
//! API server takes and writes as well. As there, fractions of a billionth are rounded up, and 2^63 - 1 is
//! the largest value. Arithmetic stops at the ends of its range instead of wrapping.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Billionths of a unit.
// Aligned like an id: indexes hold an amount and an id per entry, and would be a third larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(8))]
pub struct Amount(i128);

/// A text that is not a quantity, at most the first hundred characters of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity: give one such as 2, 500m or 1.5Gi")]
pub struct QuantityError(pub String);

/// The most characters of a name or of a quantity that an error repeats.
pub(crate) const SHOWN: usize = 100;

const BILLION: i128 = 1_000_000_000;
/// The largest value of a quantity.
const MOST: i128 = i64::MAX as i128 * BILLION;
/// Digits after the point that are read one by one; further digits only round up.
const FINE: i64 = 20;

const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount that a quantity can say.
    pub const LARGEST: Self = Self(MOST);
    /// The largest amount: no limit.
    pub const MAX: Self = Self(i128::MAX);
    /// The smallest amount.
    pub const MIN: Self = Self(i128::MIN);

    /// A number of whole units.
    pub const fn units(units: i64) -> Self {
        Self(units as i128 * BILLION)
    }

    /// Billionths of a unit.
    pub const fn nanos(self) -> i128 {
        self.0
    }

    /// The amount of a quantity.
    pub fn of(quantity: &Quantity) -> Result<Self, QuantityError> {
        quantity.0.parse()
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference; negative if the other is larger.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The amount, `count` times.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count as i128))
    }

    /// The share of a whole in parts per billion. Zero is a share of 0 of any whole; of a whole of zero,
    /// any other amount is more than any share.
    pub fn parts_per_billion(self, whole: Self) -> u64 {
        match (self.0 > 0, whole.0 > 0) {
            (false, _) => 0,
            (true, false) => u64::MAX,
            (true, true) => {
                u64::try_from(self.0.saturating_mul(BILLION).saturating_div(whole.0)).unwrap_or(u64::MAX)
            }
        }
    }

    /// The quantity in its canonical form: no fraction, the largest suffix that leaves none.
    pub fn to_quantity(self) -> Quantity {
        Quantity(self.to_string())
    }
}

/// The factor of a number: a power of 1024, or of ten.
enum Scale {
    Binary(u32),
    Decimal(i64),
}

impl FromStr for Amount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let refused = || QuantityError(text.chars().take(SHOWN).collect());
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(refused());
        }
        let amount = match scale(suffix).ok_or_else(refused)? {
            Scale::Decimal(power) => scaled(whole, fraction, power, 1),
            Scale::Binary(power) => scaled(whole, fraction, 0, 1024_u128.saturating_pow(power)),
        };
        Ok(if text.starts_with('-') { Self(-amount) } else { Self(amount) })
    }
}

fn scale(suffix: &str) -> Option<Scale> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some(Scale::Binary(*power));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some(Scale::Decimal(*power));
    }
    // `E` alone is a suffix; with a number behind it, it is an exponent. Kubernetes keeps its low 32 bits.
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some(Scale::Decimal(exponent << 32 >> 32))
}

/// `whole.fraction` times ten to the `power` times `factor`, in billionths, rounded up; at most [`MOST`].
///
/// Each digit goes where its weight puts it, so the length of the text costs time and never exactness. The
/// factor is at most 1024^6, so no value here comes near the end of its type.
fn scaled(whole: &str, fraction: &str, power: i64, factor: u128) -> i128 {
    let length = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let (mut units, mut fine, mut rest) = (0_u128, 0_u128, false);
    let mut weight = length.saturating_add(power);
    for digit in whole.bytes().chain(fraction.bytes()) {
        weight = weight.saturating_sub(1);
        let digit = u128::from(digit.saturating_sub(b'0'));
        match (digit, u32::try_from(weight), u32::try_from(weight.saturating_add(FINE))) {
            (0, ..) => {}
            (_, Ok(19..), _) => return MOST,
            (_, Ok(weight), _) => units = units.saturating_add(digit.saturating_mul(10_u128.pow(weight))),
            (_, _, Ok(weight)) => fine = fine.saturating_add(digit.saturating_mul(10_u128.pow(weight))),
            _ => rest = true,
        }
    }
    let fine = fine.saturating_add(u128::from(rest)).saturating_mul(factor);
    let whole = units.saturating_mul(factor).saturating_mul(BILLION.unsigned_abs());
    let nanos = whole.saturating_add(fine.div_ceil(10_u128.pow(11)));
    i128::try_from(nanos).unwrap_or(MOST).min(MOST)
}

impl fmt::Display for Amount {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = decimal_form(self.0);
        match binary_form(self.0) {
            Some(binary) if binary.len() < decimal.len() => to.write_str(&binary),
            _ => to.write_str(&decimal),
        }
    }
}

fn decimal_form(nanos: i128) -> String {
    let (mut number, mut suffix) = (nanos, "n");
    for (_, pair) in DECIMAL.iter().zip(DECIMAL.iter().skip(1)) {
        if number == 0 || number % 1000 != 0 {
            break;
        }
        (number, suffix) = (number / 1000, pair.0);
    }
    if number == 0 { "0".to_owned() } else { format!("{number}{suffix}") }
}

/// The form in which sizes of memory are read: `Mi` and larger units, where that leaves no fraction.
fn binary_form(nanos: i128) -> Option<String> {
    let (mut number, mut suffix) = (nanos / BILLION, "");
    if nanos % BILLION != 0 || number == 0 || number % (1 << 20) != 0 {
        return None;
    }
    for (name, _) in BINARY {
        if number % 1024 != 0 {
            break;
        }
        (number, suffix) = (number / 1024, name);
    }
    Some(format!("{number}{suffix}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<i128> {
        text.parse::<Amount>().ok().map(Amount::nanos)
    }

    #[test]
    fn a_valid_quantity_is_read_exactly() {
        let unit = BILLION;
        let table = [
            ("0", 0),
            ("1", unit),
            ("+1", unit),
            ("-1", -unit),
            ("007", 7 * unit),
            ("1.", unit),
            (".5", unit / 2),
            ("1.5", 3 * unit / 2),
            ("100m", unit / 10),
            ("0.1", unit / 10),
            ("1n", 1),
            ("1u", 1_000),
            ("2k", 2_000 * unit),
            ("2M", 2_000_000 * unit),
            ("1G", 1_000_000_000 * unit),
            ("1T", 1_000_000_000_000 * unit),
            ("1P", 1_000_000_000_000_000 * unit),
            ("1E", 1_000_000_000_000_000_000 * unit),
            ("1Ki", 1_024 * unit),
            ("1.5Gi", 1_610_612_736 * unit),
            ("128974848", 128_974_848 * unit),
            ("129M", 129_000_000 * unit),
            ("123Mi", 123 * 1_048_576 * unit),
            ("0.5Ti", 549_755_813_888 * unit),
            ("1Pi", 1_125_899_906_842_624 * unit),
            ("1Ei", 1_152_921_504_606_846_976 * unit),
            ("1e3", 1_000 * unit),
            ("1E3", 1_000 * unit),
            ("1e+3", 1_000 * unit),
            ("12.5e1", 125 * unit),
            ("12e-3", 12 * unit / 1_000),
            ("0e999999", 0),
            ("5e-4294967296", 5 * unit),
            ("2e4294967299", 2_000 * unit),
            ("5e4294967295", unit / 2),
            ("0.0000000000000000000001e22", unit),
        ];
        for (text, nanos) in table {
            assert_eq!(read(text), Some(nanos), "{text}");
        }
    }

    #[test]
    fn an_invalid_quantity_is_refused() {
        let table = [
            "",
            ".",
            "+",
            "-",
            "+.",
            "m",
            "Ki",
            "1 ",
            " 1",
            "1 Ki",
            "1ki",
            "1KI",
            "1K",
            "1g",
            "1mi",
            "1Ti2",
            "1.2.3",
            "1..2",
            "--1",
            "+-1",
            "1e",
            "1ee3",
            "1e1.5",
            "1e 3",
            "0x10",
            "1_000",
            "1,5",
            "NaN",
            "١",
            "1e99999999999999999999",
            "1Mi5",
            "1i",
        ];
        for text in table {
            assert_eq!(read(text), None, "{text}");
        }
        let error = "1 Ki".parse::<Amount>().unwrap_err();
        assert_eq!(error.to_string(), "\"1 Ki\" is not a quantity: give one such as 2, 500m or 1.5Gi");
    }

    #[test]
    fn too_fine_is_rounded_up_and_too_large_is_the_largest() {
        assert_eq!(read("0.1n"), Some(1));
        assert_eq!(read("-0.1n"), Some(-1), "away from nothing");
        assert_eq!(read("1.0000000001"), Some(BILLION + 1));
        assert_eq!(read("1e-400"), Some(1));
        assert_eq!(read(&format!("0.{}1", "0".repeat(500))), Some(1));
        assert_eq!(read("9223372036854775807"), Some(MOST));
        for text in ["9223372036854775808", "1e19", "9Ei", "1000E", "1e400", "99999999999999999999Ki"] {
            assert_eq!(read(text), Some(MOST), "{text}");
        }
        assert_eq!(read("-1e400"), Some(-MOST));
    }

    #[test]
    fn the_canonical_form_has_no_fraction_and_the_largest_suffix() {
        let table = [
            ("0", "0"),
            ("1.5", "1500m"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("40", "40"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("68719476736", "64Gi"),
            ("1e9", "1G"),
            ("1e18", "1E"),
            ("4e18", "4E"),
            ("1Ki", "1024"),
            ("0.1n", "1n"),
            ("-2.5", "-2500m"),
            ("1025Mi", "1025Mi"),
        ];
        for (text, canonical) in table {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(Amount::MAX.plus(Amount::units(1)), Amount::MAX);
        assert_eq!(Amount::MIN.minus(Amount::units(1)), Amount::MIN);
        assert_eq!(Amount::MAX.times(u64::MAX), Amount::MAX);
        assert_eq!(Amount::units(3).times(4), Amount::units(12));
    }

    #[test]
    fn a_part_of_nothing_is_more_than_any_part() {
        let parts = |part: i64, whole: i64| Amount::units(part).parts_per_billion(Amount::units(whole));
        assert_eq!(parts(1, 4), 250_000_000);
        assert_eq!(parts(6, 4), 1_500_000_000);
        assert_eq!([parts(0, 0), parts(0, 4), parts(-1, 4)], [0; 3]);
        assert_eq!(parts(1, 0), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_written_quantity_is_read_back(nanos in -MOST..=MOST, power in 0..9_u32) {
            // Round numbers, or suffixes would hardly ever be used.
            let nanos = nanos / 1000_i128.pow(power) * 1000_i128.pow(power);
            prop_assert_eq!(read(&Amount(nanos).to_string()), Some(nanos));
        }

        #[test]
        fn a_written_binary_quantity_is_read_back(units in 0..i64::MAX, bits in 0..63_u32) {
            let amount = Amount::units(units >> bits << bits);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        }

        #[test]
        fn any_text_gets_an_answer(text in "[-+.0-9eEKMGTPimnuk ]{0,40}|\\PC*") {
            if let Some(nanos) = read(&text) {
                prop_assert!((-MOST..=MOST).contains(&nanos));
            }
        }
    }
}
