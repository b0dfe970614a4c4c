//! Values of foreign files that may be of any type where a number or a text is expected.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Visitor};

/// A scalar as the parser gives it.
pub(crate) enum Scalar<'a> {
    Number(Number),
    Text(&'a str),
}

/// What is made of a scalar.
pub(crate) trait FromScalar {
    fn from_scalar(scalar: Scalar<'_>) -> Self;
}

/// Visits a scalar of any type.
///
/// Lists and maps are refused, not walked: in a pickle, a few references can stand for more of them than anyone
/// can walk.
struct ScalarVisitor<T>(PhantomData<T>);

impl<'de, T: FromScalar> Visitor<'de> for ScalarVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text")
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::from_scalar(Scalar::Number(Number::Other)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<T, E> {
        Ok(T::from_scalar(Scalar::Number(Number::Signed(value))))
    }

    fn visit_u64<E>(self, value: u64) -> Result<T, E> {
        Ok(T::from_scalar(Scalar::Number(Number::Unsigned(value))))
    }

    fn visit_f64<E>(self, value: f64) -> Result<T, E> {
        Ok(T::from_scalar(Scalar::Number(Number::Float(value))))
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::from_scalar(Scalar::Text(text)))
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<T, E> {
        Ok(T::from_scalar(Scalar::Number(Number::Other)))
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::from_scalar(Scalar::Number(Number::Other)))
    }
}

/// Deserializes a scalar of any type.
pub(crate) fn scalar<'de, T: FromScalar, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(ScalarVisitor(PhantomData))
}

/// A number, or something that is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Number {
    #[default]
    Absent,
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Other,
}

impl Number {
    pub fn integer(self) -> Option<i64> {
        match self {
            Number::Signed(value) => Some(value),
            Number::Unsigned(value) => i64::try_from(value).ok(),
            Number::Absent | Number::Float(_) | Number::Other => None,
        }
    }

    pub fn unsigned(self) -> Option<u64> {
        match self {
            Number::Signed(value) => u64::try_from(value).ok(),
            Number::Unsigned(value) => Some(value),
            Number::Absent | Number::Float(_) | Number::Other => None,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Absent => f.write_str("(absent)"),
            Number::Signed(value) => value.fmt(f),
            Number::Unsigned(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
            Number::Other => f.write_str("(no number)"),
        }
    }
}

impl FromScalar for Number {
    fn from_scalar(scalar: Scalar<'_>) -> Number {
        match scalar {
            Scalar::Number(number) => number,
            // Some exporters write thread ids as texts.
            Scalar::Text(text) => text.parse().map_or(Number::Other, Number::Unsigned),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        scalar(deserializer)
    }
}

/// A dict's key, or another name. What is no text is none of those sought.
pub(crate) struct Name(pub String);

impl FromScalar for Name {
    fn from_scalar(scalar: Scalar<'_>) -> Name {
        match scalar {
            Scalar::Text(text) => Name(text.to_owned()),
            Scalar::Number(_) => Name(String::new()),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        scalar(deserializer)
    }
}

/// A pickled value that is passed over.
///
/// serde's own `IgnoredAny` would walk it: minutes where a million entries share their stack frames, and for a
/// few crafted references longer than anyone waits. `serde-pickle` drops a value that is not asked for.
pub(crate) struct Skip;

impl<'de> Deserialize<'de> for Skip {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Skip, D::Error> {
        Ok(Skip)
    }
}

/// What a visitor gives for a value of another kind, which says nothing.
macro_rules! others {
    ($value:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_bytes<E>(self, _: &[u8]) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
}
pub(super) use others;
